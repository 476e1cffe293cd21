"""The conformance checks: our systems pass them all, and each way to break a system is found by the right one."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

import voiceveil.testing.checks
import voiceveil.testing.run_checks  # noqa: F401 -- fills CHECKS
from voiceveil.audio import Samples, Waveform
from voiceveil.core.errors import InputError
from voiceveil.dsp.formants import measure
from voiceveil.dsp.pitch import track_pitch
from voiceveil.systems import Anonymizer, Range, Stream, parameter, system, systems
from voiceveil.systems.resynthesis.base import Resynthesis
from voiceveil.testing import check_anonymizer, synthetic_voice
from voiceveil.testing.change import LEAST_DISTANCE, correlation, envelope_distance
from voiceveil.testing.conformance import CHECKS, _run
from voiceveil.testing.voices import whispered

#: Checks that voices change; controls are exempt.
CHANGES = {
    "ordinary-voice-changes",
    "voiceless-voice-changes",
    "whispered-voice-changes",
    "very-low-voice-changes",
    "very-high-voice-changes",
}
#: Those that need no model; test_xvector_resynthesis.py has the others.
OWN = [name for name in systems if not issubclass(systems[name], Resynthesis)]


@dataclass(frozen=True)
class Gain(Anonymizer):
    """A sound system, to be broken below: a gain that is drawn."""

    source: ClassVar[str] = "the tests"
    is_control: ClassVar[bool] = True
    gain: Range = parameter((0.2, 0.9), "factor on all samples", low=0.0, high=1.0)

    def transform(self, samples: Samples, rng: np.random.Generator) -> Samples:
        return np.float32(rng.uniform(*self.gain)) * samples

    def stream(self, rng: np.random.Generator) -> Stream | None:
        return GainStream(float(rng.uniform(*self.gain)))


class GainStream:
    def __init__(self, gain: float) -> None:
        self.gain = np.float32(gain)

    def push(self, samples: Samples) -> Samples:
        return self.gain * samples

    def close(self) -> Samples:
        return np.zeros(0, dtype=np.float32)

    def finish(self, samples: Samples, peak: float) -> Samples:
        return samples


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


# --- Broken systems -----------------------------------------------------------------------------------------------
# Each is Gain with one fault. `breaks` says which check must find it.

MUTANTS: list[tuple[type[Anonymizer], str]] = []


def breaks(*names: str) -> Callable[[type[Anonymizer]], type[Anonymizer]]:
    def add(cls: type[Anonymizer]) -> type[Anonymizer]:
        cls = dataclass(frozen=True)(cls)
        MUTANTS.extend((cls, name) for name in names)
        return cls

    return add


@dataclass(frozen=True)
class Whole(Anonymizer):
    """Always half as loud."""

    source: ClassVar[str] = "the tests"
    is_control: ClassVar[bool] = True

    def transform(self, samples: Samples, rng: np.random.Generator) -> Samples:
        return np.float32(0.5) * samples


def mutant(transform: Callable[[Samples, np.random.Generator], Any], *names: str) -> None:
    """A system of one function; as a class of this module it can be pickled."""
    name = f"Mutant{len(MUTANTS)}_{getattr(transform, '__name__', '')}"
    body = {
        "__doc__": "A broken system.",
        "__module__": __name__,
        "transform": lambda self, samples, rng: transform(samples, rng),
    }
    cls: type[Anonymizer] = dataclass(frozen=True)(type(name, (Whole,), body))
    globals()[name] = cls
    MUTANTS.extend((cls, check) for check in names)


def global_numpy(samples: Samples, rng: np.random.Generator) -> Samples:
    return np.float32(np.random.uniform(0.1, 0.9)) * samples  # noqa: NPY002


def global_python(samples: Samples, rng: np.random.Generator) -> Samples:
    return np.float32(random.uniform(0.1, 0.9)) * samples


def seeds_globally(samples: Samples, rng: np.random.Generator) -> Samples:
    np.random.seed(0)  # noqa: NPY002
    return np.float32(np.random.uniform(0.1, 0.9)) * samples  # noqa: NPY002


def unseeded(samples: Samples, rng: np.random.Generator) -> Samples:
    return np.float32(np.random.default_rng().uniform(0.1, 0.9)) * samples


def draws_in_vain(samples: Samples, rng: np.random.Generator) -> Samples:
    rng.uniform()
    return np.float32(0.5) * samples


def changes_its_input(samples: Samples, rng: np.random.Generator) -> Samples:
    result = samples.copy()
    samples *= np.float32(0.5)
    return result


def gives_its_input(samples: Samples, rng: np.random.Generator) -> Samples:
    return samples


def gives_a_view(samples: Samples, rng: np.random.Generator) -> Samples:
    return samples[:]


def gives_nan(samples: Samples, rng: np.random.Generator) -> Samples:
    return samples * np.float32(np.nan)


def divides_by_the_peak(samples: Samples, rng: np.random.Generator) -> Samples:
    with np.errstate(invalid="ignore", divide="ignore"):
        return (samples / np.abs(samples).max()).astype(np.float32)  # type: ignore[no-any-return]


def divides_by_the_deviation(samples: Samples, rng: np.random.Generator) -> Samples:
    with np.errstate(invalid="ignore", divide="ignore"):
        return (0.1 * (samples - samples.mean()) / samples.std()).astype(np.float32)  # type: ignore[no-any-return]


def divides_by_the_median(samples: Samples, rng: np.random.Generator) -> Samples:
    return samples / np.float32(float(np.abs(samples).max()) / (1 if np.median(np.abs(samples)) else 0))


def takes_the_quiet_for_faulty(samples: Samples, rng: np.random.Generator) -> Samples:
    if 0 < np.abs(samples).max() < 1e-3:
        raise ValueError("is the microphone on?")
    return samples.copy()


def levels_each_second(samples: Samples, rng: np.random.Generator) -> Samples:
    seconds = np.array_split(samples, np.arange(16000, len(samples), 16000))
    if not samples.any():
        return samples.copy()
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.concatenate([second / np.abs(second).max() for second in seconds])


def drops_the_tail(samples: Samples, rng: np.random.Generator) -> Samples:
    return samples[: -int(0.05 * 16000)].copy()


def one_percent_faster(samples: Samples, rng: np.random.Generator) -> Samples:
    """15 ms of 1.5 s are within the tolerance; not so the 300 ms of half a minute."""
    return np.interp(np.arange(0, len(samples) - 1, 1.01), np.arange(len(samples)), samples).astype(np.float32)  # type: ignore[no-any-return]


def too_loud(samples: Samples, rng: np.random.Generator) -> Samples:
    return np.float32(1.3) * samples


def noise_floor(samples: Samples, rng: np.random.Generator) -> Samples:
    return samples + 0.02 * rng.standard_normal(len(samples)).astype(np.float32)


def always_silent(samples: Samples, rng: np.random.Generator) -> Samples:
    return np.zeros_like(samples)


def always_constant(samples: Samples, rng: np.random.Generator) -> Samples:
    return np.full_like(samples, 0.5)


def wants_two_samples(samples: Samples, rng: np.random.Generator) -> Samples:
    if len(samples) < 2:
        raise IndexError("index 1 is out of bounds")
    return samples.copy()


def wants_a_frame(samples: Samples, rng: np.random.Generator) -> Samples:
    np.lib.stride_tricks.sliding_window_view(samples, 320)
    return samples.copy()


def wants_contiguous_memory(samples: Samples, rng: np.random.Generator) -> Samples:
    if not samples.flags.c_contiguous:
        raise BufferError("memoryview: underlying buffer is not C-contiguous")
    return samples.copy()


def reads_memory_wrongly(samples: Samples, rng: np.random.Generator) -> Samples:
    """As C code does that is given a pointer and a length, and not the stride."""
    step = (samples.itemsize,)
    return np.lib.stride_tricks.as_strided(samples, samples.shape, step).copy()


def two_channels(samples: Samples, rng: np.random.Generator) -> Samples:
    return np.stack([samples, samples], axis=1)


def prints(samples: Samples, rng: np.random.Generator) -> Samples:
    print("converting ...")
    return samples.copy()


def exits(samples: Samples, rng: np.random.Generator) -> Samples:
    raise SystemExit(1)


def depends_on_the_process(samples: Samples, rng: np.random.Generator) -> Samples:
    return np.float32(0.1 + os.getpid() % 1000 / 2000) * samples


_calls = [0]


def counts_globally(samples: Samples, rng: np.random.Generator) -> Samples:
    _calls[0] += 1
    return np.float32(1 / _calls[0]) * samples


_first_draw: list[float] = []


def remembers_the_first_draw(samples: Samples, rng: np.random.Generator) -> Samples:
    """In the module, not in the instance: in this process all is consistent, and draws are not even taken."""
    if not _first_draw:
        _first_draw.append(rng.uniform(0.1, 0.9))
    return np.float32(_first_draw[0]) * samples


mutant(
    global_numpy, "global-random-state-does-not-matter", "global-random-state-is-left-alone", "same-draw-same-output"
)
mutant(global_python, "global-random-state-does-not-matter", "global-random-state-is-left-alone")
mutant(seeds_globally, "global-random-state-is-left-alone")
mutant(unseeded, "same-draw-same-output")
mutant(draws_in_vain, "different-draws-differ")
mutant(changes_its_input, "input-is-left-alone", "read-only-input")
mutant(gives_its_input, "input-is-left-alone")
mutant(gives_a_view, "input-is-left-alone")
mutant(gives_nan, "speech-is-converted", "tone", "noise", "files-keep-the-tree")
mutant(divides_by_the_peak, "silence", "silence-stays-quiet")
mutant(divides_by_the_deviation, "silence", "constant", "one-sample")
mutant(divides_by_the_median, "impulse")
mutant(takes_the_quiet_for_faulty, "very-quiet")
mutant(levels_each_second, "speech-then-digital-silence")
mutant(drops_the_tail, "speech-is-converted", "rate-8000", "rate-48000")
mutant(one_percent_faster, "half-a-minute")
mutant(too_loud, "output-fits-full-scale")
mutant(noise_floor, "silence-stays-quiet")
mutant(always_silent, "speech-is-converted")
mutant(always_constant, "speech-is-converted", "silence-stays-quiet")
mutant(wants_two_samples, "one-sample")
mutant(wants_a_frame, "one-sample", "shorter-than-a-frame")
mutant(wants_contiguous_memory, "strided-input")
mutant(reads_memory_wrongly, "strided-input")
mutant(two_channels, "speech-is-converted")
mutant(prints, "prints-nothing")
mutant(exits, "speech-is-converted")
mutant(depends_on_the_process, "workers-do-not-matter")
mutant(counts_globally, "same-draw-same-output", "order-does-not-matter")
mutant(remembers_the_first_draw, "workers-do-not-matter")


@breaks("speech-is-converted", "rate-8000")
class WrongRate(Gain):
    """Says 16 kHz, gives what came in."""

    def convert(self, wave: Waveform, rng: np.random.Generator) -> Waveform:  # type: ignore[override]
        return Waveform(self.transform(wave.samples, rng), 22050)


@breaks("rate-8000", "rate-22050", "rate-44100")
class IgnoresTheRate(Gain):
    """Takes every input for 16 kHz."""

    def convert(self, wave: Waveform, rng: np.random.Generator) -> Waveform:  # type: ignore[override]
        return Waveform(self.transform(wave.samples, rng), self.rate)


@breaks("speech-is-converted")
class GivesAnArray(Gain):
    """Forgets the Waveform around the samples."""

    def convert(self, wave: Waveform, rng: np.random.Generator) -> Waveform:  # type: ignore[override]
        return self.transform(wave.samples, rng)  # type: ignore[return-value]


@breaks("not-a-number", "infinity")
class LetsNanThrough(Gain):
    """Does not look at what comes in."""

    def convert(self, wave: Waveform, rng: np.random.Generator) -> Waveform:  # type: ignore[override]
        return Waveform(self.transform(wave.resampled(self.rate).samples, rng), self.rate)


@breaks("not-a-number")
class WrongError(Gain):
    """Refuses NaN, but not with the exception that users are shown."""

    def convert(self, wave: Waveform, rng: np.random.Generator) -> Waveform:  # type: ignore[override]
        if not np.isfinite(wave.samples).all():
            raise FloatingPointError("NaN")
        return super().convert(wave, rng)


@breaks("no-samples")
class WantsSamples(Gain):
    """Has no mind for an empty recording."""

    def convert(self, wave: Waveform, rng: np.random.Generator) -> Waveform:  # type: ignore[override]
        return Waveform(wave.resampled(self.rate).samples * (0.5 / np.float32(wave.samples[0] != 7)), self.rate)


@breaks("louder-than-full-scale", "clipped")
class RefusesLoudness(Gain):
    """Raises on valid input."""

    def transform(self, samples: Samples, rng: np.random.Generator) -> Samples:
        if np.abs(samples).max() >= 1:
            raise InputError("too loud")
        return super().transform(samples, rng)


@breaks("half-a-minute")
class Shortened(Gain):
    """Forgets all beyond ten seconds."""

    def transform(self, samples: Samples, rng: np.random.Generator) -> Samples:
        return super().transform(samples, rng)[:160000]


@breaks("order-does-not-matter")
class AdaptsToTheLast(Gain):
    """Keeps the level of the utterance before."""

    def transform(self, samples: Samples, rng: np.random.Generator) -> Samples:
        level = self.__dict__.get("_level", 1.0)
        object.__setattr__(self, "_level", float(np.abs(samples).mean()))
        return np.float32(level) * super().transform(samples, rng)


@breaks("order-does-not-matter")
class AdaptsToTheFirst(Gain):
    """Once it has seen an utterance it is consistent for ever."""

    def transform(self, samples: Samples, rng: np.random.Generator) -> Samples:
        if "_level" not in self.__dict__:
            object.__setattr__(self, "_level", float(np.abs(samples).mean()))
        return np.float32(self.__dict__["_level"]) * super().transform(samples, rng)


@breaks("different-draws-differ")
class KeepsItsDraw(Gain):
    """One pseudo-speaker for all, drawn at the first utterance."""

    def transform(self, samples: Samples, rng: np.random.Generator) -> Samples:
        if "_drawn" not in self.__dict__:
            object.__setattr__(self, "_drawn", float(rng.uniform(*self.gain)))
        return np.float32(self.__dict__["_drawn"]) * samples


@breaks("parameters-stay")
class ChangesItsParameters(Gain):
    """Narrows its range to what was drawn first: later checks could not tell."""

    def transform(self, samples: Samples, rng: np.random.Generator) -> Samples:
        drawn = float(rng.uniform(*self.gain))
        object.__setattr__(self, "gain", (drawn, drawn))
        return np.float32(drawn) * samples


@breaks("picklable")
class Unpicklable(Gain):
    """Holds a function."""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "_function", lambda: 1)


@breaks("picklable")
class LosesStateInPickles(Gain):
    """A copy is not the same."""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "_factor", 0.5)

    def __getstate__(self) -> dict[str, Any]:
        return {"gain": self.gain, "_factor": 1.0}

    def transform(self, samples: Samples, rng: np.random.Generator) -> Samples:
        return np.float32(self.__dict__["_factor"]) * super().transform(samples, rng)


@breaks("new-instance-is-equal")
class DriftingParameters(Gain):
    """Its parameters do not lead back to it: each construction halves them."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "gain", tuple(value / 2 for value in self.gain))
        super().__post_init__()


