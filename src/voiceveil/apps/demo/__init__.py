"""The corpus of `voiceveil demo`: voices that are synthesised on this machine, in the layout of the challenges."""
