"""The demo corpus: real voices of LibriSpeech dev-clean that ship with the package, see `voiceveil demo`."""
