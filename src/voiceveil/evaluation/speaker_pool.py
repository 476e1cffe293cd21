"""A speaker pool of the evaluated speakers: ``pool=evaluation`` of systems that draw pseudo-speakers from a pool."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from voiceveil.core.errors import InputError
from voiceveil.evaluation.inventory import Inventory
from voiceveil.evaluation.settings import EvaluationSettings
from voiceveil.run.cache import Cache
from voiceveil.run.context import RunContext
from voiceveil.run.outputs import refuse_corpora
from voiceveil.systems.contract import Anonymizer, find_system

__all__ = ["EVALUATION_POOL", "build_evaluation_pool", "pool_file", "without_pool"]

#: The setting that asks for such a pool.
EVALUATION_POOL = "pool=evaluation"


def without_pool(spec: str, settings: Sequence[str]) -> tuple[Anonymizer, bool]:
    """Return the system with its settings except ``pool=evaluation``, and whether that was among them."""
    others = [setting for setting in settings if setting != EVALUATION_POOL]
    system = find_system(spec, others)
    needs_pool = len(others) < len(settings)
    if needs_pool and "pool" not in system.parameters():
        raise InputError(f"system {spec} has no parameter 'pool'", fix=f"leave out {EVALUATION_POOL}")
    return system, needs_pool


def pool_file(out: Path) -> Path:
    """Return the file of the pool in a folder of results."""
    return out / "pool" / "pool.safetensors"


def build_evaluation_pool(system: Anonymizer, inventory: Inventory, settings: EvaluationSettings) -> Path:
    """Write the pool of all enrolled and trial speakers, unless it exists; return its file.

    Parameters
    ----------
    system
        Its parameter ``speaker`` names the speaker encoder of the pool.
    inventory
        The sets of the evaluation.
    settings
        Output, cache and processes.
    """
    from voiceveil.models.pitch.trackers import tracker
    from voiceveil.models.speaker.encoders import encoder
    from voiceveil.systems.resynthesis.pool import build_pool, save_pool

    out = settings.results_folder(system.name)
    target = pool_file(out)
    if target.is_file():
        return target
    refuse_corpora(out, inventory.corpora.values())
    roles = {name: role for name, role in inventory.roles.items() if role in ("enroll", "trial")}
    utterances = {u.id: u for name in inventory.corpora if name in roles for u in inventory.corpora[name]}
    target.parent.mkdir(parents=True, exist_ok=True)
    cache = Cache(settings.cache_file(out))
    try:
        context = RunContext(cache, settings.jobs, settings.device, settings.options.progress)
        speaker = encoder(str(system.parameters().get("speaker", "campplus")))
        pool = build_pool(list(utterances.values()), speaker, tracker("swift"), context)
    finally:
        cache.close()
    save_pool(target, pool)
    return target
