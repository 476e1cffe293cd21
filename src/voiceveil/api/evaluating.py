"""Evaluate one system, or several side by side, under the protocol of a challenge."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from voiceveil.core.atomic_files import atomic_path
from voiceveil.core.errors import InputError, OutputError
from voiceveil.core.terminal import print_lines
from voiceveil.evaluation import evaluate as evaluation
from voiceveil.evaluation.inventory import take_inventory
from voiceveil.evaluation.plan import Plan, make_plan
from voiceveil.evaluation.protocol import Protocol, load_protocol
from voiceveil.evaluation.results import Results
from voiceveil.evaluation.speaker_pool import build_evaluation_pool, pool_file, without_pool
from voiceveil.official.tree import write_tree
from voiceveil.report.comparison import Comparison, compare, measures_table
from voiceveil.run.executor import Jobs, check_jobs
from voiceveil.run.outputs import recorded, refuse_corpora
from voiceveil.systems.contract import Anonymizer
from voiceveil.systems.resolve import find_system

__all__ = [
    "EvaluationSettings", "evaluate", "evaluate_system", "evaluate_systems", "plan_evaluation", "protocol_systems",
    "results_folder", "settings_of_system", "systems_folder",
]  # fmt: skip


@dataclass(frozen=True)
class EvaluationSettings:
    """All that an evaluation depends on besides the system; see :func:`evaluate` for the fields."""

    data: Path
    protocol: Protocol
    out: Path | None = None
    train: Sequence[str] = ()
    emotion: Sequence[str] = ()
    attackers: Sequence[str] | None = None
    recognizers: Sequence[str] = ("moonshine",)
    emotion_models: Sequence[str] = ("functionals",)
    seed: int | None = None
    key_file: Path | None = None
    key_namespace: str | None = None
    cache: Path | None = None
    feature_cache: Path | None = None
    overwrite: bool = False
    report: bool = True
    jobs: Jobs = 1
    progress: bool = False

    def options(self) -> dict[str, Any]:
        """Return the options that an evaluation and its plan share."""
        return {
            "attackers": self.attackers,
            "recognizers": self.recognizers,
            "emotion_models": self.emotion_models,
            "details": self.report,
            "seed": self.seed,
            "key_file": self.key_file,
            "key_namespace": self.key_namespace,
            "cache_file": self.cache,
        }

    def say(self, line: str) -> None:
        """Print a line of progress on the standard error output, if progress is wanted."""
        if self.progress:
            print_lines(line, file=sys.stderr)


def evaluate(
    data: str | os.PathLike[str],
    *,
    system: str | Anonymizer | None = None,
    anon: str | None = None,
    protocol: str | os.PathLike[str] | Protocol = "vpc2024",
    out: str | os.PathLike[str] | None = None,
    **options: Any,
) -> Results:
    """Run the protocol of a challenge: anonymize, attack, recognize words and emotions, measure, report.

    A second call does only what is new, and a killed one goes on where it stopped. Files in the output folder that the
    evaluation did not write stop it before anything is written.

    Parameters
    ----------
    data
        Folder of Kaldi directories, named as in the evaluation plans.
    system
        Name of a system, ``"MODULE:CLASS"``, or the system itself.
    anon
        Instead of ``system``: suffix of the sets in ``data`` that were anonymized already, for example ``"_mine"``.
    protocol
        ``"vpc2020"``, ``"vpc2022"``, ``"vpc2024"``, or a ``.toml`` file.
    out
        Folder for all results (default: ``results/PROTOCOL/SYSTEM``). It holds ``results.json``, ``report.html``,
        score files, and the cache of the models, in which there are embeddings of the speakers: biometric data.
    train, emotion : sequence of str
        Sets that the attacker trains on, and sets with emotions, instead of those of the protocol.
    attackers : sequence of str
        See ``voiceveil attack --help`` (default: those that can attack any system, and those made for the system).
    recognizers : sequence of str
        Speech recognizers, see :func:`voiceveil.transcribe` (default: ``["moonshine"]``). The first one counts in
        rankings.
    emotion_models : sequence of str
        Emotion recognizers: ``"functionals"`` (default), or pretrained models. The first one counts in rankings.
    seed : int
        Makes the run repeatable by everybody.
    key_file : path
        Secret key file: only those who have it can repeat the run.
    key_namespace : str
        Other names give other pseudo-speakers under the same key (default: the name of ``data``).
    cache : path
        SQLite file for the results of the models, which several systems may share (default: in ``out``).
    feature_cache : path
        SQLite file for features of the recordings that several systems may share, see :func:`voiceveil.anonymize`.
    overwrite : bool
        Start again where other results are, and replace files that are in the way; never the data.
    report : bool
        Write ``report.html`` (default: True).
    jobs : int or Executor
        Number of processes (default: 1). With more than one, scripts need ``if __name__ == "__main__":``.
    progress : bool
        Show progress on the standard error output (default: False).

    Returns
    -------
    Results
        Prints a table; ``.to_frame()``, ``.to_markdown()``, ``.to_csv()``, ``.to_latex()`` and ``.save()`` export it.

    Raises
    ------
    InputError
        If the data, an option or the output folder cannot be used.

    Examples
    --------
    >>> results = vv.evaluate("data", system="b2", protocol="vpc2024")      # doctest: +SKIP
    >>> print(results)                                                      # doctest: +SKIP
    >>> results.to_frame().query("metric == 'eer'")                         # doctest: +SKIP
    """
    unknown = [name for name in options if name not in EvaluationSettings.__dataclass_fields__]
    if unknown:
        raise TypeError(f"evaluate() got an unexpected keyword argument {unknown[0]!r}")
    for name in ("key_file", "cache", "feature_cache"):
        options[name] = None if options.get(name) is None else Path(options[name])
    chosen = protocol if isinstance(protocol, Protocol) else load_protocol(os.fspath(protocol))
    settings = EvaluationSettings(Path(data), chosen, None if out is None else Path(out), **options)
    return evaluate_system(settings, system, anon=anon)


def evaluate_system(
    settings: EvaluationSettings,
    system: str | Anonymizer | None,
    parameters: Sequence[str] = (),
    *,
    anon: str | None = None,
) -> Results:
    """Evaluate one system, given by name and ``NAME=VALUE`` parameters, or what others have anonymized."""
    check_jobs(settings.jobs)
    prepared = _prepared(settings, system, parameters, anon)
    results = evaluation.evaluate(
        prepared,
        **settings.options(),
        jobs=settings.jobs,
        exports=(write_tree,),
        quiet=not settings.progress,
        say=settings.say,
    )
    if settings.report:
        from voiceveil.report.page import Options, write_report  # here: a plan is to come at once

        write_report(prepared.out, options=Options(overwrite=settings.overwrite))
    return results


def plan_evaluation(
    settings: EvaluationSettings,
    system: str | Anonymizer | None,
    parameters: Sequence[str] = (),
    *,
    anon: str | None = None,
) -> tuple[evaluation.Evaluation, Plan]:
    """Return what :func:`evaluate_system` would do, without writing anything."""
    prepared = _prepared(settings, system, parameters, anon, planned=True)
    return prepared, make_plan(prepared, **settings.options())


def results_folder(settings: EvaluationSettings, results: Results) -> Path:
    """Return the folder of the results of one system."""
    return settings.out or Path("results") / settings.protocol.name / results.system


def protocol_systems(protocol: Protocol) -> list[list[str]]:
    """Return the systems of a protocol: a name and ``NAME=VALUE`` parameters each."""
    if not protocol.systems:
        raise InputError(f"the protocol {protocol.name} names no systems", fix="write their names: --system b2,b1b")
    return [entry.split() for entry in protocol.systems]


def systems_folder(settings: EvaluationSettings) -> Path:
    """Return the folder in which :func:`evaluate_systems` compares systems."""
    return settings.out or Path("results") / settings.protocol.name


def settings_of_system(settings: EvaluationSettings, name: str) -> EvaluationSettings:
    """Return the settings of one of several systems: a folder of its own, and a cache for all."""
    home = systems_folder(settings)
    return replace(
        settings,
        out=home / name.replace(":", "_"),
        cache=settings.cache or home / "cache.sqlite",
        feature_cache=settings.feature_cache or home / "features.sqlite",
    )


def evaluate_systems(settings: EvaluationSettings, systems: Sequence[Sequence[str]]) -> Comparison:
    """Evaluate several systems, and compare them in ``comparison.json``, ``comparison.html`` and ``comparison.md``.

    The Markdown file holds every figure: a row for each measure, a column for each system.

    Each system has a folder of its own below the output; models' results on the original speech are kept for all. A
    system that fails has a row that says why, and the others are evaluated all the same.

    Parameters
    ----------
    settings
        ``out`` is the folder for all of them (default: ``results/PROTOCOL``).
    systems
        For each system its name and ``NAME=VALUE`` parameters.
    """
    home = systems_folder(settings)
    inventory = take_inventory(settings.protocol, settings.data, train=settings.train, emotion=settings.emotion)
    refuse_corpora(home, inventory.corpora.values())
    pages = [home / f"comparison.{ending}" for ending in ("json", "html", "md")]
    record = {"protocol": settings.protocol.name, "systems": "side by side"}
    with recorded(home, record, lambda: pages, overwrite=settings.overwrite):
        measured: list[Results] = []
        faults: dict[str, str] = {}
        for number, (name, *parameters) in enumerate(systems, 1):
            settings.say(f"[{number}/{len(systems)}] {' '.join([name, *parameters])}")
            try:
                measured.append(evaluate_system(settings_of_system(settings, name), name, parameters))
            except OutputError:  # there is no room for the others either
                raise
            except InputError as error:
                faults[name] = str(error)
                settings.say(f"{name}: {error}")
        comparison = compare(settings.protocol.name, measured, faults, [name for name, *_ in systems])
        _write_comparison(comparison, measured, home)
    return comparison


def _write_comparison(comparison: Comparison, measured: Sequence[Results], home: Path) -> None:
    from voiceveil.report.comparison_page import write_comparison

    home.mkdir(parents=True, exist_ok=True)
    comparison.save(home / "comparison.json")
    write_comparison(comparison, home / "comparison.html")
    table = measures_table(measured)
    with atomic_path(home / "comparison.md") as part:
        part.write_text("\n\n".join([table.to_markdown(), *table.notes]) + "\n", encoding="utf-8")


def _prepared(
    settings: EvaluationSettings,
    system: str | Anonymizer | None,
    parameters: Sequence[str],
    anon: str | None,
    *,
    planned: bool = False,
) -> evaluation.Evaluation:
    """Return the checked evaluation; of a plan, a pool that does not exist yet is not built."""
    resolved, out = None, settings.out or Path("results") / settings.protocol.name / (anon or "").strip("_")
    if system is not None:
        resolved, out = _resolved(settings, system, parameters, planned=planned)
        if not planned:
            resolved.models()  # a missing model is found before the data are read
    prepared = evaluation.prepare(
        settings.data,
        out,
        protocol=settings.protocol,
        system=resolved,
        anon=anon,
        train=settings.train,
        emotion=settings.emotion,
        overwrite=settings.overwrite,
    )
    return replace(prepared, feature_cache=settings.feature_cache)


def _resolved(
    settings: EvaluationSettings, system: str | Anonymizer, parameters: Sequence[str], *, planned: bool
) -> tuple[Anonymizer, Path]:
    """Return the system and the folder of its results."""
    plain, needs_pool = (system, False) if isinstance(system, Anonymizer) else without_pool(system, parameters)
    out = settings.out or Path("results") / settings.protocol.name / plain.name
    if not needs_pool or isinstance(system, Anonymizer):
        return plain, out
    if not planned:
        inventory = take_inventory(settings.protocol, settings.data, train=settings.train, emotion=settings.emotion)
        build_evaluation_pool(
            plain, inventory, out, cache_file=settings.cache, jobs=settings.jobs, quiet=not settings.progress
        )
    elif not pool_file(out).is_file():
        return plain, out
    others = [setting for setting in parameters if setting.partition("=")[0] != "pool"]
    return find_system(system, [*others, f"pool={pool_file(out)}"]), out
