"""Conversations: who speaks when, what leaks of a hidden speaker, and how distinct the new voices are.

    python benchmarks/conversations.py DATA [--conversations 12] [--pairs 6] [--system veil]

DATA holds ``libri_dev_trials_f`` and ``libri_dev_trials_m``, from which conversations of two to four speakers are made,
and ``meetings``: excerpts of real ones. Pauses between turns have a mean of 0 s and a standard deviation of 0.6 s: half
of them are overlapping speech. In each conversation the speaker who comes first by name is hidden, and the others are
kept: "leaked" is the share of the hidden speaker's time that is copied, "kept" the share of the others' time that is.
With turns that are found, the one to hide is the speaker that the hidden person was mostly taken for, and what is left
of that person leaks. Intervals of 95% are over conversations. The last table converts conversations of two, and embeds
each speaker's turns by CAM++.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np

import voiceveil as vv
from voiceveil.audio import Samples, load
from voiceveil.core.tables import Table
from voiceveil.corpus import open_corpus
from voiceveil.corpus.turns import Turn, read_regions, read_turns, speakers_of, write_rttm
from voiceveil.metrics.diarization import DiarizationErrors, diarization_errors, match_speakers
from voiceveil.models.diarization.diarizer import join_speakers, local_speech
from voiceveil.models.speaker.campplus import CamPlusPlus
from voiceveil.models.speaker.encoders import l2_normalized
from voiceveil.stats.rates import ratio
from voiceveil.systems.conversation.spans import copied_seconds, plan_spans
from voiceveil.testing.conversations import Conversation, make_conversation

SEED = 2026
RATE = 16000
MARGINS = (0.0, 0.25, 0.5, 1.0, 2.0)


class InMemory:
    """Samples as a source for diarization."""

    def __init__(self, samples: Samples) -> None:
        self._samples = samples

    def __len__(self) -> int:
        return len(self._samples)

    def read(self, start: int, stop: int) -> Samples:
        """Return a part."""
        return self._samples[start:stop]


def conversations(data: Path, count: int, sizes: Sequence[int], seed: int) -> Iterator[Conversation]:
    """Yield conversations of different speakers, about a minute and a half each."""
    spoken: dict[str, list[Path]] = {}
    for name in ("libri_dev_trials_f", "libri_dev_trials_m"):
        for utterance in open_corpus(data / name):
            spoken.setdefault(str(utterance.speaker), []).append(utterance.path)
    rng = np.random.default_rng(seed)
    for index in range(count):
        size = sizes[index % len(sizes)]
        names = rng.choice(sorted(spoken), size, replace=False).tolist()
        said = {}
        for name in names:
            chosen = rng.choice(len(spoken[name]), 12 // size, replace=False)
            said[name] = [load(spoken[name][i], rate=RATE).samples for i in chosen]
        yield make_conversation(said, rng)


def error_row(title: str, errors: Sequence[DiarizationErrors], counted: Sequence[bool]) -> tuple[str, ...]:
    """Return the cells of pooled diarization errors, and of how often the number of speakers was right."""
    index = np.arange(len(errors))
    speech = np.array([e.speech for e in errors])

    def rate(kind: Callable[[DiarizationErrors], float]) -> str:
        seconds = np.array([kind(e) for e in errors])
        return str(ratio(seconds, speech, index))

    return (
        title,
        str(len(errors)),
        rate(lambda e: e.rate * e.speech if e.speech else 0.0),
        rate(lambda e: e.miss),
        rate(lambda e: e.false_alarm),
        rate(lambda e: e.confusion),
        f"{sum(counted)}/{len(counted)}",
    )


def measure_meetings(folder: Path) -> list[tuple[str, ...]]:
    """Return the rows of the excerpts of meetings."""
    rows = []
    excerpts = sorted((folder / "audio").iterdir())
    speech = [local_speech(InMemory(load(path, rate=RATE).samples)) for path in excerpts]
    for known in (False, True):
        errors, counted = [], []
        for path, spoken in zip(excerpts, speech, strict=True):
            reference = read_turns(folder / "turns.rttm", path.stem)
            number = len(speakers_of(reference))
            turns = join_speakers(spoken, number if known else None)
            regions = read_regions(folder / "scored.uem", path.stem)
            errors.append(diarization_errors(reference, turns, regions=regions))
            counted.append(len(speakers_of(turns)) == number)
        rows.append(error_row(f"meetings, {'number given' if known else 'auto'}", errors, counted))
    return rows


def leaked(conversation: Conversation, turns: Sequence[Turn], margin: float) -> tuple[float, float, float, float]:
    """Return seconds of the hidden speaker that are copied and in all, and the same of the others."""
    secret = min(speakers_of(conversation.turns))
    matched = match_speakers(conversation.turns, turns)
    hidden = {name for name in speakers_of(turns) if matched.get(name) == secret}
    levels = dict.fromkeys(speakers_of(turns), 0.0)
    spans = plan_spans(turns, hidden, levels, conversation.wave.duration, margin) if hidden else []
    own = [turn for turn in conversation.turns if turn.speaker == secret]
    others = [turn for turn in conversation.turns if turn.speaker != secret]
    total, rest = (sum(turn.duration for turn in turns) for turns in (own, others))
    if not hidden:
        return total, total, rest, rest
    return copied_seconds(spans, own), total, copied_seconds(spans, others), rest


def measure_synthetic(data: Path, count: int) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    """Return the rows of diarization errors, and those of leaks."""
    errors: dict[str, list[DiarizationErrors]] = {"auto": [], "number given": []}
    counted: dict[str, list[bool]] = {"auto": [], "number given": []}
    leaks: dict[tuple[str, float], list[tuple[float, float, float, float]]] = {}
    for conversation in conversations(data, count, (2, 2, 3, 4), SEED):
        number = len(speakers_of(conversation.turns))
        speech = local_speech(InMemory(conversation.wave.samples))
        plans = {"--turns": conversation.turns}
        for name, given in (("auto", None), ("number given", number)):
            turns = join_speakers(speech, given)
            errors[name].append(diarization_errors(conversation.turns, turns))
            counted[name].append(len(speakers_of(turns)) == number)
            plans[f"--speakers {'auto' if given is None else 'N'}"] = turns
        for name, turns in plans.items():
            for margin in MARGINS:
                leaks.setdefault((name, margin), []).append(leaked(conversation, turns, margin))
    rows = [error_row(f"LibriSpeech, {name}", errors[name], counted[name]) for name in errors]
    leak_rows = []
    for (name, margin), values in leaks.items():
        copied, total, kept, rest = np.array(values).T
        index = np.arange(len(values))
        shares = (str(ratio(part, whole, index)) for part, whole in ((copied, total), (kept, rest)))
        leak_rows.append((name, f"{margin:g}", *shares))
    return rows, leak_rows


def speech_of(samples: Samples, turns: Sequence[Turn], name: str) -> Samples:
    """Return what a speaker says."""
    spans = [(round(t.start * RATE), round(t.end * RATE)) for t in turns if t.speaker == name]
    return np.concatenate([samples[a:b] for a, b in spans])


def measure_voices(data: Path, count: int, system: str) -> list[tuple[str, ...]]:
    """Return before, after and throughout: cosines between two speakers, and between halves of one."""
    encoder, rows = CamPlusPlus(), []

    def embedding(samples: Samples) -> np.ndarray:
        return l2_normalized(encoder(vv.Waveform(samples, RATE)))

    with tempfile.TemporaryDirectory() as folder:
        source, target, table = (Path(folder) / name for name in ("talk.wav", "out.wav", "talk.rttm"))
        for index, conversation in enumerate(conversations(data, count, (2,), SEED + 1)):
            vv.save(source, conversation.wave, overwrite=True)
            write_rttm(table, conversation.turns, "talk")
            vv.anonymize(source, target, system=system, turns=table, seed=index, overwrite=True)
            names = list(speakers_of(conversation.turns))
            cells = []
            for samples in (conversation.wave.samples, load(target).samples):
                first, second = (embedding(speech_of(samples, conversation.turns, name)) for name in names)
                cells.append(float(first @ second))
            halves = []
            for name in names:
                speech = speech_of(load(target).samples, conversation.turns, name)
                half = len(speech) // 2
                halves.append(float(embedding(speech[:half]) @ embedding(speech[half:])))
            rows.append((*names, *(f"{value:.2f}" for value in (*cells, min(halves)))))
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--conversations", type=int, default=12, help="for turns and leaks; 0: none")
    parser.add_argument("--pairs", type=int, default=6, help="for voices; 0: none")
    parser.add_argument("--system", default="veil")
    args = parser.parse_args()
    if args.conversations:
        heading = ("turns of", "recordings", "error", "miss", "false alarm", "confusion", "number right")
        synthetic, leaks = measure_synthetic(args.data, args.conversations)
        print(Table(heading, (*synthetic, *measure_meetings(args.data / "meetings"))).to_markdown(), "\n", flush=True)
        print(Table(("turns", "margin in s", "leaked", "kept"), tuple(leaks)).to_markdown(), "\n", flush=True)
    if args.pairs:
        title = ("speaker", "speaker", "cosine before", "cosine after", "two halves of one, after")
        print(Table(title, tuple(measure_voices(args.data, args.pairs, args.system))).to_markdown())


if __name__ == "__main__":
    main()
