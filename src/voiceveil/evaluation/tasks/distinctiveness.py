"""Voice distinctiveness: similarity matrices of the speakers, de-identification (DeID) and its gain (G_VD)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voiceveil import metrics
from voiceveil.attack.attacker import ModelWork
from voiceveil.attack.embedding import audio_model, embed
from voiceveil.attack.registry import make_attackers
from voiceveil.corpus import Utterance
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
from voiceveil.models.speaker.covariances import length_norm
from voiceveil.models.speaker.encoders import encoder as make_encoder
from voiceveil.run.cache import Cache

__all__ = ["DistinctivenessTask", "speaker_intervals"]

Floats = NDArray[np.float64]

_ENCODER = "campplus"
_RESAMPLES = 1000


@tasks.register("distinctiveness")
class DistinctivenessTask(Task):
    """DeID and G_VD of each trial set, by CAM++. Details: the similarity matrices.

    Speakers with one utterance are left out, as a speaker is compared with themselves in two.
    """

    metrics = ("gvd", "deid")
    order = 50

    def available(self, setup: TaskSetup) -> bool:
        """Return True if there are trial sets, and the protocol asks for it or a report has the embeddings."""
        if not setup.inventory.verification:
            return False
        return setup.requests(self.metrics) or (setup.options.details and _has_embeddings(setup.options.attackers))

    def progress(self, setup: TaskSetup) -> str:
        """Return the line for the user."""
        return "comparing voices"

    def work(self, setup: TaskSetup, cache: Cache) -> Iterator[ModelWork]:
        """Yield the speaker encoder, on all trial sets."""
        names = [trials.set for _, trials in setup.inventory.trial_sets()]
        yield ModelWork(_ENCODER, audio_model(make_encoder(_ENCODER)), list(both_sides(setup.inventory.corpora, names)))

    def models(self, setup: TaskSetup) -> dict[str, str]:
        """Return the fingerprint of the encoder, of which ``work`` runs the part whose results are cached."""
        return {_ENCODER: make_encoder(_ENCODER).fingerprint()}

    def run(self, context: TaskContext) -> TaskResult:
        """Compare all utterances of each set with each other."""
        figures: list[Figure] = []
        notes, similarity = [], {}
        for entry, trials in context.inventory.trial_sets():
            corpus = context.inventory.corpora[trials.set]
            repeated = {name for name, utterances in corpus.by_speaker.items() if len(utterances) > 1}
            if len(repeated) < 2:
                notes.append(f"no voice similarity of {trials.set}: it needs two speakers with two utterances each")
                continue
            utterances = sorted((u for u in corpus if u.speaker in repeated), key=lambda u: u.id)
            matrices = _matrices(context.pairs(trials.set, utterances), context)
            speakers = matrices["oo"].speakers
            rounded = {name: matrix.values.round(4).tolist() for name, matrix in matrices.items()}
            similarity[trials.set] = Similarity(
                tuple(speakers), *(tuple(tuple(row) for row in rows) for rows in rounded.values())
            )
            detail = {"set": trials.set, "speakers": list(speakers), "matrices": rounded}
            figures += _figures(matrices, place(entry, trials.gender, model=_ENCODER), detail)
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
        missing = "" if rows else "No voice similarity was computed: it needs the attacker campplus."
        return Section("similarity", "Voice similarity", table, text, missing=missing)


def _has_embeddings(attackers: Sequence[str]) -> bool:
    """Return True if one of the attackers embeds speech with the encoder that compares voices, unadapted."""
    return any(attacker.name == _ENCODER for attacker in make_attackers(attackers)) if attackers else False


def _matrices(
    pairs: Sequence[tuple[Utterance, Utterance]], context: TaskContext
) -> dict[str, metrics.SimilarityMatrix]:
    """Return the similarity matrices of original and anonymized speech: ``oo``, ``oa`` and ``aa``."""
    encoder = make_encoder(_ENCODER)
    vectors: dict[str, Any] = {
        condition: length_norm(embed([pair[side] for pair in pairs], encoder, context.run).vectors)
        for side, condition in enumerate("oa")
    }
    speakers = [original.speaker or "" for original, _ in pairs]
    return {
        name: metrics.similarity_matrix(vectors[name[0]] @ vectors[name[1]].T, speakers) for name in ("oo", "oa", "aa")
    }


def _figures(
    matrices: dict[str, metrics.SimilarityMatrix], where: dict[str, Any], detail: dict[str, Any]
) -> Iterator[Figure]:
    """Yield DeID and G_VD with their intervals."""
    oo, oa, aa = matrices.values()
    low, high = speaker_intervals([matrix.values for matrix in matrices.values()])
    yield Figure("deid", metrics.deid(oo, oa), low=low[0], high=high[0], detail=detail, **where)
    yield Figure("gvd", metrics.gvd(oo, aa), low=low[1], high=high[1], detail={"set": detail["set"]}, **where)


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
