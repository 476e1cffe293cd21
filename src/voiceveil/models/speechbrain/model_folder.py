"""Base of the three evaluators in folders of SpeechBrain: their files, their names and their checks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from voiceveil.core.errors import InputError
from voiceveil.models.pretrained import digest_files
from voiceveil.models.speechbrain import Mode
from voiceveil.models.speechbrain.files import checkpoint

__all__ = ["SpeechBrainModel", "folder_argument", "registered_name"]

_UNFINISHED = "checkpoint.safetensors"  # is there while `voiceveil train` is at work, or was interrupted


def registered_name(mode: Mode) -> str:
    """Return the name before the colon of ``NAME:FOLDER``."""
    return "speechbrain" if mode == "official" else f"speechbrain-{mode}"


def folder_argument(argument: str | None, mode: Mode, kind: type[SpeechBrainModel]) -> Path:
    """Return the folder of ``NAME:FOLDER``; an ``InputError`` if the user has named none."""
    if not argument:
        name = registered_name(mode)
        fix = f"write {name}:FOLDER, e.g. {name}:{kind.example}"
        raise InputError(f"the {kind.kind} {name} needs a folder", fix=fix)
    return Path(argument)


@dataclass(frozen=True)
class SpeechBrainModel:
    """A model in a folder that SpeechBrain, or a training here, wrote.

    A class that derives from it names its files, and returns the loaded model from ``_model``.

    Parameters
    ----------
    path : Path
        Folder of the training, or one of its ``CKPT+<number>``.
    mode : {"official", "correct"}
        What the challenge's code computes, or the same without its bugs.
    """

    path: Path
    mode: Mode = "official"

    rate: ClassVar[int] = 16000
    #: What the user calls it, the folder of it in the challenge's checkout, and the version of the computation.
    kind: ClassVar[str] = "model"
    example: ClassVar[str] = "exp"
    version: ClassVar[int] = 1
    #: Files that results depend on; of several names the first that is there.
    file_names: ClassVar[tuple[tuple[str, ...], ...]] = ()

    @property
    def folder(self) -> Path:
        """Folder of the weights, e.g. ``exp/asv_orig/CKPT+10``; an ``InputError`` if there is none."""
        path = Path(self.path)
        if not path.is_dir():
            fix = f"give a folder like {self.example} of the challenge"
            raise InputError(f"no such folder of the {self.kind}", where=path, fix=fix)
        if (path / _UNFINISHED).exists():
            fix = "run the same `voiceveil train` again to its end, or name one of the folders CKPT+<number> in it"
            raise InputError(f"the training of the {self.kind} has not finished", where=path, fix=fix)
        return checkpoint(path, self.mode)

    @property
    def files(self) -> list[Path]:
        """The files of ``file_names``; an ``InputError`` if one is missing."""
        folder = self.folder
        chosen = []
        for names in self.file_names:
            present = [folder / name for name in names if (folder / name).is_file()]
            if not present:
                fix = f"give {self.example} of the challenge, or a folder like it"
                raise InputError(f"the {self.kind} has no {' or '.join(names)}", where=folder, fix=fix)
            chosen.append(present[0])
        return chosen

    def fingerprint(self) -> str:
        """Return version and hash of the files, and what else results depend on."""
        return " ".join(["speechbrain", self.kind, str(self.version), digest_files(self.files), *self._variant()])

    def check(self) -> None:
        """Raise an ``InputError`` now, before the work begins, if the model cannot be used."""
        self._model()

    def _variant(self) -> list[str]:
        """Return settings that results depend on."""
        return []

    def _model(self) -> Any:
        """Return the loaded model; it is kept for the next call."""
        raise NotImplementedError

    def _stamps(self) -> tuple[int, ...]:
        """Return the times of the files: a model that was loaded before is loaded again if they change."""
        return tuple(path.stat().st_mtime_ns for path in self.files)
