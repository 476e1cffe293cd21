"""IEMOCAP (sail.usc.edu/iemocap) as it is distributed.

    Session1/sentences/wav/Ses01F_impro01/Ses01F_impro01_F000.wav
    Session1/dialog/EmoEvaluation/Ses01F_impro01.txt    [start - end] <utterance> <emotion> [valence, ...], tabs between
    Session1/dialog/transcriptions/Ses01F_impro01.txt   <utterance> [start-end]: <text>

As in the VoicePrivacy 2024 evaluation plan, section 3.2: the four emotions ang, hap, neu and sad, with excitement
counted as happiness; the others are left out. ``fold`` is the session (1 to 5); ``subset`` tells whether the speaker
is the development or the evaluation speaker of that fold (Table 2).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from voiceveil.corpus.distributed import sorted_corpus
from voiceveil.corpus.faults import Fault, Report, strict
from voiceveil.corpus.lines import read_lines
from voiceveil.corpus.model import Corpus, Utterance
from voiceveil.corpus.readers import corpora

__all__ = ["DEVELOPMENT", "EMOTIONS", "TABLE_2", "read_iemocap"]

#: IEMOCAP's label -> ours.
EMOTIONS = {"ang": "ang", "hap": "hap", "exc": "hap", "neu": "neu", "sad": "sad"}
#: The gender of the development speaker of each session; the other speaker is the evaluation speaker (Table 2).
#: Sessions 3 to 5 are garbled in the text of that table: compare with the official ``spk2fold`` files.
DEVELOPMENT = {"1": "f", "2": "m", "3": "f", "4": "m", "5": "m"}
#: Utterances of each speaker, (session, gender) -> number (Table 2): what a complete copy has.
TABLE_2 = {
    ("1", "f"): 528, ("1", "m"): 557, ("2", "f"): 481, ("2", "m"): 542, ("3", "f"): 522,
    ("3", "m"): 629, ("4", "f"): 528, ("4", "m"): 503, ("5", "f"): 590, ("5", "m"): 651,
}  # fmt: skip
_LABEL = re.compile(r"\[[^]]*\]\t(\S+)\t(\w+)\t")
_NAME = re.compile(r"(Ses0([1-5]))[FM]_\w+_([FM])\d+")


@corpora.register("iemocap")
def read_iemocap(path: Path, report: Report = strict) -> Corpus:
    """Read IEMOCAP; the path holds ``Session1`` to ``Session5``."""
    return sorted_corpus("iemocap", path, _utterances(path, report), "SessionN/dialog/EmoEvaluation/*.txt", report)


def _utterances(path: Path, report: Report) -> Iterator[Utterance]:
    for file in sorted(path.glob("Session[1-5]/dialog/EmoEvaluation/*.txt")):
        if file.name.startswith("."):
            continue
        texts = _texts(file.parents[1] / "transcriptions" / file.name, report)
        for number, line in read_lines(file, report):
            label = _LABEL.match(line)
            if label is None or label[2] not in EMOTIONS:
                continue
            name = _NAME.fullmatch(label[1])
            if name is None:
                report(Fault(file, number, f"not the name of an utterance: {label[1]}", fix="restore the file"))
                continue
            session, gender = name[2], name[3].lower()
            yield Utterance(
                label[1],
                file.parents[2] / "sentences" / "wav" / file.stem / f"{label[1]}.wav",
                speaker=f"{name[1]}{name[3]}",
                gender=gender,
                text=texts.get(label[1]),
                emotion=EMOTIONS[label[2]],
                fold=session,
                subset="dev" if DEVELOPMENT[session] == gender else "eval",
            )


def _texts(path: Path, report: Report) -> dict[str, str]:
    """Return utterance -> text; empty if there is no such file."""
    texts = {}
    for _, line in read_lines(path, report) if path.is_file() else ():
        head, colon, text = line.partition("]: ")
        if colon:
            texts[head.split(" ")[0]] = text.strip()
    return texts
