"""A sound system, and variants of it with one fault each: `breaks` names the conformance checks that must find it."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from voiceveil.audio import Samples, Waveform
from voiceveil.core.errors import InputError
from voiceveil.systems import Anonymizer, Range, Stream, parameter


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


FIRST_DRAW: list[float] = []


def remembers_theFIRST_DRAW(samples: Samples, rng: np.random.Generator) -> Samples:
    """In the module, not in the instance: in this process all is consistent, and draws are not even taken."""
    if not FIRST_DRAW:
        FIRST_DRAW.append(rng.uniform(0.1, 0.9))
    return np.float32(FIRST_DRAW[0]) * samples


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
mutant(remembers_theFIRST_DRAW, "workers-do-not-matter")


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
