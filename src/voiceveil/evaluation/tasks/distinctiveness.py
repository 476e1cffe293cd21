"""Voice distinctiveness: similarity matrices of the speakers, de-identification (DeID) and its gain (G_VD)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voiceveil import metrics
from voiceveil.attack.attacker import Attacker, ModelWork, SpeechPart, TrainingSpeech
from voiceveil.attack.embedding import audio_models
from voiceveil.attack.registry import Scoring, make_attackers
from voiceveil.attack.sets import Side
from voiceveil.core.errors import InputError
from voiceveil.corpus import Corpus
from voiceveil.evaluation.details import Similarity
from voiceveil.evaluation.results import Figure, Results
from voiceveil.evaluation.tasks.contract import (
    Section,
    SectionTable,
    Task,
    TaskContext,
    TaskResult,
    TaskSetup,
    both_sides,
    place,
    tasks,
)
from voiceveil.run.cache import Cache

__all__ = ["DistinctivenessTask", "speaker_intervals"]

Floats = NDArray[np.float64]

_RESAMPLES = 1000


@tasks.register("distinctiveness")
class DistinctivenessTask(Task):
    """DeID and G_VD of each trial set, by the attacker that the models name. Details: the similarity matrices.

    Speakers with one utterance are left out, as a speaker is compared with themselves in two.
    """

    metrics = ("gvd", "deid")
    order = 50

    def available(self, setup: TaskSetup) -> bool:
        """Return True if there are trial sets, and the protocol asks for it or a report has the embeddings."""
        if not setup.inventory.verification:
            return False
        return setup.requests(self.metrics) or (setup.options.details and _has_embeddings(setup))

    def check(self, setup: TaskSetup) -> None:
        """Raise an ``InputError`` if the attacker is not known, cannot compare voices, or its model is missing."""
        _attacker(setup).check()

    def progress(self, setup: TaskSetup) -> str:
        """Return the line for the user."""
        return "comparing voices"

    def work(self, setup: TaskSetup, cache: Cache) -> Iterator[ModelWork]:
        """Yield the attacker's speaker encoder, on all trial sets and on the speech that its back-end learns from."""
        attacker, corpora = _attacker(setup), setup.inventory.corpora
        if attacker.encoder is None:  # it has embeddings that were computed elsewhere
            return
        parts = list(both_sides(corpora, [trials.set for _, trials in setup.inventory.trial_sets()]))
        if attacker.needs_training or _scoring(setup) == "plda":
            side: Side = "a" if attacker.needs_training else "o"
            parts += [SpeechPart(name, side, [u.id for u in corpora[name]]) for name in setup.inventory.training]
        for model in audio_models(attacker.encoder):
            yield ModelWork(attacker.name, model, parts)

    def models(self, setup: TaskSetup) -> dict[str, str]:
        """Return the fingerprint of the attacker."""
        attacker = _attacker(setup)
        return {attacker.name: attacker.fingerprint()}

    def run(self, context: TaskContext) -> TaskResult:
        """Compare all utterances of each set with each other."""
        figures: list[Figure] = []
        notes, similarity = [], {}
        setup, inventory = context.setup, context.inventory
        attacker = _attacker(setup)
        if _scoring(setup) != setup.options.models.similarity_scoring:
            notes.append("voices are compared by cosines: PLDA needs training speech, and there is none")
        training = TrainingSpeech(
            tuple(context.anonymized[name] for name in inventory.training),
            tuple(inventory.corpora[name] for name in inventory.training),
        )
        attacker.check_training(training)
        attacker.fit(training, context.run)
        for entry, trials in context.inventory.trial_sets():
            corpus = context.inventory.corpora[trials.set]
            repeated = {name for name, utterances in corpus.by_speaker.items() if len(utterances) > 1}
            if len(repeated) < 2:
                notes.append(f"no voice similarity of {trials.set}: it needs two speakers with two utterances each")
                continue
            ids = sorted(u.id for u in corpus if u.speaker in repeated)
            matrices = _matrices(attacker, _chosen(corpus, ids), _chosen(context.anonymized[trials.set], ids), context)
            speakers = matrices["oo"].speakers
            rounded = {name: matrix.values.round(4).tolist() for name, matrix in matrices.items()}
            similarity[trials.set] = Similarity(
                tuple(speakers), *(tuple(tuple(row) for row in rows) for rows in rounded.values())
            )
            detail = {"set": trials.set, "speakers": list(speakers), "matrices": rounded}
            detail["backend"] = attacker.backend
            figures += _figures(matrices, place(entry, trials.gender, model=attacker.name), detail)
        return TaskResult(figures if context.setup.requests(self.metrics) else (), notes, similarity=similarity)

    def section(self, results: Results) -> Section:
        """Return the table of DeID and G_VD."""
        rows = []
        for metric in ("deid", "gvd"):
            for entry in results.find(metric):
                where = " ".join(filter(None, [entry.dataset, entry.subset, entry.gender]))
                rows.append((metrics.metric_info(metric).title, where, entry.evaluator, entry))
        text = (
            "Each cell compares the voices of two speakers, the fuller the color, the more alike. Upper left: original "
            "with original, where the diagonal shows that voices are distinct. Upper right: original with anonymized; "
            "a diagonal there is a voice that can be recognized. Lower right: anonymized with anonymized; a diagonal "
            "there means that voices stay apart after anonymization."
        )
        table = SectionTable(("metric", "set", "by", "value [95%]"), tuple(rows))
        missing = (
            ""
            if rows
            else "No voice similarity was computed: it needs an attacker that compares voices, e.g. campplus."
        )
        return Section("similarity", "Voice similarity", table, text, missing=missing)


