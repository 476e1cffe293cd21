"""Assess the risk of re-identification from recordings or embeddings, and write the report."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from voiceveil.api.risk_record import risk_record
from voiceveil.core.checks import Check
from voiceveil.core.errors import InputError
from voiceveil.core.output_guard import refuse_files, refuse_same_files
from voiceveil.core.registry import did_you_mean
from voiceveil.core.tables import Table, Tabular
from voiceveil.core.terminal import print_lines
from voiceveil.corpus import Corpus, open_corpus
from voiceveil.corpus.ids import with_safe_ids
from voiceveil.corpus.legal_sets import Unit, design_legal_sets
from voiceveil.risk.assessment import Assessment, assess
from voiceveil.risk.audio import Recordings, attacks_from_audio, check_attackers
from voiceveil.risk.checks import check_recordings
from voiceveil.risk.curves import RiskPlan
from voiceveil.risk.embedding_sources import EmbeddingSources, attack_from_embeddings
from voiceveil.risk.embeddings import Norm
from voiceveil.risk.folders import choose_lengths, design_sets, refuse_swapped, too_few_to_learn
from voiceveil.risk.labels import AttributeLabels, read_labels
from voiceveil.risk.score_matrices import assess_scores
from voiceveil.risk.sets import ATTACKERS, RiskAttack, read_split, split_of_design
from voiceveil.risk.tables import assessment_records, assessment_table
from voiceveil.risk.verdicts import LimitVerdict, RiskLimits
from voiceveil.run.cache import Cache
from voiceveil.run.context import RunContext
from voiceveil.run.device import check_device, use_device
from voiceveil.run.executor import Jobs, check_jobs, executor_of
from voiceveil.run.outputs import refuse_inputs

__all__ = ["Risk", "RiskOptions", "RiskSettings", "assess_risk", "assess_settings"]

#: Attacker -> the encoder that it has by default.
_ENCODERS = {
    "original": "campplus",
    "ignorant": "campplus",
    "semi-informed": "campplus-adapted",
    "informed": "campplus-adapted",
}


@dataclass(frozen=True)
class RiskOptions:
    """Less common options of :func:`voiceveil.assess_risk`.

    Parameters
    ----------
    amounts, unit
        Without a protocol: least speech of a speaker in A and in B; the unit is ``"minutes"`` or ``"utterances"``. By
        default the paper's 2 and 3 minutes, or as many utterances as most speakers have.
    train_similar : sequence of paths
        Speech anonymized by a similar system, for attackers that train on it.
    encoders : mapping
        Attacker -> encoder, see ``voiceveil risk --help``.
    distractors : mapping
        Attacker -> embeddings of more speakers, who are added to A and are never the right answer.
    cache : path, optional
        SQLite file that keeps embeddings (biometric data) for the next call.
    progress : bool
        Show progress on the standard error output.
    recipient, means : str
        Who is to have the data, and the means that they are reasonably likely to use, for the report (default: anybody,
        with the means of the attackers).
    """

    amounts: tuple[float, float] | None = None
    unit: Unit = "minutes"
    train_similar: Sequence[str | Path] = ()
    encoders: Mapping[str, str] = field(default_factory=dict)
    distractors: Mapping[str, str | Path] = field(default_factory=dict)
    cache: str | Path | None = None
    progress: bool = False
    recipient: str = ""
    means: str = ""


@dataclass(frozen=True)
class RiskSettings:
    """Recordings and settings of a risk assessment; corpora as :func:`voiceveil.open_corpus` takes them.

    Either ``original`` and ``anonymized``, or ``embeddings`` (attacker -> one file with both sets, or A's and B's), or
    ``scores`` (attacker -> a matrix for each conversation length, which the plan does not choose then).
    With ``fit_lengths`` lengths are those of the paper that the recordings allow, whatever the plan says.
    """

    original: Sequence[str | Path] = ()
    anonymized: Sequence[str | Path] = ()
    train: Sequence[str | Path] = ()
    embeddings: Mapping[str, Sequence[Path]] = field(default_factory=dict)
    scores: Mapping[str, Sequence[Path]] = field(default_factory=dict)
    norm: Norm = "check"
    protocol: Path | None = None
    labels: Path | None = None
    plan: RiskPlan = field(default_factory=RiskPlan)
    limits: RiskLimits = field(default_factory=RiskLimits)
    jobs: Jobs = 1
    device: str = "auto"
    options: RiskOptions = field(default_factory=RiskOptions)
    fit_lengths: bool = False

    def __post_init__(self) -> None:
        check_jobs(self.jobs)
        check_device(self.device)
        if sum(map(bool, (self.embeddings, self.scores, self.original or self.anonymized))) != 1:
            fix = "--embeddings, or --scores, or --original and --anonymized"
            raise InputError("give embeddings, or corpora of audio, or scores", fix=fix)
        if not (self.embeddings or self.scores) and self.protocol is None and len(self.original) != 1:
            fix = "give --protocol (`corpus protocol --legal`), or one --original to draw the sets from"
            raise InputError("which utterances are in A and which in B?", fix=fix)
        for name in self.options.distractors:
            if name not in self.embeddings:
                fix = "add them to set A of the corpus, or give --embeddings of this attacker"
                raise InputError(f"distractors for the attacker {name}, who has no embeddings", fix=fix)
        for name in (*self.options.encoders, *self.embeddings, *self.scores):
            if name not in ATTACKERS:
                raise InputError(f"unknown attacker {name!r}", fix=did_you_mean(name, list(ATTACKERS)))
        if len(self.original) == len(self.anonymized) == 1:
            refuse_swapped(self.original[0], self.anonymized[0])
        if not self.scores and self.limits.length is not None and self.limits.length not in self.plan.lengths:
            lengths = ",".join(map(str, self.plan.lengths))
            raise InputError(f"--at-length {self.limits.length} is not measured", fix=f"--lengths are {lengths}")

    def refuse_report(self, report: Path, *, overwrite: bool) -> None:
        """Refuse to write a report over or into what is read, and over a file that is there."""
        if not report.absolute().parent.is_dir():
            raise InputError("no such folder", where=report.parent, fix="make it first")
        refuse_inputs(report, [*self.original, *self.anonymized, *self.train, *self.options.train_similar])
        embeddings = [file for files in (*self.embeddings.values(), *self.scores.values()) for file in files]
        others = [Path(path) for path in (self.protocol, self.labels, self.options.cache) if path is not None]
        refuse_same_files([report], lambda: [*embeddings, *others])
        refuse_files([report], overwrite=overwrite)


@dataclass(frozen=True, eq=False)
class Risk(Tabular):
    """A risk assessment: singling out, linkability and inference by each attacker, with 95% intervals; prints a table.

    ``assessment`` holds all measurements; the properties are shortcuts.
    """

    assessment: Assessment
    settings: RiskSettings

    @property
    def verdicts(self) -> tuple[LimitVerdict, ...]:
        """Each limit against what was measured."""
        return self.assessment.verdicts

    @property
    def warnings(self) -> tuple[str, ...]:
        """Reasons not to take a weak attacker for privacy."""
        return self.assessment.warnings

    @property
    def checks(self) -> tuple[Check, ...]:
        """Checks that failed."""
        return self.assessment.checks

    @property
    def acceptable(self) -> bool:
        """True if every limit is kept beyond doubt, and no check failed that would make figures doubtful."""
        return all(verdict.kept for verdict in self.verdicts) and not (self.verdicts and self.checks)

    def records(self) -> list[dict[str, Any]]:
        """Return one record per criterion, attacker, length and number of speakers; rates are fractions."""
        return assessment_records(self.assessment)

    def table(self) -> Table:
        """Return smallest and largest N of each curve, inference, warnings and limits."""
        return assessment_table(self.assessment)

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values for JSON."""
        return self.assessment.as_dict()

    def report(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write the report, one HTML file for those who decide, and return its path.

        Parameters
        ----------
        path
            File name; its folder must exist.
        overwrite
            Replace the file if it exists; never what was read.
        """
        from voiceveil.report.risk import write_risk_report

        target = Path(path)
        self.settings.refuse_report(target, overwrite=overwrite)
        write_risk_report(self.assessment, target)
        return target


def assess_risk(
    original: str | Path,
    anonymized: str | Path,
    *,
    protocol: str | Path | None = None,
    plan: RiskPlan | None = None,
    limits: RiskLimits | None = None,
    train: Sequence[str | Path] = (),
    labels: str | Path | None = None,
    jobs: Jobs = 1,
    device: str = "auto",
    options: RiskOptions | None = None,
) -> Risk:
    """Assess the risk of re-identification: singling out, linkability and inference (Opinion 05/2014).

    It follows Vauquier et al. 2025, on two sets of recordings A and B, and does not replace a legal assessment.

    Parameters
    ----------
    original, anonymized
        Corpora as :func:`voiceveil.open_corpus` reads them, with the same ids; the original names the speakers.
    protocol
        ``protocol.toml`` of ``voiceveil corpus protocol --legal`` (default: the sets A and B are drawn anew).
    plan
        Lengths of the conversations, numbers of speakers, draws and seed (default: those of the paper, without lengths
        that the recordings do not allow).
    limits
        Rates that are acceptable at most; the result has a verdict on each.
    train
        Speech of other people, anonymized by the same system, for attackers that train on it.
    labels
        CSV file with a column ``speaker`` or ``utterance`` and attributes whose inference is tried.
    jobs
        Number of processes and threads, or an executor.
    device
        Where networks run: ``"auto"``, ``"cpu"``, ``"cuda"``, ``"cuda:1"`` or ``"mps"``.
    options
        Amounts of speech in A and B, encoders, a cache and more: :class:`voiceveil.RiskOptions`.

    Returns
    -------
    Risk
        Prints a table; ``.verdicts``, ``.warnings``, ``.to_frame()``, ``.report("risk.html")``.

    Raises
    ------
    InputError
        If a corpus, an option or the split into A and B cannot be used.

    Examples
    --------
    >>> vv.assess_risk("recordings", "hidden").report("risk.html")          # doctest: +SKIP
    """
    settings = RiskSettings(
        [original],
        [anonymized],
        train,
        protocol=None if protocol is None else Path(protocol),
        labels=None if labels is None else Path(labels),
        plan=plan or RiskPlan(),
        limits=limits or RiskLimits(),
        jobs=jobs,
        device=device,
        options=options or RiskOptions(),
        fit_lengths=plan is None,
    )
    return assess_settings(settings)


def assess_settings(settings: RiskSettings, *, command: str = "") -> Risk:
    """Assess the recordings or embeddings of the settings; the report shows ``command`` as the way to repeat it."""
    if settings.scores:
        scored = assess_scores(settings.scores, settings.plan, limits=settings.limits)
        return Risk(replace(scored, about=risk_record(settings, command)), settings)
    labels = None if settings.labels is None else read_labels(settings.labels)
    checks: list[Check] = []
    plan, left_out = settings.plan, tuple[str, ...]()
    if settings.embeddings:
        attacks = _from_embeddings(settings, labels)
        if settings.fit_lengths:
            sides = {"A": attacks[0].parts[0].a, "B": attacks[0].parts[0].b}
            speaker = {
                f"{name} {row}": part.names[code] for name, part in sides.items() for row, code in enumerate(part.codes)
            }
            plan, left_out = _fitted_plan({row: row[0] for row in speaker}, speaker, settings)
    else:
        recordings = _recordings(settings)
        attackers, reasons = _attackers(recordings, settings)
        check_attackers(attackers)
        plan, left_out = _plan_for(recordings, settings)
        left_out += reasons
        attacks, checks = _from_audio(recordings, settings, attackers, labels)
    assessment = assess(
        attacks,
        plan,
        limits=settings.limits,
        jobs=executor_of(settings.jobs).workers,
        checks=checks,
        progress=(lambda text: print_lines(text, file=sys.stderr)) if settings.options.progress else None,
    )
    warnings = (*assessment.warnings, *(f"Not measured: {reason}." for reason in left_out))
    return Risk(replace(assessment, about=risk_record(settings, command), warnings=warnings), settings)


def _from_embeddings(settings: RiskSettings, labels: AttributeLabels | None) -> list[RiskAttack]:
    split = None if settings.protocol is None else read_split(settings.protocol)
    attacks = []
    for name, files in settings.embeddings.items():
        extra = settings.options.distractors.get(name)
        sources = EmbeddingSources(files, None if extra is None else Path(extra), settings.norm)
        attacks.append(attack_from_embeddings(name, sources, split, labels))
    return attacks


def _recordings(settings: RiskSettings) -> Recordings:
    """Open all corpora, divide them into A and B, and check that every utterance is there."""
    original, *others = (
        tuple(with_safe_ids(open_corpus(spec)) for spec in specs)
        for specs in (settings.original, settings.anonymized, settings.train, settings.options.train_similar)
    )
    recordings = Recordings(_split(settings, original), original, *others)
    for protected, corpora in ((False, recordings.original), (True, recordings.anonymized)):
        if corpora:
            recordings.side(protected)
    return recordings


def _plan_for(recordings: Recordings, settings: RiskSettings) -> tuple[RiskPlan, tuple[str, ...]]:
    """Return the plan with lengths that the recordings allow, and why others are left out; say so before any work."""
    known = recordings.known()
    return _fitted_plan(recordings.split, {id: str(known[id].speaker) for id in recordings.split}, settings)


def _fitted_plan(
    split: Mapping[str, str], speaker: Mapping[str, str], settings: RiskSettings
) -> tuple[RiskPlan, tuple[str, ...]]:
    """Return the plan with lengths that the sets allow; ``split`` is utterance -> "A" or "B"."""
    choice = choose_lengths(split, speaker, None if settings.fit_lengths else settings.plan.lengths)
    wanted = settings.limits.length
    if wanted is not None and wanted not in choice.lengths:
        raise InputError(f"--at-length {wanted} cannot be measured", fix=f"{choice.lengths} can")
    if settings.options.progress:
        sides = Counter(split.values())
        people = {name: len({speaker[id] for id, side in split.items() if side == name}) for name in "AB"}
        sets = "; ".join(f"{name}: {people[name]:,} speakers, {sides[name]:,} utterances" for name in "AB")
        lengths = ", ".join(map(str, choice.lengths))
        print_lines(f"sets {sets}; utterances in a conversation: {lengths}", *choice.left_out, file=sys.stderr)
    return replace(settings.plan, lengths=choice.lengths), choice.left_out


def _from_audio(
    recordings: Recordings, settings: RiskSettings, attackers: Mapping[str, str], labels: AttributeLabels | None
) -> tuple[list[RiskAttack], list[Check]]:
    known = recordings.known()
    ids = list(recordings.split)
    columns = {
        "gender": [known[id].gender or "" for id in ids],
        "emotion": [known[id].emotion or "" for id in ids],
        **({} if labels is None else labels.columns(ids, [str(known[id].speaker) for id in ids])),
    }
    attributes = {name: dict(zip(ids, column, strict=True)) for name, column in columns.items() if any(column)}
    file = settings.options.cache
    cache = Cache(None if file is None else Path(file))
    try:
        with use_device(settings.device):
            context = RunContext(cache, settings.jobs, progress=settings.options.progress)
            attacks = attacks_from_audio(recordings, attackers, context, attributes)
        return attacks, check_recordings(recordings, cache)
    finally:
        cache.close()


def _attackers(recordings: Recordings, settings: RiskSettings) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return attacker -> encoder: all that the recordings allow; and why one is left out that nobody named."""
    names = ["original"] if settings.original else []
    if settings.anonymized:
        names += ["ignorant", *(["semi-informed"] if settings.options.train_similar else []), "informed"]
    reason = ""
    if "informed" in names and "informed" not in settings.options.encoders:
        reason = too_few_to_learn(recordings.training or recordings.anonymized, recordings.known())
    if reason:
        names.remove("informed")
        if settings.options.progress:
            print_lines(f"left out: {reason}", file=sys.stderr)
    chosen = {name: _ENCODERS[name] for name in names} | dict(settings.options.encoders)
    return chosen, (reason,) if reason else ()


def _split(settings: RiskSettings, original: Sequence[Corpus]) -> dict[str, str]:
    """Return utterance id -> "A" or "B"."""
    if settings.protocol is not None:
        return read_split(settings.protocol)
    if settings.options.amounts is None:
        return split_of_design(design_sets(original[0], seed=settings.plan.seed))
    (a, b), unit = settings.options.amounts, settings.options.unit
    return split_of_design(design_legal_sets(original[0], a=a, b=b, unit=unit, seed=settings.plan.seed))
