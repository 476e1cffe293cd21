"""A leaderboard: teams upload submissions, which are scored from their scores and lists, verified, and ranked.

* :mod:`voiceveil.board.contest`: the folder of a contest and its rules
* :mod:`voiceveil.board.lists`: the organiser's trials, texts and keys
* :mod:`voiceveil.board.judging`: from an archive that nobody vouches for to figures
* :mod:`voiceveil.board.audio`: the anonymized audio of an archive, checked and unpacked
* :mod:`voiceveil.board.verification`: the audio attacked and transcribed again, and compared with what was submitted
* :mod:`voiceveil.board.worker`: the process that verifies, one submission at a time
* :mod:`voiceveil.board.store`: teams, submissions and verifications in the database
* :mod:`voiceveil.board.standing`: what the board shows, and to whom
* :mod:`voiceveil.board.app`: the web application
"""
