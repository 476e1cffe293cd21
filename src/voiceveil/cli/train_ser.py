"""Train SER_eval of the 2024 challenge: a wav2vec 2.0 that recognizes emotions, one for each fold of IEMOCAP.

The model of a fold learns from the speakers of the other folds; the speaker of the fold in the first corpus of --data
(the development set) chooses the learning rates and the epoch, as in SpeechBrain's recipe for IEMOCAP. The same command
resumes an interrupted training. The output folder is laid out as the challenge's `exp/ser`: use it as
`--emotion-models speechbrain:FOLDER`.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from voiceveil.cli.options import add_out
from voiceveil.cli.train_options import add_data, add_run, training_run
from voiceveil.core.terminal import print_lines
from voiceveil.corpus import open_corpus
from voiceveil.training.ser import SerSettings, train_ser

__all__ = ["EXAMPLES", "HELP", "add_arguments", "run"]

HELP = "train the emotion recognizer of the 2024 challenge: wav2vec 2.0, one model for each fold"
EXAMPLES = """\
examples:
  voiceveil train ser --model models/wav2vec2-base --data data/IEMOCAP_dev data/IEMOCAP_test --out exp/ser --device cuda
  voiceveil train ser --model facebook/wav2vec2-base --data iemocap:/corpora/IEMOCAP --out exp/ser --epochs 10
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--model",
        required=True,
        metavar="PATH",
        help="folder of the wav2vec 2.0 to start from, or its hub id if it is on this machine; the challenge's is "
        "facebook/wav2vec2-base",
    )
    add_data(parser)
    add_out(parser, "folder for fold_1 to fold_5", required=True)
    parser.add_argument("--epochs", type=int, metavar="N", help="passes over the speech (default: 30)")
    parser.add_argument("--batch-size", type=int, metavar="N", help="utterances in a batch (default: 4)")
    add_run(parser)


def run(args: argparse.Namespace) -> int:
    """Train, and print who each fold has learned from and how well it recognizes its validation speaker."""
    settings = SerSettings(args.model, args.epochs, args.batch_size, args.seed)
    record = train_ser([open_corpus(spec) for spec in args.data], args.out, settings, training_run(args))
    print_lines(*([json.dumps(record)] if args.json else _lines(record, args.out)))
    return 0


def _lines(record: dict[str, Any], out: Path) -> list[str]:
    """Return the lines that summarize a record."""
    lines = []
    for fold, entry in record["folds"].items():
        lines.append(
            f"fold {fold}: trained on {entry['utterances']} utterances of {len(entry['speakers'])} speakers; epoch "
            f"{entry['best_epoch']} is kept: {1 - entry['error_rate']:.1%} of {entry['validation_utterances']} "
            f"utterances of {', '.join(entry['validation_speakers'])} are recognized"
        )
    return [*lines, f"emotion model: {record['emotion_model']}:{out}"]
