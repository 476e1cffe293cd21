"""LibriSpeech, VCTK with the organizers' lists, and IEMOCAP as distributed, with tiny audio files.

The larger ones, VCTK and train-clean-360, are at their official sizes without files: as a reader would return them.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import cycle, islice
from pathlib import Path

import numpy as np
import soundfile

from voiceveil.corpus import Corpus, Utterance
from voiceveil.corpus.challenge_ids import libri_ids
from voiceveil.corpus.iemocap import TABLE_2

#: Words of the transcripts of the trial utterances, as the official results count them.
WORDS = {"libri_dev": 39783, "libri_test": 35042, "vctk_dev": 86627, "vctk_test": 86642}
VctkTrials = dict[str, dict[str, tuple[int, int, int]]]
#: Target and nontarget trials of the organizers' VCTK lists, and their utterances.
VCTK_TRIALS: VctkTrials = {
    "vctk_dev": {"f": (1781, 13219, 5422), "m": (2015, 12985, 5255), "f_common": (344, 4810, 344),
                 "m_common": (351, 4911, 351)},
    "vctk_test": {"f": (1944, 13056, 5328), "m": (1742, 13258, 5420), "f_common": (346, 4838, 346),
                  "m_common": (354, 4952, 354)},
}  # fmt: skip


@cache
def tiny_audio(suffix: str = ".flac", rate: int = 16000) -> bytes:
    """Return the bytes of a real audio file of 20 ms."""
    data = io.BytesIO()
    samples = 0.1 * np.sin(np.arange(rate // 50) / 5)
    soundfile.write(data, samples, rate, format=suffix[1:].upper(), subtype="PCM_16")
    return data.getvalue()


def tiny_flac(key: str) -> bytes:
    """Return the same 20 ms for every utterance."""
    return tiny_audio(".flac")


def tiny_wav(key: str) -> bytes:
    """Return the same 20 ms for every utterance."""
    return tiny_audio(".wav")


def make_librispeech(
    root: Path, listed: Mapping[str, Sequence[str]] | None = None, audio: Callable[[str], bytes] = tiny_flac
) -> Path:
    """Write ``dev-clean`` and ``test-clean``: the utterances of the challenge's lists, or of others."""
    listed = listed or libri_ids()
    speakers: dict[str, tuple[str, str]] = {}
    for split in ("dev", "test"):
        ids = {part: listed[f"libri_{split}_{part}"] for part in ("enrolls", "trials_f", "trials_m")}
        for gender in "fm":
            speakers |= {key.split("-")[0]: (gender, f"{split}-clean") for key in ids[f"trials_{gender}"]}
        tried = [*ids["trials_f"], *ids["trials_m"]]
        texts = dict(zip(tried, _texts(len(tried), WORDS[f"libri_{split}"]), strict=True))
        write_chapters(root / f"{split}-clean", texts | dict.fromkeys(ids["enrolls"], "SOME WORDS"), audio)
    lines = [
        f"{name:<5}| {gender.upper()} | {subset} | 8.0 | Some | Body" for name, (gender, subset) in speakers.items()
    ]
    (root / "SPEAKERS.TXT").write_text("\n".join([";ID |SEX| SUBSET |MINUTES| NAME", *lines]) + "\n")
    return root


def train_clean_360(folder: Path) -> Corpus:
    """Return train-clean-360 at its full size, as the reader would."""
    names = [str(10000 + number) for number in range(921)]
    keys = [f"{name}-{chapter}-{number:04d}" for name in names for chapter in (7, 8) for number in range(57)]
    keys = sorted(keys[: 104014 - 921] + [f"{name}-9-0000" for name in names])
    utterances = tuple(
        Utterance(
            key,
            folder.joinpath(*key.split("-")[:2], f"{key}.flac"),
            speaker=key.split("-")[0],
            gender="fm"[int(key.split("-")[0]) >= 10439],
            text="A B",
            subset="train-clean-360",
        )
        for key in keys
    )
    return Corpus("train-clean-360", utterances, kind="librispeech", root=folder)


