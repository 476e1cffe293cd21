"""The content of the page of a step: texts, recordings and current answers; it does not reveal the system."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from voiceveil.apps.listen.answers import Move
from voiceveil.apps.listen.session_flow import SessionFlow, Step
from voiceveil.apps.listen.study import Study
from voiceveil.apps.listen.texts import Texts, paragraphs
from voiceveil.apps.web.tokens import Seal

__all__ = ["completion_code", "step_context"]

CLUSTERS = 4


def completion_code(seal: Seal, evaluator: str, session: int) -> str:
    """Return the code that shows that a session was finished: ``ABCD-EFGH``."""
    code = base64.b32encode(seal.digest("completion", evaluator, str(session))).decode()
    return f"{code[:4]}-{code[4:8]}"


def step_context(
    study: Study, texts: Texts, flow: SessionFlow, step: Step, given: Mapping[str, str], moves: Sequence[Move]
) -> dict[str, Any]:
    """Return the context of a step's template."""
    page = texts["page"]
    context: dict[str, Any] = {
        "step": step,
        "sessions": flow.sessions,
        "session_line": page["session"].format(n=step.session, of=flow.sessions) if flow.sessions > 1 else "",
        "item_line": page["item"].format(n=step.number, of=step.of) if step.item else "",
        "given": given,
    }
    if step.kind == "intro":
        volume = next(name for name, recording in study.recordings.items() if recording.utterance == "volume")
        words = {"scene": paragraphs(texts["scene"]["text"]), "volume": f"/audio/{volume}"}
        count = flow.tested(step)
        return {"template": "intro", **context, **words, "task": paragraphs(texts["tasks"][step.task].format(n=count))}
    if step.kind == "end":
        return {"template": "end", **context, "last": step.session == flow.sessions}
    assert step.item is not None  # noqa: S101 -- every other step is an item
    played = [f"/audio/{name}" for name in step.item.audio]
    if step.kind == "panel":
        return {"template": "panel", **context, "played": played, **_panel(texts, moves, len(played))}
    two = [page["recording_a"], page["recording_b"]] if len(played) == 2 else [""]
    tracks = [{"label": label, "src": src} for label, src in zip(two, played, strict=True)]
    if step.kind == "rating" and "similarity" not in flow.ratings:
        tracks = tracks[:1]
    questions = [_question(texts, name, allowed) for name, allowed in flow.questions(step).items()]
    return {"template": "item", **context, "tracks": tracks, "questions": questions}


def _question(texts: Texts, name: str, allowed: Sequence[str]) -> dict[str, Any]:
    """Return a question and its choices: a scale, or labels."""
    words = texts[name]
    labels = list(allowed)
    if name == "preference":
        labels = [words["a"], words["b"]]
    elif name == "headphones":
        labels = words["options"]
    return {
        "name": name,
        "question": words["question"],
        "help": words["help"],
        "low": words.get("low", ""),
        "high": words.get("high", ""),
        "choices": list(zip(allowed, labels, strict=True)),
    }


def _panel(texts: Texts, moves: Sequence[Move], count: int) -> dict[str, Any]:
    """Return the context of a panel: the cluster that each excerpt is in now, and names."""
    where = {move.excerpt: move.cluster for move in moves}
    words = texts["panel"]
    names = [words["excerpt"].format(n=n + 1) for n in range(count)]
    return {
        "where": [where.get(n, 0) for n in range(count)],
        "names": names,
        "groups": [words["group"].format(n=n) for n in range(1, CLUSTERS + 1)],
        "moves": len(moves),
    }
