"""Options that the kinds of `voiceveil train` share."""

from __future__ import annotations

import argparse
from pathlib import Path

from voiceveil.cli.options import add_device, add_jobs, add_json, add_progress, add_seed
from voiceveil.corpus import Utterance, open_corpus
from voiceveil.training.training_run import TrainingRun

__all__ = ["add_data", "add_features", "add_run", "opened_utterances", "training_run"]


def add_data(parser: argparse.ArgumentParser) -> None:
    """Declare --data: the corpora to train on."""
    parser.add_argument(
        "--data",
        nargs="+",
        required=True,
        metavar="CORPUS",
        help="corpora of speech, given as for `voiceveil anonymize`",
    )


def opened_utterances(args: argparse.Namespace) -> list[Utterance]:
    """Return the utterances of all corpora of --data."""
    return [utterance for spec in args.data for utterance in open_corpus(spec)]


def add_features(parser: argparse.ArgumentParser) -> None:
    """Declare --features: a file that keeps features."""
    parser.add_argument(
        "--features",
        type=Path,
        metavar="FILE",
        help="file that keeps the features for later runs (default: features.sqlite in DIR)",
    )


def add_run(parser: argparse.ArgumentParser) -> None:
    """Declare seed, device, threads, processes, checkpoints, --overwrite, progress and --json."""
    add_seed(parser, "the training")
    add_device(parser)
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="threads of the training (default: 1)")
    add_jobs(parser)
    parser.add_argument(
        "--checkpoint-every", type=float, default=120.0, metavar="S", help="seconds between checkpoints (default: 120)"
    )
    parser.add_argument("--overwrite", action="store_true", help="start again where another training left its results")
    add_progress(parser)
    add_json(parser, "the record of the training")


def training_run(args: argparse.Namespace) -> TrainingRun:
    """Return device, processes and files of a training as the arguments of :func:`add_run` say."""
    return TrainingRun(
        device=args.device,
        threads=args.threads,
        jobs=args.jobs,
        features=getattr(args, "features", None),
        checkpoint_every=args.checkpoint_every,
        overwrite=args.overwrite,
        quiet=args.quiet,
    )
