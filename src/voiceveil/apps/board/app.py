"""The web application of a leaderboard.

Conventions: a team comes with a signed token, as a link (``/team/<token>``, which becomes a cookie) or in the header
``Authorization: Bearer <token>`` for scripts. An upload is the archive itself as the body of ``POST /submit``; it is
streamed into a file in ``incoming`` of the contest's folder and scored, one submission at a time. Refused archives are
deleted at once; archives to verify wait for :mod:`voiceveil.apps.board.worker`; of others only the figures are kept.
A description is a text of UTF-8 as the body of ``POST /describe``. Nothing of an upload is held in memory but the piece
that has just arrived.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import secrets
import shutil
import time
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from voiceveil.apps.board.contest import Contest
from voiceveil.apps.board.entries import all_entries, board_entries
from voiceveil.apps.board.leaderboard import figure_ranking, tables
from voiceveil.apps.board.lists import check_data
from voiceveil.apps.board.rules import rules_of
from voiceveil.apps.board.scoring import score_submission
from voiceveil.apps.board.store import LimitReached, Store
from voiceveil.apps.board.worker import put_in_queue
from voiceveil.apps.web.database import Unavailable, open_database
from voiceveil.apps.web.guard import SecurityHeaders, form_mark, is_ours
from voiceveil.apps.web.limits import RateLimit, Workers, read_body
from voiceveil.apps.web.pages import Pages
from voiceveil.apps.web.tokens import BadToken, Revocations, Seal, read_key
from voiceveil.core.errors import InputError, OutputError
from voiceveil.metrics.catalog import METRICS

__all__ = ["NAME", "BoardApp", "open_board", "team_token"]

#: Names of teams and systems: letters, digits and a few signs that need no escaping.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._+-]{0,39}")
_COOKIE = "board"
_TITLES = {name: info.title for name, info in METRICS.items()} | {"min_dcf": "min DCF"}
_LONGEST_DESCRIPTION = 20_000  # bytes
_SPARE = 1 << 30  # bytes of the disk that no upload may take
_FIGURE_POLICY = "default-src 'none'; style-src 'unsafe-inline'"  # an image of its own: it holds a style, no script


def team_token(seal: Seal, team: str, until: float) -> str:
    """Return the token with which a team signs in and uploads."""
    return seal.token("team", {"team": team}, until=until)


def open_board(folder: Path, database: str | None = None) -> Starlette:
    """Return the web application of a contest."""
    contest = Contest.load(folder)
    check_data(contest)
    opened = open_database(database or folder / "board.sqlite")
    store = Store(opened)
    store.recover()
    seal = Seal(read_key(folder / "key"))
    return BoardApp(folder, contest, store, Revocations(opened), seal).starlette()


def _empty_incoming(folder: Path) -> Path:
    """Return the folder of uploads in the contest's own folder, emptied of files that a killed server has left."""
    incoming = folder / "incoming"
    if incoming.is_symlink() or (incoming.exists() and not incoming.is_dir()):
        fix = "move it away: the board keeps uploads there while it scores them"
        raise InputError("this is not a folder", where=incoming, fix=fix)
    try:
        if incoming.exists():
            shutil.rmtree(incoming)
        incoming.mkdir(mode=0o700)
    except OSError as error:
        raise OutputError(f"cannot be emptied: {error.strerror or error}", where=incoming) from error
    return incoming


