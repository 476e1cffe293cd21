"""Speaker encoders, which map an utterance to an embedding of its speaker, and PLDA on embeddings."""
