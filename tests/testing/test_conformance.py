"""The conformance checks: our systems pass them all, and each way to break a system is found by the right one."""

from __future__ import annotations

import numpy as np
import pytest

import voiceveil.testing.checks
import voiceveil.testing.run_checks  # noqa: F401 -- fills CHECKS
from tests.support.broken_streams import CHANGES, Claims
from tests.support.broken_systems import (
    FIRST_DRAW,
    MUTANTS,
    AdaptsToTheFirst,
    ChangesItsParameters,
    Gain,
    KeepsItsDraw,
    Shortened,
    Whole,
)
from voiceveil.audio import Waveform
from voiceveil.dsp.pitch import track_pitch
from voiceveil.systems import Anonymizer, system, systems
from voiceveil.systems.resynthesis.base import Resynthesis
from voiceveil.testing import check_anonymizer, synthetic_voice
from voiceveil.testing.change import LEAST_DISTANCE, correlation, envelope_distance
from voiceveil.testing.conformance import CHECKS, _run
from voiceveil.testing.voices import whispered

#: Those that need no model; tests/systems/resynthesis has the others.
OWN = [name for name in systems if not issubclass(systems[name], Resynthesis)]


@pytest.fixture
def one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """All checks but the one that takes long."""
    monkeypatch.delitem(CHECKS, "workers-do-not-matter")


def run_all(broken: Anonymizer) -> dict[str, str]:
    """The checks that fail, and why."""
    results = check_anonymizer(broken, raise_on_failure=False)
    return {result.name: result.message for result in results if result.status == "failed"}


# --- Systems that pass --------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", OWN)
def test_shipped_systems_pass(name: str) -> None:
    results = check_anonymizer(system(name))
    assert len(results) >= 30
    assert {result.status for result in results} <= {"passed", "skipped"}
    skipped = {result.name for result in results if result.status == "skipped"}
    assert skipped & CHANGES == (CHANGES if name == "identity" else set())
    assert len(skipped - CHANGES) <= 7, "a system may lack a stream, not more"


def test_own_system_passes() -> None:
    results = check_anonymizer(Gain())
    assert {result.status for result in results if result.name not in CHANGES} == {"passed"}
    skipped = {result.message for result in results if result.name in CHANGES}
    assert skipped == {"a control, which does not claim to change voices"}


@pytest.mark.usefixtures("one_process")
def test_system_without_stream_or_draw_passes() -> None:
    results = check_anonymizer(Whole())
    skipped = {result.name: result.message for result in results if result.status == "skipped"}
    assert skipped.pop("different-draws-differ") == "draws no random number"
    skipped = {name: message for name, message in skipped.items() if name not in CHANGES}
    assert set(skipped.values()) == {"converts whole recordings only"}
    assert "stream-equals-whole" in skipped


@pytest.mark.usefixtures("one_process")
def test_failures_are_raised_with_their_names() -> None:
    with pytest.raises(
        AssertionError, match=r"Shortened\(.*\) fails \d+ of \d+ checks:\n(.*\n)*  half-a-minute: the l"
    ):
        check_anonymizer(Shortened())


def test_names_of_checks_are_lower_case_with_hyphens() -> None:
    assert len(CHECKS) >= 30
    assert all(name == name.lower() and " " not in name and "_" not in name for name in CHECKS)


# --- Broken systems


def test_every_check_can_fail() -> None:
    """But one: whether files hold audio alone is up to the runner, whatever the system does."""
    assert set(CHECKS) - {name for _, name in MUTANTS} == {"files-hold-audio-alone"}


@pytest.mark.parametrize(("broken", "name"), MUTANTS, ids=[f"{cls.__name__}-{name}" for cls, name in MUTANTS])
def test_broken_system_is_found(broken: type[Anonymizer], name: str) -> None:
    FIRST_DRAW.clear()
    instance = broken()
    if name == "workers-do-not-matter":
        _run("same-draw-same-output", CHECKS["same-draw-same-output"], instance)  # it has worked here before
    result = _run(name, CHECKS[name], instance)
    assert result.status == "failed"
    assert result.message


