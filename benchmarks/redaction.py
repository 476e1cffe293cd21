"""Redaction: how many of the names and numbers that are spoken are gone, and how many other words with them.

    python benchmarks/redaction.py DATA --names-model en_core_web_sm [--system veil] [--utterances 3]

DATA holds ``libri_dev_trials_f`` and ``libri_dev_trials_m``, whose transcripts say which words are spoken. Planted
names are those that the spaCy pipeline finds in the transcript; as it has no capitals, words get those of the
recognizer's words that they are matched with, and words that are in no English dictionary get one (but for
derivations: "auspiciously"). Planted numbers are
number words in the transcript. Up to so many utterances with names, and as many with numbers, are taken from each
speaker.

Every row is one way to find them: a list of the planted names of each speaker, the pipeline, rules for numbers that
identify (dates, years), all numbers, and the list again with the transcript given. The recordings are anonymized with
``--redact`` and judged by the output: the true transcript is aligned with the original, and a planted word is gone if
all of its time is covered by the tone. "Lost" are other words whose time the tone touches at all. Intervals of 95% are
over speakers. Speakers with odd ids were used for tuning, those with even ids were not.
"""

from __future__ import annotations

import argparse
import csv
import os
import re
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np

import voiceveil as vv
from voiceveil.audio import info, load
from voiceveil.core.tables import Table
from voiceveil.corpus import Corpus, Utterance, open_corpus
from voiceveil.dsp.tone import tone
from voiceveil.models.asr.alignment import align
from voiceveil.models.asr.pronunciation import in_dictionary
from voiceveil.models.asr.recognition import recognizer
from voiceveil.stats.rates import ratio
from voiceveil.stats.values import Estimate
from voiceveil.systems.redaction.location import distribute
from voiceveil.systems.redaction.names import find_names, pipeline_folder
from voiceveil.systems.redaction.numbers import find_numbers
from voiceveil.systems.redaction.spans import FADE, union

RATE = 16000
SEED = 2026
CANDIDATES = 20  # utterances of a speaker that names are looked for in
ENDINGS = (
    "ly",
    "ness",
    "ies",
    "ing",
    "ed",
    "ful",
    "less",
    "ity",
)  # of words that are no names if no dictionary has them
LENGTHS = 2.0, 16.0  # seconds of an utterance


@dataclass(frozen=True)
class Item:
    """An utterance, the times of its words, and which of them are planted."""

    utterance: Utterance
    times: list[tuple[float, float]]
    planted: set[int]

    @property
    def words(self) -> list[str]:
        """Words of the transcript."""
        return (self.utterance.text or "").split()


@dataclass
class Judged:
    """Words of one speaker: planted, of these missed, others, of these lost; seconds of tone that are none."""

    speaker: str
    planted: int = 0
    missed: int = 0
    others: int = 0
    lost: int = 0
    not_tone: int = 0
    misses: list[str] = field(default_factory=list)


def aligned(utterance: Utterance) -> list[tuple[float, float]] | None:
    """Return the times of the words of the true transcript in the original; None if it does not fit."""
    alignment = align(load(utterance.path, rate=RATE), utterance.text or "")
    if alignment is None or len(alignment.words) != len((utterance.text or "").split()):
        return None
    return [(word.start, word.end) for word in alignment.words]


def planted_names(text: str, heard: str, pipeline: Path) -> set[int]:
    """Return which words of a transcript in capitals are names."""
    words = text.split()
    cased = distribute([word.lower() for word in words], [heard])[0].split()
    if len(cased) != len(words):
        return set()
    for place, word in enumerate(words):
        if not in_dictionary(word.lower()) and not word.lower().endswith(ENDINGS):
            cased[place] = cased[place].capitalize()
    return {place for first, last in find_names(" ".join(cased), pipeline) for place in range(first, last + 1)}


def listed_names(items: Sequence[Item]) -> list[str]:
    """Return the planted names of a speaker's items, as they are spoken ("MARY ANN"), and each of their words."""
    names = set()
    for item in items:
        runs = "".join("+" if place in item.planted else " " for place in range(len(item.words)))
        for run in re.finditer(r"[+]+", runs):
            names |= {" ".join(item.words[run.start() : run.end()]), *item.words[run.start() : run.end()]}
    return sorted(names)


def choose(data: Path, pipeline: Path, count: int, wanted: Callable[[str], bool]) -> dict[str, list[Item]]:
    """Return the items with names, with numbers that identify, and with any number, of the speakers that are wanted."""
    rng = np.random.default_rng(SEED)
    spoken: dict[str, list[Utterance]] = {}
    for name in ("libri_dev_trials_f", "libri_dev_trials_m"):
        for utterance in open_corpus(data / name):
            if wanted(str(utterance.speaker)) and LENGTHS[0] <= info(utterance.path).duration <= LENGTHS[1]:
                spoken.setdefault(str(utterance.speaker), []).append(utterance)
    chosen: dict[str, list[Item]] = {"names": [], "numbers": [], "numbers=all": []}
    model = recognizer("moonshine")
    for speaker in sorted(spoken):
        order = [spoken[speaker][i] for i in rng.permutation(len(spoken[speaker]))]
        left = count
        for utterance in order[:CANDIDATES]:
            heard = model(load(utterance.path, rate=RATE))
            places = planted_names(utterance.text or "", heard, pipeline)
            if left and places and (times := aligned(utterance)) is not None:
                chosen["names"].append(Item(utterance, times, places))
                left -= 1
        for kind in ("numbers", "numbers=all"):
            left = count
            for utterance in order if left else ():
                found = find_numbers(utterance.text or "", all_numbers=kind == "numbers=all")
                if left and found and (times := aligned(utterance)) is not None:
                    places = {place for first, last in found for place in range(first, last + 1)}
                    chosen[kind].append(Item(utterance, times, places))
                    left -= 1
    return chosen


