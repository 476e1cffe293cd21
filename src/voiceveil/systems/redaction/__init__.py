"""Redaction: words that identify somebody are replaced by a tone or by silence of the same length.

The recording is transcribed in pieces, the words to remove are found in the transcript (:mod:`.detection`) and in time
(:mod:`.location`), and those parts of the recording are silenced *before* it is anonymized, so that nothing of them
reaches the result. The tone is put into the result. The result is transcribed again, and where a word that was to go
is recognized, the whole phrase goes as well (:mod:`.process`).
"""