def _texts(count: int, words: int) -> list[str]:
    """Return transcripts with so many words in all."""
    return [" ".join(["WORD"] * (words // count + (index < words % count))) for index in range(count)]


def write_chapters(folder: Path, texts: Mapping[str, str], audio: Callable[[str], bytes] = tiny_flac) -> None:
    """Write a subset of LibriSpeech: recordings and transcripts."""
    chapters: dict[str, list[str]] = {}
    for key in sorted(texts):
        chapters.setdefault(key.rpartition("-")[0], []).append(key)
    for chapter, keys in chapters.items():
        place = folder.joinpath(*chapter.split("-"))
        place.mkdir(parents=True, exist_ok=True)
        for key in keys:
            (place / f"{key}.flac").write_bytes(audio(key))
        (place / f"{chapter}.trans.txt").write_text("".join(f"{key} {texts[key]}\n" for key in keys))


def write_vctk_lists(lists: Path, trials: VctkTrials = VCTK_TRIALS, enroll: int = 600) -> dict[str, str]:
    """Write lists as the organizers distribute them, and return utterance -> text.

    Speakers of even numbers are women; the numbers of trials and utterances are those of ``trials``.
    """
    texts: dict[str, str] = {}
    for start, (dataset, counts) in zip((320, 420), trials.items(), strict=True):
        speakers = {gender: [f"p{start + 2 * n + 'fm'.index(gender)}" for n in range(15)] for gender in "fm"}
        numbers = {name: iter(range(25, 999)) for names in speakers.values() for name in names}
        both = speakers["f"] + speakers["m"]
        enrolled = [f"{name}_{next(numbers[name]):03d}_mic2" for _, name in _turns(both, enroll)]
        (lists / dataset).mkdir(parents=True)
        (lists / dataset / "enrolls_mic2").write_text("".join(f"{key}\n" for key in enrolled))
        tried: list[str] = []
        for part, (target, nontarget, utterances) in counts.items():
            own = speakers[part[0]]
            if "common" in part:
                keys = [f"{name}_{index // 15 + 1:03d}_mic2" for index, name in _turns(own, utterances)]
            else:
                keys = [f"{name}_{next(numbers[name]):03d}_mic2" for _, name in _turns(own, utterances)]
            tried += keys
            rows = _trial_rows(keys, own, target, nontarget)
            (lists / dataset / f"trials_{part}_mic2").write_text("".join(f"{row}\n" for row in rows))
        texts |= dict(zip(tried, _texts(len(tried), WORDS[dataset]), strict=True)) | dict.fromkeys(enrolled, "x")
    return {key: f"{text.capitalize()}." for key, text in texts.items()}


def vctk_corpus(folder: Path, texts: dict[str, str]) -> Corpus:
    """Return VCTK with these utterances, as the reader would."""
    utterances = tuple(
        Utterance(
            key,
            folder / "wav48_silence_trimmed" / key[:4] / f"{key}.flac",
            speaker=key[:4],
            gender="fm"[int(key[1:4]) % 2],
            text=texts[key],
            subset="common" if int(key.split("_")[1]) < 25 else "different",
        )
        for key in sorted(texts)
    )
    return Corpus("VCTK", utterances, kind="vctk", root=folder)


def make_vctk(root: Path, texts: dict[str, str]) -> Path:
    """Write VCTK with these utterances, at 48 kHz."""
    speakers = sorted({key[:4] for key in texts})
    info = ["ID  AGE  GENDER  ACCENTS  REGION COMMENTS"]
    info += [f"{name}  23  {'FM'[int(name[1:]) % 2]}  English" for name in speakers]
    for key, text in texts.items():
        _write_vctk_utterance(root, key, text)
    (root / "speaker-info.txt").write_text("\n".join(info) + "\n")
    return root


def _turns(speakers: list[str], count: int) -> list[tuple[int, str]]:
    return list(enumerate(islice(cycle(speakers), count)))


def _trial_rows(keys: list[str], speakers: list[str], target: int, nontarget: int) -> list[str]:
    """Return trials of the given numbers in which every utterance occurs."""
    targets = dict.fromkeys(keys[:target])
    rows = [f"{key.split('_')[0]} {key} target" for key in targets]
    others = ([name for name in speakers if name != key.split("_")[0]] for key in keys)
    pairs = [(name, key) for key, names in zip(keys, others, strict=True) for name in names]
    # Those without a target trial first, one each, then any.
    first = {key: (name, key) for name, key in pairs if key not in targets}
    chosen = [*first.values(), *(pair for pair in pairs if first.get(pair[1]) != pair)][:nontarget]
    return rows + [f"{name} {key} nontarget" for name, key in chosen]


def _write_vctk_utterance(root: Path, key: str, text: str) -> None:
    speaker, number, _ = key.split("_")
    for path, data in (
        (root / "wav48_silence_trimmed" / speaker / f"{key}.flac", tiny_audio(".flac", 48000)),
        (root / "txt" / speaker / f"{speaker}_{number}.txt", f"{text}\n".encode()),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def make_iemocap(
    root: Path, counts: Mapping[tuple[str, str], int] = TABLE_2, audio: Callable[[str], bytes] = tiny_wav
) -> Path:
    """Write IEMOCAP with the numbers of utterances of Table 2 of the 2024 plan, and some of other emotions."""
    for (session, gender), count in counts.items():
        dialog = f"Ses0{session}{gender.upper()}_impro01"
        turns = [(f"{dialog}_{gender.upper()}{number:03d}", label) for number, label in
                 zip(range(count), cycle(("ang", "hap", "exc", "neu", "sad")))]  # fmt: skip
        turns += [(f"{dialog}_{gender.upper()}{count + n:03d}", "fru") for n in range(3)]
        base = root / f"Session{session}"
        for name in ("dialog/EmoEvaluation", "dialog/transcriptions", f"sentences/wav/{dialog}"):
            (base / name).mkdir(parents=True, exist_ok=True)
        labels = [f"[{i}.0 - {i}.5]\t{key}\t{label}\t[2.5, 2.5, 2.5]" for i, (key, label) in enumerate(turns)]
        (base / f"dialog/EmoEvaluation/{dialog}.txt").write_text("\n".join(["% [START_TIME - END_TIME]", *labels]))
        words = [f"{key} [{i}.0-{i}.5]: Yes, I do." for i, (key, _) in enumerate(turns)]
        (base / f"dialog/transcriptions/{dialog}.txt").write_text("\n".join(words))
        for key, _ in turns:
            (base / f"sentences/wav/{dialog}/{key}.wav").write_bytes(audio(key))
    return root
