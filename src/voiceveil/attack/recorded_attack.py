"""``vv.attack``: an attack whose results may go into a folder, in which no file of the user's is replaced."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from voiceveil.attack.pipeline import AttackResult, run
from voiceveil.core.atomic_files import atomic_path
from voiceveil.core.errors import InputError
from voiceveil.core.output_guard import refuse_overlap
from voiceveil.run.outputs import recorded, refuse_inputs

__all__ = ["attack"]


def attack(
    data: str | os.PathLike[str],
    *,
    anon: str | None = None,
    attackers: Sequence[str] = ("campplus", "free"),
    out: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    **options: Any,
) -> AttackResult:
    """Attack anonymized speech: how often does a machine tell who is speaking?

    Parameters
    ----------
    data
        Folder of Kaldi directories such as ``libri_dev_enrolls`` and ``libri_dev_trials_f``.
    anon
        Suffix of the anonymized directories, for example ``"_b2"``; None attacks the original speech alone.
    attackers
        Names of attackers, see ``voiceveil attack --help``.
    out
        Folder for the score files and ``attack.json``. Files in it that no attack has written stop the run.
    overwrite
        Replace files in ``out`` that are in the way; never the data.
    sets, conditions, scoring, train, train_original, similar, anon_data, cache, jobs, resamples, seed, quiet
        See :func:`voiceveil.attack.pipeline.run`.

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
    if isinstance(attackers, str):
        attackers = [attackers]
    if not attackers:
        raise InputError("no attacker is named", fix="name one, e.g. campplus")
    if out is None:
        return run(Path(data), anon=anon, attackers=attackers, **options)
    folder = Path(out)
    with _results_folder(Path(data), folder, overwrite, options):
        result = run(Path(data), anon=anon, attackers=attackers, out=folder, **options)
        folder.mkdir(parents=True, exist_ok=True)
        with atomic_path(folder / "attack.json") as part:
            part.write_text(json.dumps(result.as_dict(), indent=1) + "\n", encoding="utf-8")
    return result


@contextmanager
def _results_folder(data: Path, out: Path, overwrite: bool, options: dict[str, Any]) -> Iterator[None]:
    """Keep the data out of the folder for the results, and replace no file there but its own."""
    folders = {data, Path(options.get("anon_data") or data)}
    refuse_overlap(out, [table.parent for folder in folders for table in folder.glob("*/wav.scp")])
    refuse_inputs(out, [*options.get("train", ()), *options.get("train_original", ())])
    targets = [out / "attack.json", *out.glob("*/*.scores")]
    with recorded(out, {"verb": "attack"}, lambda: targets, overwrite=overwrite):
        yield
