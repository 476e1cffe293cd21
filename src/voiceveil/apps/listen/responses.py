"""The responses of a listening test, ready for analysis: answers joined with the items of the design.

Conventions: only finished items count; the answers of an unfinished item are drafts. Everything is in the order of the
evaluators and of their items. The name of a :class:`Person` is the number of their invitation.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from voiceveil.apps.listen.answers import Answers
from voiceveil.apps.listen.study import Item, Study
from voiceveil.core.documents import parse_json
from voiceveil.core.errors import InputError

__all__ = ["PanelResponse", "Person", "Preference", "Rating", "Responses", "load_responses"]


@dataclass(frozen=True)
class Rating:
    """An answer on the scale from 1 to 10."""

    evaluator: str
    item: str
    question: str
    source: str
    same: bool  # whether A and B are of one speaker
    speaker: str  # of A
    other: str  # of B
    utterance: str
    value: float


@dataclass(frozen=True)
class Preference:
    """A preference between two versions of an utterance, ``first`` and ``second`` in alphabetical order."""

    evaluator: str
    item: str
    first: str
    second: str
    chosen: str
    speaker: str


@dataclass(frozen=True)
class PanelResponse:
    """The final clusters of a panel, one entry for each excerpt, and all moves that led to them."""

    evaluator: str
    item: str
    system: str  # "original": the control panel
    gender: str
    utterances: tuple[str, ...]
    speakers: tuple[str, ...]
    sources: tuple[str, ...]
    clusters: tuple[str, ...]
    moves: tuple[tuple[str, str], ...]  # (excerpt, cluster)


@dataclass(frozen=True)
class Person:
    """An evaluator who has consented; pairs are (number of correct checks, number of checks)."""

    name: str
    background: dict[str, str] = field(default_factory=dict)
    finished: int = 0
    items: int = 0
    attention: tuple[int, int] = (0, 0)
    headphones: tuple[int, int] = (0, 0)
    seconds: float = 0.0
    plays: int = 0


@dataclass(frozen=True)
class Responses:
    """All responses of a study."""

    people: tuple[Person, ...]
    ratings: tuple[Rating, ...]
    preferences: tuple[Preference, ...]
    panels: tuple[PanelResponse, ...]


def _consent(text: str) -> dict[str, str]:
    """Return the background of a person from the JSON in the database."""
    background = parse_json(text)
    if not isinstance(background, dict):
        raise InputError("a consent in the database is not a JSON object")
    return {str(key): str(value) for key, value in background.items()}


def load_responses(study: Study, answers: Answers) -> Responses:
    """Read the responses to a study from the database."""
    consents = {str(row[0]): _consent(str(row[1])) for row in answers.table("consents")}
    finished = {(str(e), str(i)): (plays, seconds) for e, i, plays, seconds, _ in answers.table("finished")}
    given: dict[tuple[str, str], dict[str, str]] = {}
    for evaluator, item, question, value, *_ in answers.table("answers"):
        given.setdefault((str(evaluator), str(item)), {})[str(question)] = str(value)
    moves: dict[tuple[str, str], list[tuple[int, int, int]]] = {}
    for evaluator, item, number, excerpt, cluster, _ in answers.table("moves"):
        moves.setdefault((str(evaluator), str(item)), []).append((_int(number), _int(excerpt), _int(cluster)))
    people, ratings, preferences, panels = [], [], [], []
    for name, sessions in study.evaluators.items():
        if name not in consents:
            continue
        items = [study.items[item] for session in sessions for item in session.items]
        done = [item for item in items if (name, item.id) in finished]
        people.append(_person(name, consents[name], items, done, given, finished))
        for item in done:
            answers_of_item = given.get((name, item.id), {})
            if item.kind == "rating":
                ratings += [
                    _rating(study, name, item, q, answers_of_item[q]) for q in study.ratings if q in answers_of_item
                ]
            elif item.kind == "preference" and "preference" in answers_of_item:
                preferences.append(_preference(study, name, item, answers_of_item["preference"]))
            elif item.kind == "panel":
                panels.append(_panel(study, name, item, sorted(moves.get((name, item.id), []))))
    return Responses(tuple(people), tuple(ratings), tuple(preferences), tuple(panels))


def _int(value: object) -> int:
    return int(str(value))


def _person(
    name: str,
    background: dict[str, str],
    items: list[Item],
    done: list[Item],
    given: dict[tuple[str, str], dict[str, str]],
    finished: dict[tuple[str, str], tuple[object, object]],
) -> Person:
    def checks(kind: str) -> tuple[int, int]:
        asked = [item for item in done if item.kind == kind]
        return sum(given.get((name, item.id), {}).get(kind) == item.answer for item in asked), len(asked)

    spent = [finished[name, item.id] for item in done]
    seconds, plays = sum(float(str(s)) for _, s in spent), sum(_int(p) for p, _ in spent)
    return Person(name, background, len(done), len(items), checks("attention"), checks("headphones"), seconds, plays)


def _rating(study: Study, evaluator: str, item: Item, question: str, value: str) -> Rating:
    a, b = (study.recordings[audio] for audio in item.audio)
    same = study.is_same(item)
    return Rating(evaluator, item.id, question, a.source, same, a.speaker, b.speaker, a.utterance, float(value))


def _preference(study: Study, evaluator: str, item: Item, value: str) -> Preference:
    a, b = (study.recordings[audio] for audio in item.audio)
    first, second = sorted((a.source, b.source))
    return Preference(evaluator, item.id, first, second, (a if value == "A" else b).source, a.speaker)


def _panel(study: Study, evaluator: str, item: Item, moves: list[tuple[int, int, int]]) -> PanelResponse:
    recordings = [study.recordings[audio] for audio in item.audio]
    where = {excerpt: cluster for _, excerpt, cluster in moves}
    return PanelResponse(
        evaluator,
        item.id,
        study.panel_system(item),
        recordings[0].gender,
        tuple(recording.utterance for recording in recordings),
        tuple(recording.speaker for recording in recordings),
        tuple(recording.source for recording in recordings),
        tuple(str(where[n]) for n in range(len(recordings))),
        tuple((str(excerpt), str(cluster)) for _, excerpt, cluster in moves),
    )