def _scoring(setup: TaskSetup) -> Scoring:
    """Return the scoring that is asked for if the data allow it, else cosines."""
    return setup.options.models.similarity_scoring if setup.inventory.training else "cosine"


def _attacker(setup: TaskSetup) -> Attacker:
    """Return the attacker that compares voices, before it has learned."""
    name = setup.options.models.similarity
    attackers = make_attackers([name], scoring=_scoring(setup))
    if len(attackers) != 1 or not attackers[0].compares_voices:
        fix = "name an attacker with a speaker encoder, e.g. --similarity campplus"
        raise InputError(f"{name!r} cannot compare voices", fix=fix)
    return attackers[0]


def _has_embeddings(setup: TaskSetup) -> bool:
    """Return True if the attacker that compares voices is one of those that attack."""
    attackers = setup.options.attackers
    name = _attacker(setup).name if attackers else ""
    return bool(attackers) and any(attacker.name == name for attacker in make_attackers(attackers))


def _chosen(corpus: Corpus, ids: Sequence[str]) -> Corpus:
    """Return some utterances of a corpus, in the order of ``ids``."""
    return replace(corpus, utterances=tuple(corpus[id] for id in ids), trials=None)


def _matrices(
    attacker: Attacker, original: Corpus, anonymized: Corpus, context: TaskContext
) -> dict[str, metrics.SimilarityMatrix]:
    """Return the similarity matrices of original and anonymized speech: ``oo``, ``oa`` and ``aa``."""
    speech = {"o": original, "a": anonymized}
    speakers = [utterance.speaker or "" for utterance in original]
    return {
        name: metrics.similarity_matrix(attacker.compare(speech[name[0]], speech[name[1]], context.run), speakers)
        for name in ("oo", "oa", "aa")
    }


def _figures(
    matrices: dict[str, metrics.SimilarityMatrix], where: dict[str, Any], detail: dict[str, Any]
) -> Iterator[Figure]:
    """Yield DeID and G_VD with their intervals."""
    oo, oa, aa = matrices.values()
    low, high = speaker_intervals([matrix.values for matrix in matrices.values()])
    yield Figure("deid", metrics.deid(oo, oa), low=low[0], high=high[0], detail=detail, **where)
    small = {key: detail[key] for key in ("set", "backend")}
    yield Figure("gvd", metrics.gvd(oo, aa), low=low[1], high=high[1], detail=small, **where)


def speaker_intervals(matrices: Sequence[Floats]) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return the ends of 95% intervals over speakers, drawn with replacement.

    Parameters
    ----------
    matrices : sequence of arrays (speakers, speakers)
        Similarities ``oo``, ``oa`` and ``aa``.

    Returns
    -------
    low, high : (float, float)
        Of DeID, and of G_VD in dB.
    """
    size = len(matrices[0])
    weights = np.random.default_rng(0).multinomial(size, np.full(size, 1 / size), size=_RESAMPLES).astype(np.float64)
    weights = weights[(weights > 0).sum(axis=1) > 1]
    oo, oa, aa = (np.maximum(_dominance(np.asarray(matrix), weights), 1e-12) for matrix in matrices)
    low, high = np.quantile(np.array([1 - oa / oo, 10 * np.log10(aa / oo)]), [0.025, 0.975], axis=1).tolist()
    return (low[0], low[1]), (high[0], high[1])


def _dominance(matrix: Floats, weights: Floats) -> Floats:
    """Return D_diag of a matrix (n, n) for each row of weights (draws, n), as ``metrics.diagonal_dominance`` does."""
    diagonal, total = matrix.diagonal(), weights.sum(axis=1)
    pairs = np.einsum("ri,ij,rj->r", weights, matrix, weights, optimize=True) - weights**2 @ diagonal
    dominance: Floats = np.abs(weights @ diagonal / total - pairs / (total**2 - (weights**2).sum(axis=1)))
    return dominance
