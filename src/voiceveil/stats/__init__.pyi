from .intervals import average, minimal_detectable_difference, wilson
from .rates import accuracy, compare_ratios, mean, ratio, uar
from .values import Difference, Estimate

__all__ = [
    "Difference",
    "Estimate",
    "accuracy",
    "average",
    "compare_ratios",
    "mean",
    "minimal_detectable_difference",
    "ratio",
    "uar",
    "wilson",
]
