"""Train networks: speaker encoders (asv), recognizers of words (asr) and emotions (ser), the parts of resynthesis."""

from __future__ import annotations

import argparse
from pathlib import Path
from types import ModuleType

from voiceveil.cli import train_asr, train_asv, train_autoencoder, train_network, train_pool, train_ser
from voiceveil.training.network_recipes import NETWORK_RECIPES
from voiceveil.training.training_run import check_output, recorded_training

__all__ = ["EXAMPLES", "add_arguments", "run"]

#: Sub-command -> what it does, and its module, which has EXAMPLES, add_arguments and run, as a verb has.
_KINDS: dict[str, tuple[str, ModuleType]] = {
    "asv": (train_asv.HELP, train_asv),
    "asr": (train_asr.HELP, train_asr),
    "ser": (train_ser.HELP, train_ser),
    "pool": (train_pool.HELP, train_pool),
    "autoencoder": (train_autoencoder.HELP, train_autoencoder),
    **{name: (recipe.help, train_network) for name, recipe in NETWORK_RECIPES.items()},
}

EXAMPLES = """\
examples:
  voiceveil train asv --model ecapa --data data/train-clean-360_b2 --trained-on anonymized --out exp/asv_anon_b2
  voiceveil train asr --model models/wav2vec2-base-960h --data data/train-clean-360_b2 --out models/asr_b2
  voiceveil train source-filter --data data/train-clean-100 --out exp/decoder
  voiceveil train pool --data data/train-other-500 --out exp/pool

`voiceveil train asv --help`, `voiceveil train source-filter --help` and so on have more.
"""
AFTER_INTERRUPTION = "; the same command resumes the run"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare a sub-command for each kind of network."""
    kinds = parser.add_subparsers(dest="kind", required=True, metavar="KIND")
    for name, (text, module) in _KINDS.items():
        sub = kinds.add_parser(
            name,
            help=text,
            description=module.__doc__,
            epilog=module.EXAMPLES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(sub)


def run(args: argparse.Namespace) -> int:
    """Train; return the exit code."""
    corpora = [args.data] if isinstance(args.data, str) else args.data
    models = [Path(path) for path in (getattr(args, "start", None), getattr(args, "model", None)) if path]
    check_output(args.out, corpora, features=getattr(args, "features", None), models=models)
    train = _KINDS[args.kind][1].run
    if args.kind in ("asr", "pool"):  # these guard their output themselves
        return int(train(args))
    with recorded_training(args.out, overwrite=args.overwrite):
        return int(train(args))
