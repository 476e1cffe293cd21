"""A source-filter decoder of a few weights, as `voiceveil train` would write it: for tests of everything around it."""

from __future__ import annotations

import json
from pathlib import Path

from voiceveil.anonymization.xvector.parts import parts
from voiceveil.run.ledger import sha256_file


def write_decoder(folder: Path, **changes: str) -> Path:
    """``folder`` with model.safetensors and record.json; ``changes`` replace fingerprints of parts in the record."""
    import torch

    from voiceveil.nn.checkpoint import save_tensors
    from voiceveil.nn.source_filter import SourceFilter, SourceFilterSize

    folder.mkdir(parents=True, exist_ok=True)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = SourceFilter(SourceFilterSize(width=16, blocks=1, fine_blocks=1))
    record = {
        "kind": "source-filter decoder",
        "size": network.record(),
        "parts": {**parts().fingerprints(), **changes},
    }
    save_tensors(folder / "model.safetensors", network.state_dict(), record)
    training = {"sha256": sha256_file(folder / "model.safetensors")}
    (folder / "record.json").write_text(json.dumps(training), encoding="utf-8")
    return folder
