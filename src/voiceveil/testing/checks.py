"""The conformance checks of a system by itself: each takes one and fails an assertion, or says why it does not apply.

Those of block-wise conversion and of whole runs are in :mod:`voiceveil.testing.run_checks`.
"""

from __future__ import annotations

import contextlib
import io
import pickle
import random

import numpy as np

from voiceveil.audio import Samples, Waveform
from voiceveil.core.errors import InputError
from voiceveil.systems.contract import Anonymizer
from voiceveil.systems.parameters import describe
from voiceveil.testing.change import HIGHEST_CORRELATION, LEAST_DISTANCE, correlation, envelope_distance
from voiceveil.testing.conformance import NotApplicable, check
from voiceveil.testing.probes import convert, fresh, rng, sound, speech
from voiceveil.testing.voices import synthetic_voice, whispered

# --- First of all: what later checks would not see in an instance that has worked already ------------------------


@check
def _parameters_stay(system: Anonymizer) -> None:
    before = system.parameters()
    convert(system)
    assert system.parameters() == before, "a conversion changes the parameters"


# --- What goes in -------------------------------------------------------------------------------------------------


@check
def _speech_is_converted(system: Anonymizer) -> None:
    result = sound(system, speech().samples, 16000)
    assert np.std(result.samples) > 1e-3, "speech became silence"


@check
def _output_fits_full_scale(system: Anonymizer) -> None:
    samples = speech(system.rate).samples
    for level in (1.0, 0.5):  # of the input's peak
        peak = np.abs(sound(system, level * samples / np.abs(samples).max()).samples).max()
        assert peak <= 1.0, f"the peak is {peak:.3f}"


@check
def _silence(system: Anonymizer) -> None:
    sound(system, np.zeros(system.rate))


@check
def _silence_stays_quiet(system: Anonymizer) -> None:
    samples = sound(system, np.zeros(system.rate)).samples
    rms = float(np.sqrt(np.mean(samples**2)))
    assert rms < 0.01, f"silence became a sound of RMS {rms:.3f}"


@check
def _constant(system: Anonymizer) -> None:
    sound(system, np.full(system.rate, 0.25))


