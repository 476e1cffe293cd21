"""The figures of an evaluation: each function takes corpora, original and anonymized, and gives figures.

Conventions: see :mod:`voiceveil.evaluation.results`. All that looks at audio goes through the cache, so that nothing
is computed twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from voiceveil import metrics
from voiceveil import models as utility
from voiceveil.attack import encoder as make_encoder
from voiceveil.attack import run as run_attack
from voiceveil.attack.embedding import embed
from voiceveil.core.checks import Check
from voiceveil.corpus import Corpus, Utterance
from voiceveil.corpus.score_files import read_key, read_scores
from voiceveil.evaluation.attackers import scoring_of
from voiceveil.evaluation.inventory import Inventory
from voiceveil.evaluation.protocol import Verification
from voiceveil.evaluation.results import Figure
from voiceveil.metrics import MEASURES, ScoredTrials, estimate_all
from voiceveil.run.cache import Cache
from voiceveil.run.context import RunContext
from voiceveil.run.executor import Jobs
from voiceveil.stats import Estimate

__all__ = ["Tools", "distinctiveness", "emotions", "pitch", "verification", "words"]

_FEWEST = 20  # target trials, for a histogram of two bins
_NO_LLR = "the scores are no log-likelihood ratios, as those of PLDA are; min Cllr needs none"


@dataclass(frozen=True)
class Tools:
    """What does the work: attackers, recogniser, where results are kept, how many processes."""

    attackers: tuple[str, ...]
    recogniser: str
    cache: Cache
    jobs: Jobs = 1
    quiet: bool = True

    def running(self) -> dict[str, Any]:
        """The options of all that runs over a corpus."""
        return {"cache": self.cache, "jobs": self.jobs, "quiet": self.quiet}

    def context(self) -> RunContext:
        """Return the cache and the processes of the attackers."""
        return RunContext(self.cache, self.jobs, self.quiet)


def verification(
    inventory: Inventory, data: Path, anon_data: Path, suffix: str, out: Path, tools: Tools
) -> tuple[list[Figure], dict[str, Any], list[str], tuple[Check, ...]]:
    """Return EERs of all attackers and other metrics of trials, the attackers' health, notes, and failed checks."""
    places = {trials.set: (one, trials.gender) for one in inventory.verification for trials in one.trials}
    scoring, notes = scoring_of(inventory)
    result = run_attack(
        data,
        anon=suffix,
        anon_data=anon_data,
        attackers=tools.attackers,
        sets=inventory.enrollment_of,
        conditions=inventory.protocol.conditions,
        scoring=scoring,
        train=[anon_data / f"{name}{suffix}" for name in inventory.training],
        train_original=[data / name for name in inventory.training if scoring == "plda"],
        cache=tools.cache,
        out=out / "scores",
        jobs=tools.jobs,
        quiet=tools.quiet,
    )
    measures = [name for name in inventory.protocol.metrics if name != "eer" and name in MEASURES]
    needs_llr = {name for name in measures if MEASURES[name]().needs_llr}
    individual = "zebra_individual" in inventory.protocol.metrics
    figures: list[Figure] = []
    for row in result.rows:
        place = _place(*places[row.set], row.condition) | {"attacker": row.attacker, "knowledge": row.knowledge}
        assert row.scores is not None  # noqa: S101 -- there is a folder for them
        scored = _scored(row.scores, data / row.set / "trials", inventory.corpora[row.set])
        method = inventory.protocol.eer
        official = {"method": method, "eer": metrics.eer(*scored.classes(), method=method)}
        detail = {"trials": row.trials, "set": row.set, "method": "rocch", "official": official, "backend": row.backend}
        figures.append(_figure("eer", row.eer, place, {**detail, "scores": row.scores.relative_to(out).as_posix()}))
        possible = [name for name in measures if row.llr or name not in needs_llr]
        if "d_sys" in possible and scored.target.sum() < _FEWEST:
            possible.remove("d_sys")
            notes.append(f"no D_sys of {row.set}: it needs {_FEWEST} target trials")
        figures += _more_of_trials(scored, possible, place)
        if individual:
            zebra = metrics.zebra(*scored.classes())
            figures.append(Figure("zebra_individual", zebra.individual, detail={"tag": zebra.tag}, **place))
    health = {key: value for key, value in result.as_dict().items() if key in ("health", "strongest")}
    without = sorted({row.attacker for row in result.rows if not row.llr})
    for name in sorted(needs_llr) if without else ():
        notes.append(f"no {metrics.metric_info(name).title} of {', '.join(without)}: {_NO_LLR}")
    return figures, health, list(dict.fromkeys(notes)), result.checks


def _place(one: Verification, gender: str, condition: str, model: str = "") -> dict[str, Any]:
    return {
        "dataset": one.dataset,
        "split": one.split,
        "subset": one.subset,
        "gender": gender,
        "condition": condition,
        "model": model,
    }


def _figure(metric: str, value: Estimate, place: Mapping[str, Any], detail: Mapping[str, Any]) -> Figure:
    return Figure(metric, value.value, low=value.low, high=value.high, detail=detail, **place)


def _scored(scores: Path, trials: Path, corpus: Corpus) -> ScoredTrials:
    values = read_scores(scores, read_key(trials))
    speaker = {u.id: u.speaker or u.id for u in corpus}
    assert corpus.trials is not None  # noqa: S101 -- the inventory has refused sets without trials
    return ScoredTrials.of_trials(corpus.trials, values, speaker)


def _more_of_trials(scored: ScoredTrials, names: list[str], place: Mapping[str, Any]) -> Iterator[Figure]:
    for name, value in zip(names, estimate_all(scored, names), strict=True):
        yield _figure(name, value, place, {})


