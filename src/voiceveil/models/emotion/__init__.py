"""Speech emotion recognition: features, recognizers, and their evaluation with held-out folds."""