class BoardApp:
    """Handlers of all addresses."""

    def __init__(self, folder: Path, contest: Contest, store: Store, revoked: Revocations, seal: Seal) -> None:
        self._folder, self._incoming = folder, _empty_incoming(folder)
        self._contest, self._store, self._revoked, self._seal = contest, store, revoked, seal
        self._reads, self._writes, self._files = Workers(), Workers(), Workers()
        self._pages = Pages("voiceveil.apps.board")
        self._strangers = RateLimit(rate=0.5, burst=30)
        self._public = RateLimit(rate=10.0, burst=100)  # by address: the board is made anew for each request
        self._uploads = RateLimit(rate=1 / 20, burst=20)  # also refused ones
        self._scoring = asyncio.Semaphore(1)

    def starlette(self) -> Starlette:
        """Return the application with its routes."""
        routes = [
            Route("/", self.board),
            Route("/figure.svg", self.figure),
            Route("/rules", self.rules),
            Route("/system/{id}", self.system),
            Route("/team", self.team),
            Route("/team/{token}", self.arrive),
            Route("/submit", self.submit, methods=["POST"]),
            Route("/describe", self.describe, methods=["POST"]),
            Route("/static/{name}", self.static),
        ]
        handlers: dict[Any, Any] = {HTTPException: self._failed, Unavailable: self._unavailable}
        return Starlette(routes=routes, middleware=[Middleware(SecurityHeaders)], exception_handlers=handlers)

    async def board(self, request: Request) -> Response:
        """Show the public board."""
        self._limit(self._public, request)
        return await self._reads.run(self._board_page)

    def _board_page(self) -> Response:
        now = time.time()
        entries, baselines = board_entries(self._contest, self._store, now), self._store.baselines()
        context = {
            "contest": self._contest,
            "tables": tables(self._contest, entries, baselines),
            "figure": figure_ranking(self._contest, entries, baselines) is not None,
            "hidden": self._contest.is_hidden(now, now),
        }
        return self._pages.page("board.html", context)

    async def rules(self, request: Request) -> Response:
        """Show the rules of the contest."""
        self._limit(self._public, request)
        context = {"contest": self._contest, "sections": await self._reads.run(rules_of, self._contest, self._folder)}
        return self._pages.page("rules.html", context)

    async def system(self, request: Request) -> Response:
        """Show an entry of the board: its description and all its figures."""
        self._limit(self._public, request)
        return await self._reads.run(self._system_page, request.path_params["id"])

    def _system_page(self, id: str) -> Response:
        entries = board_entries(self._contest, self._store, time.time())
        entry = next((entry for entry in entries.values() if entry.submission.id == id), None)
        if entry is None:
            raise HTTPException(404)
        when = _utc(entry.submission.submitted)
        context = {"contest": self._contest, "entry": entry, "when": when, "titles": _TITLES}
        return self._pages.page("system.html", context)

    async def figure(self, request: Request) -> Response:
        """Show the privacy-utility plot."""
        self._limit(self._public, request)
        return await self._reads.run(self._figure)

    def _figure(self) -> Response:
        from voiceveil.report.figures import privacy_utility_svg

        baselines = self._store.baselines()
        ranked = figure_ranking(self._contest, board_entries(self._contest, self._store, time.time()), baselines)
        if ranked is None:
            raise HTTPException(404)
        headers = {"content-type": "image/svg+xml", "content-security-policy": _FIGURE_POLICY}
        return Response(privacy_utility_svg(ranked, baselines=list(baselines)), headers=headers)

    async def arrive(self, request: Request) -> Response:
        """Turn the token of a team's link into a cookie."""
        content = await self._admit(request, "team", request.path_params["token"])
        payload = {**content, "session": secrets.token_urlsafe(16)}
        answer = RedirectResponse("/team", 303)
        secure, age = request.url.scheme == "https", max(0, content["until"] - int(time.time()))
        cookie = self._seal.token("team cookie", payload, until=content["until"])
        answer.set_cookie(_COOKIE, cookie, max_age=age, httponly=True, samesite="lax", secure=secure)
        return answer

    async def team(self, request: Request) -> Response:
        """Show the page of a team: its history, and the form to submit."""
        content = await self._visitor(request)
        return await self._reads.run(self._team_page, content["team"], content["session"])

    def _team_page(self, team: str, session: str) -> Response:
        now = time.time()
        today, total = self._store.left(self._contest, team)
        rows = []
        for entry in all_entries(self._contest, self._store, self._store.of_team(team)):
            hidden = self._contest.is_hidden(entry.submission.submitted, now)
            status = entry.status(hidden=hidden) if entry.submission.state == "scored" else ""
            when = _utc(entry.submission.submitted)
            rows.append({"entry": entry, "when": when, "hidden": hidden, "status": status})
        context = {
            "contest": self._contest,
            "team": team,
            "rows": rows,
            "today": today,
            "total": total,
            "late": self._contest.is_late(now),
            "disqualified": self._store.disqualified().get(("team", team), ""),
            "descriptions": {system: text for (of, system), text in self._store.descriptions().items() if of == team},
            "titles": _TITLES,
            "mark": form_mark(self._seal, f"{team} {session}"),
        }
        return self._pages.page("team.html", context)

    async def describe(self, request: Request) -> Response:
        """Store the description of a system of the team; an empty one deletes it."""
        team, system = await self._sender(request), _system_name(request)
        body = await read_body(request, _LONGEST_DESCRIPTION)
        try:
            text = body.decode("utf-8").strip()
        except UnicodeDecodeError:
            raise HTTPException(422, "the description is not UTF-8 text") from None
        if any(not (letter.isprintable() or letter in "\n\r\t") for letter in text):
            raise HTTPException(422, "the description has control characters")
        await self._writes.run(self._store.describe, team, system, text)
        return JSONResponse({"accepted": True})

    async def submit(self, request: Request) -> Response:
        """Take an upload; the JSON response says whether it was accepted, or why not."""
        team, system = await self._sender(request), _system_name(request)
        await self._reads.run(self._refuse_team, team)
        wait = self._uploads.wait(team)
        if wait > 0:
            raise HTTPException(429, "too many uploads", headers={"retry-after": str(int(wait) + 1)})
        try:
            name = await self._writes.run(self._store.begin, self._contest, team, system)
        except LimitReached as error:
            limit = f"{self._contest.daily} a day" if error.daily else f"{self._contest.total} in all"
            raise HTTPException(409, f"no more than {limit}") from error
        reason = "the upload was broken off"
        archive = self._incoming / name
        try:
            self._refuse_size(request)
            digest = await self._receive(request, archive)
            async with self._scoring:
                verified = await self._files.run(self._score, name, archive, digest)
            reason = ""
        except InputError as error:
            reason = _reason(error).replace(f"{self._contest.data}/", "")  # the organizer's folders are theirs
        except HTTPException as error:
            reason = error.detail
            raise
        except ClientDisconnect:
            return Response(status_code=400)  # nobody is there to read it
        except OSError as error:
            reason = "the server could not store the upload: please send it again later"
            raise HTTPException(503, reason, headers={"retry-after": "600"}) from error
        finally:
            archive.unlink(missing_ok=True)
            if reason:
                await self._writes.run(self._store.refuse, name, reason)
        if reason:
            return JSONResponse({"accepted": False, "reason": reason}, 422)
        return JSONResponse({"accepted": True, "id": name, "sha256": digest, "verification": verified})

    def _refuse_team(self, team: str) -> None:
        """Refuse uploads of a disqualified team, and late ones where the contest takes none."""
        reason = self._store.disqualified().get(("team", team))
        if reason is not None:
            raise HTTPException(403, f"the team is disqualified: {reason}")
        if self._contest.late == "refused" and self._contest.is_late(time.time()):
            raise HTTPException(409, "the deadline is over")

    def _refuse_size(self, request: Request) -> None:
        """Refuse an upload that says it is too large for the contest or the disk, before its first byte."""
        stated = request.headers.get("content-length", "")
        size = int(stated) if stated.isdecimal() and len(stated) < 20 else 0
        if size > self._contest.largest:
            raise HTTPException(413, f"more than {self._contest.largest} bytes")
        if size > shutil.disk_usage(self._incoming).free - _SPARE:
            raise HTTPException(507, "the server has no room for this upload: please tell the organizers")

    def _score(self, name: str, archive: Path, digest: str) -> str:
        """Score an archive; return ``waiting`` if it was put into the queue of the verification, else ``none``."""
        scored = score_submission(self._contest, archive)
        verify = self._contest.is_verified and scored.has_audio
        queued = put_in_queue(self._folder, name, archive) if verify else None
        try:
            self._store.score(name, digest, scored.figures, verify=verify)
        except BaseException:
            if queued is not None:
                queued.unlink(missing_ok=True)
            raise
        return "waiting" if verify else "none"

    async def _receive(self, request: Request, path: Path) -> str:
        """Write the body into a new file, up to the limit, and return its sha256."""
        digest, size = hashlib.sha256(), 0
        with path.open("xb") as file:
            async for piece in request.stream():
                size += len(piece)
                if size > self._contest.largest:
                    raise HTTPException(413, f"more than {self._contest.largest} bytes")
                await self._files.run(_append, file, digest, piece)
        if not size:
            raise HTTPException(422, "an empty upload")
        return digest.hexdigest()

    async def static(self, request: Request) -> Response:
        """Return a style sheet or script."""
        response = self._pages.static(request.path_params["name"])
        if response is None:
            raise HTTPException(404)
        return response

    async def _sender(self, request: Request) -> str:
        """Return the team that uploads, by its token or by a form of ours."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return str((await self._admit(request, "team", token))["team"])
        content = await self._visitor(request)
        if not is_ours(request, self._seal, f"{content['team']} {content['session']}", request.headers.get("x-mark")):
            raise HTTPException(403, "not sent by this site")
        return str(content["team"])

    async def _visitor(self, request: Request) -> dict[str, Any]:
        """Return the content of the cookie."""
        return await self._admit(request, "team cookie", request.cookies.get(_COOKIE, ""))

    async def _admit(self, request: Request, purpose: str, token: str) -> dict[str, Any]:
        """Return the content of a token of a known team that is not revoked; 403 if it is none."""
        try:
            content = self._seal.open(purpose, token)
            if await self._reads.run(self._is_good, content):
                return content
        except BadToken:
            pass
        self._limit(self._strangers, request)
        raise HTTPException(403, "no valid token")

    def _is_good(self, content: dict[str, Any]) -> bool:
        return self._store.has_team(content["team"]) and not self._revoked.has(content["team"], content)

    def _limit(self, limit: RateLimit, request: Request) -> None:
        wait = limit.wait(request.client.host if request.client else "")
        if wait > 0:
            raise HTTPException(429, "too many requests", headers={"retry-after": str(int(wait) + 1)})

    async def _failed(self, request: Request, error: Exception) -> Response:
        if not isinstance(error, HTTPException):
            raise error
        if request.method == "POST":
            return JSONResponse({"accepted": False, "reason": error.detail}, error.status_code, headers=error.headers)
        heading = {403: "A valid token is needed", 404: "There is nothing here"}.get(error.status_code, error.detail)
        context = {"contest": self._contest, "heading": heading, "help": "Please open the link of your team."}
        return self._pages.page("message.html", context, status=error.status_code)

    async def _unavailable(self, request: Request, error: Exception) -> Response:
        return await self._failed(request, HTTPException(503, "the database is away", headers={"retry-after": "2"}))


def _system_name(request: Request) -> str:
    system = request.query_params.get("system", "")
    if not NAME.fullmatch(system):
        raise HTTPException(422, "name the system: letters, digits, blanks and . _ + -, at most 40")
    return system


def _append(file: Any, digest: Any, piece: bytes) -> None:
    digest.update(piece)
    file.write(piece)


def _utc(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(seconds))


def _reason(error: InputError) -> str:
    """Return the error as text, without paths of this machine and without control characters."""
    where = "" if error.where is None or error.where.startswith("/") else f"{error.where}: "
    line = f"line {error.line}: " if error.line else ""
    text = f"{where}{line}{error.what}" + (f" ({error.fix})" if error.fix else "")
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)[:500]
