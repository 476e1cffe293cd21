"""Emotion: functionals of known signals, classifier against gradient descent, folds without leaks, real speech."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.support.paths import SHARED
from tests.support.tiny_models import tiny_emotion
from voiceveil.audio import Waveform, save
from voiceveil.core.errors import InputError
from voiceveil.corpus import Corpus, Utterance, open_corpus
from voiceveil.metrics import uar, uar_over_folds
from voiceveil.models import (
    EmotionModel,
    Functionals,
    PretrainedRecognizer,
    emotion_folds,
    evaluate_emotion,
    train_emotion_recognizer,
)
from voiceveil.models.emotion import functionals as f
from voiceveil.models.emotion.evaluation import _replicates
from voiceveil.models.emotion.functionals import functional_names, functionals
from voiceveil.run.cache import Cache
from voiceveil.run.context import RunContext
from voiceveil.stats.logistic import PENALTIES, LinearClassifier, choose_penalty, fit, standard
from voiceveil.testing import synthetic_voice

EMODB = SHARED / "speech" / "emodb"

Array = NDArray[np.float64]


def pulses(f0: Array, *, tilt: float = 0.9) -> Array:
    """A pulse train with the F0 given sample by sample in Hz, through a one-pole low-pass filter."""
    from scipy.signal import lfilter

    train = np.diff(np.floor(np.cumsum(f0) / 16000), prepend=0.0)
    return np.asarray(lfilter([1 - tilt], [1, -tilt], train))


def wave(samples: Array) -> Waveform:
    return Waveform((0.5 * samples / np.abs(samples).max()).astype(np.float32), 16000)


#: Of ``synthetic_voice(1, seconds=2.0)``.
STORED = {
    "f0_mean": 27.546,
    "f0_range": 2.27717,
    "f0_fall_mean": -16.5912,
    "loudness_sd": 0.387918,
    "loudness_peaks": 9.1954,
    "jitter": 0.015298,
    "shimmer": 1.42927,
    "hnr_mean": 13.3018,
    "alpha_mean": 10.9949,
    "hammarberg_unvoiced": -6.83403,
    "slope_low_mean": -4.09102,
    "h1_h2_mean": -1.87348,
    "h1_a3_mean": 14.5493,
    "centroid_mean": 1.43651,
    "flux_mean": 0.212695,
    "mfcc1_mean": 19.4588,
    "mfcc4_sd": 1.25034,
    "mfcc2_change": 1.73694,
    "voiced_share": 0.739796,
    "pause_share": 0.112245,
    "voiced_rate": 1.53061,
    "unvoiced_length_mean": 0.1275,
}

# --- functionals


def test_names_are_documented_and_unique() -> None:
    names = functional_names()
    assert len(names) == 94
    assert len(set(names)) == 94
    documented = (f.__doc__ or "").replace(",", " ").split()
    stems = {name for name in names if any(name.startswith(word) for word in documented)}
    assert set(names) - stems == {name for name in names if name.startswith("mfcc") and name not in stems}


def test_functionals_of_known_pitch_level_and_rhythm() -> None:
    """0.5 s of 220 Hz, 0.2 s of silence, 0.5 s that rises from 220 to 311 Hz, six semitones."""
    rng = np.random.default_rng(0)
    flat, rising = pulses(np.full(8000, 220.0)), pulses(np.geomspace(220, 220 * 2**0.5, 8000))
    values = functionals(wave(np.concatenate([flat, np.zeros(3200), rising]) + 1e-5 * rng.standard_normal(19200)))
    assert values["f0_p20"] == pytest.approx(36.0, abs=0.2)  # 220 Hz are three octaves above 27.5 Hz
    assert values["f0_mean"] == pytest.approx(36 + 1.5, abs=0.3)
    assert values["f0_range"] == pytest.approx(3.6, abs=0.6)  # of the 80th percentile
    assert values["pause_share"] == pytest.approx(0.2 / 1.2, abs=0.04)
    assert values["voiced_rate"] == pytest.approx(2 / 1.2, rel=0.1)
    assert values["voiced_length_mean"] == pytest.approx(0.5, abs=0.05)
    assert values["voiced_share"] == pytest.approx(1.0 / 1.2, abs=0.05)
    assert values["pause_rate"] == pytest.approx(1 / 1.2, rel=0.05)
    assert values["jitter"] < 0.01


def test_spectral_tilt_follows_the_filter() -> None:
    bright, dark = (functionals(wave(pulses(np.full(16000, 150.0), tilt=t))) for t in (0.5, 0.97))
    for name in ("alpha_mean", "hammarberg_mean", "h1_a3_mean", "h1_h2_mean"):
        assert dark[name] > bright[name]
    assert dark["centroid_mean"] < bright["centroid_mean"]
    assert dark["slope_high_mean"] < bright["slope_high_mean"]


def test_functionals_are_invariant_to_level() -> None:
    loud = synthetic_voice(2, seconds=2.0)
    quiet = Waveform(loud.samples * np.float32(0.01), loud.rate)
    np.testing.assert_allclose(Functionals()(quiet), Functionals()(loud), rtol=1e-4, atol=1e-4)


def test_functionals_equal_stored_figures() -> None:
    """A changed functional must change the version, under which caches store values."""
    values = functionals(synthetic_voice(1, seconds=2.0))
    assert Functionals.version == 1
    assert {name: values[name] for name in STORED} == pytest.approx(STORED, rel=1e-3)


def test_undefined_functionals_are_nan() -> None:
    silence = dict(zip(functional_names(), Functionals()(Waveform(np.zeros(16000, np.float32), 16000)), strict=True))
    assert np.isnan(silence["f0_mean"])
    assert silence["voiced_share"] == 0
    noise = np.random.default_rng(0).standard_normal(16000).astype(np.float32) * 0.1
    assert np.isfinite(functionals(Waveform(noise, 16000))["alpha_unvoiced"])
    with pytest.raises(InputError, match=r"0\.100 s of audio at 16000 Hz"):
        Functionals()(Waveform(np.zeros(1600, np.float32), 16000))
    with pytest.raises(InputError, match="not finite"):
        Functionals()(Waveform(np.full(16000, np.inf, np.float32), 16000))


def test_runs_equal_plain_loops() -> None:
    rng = np.random.default_rng(1)
    mask = rng.random(50) > 0.4
    plain = [list(group) for key, group in itertools.groupby(range(50), lambda i: bool(mask[i])) if key]
    assert f._runs(mask).tolist() == [[run[0], run[-1] + 1] for run in plain]

    values = rng.standard_normal(50).cumsum()
    moments = dict(f._slopes("x", values, mask))
    rises: list[float] = []
    for run in plain:
        steps = [values[i + 1] - values[i] for i in run[:-1]]
        for up, group in itertools.groupby(steps, lambda s: s > 0):
            stretch = list(group)
            if up and len(stretch) >= 2:
                rises.append(sum(stretch) / len(stretch) / 0.01)
    assert moments["x_rise_mean"] == pytest.approx(np.mean(rises))
    assert moments["x_rise_sd"] == pytest.approx(np.std(rises))

    decibel = rng.standard_normal((3, 257))
    inside = [k for k in range(257) if 500 <= k * 16000 / 512 <= 1500]
    slopes = [np.polyfit([k * 16 / 512 for k in inside], row[inside], 1)[0] for row in decibel]
    assert f._slope(decibel, 500, 1500) == pytest.approx(slopes)


# --- the classifier


def clusters(rng: np.random.Generator, n: int = 60) -> tuple[Array, list[str], list[str]]:
    labels = [str(label) for label in rng.choice(["a", "b", "c"], n, p=[0.6, 0.3, 0.1])]
    labels[:3] = ["a", "b", "c"]
    centers = {"a": [0, 0, 0, 0], "b": [2, 0, 0, 0], "c": [0, 2, 0, 0]}
    x = np.array([centers[label] for label in labels]) + rng.standard_normal((n, 4))
    return x * [1, 10, 100, 0] + 5, labels, [f"g{i % 6}" for i in range(n)]


@pytest.mark.slow
def test_fit_equals_plain_gradient_descent() -> None:
    x, labels, _ = clusters(np.random.default_rng(2))
    model = fit(x, labels, 0.1)
    z = (x - x.mean(axis=0)) / np.where(x.std(axis=0) > 0, x.std(axis=0), 1)
    count, names = Counter(labels), sorted(set(labels))
    weights, bias = np.zeros((4, 3)), np.zeros(3)
    for _ in range(4000):
        step_w, step_b = 0.1 * weights, np.zeros(3)
        for row, label in zip(z, labels, strict=True):
            p = np.exp(row @ weights + bias)
            error = (p / p.sum() - [label == name for name in names]) / (3 * count[label])
            step_w = step_w + np.outer(row, error)
            step_b = step_b + error
        weights, bias = weights - step_w, bias - step_b
        if max(np.abs(step_w).max(), np.abs(step_b).max()) < 1e-7:
            break
    np.testing.assert_allclose(model.weights, weights, atol=2e-4)
    np.testing.assert_allclose(model.bias, bias, atol=2e-4)
    assert model.labels == ("a", "b", "c")


def test_missing_features_count_as_the_mean() -> None:
    x, labels, _ = clusters(np.random.default_rng(3))
    model = fit(np.where(np.arange(x.size).reshape(x.shape) % 7 == 0, np.nan, x), labels, 0.1)
    assert np.isfinite(model.weights).all()
    unknown, average = np.full((1, 4), np.nan), model.mean[None]
    np.testing.assert_array_equal(model.scores(unknown), model.scores(average))
    assert standard(np.full((3, 1), np.nan))[0] == 0.0


def test_penalty_is_the_best_of_a_plain_cross_validation() -> None:
    x, labels, groups = clusters(np.random.default_rng(4))
    values = []
    for penalty in PENALTIES:
        hyps: dict[int, str] = {}
        for part in range(5):
            held_out = [i for i, g in enumerate(groups) if sorted(set(groups)).index(g) % 5 == part]
            rest = [i for i in range(len(labels)) if i not in held_out]
            model = fit(x[rest], [labels[i] for i in rest], penalty)
            hyps.update(zip(held_out, model.predict(x[held_out]), strict=True))
        values.append(uar(labels, [hyps[i] for i in range(len(labels))]).value)
    assert choose_penalty(x, labels, groups) == PENALTIES[int(np.argmax(values))]
    assert choose_penalty(x, labels, ["one"] * len(labels)) in PENALTIES


# --- folds


def utterances(*rows: str, folds: dict[str, str] | None = None) -> Corpus:
    """``speaker-emotion`` or ``speaker-`` for each row."""
    listed = []
    for k, row in enumerate(rows):
        speaker, _, emotion = row.partition("-")
        fold = (folds or {}).get(speaker)
        listed.append(Utterance(f"u{k}", Path(f"u{k}.wav"), speaker or None, emotion=emotion or None, fold=fold))
    return Corpus("test", tuple(listed), root=Path("test"))


EVERYBODY = [f"{s}-{e}" for s in "abcd" for e in ("ang", "sad")]


def test_folds_are_sessions_or_speakers() -> None:
    alone = emotion_folds(utterances(*EVERYBODY, "a-bor", "b-"), ("ang", "sad"))
    assert alone.names == ("a", "b", "c", "d")
    assert alone.emotions == ("ang", "sad")
    assert len(alone.fold) == 8  # neither boredom nor the utterance without a label
    sessions = utterances(*EVERYBODY, folds={"a": "1", "b": "1", "c": "2", "d": "2"})
    assert emotion_folds(sessions, None).names == ("1", "2")
    assert emotion_folds(sessions, None).fold["u0"] == emotion_folds(sessions, None).fold["u2"]


@pytest.mark.parametrize(
    ("corpus", "emotions", "message"),
    [
        (utterances("a-", "b-"), None, "no emotion labels"),
        (utterances("a-ang", "b-ang"), None, "two emotions or more, not ..ang.."),
        (utterances(*EVERYBODY), ("ang",), "two emotions or more"),
        (utterances(*EVERYBODY), ("ang", "hap"), "no utterance has the emotion hap; the corpus has ang, sad"),
        (utterances("a-ang", "a-sad"), None, "two folds or more, not 1"),
        (utterances(*EVERYBODY, "-ang"), None, "u8 has no speaker"),
        (utterances(*EVERYBODY, folds={"a": "1"}), None, "6 of 8 utterances have no fold, e.g. u2"),
        (utterances("a-ang", "a-sad", "b-ang"), None, "without fold a there is no training data for the emotion sad"),
    ],
)
def test_unusable_corpora_are_rejected(corpus: Corpus, emotions: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        emotion_folds(corpus, emotions)


def test_speaker_in_two_folds_is_rejected() -> None:
    corpus = utterances(*EVERYBODY, folds=dict.fromkeys("abcd", "1"))
    moved = [replace(u, fold="2") if k % 2 else u for k, u in enumerate(corpus)]
    with pytest.raises(InputError, match="speaker a is in the folds 1 and 2"):
        emotion_folds(replace(corpus, utterances=tuple(moved)), None)


# --- the whole


def acted(folder: Path, *, speakers: int = 4, each: int = 2) -> Corpus:
    """Exaggerated emotions: anger has high, varied F0 and a bright spectrum, sadness the opposite."""
    manner = {"ang": (1.5, 0.3, 0.6), "hap": (1.8, 0.5, 0.9), "neu": (1.0, 0.1, 0.9), "sad": (0.9, 0.02, 0.97)}
    listed: list[Utterance] = []
    for s, (emotion, (height, swing, tilt)), k in itertools.product(range(speakers), manner.items(), range(each)):
        rng = np.random.default_rng([s, k, len(listed)])
        time = np.arange(12000) / 16000
        f0 = (110 + 20 * s) * height * 2 ** (swing * np.sin(2 * np.pi * rng.uniform(2, 3) * time + rng.uniform(0, 6)))
        name = f"s{s}-{emotion}-{k}"
        save(folder / f"{name}.wav", wave(pulses(f0, tilt=tilt) + 1e-4 * rng.standard_normal(12000)))
        listed.append(Utterance(name, folder / f"{name}.wav", speaker=f"s{s}", emotion=emotion))
    return Corpus("acted", tuple(listed), root=folder)


@pytest.fixture(scope="module")
def play(tmp_path_factory: pytest.TempPathFactory) -> tuple[Corpus, Cache]:
    folder = tmp_path_factory.mktemp("acted")
    return acted(folder), Cache(folder / "cache.sqlite")


def test_exaggerated_emotions_are_recognized(play: tuple[Corpus, Cache]) -> None:
    corpus, cache = play
    folds = emotion_folds(corpus)
    modes: tuple[Literal["corpus", "training"], ...] = ("corpus", "training")
    for mode in modes:
        recognizer = train_emotion_recognizer(corpus, folds, normalize=mode, context=RunContext(cache))
        result = evaluate_emotion(corpus, folds, recognizer, context=RunContext(cache))
        assert result.uar.value > 0.8
        refs = [u.emotion or "" for u in corpus]
        hyps = [result.hyps[u.id] for u in corpus]
        assert result.uar.value == uar_over_folds(refs, hyps, [u.speaker or "" for u in corpus]).value
        assert result.uar.low <= result.uar.value <= result.uar.high <= 1
        assert (result.uar.n, result.uar.of, result.missing, result.chance) == (4, "speakers", 0, 0.25)


def test_labels_come_from_the_original_corpus(play: tuple[Corpus, Cache]) -> None:
    """An anonymized folder has neither emotions nor speakers, and may be incomplete."""
    corpus, cache = play
    folds = emotion_folds(corpus)
    recognizer = train_emotion_recognizer(corpus, folds, context=RunContext(cache))
    bare = replace(corpus, utterances=tuple(Utterance(u.id, u.path) for u in corpus))
    full = evaluate_emotion(corpus, folds, recognizer, context=RunContext(cache))
    assert evaluate_emotion(bare, folds, recognizer, context=RunContext(cache)).hyps == full.hyps
    part = evaluate_emotion(corpus.filter(lambda u: u.id != "s0-ang-0"), folds, recognizer, context=RunContext(cache))
    assert part.missing == 1
    two = evaluate_emotion(
        corpus.filter(lambda u: u.speaker in ("s0", "s1")), folds, recognizer, context=RunContext(cache)
    )
    assert (two.uar.n, two.missing) == (2, 0)


def test_test_speaker_is_not_in_the_training(play: tuple[Corpus, Cache]) -> None:
    """Also not in the choice of the penalty: with other labels for s0, the classifier for s0 is unchanged."""
    corpus, cache = play
    turned = {"ang": "sad", "sad": "hap", "hap": "neu", "neu": "ang"}
    other = tuple(replace(u, emotion=turned[u.emotion or ""]) if u.speaker == "s0" else u for u in corpus)
    models = []
    for variant in (corpus, replace(corpus, utterances=other)):
        models.append(train_emotion_recognizer(variant, emotion_folds(variant), context=RunContext(cache)).classifiers)
    np.testing.assert_array_equal(models[0]["s0"].weights, models[1]["s0"].weights)
    assert not np.array_equal(models[0]["s1"].weights, models[1]["s1"].weights)


def test_training_normalization_is_independent_of_other_test_utterances(play: tuple[Corpus, Cache]) -> None:
    corpus, cache = play
    folds = emotion_folds(corpus)
    angry = corpus.filter(lambda u: u.emotion == "ang")
    alone = train_emotion_recognizer(corpus, folds, normalize="training", context=RunContext(cache))
    everything = evaluate_emotion(corpus, folds, alone, context=RunContext(cache)).hyps
    assert evaluate_emotion(angry, folds, alone, context=RunContext(cache)).hyps == {
        u.id: everything[u.id] for u in angry
    }
    together = train_emotion_recognizer(corpus, folds, context=RunContext(cache))
    with pytest.raises(InputError, match="the corpus under test has no utterance with the emotion hap"):
        evaluate_emotion(angry, folds, together, context=RunContext(cache))


def test_mistakes_are_found_before_the_work(play: tuple[Corpus, Cache]) -> None:
    corpus, cache = play
    folds = emotion_folds(corpus)
    with pytest.raises(InputError, match="unknown normalization"):
        train_emotion_recognizer(corpus, folds, normalize="speaker")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="s0-ang-0 of the folds is not in the corpus"):
        train_emotion_recognizer(corpus.filter(lambda u: u.id != "s0-ang-0"), folds)
    recognizer = train_emotion_recognizer(corpus, folds, context=RunContext(cache))
    strangers = replace(corpus, utterances=tuple(replace(u, id=f"x{u.id}") for u in corpus))
    with pytest.raises(InputError, match="no utterance of the folds"):
        evaluate_emotion(strangers, folds, recognizer)
    others = replace(corpus, utterances=tuple(replace(u, fold=f"{u.speaker}!") for u in corpus))
    with pytest.raises(InputError, match="not trained for fold s0!"):
        evaluate_emotion(others, emotion_folds(others), recognizer)
    save(corpus.utterances[0].path.with_name("short.wav"), Waveform(np.zeros(1600, np.float32), 16000))
    short = replace(corpus.utterances[0], path=corpus.utterances[0].path.with_name("short.wav"))
    with pytest.raises(InputError, match=r"s0-ang-0 has 0\.100 s, but at least 0\.2 s"):
        train_emotion_recognizer(replace(corpus, utterances=(short, *corpus.utterances[1:])), folds)


@pytest.mark.parametrize("sessions", [False, True])
def test_resamples_equal_a_plain_loop(sessions: bool) -> None:
    rng = np.random.default_rng(5)
    speakers = [f"s{k % 6}" for k in range(90)]
    folds = [str(int(s[1]) // 2) if sessions else s for s in speakers]
    refs = [str(x) for x in rng.choice(["a", "b", "c"], 90)]
    hyps = [ref if rng.random() < 0.6 else "a" for ref in refs]
    replicates, count = _replicates(refs, hyps, folds, speakers, 10, 7)
    assert count == 6
    weights = np.random.default_rng(7).multinomial(6, np.full(6, 1 / 6), size=10)
    for value, weight in zip(replicates, weights, strict=True):
        total = mass = 0.0
        for fold in sorted(set(folds)):
            members = sorted({s for s, name in zip(speakers, folds, strict=True) if name == fold})
            items = [i for i in range(90) for _ in range(weight[int(speakers[i][1])]) if folds[i] == fold]
            share = sum(weight[int(s[1])] for s in members) / len(members)
            if items:
                total += share * uar([refs[i] for i in items], [hyps[i] for i in items]).value
            mass += share
        assert value == pytest.approx(total / mass)


@pytest.mark.slow
@pytest.mark.skipif(not EMODB.is_dir(), reason=f"no EmoDB at {EMODB} (set VOICEVEIL_SHARED)")
def test_uar_of_real_emotions_is_above_the_target(tmp_path: Path) -> None:
    """Four emotions of ten German actors, each judged by recognizers that never heard him or her: above 65 %."""
    corpus = open_corpus(EMODB)
    cache = Cache(tmp_path / "cache")
    folds = emotion_folds(corpus)
    recognizer = train_emotion_recognizer(corpus, folds, context=RunContext(cache))
    result = evaluate_emotion(corpus, folds, recognizer, context=RunContext(cache))
    cache.close()
    assert len(folds.names) == 10
    assert result.uar.value > 0.75
    assert result.uar.low > 0.65
    assert isinstance(recognizer.classifiers["03"], LinearClassifier)


# --- models of transformers


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_emotion(tmp_path_factory.mktemp("models") / "tiny")


def test_model_probabilities_equal_transformers(model: Path) -> None:
    import torch
    import transformers

    voice = synthetic_voice(1, seconds=1.0)
    probabilities = EmotionModel(model)(voice)
    extractor: Any = transformers.Wav2Vec2FeatureExtractor.from_pretrained(model)
    network = transformers.AutoModelForAudioClassification.from_pretrained(model).eval()
    with torch.no_grad():
        values = extractor(voice.samples, sampling_rate=16000, return_tensors="pt").input_values
        expected = torch.softmax(network(values).logits[0], 0)
    assert list(probabilities) == ["neu", "hap", "ang", "sad", "dis"]
    assert list(probabilities.values()) == pytest.approx(expected.tolist(), abs=1e-5)


def test_models_classify_a_corpus(model: Path, play: tuple[Corpus, Cache]) -> None:
    corpus, cache = play
    folds = emotion_folds(corpus)
    result = evaluate_emotion(corpus, folds, PretrainedRecognizer(EmotionModel(model)), context=RunContext(cache))
    by_fold = PretrainedRecognizer({name: EmotionModel(str(model)) for name in folds.names})
    assert evaluate_emotion(corpus, folds, by_fold, context=RunContext(cache)).hyps == result.hyps
    assert list(result.hyps) == [u.id for u in corpus]
    assert set(result.hyps.values()) <= {"ang", "hap", "neu", "sad"}
    with pytest.raises(InputError, match="no model for fold s3"):
        evaluate_emotion(corpus, folds, PretrainedRecognizer({name: EmotionModel(model) for name in folds.names[:3]}))


def test_models_of_the_wrong_kind_are_rejected(model: Path, tmp_path: Path) -> None:
    config = json.loads((model / "config.json").read_text())

    def changed(name: str, **values: Any) -> Path:
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps({**config, **values}))
        return tmp_path / name

    with pytest.raises(InputError, match="a model of kind Wav2Vec2ForCTC, not a classifier of waveforms"):
        EmotionModel(changed("ctc", architectures=["Wav2Vec2ForCTC"]))
    with pytest.raises(InputError, match="a model of kind BertForSequenceClassification"):
        EmotionModel(changed("bert", architectures=["BertForSequenceClassification"], conv_kernel=None))
    with pytest.raises(InputError, match="labels have the same first three letters"):
        EmotionModel(changed("twice", id2label={"0": "happy", "1": "happier"}))
    with pytest.raises(InputError, match="not a model of transformers"):
        EmotionModel(tmp_path)
    with pytest.raises(InputError, match="no such folder"):
        EmotionModel(tmp_path / "nothing")
    with pytest.raises(InputError, match="the model cannot be loaded"):
        EmotionModel(changed("empty"))(synthetic_voice(1, seconds=1.0))
    with pytest.raises(InputError, match=r"0\.100 s of audio at 16000 Hz cannot be recognized \(give at least 0\.4 s"):
        EmotionModel(model)(Waveform(np.zeros(1600, np.float32), 16000))


def test_model_without_an_emotion_is_rejected(model: Path, play: tuple[Corpus, Cache]) -> None:
    corpus, _ = play
    bored = replace(corpus, utterances=tuple(replace(u, emotion="bor") if u.emotion == "sad" else u for u in corpus))
    folds = emotion_folds(bored, None)
    with pytest.raises(InputError, match="the model has no label for bor; it has neu, hap, ang, sad, dis"):
        evaluate_emotion(bored, folds, PretrainedRecognizer(EmotionModel(model)))
