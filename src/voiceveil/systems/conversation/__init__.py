"""Recordings of several people: a voice of its own for each speaker, or for those to be hidden."""
