"""Train an autoencoder of embeddings that unlearns speaker, gender and accent, for the systems s1, s1c1, s2, s2c1.

The corpora need speakers; genders and accents are used where they are known, and a branch without labels is left out,
which the command says. Long utterances are cut into pieces with an embedding each, so that one long utterance of a
speaker is enough; one piece in four is kept for validation. Takes minutes once the embeddings are there. The
output folder then holds model.safetensors and record.json, which `--system s1c1 --set autoencoder=DIR` takes.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from voiceveil.cli.options import add_device, add_jobs, add_json, add_out, add_overwrite, add_progress, add_seed
from voiceveil.cli.train_options import add_data, add_features, opened_utterances
from voiceveil.core.errors import InputError
from voiceveil.core.terminal import print_lines
from voiceveil.training.training_run import TrainingRun

__all__ = ["EXAMPLES", "HELP", "add_arguments", "run"]

HELP = "train an autoencoder of embeddings with adversarial branches (s1, s2 of VoicePrivacy 2020)"
EXAMPLES = """\
examples:
  voiceveil train autoencoder --data data/train-clean-360 --out exp/s1
  voiceveil train autoencoder --data data/vctk --accents data/vctk/spk2accent --branches 0.4,0.4,0.1 --out exp/s2
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_data(parser)
    add_out(parser, "folder for model.safetensors and record.json", required=True)
    parser.add_argument("--speaker", default="campplus", metavar="NAME", help="speaker encoder (default: campplus)")
    parser.add_argument("--accents", type=Path, metavar="FILE", help="lines `<speaker> <accent>`")
    parser.add_argument(
        "--branches", default="0.1,0.1,0.1", metavar="S,G,A", help="weights of speaker, gender, accent (default: 0.1)"
    )
    parser.add_argument("--epochs", type=int, default=600, metavar="N", help="passes through the data (default: 600)")
    parser.add_argument(
        "--piece-seconds",
        type=float,
        default=4.0,
        metavar="S",
        help="cut utterances into equal pieces of at least this length; 0: do not cut (default: 4)",
    )
    parser.add_argument(
        "--most-pieces", type=int, default=40, metavar="N", help="pieces of one speaker; 0: no limit (default: 40)"
    )
    add_seed(parser, "the training")
    add_device(parser)
    add_jobs(parser)
    add_features(parser)
    add_overwrite(parser)
    add_progress(parser)
    add_json(parser, "the record of the training")


def run(args: argparse.Namespace) -> int:
    """Train, and print the branches that were left out and the reconstruction error."""
    from voiceveil.training.autoencoder import AutoencoderSettings, read_accents, train_autoencoder

    settings = AutoencoderSettings(
        weights=_weights(args.branches),
        epochs=args.epochs,
        piece_seconds=args.piece_seconds,
        most_pieces=args.most_pieces,
        seed=args.seed,
    )
    record = train_autoencoder(
        opened_utterances(args),
        args.out,
        settings,
        TrainingRun(args.device, jobs=args.jobs, features=args.features, quiet=args.quiet),
        speaker=args.speaker,
        accents=None if args.accents is None else read_accents(args.accents),
    )
    if args.json:
        print(json.dumps(record))
        return 0
    for name in record["left_out"]:
        print_lines(f"no labels of {name}: that branch is left out")
    pieces = record["settings"]["data"]["validation_pieces"]
    print_lines(f"reconstruction: cosine distance {record['validation']:.3f} on {pieces} pieces kept for validation")
    print_lines(f"autoencoder: {args.out / 'model.safetensors'}")
    return 0


def _weights(text: str) -> dict[str, float]:
    from voiceveil.training.autoencoder import BRANCHES

    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) != len(BRANCHES) or not all(number >= 0 for number in numbers):
        raise InputError(f"--branches {text}: three weights of 0 or more are needed", fix="write 0.1,0.1,0.1")
    return dict(zip(BRANCHES, numbers, strict=True))
