"""Results of an evaluation: figures that say what they are, in ``results.json``.

Conventions: rates are fractions in [0, 1]; G_VD is in dB; ``low`` and ``high`` are the ends of a 95% interval, None
where there is none (published figures have none). The ``condition`` of a verification figure is two letters, enrollment
then trial, ``o`` for original and ``a`` for anonymized: ``oo``, ``oa``, ``aa``. Files are written in format 2. Format
1, in which ``model`` held the attacker and its knowledge in one string, can still be read.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from voiceveil.core.checks import Check, check_lines
from voiceveil.core.documents import Extended, build, read_json
from voiceveil.core.errors import InputError
from voiceveil.core.tables import Table, Tabular
from voiceveil.evaluation.protocol_checks import known_metric

__all__ = ["Figure", "Results", "attacker_label", "challenge_attacker", "upgraded_figure"]

_FORMAT, _FORMAT_1 = "voiceveil results 2", "voiceveil results 1"
_FIX = "give a results.json as `voiceveil evaluate` has written it"
_MOST_FIGURES = 10_000
_FARTHEST, _ROUNDING = 1000.0, 1e-6
#: Metric -> the least and the largest value that it can have.
_LIMITS = {
    "eer": (0.0, 1.0),
    "eer_rocch": (0.0, 1.0),
    "eer_trials": (0.0, 1.0),
    "worst_speaker_eer": (0.0, 1.0),
    "speakers_below_20": (0.0, 1.0),
    "identified": (0.0, 1.0),
    "uar": (0.0, 1.0),
    "wer": (0.0, _FARTHEST),
    "pitch_correlation": (-1.0, 1.0),
}


@dataclass(frozen=True)
class Figure:
    """One number: which metric, of which speech, and which attacker or model measured it."""

    metric: str  # "eer", "wer", "uar", "pitch_correlation", "gvd", "deid", "min_cllr", ...
    value: Extended
    dataset: str  # "libri_dev", "vctk_test", "IEMOCAP_dev"
    low: Extended | None = None
    high: Extended | None = None
    split: str = ""  # "dev" | "test"
    gender: str = ""  # "f" | "m" | "" for both
    subset: str = ""  # "common" of VCTK
    condition: str = ""  # "oo" | "oa" | "aa" for verification; "o" | "a" for a corpus alone
    attacker: str = ""  # of a verification figure: "campplus", "campplus-adapted"
    knowledge: str = ""  # of the attacker: see `voiceveil.attack.attacker`
    encoder: str = ""  # family of the attacker's speaker encoder: "campplus", "ecapa"
    trial_utterances: int = 1  # of a verification figure: utterances of a trial, known to be of one person
    trials: str = ""  # "mixed": all pairs of both genders; "" for those of the trial list
    model: str = ""  # of any other figure: "moonshine", "functionals"
    detail: Mapping[str, Any] = field(default_factory=dict)  # counts, recalls, standard deviations

    @property
    def evaluator(self) -> str:
        """The attacker with its knowledge, or the model, for a reader: ``campplus (ignorant)``, ``moonshine``."""
        return attacker_label(self.attacker, self.knowledge) if self.attacker else self.model

    def is_by(self, attacker: str | None) -> bool:
        """Return True if the figure is of this attacker (its name, or name and knowledge); None is any attacker."""
        return attacker in (None, self.attacker, self.evaluator)

    def __str__(self) -> str:
        where = [self.dataset, self.subset, self.gender, self.trial_kind, self.condition, self.evaluator]
        return f"{self.metric} {self.value:.4g} ({' '.join(filter(None, where))})"

    @property
    def trial_kind(self) -> str:
        """The kind of trials for a reader, e.g. ``mixed, 3 utterances``; "" for single utterances of the list."""
        several = f"{self.trial_utterances} utterances" if self.trial_utterances > 1 else ""
        return ", ".join(filter(None, [self.trials, several]))


@dataclass(frozen=True)
class Results(Tabular):
    """All figures of one system under one protocol, with their provenance; prints a table."""

    system: str
    protocol: str
    figures: tuple[Figure, ...]
    info: Mapping[str, Any] = field(
        default_factory=dict
    )  # versions, seeds, hashes, parameters, health, what is missing
    checks: tuple[Check, ...] = ()  # that failed: see `voiceveil.core.checks`

    def find(self, metric: str, **wanted: str) -> tuple[Figure, ...]:
        """Return the figures of a metric, e.g. ``find("eer", split="test", condition="aa")``."""
        return tuple(
            figure
            for figure in self.figures
            if figure.metric == metric and all(getattr(figure, key) == value for key, value in wanted.items())
        )

    def one(self, metric: str, **wanted: str) -> Figure:
        """Return the only such figure; an ``InputError`` if there is none or more than one."""
        figures = self.find(metric, **wanted)
        if len(figures) != 1:
            which = ", ".join(f"{key} {value!r}" for key, value in wanted.items())
            raise InputError(f"{self.system}: {len(figures)} figures for {metric} with {which}, not one")
        return figures[0]

    def records(self) -> list[dict[str, Any]]:
        """Return one record per figure; rates are fractions, ``low`` and ``high`` the ends of the 95% interval."""
        return [
            {key: value for key, value in vars(figure).items() if key != "detail"} | {"system": self.system}
            for figure in self.figures
        ]

    def table(self) -> Table:
        """Return the figures, with the warnings, notes and failed checks that belong to them."""
        health = [(entry["attacker"], text) for entry in self.info.get("health", []) for text in entry["warnings"]]
        notes = [f"warning: {attacker}: {text}" for attacker, text in health]
        notes += [f"note: {text}" for text in self.info.get("notes", [])]
        if strongest := self.info.get("strongest"):
            value, low, high = (100 * float(strongest["eer"][key]) for key in ("value", "low", "high"))
            attacker = f"{strongest['attacker']} ({strongest['condition']})"
            notes.append(
                f"strongest attacker: {attacker}, EER {value:.1f}% [{low:.1f}, {high:.1f}], mean over the sets"
            )
        columns = ("metric", "data", "condition", "value", "95% interval", "by")
        return Table(columns, tuple(map(_row, self.figures)), (*notes, *check_lines(self.checks)))

    def as_dict(self) -> dict[str, Any]:
        """Return the content of ``results.json``."""
        plain: dict[str, Any] = _plain({"format": _FORMAT, **dataclasses.asdict(self)})
        return plain

    @classmethod
    def load(cls, path: Path) -> Results:
        """Read ``results.json``."""
        data = read_json(path)
        if not isinstance(data, dict) or data.get("format") not in (_FORMAT, _FORMAT_1):
            raise InputError("not the results of an evaluation", where=path, fix="give a results.json")
        if data["format"] == _FORMAT_1 and isinstance(data.get("figures"), list):
            data["figures"] = [upgraded_figure(row) for row in data["figures"]]
            if isinstance(data.get("info"), dict) and "recogniser" in data["info"]:
                data["info"]["recognizers"] = [data["info"].pop("recogniser")]
        document = build(_Document, data, where=path, fix=_FIX)
        if len(document.figures) > _MOST_FIGURES:
            raise InputError(f"{len(document.figures)} figures, more than {_MOST_FIGURES}", where=path, fix=_FIX)
        for number, figure in enumerate(document.figures):
            build(_Detail, figure.detail, where=f"{path}: figures[{number}].detail", unknown=True, fix=_FIX)
            if fault := _fault(figure):
                raise InputError(f"figures[{number}]: {fault}", where=path, fix="rates are fractions: 0.05, not 5")
        build(_Info, document.info, where=f"{path}: info", unknown=True, fix=_FIX)
        return cls(document.system, document.protocol, document.figures, document.info, document.checks)


@dataclass(frozen=True)
class _Document:
    """The content of ``results.json``."""

    format: str
    system: str
    protocol: str
    figures: tuple[Figure, ...]
    info: dict[str, Any] = field(default_factory=dict)
    checks: tuple[Check, ...] = ()


@dataclass(frozen=True)
class _Official:
    """The EER by the challenge's own method."""

    method: str
    eer: float