def words(
    inventory: Inventory, anonymized: Mapping[str, Corpus], tools: Tools
) -> tuple[list[Figure], dict[str, metrics.WordErrors]]:
    """WER of original and anonymized speech; and dataset, dot, ``o`` or ``a`` -> all that was heard."""
    listener = utility.recogniser(tools.recogniser)
    figures, heard = [], {}
    for one in inventory.recognition:
        for condition, corpora in (("o", inventory.corpora), ("a", anonymized)):
            utterances = [u for name in one.sets for u in corpora[name]]
            transcripts = utility.transcribe(utterances, listener, **tools.running())
            result = utility.word_error_rate(utterances, transcripts)
            errors = heard[f"{one.dataset}.{condition}"] = result.errors
            detail = {
                "errors": errors.edits,
                "words": errors.substitutions + errors.deletions + errors.hits,
                "insertions": errors.insertions,
                "deletions": errors.deletions,
                "substitutions": errors.substitutions,
            }
            place = {"dataset": one.dataset, "split": one.split, "condition": condition, "model": tools.recogniser}
            figures.append(_figure("wer", result.wer, place, detail))
    return figures, heard


def emotions(inventory: Inventory, anonymized: Mapping[str, Corpus], tools: Tools) -> list[Figure]:
    """UAR of original and anonymized speech, by a recogniser trained on the original."""
    figures = []
    for one in inventory.emotion:
        original = inventory.corpora[one.set]
        folds = utility.emotion_folds(original)
        listener = utility.train_emotion_recogniser(original, folds, **tools.running())
        for condition, corpus in (("o", original), ("a", anonymized[one.set])):
            result = utility.evaluate_emotion(corpus, folds, listener, **tools.running())
            place = {"dataset": one.dataset, "split": one.split, "condition": condition, "model": "functionals"}
            parts = {name: {"uar": f.value, "recalls": dict(f.recalls)} for name, f in result.folds.folds.items()}
            detail = {"recalls": dict(result.folds.recalls), "folds": parts}
            figures.append(_figure("uar", result.uar, place, detail))
    return figures


def pitch(inventory: Inventory, anonymized: Mapping[str, Corpus], tools: Tools) -> list[Figure]:
    """Pitch correlation between original and anonymized speech, in each set of trials."""
    figures = []
    for one in inventory.verification:
        for trials in one.trials:
            result = utility.evaluate_pitch(inventory.corpora[trials.set], anonymized[trials.set], **tools.running())
            place = _place(one, trials.gender, "oa", "autocorrelation")
            figures.append(_figure("pitch_correlation", result.rho, place, {"std": result.std, "set": trials.set}))
    return figures


def distinctiveness(inventory: Inventory, anonymized: Mapping[str, Corpus], tools: Tools) -> list[Figure]:
    """DeID and G_VD of each set of trials, and its three similarity matrices."""
    encoder = make_encoder("campplus")
    figures = []
    for one in inventory.verification:
        for trials in one.trials:
            utterances = sorted(inventory.corpora[trials.set], key=lambda u: u.id)
            others = [anonymized[trials.set][u.id] for u in utterances]
            vectors = [_directions(side, encoder, tools) for side in (utterances, others)]
            speakers = [u.speaker or "" for u in utterances]
            oo, oa, aa = (
                metrics.similarity_matrix(vectors[i] @ vectors[j].T, speakers) for i, j in ((0, 0), (0, 1), (1, 1))
            )
            place = _place(one, trials.gender, "", "campplus")
            matrices = {name: m.values.round(4).tolist() for name, m in (("oo", oo), ("oa", oa), ("aa", aa))}
            detail = {"set": trials.set, "speakers": list(oo.speakers), "matrices": matrices}
            low, high = _over_speakers([m.values for m in (oo, oa, aa)])
            figures.append(Figure("deid", metrics.deid(oo, oa), low=low[0], high=high[0], detail=detail, **place))
            figures.append(
                Figure("gvd", metrics.gvd(oo, aa), low=low[1], high=high[1], detail={"set": trials.set}, **place)
            )
    return figures


def _over_speakers(matrices: Sequence[Any], resamples: int = 1000) -> tuple[tuple[float, float], tuple[float, float]]:
    """The ends of 95 % intervals of DeID and G_VD: percentiles over draws of speakers, with replacement."""
    size = len(matrices[0])
    weights = np.random.default_rng(0).multinomial(size, np.full(size, 1 / size), size=resamples).astype(np.float64)
    weights = weights[(weights > 0).sum(axis=1) > 1]
    oo, oa, aa = (np.maximum(_dominance(np.asarray(matrix), weights), 1e-12) for matrix in matrices)
    low, high = np.quantile(np.array([1 - oa / oo, 10 * np.log10(aa / oo)]), [0.025, 0.975], axis=1).tolist()
    return (low[0], low[1]), (high[0], high[1])


def _dominance(matrix: Any, weights: Any) -> Any:
    """D_diag of a matrix (n, n) for many weights of its speakers (draws, n): ``metrics.diagonal_dominance`` of each."""
    diagonal, total = matrix.diagonal(), weights.sum(axis=1)
    pairs = np.einsum("ri,ij,rj->r", weights, matrix, weights, optimize=True) - weights**2 @ diagonal
    return np.abs(weights @ diagonal / total - pairs / (total**2 - (weights**2).sum(axis=1)))


def _directions(utterances: list[Utterance], encoder: Any, tools: Tools) -> Any:
    from voiceveil.models.speaker.covariances import length_norm

    return length_norm(embed(utterances, encoder, tools.context()).vectors)
