"""The web application of a listening study.

Conventions: an evaluator comes with a signed invitation (``/i/<token>``), which becomes a signed cookie; ``/`` always
shows their current page. Answers are JSON or plain forms, at most 16 kB, and are acknowledged when they are on disk.
A page never reveals the system or the speaker, and recordings are sent only to evaluators who have them in their items.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from voiceveil.apps.listen.answers import Answers, Closed, Conflict, Move
from voiceveil.apps.listen.session_flow import SessionFlow, Step
from voiceveil.apps.listen.study import Study
from voiceveil.apps.listen.texts import Texts, load_texts, paragraphs
from voiceveil.apps.listen.view import completion_code, step_context
from voiceveil.apps.web.database import Unavailable, open_database
from voiceveil.apps.web.guard import SecurityHeaders, form_mark, is_ours
from voiceveil.apps.web.limits import RateLimit, Workers, read_body
from voiceveil.apps.web.pages import Pages, ranged
from voiceveil.apps.web.tokens import BadToken, ExpiredToken, Revocations, Seal, read_key
from voiceveil.core.documents import parse_json
from voiceveil.core.errors import InputError

__all__ = ["ListenApp", "invitation", "open_app"]

_COOKIE = "listen"
_MOST_BYTES = 16_384
_LONGEST_TEXT = 200  # characters of an answer about the evaluator's background


def invitation(seal: Seal, evaluator: str, until: float) -> str:
    """Return the token of an evaluator's link, valid until a time in seconds since 1970."""
    return seal.token("invitation", {"evaluator": evaluator}, until=until)


def open_app(folder: Path, database: str | None = None) -> Starlette:
    """Return the application of a study; ``database`` is by default ``answers.sqlite`` in its folder."""
    study = Study.load(folder)
    lost = [name for name in study.recordings if not (folder / "audio" / f"{name}.wav").is_file()]
    if lost:
        raise InputError(f"{len(lost)} recordings are missing, e.g. {lost[0]}.wav", where=folder / "audio")
    fingerprint = hashlib.sha256((folder / "design.json").read_bytes()).hexdigest()
    opened = open_database(database or folder / "answers.sqlite")
    answers, revoked = Answers(opened, fingerprint), Revocations(opened)
    return ListenApp(folder, study, load_texts(folder), answers, revoked, Seal(read_key(folder / "key"))).starlette()


@dataclass(frozen=True)
class _Visitor:
    evaluator: str
    session: str  # of the browser; forms are bound to it