@dataclass(frozen=True)
class _Detail:
    """The entries of a figure's ``detail`` that reports and rankings read."""

    set: str | None = None
    scores: str | None = None
    trials: int | None = None
    official: _Official | None = None
    recalls: dict[str, float] = field(default_factory=dict)
    language_model: str | None = None
    tag: str | None = None
    speaker_rates: dict[str, float] = field(default_factory=dict)
    words: int | None = None
    errors: int | None = None
    substitutions: int | None = None
    deletions: int | None = None
    insertions: int | None = None


@dataclass(frozen=True)
class _Files:
    """The files in the challenge's own layout, and the model behind each of its names."""

    names: dict[str, str]
    files: list[str]


@dataclass(frozen=True)
class _Health:
    """The checks of an attacker."""

    attacker: str = ""
    original_eer: float | None = None
    control_eer: float | None = None
    accuracy: float | None = None
    validation_eer: float | None = None
    choice: str | None = None
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Set:
    """An anonymized set."""

    utterances: int | None = None


@dataclass(frozen=True)
class _Info:
    """The entries of ``info`` that reports and submissions read."""

    notes: list[str] = field(default_factory=list)
    health: list[_Health] = field(default_factory=list)
    voiceveil: str = ""
    time: str = ""
    parameters: dict[str, Any] = field(default_factory=dict)
    training: list[str] = field(default_factory=list)
    attackers: list[str] = field(default_factory=list)
    recognizers: list[str] = field(default_factory=list)
    anonymized_recognizers: list[str] = field(default_factory=list)
    similarity: str = ""
    similarity_scoring: str = ""
    pitch_tracker: str = ""
    emotion_models: list[str] = field(default_factory=list)
    seed: Any = None
    suffix: str = ""
    given: bool = False
    official: _Files | None = None
    anonymized: dict[str, _Set] = field(default_factory=dict)


