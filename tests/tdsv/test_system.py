"""The parts of a system, each against a slow and obvious twin; and that a trial knows nothing but itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.stats import multivariate_normal

from voiceveil.attack.backends import Centered, SNorm
from voiceveil.core.errors import InputError
from voiceveil.tdsv.evaluation import BAYES_THRESHOLD
from voiceveil.tdsv.features import RecordingFeatures
from voiceveil.tdsv.fusion import PRIOR, Fusion, Logistic
from voiceveil.tdsv.lists import Label, TdsvModel, Trial
from voiceveil.tdsv.phrase_models import (
    PhraseClassifier,
    PhraseMatch,
    Projection,
    mean_warped_distance,
    warped_distance,
)
from voiceveil.tdsv.scoring import score_trials
from voiceveil.tdsv.serialization import load_system, save_system
from voiceveil.tdsv.speaker_models import PldaSpace, VoiceSpace, fit_voices
from voiceveil.tdsv.system import System
from voiceveil.tdsv.training import fit_system

Array = NDArray[Any]


def unit(rng: np.random.Generator, frames: int, size: int = 4) -> Array:
    x = rng.standard_normal((frames, size))
    return np.asarray(x / np.linalg.norm(x, axis=1, keepdims=True), np.float32)


def slow_dtw(a: Array, b: Array) -> float:
    """All paths, by recursion, with the weights of their steps."""

    def best(i: int, j: int) -> float:
        cost = 1.0 - float(a[i].astype(np.float64) @ b[j].astype(np.float64))
        if i == j == 0:
            return 2.0 * cost
        ways = []
        if i and j:
            ways.append(best(i - 1, j - 1) + 2.0 * cost)
        if i:
            ways.append(best(i - 1, j) + cost)
        if j:
            ways.append(best(i, j - 1) + cost)
        return min(ways)

    return best(len(a) - 1, len(b) - 1) / (len(a) + len(b))


@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 10_000))
def test_dtw_equals_the_best_of_all_paths(n: int, m: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = unit(rng, n), unit(rng, m)
    assert warped_distance(a, b) == pytest.approx(slow_dtw(a, b), abs=1e-6)
    assert warped_distance(a, b) == pytest.approx(warped_distance(b, a), abs=1e-6)
    assert warped_distance(a, a) == pytest.approx(0.0, abs=1e-6)
    assert warped_distance(np.repeat(a, 3, axis=0), a) == pytest.approx(0.0, abs=1e-6)  # three times slower


def test_score_is_the_mean_over_templates() -> None:
    rng = np.random.default_rng(0)
    parts, test = [unit(rng, n) for n in (5, 3, 8)], unit(rng, 6)
    found = mean_warped_distance(np.concatenate(parts), np.array([5, 8, 16]), test)
    assert found == pytest.approx(np.mean([slow_dtw(part, test) for part in parts]), abs=1e-6)


def test_speaker_scores_equal_adaptive_s_norm() -> None:
    rng = np.random.default_rng(1)
    speakers = np.repeat(np.arange(30), 6)
    train = rng.standard_normal((30, 16))[speakers] + 0.5 * rng.standard_normal((180, 16))
    space = VoiceSpace.fit(train, [f"{s:02d}" for s in speakers], "centered", top=20)
    scorer = SNorm(Centered(), top=20).fit(train, speakers)
    models, tests = rng.standard_normal((4, 3, 16)), rng.standard_normal((5, 16))
    expected = scorer(models.mean(axis=1), np.full(4, 3), tests)
    found = [[space.score(space.represent(m), space.represent(t[None])) for t in tests] for m in models]
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    with pytest.raises(InputError, match=r"unknown back-end 'wcn' \(did you mean wccn\?\)"):
        fit_voices(train, ["a"] * 180, "wcn")


def test_plda_scores_equal_gaussian_densities() -> None:
    """Twin: joint densities of two white vectors by scipy, normalized by loops over the cohort."""
    rng = np.random.default_rng(2)
    speakers = np.repeat(np.arange(30), 6)
    train = rng.standard_normal((30, 5))[speakers] + 0.5 * rng.standard_normal((180, 5))
    space = PldaSpace.fit(train, [f"{s:02d}" for s in speakers], top=7)
    psi = space.scorer.model.diagonal[1]

    def slow_llr(a: Array, b: Array) -> float:
        total = 0.0
        for p, x, y in zip(psi, a, b, strict=True):
            same = multivariate_normal([0, 0], [[1 + p, p], [p, 1 + p]]).logpdf([x, y])
            total += same - sum(multivariate_normal(0, 1 + p).logpdf(z) for z in (x, y))
        return total

    model, test = (space.represent(rng.standard_normal((n, 5))) for n in (3, 1))
    llr = slow_llr(model.direction, test.direction)
    normalized = []
    for voice in (model, test):
        highest = sorted(slow_llr(voice.direction, other) for other in space.cohort)[-7:]
        normalized.append((llr - np.mean(highest)) / np.std(highest))
    assert space.score(model, test) == pytest.approx(np.mean(normalized), rel=1e-6)
    assert space.score(test, model) == pytest.approx(space.score(model, test))
    near, far = space.represent(train[:3]), space.represent(train[6:9])
    assert space.score(near, space.represent(train[3:6])) > space.score(far, space.represent(train[3:6]))


def test_logistic_regression_equals_a_general_minimizer() -> None:
    rng = np.random.default_rng(2)
    target, other = rng.normal([2, 1], 1, (300, 2)), rng.normal([0, 0], 1.5, (900, 2))
    found = Logistic.fit(target, other)
    x = np.concatenate([target, other])
    mean, scale = x.mean(axis=0), x.std(axis=0)

    def loss(w: Array) -> float:
        llr = ((x - mean) / scale) @ w[:2] + w[2] + np.log(PRIOR / (1 - PRIOR))
        cost = PRIOR * np.logaddexp(0, -llr[:300]).mean() + (1 - PRIOR) * np.logaddexp(0, llr[300:]).mean()
        return float(cost + 0.5 * 1e-4 * (w[:2] ** 2).sum())

    twin = minimize(loss, np.zeros(3), tol=1e-12).x
    np.testing.assert_allclose(found(x), ((x - mean) / scale) @ twin[:2] + twin[2], atol=1e-3)


def test_logistic_regression_of_gaussians_finds_their_likelihood_ratio() -> None:
    rng = np.random.default_rng(3)
    found = Logistic.fit(rng.normal(1, 1, (40_000, 1)), rng.normal(-1, 1, (40_000, 1)))
    assert found.weights[0] == pytest.approx(2.0, abs=0.08)  # LLR of N(1, 1) against N(-1, 1) is 2 x
    assert found.bias == pytest.approx(0.0, abs=0.08)
    apart = Logistic.fit(np.full((5, 1), 1.0), np.full((9, 1), -1.0))
    assert np.isfinite(apart.weights).all()
    with pytest.raises(InputError, match="no trials to calibrate on"):
        Logistic.fit(np.zeros((0, 2)), np.zeros((3, 2)))


def test_fusion_is_the_likelihood_ratio_against_the_mixture() -> None:
    fusion = Fusion(Logistic(np.array([1.5, 0.2]), -1.0), Logistic(np.array([0.1, 3.0]), 0.5))
    rng = np.random.default_rng(4)
    for voice, wording in rng.normal(0, 2, (50, 2)):
        impostor = np.exp(1.5 * voice + 0.2 * wording - 1.0)
        wrong = np.exp(0.1 * voice + 3.0 * wording + 0.5)
        assert fusion(voice, wording) == pytest.approx(np.log(1 / (0.5 / impostor + 0.5 / wrong)), abs=1e-9)
    assert np.isfinite(fusion(-1e6, -1e6))


def sounds(rng: np.random.Generator, course: list[int]) -> Array:
    """Content that goes through some of eight sounds, each as long as it likes."""
    centers = np.random.default_rng(9).normal(0, 1, (8, 40))
    frames = np.concatenate([np.repeat(centers[k][None], int(rng.integers(4, 9)), axis=0) for k in course])
    return (frames + 0.3 * rng.standard_normal(frames.shape)).astype(np.float16)


def test_phrase_match_distinguishes_the_order_of_sounds() -> None:
    rng = np.random.default_rng(5)
    training = [sounds(rng, rng.permutation(8)[:5].tolist()) for _ in range(40)]
    match = PhraseMatch.fit(training, ["FT"] * 40)
    templates = match.enroll([sounds(rng, [0, 1, 2, 3]) for _ in range(3)])
    right = [match.score(templates, match.analyze(sounds(rng, [0, 1, 2, 3]))) for _ in range(20)]
    wrong = [match.score(templates, match.analyze(sounds(rng, [3, 2, 1, 0]))) for _ in range(20)]
    assert min(right) > max(wrong)


def test_classifier_recognizes_known_phrases_only() -> None:
    rng = np.random.default_rng(6)
    courses = {"01": [0, 1, 2, 3], "02": [3, 2, 1, 0], "03": [4, 5, 6, 7]}
    training = [(sounds(rng, course), phrase) for phrase, course in courses.items() for _ in range(20)]
    classifier = PhraseClassifier.fit([c for c, _ in training], [p for _, p in training])
    for phrase, course in courses.items():
        heard = classifier.analyze(sounds(rng, course))
        own = classifier.score(classifier.enroll([], phrase), heard)
        assert own > 0
        assert all(classifier.score(classifier.enroll([], other), heard) < 0 for other in courses if other != phrase)
        p = np.exp(classifier.classifier.scores(np.zeros((1, len(classifier.classifier.mean)))))[0]
        assert len(p) == 3
    with pytest.raises(InputError, match="phrase '04' is not among the phrases of the training"):
        classifier.enroll([], "04")
    with pytest.raises(InputError, match="fewer than two phrases"):
        PhraseClassifier.fit([training[0][0]], ["01"])
    with pytest.raises(InputError, match="too short for content features"):
        Projection.fit([training[0][0]])(np.zeros((0, 40)))


def measured(rng: np.random.Generator, voice: Array, course: list[int]) -> RecordingFeatures:
    return RecordingFeatures(voice + 0.25 * rng.standard_normal(len(voice)), sounds(rng, course))


@pytest.fixture(scope="module", params=[1, 2])
def world(
    request: pytest.FixtureRequest,
) -> tuple[System, dict[str, TdsvModel], list[Trial], dict[str, RecordingFeatures], list[str]]:
    """A trained system, and trials of other people."""
    task: int = request.param
    rng = np.random.default_rng(7)
    courses = {"01": [0, 1, 2, 3], "02": [3, 2, 1, 0], "03": [4, 5, 6, 7], "04": [7, 0, 5, 1]}
    people = rng.standard_normal((18, 12))
    labels, files = [], {}
    for s in range(12):
        said = [(p, courses[p]) for p in courses for _ in range(4)]
        said += [("FT", rng.permutation(8)[:4].tolist()) for _ in range(4)]
        for k, (phrase, course) in enumerate(said):
            labels.append(Label(f"t{s}-{k}", f"s{s}", phrase))
            files[f"t{s}-{k}"] = measured(rng, people[s], course)
    system = fit_system(task, labels, files, backend="centered", names=("some", "print", "moonshine"))
    models, trials, types = {}, [], []
    tests = {
        f"{s}-{p}-{k}": measured(rng, people[s], courses[p]) for s in range(12, 18) for p in courses for k in range(3)
    }
    for s in range(12, 18):
        for p in courses:
            names = tuple(f"e{s}-{p}-{k}" for k in range(5))
            free = names[3:] if task == 2 else ()
            models[f"m{s}-{p}"] = TdsvModel(f"m{s}-{p}", "f", names[:3], free, p if task == 1 else None)
            tests |= {name: measured(rng, people[s], courses[p]) for name in names[:3]}
            tests |= {name: measured(rng, people[s], rng.permutation(8).tolist()) for name in names[3:]}
            for heard in [f"{o}-{q}-{k}" for o in range(12, 18) for q in courses for k in range(3)]:
                who, what = heard.split("-")[:2]
                if who == str(s) or what == p:
                    trials.append(Trial(f"m{s}-{p}", heard))
                    types.append(("T" if who == str(s) else "I") + ("C" if what == p else "W"))
    return system, models, trials, tests, types


World = tuple[System, dict[str, TdsvModel], list[Trial], dict[str, RecordingFeatures], list[str]]


def test_system_accepts_only_the_right_speaker_with_the_right_words(world: World) -> None:
    system, models, trials, files, types = world
    llr = score_trials(system, models, trials, files, files).llr
    kinds = np.array(types)
    accepted = {kind: float((llr[kinds == kind] > BAYES_THRESHOLD).mean()) for kind in ("TC", "TW", "IC")}
    assert accepted["TC"] > 0.85
    assert accepted["TW"] < 0.05
    assert accepted["IC"] < 0.1


def test_score_of_a_trial_does_not_depend_on_other_trials(world: World) -> None:
    system, models, trials, files, _ = world
    together = score_trials(system, models, trials, files, files)
    order = np.random.default_rng(0).permutation(len(trials))
    shuffled = score_trials(system, models, [trials[k] for k in order], files, files)
    np.testing.assert_array_equal(shuffled.llr, together.llr[order])
    for k in range(0, len(trials), 37):
        trial = trials[k]
        own = {file: files[file] for file in models[trial.model].files}
        alone = score_trials(system, {trial.model: models[trial.model]}, [trial], own, {trial.test: files[trial.test]})
        assert (alone.voice[0], alone.wording[0], alone.llr[0]) == (
            together.voice[k], together.wording[k], together.llr[k]
        )  # fmt: skip


def test_training_on_trials_is_rejected(world: World) -> None:
    system = world[0]
    with pytest.raises(ValueError, match="read-only"):
        system.voices.cohort[0] = 0.0
    with pytest.raises(ValueError, match="read-only"):
        system.wording.projection.mean[0] = 0.0  # type: ignore[attr-defined]
    with pytest.raises(AttributeError):
        system.fusion = system.fusion_free  # type: ignore[misc,assignment]


def test_free_text_enrolls_the_voice_and_has_its_own_calibration(world: World) -> None:
    system, models, trials, files, _ = world
    model = next(iter(models.values()))
    said = [files[f] for f in model.passphrase]
    extra = [files[f] for f in model.free_text] or [said[0]]
    if system.task == 1:
        with pytest.raises(InputError, match="was not trained for free text"):
            system.enroll(said, extra, "01")
        return
    assert system.fusion_free is not None
    test = system.analyze(files[trials[0].test])
    with_free, without = system.enroll(said, extra), system.enroll(said)
    expected = system.voices.represent(np.stack([one.voice for one in [*said, *extra]]))
    np.testing.assert_array_equal(with_free.voice.direction, expected.direction)
    score = system.score(with_free, test)
    assert score.llr == system.fusion_free(score.voice, score.wording)
    assert system.score(without, test).llr == system.fusion(*system.score(without, test)[:2])


def test_system_round_trips_through_a_file(world: World, tmp_path: Path) -> None:
    system, models, trials, files, _ = world
    save_system(tmp_path / "system.npz", system)
    again = load_system(tmp_path / "system.npz")
    assert (again.task, again.encoder, again.fingerprint, again.content) == (system.task, "some", "print", "moonshine")
    assert again.record == system.record
    before, after = (score_trials(s, models, trials[:50], files, files) for s in (system, again))
    np.testing.assert_array_equal(after.llr, before.llr)


def test_other_files_are_rejected(world: World, tmp_path: Path) -> None:
    path = tmp_path / "system.npz"
    fix = r" \(give the file that `voiceveil tdsv train` wrote\)$"
    with pytest.raises(InputError, match=r"no such file$"):
        load_system(path)
    path.write_bytes(b"hello")
    with pytest.raises(InputError, match=f"not a system, or a damaged one{fix}"):
        load_system(path)
    np.savez(path, json=np.frombuffer(b'{"kind": "cake"}', np.uint8))
    with pytest.raises(InputError, match=f"a file of another kind: cake{fix}"):
        load_system(path)
    np.savez(path, json=np.array([{"kind": "code"}], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match=f"not a system, or a damaged one{fix}"):
        load_system(path)
    save_system(path, world[0])
    path.write_bytes(path.read_bytes()[:-3000])
    with pytest.raises(InputError, match=f"not a system, or a damaged one{fix}"):
        load_system(path)


def test_too_little_training_data_is_rejected() -> None:
    rng = np.random.default_rng(8)
    labels = [Label(f"{s}-{k}", f"s{s}", f"0{k % 2}") for s in range(8) for k in range(6)]
    files = {label.file: measured(rng, rng.standard_normal(12), [0, 1]) for label in labels}
    with pytest.raises(InputError, match="7 training speakers are too few: a back-end and its calibration need 8"):
        fit_system(1, [label for label in labels if label.speaker != "s0"], files)
    with pytest.raises(InputError, match="give no trials of type TC to calibrate on"):
        fit_system(1, labels, files)
