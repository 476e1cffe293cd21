"""Where the output goes: the same shape as the input, with the audio replaced.

a.wav                        OUT (a file if it ends in .wav or .flac, else OUT/a.wav)
folder/spk/a.flac            OUT/spk/a.wav
data/libri_dev_enrolls       OUT/libri_dev_enrolls_b2/{wav.scp, utt2spk, ..., wav/*.wav}    (a Kaldi directory)
corpus:path                  the same: a Kaldi directory OUT/<corpus><suffix>
list.csv, list.jsonl         OUT/list.csv with the audio in OUT/audio
recordings.jsonl.gz          OUT/recordings.jsonl.gz and OUT/supervisions.jsonl.gz (Lhotse), audio in OUT/audio
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path, PurePosixPath

from voiceveil.audio import AUDIO_SUFFIXES
from voiceveil.corpus import Corpus, Listing, Trials, Utterance, write_kaldi, write_manifest
from voiceveil.corpus.model import Utterances
from voiceveil.errors import InputError
from voiceveil.ondisk import DiskDict

__all__ = ["Layout", "plan_layout"]

_MANIFESTS = {"manifest", "lhotse"}


@dataclass(frozen=True)
class Layout:
    """The output's folder, the audio file of an utterance (by its id), and how to write the metadata at the end.

    ``write_metadata`` takes what :meth:`outputs` returns. ``folders``: all that audio goes to.
    """

    folder: Path
    target: Callable[[str], Path]
    write_metadata: Callable[[Utterances], None]
    folders: frozenset[Path] = frozenset()

    def outputs(self, corpus: Listing, seconds: Callable[[str], float]) -> Utterances:
        """Return the utterances as the output has them; ``seconds`` gives the length of an output file by its id.

        Where the input states a length, the output states its own: the original one may be what the system hides.
        """
        return _Outputs(corpus, self.target, seconds)

    @property
    def ledger(self) -> Path:
        """Where the record of finished items is kept."""
        return self.folder / ".voiceveil" / "ledger.jsonl"


def plan_layout(corpus: Listing, out: Path, *, suffix: str, extension: str, manifest_name: str | None = None) -> Layout:
    """Decide where everything goes, and refuse what would touch the input."""
    if "/" in suffix or "\0" in suffix:
        raise InputError(f"the suffix {suffix!r} is not the end of a name")
    if corpus.kind == "file":
        layout = _of_file(corpus, out, extension)
    elif corpus.kind == "folder":
        layout = Layout(out, partial(_below, out, extension), _nothing)
    elif corpus.kind in _MANIFESTS:
        manifest = out / (manifest_name or f"{corpus.name}.jsonl")
        target = partial(_below, out / "audio", extension)
        write = _write_lhotse if corpus.kind == "lhotse" else write_manifest
        layout = Layout(out, target, lambda outputs: write(outputs, manifest))
    else:
        folder = out / f"{corpus.name}{suffix}"
        target = partial(_below, folder / "wav", extension)
        layout = Layout(folder, target, partial(_write_kaldi, folder, corpus.name))
    return replace(layout, folders=_protect_input(corpus, layout))


def _of_file(corpus: Listing, out: Path, extension: str) -> Layout:
    (utterance,) = corpus
    if out.suffix.lower() in AUDIO_SUFFIXES - {".wav", ".flac"} and not out.is_dir():
        raise InputError(f"cannot write {out.suffix}", where=out, fix="use .wav or .flac")
    if out.suffix.lower() in {".wav", ".flac"} and not out.is_dir():
        return Layout(out.parent, lambda id: out, _nothing)
    return Layout(out, lambda id: out / f"{utterance.path.stem}{extension}", _nothing)


def _below(folder: Path, extension: str, id: str) -> Path:
    """The id as a path below ``folder``: an id comes from data, and must not lead out of it."""
    path = PurePosixPath(id)
    if path.is_absolute() or ".." in path.parts or "\\" in id or "\0" in id:
        raise InputError(f"the id {id!r} leads out of the output folder", fix="rename the utterance")
    return folder / path.parent / f"{path.name}{extension}"


def _protect_input(corpus: Listing, layout: Layout) -> frozenset[Path]:
    """The folders that audio goes to; an ``InputError`` if anything of the input or of the output is in danger."""
    # First by folders, of which there are few: in flat memory, and without asking the system for every file.
    resolved = _Resolving()
    sources, targets, plain = set(), set(), True
    for utterance in corpus:
        sources.add(resolved(utterance.path).parent)
        targets.add(layout.target(utterance.id).parent)
        plain = plain and str(PurePosixPath(utterance.id)) == utterance.id
    both = sources & {folder.resolve() for folder in targets}
    there = {path for path in (resolved(u.path) for u in corpus) if path.parent in both} if both else set()
    for target in (layout.target(u.id) for u in corpus) if both else ():
        if resolved(target) in there:
            raise InputError("the output would replace the input", where=target, fix="give another output folder")
    # A file or a manifest may lie in the folder that its output goes below; other corpora are folders of their own.
    root = None if corpus.root is None or corpus.kind in {"file", *_MANIFESTS} else corpus.root.resolve()
    if root is not None and layout.folder.resolve().is_relative_to(root):
        raise InputError(
            f"the output folder lies inside the input {corpus.root}", where=layout.folder, fix="give one outside of it"
        )
    taken = DiskDict()
    for id in (utterance.id for utterance in corpus) if not plain else ():  # ids are unique, and plain ones are paths
        target = layout.target(id)
        if str(target) in taken:
            raise InputError(f"utterances {taken[str(target)]!r} and {id!r} would become one file", where=target)
        taken[str(target)] = id
    return frozenset(targets)


class _Resolving:
    """Paths without symbolic links; asking the system for every part of each would take longer than all the rest."""

    def __init__(self) -> None:
        self._folder = lru_cache(maxsize=1024)(Path.resolve)

    def __call__(self, path: Path) -> Path:
        return path.resolve() if path.is_symlink() else self._folder(path.parent) / path.name


def _write_kaldi(folder: Path, name: str, outputs: Utterances) -> None:
    corpus = Corpus(name, tuple(outputs), outputs.trials)
    write_kaldi(corpus, folder, {u.id: u.path for u in corpus})


def _write_lhotse(outputs: Utterances, manifest: Path) -> None:
    from voiceveil.corpus.lhotse import write_lhotse

    write_lhotse(Corpus(manifest.stem, tuple(outputs), outputs.trials), manifest.parent)


@dataclass(frozen=True)
class _Outputs:
    """The same utterances, with the audio that was made of them and its length."""

    corpus: Listing
    target: Callable[[str], Path]
    seconds: Callable[[str], float]

    @property
    def trials(self) -> Trials | None:
        return self.corpus.trials

    def __iter__(self) -> Iterator[Utterance]:
        for u in self.corpus:
            seconds = None if u.seconds is None else self.seconds(u.id)
            yield replace(u, path=self.target(u.id), start=0.0, duration=None, seconds=seconds)


def _nothing(outputs: Utterances) -> None:
    """A folder of audio has no metadata."""