#: Metrics of verification trials, whose figures have an attacker.
_OF_TRIALS = (
    "eer", "eer_rocch", "cllr", "min_cllr", "d_sys", "zebra_population", "zebra_individual", "min_dcf",
)  # fmt: skip
_CHALLENGE_KNOWLEDGE = {"oo": "unprotected", "oa": "ignorant", "aa": "lazy-informed"}


def attacker_label(attacker: str, knowledge: str) -> str:
    """Return an attacker's name for a reader: ``campplus (ignorant)``."""
    return f"{attacker} ({knowledge})" if knowledge else attacker


def challenge_attacker(name: str, condition: str) -> dict[str, Any]:
    """Return the fields ``attacker`` and ``knowledge`` of a figure by one of the challenges' own two attackers.

    Parameters
    ----------
    name : str
        ``ASV_eval``, trained on original speech, or ``ASV_eval^anon``, trained on anonymized speech.
    condition : str
        ``oo``, ``oa`` or ``aa``.
    """
    trained = "semi-informed" if name == "ASV_eval^anon" else _CHALLENGE_KNOWLEDGE.get(condition, "")
    return {"attacker": name, "knowledge": trained}


def upgraded_figure(row: Any) -> Any:
    """Return a figure of format 1 (``conditions``, and ``model`` as in "campplus (ignorant)") in format 2."""
    if not isinstance(row, dict) or "condition" in row:
        return row
    row = {("condition" if key == "conditions" else key): value for key, value in row.items()}
    model = row.get("model")
    if row.get("metric") in _OF_TRIALS and isinstance(model, str):
        name, _, knowledge = model.removesuffix(")").partition(" (")
        own = {"attacker": name, "knowledge": "metadata" if name == "free:order" else knowledge}
        if name == "free:order":
            own["knowledge"] = "metadata"
        row |= challenge_attacker(name, str(row.get("condition"))) if name.startswith("ASV_eval") else own
        row["model"] = ""
    return row


def _row(figure: Figure) -> tuple[str, ...]:
    """Return the cells of a figure: percent for rates, three decimals for everything else."""
    info = known_metric(figure.metric)
    scale, digits, unit = (100.0, 1, "%") if info is not None and info.unit == "%" else (1.0, 3, "")
    known = figure.low is not None and figure.high is not None
    interval = f"[{scale * (figure.low or 0.0):.{digits}f}, {scale * (figure.high or 0.0):.{digits}f}]" if known else ""
    data = " ".join(filter(None, [figure.dataset, figure.subset, figure.gender, figure.trial_kind]))
    value = f"{scale * figure.value:.{digits}f}{unit}"
    return figure.metric, data, figure.condition, value, interval, figure.evaluator


def _fault(figure: Figure) -> str:
    """Return what is impossible about a figure, or an empty string."""
    least, most = _LIMITS.get(figure.metric, (-math.inf, math.inf))
    if not least - _ROUNDING <= figure.value <= most + _ROUNDING:
        return f"{figure.metric} is {figure.value:g}, but must be from {least:g} to {most:g}"
    ends = [end for end in (figure.low, figure.high) if end is not None]
    if figure.metric in _LIMITS and any(abs(end) > _FARTHEST for end in ends):
        return f"{figure.metric} has an interval that ends at {max(ends, key=abs):g}"
    if len(ends) == 2 and ends[0] > ends[1]:
        return f"{figure.metric} has an interval from {ends[0]:g} down to {ends[1]:g}"
    return ""


def _plain(value: Any) -> Any:
    """Return values that standard JSON can hold: an infinity (a Cllr may be one) becomes "inf", NaN becomes None."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value
