"""``vv.attack``: an attack whose results may go into a folder, in which no file of the user's is replaced."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from voiceveil.attack.attacker import Attacker
from voiceveil.attack.outcome import AttackResult
from voiceveil.attack.pipeline import AttackOptions, AttackRequest, run
from voiceveil.core.atomic_files import atomic_path
from voiceveil.core.errors import InputError
from voiceveil.core.output_guard import refuse_overlap
from voiceveil.run.cache import Cache
from voiceveil.run.context import RunContext
from voiceveil.run.device import use_device
from voiceveil.run.executor import Jobs
from voiceveil.run.outputs import recorded, refuse_inputs

__all__ = ["attack"]


def attack(
    data: str | Path,
    *,
    anon: str | None = None,
    attackers: str | Sequence[str | Attacker] = ("campplus", "free"),
    sets: Sequence[str] | Mapping[str, str] | None = None,
    train: Sequence[str | Path] = (),
    out: str | Path | None = None,
    jobs: Jobs = 1,
    device: str = "auto",
    options: AttackOptions | None = None,
) -> AttackResult:
    """Attack anonymized speech, and measure how often a machine recognizes the speakers.

    Parameters
    ----------
    data
        Folder of Kaldi directories such as ``libri_dev_enrolls`` and ``libri_dev_trials_f``.
    anon
        Suffix of the anonymized directories, for example ``"_b2"``; None attacks the original speech alone.
    attackers
        Names of attackers, see ``voiceveil attack --help``.
    sets
        Directories of trials, the beginnings of their names, or trial set -> enrollment set (default: all).
    train
        Corpora of other speakers, with anonymized speech, that attackers train on.
    out
        Folder for the score files and ``attack.json``. Files in it that no attack has written stop the run.
    jobs
        Number of processes, or an executor. With more than one, scripts need ``if __name__ == "__main__":``.
    device
        Where networks run: ``"auto"``, ``"cpu"``, ``"cuda"``, ``"cuda:1"`` or ``"mps"``.
    options
        Conditions, scoring, a cache and more: :class:`voiceveil.AttackOptions`.

    Returns
    -------
    AttackResult
        EERs with 95% intervals over speakers, and the health of each attacker; prints a table.

    Raises
    ------
    InputError
        If data, models, options or the output cannot be used; found before the work begins.

    Examples
    --------
    >>> result = vv.attack("data", anon="_b2", attackers=["campplus"])      # doctest: +SKIP
    >>> print(result)                                                       # doctest: +SKIP
    """
    names = [attackers] if isinstance(attackers, str) else attackers
    if not names:
        raise InputError("no attacker is named", fix="name one, e.g. campplus")
    request = AttackRequest(Path(data), anon, names, sets, train, options or AttackOptions())
    with use_device(device):
        return _attack(request, jobs, None if out is None else Path(out))


def _attack(request: AttackRequest, jobs: Jobs, folder: Path | None) -> AttackResult:
    """Attack, and write the results into a folder if there is one."""
    if folder is None:
        return _run(request, jobs)
    with _results_folder(request, folder):
        result = _run(request, jobs, folder)
        folder.mkdir(parents=True, exist_ok=True)
        with atomic_path(folder / "attack.json") as part:
            part.write_text(json.dumps(result.as_dict(), indent=1) + "\n", encoding="utf-8")
    return result


def _run(request: AttackRequest, jobs: Jobs, out: Path | None = None) -> AttackResult:
    """Open the cache, attack, and close it."""
    file = request.options.cache
    cache = Cache(None if file is None else Path(file))
    try:
        return run(request, RunContext(cache, jobs, progress=request.options.progress), out)
    finally:
        cache.close()


@contextmanager
def _results_folder(request: AttackRequest, out: Path) -> Iterator[None]:
    """Keep the data out of the folder for the results, and replace no file there but its own."""
    options = request.options
    folders = {request.data, Path(options.anon_data or request.data)}
    refuse_overlap(out, [table.parent for folder in folders for table in folder.glob("*/wav.scp")])
    refuse_inputs(out, [*request.train, *options.train_original])
    targets = [out / "attack.json", *out.glob("*/*.scores")]
    with recorded(out, {"verb": "attack"}, lambda: targets, overwrite=options.overwrite):
        yield
