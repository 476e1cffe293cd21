from .anova import Effect, factorial_anova
from .intervals import average, minimal_detectable_difference, wilson
from .rates import accuracy, compare_ratios, mean, ratio, uar
from .values import Difference, Estimate

__all__ = [
    "Difference",
    "Effect",
    "Estimate",
    "accuracy",
    "average",
    "compare_ratios",
    "factorial_anova",
    "mean",
    "minimal_detectable_difference",
    "ratio",
    "uar",
    "wilson",
]