class TakesAnything(Gain):
    """A typo in a parameter goes unnoticed."""

    def __init__(self, **parameters: object) -> None:
        object.__setattr__(self, "gain", parameters.get("gain", (0.2, 0.9)))


MUTANTS.append((TakesAnything, "unknown-parameter-is-refused"))


@breaks("described")
class Undocumented(Gain):
    pass


Undocumented.__doc__ = "Undocumented(gain: 'Range' = (0.2, 0.9))"  # what @dataclass makes of a class without


@breaks("described")
class WithoutSource(Gain):
    """Nobody knows where it comes from."""

    source: ClassVar[str] = ""


@breaks("parameters-are-described")
class WithoutHelp(Gain):
    """A parameter that nobody explains."""

    order: int = 3


class Streaming(Gain):
    """Gain with a stream that is broken."""

    Broken: ClassVar[type[GainStream]] = GainStream

    def stream(self, rng: np.random.Generator) -> Stream | None:
        return self.Broken(float(rng.uniform(*self.gain)))


class Louder(GainStream):
    def push(self, samples: Samples) -> Samples:
        return np.float32(1.01) * super().push(samples)


class ByBlock(GainStream):
    def push(self, samples: Samples) -> Samples:
        return super().push(samples) * np.float32(1 - 1e-5 * np.abs(samples).max(initial=0.0))


