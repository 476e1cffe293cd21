"""Real speech for `voiceveil demo`: 20 speakers to attack and 20 others to train the attacker, from LibriSpeech.

The folder ``speech`` beside this module holds four Kaldi directories (``demo_enrolls``, ``demo_trials_f``,
``demo_trials_m``, ``demo_train``) with Ogg Opus audio, the protocol ``demo.toml``, and ``NOTE.txt``, which every report
on these data repeats. ``scripts/demo_corpus.py`` cut it from LibriSpeech dev-clean (CC BY 4.0, see NOTICE).
"""

from __future__ import annotations

import shutil
from pathlib import Path

from voiceveil.core.atomic_files import atomic_path

__all__ = ["PROTOCOL", "SPEECH", "copy_corpus", "corpus_files"]

#: The folder of the corpus inside the package.
SPEECH = Path(__file__).with_name("speech")
#: The file name of its protocol.
PROTOCOL = "demo.toml"


def corpus_files(folder: Path) -> dict[Path, Path]:
    """Return the files of a copy of the corpus in ``folder``: path there -> path in the package."""
    return {folder / path.relative_to(SPEECH): path for path in sorted(SPEECH.rglob("*")) if path.is_file()}


def copy_corpus(folder: Path, *, overwrite: bool = False) -> None:
    """Copy the corpus and its protocol into ``folder``.

    Parameters
    ----------
    folder
        The place of the four Kaldi directories; it is created.
    overwrite
        Copy files that are already there, too.

    Raises
    ------
    InputError
        If a file is in the way that the program did not write, in a folder with a record of its files
        (:func:`voiceveil.run.outputs.recorded`).
    """
    for target, source in corpus_files(folder).items():
        if overwrite or not target.exists():
            with atomic_path(target) as part:
                shutil.copyfile(source, part)
