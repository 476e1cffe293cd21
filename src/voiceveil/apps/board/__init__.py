"""A leaderboard: teams upload submissions, which are scored from their scores and lists, verified, and ranked.

* :mod:`voiceveil.apps.board.contest`: the folder of a contest and its rules
* :mod:`voiceveil.apps.board.lists`: the organizer's trials, texts and keys
* :mod:`voiceveil.apps.board.scoring`: from an archive that nobody vouches for to figures
* :mod:`voiceveil.apps.board.audio`: the anonymized audio of an archive, checked and unpacked
* :mod:`voiceveil.apps.board.verification`: the audio attacked and transcribed again, and compared with what was
submitted
* :mod:`voiceveil.apps.board.worker`: the process that verifies, one submission at a time
* :mod:`voiceveil.apps.board.store`: teams, submissions and verifications in the database
* :mod:`voiceveil.apps.board.leaderboard`: what the board shows, and to whom
* :mod:`voiceveil.apps.board.app`: the web application
"""
