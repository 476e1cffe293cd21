"""Listening tests: design a study, serve it in a browser, analyze the answers.

* :mod:`voiceveil.apps.listen.study`: the study as plain data, ``design.json``
* :mod:`voiceveil.apps.listen.design`, ``sampling``, ``recordings``: from corpora to a balanced study
* :mod:`voiceveil.apps.listen.invitations`: links of the evaluators
* :mod:`voiceveil.apps.listen.app`, ``answers``, ``texts``: the web application, its database and its words
* :mod:`voiceveil.apps.listen.responses`, ``analysis``, ``figures``, ``page``: from answers to a report
"""
