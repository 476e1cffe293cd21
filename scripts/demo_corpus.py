"""Cut the demo corpus, real voices of LibriSpeech dev-clean, that ships as `voiceveil/apps/demo/speech`.

    python scripts/demo_corpus.py select data                     # once: writes the tables of the four sets
    python scripts/demo_corpus.py encode LibriSpeech/dev-clean    # the audio of the utterances in these tables

`data` holds the VoicePrivacy development set on LibriSpeech as the challenge distributes it: `libri_dev_enrolls`,
`libri_dev_trials_f` and `libri_dev_trials_m`. `select` chooses 10 women and 10 men to attack, with enrollment and
trials from different chapters, and takes all other speakers to train the attacker. It draws utterances of 3 to 7
seconds in the order of a hash of their ids, so that every run chooses the same. `encode` finds `<id>.flac` (or .wav,
.opus) anywhere below its folder and writes Ogg Opus at 20 kbit/s. LibriSpeech is under CC BY 4.0, see NOTICE.

The files that ship were encoded from Ogg Opus at 24 kbit/s instead of the FLAC files. On every second utterance of the
corpus, Moonshine tiny makes 83 word errors of 1,808 words before this step and 84 after it.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import soundfile

from voiceveil.audio import info, load
from voiceveil.core.atomic_files import atomic_path
from voiceveil.corpus import Corpus, Trials, Utterance, open_corpus, write_kaldi

CORPUS = Path(__file__).resolve().parents[1] / "src" / "voiceveil" / "apps" / "demo" / "speech"
SETS = ("demo_enrolls", "demo_trials_f", "demo_trials_m", "demo_train")
ATTACKED = 10  # speakers of each gender
ENROLLED, TRIED, TRAINED = 3, 5, 6  # utterances of a speaker
SECONDS = (3.0, 7.0)  # length of an utterance
BIT_RATE = 20  # kbit/s
LIMIT = 4_000_000  # bytes of audio in all
RATE = 16000  # Hz


def main() -> None:
    """Run one of the two steps."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=["select", "encode"])
    parser.add_argument("source", type=Path, help="select: the challenge's Kaldi directories; encode: LibriSpeech")
    parser.add_argument("--out", type=Path, default=CORPUS, help="default: the corpus in the source tree")
    args = parser.parse_args()
    if args.step == "select":
        for name, utterances, trials in select(args.source):
            write_set(args.out / name, utterances, trials)
    else:
        encode(args.source, args.out)


def select(data: Path) -> Iterable[tuple[str, list[Utterance], Trials | None]]:
    """Yield name, utterances and trials of each set."""
    enrollment = _suitable(open_corpus(data / "libri_dev_enrolls"))
    trials = {gender: _suitable(open_corpus(data / f"libri_dev_trials_{gender}")) for gender in "fm"}
    attacked = {
        gender: [
            speaker
            for speaker, utterances in sorted(trials[gender].items())
            if len(enrollment.get(speaker, [])) >= ENROLLED and len(utterances) >= TRIED
        ][:ATTACKED]
        for gender in "fm"
    }
    yield "demo_enrolls", [u for gender in "fm" for s in attacked[gender] for u in draw(enrollment[s], ENROLLED)], None
    for gender, speakers in attacked.items():
        tried = [u for speaker in speakers for u in draw(trials[gender][speaker], TRIED)]
        pairs = [(speaker, u.id, speaker == u.speaker) for speaker in speakers for u in tried]
        yield f"demo_trials_{gender}", tried, Trials(*(np.array(column) for column in zip(*pairs, strict=True)))
    others = [(s, trials[gender][s] + enrollment.get(s, [])) for gender in "fm" for s in sorted(trials[gender])]
    known = {speaker for speakers in attacked.values() for speaker in speakers}
    yield "demo_train", [u for speaker, spoken in others if speaker not in known for u in draw(spoken, TRAINED)], None


def _suitable(corpus: Corpus) -> dict[str, list[Utterance]]:
    """Return the utterances of suitable length, by speaker."""
    speakers: dict[str, list[Utterance]] = defaultdict(list)
    for utterance in corpus:
        seconds = round(info(utterance.path).duration, 3)
        if SECONDS[0] <= seconds <= SECONDS[1]:
            speakers[str(utterance.speaker)].append(replace(utterance, seconds=seconds))
    return speakers


def draw(utterances: Sequence[Utterance], count: int) -> list[Utterance]:
    """Return ``count`` utterances, by turns from each chapter, in the order of a hash of their ids."""
    chapters: dict[str, list[Utterance]] = defaultdict(list)
    for utterance in sorted(utterances, key=lambda u: hashlib.sha256(u.id.encode()).digest()):
        chapters[utterance.id.split("-")[1]].append(utterance)
    turns = [(place, chapter, u) for chapter, spoken in chapters.items() for place, u in enumerate(spoken)]
    return sorted((u for _, _, u in sorted(turns, key=lambda turn: turn[:2])[:count]), key=lambda u: u.id)


def write_set(directory: Path, utterances: Sequence[Utterance], trials: Trials | None) -> None:
    """Write the tables of one set, whose audio is to stand in its folder ``audio``."""
    role = "enroll" if directory.name == "demo_enrolls" else ""
    spoken = tuple(replace(u, role=role) for u in utterances)
    audio = {u.id: directory / "audio" / f"{u.id}.opus" for u in spoken}
    write_kaldi(Corpus(directory.name, spoken, trials), directory, audio)
    total = sum(u.seconds or 0.0 for u in spoken)
    print(f"{directory.name}: {len({u.speaker for u in spoken})} speakers, {len(spoken)} utterances, {total:.0f} s")


def encode(source: Path, out: Path) -> None:
    """Write the audio of all sets as Ogg Opus."""
    files = {path.stem: path for path in source.rglob("*.*") if path.suffix in (".flac", ".wav", ".opus")}
    total = 0
    for name in SETS:
        for utterance in open_corpus(out / name):
            if utterance.id not in files:
                sys.exit(f"no audio of {utterance.id} below {source}")
            wave = load(files[utterance.id], rate=RATE)
            utterance.path.parent.mkdir(exist_ok=True)
            with atomic_path(utterance.path) as part, part.open("wb") as stream:
                # libsndfile: 0 is 256 kbit/s for each channel, 1 is 6 kbit/s
                level = 1 - (BIT_RATE - 6) / 250
                soundfile.write(stream, wave.samples, RATE, format="OGG", subtype="OPUS", compression_level=level)
            total += utterance.path.stat().st_size
    print(f"{total / 1e6:.2f} MB")
    if total > LIMIT:
        sys.exit(f"more than {LIMIT / 1e6:.0f} MB: choose fewer or shorter utterances, or a lower bit rate")


if __name__ == "__main__":
    main()