def redacted(items: Sequence[Item], folder: Path, system: str, *, known_text: bool, **options: object) -> Path:
    """Anonymize the items of one speaker with redaction; return the list of what was removed."""
    listing = folder / "redactions.csv"
    utterances = tuple(item.utterance if known_text else replace(item.utterance, text=None) for item in items)
    corpus = Corpus("planted", utterances)
    summary = vv.anonymize(corpus, folder / "out", system=system, seed=SEED, redactions=listing, **options)  # type: ignore[arg-type]
    if summary.failures:
        print(summary)
    return listing


def judge(items: Sequence[Item], listing: Path, out: Path, speaker: str) -> Judged:
    """Count the words of one speaker's items."""
    spans: dict[str, list[tuple[float, float]]] = {}
    with listing.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            spans.setdefault(row["recording"], []).append((float(row["start"]), float(row["end"])))
    result = Judged(speaker)
    for item in items:
        paths = list(out.rglob(f"{item.utterance.id}.wav"))
        covered = union(spans.get(item.utterance.id, [])) if paths else [(0.0, 1e9)]  # a failure writes nothing
        for place, (start, end) in enumerate(item.times):
            if place in item.planted:
                result.planted += 1
                gone = any(a <= start and end <= b for a, b in covered)
                result.missed += not gone
                if not gone:
                    result.misses.append(f"{item.utterance.id} {item.words[place]} at {start:.2f} s")
            else:
                result.others += 1
                result.lost += any(a < end and start < b for a, b in covered)
        for path in paths:
            wave = load(path)
            for a, b in covered:
                first, last = round((a + FADE) * wave.rate) + 1, round((b - FADE) * wave.rate) - 1
                part = wave.samples[first:last]
                result.not_tone += bool(
                    np.abs(part - tone(len(part), wave.rate, first / wave.rate)).max(initial=0) > 1e-3
                )
    return result


def recall(judged: Sequence[Judged]) -> str:
    """Return the share of planted words that are gone, in words."""
    with_words = [entry for entry in judged if entry.planted]
    missed = ratio(
        [e.missed for e in with_words], [e.planted for e in with_words], [e.speaker for e in with_words], top=1.0
    )
    return str(Estimate(1 - missed.value, 1 - missed.high, 1 - missed.low, missed.se, missed.n, missed.of, unit="%"))


def lost(judged: Sequence[Judged]) -> str:
    """Return the share of other words that the tone touches, in words."""
    return str(ratio([e.lost for e in judged], [e.others for e in judged], [e.speaker for e in judged], top=1.0))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--names-model", required=True)
    parser.add_argument("--system", default="veil")
    parser.add_argument("--utterances", type=int, default=3)
    parser.add_argument("--only", choices=["odd", "even"], help="speakers")
    parser.add_argument("--misses", action="store_true", help="print the planted words that are not gone")
    parser.add_argument("--rows", default="list,names,numbers,numbers=all,list+text")
    args = parser.parse_args()
    start = time.process_time()
    odd = {"odd": (1,), "even": (0,), None: (0, 1)}[args.only]
    pipeline = pipeline_folder(args.names_model)
    chosen = choose(args.data, pipeline, args.utterances, lambda speaker: int(speaker) % 2 in odd)
    for kind, items in chosen.items():
        speakers = {item.utterance.speaker for item in items}
        print(f"{kind}: {len(items)} utterances, {sum(len(i.planted) for i in items)} words, {len(speakers)} speakers")
        if args.misses:
            print("planted:", *(" ".join(i.words[place] for place in sorted(i.planted)) for i in items), sep="\n  ")
    rows = []
    for row in args.rows.split(","):
        items = chosen[row if row in chosen else "names"]
        judged = []
        for speaker in sorted({str(item.utterance.speaker) for item in items}):
            own = [item for item in items if item.utterance.speaker == speaker]
            names = listed_names(own)
            options: dict[str, object] = (
                {"redact": "words", "words": names} if row.startswith("list") else {"redact": row}
            )
            if row == "names":
                options["names_model"] = args.names_model
            with tempfile.TemporaryDirectory() as folder:
                listing = redacted(own, Path(folder), args.system, known_text=row == "list+text", **options)
                judged.append(judge(own, listing, Path(folder) / "out", speaker))
            if args.misses and judged[-1].misses:
                print(row, *judged[-1].misses, sep="\n  ", flush=True)
        for half, rest in (("odd (tuning)", 1), ("even", 0)):
            part = [entry for entry in judged if int(entry.speaker) % 2 == rest]
            if part:
                planted = sum(entry.planted for entry in part)
                faults = sum(entry.not_tone for entry in part)
                rows.append((row, half, str(len(part)), str(planted), recall(part), lost(part), str(faults)))
                print(*rows[-1], sep=" | ", flush=True)
    header = ("found by", "speakers", "n", "planted words", "gone", "other words lost", "spans without tone")
    print(Table(header, tuple(rows)))
    print(f"{time.process_time() - start:.0f} s of CPU in this process")


if __name__ == "__main__":
    main()
