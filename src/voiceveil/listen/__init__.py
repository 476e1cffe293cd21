"""Listening tests: what people hear. Design a study, serve it in a browser, analyse what they said.

* :mod:`voiceveil.listen.study`: the study as plain data, ``design.json``
* :mod:`voiceveil.listen.design`, ``drawing``, ``recordings``: from corpora to a balanced study
* :mod:`voiceveil.listen.app`, ``answers``, ``texts``: the web application, its database and its words
* :mod:`voiceveil.listen.collected`, ``analysis``, ``figures``, ``page``: from answers to a report
"""
