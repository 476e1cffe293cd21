"""How well the phone encoder recognizes phones, on speakers that it was not trained on.

    python benchmarks/phones.py DATA [--content phones:FOLDER] [--utterances 3]

DATA holds Kaldi directories with transcripts: ``libri_dev_trials_f`` and ``libri_dev_trials_m``. The reference is the
forced alignment of the transcripts, whose own errors count as errors here. Printed, with 95% intervals over speakers:
frames with the right phone, and substitutions, deletions and insertions of phones in the most probable sequence.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
from rapidfuzz.distance import Levenshtein

import voiceveil as vv
from voiceveil.corpus import read_kaldi
from voiceveil.models.content.features import LEVEL, content_encoder
from voiceveil.models.content.phone_path import phone_path
from voiceveil.stats.rates import ratio
from voiceveil.training.phone_data import PhoneAligner, state_classes


def main() -> None:
    """Print the two rates."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--content", default="phones", help="default: the encoder that ships")
    parser.add_argument("--utterances", type=int, default=3, help="of each speaker (%(default)s)")
    args = parser.parse_args()
    encoder = content_encoder(args.content)
    rows = []
    for gender in ("f", "m"):
        for speaker, utterances in read_kaldi(args.data / f"libri_dev_trials_{gender}").by_speaker.items():
            for utterance in list(utterances)[: args.utterances]:
                wave = vv.load(utterance.path, rate=16000)
                reference = PhoneAligner(utterance.text or "")(wave)
                if not len(reference):
                    continue
                level = float(np.sqrt(np.mean(wave.samples**2)))
                posteriors = encoder(vv.Waveform(wave.samples * np.float32(LEVEL / level), 16000))
                times = (encoder.offset + encoder.hop * np.arange(len(posteriors))) / 160
                classes = state_classes(reference, times)
                known = classes >= 0
                wrong = _phones(posteriors.argmax(axis=1)[known]) != _phones(classes[known])
                spoken = [int(phone) for phone in reference[:, 0] if phone]
                recognized = [int(phone) for phone in phone_path(posteriors.astype(np.float32)).phones if phone]
                edits = Levenshtein.distance(spoken, recognized)
                rows.append((str(speaker), int(wrong.sum()), int(known.sum()), edits, len(spoken)))
    speakers, wrong_frames, frames, phone_edits, phones = zip(*rows, strict=True)
    print(f"{len(rows)} utterances of {len(set(speakers))} speakers")
    print(f"frames with another phone: {ratio(wrong_frames, frames, speakers)}")
    print(f"phone error rate: {ratio(phone_edits, phones, speakers)}")


def _phones(classes: np.ndarray) -> np.ndarray:
    """Return the number of the phone of each class."""
    return np.where(classes == 0, 0, (classes - 1) // 3 + 1)


if __name__ == "__main__":
    main()
