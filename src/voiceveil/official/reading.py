"""Reader of result files, ours or the challenge's, into :class:`~voiceveil.evaluation.results.Results`.

The first line of a file tells its kind. The system, and in 2022 the attacker, are not in the file and are taken from
its name, which the challenge's scripts give it: ``result_for_rank_mcadams``, ``results.orig_tts_old_c``.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from voiceveil.core.errors import InputError
from voiceveil.evaluation.results import Results
from voiceveil.official import exp2024, results2022, summary2022, summary2024
from voiceveil.official.source import Line, read_source

__all__ = ["read_results", "system_name"]

_PREFIX = re.compile(
    r"(?:result_for_rank|RESULTS_summary|RESULTS|results\.(?:orig|anon)|eval_(?:orig|anon)|asv_anon)_(.+)"
)
_FIX = "give a results.json, or a result file of the 2020, 2022 or 2024 challenge"


def read_results(path: str | Path, *, system: str | None = None) -> Results:
    """Read a ``results.json``, or an official file of 2020, 2022 or 2024 (summary, results, CSV).

    Parameters
    ----------
    path : path
        The file, or the folder of a ``results.json``.
    system : str, optional
        Name of the evaluated system, which official files do not hold; by default from the name of the file.

    Raises
    ------
    InputError
        If the file cannot be read, with the line.
    """
    path = Path(path)
    if path.is_dir():
        if (path / "cache.sqlite").exists() and not (path / "results.json").exists():
            fix = "run the same `voiceveil evaluate` again: it goes on where it stopped"
            raise InputError("a half-finished evaluation: no results.json yet", where=path, fix=fix)
        path = path / "results.json"
    if not path.exists():
        fix = "give the folder of a `voiceveil evaluate`, its results.json, or an official result file"
        raise InputError("no such file", where=path, fix=fix)
    lines = read_source(path)
    first = next(line for line in lines if line.text.strip())
    if first.text.lstrip().startswith("{"):
        results = Results.load(path)
        return results if system is None else replace(results, system=system)
    results = _parse(lines, first, system or system_name(path))
    return replace(results, info={"source": path.name, **results.info})


def _parse(lines: tuple[Line, ...], first: Line, system: str) -> Results:
    if first.text.startswith("---- "):
        return summary2024.parse_summary(lines, system)
    if exp2024.is_csv(first):
        return exp2024.parse_csv(lines, system)
    if summary2022.is_summary(first):
        return summary2022.parse_summary(lines, system)
    if first.text.startswith(("ASV-", "ASR-")):
        return results2022.parse_results(lines, system)
    if len(first.text.split()) == 3 and len(lines) > 1:
        raise InputError("this looks like a file of scores", where=first.path, fix="`voiceveil score` computes metrics")
    raise first.error("not a file of results", fix=_FIX)


def system_name(path: Path) -> str:
    """Return the system of an official file, by the name of the file or of its folder.

    >>> system_name(Path("result_for_rank_mcadams")), system_name(Path("eval_anon_mcadams/results_anon.txt"))
    ('mcadams', 'mcadams')
    """
    for name in (path.name.removesuffix(".txt"), path.absolute().parent.name):
        match = _PREFIX.fullmatch(name)
        if match is not None:
            return match[1]
    return path.stem
