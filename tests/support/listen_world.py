"""A small listening study made without any model, and evaluators who answer by a known rule."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np

from voiceveil.apps.listen.answers import Answers, Move
from voiceveil.apps.listen.design import StudyPlan, design_study
from voiceveil.apps.listen.session_flow import SessionFlow
from voiceveil.apps.listen.study import Item, Study
from voiceveil.audio import Waveform, save
from voiceveil.corpus import Corpus, Utterance
from voiceveil.testing import synthetic_voice

#: How good each version sounds, and how much of the speaker is left, on a scale from 0 to 1.
QUALITY = {"original": 0.9, "good": 0.6, "poor": 0.3}
LEFT = {"original": 1.0, "good": 0.4, "poor": 0.1}


@lru_cache(maxsize=4)
def _voices(seconds: float) -> tuple[Waveform, ...]:
    return tuple(synthetic_voice(seed, 1, seconds=seconds) for seed in range(4))


def make_corpora(
    folder: Path, *, speakers: int = 24, utterances: int = 8, seconds: float = 0.4
) -> tuple[Corpus, dict[str, Corpus]]:
    """Write an original and two anonymized corpora, half of the speakers women; utterances share few files."""
    versions = {}
    for number, name in enumerate(("original", "good", "poor")):
        rows = []
        for index, wave in enumerate(_voices(seconds)):
            save(folder / name / f"{index}.wav", Waveform(wave.samples * np.float32(0.3 + 0.2 * number), wave.rate))
        for speaker in range(speakers):
            for turn in range(utterances):
                who, path = f"{'fm'[speaker % 2]}{speaker:02d}", folder / name / f"{(speaker + turn) % 4}.wav"
                rows.append(Utterance(f"{who}-{turn}", path, speaker=who, gender=who[0], seconds=seconds))
        versions[name] = Corpus(name, tuple(rows))
    return versions.pop("original"), versions


def make_study(folder: Path, plan: StudyPlan | None = None, **corpora: float) -> Study:
    """A study in ``folder / "study"``."""
    original, systems = make_corpora(folder / "corpora", **corpora)  # type: ignore[arg-type]
    return design_study(folder / "study", original, systems, plan)


class Evaluator:
    """An evaluator who answers by the truth with some noise."""

    def __init__(self, study: Study, name: str, *, careless: bool = False) -> None:
        self.study, self.name, self.careless = study, name, careless
        self.rng = np.random.default_rng([study.seed, int(name[1:])])
        self.bias = self.rng.normal(0.0, 0.8)  # some are strict

    def answers(self, item: Item) -> dict[str, str]:
        if item.kind in ("headphones", "attention"):
            return {item.kind: "1" if self.careless else item.answer}
        if item.kind == "preference":
            a, b = (QUALITY[self.study.recordings[audio].source] for audio in item.audio)
            return {"preference": "A" if self.rng.random() < 1 / (1 + np.exp(6 * (b - a))) else "B"}
        source = self.study.source(item)
        alike = 0.15 + (0.8 * LEFT[source] if self.study.is_same(item) else 0.0)
        truth = {"naturalness": QUALITY[source], "intelligibility": 0.2 + 0.8 * QUALITY[source], "similarity": alike}
        return {q: self._scale(truth[q]) for q in self.study.ratings}

    def _scale(self, level: float) -> str:
        return str(int(np.clip(round(1 + 9 * level + self.bias + self.rng.normal(0.0, 1.0)), 1, 10)))

    def moves(self, item: Item) -> list[Move]:
        """Move original excerpts to their speaker's group and anonymized ones anywhere; the first is moved twice."""
        speakers = sorted({self.study.recordings[audio].speaker for audio in item.audio})
        moves = [Move(0, 1 + int(self.rng.integers(4)))]
        for number, audio in enumerate(item.audio):
            one = self.study.recordings[audio]
            known = one.source == "original"
            moves.append(Move(number, 1 + (speakers.index(one.speaker) if known else int(self.rng.integers(4)))))
        return moves


def answer_all(
    study: Study, answers: Answers, *, careless: tuple[str, ...] = (), background: Mapping[str, str] | None = None
) -> None:
    """Answer all items of all evaluators, without a browser."""
    for name in study.evaluators:
        person = Evaluator(study, name, careless=name in careless)
        answers.consent(name, background or {})
        for step in SessionFlow(study, name).steps:
            if step.item is None:
                answers.finish(name, step.id, {})
            elif step.kind == "panel":
                for number, move in enumerate(person.moves(step.item)):
                    answers.move(name, step.id, number, move)
                answers.finish(name, step.id, {}, plays=20, seconds=90.0)
            else:
                answers.finish(name, step.id, person.answers(step.item), plays=2, seconds=12.0)


@contextmanager
def served(study: Path, database: str | None = None) -> Iterator[str]:
    """Serve the application of a study on a free port; yield its address."""
    from voiceveil.apps.listen.app import open_app

    with running(open_app(study, database)) as address:
        yield address


@contextmanager
def running(app: Any, **options: Any) -> Iterator[str]:
    """Serve an application on a free port, with options of ``build_server``; yield its address."""
    from voiceveil.apps.web.hosts import Hosts
    from voiceveil.apps.web.server import build_server, listening_socket

    bound = listening_socket("127.0.0.1", 0)
    server = build_server(app, Hosts("127.0.0.1"), **options)
    thread = Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(timeout=10)
        bound.close()
