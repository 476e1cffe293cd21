"""Evaluate one system, or several side by side, under the protocol of a challenge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from voiceveil.core.atomic_files import atomic_path
from voiceveil.core.errors import InputError, OutputError
from voiceveil.evaluation.evaluate import Evaluation, prepare
from voiceveil.evaluation.evaluate import evaluate as run_evaluation
from voiceveil.evaluation.inventory import Inventory, take_inventory
from voiceveil.evaluation.plan import Plan, make_plan
from voiceveil.evaluation.protocol import Protocol, load_protocol
from voiceveil.evaluation.results import Results
from voiceveil.evaluation.settings import EvaluationOptions, EvaluationSettings
from voiceveil.evaluation.speaker_pool import build_evaluation_pool, pool_file, without_pool
from voiceveil.official.tree import write_tree
from voiceveil.report.comparison import Comparison, compare, measures_table
from voiceveil.run.device import use_device
from voiceveil.run.executor import Jobs, check_jobs
from voiceveil.run.outputs import recorded, refuse_corpora
from voiceveil.systems.contract import Anonymizer, find_system

__all__ = [
    "evaluate", "evaluate_system", "evaluate_systems", "plan_evaluation", "protocol_systems", "settings_of_system",
    "systems_folder",
]  # fmt: skip


def evaluate(
    data: str | Path,
    *,
    system: str | Anonymizer | None = None,
    anon: str | None = None,
    protocol: str | Path | Protocol = "vpc2024",
    out: str | Path | None = None,
    attackers: Sequence[str] | None = None,
    seed: int | None = None,
    jobs: Jobs = 1,
    device: str = "auto",
    options: EvaluationOptions | None = None,
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
        ``"vpc2020"``, ``"vpc2022"``, ``"vpc2024"``, ``"vpc2026"``, or a ``.toml`` file.
    out
        Folder for all results (default: ``results/PROTOCOL/SYSTEM``). It holds ``results.json``, ``report.html``,
        score files, and the cache of the models, in which there are embeddings of the speakers: biometric data.
    attackers
        See ``voiceveil attack --help`` (default: those that can attack any system, and those made for the system).
    seed
        Makes the run repeatable by everybody.
    jobs
        Number of processes, or an executor. With more than one, scripts need ``if __name__ == "__main__":``.
    device
        Where networks run: ``"auto"``, ``"cpu"``, ``"cuda"``, ``"cuda:1"`` or ``"mps"``.
    options
        Training sets, recognizers, a secret key, a shared cache and more: :class:`voiceveil.EvaluationOptions`.

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
    >>> options = vv.EvaluationOptions(recognizers=["pocketsphinx"])        # doctest: +SKIP
    >>> results = vv.evaluate("data", anon="_mine", options=options)        # doctest: +SKIP
    """
    chosen = protocol if isinstance(protocol, Protocol) else load_protocol(protocol)
    folder = None if out is None else Path(out)
    settings = EvaluationSettings(
        Path(data), chosen, folder, attackers, seed, jobs, device, options or EvaluationOptions()
    )
    return evaluate_system(settings, system, anon=anon)


def evaluate_system(
    settings: EvaluationSettings,
    system: str | Anonymizer | None,
    parameters: Sequence[str] = (),
    *,
    anon: str | None = None,
) -> Results:
    """Evaluate one system, or speech that was anonymized elsewhere.

    Parameters
    ----------
    settings
        Data, protocol, attackers and options.
    system
        Name of a system, ``"MODULE:CLASS"``, or the system itself.
    parameters
        ``NAME=VALUE`` of a system that is given by name.
    anon
        Instead of ``system``: suffix of the anonymized sets.
    """
    check_jobs(settings.jobs)
    with use_device(settings.device):
        prepared = _prepared(settings, system, parameters, anon)
        results = run_evaluation(prepared, exports=(write_tree,))
    if settings.options.report:
        from voiceveil.report.page import Options, write_report  # imported late, so that a plan is printed at once

        write_report(prepared.out, options=Options(overwrite=settings.options.overwrite))
    return results


def plan_evaluation(
    settings: EvaluationSettings,
    system: str | Anonymizer | None,
    parameters: Sequence[str] = (),
    *,
    anon: str | None = None,
) -> tuple[Evaluation, Plan]:
    """Return the checked evaluation and its plan, without writing anything; see :func:`evaluate_system`."""
    prepared = _prepared(settings, system, parameters, anon, planned=True)
    return prepared, make_plan(prepared)


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
    home, options = systems_folder(settings), settings.options
    caches = replace(
        options,
        cache=options.cache or home / "cache.sqlite",
        feature_cache=options.feature_cache or home / "features.sqlite",
    )
    return replace(settings, out=home / name.replace(":", "_"), options=caches)


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
    inventory = _inventory(settings)
    refuse_corpora(home, inventory.corpora.values())
    pages = [home / f"comparison.{ending}" for ending in ("json", "html", "md")]
    record = {"protocol": settings.protocol.name, "systems": "side by side"}
    with recorded(home, record, lambda: pages, overwrite=settings.options.overwrite):
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
) -> Evaluation:
    """Return the checked evaluation; for a plan, a speaker pool that does not exist yet is not built."""
    resolved = None
    if system is not None:
        resolved = _resolved(settings, system, parameters, planned=planned)
        if not planned:
            resolved.models()  # a missing model is found before the data are read
    return prepare(settings, system=resolved, anon=anon)


def _resolved(
    settings: EvaluationSettings, system: str | Anonymizer, parameters: Sequence[str], *, planned: bool
) -> Anonymizer:
    """Return the system with its parameters, and with its speaker pool if it asks for ``pool=evaluation``."""
    if isinstance(system, Anonymizer):
        return system
    plain, needs_pool = without_pool(system, parameters)
    out = settings.results_folder(plain.name)
    if not needs_pool or (planned and not pool_file(out).is_file()):
        return plain
    if not planned:
        build_evaluation_pool(plain, _inventory(settings), settings)
    others = [setting for setting in parameters if setting.partition("=")[0] != "pool"]
    return find_system(system, [*others, f"pool={pool_file(out)}"])


def _inventory(settings: EvaluationSettings) -> Inventory:
    options = settings.options
    return take_inventory(settings.protocol, settings.data, train=options.train, emotion=options.emotion)
