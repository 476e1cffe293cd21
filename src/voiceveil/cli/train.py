"""Train the networks of an evaluation: speaker encoders (asv) and recognisers (asr)."""

from __future__ import annotations

import argparse

from voiceveil.cli import train_asr, train_asv

__all__ = ["EXAMPLES", "add_arguments", "run"]

#: Sub-command -> its module, which has HELP, EXAMPLES, add_arguments and run, as a verb has.
_KINDS = {"asv": train_asv, "asr": train_asr}

EXAMPLES = """\
examples:
  voiceveil train asv --model ecapa --data data/train-clean-360_b2 --trained-on anonymized --out exp/asv_anon_b2
  voiceveil train asr --model models/wav2vec2-base-960h --data data/train-clean-360_b2 --out models/asr_b2

`voiceveil train asv --help` and `voiceveil train asr --help` have more.
"""
AFTER_INTERRUPTION = "; the same command goes on where it stopped"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """One sub-command for each kind of network."""
    kinds = parser.add_subparsers(dest="kind", required=True, metavar="asv|asr")
    for name, module in _KINDS.items():
        sub = kinds.add_parser(
            name,
            help=module.HELP,
            description=module.__doc__,
            epilog=module.EXAMPLES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(sub)


def run(args: argparse.Namespace) -> int:
    """Train; the exit code."""
    return int(_KINDS[args.kind].run(args))
