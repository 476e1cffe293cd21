"""The metrics: pure functions, arrays in, floats or frozen dataclasses out; rates are fractions in [0, 1].

Each name is imported when it is first used; each module opens with its conventions and its list. (No module here has
the name of a function: importing it would hide the function.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from voiceveil.core.lazy import lazy_exports

if TYPE_CHECKING:
    from voiceveil.metrics.calibration import cllr, min_cllr, pav_llr
    from voiceveil.metrics.catalog import METRICS, MetricInfo, metric_info
    from voiceveil.metrics.disclosure import Zebra, zebra
    from voiceveil.metrics.dsys import d_sys
    from voiceveil.metrics.emotion import UAR, FoldUAR, uar, uar_over_folds
    from voiceveil.metrics.estimation import compare, compare_all, estimate, estimate_all
    from voiceveil.metrics.isolation import isolated, singling_out_chance
    from voiceveil.metrics.linking import Linkability, linkability, linkability_from_scores
    from voiceveil.metrics.measures import MEASURES, Measure
    from voiceveil.metrics.pitch import pitch_correlation
    from voiceveil.metrics.scored_trials import ScoredTrials
    from voiceveil.metrics.similarity import SimilarityMatrix, deid, diagonal_dominance, gvd, similarity_matrix
    from voiceveil.metrics.singling import SinglingOut, singling_out, singling_out_from_scores
    from voiceveil.metrics.subjective import (
        RatingTest,
        clustering_change,
        clustering_f1,
        clustering_purity,
        compare_ratings,
        compare_systems,
        macro_f1,
        normalized_ranks,
        rating_det,
    )
    from voiceveil.metrics.verification import DetCurve, act_dcf, det_curve, eer, min_dcf
    from voiceveil.metrics.wer import WordErrors, normalize_text, word_errors

__all__ = [
    "MEASURES",
    "METRICS",
    "UAR",
    "DetCurve",
    "FoldUAR",
    "Linkability",
    "Measure",
    "MetricInfo",
    "RatingTest",
    "ScoredTrials",
    "SimilarityMatrix",
    "SinglingOut",
    "WordErrors",
    "Zebra",
    "act_dcf",
    "cllr",
    "clustering_change",
    "clustering_f1",
    "clustering_purity",
    "compare",
    "compare_all",
    "compare_ratings",
    "compare_systems",
    "d_sys",
    "deid",
    "det_curve",
    "diagonal_dominance",
    "eer",
    "estimate",
    "estimate_all",
    "gvd",
    "isolated",
    "linkability",
    "linkability_from_scores",
    "macro_f1",
    "metric_info",
    "min_cllr",
    "min_dcf",
    "normalize_text",
    "normalized_ranks",
    "pav_llr",
    "pitch_correlation",
    "rating_det",
    "similarity_matrix",
    "singling_out",
    "singling_out_chance",
    "singling_out_from_scores",
    "uar",
    "uar_over_folds",
    "word_errors",
    "zebra",
]

_HOME = {
    "compare": "voiceveil.metrics.estimation",
    "compare_all": "voiceveil.metrics.estimation",
    "estimate": "voiceveil.metrics.estimation",
    "estimate_all": "voiceveil.metrics.estimation",
    "MEASURES": "voiceveil.metrics.measures",
    "Measure": "voiceveil.metrics.measures",
    "ScoredTrials": "voiceveil.metrics.scored_trials",
    "DetCurve": "voiceveil.metrics.verification",
    "FoldUAR": "voiceveil.metrics.emotion",
    "Linkability": "voiceveil.metrics.linking",
    "METRICS": "voiceveil.metrics.catalog",
    "MetricInfo": "voiceveil.metrics.catalog",
    "RatingTest": "voiceveil.metrics.subjective",
    "SimilarityMatrix": "voiceveil.metrics.similarity",
    "SinglingOut": "voiceveil.metrics.singling",
    "UAR": "voiceveil.metrics.emotion",
    "WordErrors": "voiceveil.metrics.wer",
    "Zebra": "voiceveil.metrics.disclosure",
    "act_dcf": "voiceveil.metrics.verification",
    "cllr": "voiceveil.metrics.calibration",
    "clustering_change": "voiceveil.metrics.subjective",
    "clustering_f1": "voiceveil.metrics.subjective",
    "clustering_purity": "voiceveil.metrics.subjective",
    "compare_ratings": "voiceveil.metrics.subjective",
    "compare_systems": "voiceveil.metrics.subjective",
    "d_sys": "voiceveil.metrics.dsys",
    "deid": "voiceveil.metrics.similarity",
    "det_curve": "voiceveil.metrics.verification",
    "diagonal_dominance": "voiceveil.metrics.similarity",
    "eer": "voiceveil.metrics.verification",
    "gvd": "voiceveil.metrics.similarity",
    "isolated": "voiceveil.metrics.isolation",
    "linkability": "voiceveil.metrics.linking",
    "linkability_from_scores": "voiceveil.metrics.linking",
    "macro_f1": "voiceveil.metrics.subjective",
    "metric_info": "voiceveil.metrics.catalog",
    "min_cllr": "voiceveil.metrics.calibration",
    "min_dcf": "voiceveil.metrics.verification",
    "normalize_text": "voiceveil.metrics.wer",
    "normalized_ranks": "voiceveil.metrics.subjective",
    "pav_llr": "voiceveil.metrics.calibration",
    "pitch_correlation": "voiceveil.metrics.pitch",
    "rating_det": "voiceveil.metrics.subjective",
    "similarity_matrix": "voiceveil.metrics.similarity",
    "singling_out": "voiceveil.metrics.singling",
    "singling_out_chance": "voiceveil.metrics.isolation",
    "singling_out_from_scores": "voiceveil.metrics.singling",
    "uar": "voiceveil.metrics.emotion",
    "uar_over_folds": "voiceveil.metrics.emotion",
    "word_errors": "voiceveil.metrics.wer",
    "zebra": "voiceveil.metrics.disclosure",
}

__getattr__, __dir__ = lazy_exports(__name__, _HOME)
