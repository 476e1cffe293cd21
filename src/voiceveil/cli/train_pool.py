"""Build a pool of speakers for resynthesis: one embedding a speaker, with gender and mean F0.

The corpora need speakers and genders; no speaker should be in what is anonymized or evaluated. The output folder then
holds pool.safetensors, which `voiceveil anonymize --system b1b --set pool=DIR` takes. With --rate every voice says a
few sentences through veil, and DNSMOS tells how natural it sounds: veil then draws from the voices that sound best.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from voiceveil.cli.options import (
    add_jobs,
    add_json,
    add_out,
    add_progress,
)
from voiceveil.core.errors import InputError
from voiceveil.core.terminal import print_lines
from voiceveil.corpus import open_corpus

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
    parser.add_argument(
        "--data",
        nargs="+",
        required=True,
        metavar="CORPUS",
        help="corpora of speech, given as for `voiceveil anonymize`",
    )
    add_out(parser, "folder for pool.safetensors", required=True)
    parser.add_argument("--speaker", default="campplus", metavar="NAME", help="speaker encoder (default: campplus)")
    parser.add_argument("--pitch", default="swift", metavar="NAME", help="pitch tracker (default: swift)")
    parser.add_argument(
        "--rate", action="store_true", help="rate the naturalness of every voice by DNSMOS (4 s of computing each)"
    )
    add_jobs(parser)
    parser.add_argument(
        "--features",
        type=Path,
        metavar="FILE",
        help="file that keeps the features for later runs (default: features.sqlite in DIR)",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace an existing pool")
    add_progress(parser)
    add_json(parser, "the summary")


def run(args: argparse.Namespace) -> int:
    """Build the pool, and tell what is in it."""
    from voiceveil.models.pitch.correlation import tracker
    from voiceveil.models.speaker.encoders import encoder
    from voiceveil.run.cache import Cache
    from voiceveil.run.context import RunContext
    from voiceveil.systems.resynthesis.pool import build_pool, save_pool

    target = args.out / "pool.safetensors"
    if target.exists() and not args.overwrite:
        raise InputError("there is a pool already", where=target, fix="use another --out, or --overwrite")
    utterances = [u for spec in args.data for u in open_corpus(spec)]
    speaker, pitch = encoder(args.speaker), tracker(args.pitch)
    args.out.mkdir(parents=True, exist_ok=True)
    features = args.features or args.out / "features.sqlite"
    pool = build_pool(utterances, speaker, pitch, RunContext(Cache(features), args.jobs, progress=not args.quiet))
    if args.rate:
        from voiceveil.systems.resynthesis.rating import rated

        pool = rated(pool, utterances, cache=features, jobs=args.jobs, quiet=args.quiet)
    save_pool(target, pool)
    counts = {gender: len(pool.of_gender(gender)) for gender in ("f", "m")}
    if args.json:
        print(json.dumps({"pool": str(target), "speakers": counts, "utterances": len(utterances)}))
    else:
        print_lines(
            f"{counts['f']} female and {counts['m']} male speakers, {len(utterances)} utterances", f"pool: {target}"
        )
    return 0