@pytest.mark.usefixtures("one_process")
@pytest.mark.parametrize("broken", [AdaptsToTheFirst, ChangesItsParameters, KeepsItsDraw])
def test_state_between_calls_is_found_in_the_whole_sequence(broken: type[Anonymizer]) -> None:
    """An instance that has settled looks innocent: some check must still see it, whatever ran before."""
    expected = next(name for cls, name in MUTANTS if cls is broken)
    assert expected in run_all(broken())


# --- What changes -------------------------------------------------------------------------------------------------


def test_measures_of_change_ignore_gain_and_delay() -> None:
    samples = synthetic_voice(1, seconds=1.0).samples
    later = -0.3 * np.pad(samples, (400, 0))
    assert correlation(samples, later) == pytest.approx(1.0, abs=1e-3)
    assert envelope_distance(samples, later, 16000) < 0.3
    assert correlation(samples, synthetic_voice(2, 1, seconds=1.0).samples) < 0.5
    higher = synthetic_voice(2, 1, seconds=1.0).resampled(14000).samples  # formants 14% higher
    assert envelope_distance(synthetic_voice(2, 1, seconds=1.0).samples, higher, 16000) > 3


def test_whisper_keeps_the_envelope_and_has_no_pitch() -> None:
    wave = synthetic_voice(1, seconds=3.0)
    made = whispered(wave)
    assert made.samples.shape == wave.samples.shape
    assert envelope_distance(wave.samples, made.samples, 16000) < LEAST_DISTANCE
    assert correlation(wave.samples, made.samples) < 0.3
    for quiet in (made, synthetic_voice(1, seconds=3.0, pitch=0.0)):
        f0 = track_pitch(quiet.samples, 16000).f0
        assert (f0 > 0).mean() < 0.1
    assert len(whispered(Waveform(wave.samples[:100], 16000))) == 100


@pytest.mark.parametrize("pitch", [60.0, 450.0])
def test_very_low_and_high_voices_have_their_pitch(pitch: float) -> None:
    f0 = track_pitch(synthetic_voice(2, seconds=2.0, pitch=pitch).samples, 16000, floor=45.0, ceiling=600.0).f0
    assert np.median(f0[f0 > 0]) == pytest.approx(pitch, rel=0.15)


@pytest.mark.usefixtures("one_process")
def test_given_real_speech_is_checked() -> None:
    results = check_anonymizer(Claims(), raise_on_failure=False, speech=synthetic_voice(5, seconds=1.0))
    failed = {result.name: result.message for result in results if result.status == "failed"}
    assert failed.keys() == {*CHANGES, "real-voice-changes", "real-whispered-voice-changes"}
    assert failed["real-voice-changes"].startswith("the voice is almost as it was: correlation 1.00")


# --- Voices -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [8000, 16000, 44100])
def test_synthetic_voices_are_reproducible_and_within_full_scale(rate: int) -> None:
    wave = synthetic_voice(3, 4, seconds=1.0, rate=rate)
    assert (len(wave), wave.rate) == (rate, rate)
    assert np.array_equal(wave.samples, synthetic_voice(3, 4, seconds=1.0, rate=rate).samples)
    assert 0.4 < np.abs(wave.samples).max() < 0.6


def test_speakers_and_utterances_differ() -> None:
    waves = [synthetic_voice(speaker, utterance, seconds=0.5) for speaker in range(3) for utterance in range(3)]
    assert len({wave.samples.tobytes() for wave in waves}) == 9
    assert len(synthetic_voice(0, 0, seconds=0.0)) == 0


def test_speakers_have_a_pitch_of_their_own() -> None:
    """The strongest lag of the autocorrelation varies more between speakers than within."""

    def pitch(speaker: int, utterance: int) -> float:
        samples = synthetic_voice(speaker, utterance, seconds=2.0).samples.astype(np.float64)
        spectrum = np.abs(np.fft.rfft(samples, 2 * len(samples))) ** 2
        correlation = np.fft.irfft(spectrum)[: 16000 // 70]
        return 16000 / (np.argmax(correlation[16000 // 320 :]) + 16000 // 320)

    pitches = np.array([[pitch(speaker, utterance) for utterance in range(3)] for speaker in range(6)])
    medians = np.median(pitches, axis=1)
    assert medians.std() > 2 * np.median(np.abs(pitches - medians[:, None]))
