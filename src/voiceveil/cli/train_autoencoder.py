"""Train an autoencoder of embeddings that unlearns speaker, gender and accent, for the systems s1, s1c1, s2, s2c1.

The corpora need speakers; genders and accents are used where they are known, and a branch without labels is left out,
which the command says. Takes a minute once the embeddings are there. The output folder then holds model.safetensors and
record.json, which `--system s1c1 --set autoencoder=DIR` takes.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np

from voiceveil.cli.options import (
    add_jobs,
    add_json,
    add_out,
    add_overwrite,
    add_progress,
    add_seed,
)
from voiceveil.core.atomic_files import atomic_path
from voiceveil.core.errors import InputError
from voiceveil.core.files import read_text
from voiceveil.core.terminal import print_lines
from voiceveil.corpus import Utterance, open_corpus

__all__ = ["EXAMPLES", "HELP", "add_arguments", "run"]

HELP = "train an autoencoder of embeddings with adversarial branches (s1, s2 of VoicePrivacy 2020)"
EXAMPLES = """\
examples:
  voiceveil train autoencoder --data data/train-clean-360 --out exp/s1
  voiceveil train autoencoder --data data/vctk --accents data/vctk/spk2accent --branches 0.4,0.4,0.1 --out exp/s2
"""
BRANCHES = ("speaker", "gender", "accent")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--data",
        nargs="+",
        required=True,
        metavar="CORPUS",
        help="corpora of speech, given as for `voiceveil anonymize`",
    )
    add_out(parser, "folder for model.safetensors and record.json", required=True)
    parser.add_argument("--speaker", default="campplus", metavar="NAME", help="speaker encoder (default: campplus)")
    parser.add_argument("--accents", type=Path, metavar="FILE", help="lines `<speaker> <accent>`")
    parser.add_argument(
        "--branches", default="0.1,0.1,0.1", metavar="S,G,A", help="weights of speaker, gender, accent (default: 0.1)"
    )
    parser.add_argument("--epochs", type=int, default=60, metavar="N", help="passes through the data (default: 60)")
    add_seed(parser, "the training")
    add_jobs(parser)
    parser.add_argument("--features", type=Path, metavar="FILE", help="keeps embeddings (default: DIR/features.sqlite)")
    add_overwrite(parser)
    add_progress(parser)
    add_json(parser, "the record of the training")


def run(args: argparse.Namespace) -> int:
    """Embed, train, tell what came of it."""
    from voiceveil.models.checkpoint import save_tensors
    from voiceveil.models.nets.autoencoder import KIND, AutoencoderPlan, train_autoencoder
    from voiceveil.models.speaker.encoders import encoder, l2_normalized
    from voiceveil.run.cache import Cache
    from voiceveil.run.extract import extract
    from voiceveil.run.ledger import sha256_file

    weights = _weights(args.branches)
    utterances = [u for spec in args.data for u in open_corpus(spec)]
    labels = labels_of(utterances, _accents(args.accents))
    if "speaker" not in labels:
        raise InputError("no two speakers have two utterances each", fix="add a corpus to --data")
    args.out.mkdir(parents=True, exist_ok=True)
    by, cache = encoder(args.speaker), Cache(args.features or args.out / "features.sqlite")
    found = extract(utterances, by, cache=cache, jobs=args.jobs, quiet=args.quiet)
    vectors = np.array([l2_normalized(found[u.id]) for u in utterances], dtype=np.float32)
    began, plan = time.monotonic(), AutoencoderPlan(epochs=args.epochs, seed=args.seed)
    network, history = train_autoencoder(vectors, labels, weights, plan)
    left_out = [name for name in BRANCHES if name not in labels]
    file = args.out / "model.safetensors"
    size = {**network.size, "branches": {name: weights[name] for name in labels}}
    save_tensors(file, network.shipped_state(), {"kind": KIND, "size": size, "parts": {"speaker": by.fingerprint()}})
    record = {
        "sha256": sha256_file(file),
        "parameters": sum(value.numel() for value in network.shipped_state().values()),
        "settings": {
            "plan": {"steps": plan.epochs * max(1, len(vectors) // plan.batch), "epochs": plan.epochs},
            "data": {"utterances": len(vectors), "speakers": int(labels["speaker"].max()) + 1},
        },
        "branches": size["branches"],
        "left_out": left_out,
        "validation": history["reconstruction"][-1],
        "losses": {name: values[-1] for name, values in history.items()},
        "training_seconds": round(time.monotonic() - began, 1),
        "threads": 1,
    }
    with atomic_path(args.out / "record.json") as part:
        part.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    if args.json:
        print(json.dumps(record))
        return 0
    for name in left_out:
        print_lines(f"no labels of {name}: that branch is left out")
    print_lines(f"reconstruction: cosine distance {record['validation']:.3f} on {len(vectors)} utterances")
    print_lines(f"autoencoder: {file}")
    return 0


def labels_of(utterances: list[Utterance], accents: dict[str, str]) -> dict[str, np.ndarray]:
    """Branch -> number of the class of each utterance, -1 where it is not known; branches of two classes at least.

    A speaker with one utterance has no number: who was heard once cannot be recognized.
    """
    spoken: dict[str, int] = {}
    for utterance in utterances:
        spoken[utterance.speaker or ""] = spoken.get(utterance.speaker or "", 0) + 1
    texts = {
        "speaker": [(u.speaker or "") if spoken[u.speaker or ""] > 1 else "" for u in utterances],
        "gender": [u.gender or "" for u in utterances],
        "accent": [accents.get(u.speaker or "", "") for u in utterances],
    }
    labels = {}
    for name, values in texts.items():
        classes = sorted({value for value in values if value})
        if len(classes) > 1:
            labels[name] = np.array([classes.index(value) if value else -1 for value in values], dtype=np.int64)
    return labels


def _weights(text: str) -> dict[str, float]:
    try:
        numbers = [float(part) for part in text.split(",")]
        if len(numbers) != len(BRANCHES) or min(numbers) < 0:
            raise ValueError
    except ValueError as error:
        raise InputError(
            f"--branches {text}: three weights of 0 or more are needed", fix="write 0.1,0.1,0.1"
        ) from error
    return dict(zip(BRANCHES, numbers, strict=True))


def _accents(file: Path | None) -> dict[str, str]:
    if file is None:
        return {}
    found = {}
    for number, line in enumerate(read_text(file).splitlines(), 1):
        speaker, _, accent = line.strip().partition(" ")
        if not accent:
            raise InputError("no accent", where=file, line=number, fix="write `<speaker> <accent>`")
        found[speaker] = accent.strip()
    return found
