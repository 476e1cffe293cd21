"""Speaker encoders: an utterance to a vector that tells who speaks."""