class ListenApp:
    """Handlers of all addresses."""

    def __init__(
        self, folder: Path, study: Study, texts: Texts, answers: Answers, revoked: Revocations, seal: Seal
    ) -> None:
        self._audio = folder / "audio"
        self._study, self._texts, self._answers, self._seal = study, texts, answers, seal
        self._revoked = revoked
        self._reads, self._writes = Workers(), Workers()
        self._healthy = float("-inf")  # when the database has answered
        self._pages = Pages("voiceveil.apps.listen")
        self._strangers = RateLimit(rate=0.5, burst=30)  # by address: wrong tokens, no cookie
        self._posts = RateLimit(rate=4.0, burst=80)  # by evaluator
        self._gets = RateLimit(rate=20.0, burst=200)
        # Recordings are short, and evaluators of one set hear the same.
        self._sound = lru_cache(maxsize=512)(lambda name: (self._audio / f"{name}.wav").read_bytes())
        self._flow = lru_cache(maxsize=4096)(lambda name: SessionFlow(study, name))

    def starlette(self) -> Starlette:
        """Return the application with its routes."""
        routes = [
            Route("/", self.home),
            Route("/i/{token}", self.arrive),
            Route("/consent", self.consent, methods=["POST"]),
            Route("/answer", self.answer, methods=["POST"]),
            Route("/move", self.move, methods=["POST"]),
            Route("/next", self.next, methods=["POST"]),
            Route("/withdraw", self.withdraw, methods=["GET", "POST"]),
            Route("/audio/{name}", self.audio),
            Route("/static/{name}", self.static),
            Route("/health", self.health),
        ]
        handlers: dict[Any, Any] = {
            HTTPException: self._failed,
            Unavailable: self._unavailable,
            ClientDisconnect: _left,
        }
        return Starlette(routes=routes, middleware=[Middleware(SecurityHeaders)], exception_handlers=handlers)

    # Pages

    async def arrive(self, request: Request) -> Response:
        """Turn the invitation of a link into a cookie, and redirect, so that it leaves the address bar."""
        try:
            content = await self._admit("invitation", request.path_params["token"])
        except BadToken as error:
            self._limit(self._strangers, _address(request))
            return self._refusal("expired" if isinstance(error, ExpiredToken) else "no_invitation")
        payload = {**content, "session": secrets.token_urlsafe(16)}
        cookie = self._seal.token("cookie", payload, until=content["until"])
        answer = RedirectResponse("/", 303)
        secure = request.url.scheme == "https"
        age = max(0, content["until"] - int(time.time()))
        answer.set_cookie(_COOKIE, cookie, max_age=age, httponly=True, samesite="lax", secure=secure)
        return answer

    async def home(self, request: Request) -> Response:
        """Show the current page of the evaluator."""
        visitor = await self._visitor(request)
        if visitor is None:
            return self._refusal("no_invitation")
        self._limit(self._gets, visitor.evaluator)
        return await self._reads.run(self._current_page, visitor)

    def _current_page(self, visitor: _Visitor) -> Response:
        if not self._answers.has_consented(visitor.evaluator):
            return self._consent_page(visitor)
        flow = self._flow(visitor.evaluator)
        step = flow.current(self._answers.finished(visitor.evaluator))
        given = self._answers.given(visitor.evaluator, step.id)
        moves = self._answers.moves(visitor.evaluator, step.id) if step.kind == "panel" else []
        context = step_context(self._study, self._texts, flow, step, given, moves)
        if step.kind == "end":
            context["code"] = completion_code(self._seal, visitor.evaluator, step.session)
        return self._page(f"{context['template']}.html", visitor, context)

    def _consent_page(
        self, visitor: _Visitor, *, complaints: frozenset[str] = frozenset(), status: int = 200
    ) -> Response:
        study_texts = {key: paragraphs(text) for key, text in self._texts["study"].items()}
        context = {"study_texts": study_texts, "ask": self._texts.ask, "complaints": complaints}
        return self._page("consent.html", visitor, context, status=status)

    async def withdraw(self, request: Request) -> Response:
        """Ask whether to delete all data of the evaluator, and delete them."""
        visitor = await self._visitor(request)
        if visitor is None:
            return self._refusal("no_invitation")
        if request.method == "GET":
            return self._page("withdraw.html", visitor, {"done": False})
        await self._form(request, visitor)
        await self._writes.run(self._answers.withdraw, visitor.evaluator)
        return self._page("withdraw.html", visitor, {"done": True})

    # Requests of evaluators

    async def consent(self, request: Request) -> Response:
        """Store the consent and the answers to the designer's questions; nothing else is kept."""
        visitor = await self._known(request)
        form = await self._form(request, visitor)
        background, complaints = {}, set() if form.get("agree") == "yes" else {"agree"}
        for ask in self._texts.ask:
            value = str(form.get(f"ask-{ask.name}", "")).strip()[: _LONGEST_TEXT + 1]
            wrong = len(value) > _LONGEST_TEXT or (value and ask.options and value not in ask.options)
            if wrong or (ask.required and not value):
                complaints.add(ask.name)
            elif value:
                background[ask.name] = value
        if complaints:
            return self._consent_page(visitor, complaints=frozenset(complaints), status=422)
        await self._writes.run(self._answers.consent, visitor.evaluator, background)
        return RedirectResponse("/", 303)

    async def answer(self, request: Request) -> Response:
        """Store one answer."""

        def work(visitor: _Visitor, step: Step, form: dict[str, Any]) -> None:
            answers = self._answered(visitor, step, form)
            if not answers:
                raise HTTPException(422, "no answer")
            self._answers.answer(visitor.evaluator, step.id, answers)

        return await self._act(request, work)

    async def move(self, request: Request) -> Response:
        """Store one move of an excerpt."""

        def work(visitor: _Visitor, step: Step, form: dict[str, Any]) -> None:
            numbers = [form.get(key) for key in ("number", "excerpt", "cluster")]
            number, excerpt, cluster = (n if type(n) is int else -1 for n in numbers)
            count = len(step.item.audio) if step.kind == "panel" and step.item else 0
            if not (0 <= number < 10_000 and 0 <= excerpt < count and 1 <= cluster <= 4):
                raise HTTPException(422, "no such move")
            self._answers.move(visitor.evaluator, step.id, number, Move(excerpt, cluster))

        return await self._act(request, work)

    async def next(self, request: Request) -> Response:
        """Store the last answers of an item, and close it."""

        def work(visitor: _Visitor, step: Step, form: dict[str, Any]) -> None:
            answers = self._answered(visitor, step, form)
            flow = self._flow(visitor.evaluator)
            missing = set(flow.questions(step)) - set(answers) - set(self._answers.given(visitor.evaluator, step.id))
            if step.kind == "panel" and step.item:
                placed = {move.excerpt for move in self._answers.moves(visitor.evaluator, step.id)}
                missing |= {str(n) for n in range(len(step.item.audio)) if n not in placed}
            if missing or (step.kind == "end" and step.session == flow.sessions):
                raise HTTPException(422, "not all is answered")
            plays, seconds = _number(form.get("plays"), 9999), _number(form.get("seconds"), 86400)
            self._answers.finish(visitor.evaluator, step.id, answers, plays=int(plays), seconds=seconds)

        return await self._act(request, work)

    async def _act(self, request: Request, work: Callable[[_Visitor, Step, dict[str, Any]], None]) -> Response:
        """Check visitor, form and step, do the work, and acknowledge: in JSON, or by returning to the page."""
        visitor = await self._known(request)
        form = await self._form(request, visitor)

        def checked() -> None:
            step = self._flow(visitor.evaluator).current(self._answers.finished(visitor.evaluator))
            if form.get("item") != step.id:
                raise Closed
            work(visitor, step, form)

        try:
            await self._writes.run(checked)
        except (Closed, Conflict) as error:
            raise HTTPException(409, "this page was continued elsewhere") from error
        return JSONResponse({"saved": True}) if _is_json(request) else RedirectResponse("/", 303)

    def _answered(self, visitor: _Visitor, step: Step, form: dict[str, Any]) -> dict[str, str]:
        """Return the answers in a form; 422 if one is not allowed."""
        allowed = self._flow(visitor.evaluator).questions(step)
        answers = {question: form[question] for question in allowed if form.get(question) is not None}
        for question, value in answers.items():
            if value not in allowed[question]:
                raise HTTPException(422, "no such answer")
        return answers

    # Files

    async def audio(self, request: Request) -> Response:
        """Return a recording, whole or in part (range requests), to an evaluator who has it in their items."""
        visitor = await self._visitor(request)
        name = request.path_params["name"]
        if visitor is None:
            raise HTTPException(404)
        self._limit(self._gets, visitor.evaluator)
        if name not in self._flow(visitor.evaluator).audio:
            raise HTTPException(404)
        sound = await self._reads.run(self._sound, name)
        return ranged(sound, request.headers.get("range"), "audio/wav", "private, max-age=86400")

    async def static(self, request: Request) -> Response:
        """Return a style sheet or script."""
        response = self._pages.static(request.path_params["name"])
        if response is None:
            raise HTTPException(404)
        return response

    async def health(self, request: Request) -> Response:
        """Tell whether the database answers; it is asked once a second at most, however many strangers want to know."""
        if time.monotonic() - self._healthy >= 1.0:
            await self._reads.run(self._answers.has_consented, "")
            self._healthy = time.monotonic()
        return JSONResponse({"healthy": True})

    # Access and rate limits

    async def _admit(self, purpose: str, token: str) -> dict[str, Any]:
        """Return the content of a token of an evaluator of this study; ``BadToken`` also if it was revoked."""
        content = self._seal.open(purpose, token)
        if content["evaluator"] not in self._study.evaluators:
            raise BadToken("not an evaluator of this study")
        if await self._reads.run(self._revoked.has, content["evaluator"], content):
            raise ExpiredToken("it was revoked")
        return content

    async def _visitor(self, request: Request) -> _Visitor | None:
        """Return who has a cookie of ours; strangers are counted by their address."""
        try:
            content = await self._admit("cookie", request.cookies.get(_COOKIE, ""))
            return _Visitor(content["evaluator"], content["session"])
        except BadToken:
            self._limit(self._strangers, _address(request))
            return None

    async def _known(self, request: Request) -> _Visitor:
        visitor = await self._visitor(request)
        if visitor is None:
            raise HTTPException(403, "no invitation")
        return visitor

    async def _form(self, request: Request, visitor: _Visitor) -> dict[str, Any]:
        """Return the form or JSON that was sent; 403 if another site sent it."""
        self._limit(self._posts, visitor.evaluator)
        body = await read_body(request, _MOST_BYTES)
        try:
            form = parse_json(body) if _is_json(request) else dict(parse_qsl(body.decode(), max_num_fields=100))
        except ValueError as error:
            raise HTTPException(400, "not readable") from error
        if not isinstance(form, dict) or not is_ours(request, self._seal, _session(visitor), form.get("mark")):
            raise HTTPException(403, "not sent by this site")
        return form

    def _limit(self, limit: RateLimit, key: str) -> None:
        wait = limit.wait(key)
        if wait > 0:
            raise HTTPException(429, "too many requests", headers={"retry-after": str(int(wait) + 1)})

    # Answers that are pages

    def _page(self, template: str, visitor: _Visitor, context: dict[str, Any], *, status: int = 200) -> Response:
        mark = form_mark(self._seal, _session(visitor))
        return self._pages.page(template, {"texts": self._texts, "mark": mark, **context}, status=status)

    def _refusal(self, why: str) -> Response:
        page = self._texts["page"]
        context = {"texts": self._texts, "heading": page[why], "help": page[f"{why}_help"], "again": False}
        return self._pages.page("message.html", context, status=403)

    async def _failed(self, request: Request, error: Exception) -> Response:
        if not isinstance(error, HTTPException):
            raise error
        if _is_json(request):
            return JSONResponse({"saved": False, "error": error.detail}, error.status_code, headers=error.headers)
        page = self._texts["page"]
        heading = {404: "not_found", 409: "elsewhere", 429: "too_fast"}.get(error.status_code, "error")
        context = {"texts": self._texts, "heading": page[heading], "help": "", "again": error.status_code != 404}
        answer = self._pages.page("message.html", context, status=error.status_code)
        answer.headers.update(error.headers or {})
        return answer

    async def _unavailable(self, request: Request, error: Exception) -> Response:
        return await self._failed(request, HTTPException(503, "the database is away", headers={"retry-after": "2"}))


async def _left(request: Request, error: Exception) -> Response:
    return Response(status_code=400)  # nobody is there to read it


def _session(visitor: _Visitor) -> str:
    return f"{visitor.evaluator} {visitor.session}"


def _address(request: Request) -> str:
    return request.client.host if request.client else ""


def _is_json(request: Request) -> bool:
    return request.headers.get("content-type", "").partition(";")[0].strip() == "application/json"


def _number(value: object, most: float) -> float:
    """Return a number that the page sent, limited to ``most``; 0 if it is not a number."""
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return 0.0
    return min(max(number, 0.0), most) if number == number else 0.0