class LosesTheEnd(GainStream):
    def push(self, samples: Samples) -> Samples:
        return super().push(samples)[: len(samples) // 100 * 100]


class InPlace(GainStream):
    def push(self, samples: Samples) -> Samples:
        samples *= self.gain
        return samples


class Shared(GainStream):
    last: ClassVar[list[np.float32]] = [np.float32(0)]

    def __init__(self, gain: float) -> None:
        self.last[0] = np.float32(gain)

    def push(self, samples: Samples) -> Samples:
        return self.last[0] * samples


class WantsBlocks(GainStream):
    count = 0

    def push(self, samples: Samples) -> Samples:
        self.count += 1
        return super().push(samples)

    def close(self) -> Samples:
        if self.count == 0:
            raise IndexError("no block")
        return super().close()


class Noisy(GainStream):
    def finish(self, samples: Samples, peak: float) -> Samples:
        return samples if peak else samples + np.float32(0.1)


@breaks("stream-equals-whole")
class LouderStream(Streaming):
    """A stream that differs from convert."""

    Broken: ClassVar[type[GainStream]] = Louder


@breaks("block-size-does-not-matter")
class StreamByBlock(Streaming):
    """Differs by less than a step of 16 bits, but with the size of the blocks."""

    Broken: ClassVar[type[GainStream]] = ByBlock


@breaks("stream-equals-whole", "block-size-does-not-matter")
class StreamLosesTheEnd(Streaming):
    """Whole frames only."""

    Broken: ClassVar[type[GainStream]] = LosesTheEnd


@breaks("stream-leaves-its-input-alone")
class StreamInPlace(Streaming):
    """Works in the caller's memory."""

    Broken: ClassVar[type[GainStream]] = InPlace


@breaks("two-streams-at-once")
class SharedStream(Streaming):
    """One state for all streams."""

    Broken: ClassVar[type[GainStream]] = Shared


@breaks("stream-of-few-samples")
class StreamWantsBlocks(Streaming):
    """Has no mind for an empty recording."""

    Broken: ClassVar[type[GainStream]] = WantsBlocks


@breaks("stream-of-silence")
class NoisyStream(Streaming):
    """Fills silence with something."""

    Broken: ClassVar[type[GainStream]] = Noisy


@breaks("stream-equals-whole")
class StreamDrawsAgain(Gain):
    """Another pseudo-speaker block by block than at once."""

    def stream(self, rng: np.random.Generator) -> Stream | None:
        rng.uniform()
        return super().stream(rng)


class Claims(Gain):
    """A gain that claims to hide voices."""

    is_control: ClassVar[bool] = False


breaks(*sorted(CHANGES))(Claims)


@breaks("voiceless-voice-changes", "whispered-voice-changes")
class LeavesWhispersAlone(Whole):
    """As a system does that moves the formants of voiced frames only."""

    is_control: ClassVar[bool] = False

    def transform(self, samples: Samples, rng: np.random.Generator) -> Samples:
        voice, _ = measure(samples, self.rate)
        hides = voice is not None and voice.f0 > 0
        return system("b2").transform(samples, rng) if hides else samples.copy()


@breaks("voiceless-voice-changes", "whispered-voice-changes")
class OtherNoiseSameTract(Whole):
    """Another waveform of the same vocal tract: its correlation with the input is low."""

    is_control: ClassVar[bool] = False

    def transform(self, samples: Samples, rng: np.random.Generator) -> Samples:
        return whispered(Waveform(samples, self.rate)).samples


def test_every_check_can_fail() -> None:
    """But one: whether files hold audio alone is up to the runner, whatever the system does."""
    assert set(CHECKS) - {name for _, name in MUTANTS} == {"files-hold-audio-alone"}


@pytest.mark.parametrize(("broken", "name"), MUTANTS, ids=[f"{cls.__name__}-{name}" for cls, name in MUTANTS])
def test_broken_system_is_found(broken: type[Anonymizer], name: str) -> None:
    _first_draw.clear()
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
    higher = synthetic_voice(2, 1, seconds=1.0).resampled(14000).samples  # formants 14 % higher
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
