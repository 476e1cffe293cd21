"""An example corpus: spoken digits in folders like digits/S01/7_03.wav (speaker, digit, repetition)."""

from __future__ import annotations

import re
from pathlib import Path

from voiceveil.corpus import Corpus, Fault, Utterance, corpora
from voiceveil.corpus.faults import Report, strict

WORDS = ["ZERO", "ONE", "TWO", "THREE", "FOUR", "FIVE", "SIX", "SEVEN", "EIGHT", "NINE"]


@corpora.register("digits")
def read_digits(path: Path, report: Report = strict) -> Corpus:
    """Return a corpus with one utterance for each file; a file with another name is reported."""
    utterances = []
    for file in sorted(path.glob("*/*.wav")):
        name = re.fullmatch(r"(\d)_\d+", file.stem)
        if name is None:
            report(Fault(file, None, "not named <digit>_<repetition>.wav", fix="rename it"))
            continue
        speaker = file.parent.name
        utterances.append(Utterance(f"{speaker}-{file.stem}", file, speaker=speaker, text=WORDS[int(name[1])]))
    return Corpus("digits", tuple(utterances), kind="digits", root=path)
