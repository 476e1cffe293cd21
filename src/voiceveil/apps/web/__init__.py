"""Parts that all web applications share: database, signed tokens, limits, headers, pages, server.

* :mod:`voiceveil.apps.web.database`: SQLite in a file, or PostgreSQL; what is written is on disk
* :mod:`voiceveil.apps.web.tokens`: signed tokens that expire, and one-way digests of the same key
* :mod:`voiceveil.apps.web.limits`: requests a second, bytes of a body, threads for work that blocks
* :mod:`voiceveil.apps.web.guard`: the headers of every answer, and forms that only our own pages can send
* :mod:`voiceveil.apps.web.pages`: templates, static files, ranges of files
* :mod:`voiceveil.apps.web.hosts`: the host names that a server answers to
* :mod:`voiceveil.apps.web.connections`: the number of connections, and the time that each may take
* :mod:`voiceveil.apps.web.websockets`: the same for websockets
* :mod:`voiceveil.apps.web.guarded_server`: uvicorn's server with these limits, file handles and a quiet log
* :mod:`voiceveil.apps.web.server`: serves an application until it is stopped
"""
