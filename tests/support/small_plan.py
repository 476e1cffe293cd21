"""A VoicePrivacy 2024 Challenge of a few utterances, as distributed: raw corpora, official models, smaller lists.

The utterances of LibriSpeech have ids of the official lists. `corpus prepare` asks for all of them and for the counts
of the plan; run as a program, this module is `voiceveil` with lists and counts of the small corpora.
"""

from __future__ import annotations

import io
import shutil
import sys
import zlib
from pathlib import Path
from unittest.mock import patch

import soundfile

from tests.support.official_models import copy_checkout
from tests.support.raw_corpora import make_iemocap, make_librispeech, write_chapters
from tests.support.tiny_models import tiny_wav2vec2
from voiceveil.cli.main import main as voiceveil
from voiceveil.corpus.challenge_ids import libri_ids
from voiceveil.corpus.iemocap import TABLE_2
from voiceveil.testing import synthetic_voice

#: Utterances of each speaker of IEMOCAP: one of each emotion, and one more of happiness ("exc").
COUNTS = dict.fromkeys(TABLE_2, 5)
_SPEAKERS = 2  # of each gender, with as many utterances in enrollment and trials
_TRAINING = [f"{speaker}-{chapter}-0000" for speaker in (91, 92, 93, 94) for chapter in (1, 2, 3)]


def small_ids() -> dict[str, list[str]]:
    """Return set -> two utterances each of two women and two men, who are enrolled and tried."""
    listed: dict[str, list[str]] = {}
    for split in ("dev", "test"):
        parts = {
            part: _by_speaker(libri_ids()[f"libri_{split}_{part}"]) for part in ("enrolls", "trials_f", "trials_m")
        }
        for gender in "fm":
            both = [name for name in parts["enrolls"] if name in parts[f"trials_{gender}"]][:_SPEAKERS]
            for part in ("enrolls", f"trials_{gender}"):
                names = [key for name in both for key in parts[part][name][:2]]
                listed.setdefault(f"libri_{split}_{part}", []).extend(names)
    return listed


def _by_speaker(keys: tuple[str, ...]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for key in keys:
        groups.setdefault(key.split("-")[0], []).append(key)
    return groups


def voice(key: str, suffix: str = ".flac") -> bytes:
    """Return a file with the voice of the speaker of an utterance, 0.6 to 0.8 s long."""
    speaker, number = zlib.crc32(key.replace("_", "-").split("-")[0].encode()), zlib.crc32(key.encode())
    wave = synthetic_voice(speaker % 1000, number % 10_000, seconds=0.6 + 0.05 * (number % 5))
    file = io.BytesIO()
    soundfile.write(file, wave.samples, wave.rate, format=suffix[1:].upper(), subtype="PCM_16")
    return file.getvalue()


def make_checkout(place: Path) -> Path:
    """Write what a participant has: the corpora, the challenge's exp/asv_orig and exp/asr, and wav2vec 2.0."""
    root = copy_checkout(place)
    shutil.rmtree(root / "exp" / "ser")
    (root / "exp" / "asv_anon_x").rename(root / "exp" / "asv_orig")
    libri = make_librispeech(root / "corpora" / "LibriSpeech", small_ids(), voice)
    write_chapters(libri / "train-clean-360", dict.fromkeys(_TRAINING, "SOME WORDS"), voice)
    with (libri / "SPEAKERS.TXT").open("a") as file:
        file.writelines(f"{name} | {'FM'[name % 2]} | train-clean-360 | 8.0 | Some | Body\n" for name in range(91, 95))
    make_iemocap(root / "corpora" / "IEMOCAP_full_release", COUNTS, lambda key: voice(key, ".wav"))
    tiny_wav2vec2(root / "models" / "wav2vec2-base")
    return root


def main(arguments: list[str] | None = None) -> int:
    """Run `voiceveil` for the small corpora; other commands than `corpus prepare` are not changed by that."""
    with (
        patch("voiceveil.corpus.challenge_sets.libri_ids", small_ids),
        patch("voiceveil.corpus.challenge_sets.TABLE_2", COUNTS),
        patch("voiceveil.cli.corpus_prepare.count_differences", lambda plan, sets: []),
    ):
        return voiceveil(arguments)


if __name__ == "__main__":
    sys.exit(main())
