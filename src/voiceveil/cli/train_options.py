"""Options that the kinds of `voiceveil train` share."""

from __future__ import annotations

import argparse
from pathlib import Path

from voiceveil.cli.options import add_device, add_jobs, add_json, add_progress, add_seed
from voiceveil.core.errors import InputError
from voiceveil.corpus import Utterance
from voiceveil.corpus.training_part import open_training_corpus
from voiceveil.training.augmentation import KINDS, Augmentation, parse_kinds
from voiceveil.training.training_run import TrainingRun

__all__ = [
    "add_augmentation", "add_data", "add_features", "add_run", "augmentation", "opened_utterances", "training_run",
]  # fmt: skip


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
    return [utterance for spec in args.data for utterance in open_training_corpus(spec)]


def add_features(parser: argparse.ArgumentParser) -> None:
    """Declare --features: a file that keeps features."""
    parser.add_argument(
        "--features",
        type=Path,
        metavar="FILE",
        help="file that keeps the features for later runs (default: features.sqlite in DIR)",
    )


def add_augmentation(parser: argparse.ArgumentParser) -> None:
    """Declare --augment and its folders."""
    parser.add_argument(
        "--augment",
        metavar="KINDS",
        help=f"also train on copies of the speech with {', '.join(KINDS)}: a list of these, or all",
    )
    parser.add_argument("--noise", type=Path, metavar="DIR", help="folder like MUSAN: noise, music and speech in it")
    parser.add_argument(
        "--rirs", type=Path, metavar="DIR", help="folder of room responses like RIRS_NOISES (default: simulated rooms)"
    )
    parser.add_argument(
        "--snrs",
        choices=["kaldi", "speechbrain"],
        default="kaldi",
        help="ranges of signal-to-noise ratios, as in the recipes of x-vectors or ECAPA-TDNN (default: kaldi)",
    )


def augmentation(args: argparse.Namespace, seed: int) -> Augmentation | None:
    """Return the augmentation that the arguments of :func:`add_augmentation` ask for; None without --augment."""
    if args.augment is None:
        if args.noise is not None or args.rirs is not None:
            raise InputError("--noise and --rirs are folders for --augment", fix="add e.g. --augment all")
        return None
    return Augmentation(parse_kinds(args.augment), args.noise, args.rirs, args.snrs, seed)


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
