"""What every web application here shares: database, signed tokens, limits, headers, pages; nothing from elsewhere.

* :mod:`voiceveil.apps.web.database`: SQLite in a file, or PostgreSQL; what is written is on disk
* :mod:`voiceveil.apps.web.tokens`: signed tokens that expire, and one-way digests of the same key
* :mod:`voiceveil.apps.web.limits`: how often, and how much
* :mod:`voiceveil.apps.web.guard`: the headers of every answer, and forms that only our own pages can send
* :mod:`voiceveil.apps.web.pages`: templates and static files
* :mod:`voiceveil.apps.web.ranges`: parts of a file
* :mod:`voiceveil.apps.web.workers`: threads for work that blocks
* :mod:`voiceveil.apps.web.hosts`: the host names that a server answers to
* :mod:`voiceveil.apps.web.connections`: how many connections there may be, and how long each may take
* :mod:`voiceveil.apps.web.websockets`: the same for websockets
* :mod:`voiceveil.apps.web.guarded_server`: uvicorn's server with these limits, file handles and a quiet log
* :mod:`voiceveil.apps.web.server`: serves an application until it is stopped
"""
