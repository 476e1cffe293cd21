"""Cross-validation over training speakers: trials of several utterances, sessions, learning from enrollment."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.attack.test_fusion import world
from voiceveil.attack.backends import Cosine, Lda, Pca, Scaled, SNorm, Wccn, fit_with_enrollment
from voiceveil.attack.groups import disjoint_groups
from voiceveil.attack.validation import Candidate, held_out_scores, split_rows, validate


def test_groups_share_no_utterance_and_depend_on_seed_and_speaker_alone() -> None:
    ids = [f"u{i:02d}" for i in range(11)]
    groups = disjoint_groups(ids, 3, speaker="a", seed=1)
    assert [len(group) for group in groups] == [3, 3, 3]  # two utterances are left over
    members = [key for group in groups for key in group]
    assert len(set(members)) == len(members)
    assert set(members) <= set(ids)
    assert disjoint_groups(ids[::-1], 3, speaker="a", seed=1) == groups
    assert disjoint_groups(ids, 3, speaker="b", seed=1) != groups
    assert disjoint_groups(ids, 3, speaker="a", seed=2) != groups
    assert disjoint_groups(ids[:2], 3, speaker="a") == []
    assert disjoint_groups(ids, 1, speaker="a") == [(key,) for key in ids]


@pytest.mark.parametrize("size", [1, 3])
def test_held_out_scores_equal_a_plain_loop(size: int) -> None:
    (data,) = world(3, [0.5], speakers=24)
    result = held_out_scores(Candidate(Cosine()), data, size)
    expected = []
    for label in range(24):
        rows = np.flatnonzero(data.speaker == label)
        own, others = split_rows(rows, data.unit[rows])
        mean = sum(data.embeddings[row] for row in own) / len(own)
        for group in disjoint_groups([str(row) for row in others], size, speaker=str(label)):
            test = sum(data.embeddings[int(row)] for row in group) / size
            expected.append(mean @ test / np.linalg.norm(mean) / np.linalg.norm(test))
    np.testing.assert_allclose(np.sort(result.score[result.target]), np.sort(expected))


def test_more_utterances_a_trial_are_easier() -> None:
    (data,) = world(4, [0.5])
    rates = [held_out_scores(Candidate(Cosine()), data, size).eer() for size in (1, 2, 4)]
    assert rates[0] > rates[1] > rates[2]


def test_only_speakers_with_several_sessions_count_if_there_are_enough() -> None:
    """Speakers with one session are known by their microphone, which a good attacker must not learn to rely on."""
    (data,) = world(5, [0.0])
    several = data.speaker < 24
    rng = np.random.default_rng(0)
    session = np.where(several & (np.arange(len(data.speaker)) % 2 == 1), 100 + data.speaker, data.speaker)
    microphone = 3.0 * rng.standard_normal((200, 12))[session]
    unit = np.array([f"s{s}" if v else str(i) for i, (s, v) in enumerate(zip(session, several, strict=True))])
    heard = replace(data, embeddings=data.embeddings + microphone, unit=unit)
    assert held_out_scores(Candidate(Cosine()), heard).target.sum() == 24 * 5
    assert validate(Candidate(Cosine()), heard) > 0.33  # a hull is below 0.5
    assert validate(Candidate(Cosine()), replace(heard, unit=data.unit)) < 0.25


def test_back_end_learns_from_enrollment_in_validation_but_not_from_trials() -> None:
    seen = []

    class Remembers:
        name, learns, llr, affine = "remembers", True, False, True

        def fit(self, embeddings: object, speaker: object) -> object:
            seen.append(len(embeddings))  # type: ignore[arg-type]
            return Cosine().fit(np.zeros((0, 12)), np.zeros(0, np.int64))

    (data,) = world(6, [0.5], speakers=24)
    held_out_scores(Candidate(Remembers(), from_enrollment=True), data)  # type: ignore[arg-type]
    assert seen == [18 * 10 + 6 * 5] * 4  # half of the utterances of each held-out speaker


def test_attacked_speakers_are_no_part_of_the_cohort() -> None:
    rng = np.random.default_rng(0)
    x, speaker = rng.standard_normal((60, 4)), np.repeat(np.arange(12), 5)
    enrolled = speaker >= 9
    scorer = fit_with_enrollment(SNorm(Wccn(0.1), top=100), x, speaker, enrolled)
    inner = Wccn(0.1).fit(x, speaker)
    means = np.array([x[speaker == label].mean(axis=0) for label in range(12)])
    model, test = means[9:10], x[50:51]
    score = inner(model, np.array([5]), test)[0, 0]
    z = [inner(model, np.array([5]), means[label : label + 1])[0, 0] for label in range(9)]
    t = [inner(means[label : label + 1], np.array([5]), test)[0, 0] for label in range(9)]
    expected = 0.5 * ((score - np.mean(z)) / np.std(z) + (score - np.mean(t)) / np.std(t))
    assert scorer(model, np.array([5]), test)[0, 0] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("utterances", [60, 20])
def test_principal_components_equal_those_of_a_singular_value_decomposition(utterances: int) -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((utterances, 30)) * np.linspace(3.0, 0.1, 30)
    speaker = np.repeat(np.arange(utterances // 5), 5)
    components = np.linalg.svd(x - x.mean(axis=0), full_matrices=False)[2][:6].T
    reduced = (x - x.mean(axis=0)) @ components
    counts = np.ones(3, dtype=np.int64)
    expected = Lda(4).fit(reduced, speaker)(reduced[:3], counts, reduced[3:9])
    np.testing.assert_allclose(Pca(6, Lda(4)).fit(x, speaker)(x[:3], counts, x[3:9]), expected, atol=1e-8)
    assert SNorm(Scaled(Pca(6, Lda(4)))).name == "lda4-0.1 pca6 scaled s-norm"
