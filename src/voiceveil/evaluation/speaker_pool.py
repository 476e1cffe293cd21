"""A pool of the speakers who are evaluated: ``pool=evaluation`` of a system that takes pseudo-speakers from a pool."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from voiceveil.core.errors import InputError
from voiceveil.evaluation.inventory import Inventory
from voiceveil.run.cache import Cache
from voiceveil.run.context import RunContext
from voiceveil.run.executor import Jobs
from voiceveil.run.outputs import refuse_corpora
from voiceveil.systems.contract import Anonymizer
from voiceveil.systems.resolve import find_system

__all__ = ["EVALUATION_POOL", "build_evaluation_pool", "pool_file", "without_pool"]

#: The setting that asks for such a pool.
EVALUATION_POOL = "pool=evaluation"


def without_pool(spec: str, settings: Sequence[str]) -> tuple[Anonymizer, bool]:
    """Return the system with its settings except ``pool=evaluation``, and whether that was among them."""
    others = [setting for setting in settings if setting != EVALUATION_POOL]
    system = find_system(spec, others)
    wanted = len(others) < len(settings)
    if wanted and "pool" not in system.parameters():
        raise InputError(f"system {spec} has no parameter 'pool'", fix=f"leave out {EVALUATION_POOL}")
    return system, wanted


def pool_file(out: Path) -> Path:
    """Return where the pool of an evaluation lies, below the folder of its results."""
    return out / "pool" / "pool.safetensors"


def build_evaluation_pool(
    system: Anonymizer, inventory: Inventory, out: Path, *, cache_file: Path | None, jobs: Jobs, quiet: bool
) -> Path:
    """Write the pool of all who are enrolled or tried, unless it is there; return its file."""
    from voiceveil.models.pitch.correlation import tracker
    from voiceveil.models.speaker.encoders import encoder
    from voiceveil.systems.resynthesis.pool import build_pool, save_pool

    target = pool_file(out)
    if target.is_file():
        return target
    refuse_corpora(out, inventory.corpora.values())
    roles = {name: role for name, role in inventory.roles.items() if role in ("enroll", "trial")}
    utterances = {u.id: u for name in inventory.corpora if name in roles for u in inventory.corpora[name]}
    target.parent.mkdir(parents=True, exist_ok=True)
    cache = Cache(cache_file or out / "cache.sqlite")
    try:
        speaker = encoder(str(system.parameters().get("speaker", "campplus")))
        pool = build_pool(
            list(utterances.values()), speaker, tracker("swift"), RunContext(cache, jobs, progress=not quiet)
        )
    finally:
        cache.close()
    save_pool(target, pool)
    return target
