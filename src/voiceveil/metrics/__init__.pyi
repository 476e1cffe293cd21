from .calibration import cllr, min_cllr, pav_llr
from .catalog import METRICS, MetricInfo, metric_info
from .disclosure import Zebra, zebra
from .dsys import d_sys
from .emotion import UAR, FoldUAR, uar, uar_over_folds
from .estimation import compare, compare_all, estimate, estimate_all
from .isolation import SinglingOutProtocol, isolated, singling_out_chance
from .legal import UtteranceEmbeddings, utterance_embeddings
from .legal_linkability import Linkability, linkability, linkability_from_scores
from .legal_singling_out import SinglingOut, singling_out, singling_out_from_scores
from .measures import MEASURES, Measure
from .pitch import pitch_correlation
from .rank_disclosure import RankDisclosure, rank_disclosure_from_scores, rank_llr
from .scored_trials import ScoredTrials
from .similarity import SimilarityMatrix, deid, diagonal_dominance, gvd, similarity_matrix
from .subjective import (
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
from .verification import DetCurve, act_dcf, det_curve, eer, min_dcf
from .wer import WordErrors, normalize_text, word_errors

__all__ = [
    "MEASURES",
    "METRICS",
    "UAR",
    "DetCurve",
    "FoldUAR",
    "Linkability",
    "Measure",
    "MetricInfo",
    "RankDisclosure",
    "RatingTest",
    "ScoredTrials",
    "SimilarityMatrix",
    "SinglingOut",
    "SinglingOutProtocol",
    "UtteranceEmbeddings",
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
    "rank_disclosure_from_scores",
    "rank_llr",
    "rating_det",
    "similarity_matrix",
    "singling_out",
    "singling_out_chance",
    "singling_out_from_scores",
    "uar",
    "uar_over_folds",
    "utterance_embeddings",
    "word_errors",
    "zebra",
]
