"""Speech emotion recognition: features, classifiers, folds."""
