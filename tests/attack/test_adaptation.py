"""Adaptation: the choice is made on held-out speakers, and is no better than chance when there is nothing to learn."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from voiceveil.attack.adaptation import adapt, candidates, recording_units, training_accuracy
from voiceveil.attack.backends import Cosine, Lda, Wccn
from voiceveil.attack.validation import Candidate, LabeledEmbeddings, validate
from voiceveil.core.errors import InputError
from voiceveil.corpus import Utterance
from voiceveil.models.speaker.plda import Plda
from voiceveil.run.progress import progress_style


def training(seed: int = 0, *, speakers: int = 40, utterances: int = 12, signal: float = 1.0) -> LabeledEmbeddings:
    """Speakers differ in 6 of 16 dimensions, utterances (as anonymization makes them) mostly in the others."""
    rng = np.random.default_rng(seed)
    speaker = np.repeat(np.arange(speakers), utterances)
    x = rng.standard_normal((len(speaker), 16)) * np.r_[np.full(6, 0.6), np.full(10, 3.0)] + 2.0
    x[:, :6] += signal * rng.standard_normal((speakers, 6))[speaker]
    return LabeledEmbeddings(x, None, speaker, np.where(speaker % 2 == 0, "f", "m"), each(len(x)))


def each(count: int) -> NDArray[np.str_]:
    """Every utterance is a unit."""
    return np.array([str(i) for i in range(count)])


PLAIN = (Candidate(Cosine()), Candidate(Wccn(0.1)), Candidate(Lda(6)), Candidate(Plda(6)))


def test_best_candidate_on_held_out_speakers_is_chosen() -> None:
    found = adapt(training(), PLAIN)
    assert found.candidate.name != "cosine"
    assert found.validation_eer < 0.6 * found.unadapted
    assert [rate for _, rate in found.validation] == sorted(rate for _, rate in found.validation)
    assert dict(found.validation)["cosine"] == found.unadapted
    assert found.accuracy > 0.5
    assert (found.speakers, found.utterances) == (40, 480)


def test_random_embeddings_validate_at_chance() -> None:
    """The same speakers in training and validation would show as an EER far below one half."""
    for candidate in PLAIN:
        assert validate(candidate, training(3, signal=0.0)) == pytest.approx(0.47, abs=0.06)  # a hull is below 0.5


def test_validation_folds_share_no_speakers() -> None:
    """A back-end that remembers its training speakers finds none of them again."""

    class Remembers:
        name = "remembers"

        def fit(self, embeddings: object, speaker: NDArray[np.int64]) -> object:
            assert set(speaker.tolist()) < set(range(40))
            seen.append(frozenset(speaker.tolist()))
            return Cosine().fit(np.zeros((0, 16)), speaker)

    seen: list[frozenset[int]] = []
    validate(Candidate(Remembers()), training())  # type: ignore[arg-type]
    held_out = [frozenset(range(40)) - one for one in seen]
    assert len(seen) == 4
    assert sum(map(len, held_out)) == 40
    assert frozenset.union(*held_out) == frozenset(range(40))


def test_candidates_on_the_trunk_need_a_last_layer() -> None:
    data = training()
    assert not any(one.on_trunk for one in candidates(data))
    deep = LabeledEmbeddings(data.embeddings[:, :4], data.embeddings, data.speaker, data.gender, data.unit)
    assert any(one.on_trunk for one in candidates(deep))
    found = adapt(deep, [Candidate(Cosine()), Candidate(Lda(6), on_trunk=True)])
    assert found.candidate.on_trunk  # four of the six dimensions that matter are cut off by the layer
    with pytest.raises(InputError, match="no last layer"):
        validate(Candidate(Cosine(), on_trunk=True), data)


def test_training_accuracy_is_leave_one_out() -> None:
    """Vectors without any structure: a speaker's mean that contained the utterance would be found at once."""
    rng = np.random.default_rng(0)
    x, speaker = rng.standard_normal((200, 30)), np.repeat(np.arange(20), 10)
    scorer = Cosine().fit(x, speaker)
    assert training_accuracy(scorer, x, speaker) < 0.15
    assert training_accuracy(scorer, np.eye(20, 30)[speaker] + 0.01 * x, speaker) == 1.0


def test_too_few_speakers_are_rejected() -> None:
    with pytest.raises(InputError, match="too few to validate"):
        adapt(training(speakers=6), PLAIN)


def test_speakers_with_one_utterance_serve_as_impostors() -> None:
    data = training()
    rng = np.random.default_rng(9)
    more = LabeledEmbeddings(
        np.concatenate([data.embeddings, 2.0 + rng.standard_normal((50, 16))]),
        None,
        np.concatenate([data.speaker, np.arange(100, 150)]),
        np.concatenate([data.gender, np.full(50, "f")]),
        each(530),
    )
    assert 0.0 < validate(Candidate(Plda(6)), more) < 0.4


def spoken(*names: tuple[str, str]) -> list[Utterance]:
    return [Utterance(key, Path(f"{key}.wav"), speaker=speaker) for key, speaker in names]


def test_sessions_are_read_from_ids() -> None:
    several = [(f"84-{session}-000{i}", "84") for session in (121123, 121550) for i in range(2)]
    single = [("174-50561-0000", "174"), ("174-50561-0001", "174"), ("174-84280-0000", "174")]  # one utterance: none
    other = [("p225_001", "p225"), ("x-y-z", "p225")]  # no session is known
    found = recording_units(spoken(*several, *single, *other)).tolist()
    assert found == ["84 121123", "84 121123", "84 121550", "84 121550", *(key for key, _ in single + other)]


def test_sessions_are_not_in_both_enrollment_and_test() -> None:
    """Speakers who cannot be told apart, in two rooms each: who hears a room again knows its speaker, and must not."""
    rng = np.random.default_rng(1)
    data = training(1, signal=0.0)
    room = 2 * data.speaker + np.arange(len(data.speaker)) % 2  # two of six utterances for each speaker
    heard = replace(data, embeddings=data.embeddings + 20.0 * rng.standard_normal((room.max() + 1, 16))[room])
    honest = replace(heard, unit=np.array([f"room {i}" for i in room]), sessions=40)
    shared, apart = (validate(Candidate(Cosine()), one) for one in (heard, honest))
    assert apart > 0.38  # a hull is below 0.5
    assert shared < apart - 0.1
    found = adapt(honest, PLAIN[:1])
    assert found.sessions == found.validated == 40


def test_learning_shows_progress(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_style("json"):
        adapt(training(), PLAIN, quiet=False)
    rows = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert (rows[-1]["progress"], rows[-1]["done"], rows[-1]["items"]) == ("attacker learning", len(PLAIN), len(PLAIN))
