"""What every web application here shares: database, signed tokens, limits, headers, pages; nothing from elsewhere.

* :mod:`voiceveil.web.database`: SQLite in a file, or PostgreSQL; what is written is on disk
* :mod:`voiceveil.web.tokens`: signed tokens that expire, and one-way digests of the same key
* :mod:`voiceveil.web.limits`: how often, and how much
* :mod:`voiceveil.web.guard`: the headers of every answer, and forms that only our own pages can send
* :mod:`voiceveil.web.pages`: templates and static files
* :mod:`voiceveil.web.ranges`: parts of a file
* :mod:`voiceveil.web.workers`: threads for work that blocks
* :mod:`voiceveil.web.hosts`: the host names that a server answers to
* :mod:`voiceveil.web.connections`: how many connections there may be, and how long each may take
* :mod:`voiceveil.web.websockets`: the same for websockets
* :mod:`voiceveil.web.guarded_server`: uvicorn's server with these limits, file handles and a quiet log
* :mod:`voiceveil.web.server`: serves an application until it is stopped
"""
