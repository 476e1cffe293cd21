"""The trained weights that ship with the package, each with a card: see :mod:`voiceveil.models.weights.store`."""
