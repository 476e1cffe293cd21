"""Build a pool of speakers for resynthesis: one embedding a speaker, with gender and mean F0.

The corpora need speakers and genders; no speaker should be in what is anonymized or evaluated. The output folder then
holds pool.safetensors, which `voiceveil anonymize --system b1b --set pool=DIR` takes. With --rate every voice says a
few sentences through veil, and DNSMOS predicts how natural it sounds: veil then draws from the best-rated voices.
"""

from __future__ import annotations

import argparse
import json

from voiceveil.cli.options import add_device, add_jobs, add_json, add_out, add_progress
from voiceveil.cli.train_options import add_data, add_features, opened_utterances
from voiceveil.core.output_guard import refuse_files
from voiceveil.core.terminal import print_lines

__all__ = ["EXAMPLES", "HELP", "add_arguments", "run"]

HELP = "build a pool of speaker embeddings, from which pseudo-speakers are drawn"
EXAMPLES = """\
examples:
  voiceveil train pool --data libritts:/corpora/LibriTTS/train-other-500 --out exp/pool --jobs 4
  voiceveil train pool --data libri_train libri_pool --out exp/pool --jobs 4 --rate
  voiceveil train pool --data data/pool_f data/pool_m --speaker trained:exp/asv --out exp/pool
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_data(parser)
    add_out(parser, "folder for pool.safetensors", required=True)
    parser.add_argument("--speaker", default="campplus", metavar="NAME", help="speaker encoder (default: campplus)")
    parser.add_argument("--pitch", default="swift", metavar="NAME", help="pitch tracker (default: swift)")
    parser.add_argument(
        "--rate", action="store_true", help="rate the naturalness of every voice by DNSMOS (4 s of computing each)"
    )
    add_device(parser)
    add_jobs(parser)
    add_features(parser)
    parser.add_argument("--overwrite", action="store_true", help="replace an existing pool")
    add_progress(parser)
    add_json(parser, "the summary")


def run(args: argparse.Namespace) -> int:
    """Build the pool, and print the numbers of its speakers."""
    from voiceveil.run.cache import Cache
    from voiceveil.run.context import RunContext
    from voiceveil.systems.resynthesis.pool import write_pool

    target = args.out / "pool.safetensors"
    refuse_files([target], overwrite=args.overwrite)
    utterances = opened_utterances(args)
    cache = Cache(args.features or args.out / "features.sqlite")
    context = RunContext(cache, args.jobs, args.device, progress=not args.quiet)
    pool = write_pool(utterances, args.out, context, speaker=args.speaker, pitch=args.pitch, rate=args.rate)
    counts = {gender: len(pool.of_gender(gender)) for gender in ("f", "m")}
    if args.json:
        print(json.dumps({"pool": str(target), "speakers": counts, "utterances": len(utterances)}))
    else:
        print_lines(
            f"{counts['f']} female and {counts['m']} male speakers, {len(utterances)} utterances", f"pool: {target}"
        )
    return 0
