"""The steps of an evaluator through a study, each of which is a page.

Conventions: a session begins with a step of kind "intro" and ends with one of kind "end"; between them are its items.
A step is identified by its item's id, or by ``intro-1``, ``end-1`` and so on. The current step is the first that is not
finished. No other state is kept, so that an evaluator who closes the tab resumes at the same step.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from voiceveil.apps.listen.study import Item, Study

__all__ = ["SessionFlow", "Step"]

_CHOICES = {"headphones": ("1", "2", "3"), "attention": tuple("123456"), "preference": ("A", "B")}
_SCALE = tuple(str(value) for value in range(1, 11))


@dataclass(frozen=True)
class Step:
    """One page: item ``number`` of the ``of`` items of its session; ``session`` counts from 1."""

    id: str
    kind: str
    task: str
    session: int
    item: Item | None = None
    number: int = 0
    of: int = 0


class SessionFlow:
    """All steps of one evaluator, in order."""

    def __init__(self, study: Study, evaluator: str) -> None:
        self.ratings = study.ratings
        self.sessions = len(study.evaluators[evaluator])
        self.steps: list[Step] = []
        for index, session in enumerate(study.evaluators[evaluator], start=1):
            of = len(session.items)
            self.steps.append(Step(f"intro-{index}", "intro", session.task, index, of=of))
            for number, name in enumerate(session.items, start=1):
                item = study.items[name]
                self.steps.append(Step(name, item.kind, session.task, index, item, number, of))
            self.steps.append(Step(f"end-{index}", "end", session.task, index, of=of))
        self.audio = {audio for step in self.steps if step.item for audio in step.item.audio}
        self.audio |= {
            name
            for name, recording in study.recordings.items()
            if (recording.source, recording.utterance) == ("check", "volume")
        }

    def current(self, finished: Collection[str]) -> Step:
        """Return the first step that is not in ``finished``; the last step if all are."""
        return next((step for step in self.steps if step.id not in finished), self.steps[-1])

    def questions(self, step: Step) -> dict[str, tuple[str, ...]]:
        """Return question -> its allowed answers."""
        if step.kind == "rating":
            return dict.fromkeys(self.ratings, _SCALE)
        return {step.kind: _CHOICES[step.kind]} if step.kind in _CHOICES else {}

    def tested(self, step: Step) -> int:
        """Return the number of items in the session of ``step`` that are not checks."""
        inside = [other for other in self.steps if other.session == step.session and other.item is not None]
        return sum(other.kind not in ("headphones", "attention") for other in inside)
