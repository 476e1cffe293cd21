"""A leaderboard: teams upload submissions, which are scored from their scores and lists, and ranked.

* :mod:`voiceveil.board.contest`: the folder of a contest and its rules
* :mod:`voiceveil.board.judging`: from an archive that nobody vouches for to figures
* :mod:`voiceveil.board.store`: teams and submissions in the database
* :mod:`voiceveil.board.standing`: what the board shows, and to whom
* :mod:`voiceveil.board.app`: the web application
"""
