"""Turn what `voiceveil train` wrote into weights that ship: NAME.safetensors in half precision, and their card.

    python scripts/ship_weights.py b1b exp/decoder --data "LibriSpeech train-clean-5 ..." --licence "CC BY 4.0" \\
        --command "voiceveil train source-filter ..." --figures figures.json --needs "Moonshine tiny (...)"

FOLDER has model.safetensors and record.json, or pool.safetensors. The figures are a JSON object, measured with the
file that ships: run this once without them, measure, and run it again. The same input gives the same bytes. Speakers
of a pool lose their names, and the order that these had: they are numbered in the order of the hashes of their
embeddings, which nobody can tell from a list of speakers.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from pathlib import Path
from typing import Any

from voiceveil.core.atomic_files import atomic_path
from voiceveil.models.checkpoint import load_tensors, read_any_record, save_tensors
from voiceveil.models.weights import store
from voiceveil.run.ledger import sha256_file

#: Tensors of a pool that have a row for each speaker.
_OF_SPEAKERS = ("embeddings", "log_f0", "ratings")


def main() -> None:
    """Write the file and its card."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="in the store")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", required=True, help="what it was trained on")
    parser.add_argument("--licence", required=True, help="of the data")
    parser.add_argument("--command", required=True, help="that trained it")
    parser.add_argument("--needs", default="", help="models of other packages whose features it takes")
    parser.add_argument("--figures", type=Path, help="JSON object of measured figures")
    parser.add_argument("--out", type=Path, default=store.FOLDER, help="default: the store of the package")
    args = parser.parse_args()
    pool = args.folder / "pool.safetensors"
    file = pool if pool.exists() else args.folder / "model.safetensors"
    target = args.out / f"{args.name}.safetensors"
    ship(file, target)
    card = {
        "name": args.name,
        **described(file),
        "data": args.data,
        "licence": args.licence,
        "needs": args.needs,
        "command": args.command,
        "figures": json.loads(args.figures.read_text(encoding="utf-8")) if args.figures else {},
        "bytes": target.stat().st_size,
        "sha256": sha256_file(target),
    }
    (args.out / "cards").mkdir(exist_ok=True)
    with atomic_path(args.out / "cards" / f"{args.name}.json") as part:
        part.write_text(json.dumps(card, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(json.dumps(card, indent=1, ensure_ascii=False))


def ship(file: Path, target: Path) -> None:
    """Copy tensors and record; those in single precision become half precision, double stays as it is."""
    import torch

    kind = str(read_any_record(file).get("kind"))
    tensors, record = load_tensors(file, kind)
    halved = {name: t.half() if t.dtype == torch.float32 else t for name, t in tensors.items()}
    if "ids" in record:
        halved, record = without_names(halved, record)
    save_tensors(target, halved, record)


def without_names(tensors: dict[str, Any], record: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the tensors and the record of a pool with numbers for names, in an order that tells none of them."""
    rows = tensors["embeddings"].numpy()
    order = sorted(range(len(rows)), key=lambda row: hashlib.sha256(rows[row].tobytes()).digest())
    moved = {name: t[order] if name in _OF_SPEAKERS else t for name, t in tensors.items()}
    ids = [f"voice-{number:03d}" for number in range(1, len(order) + 1)]
    return moved, {**record, "ids": ids, "genders": "".join(record["genders"][row] for row in order)}


def described(file: Path) -> dict[str, Any]:
    """Kind, architecture and training, from the record in the file and the one beside it."""
    record = read_any_record(file)
    if "ids" in record:
        genders = {gender: record["genders"].count(gender) for gender in ("f", "m")}
        return {"kind": record["kind"], "speakers": genders, "encoder": record["encoder"]}
    training = json.loads((file.parent / "record.json").read_text(encoding="utf-8"))
    return {
        "kind": record["kind"],
        "architecture": record["size"],
        "parameters": training["parameters"],
        "parts": record["parts"],
        "precision": "half on disk, single in memory",
        "steps": training["settings"]["plan"]["steps"],
        "training_hours": round(training["training_seconds"] * training["threads"] / 3600, 2),
        "validation_loss": training["validation"],
        "training_data": training["settings"]["data"],
    }


if __name__ == "__main__":
    main()
