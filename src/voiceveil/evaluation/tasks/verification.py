"""Speaker verification: attackers compare enrollment with trials; EERs and other metrics of trials."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from voiceveil import metrics
from voiceveil.attack.attacker import ModelWork
from voiceveil.attack.outcome import AttackResult, AttackRow
from voiceveil.attack.pipeline import AttackOptions, AttackRequest
from voiceveil.attack.pipeline import run as run_attack
from voiceveil.attack.registry import Scoring, make_attackers
from voiceveil.attack.sets import find_sets
from voiceveil.attack.trial_design import mixed_name
from voiceveil.evaluation.inventory import Inventory
from voiceveil.evaluation.protocol import Verification
from voiceveil.evaluation.results import Figure, Results
from voiceveil.evaluation.tasks.contract import (
    Cell,
    Section,
    SectionTable,
    Task,
    TaskContext,
    TaskResult,
    TaskSetup,
    figure,
    place,
    tasks,
)
from voiceveil.metrics import MEASURES, estimate_all
from voiceveil.metrics.speaker_rates import SpeakerRates
from voiceveil.run.cache import Cache
from voiceveil.stats import Estimate

__all__ = ["VerificationTask"]

#: Metric of a protocol -> the rate of single speakers.
_SPEAKER_METRICS = {"worst_speaker_eer": "worst", "speakers_below_20": "below", "identified": "identified"}
_MIN_TARGETS = 20  # target trials that D_sys needs: a histogram of two bins
_NO_LLR = "the scores are no log-likelihood ratios, as those of PLDA are; min Cllr needs none"


@tasks.register("verification")
class VerificationTask(Task):
    """EERs of all attackers, and other metrics of trials that the protocol asks for."""

    metrics = ("eer", "eer_trials", "worst_speaker_eer", "speakers_below_20", "identified")
    order = 10

    def available(self, setup: TaskSetup) -> bool:
        """Return True if there are trials."""
        return bool(setup.inventory.verification)

    def check(self, setup: TaskSetup) -> None:
        """Raise an ``InputError`` if an attacker is not known, or its model cannot be used."""
        for attacker in make_attackers(setup.options.attackers):
            attacker.check()

    def check_data(self, setup: TaskSetup) -> None:
        """Raise an ``InputError`` if a trial list does not fit its sets."""
        find_sets(setup.data, names=setup.inventory.enrollment_of, opened=setup.inventory.corpora)

    def progress(self, setup: TaskSetup) -> str:
        """Return the line for the user."""
        return f"attacking: {', '.join(setup.options.attackers)}"

    def work(self, setup: TaskSetup, cache: Cache) -> Iterator[ModelWork]:
        """Yield the models of all attackers."""
        sets = find_sets(setup.data, names=setup.inventory.enrollment_of, opened=setup.inventory.corpora)
        training = {name: [u.id for u in setup.inventory.corpora[name]] for name in setup.inventory.training}
        conditions, (scoring, _) = setup.inventory.protocol.conditions, _scoring(setup.inventory)
        for attacker in make_attackers(setup.options.attackers, scoring=scoring):
            yield from attacker.work(sets, conditions, training, cache)

    def models(self, setup: TaskSetup) -> dict[str, str]:
        """Return the fingerprint of each attacker."""
        return {attacker.name: attacker.fingerprint() for attacker in make_attackers(setup.options.attackers)}

    def run(self, context: TaskContext) -> TaskResult:
        """Let all attackers score all trials, and write the score files."""
        inventory = context.inventory
        entries = {trials.set: (entry, trials.gender) for entry, trials in inventory.trial_sets()}
        scoring, notes = _scoring(inventory)
        places = {mixed_name(name): (entry, "") for name, (entry, _) in entries.items()} | entries
        result = run_attack(_request(context, scoring), context.run, context.out / "scores")
        measures = [name for name in inventory.protocol.metrics if name != "eer" and name in MEASURES]
        needs_llr = {name for name in measures if MEASURES[name]().needs_llr}
        figures: list[Figure] = []
        for row in result.rows:
            where = _place(row, *places[row.set])
            figures.append(figure("eer" if row.usual else "eer_trials", row.eer, where, _eer_detail(row, context)))
            figures += _speaker_figures(row, where, inventory.protocol.metrics)
            if not row.usual:
                continue
            possible = [name for name in measures if row.llr or name not in needs_llr]
            if "d_sys" in possible and row.scored.target.sum() < _MIN_TARGETS:
                possible.remove("d_sys")
                notes.append(f"no D_sys of {row.set}: it needs {_MIN_TARGETS} target trials")
            estimates = zip(possible, estimate_all(row.scored, possible), strict=True)
            figures += [figure(name, value, where) for name, value in estimates]
            if "zebra_individual" in inventory.protocol.metrics:
                zebra = metrics.zebra(*row.scored.classes())
                figures.append(Figure("zebra_individual", zebra.individual, detail={"tag": zebra.tag}, **where))
        notes += _without_llr(needs_llr, result)
        recorded = ("health", "strongest", "selected", "tried")
        info = {key: value for key, value in result.as_dict().items() if key in recorded}
        columns: dict[str, dict[str, dict[str, Any]]] = {name: {} for name in entries}
        return TaskResult(figures, list(dict.fromkeys(notes)), columns, info=info, checks=result.checks)

    def section(self, results: Results) -> Section:
        """Return the table of EERs."""
        sides = {"o": "original", "a": "anonymized"}
        rows: list[tuple[Cell, ...]] = []
        for eer in results.find("eer"):
            where = " ".join(filter(None, [eer.dataset, eer.subset, {"f": "female", "m": "male"}.get(eer.gender, "")]))
            rows.append((eer.attacker, where, eer, eer.knowledge, *(sides.get(side, "?") for side in eer.condition)))
        columns = ("attacker", "set", "EER [95%]", "what it knows", "enrollment", "trial")
        text = (
            "The equal error rate (EER) of each attacker: 50% is guessing, 0% is certainty. Enrollment is the "
            "attacker's recording of a known person, trial the recording in question. The strongest attacker's rows "
            "are bold: theirs is the result."
        )
        missing = "" if rows else "No verification trials were evaluated."
        return Section(
            "attackers", "Who attacked, and how well", SectionTable(columns, tuple(rows)), text, missing=missing
        )


def _place(row: AttackRow, entry: Verification, gender: str) -> dict[str, Any]:
    """Return the fields of the figures of a row."""
    return place(
        entry,
        gender,
        condition=row.condition,
        attacker=row.attacker,
        knowledge=row.knowledge,
        encoder=row.encoder,
        trial_utterances=row.trial_utterances,
        trials="" if row.pairs == "listed" else row.pairs,
    )


def _speaker_figures(row: AttackRow, where: dict[str, Any], requested: Sequence[str]) -> list[Figure]:
    """Return those of the rates of single speakers that the protocol asks for."""
    rates = {} if row.speakers is None else vars(row.speakers)
    chosen = [(name, rates[rate]) for name, rate in _SPEAKER_METRICS.items() if name in requested and rates]
    return [figure(name, value, where) for name, value in chosen if math.isfinite(value.low)]


def _speaker_detail(rates: SpeakerRates | None) -> dict[str, float]:
    """Return the rates of single speakers and the ends of their intervals, as far as they are known."""
    if rates is None:
        return {}
    values = {"candidates": rates.candidates}
    for name in _SPEAKER_METRICS.values():
        estimate: Estimate = getattr(rates, name)
        values |= {name: estimate.value, f"{name}_low": estimate.low, f"{name}_high": estimate.high}
    return {name: value for name, value in values.items() if math.isfinite(value)}


def _request(context: TaskContext, scoring: Scoring) -> AttackRequest:
    """Return the attack on all trial sets of the protocol."""
    data, inventory = context.setup.data, context.inventory
    return AttackRequest(
        data,
        context.suffix,
        context.setup.options.attackers,
        inventory.enrollment_of,
        train=[context.anon_data / f"{name}{context.suffix}" for name in inventory.training],
        options=AttackOptions(
            anon_data=context.anon_data,
            conditions=inventory.protocol.conditions,
            scoring=scoring,
            train_original=[data / name for name in inventory.training if scoring == "plda"],
            trial_utterances=context.setup.options.trial_utterances,
            mixed=context.setup.options.mixed,
        ),
    )


def _scoring(inventory: Inventory) -> tuple[Scoring, list[str]]:
    """Return the scoring of the protocol if the data allow it, else cosines with a note."""
    if inventory.protocol.scoring != "plda":
        return "cosine", []
    if inventory.training:
        return "plda", []
    return "cosine", ["scores are cosines: the PLDA of the protocol needs training speech, and there is none"]


def _eer_detail(row: AttackRow, context: TaskContext) -> dict[str, Any]:
    """Return counts, methods and the score file of an EER; ``official`` is the EER by the protocol's own method."""
    assert row.scores is not None  # noqa: S101 -- there is a folder for them
    method = context.inventory.protocol.eer
    return {
        "trials": row.trials,
        "set": row.set,
        "method": "rocch",
        "official": {"method": method, "eer": metrics.eer(*row.scored.classes(), method=method)},
        "backend": row.backend,
        "speaker_rates": _speaker_detail(row.speakers),
        "scores": row.scores.relative_to(context.out).as_posix(),
    }


def _without_llr(measures: set[str], result: AttackResult) -> list[str]:
    """Return why some attackers have no value of measures that need log-likelihood ratios."""
    attackers = ", ".join(sorted({row.attacker for row in result.rows if not row.llr}))
    names = sorted(measures) if attackers else []
    return [f"no {metrics.metric_info(name).title} of {attackers}: {_NO_LLR}" for name in names]
