"""The functions behind ``import voiceveil as vv``; the command line is a shell over the same functions."""
