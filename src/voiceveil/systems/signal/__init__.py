"""Systems of signal processing alone: no model, no training."""
