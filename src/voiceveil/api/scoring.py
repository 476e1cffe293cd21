"""Verification metrics of score files, with intervals and paired differences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from voiceveil.core.checks import Check
from voiceveil.core.errors import InputError
from voiceveil.core.registry import did_you_mean

if TYPE_CHECKING:
    from voiceveil.metrics import Measure, ScoredTrials
    from voiceveil.stats import Difference

__all__ = ["ScoreSettings", "Scores", "score_files"]

#: Metric -> how it is computed with --method exact, and with --method official.
_HOW = {
    "eer": ("convex hull of the ROC", ""),
    "eer_speechbrain": ("", "SpeechBrain: VoicePrivacy 2024"),
    "eer_kaldi": ("", "Kaldi: VoicePrivacy 2020, 2022"),
    "eer_rocch": ("", "convex hull, ties by class: VoicePrivacy 2020"),
    "min_dcf": ("normalized, p_target {p_target:g}, costs {c_miss:g}, {c_fa:g}",) * 2,
    "act_dcf": ("as min_dcf, at the Bayes threshold; for scores that are LLRs",) * 2,
    "cllr": ("for scores that are LLRs",) * 2,
    "min_cllr": ("PAV, ties pooled", "PAV, ties by class, ramp"),
    "d_sys": ("linkability, integral of histograms", "linkability, trapezoid on bin centers"),
    "zebra_population": ("expected disclosure, 0 to 0.721 bit",) * 2,
    "zebra_individual": ("worst case, log10 of a likelihood ratio", "worst case, log10, ties by class"),
}

#: With so few resamples their spread, hence the width of an interval, is known to 7%: 1 / sqrt(2 * 100).
_FEWEST = 100


@dataclass(frozen=True)
class ScoreSettings:
    """Score files, the trials that they are of, and how the metrics are computed.

    Parameters
    ----------
    files
        Score files; the others are compared with the first.
    trials, utt2spk
        Trial list, and the speakers of the trial utterances; without a list, files hold ``<score> target|nontarget``.
    metrics
        Names of metrics (default: all).
    method
        ``"official"``: as the scripts of the challenges compute it.
    p_target, c_miss, c_fa
        Prior of target trials and costs of the DCFs.
    resamples, seed
        Of the bootstrap (default: 1000 resamples, fewer for huge files).
    """

    files: Sequence[str]
    trials: str | None = None
    utt2spk: str | None = None
    metrics: Sequence[str] | None = None
    method: Literal["exact", "official"] = "exact"
    p_target: float = 0.01
    c_miss: float = 10.0
    c_fa: float = 1.0
    resamples: int | None = None
    seed: int = 0


@dataclass(frozen=True)
class Scores:
    """The metrics of each file, the differences to the first, and the number of resamples."""

    files: list[dict[str, Any]]
    differences: list[dict[str, Any]]
    resamples: int

    @property
    def checks(self) -> list[Check]:
        """Checks that failed, of all files."""
        return [Check(**check) for result in self.files for check in result["checks"]]


@dataclass
class _Scored:
    """A score file: its trials, and notes on assumptions."""

    file: str
    trials: ScoredTrials
    notes: list[str]


def score_files(settings: ScoreSettings) -> Scores:
    """Read the files and compute the metrics.

    Raises
    ------
    InputError
        If a file, a metric or the number of resamples cannot be used.
    """
    names = _chosen(settings)
    if settings.resamples is not None and settings.resamples < _FEWEST:
        raise InputError(f"--resamples {settings.resamples}", fix=f"use 1000, at least {_FEWEST}")
    scored = _read(settings)
    resamples = settings.resamples or _affordable(len(scored[0].trials.score))
    results = [_measure(entry, names, settings, resamples) for entry in scored]
    differences = []
    if settings.trials and _measures(names, settings):
        differences = [_differ(scored[0], entry, names, settings, resamples) for entry in scored[1:]]
    return Scores(results, differences, resamples)


def _chosen(settings: ScoreSettings) -> list[str]:
    """Return the metrics that are asked for and that the method has."""
    from voiceveil.metrics import MEASURES

    column = ("exact", "official").index(settings.method)
    known = [name for name, how in _HOW.items() if how[column]]
    if settings.metrics is None:
        return known
    known += [name for name in MEASURES if name not in _HOW]  # of third parties
    names = list(settings.metrics)
    if not names:
        raise InputError("--metrics names no metric", fix=f"known: {', '.join(known)}")
    if settings.method == "official":  # the EER has a name for each official definition
        names = [n for name in names for n in ([k for k in known if k.startswith("eer")] if name == "eer" else [name])]
    for name in names:
        if name not in known:
            raise InputError(f"unknown metric {name!r} in --metrics", fix=did_you_mean(name, known))
    return names


def _affordable(trials: int) -> int:
    """Return 1000 resamples, or fewer for more than 100,000 trials; never too few."""
    return int(np.clip(100_000_000 // trials, _FEWEST, 1000))


def _read(settings: ScoreSettings) -> list[_Scored]:
    from voiceveil.corpus.score_files import read_key, read_labeled, read_scores, read_speakers
    from voiceveil.metrics import ScoredTrials

    if not settings.trials:
        if settings.utt2spk:
            raise InputError("--utt2spk without --trials", fix="give the trial list as well")
        note = "speakers unknown: intervals take trials for independent and are too narrow; give --trials"
        return [_Scored(file, ScoredTrials.independent(*read_labeled(file)), [note]) for file in settings.files]
    key = read_key(settings.trials)
    speaker, unknown = read_speakers(key, settings.utt2spk)
    notes = []
    if not settings.utt2spk:
        notes.append("speakers of the trial utterances taken from the target trials (no --utt2spk)")
    if unknown:
        count = f"{unknown} of {len(key.utterances)} utterances"
        notes.append(f"{count} are nobody's target: each taken for a speaker of its own; give --utt2spk")
    return [
        _Scored(file, ScoredTrials(read_scores(file, key), key.target, key.enroll, speaker), notes)
        for file in settings.files
    ]


def _measures(names: list[str], settings: ScoreSettings) -> dict[str, Measure]:
    """Return the metrics that have an interval."""
    from voiceveil.metrics import MEASURES, measures

    costs = (settings.p_target, settings.c_miss, settings.c_fa)
    official = settings.method == "official"
    known = {
        "eer": measures.eer(),
        "eer_speechbrain": measures.eer("speechbrain"),
        "eer_kaldi": measures.eer("kaldi"),
        "eer_rocch": measures.eer("rocch-official"),
        "min_dcf": measures.min_dcf(*costs, "kaldi" if official else "exact"),
        "act_dcf": measures.act_dcf(*costs),
        "cllr": measures.cllr(),
        "min_cllr": measures.min_cllr(settings.method),
        "d_sys": measures.d_sys(method=settings.method),
        "zebra_population": measures.zebra_population(settings.method),
    }
    others = {name: MEASURES[name]() for name in names if name not in _HOW}
    return {name: {**known, **others}[name] for name in names if name in known or name in others}


def _computable(scored: _Scored, names: list[str]) -> list[str]:
    """Return the metrics that these scores allow; a note names the others."""
    left_out = {}
    if np.isinf(scored.trials.score).any():
        left_out = {"d_sys": "needs finite scores", "cllr": "needs finite scores"}
    elif scored.trials.target.sum() < 20:
        left_out = {"d_sys": "needs 20 target trials"}
    scored.notes = scored.notes + [f"no {name}: it {why}" for name, why in left_out.items() if name in names]
    return [name for name in names if name not in left_out]


def _measure(scored: _Scored, names: list[str], settings: ScoreSettings, resamples: int) -> dict[str, Any]:
    from voiceveil import metrics
    from voiceveil.attack.checks import check_trials

    names = _computable(scored, names)
    measures = _measures(names, settings)
    estimates = metrics.estimate_all(scored.trials, list(measures.values()), resamples=resamples, seed=settings.seed)
    results: dict[str, Any] = dict(zip(measures, estimates, strict=True))
    if "zebra_individual" in names:
        results["zebra_individual"] = metrics.zebra(*scored.trials.classes(), method=settings.method)
    target = int(scored.trials.target.sum())
    return {
        "file": scored.file,
        "target_trials": target,
        "nontarget_trials": len(scored.trials.score) - target,
        "units": {"count": scored.trials.n_units, "of": scored.trials.of},
        "resamples": resamples,
        "seed": settings.seed,
        "metrics": {name: {"method": _how(name, settings), "result": results[name]} for name in names},
        "notes": scored.notes,
        "checks": [check.as_dict() for check in check_trials(scored.trials, where=scored.file, seed=settings.seed)],
    }


def _how(name: str, settings: ScoreSettings) -> str:
    return _HOW[name][settings.method == "official"].format(**vars(settings)) if name in _HOW else ""


def _differ(
    first: _Scored, scored: _Scored, names: list[str], settings: ScoreSettings, resamples: int
) -> dict[str, Any]:
    from voiceveil import metrics

    measures = _measures(_computable(first, _computable(scored, names)), settings)
    differences = metrics.compare_all(
        first.trials, scored.trials, list(measures.values()), resamples=resamples, seed=settings.seed
    )
    results = {
        name: {"result": difference, "detectable": _detectable(difference)}
        for name, difference in zip(measures, differences, strict=True)
    }
    return {"file": scored.file, "minus": first.file, "metrics": results}


def _detectable(difference: Difference) -> float | None:
    from voiceveil.stats import minimal_detectable_difference

    return minimal_detectable_difference(difference.se, difference.n) if difference.n > 1 else None
