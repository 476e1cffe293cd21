"""Content encoders: speech as vectors that carry the words, with as little speaker information as possible."""