@check
def _impulse(system: Anonymizer) -> None:
    samples = np.zeros(system.rate)
    samples[system.rate // 2] = 1.0
    sound(system, samples)


@check
def _tone(system: Anonymizer) -> None:
    sound(system, 0.5 * np.sin(2 * np.pi * 440 * np.arange(system.rate) / system.rate))


@check
def _noise(system: Anonymizer) -> None:
    sound(system, 0.1 * rng().standard_normal(system.rate))


@check
def _clipped(system: Anonymizer) -> None:
    sound(system, np.clip(50 * speech(system.rate).samples, -1, 1))


@check
def _louder_than_full_scale(system: Anonymizer) -> None:
    sound(system, 4 * speech(system.rate).samples)


@check
def _very_quiet(system: Anonymizer) -> None:
    sound(system, 1e-4 * speech(system.rate).samples)


@check
def _speech_then_digital_silence(system: Anonymizer) -> None:
    sound(system, np.concatenate([speech(system.rate).samples, np.zeros(system.rate)]))


@check
def _no_samples(system: Anonymizer) -> None:
    assert len(sound(system, np.zeros(0))) == 0


@check
def _one_sample(system: Anonymizer) -> None:
    sound(system, np.ones(1))


@check
def _shorter_than_a_frame(system: Anonymizer) -> None:
    sound(system, 0.1 * rng().standard_normal(int(0.007 * system.rate)))


@check
def _half_a_minute(system: Anonymizer) -> None:
    sound(system, np.tile(speech(system.rate).samples, 20))


def _refused_or_finite(system: Anonymizer, bad: float) -> None:
    samples = speech(system.rate).samples.copy()
    samples[1000] = bad
    try:
        sound(system, samples)
    except InputError as error:
        assert str(error), "the error says nothing"


@check
def _not_a_number(system: Anonymizer) -> None:
    _refused_or_finite(system, np.nan)


@check
def _infinity(system: Anonymizer) -> None:
    _refused_or_finite(system, np.inf)


@check
def _rate_8000(system: Anonymizer) -> None:
    sound(system, speech(8000).samples, 8000)


@check
def _rate_22050(system: Anonymizer) -> None:
    sound(system, speech(22050).samples, 22050)


@check
def _rate_44100(system: Anonymizer) -> None:
    sound(system, speech(44100).samples, 44100)


@check
def _rate_48000(system: Anonymizer) -> None:
    sound(system, speech(48000).samples, 48000)


@check
def _input_is_left_alone(system: Anonymizer) -> None:
    wave = speech(system.rate)
    before = wave.samples.copy()
    result = system.convert(wave, rng())
    assert np.array_equal(wave.samples, before), "the input was changed"
    assert not np.shares_memory(result.samples, wave.samples), "the output shares memory with the input"


@check
def _read_only_input(system: Anonymizer) -> None:
    samples = speech(system.rate).samples.copy()
    samples.flags.writeable = False
    sound(system, samples)


@check
def _strided_input(system: Anonymizer) -> None:
    samples = np.repeat(speech(system.rate).samples, 2)[::2]
    direct = system.convert(Waveform(np.ascontiguousarray(samples), system.rate), rng())
    strided = system.convert(Waveform(samples, system.rate), rng())
    assert np.array_equal(direct.samples, strided.samples), "the memory layout of the input matters"


# --- Randomness ---------------------------------------------------------------------------------------------------


def _draws(system: Anonymizer) -> bool:
    used, untouched = rng(), rng()
    system.convert(speech(system.rate), used)
    return bool(used.bit_generator.state != untouched.bit_generator.state)


@check
def _same_draw_same_output(system: Anonymizer) -> None:
    assert np.array_equal(convert(system), convert(system)), "two runs differ"


@check
def _different_draws_differ(system: Anonymizer) -> None:
    if not _draws(fresh(system)):
        raise NotApplicable("draws no random number")
    ranges = [value for value in system.parameters().values() if isinstance(value, tuple)]
    if ranges and all(low == high for low, high in ranges):
        raise NotApplicable("its parameters leave nothing to chance")
    outputs = [convert(system, seed) for seed in range(4)]
    same = any(np.array_equal(outputs[0], other) for other in outputs[1:])
    assert not same, "two generators give the same output: the draw is not from rng"


@check
def _order_does_not_matter(system: Anonymizer) -> None:
    forward, backward = fresh(system), fresh(system)
    first = [convert(forward, utterance=u) for u in (0, 1, 2)]
    second = [convert(backward, utterance=u) for u in (2, 1, 0)][::-1]
    assert all(map(np.array_equal, first, second)), "an utterance depends on what was converted before it"


@check
def _global_random_state_does_not_matter(system: Anonymizer) -> None:
    states = np.random.get_state(), random.getstate()  # noqa: NPY002
    try:
        outputs: list[Samples] = []
        for seed in (1, 2):
            np.random.seed(seed)  # noqa: NPY002
            random.seed(seed)
            outputs.append(convert(system))
    finally:
        np.random.set_state(states[0])  # noqa: NPY002
        random.setstate(states[1])
    assert np.array_equal(outputs[0], outputs[1]), "the output depends on a global random state"


@check
def _global_random_state_is_left_alone(system: Anonymizer) -> None:
    before = pickle.dumps((np.random.get_state(), random.getstate()))  # noqa: NPY002
    convert(system)
    after = pickle.dumps((np.random.get_state(), random.getstate()))  # noqa: NPY002
    assert before == after, "a global random state was changed"


# --- Voices change ------------------------------------------------------------------------------------------------


def assert_changes(system: Anonymizer, wave: Waveform) -> None:
    """Fail if a system leaves a voice almost as it is: in the worst of three draws, or on the mean of them."""
    if system.is_control:
        raise NotApplicable("a control, which does not claim to change voices")
    wave = wave.resampled(system.rate)
    outputs = [system.convert(wave, rng(seed)).samples for seed in range(3)]
    alike = max(correlation(wave.samples, output) for output in outputs)
    distance = float(np.mean([envelope_distance(wave.samples, output, system.rate) for output in outputs]))
    figures = f"correlation {alike:.2f}, envelope changed by {distance:.1f} dB"
    assert alike <= HIGHEST_CORRELATION, f"the voice is almost as it was: {figures} (at most {HIGHEST_CORRELATION})"
    assert distance >= LEAST_DISTANCE, f"the vocal tract is as it was: {figures} (at least {LEAST_DISTANCE:g} dB)"


def _voice(system: Anonymizer, speaker: int, pitch: float | None = None) -> Waveform:
    return synthetic_voice(speaker, seconds=3.0, rate=system.rate, pitch=pitch)


@check
def _ordinary_voice_changes(system: Anonymizer) -> None:
    assert_changes(system, _voice(system, 1))


@check
def _voiceless_voice_changes(system: Anonymizer) -> None:
    assert_changes(system, _voice(system, 1, pitch=0.0))


@check
def _whispered_voice_changes(system: Anonymizer) -> None:
    assert_changes(system, whispered(_voice(system, 1)))


@check
def _very_low_voice_changes(system: Anonymizer) -> None:
    assert_changes(system, _voice(system, 2, pitch=60.0))


@check
def _very_high_voice_changes(system: Anonymizer) -> None:
    assert_changes(system, _voice(system, 3, pitch=450.0))


# --- The object ---------------------------------------------------------------------------------------------------


@check
def _new_instance_is_equal(system: Anonymizer) -> None:
    twin = fresh(system)
    assert twin.parameters() == system.parameters()
    assert np.array_equal(convert(system), convert(twin)), "an instance with the same parameters differs"


@check
def _picklable(system: Anonymizer) -> None:
    twin = pickle.loads(pickle.dumps(system))  # noqa: S301 -- our own bytes
    assert np.array_equal(convert(system), convert(twin)), "a copy differs"


@check
def _unknown_parameter_is_refused(system: Anonymizer) -> None:
    try:
        type(system)(**{"no_such_parameter": 1})
    except (TypeError, InputError):
        return
    raise AssertionError("an unknown parameter was accepted")


@check
def _described(system: Anonymizer) -> None:
    doc = (type(system).__doc__ or "").strip()
    assert doc, "no docstring"
    assert not doc.startswith(f"{type(system).__name__}("), "no docstring but the one that dataclasses make themselves"
    assert system.source, "`source` does not say where the system is described"
    assert system.rate > 0


@check
def _parameters_are_described(system: Anonymizer) -> None:
    for row in describe(type(system)):
        assert row["help"], f"no help for the parameter {row['name']}"


@check
def _prints_nothing(system: Anonymizer) -> None:
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        convert(system)
    assert not printed.getvalue(), f"prints {printed.getvalue()[:40]!r}, where a program may want to print JSON"
