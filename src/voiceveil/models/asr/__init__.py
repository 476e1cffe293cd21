"""Speech recognition: recognizers, transcripts, text normalization."""
