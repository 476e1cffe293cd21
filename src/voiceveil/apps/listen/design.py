"""The design of a study: balanced sessions, panels and checks from corpora, and the recordings that they need.

Conventions (Tomashenko et al. 2022, section 2.3.2; plan of the 2022 challenge, section 5.3): a rating session has 36
items, half of them original, half with the same speaker in A and B, the rest shared by the systems; B is always
original, and a different speaker is of the same gender. A clustering session has three panels of 16 excerpts of 3 s:
three reference speakers with 2 to 6 each and one distractor, all of one gender; no speaker is in two panels. In the
control panel all are original, in the others half are anonymized, by one system, the distractor among them.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from voiceveil import audio
from voiceveil.apps.listen import recordings
from voiceveil.apps.listen.sampling import Balance, Deck, deal_cells, deal_pairs, panel_shape
from voiceveil.apps.listen.study import ORIGINAL, RATINGS, TASKS, Item, Recording, Study, StudySession
from voiceveil.apps.listen.texts import initial_texts
from voiceveil.apps.web.tokens import Seal, new_key, write_key
from voiceveil.core.atomic_files import PART_PREFIX
from voiceveil.core.errors import InputError
from voiceveil.core.registry import did_you_mean
from voiceveil.corpus import open_corpus
from voiceveil.corpus.model import Corpus, Utterance
from voiceveil.corpus.sampling import shuffled
from voiceveil.run.outputs import refuse_inputs

__all__ = ["StudyPlan", "design_from_specs", "design_study"]

EXCERPTS = 16
_LEVELS = (-60.0, -10.0)  # dB of full scale


@dataclass(frozen=True)
class StudyPlan:
    """Size and tasks of a study."""

    evaluators: int = 12
    raters: int = 3  # evaluators who hear the same items
    sessions: int = 1  # of each task, for each evaluator
    items: int = 36  # of a rating or preference session
    panels: int = 3  # of a clustering session
    tasks: tuple[str, ...] = RATINGS
    attention: int = 2  # checks in a session
    headphones: int = 6  # tones to compare at the start; 0: no such check
    level: float | None = -26.0  # of the recordings, dB of full scale; None: as they are
    seed: int = 0
    name: str = "listening test"
    texts: str = "default"  # words of the pages that the study begins with, see `voiceveil.apps.listen.texts`

    def __post_init__(self) -> None:
        initial_texts(self.texts)
        for task in self.tasks:
            if task not in TASKS:
                raise InputError(f"unknown task {task!r}", fix=did_you_mean(task, list(TASKS)))
        for name in ("evaluators", "raters", "sessions", "items", "panels"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}", fix="give 1 or more")
        if not self.tasks:
            raise InputError("no tasks", fix=f"choose among {', '.join(TASKS)}")
        if self.level is not None and not _LEVELS[0] <= self.level <= _LEVELS[1]:
            fix = f"give dB of full scale from {_LEVELS[0]:g} to {_LEVELS[1]:g}, or keep"
            raise InputError(f"the level {self.level:g} is out of range", fix=fix)


def design_study(
    folder: Path,
    original: Corpus,
    systems: Mapping[str, Corpus],
    plan: StudyPlan | None = None,
    *,
    enroll: Corpus | None = None,
) -> Study:
    """Write a study into a new folder: ``design.json``, ``audio/``, ``texts.toml``, ``key``.

    Parameters
    ----------
    folder
        Must not exist.
    original
        Original speech.
    systems
        Name of a system -> the same utterances, anonymized by it.
    plan
        Size and tasks.
    enroll
        Speech that recordings are compared with (default: ``original``).

    Raises
    ------
    InputError
        If the folder exists, or the corpora are too small for the plan.
    """
    if os.path.lexists(folder):
        fix = "name a new folder: invitations depend on the old one"
        raise InputError("this folder exists already", where=folder, fix=fix)
    chosen, key = plan or StudyPlan(), new_key()
    builder = _StudyBuilder(chosen, original, systems, enroll, Seal(key))
    evaluators = builder.draw()
    part = folder.with_name(f"{PART_PREFIX}{folder.name}")
    shutil.rmtree(part, ignore_errors=True)
    try:
        builder.write_audio(part / "audio")
        study = builder.study(evaluators)
        study.save(part)
        write_key(part / "key", key)
        (part / "texts.toml").write_bytes(initial_texts(chosen.texts))
        part.rename(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return study


def design_from_specs(
    folder: Path,
    original: Sequence[str],
    systems: Mapping[str, Sequence[str]],
    plan: StudyPlan | None = None,
    *,
    enroll: Sequence[str] = (),
) -> Study:
    """Write a study from corpora that are given as for ``voiceveil anonymize``; several of one kind are joined.

    Parameters
    ----------
    folder
        Must not exist, nor lie in a corpus.
    original, enroll
        Corpora of original speech, and of speech that recordings are compared with (default: ``original``).
    systems
        Name of a system -> corpora with the same utterances, anonymized by it.
    plan
        Size and tasks.

    Raises
    ------
    InputError
        If a corpus cannot be read, the folder exists, or the corpora are too small for the plan.
    """
    refuse_inputs(folder, [*original, *enroll, *chain.from_iterable(systems.values())])
    anonymized = {name: _joined(specs) for name, specs in systems.items()}
    return design_study(folder, _joined(original), anonymized, plan, enroll=_joined(enroll) if enroll else None)


def _joined(specs: Sequence[str]) -> Corpus:
    """Return several corpora as one, with the name of the first."""
    corpora = [open_corpus(spec) for spec in specs]
    return Corpus(corpora[0].name, tuple(utterance for corpus in corpora for utterance in corpus))


class _StudyBuilder:
    """Draws items and collects their recordings, whose names reveal nothing."""

    def __init__(
        self, plan: StudyPlan, original: Corpus, systems: Mapping[str, Corpus], enroll: Corpus | None, seal: Seal
    ) -> None:
        if not systems:
            raise InputError("no anonymized corpus", fix="give --system NAME=CORPUS at least once")
        if ORIGINAL in systems:
            raise InputError(f"a system cannot be called {ORIGINAL!r}", fix="choose another name")
        self._plan, self._seal = plan, seal
        self._systems = tuple(sorted(systems))
        self._versions = {ORIGINAL: original, **systems}
        self._trials = self._by_speaker(u for u in original if all(u.id in corpus for corpus in systems.values()))
        if not self._trials:
            problem = "no utterance of a known speaker is in all of the corpora"
            raise InputError(problem, fix="the anonymized ones must keep the ids of the original")
        self._enroll = self._by_speaker(original if enroll is None else enroll)
        self._balance = Balance(plan.seed)
        self._recordings: dict[str, Recording] = {}
        self._origin: dict[str, tuple[Utterance, float | None]] = {}
        self._tones: dict[str, Callable[[], NDArray[np.float64]]] = {}
        self._items: dict[str, Item] = {}

    @staticmethod
    def _by_speaker(utterances: Iterator[Utterance] | Corpus) -> dict[str, list[Utterance]]:
        groups: dict[str, list[Utterance]] = {}
        for utterance in utterances:
            if utterance.speaker is not None:
                groups.setdefault(utterance.speaker, []).append(utterance)
        return groups

    def draw(self) -> dict[str, tuple[StudySession, ...]]:
        """Make all items, and return evaluator -> sessions, in their order."""
        plan = self._plan
        self._check_tone("volume", partial(recordings.noise, plan.level or -26.0, np.random.default_rng(plan.seed)))
        sets = [self._set(number) for number in range(-(-plan.evaluators // plan.raters))]
        evaluators = {}
        for number in range(plan.evaluators):
            name = f"e{number + 1:03d}"
            sessions = sets[number % len(sets)]
            evaluators[name] = tuple(self._in_order(s, name, first=i == 0) for i, s in enumerate(sessions))
        return evaluators

    def study(self, evaluators: dict[str, tuple[StudySession, ...]]) -> Study:
        """Return the study of all items made so far."""
        plan = self._plan
        ratings = tuple(task for task in RATINGS if task in plan.tasks)
        recordings = dict(sorted(self._recordings.items()))
        return Study(plan.name, plan.seed, self._systems, ratings, recordings, self._items, evaluators)

    def _set(self, number: int) -> list[StudySession]:
        """Return sessions that several evaluators share; no utterance is in two of their items."""
        plan, deck = self._plan, Deck(self._trials, self._enroll, self._balance)
        sessions = []
        for turn in range(plan.sessions):
            purpose = f"set {number} session {turn}"
            if "clustering" in plan.tasks:  # first: panels need many utterances of few speakers
                sessions.append(StudySession("clustering", tuple(self._panels(deck, number, purpose))))
        for turn in range(plan.sessions):
            purpose = f"set {number} session {turn}"
            if set(RATINGS) & set(plan.tasks):
                sessions.append(StudySession("rating", tuple(self._rated(deck, purpose))))
            if "preference" in plan.tasks:
                sessions.append(StudySession("preference", tuple(self._preferences(deck, purpose))))
        order = ("rating", "preference", "clustering")
        return sorted(sessions, key=lambda session: order.index(session.task))

    def _rated(self, deck: Deck, purpose: str) -> Iterator[str]:
        for source, same in deal_cells(self._plan.items, self._systems, self._balance, purpose):
            trial, other = deck.trial(source, purpose, same=same)
            yield self._item("rating", (self._recording(source, trial), self._recording(ORIGINAL, other, enroll=True)))

    def _preferences(self, deck: Deck, purpose: str) -> Iterator[str]:
        for a, b in deal_pairs(self._plan.items, self._systems, self._balance, purpose):
            utterance = deck.alone(sorted((a, b)), f"{purpose} preference")
            yield self._item("preference", (self._recording(a, utterance), self._recording(b, utterance)))

    def _panels(self, deck: Deck, number: int, purpose: str) -> Iterator[str]:
        """Yield the panels of a session, the control panel first; each evaluator gets them in another order."""
        system = self._balance.least(self._systems, f"{purpose} panels", "panel system")[0]
        self._balance.counts["panel system", system] += 1
        speakers = self._panel_speakers(deck, number, purpose)
        for turn in range(self._plan.panels):
            four, speakers = speakers[:4], speakers[4:]
            sizes = [deck.left(self._long[speaker]) for speaker in four[:3]]
            shape = panel_shape(sizes, self._plan.seed, f"{purpose} shape {turn}", excerpts=EXCERPTS - 1)
            if shape is None:
                raise InputError(
                    "too few utterances for a panel", fix="fewer --panels or --sessions, or a larger corpus"
                )
            dealt = [deck.several(self._long[s], n, f"{purpose} panel") for s, n in zip(four, (*shape, 1), strict=True)]
            yield self._panel(dealt, ORIGINAL if turn == 0 else system, f"{purpose} panel {turn}")

    def _panel_speakers(self, deck: Deck, number: int, purpose: str) -> list[str]:
        """Return four speakers of one gender for each panel, least used first; genders alternate by set."""
        wanted = 4 * self._plan.panels
        fit: dict[str, list[str]] = {}
        for speaker, utterances in self._long.items():
            if deck.left(utterances) >= 6:
                fit.setdefault(utterances[0].gender or "", []).append(speaker)
        genders = [gender for gender in sorted(fit) if gender and len(fit[gender]) >= wanted]
        if not genders:
            counts = ", ".join(f"{gender or 'unknown'} {len(names)}" for gender, names in sorted(fit.items())) or "none"
            raise InputError(
                f"{self._plan.panels} panels need {wanted} speakers of one gender with 6 utterances of "
                f"{recordings.EXCERPT:g} s each; there are: {counts}",
                fix="fewer --panels, or a corpus with more speakers",
            )
        chosen = fit[genders[number % len(genders)]]
        return self._balance.least(chosen, f"{purpose} speakers", "panel")[:wanted]

    @cached_property
    def _long(self) -> Mapping[str, Sequence[Utterance]]:
        """Speaker -> trials that are long enough for an excerpt in every version."""
        every = (utterance for utterances in self._trials.values() for utterance in utterances)
        return self._by_speaker(u for u in every if self._shortest(u) >= recordings.EXCERPT)

    def _shortest(self, utterance: Utterance) -> float:
        versions = [corpus[utterance.id] for corpus in self._versions.values()]
        return min(v.length or audio.info(v.path).duration - v.start for v in versions)

    def _panel(self, dealt: Sequence[Sequence[Utterance]], system: str, purpose: str) -> str:
        """Make a panel with half of its excerpts by ``system``: every other one, and the distractor's."""
        versions: list[tuple[str, Utterance]] = []
        for utterances in dealt[:3]:
            for utterance in utterances:
                versions.append((ORIGINAL if len(versions) % 2 == 0 else system, utterance))
        versions.append((system, dealt[3][0]))
        names = [self._recording(source, utterance, cut=recordings.EXCERPT) for source, utterance in versions]
        return self._item("panel", tuple(shuffled(names, self._plan.seed, purpose)))

    def _in_order(self, session: StudySession, evaluator: str, *, first: bool) -> StudySession:
        """Return a session with its items in this evaluator's order, and with checks between them."""
        seed, purpose = self._plan.seed, f"order {evaluator} {session.items[0]}"
        items = shuffled(session.items, seed, purpose)
        if session.task != "clustering" and self._plan.attention:
            step = len(items) / (self._plan.attention + 1)
            for turn in reversed(range(self._plan.attention)):
                count = 2 + self._seal.digest("attention", purpose, str(turn))[0] % 4
                items.insert(max(1, round(step * (turn + 1))), self._attention(count, evaluator, session, turn))
        return StudySession(session.task, (*(self._headphones(evaluator) if first else ()), *items))

    def _attention(self, count: int, evaluator: str, session: StudySession, turn: int) -> str:
        name = self._check_tone(f"attention {count}", partial(recordings.beeps, count))
        return self._item("attention", (name,), str(count), own=f"{session.task}-{turn + 1}-{evaluator}")

    def _headphones(self, evaluator: str) -> Iterator[str]:
        """Yield headphone checks: the six arrangements of softest and inverted tone, in this evaluator's order."""
        pairs = {f"{a}{b}": (a, b) for a in range(3) for b in range(3) if a != b}
        order = shuffled(pairs, self._plan.seed, f"headphones {evaluator}")
        for turn in range(self._plan.headphones):
            softest, inverted = pairs[order[turn % len(order)]]
            tones = partial(recordings.headphone_tones, softest, inverted)
            name = self._check_tone(f"headphones {softest} {inverted}", tones)
            yield self._item("headphones", (name,), str(softest + 1), own=f"{turn + 1}-{evaluator}")

    def _item(self, kind: str, played: tuple[str, ...], answer: str = "", *, own: str = "") -> str:
        name = f"{kind}-{own or f'{len(self._items) + 1:05d}'}"
        self._items[name] = Item(name, kind, played, answer)
        return name

    def _recording(self, source: str, utterance: Utterance, *, cut: float | None = None, enroll: bool = False) -> str:
        """Return the name of a recording, which :meth:`write_audio` will write."""
        version = utterance if enroll else self._versions[source][utterance.id]
        name = self._seal.name("recording", source, utterance.id, str(cut), str(enroll))
        if name not in self._recordings:
            speaker, gender = utterance.speaker or "", utterance.gender or ""
            self._recordings[name] = Recording(source, utterance.id, speaker, gender)
            self._origin[name] = (version, cut)
        return name

    def _check_tone(self, what: str, samples: Callable[[], NDArray[np.float64]]) -> str:
        name = self._seal.name("check", what)
        if name not in self._recordings:
            self._recordings[name] = Recording("check", what)
            self._tones[name] = samples
        return name

    def write_audio(self, folder: Path) -> None:
        """Write all recordings and tones."""
        for name, (utterance, cut) in self._origin.items():
            duration = utterance.duration if cut is None else cut
            wave = recordings.prepare(utterance.path, start=utterance.start, duration=duration, level=self._plan.level)
            audio.save(folder / f"{name}.wav", wave)
            self._recordings[name] = dataclasses.replace(self._recordings[name], seconds=round(wave.duration, 3))
        for name, samples in self._tones.items():
            recordings.write_stereo(folder / f"{name}.wav", samples())
