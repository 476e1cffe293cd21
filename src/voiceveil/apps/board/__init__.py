"""A leaderboard: teams upload submissions, which are scored from their scores and lists, verified, and ranked.

* :mod:`voiceveil.apps.board.contest`: the folder of a contest and its rules
* :mod:`voiceveil.apps.board.lists`: the organizer's trials, texts and keys
* :mod:`voiceveil.apps.board.rules`: the rules in words
* :mod:`voiceveil.apps.board.scoring`: the figures of an untrusted archive
* :mod:`voiceveil.apps.board.stated`: UAR and pitch correlation as an archive states them
* :mod:`voiceveil.apps.board.utility`: UAR and pitch correlation, computed from the audio
* :mod:`voiceveil.apps.board.audio`: the anonymized audio of an archive, checked and unpacked
* :mod:`voiceveil.apps.board.verification`: the audio attacked and transcribed again, and the figures compared
* :mod:`voiceveil.apps.board.worker`: the process that verifies, one submission at a time
* :mod:`voiceveil.apps.board.store`: teams, submissions and verifications in the database
* :mod:`voiceveil.apps.board.entries`: the submissions that count
* :mod:`voiceveil.apps.board.leaderboard`: the tables of the board
* :mod:`voiceveil.apps.board.app`: the web application
* :mod:`voiceveil.apps.board.export`: all submissions and figures as files
* :mod:`voiceveil.apps.board.administration`: contests, teams and submissions as the organizer manages them
"""
