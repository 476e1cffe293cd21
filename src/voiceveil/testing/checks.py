"""The conformance checks: each takes a system and fails an assertion, or says why it does not apply."""

from __future__ import annotations

import pickle
import random
import tempfile
from pathlib import Path

import numpy as np
import soundfile

from voiceveil.anonymization.batch import anonymize
from voiceveil.anonymization.contract import Anonymizer
from voiceveil.audio import Samples, Waveform, save
from voiceveil.errors import InputError
from voiceveil.run.local import run_items
from voiceveil.testing.conformance import NotApplicable, check
from voiceveil.testing.voices import synthetic_voice

__all__ = ["FRAME"]

#: Input and output may differ in length by this, in seconds.
FRAME = 0.020


def _rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def _speech(rate: int = 16000, utterance: int = 0) -> Waveform:
    return synthetic_voice(1, utterance, seconds=1.5, rate=rate)


def _sound(system: Anonymizer, samples: np.ndarray, rate: int | None = None) -> Waveform:
    """Convert and check what holds for every input: finite, mono float32, declared rate, same length."""
    wave = Waveform(samples.astype(np.float32), rate or system.rate)
    result = system.convert(wave, _rng())
    assert isinstance(result, Waveform), f"convert returned {type(result).__name__}, not a Waveform"
    assert result.samples.dtype == np.float32
    assert result.rate == system.rate, f"the output is at {result.rate} Hz, the system declares {system.rate}"
    assert np.isfinite(result.samples).all(), "the output is not finite"
    longer = abs(result.duration - wave.duration)
    assert longer <= FRAME + 1 / system.rate, f"the length changed by {1000 * longer:.1f} ms"
    return result


# --- What goes in -------------------------------------------------------------------------------------------------


@check
def _speech_is_converted(system: Anonymizer) -> None:
    result = _sound(system, _speech().samples, 16000)
    assert np.abs(result.samples).max() > 1e-3, "speech became silence"


@check
def _output_fits_full_scale(system: Anonymizer) -> None:
    peak = np.abs(_sound(system, _speech().samples, 16000).samples).max()
    assert peak <= 1.0, f"the peak is {peak:.3f}"


@check
def _silence(system: Anonymizer) -> None:
    _sound(system, np.zeros(system.rate))


@check
def _silence_stays_quiet(system: Anonymizer) -> None:
    samples = _sound(system, np.zeros(system.rate)).samples
    rms = float(np.sqrt(np.mean(samples**2)))
    assert rms < 0.03, f"silence became a sound of RMS {rms:.3f}"


@check
def _constant(system: Anonymizer) -> None:
    _sound(system, np.full(system.rate, 0.25))


@check
def _impulse(system: Anonymizer) -> None:
    samples = np.zeros(system.rate)
    samples[system.rate // 2] = 1.0
    _sound(system, samples)


@check
def _tone(system: Anonymizer) -> None:
    _sound(system, 0.5 * np.sin(2 * np.pi * 440 * np.arange(system.rate) / system.rate))


@check
def _noise(system: Anonymizer) -> None:
    _sound(system, 0.1 * _rng().standard_normal(system.rate))


@check
def _clipped(system: Anonymizer) -> None:
    _sound(system, np.clip(50 * _speech(system.rate).samples, -1, 1))


@check
def _louder_than_full_scale(system: Anonymizer) -> None:
    _sound(system, 4 * _speech(system.rate).samples)


@check
def _very_quiet(system: Anonymizer) -> None:
    _sound(system, 1e-4 * _speech(system.rate).samples)


@check
def _speech_then_digital_silence(system: Anonymizer) -> None:
    _sound(system, np.concatenate([_speech(system.rate).samples, np.zeros(system.rate)]))


@check
def _no_samples(system: Anonymizer) -> None:
    assert len(_sound(system, np.zeros(0))) == 0


@check
def _one_sample(system: Anonymizer) -> None:
    _sound(system, np.ones(1))


@check
def _shorter_than_a_frame(system: Anonymizer) -> None:
    _sound(system, 0.1 * _rng().standard_normal(int(0.007 * system.rate)))


@check
def _half_a_minute(system: Anonymizer) -> None:
    _sound(system, np.tile(_speech(system.rate).samples, 20))


def _refused_or_finite(system: Anonymizer, bad: float) -> None:
    samples = _speech(system.rate).samples.copy()
    samples[1000] = bad
    try:
        _sound(system, samples)
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
    _sound(system, _speech(8000).samples, 8000)


@check
def _rate_22050(system: Anonymizer) -> None:
    _sound(system, _speech(22050).samples, 22050)


@check
def _rate_44100(system: Anonymizer) -> None:
    _sound(system, _speech(44100).samples, 44100)


@check
def _rate_48000(system: Anonymizer) -> None:
    _sound(system, _speech(48000).samples, 48000)


@check
def _input_is_left_alone(system: Anonymizer) -> None:
    wave = _speech(system.rate)
    before = wave.samples.copy()
    result = system.convert(wave, _rng())
    assert np.array_equal(wave.samples, before), "the input was changed"
    assert not np.shares_memory(result.samples, wave.samples), "the output shares memory with the input"


@check
def _read_only_input(system: Anonymizer) -> None:
    samples = _speech(system.rate).samples.copy()
    samples.flags.writeable = False
    _sound(system, samples)


@check
def _strided_input(system: Anonymizer) -> None:
    samples = np.repeat(_speech(system.rate).samples, 2)[::2]
    direct = system.convert(Waveform(np.ascontiguousarray(samples), system.rate), _rng())
    strided = system.convert(Waveform(samples, system.rate), _rng())
    assert np.array_equal(direct.samples, strided.samples), "the memory layout of the input matters"


# --- Randomness ---------------------------------------------------------------------------------------------------


def _convert(system: Anonymizer, seed: int = 0, utterance: int = 0) -> Samples:
    return system.convert(_speech(system.rate, utterance), _rng(seed)).samples


def _draws(system: Anonymizer) -> bool:
    rng, untouched = _rng(), _rng()
    system.convert(_speech(system.rate), rng)
    return bool(rng.bit_generator.state != untouched.bit_generator.state)


@check
def _same_draw_same_output(system: Anonymizer) -> None:
    assert np.array_equal(_convert(system), _convert(system)), "two runs differ"


@check
def _different_draws_differ(system: Anonymizer) -> None:
    if not _draws(system):
        raise NotApplicable("draws no random number")
    ranges = [value for value in system.parameters().values() if isinstance(value, tuple)]
    if ranges and all(low == high for low, high in ranges):
        raise NotApplicable("its parameters leave nothing to chance")
    outputs = [_convert(system, seed) for seed in range(4)]
    same = any(np.array_equal(outputs[0], other) for other in outputs[1:])
    assert not same, "two generators give the same output: the draw is not from rng"


@check
def _order_does_not_matter(system: Anonymizer) -> None:
    first = [_convert(system, utterance=u) for u in (0, 1, 2)]
    second = [_convert(system, utterance=u) for u in (2, 1, 0)][::-1]
    assert all(map(np.array_equal, first, second)), "an utterance depends on what was converted before it"


@check
def _global_random_state_does_not_matter(system: Anonymizer) -> None:
    states = np.random.get_state(), random.getstate()  # noqa: NPY002
    try:
        outputs: list[Samples] = []
        for seed in (1, 2):
            np.random.seed(seed)  # noqa: NPY002
            random.seed(seed)
            outputs.append(_convert(system))
    finally:
        np.random.set_state(states[0])  # noqa: NPY002
        random.setstate(states[1])
    assert np.array_equal(outputs[0], outputs[1]), "the output depends on a global random state"


@check
def _global_random_state_is_left_alone(system: Anonymizer) -> None:
    before = pickle.dumps((np.random.get_state(), random.getstate()))  # noqa: NPY002
    _convert(system)
    after = pickle.dumps((np.random.get_state(), random.getstate()))  # noqa: NPY002
    assert before == after, "a global random state was changed"


# --- The object ---------------------------------------------------------------------------------------------------


@check
def _new_instance_is_equal(system: Anonymizer) -> None:
    twin = type(system)(**system.parameters())
    assert twin.parameters() == system.parameters()
    assert np.array_equal(_convert(system), _convert(twin)), "an instance with the same parameters differs"


@check
def _picklable(system: Anonymizer) -> None:
    twin = pickle.loads(pickle.dumps(system))  # noqa: S301 -- our own bytes
    assert np.array_equal(_convert(system), _convert(twin)), "a copy differs"


@check
def _unknown_parameter_is_refused(system: Anonymizer) -> None:
    try:
        type(system)(**{"no_such_parameter": 1})
    except (TypeError, InputError):
        return
    raise AssertionError("an unknown parameter was accepted")


@check
def _described(system: Anonymizer) -> None:
    assert (type(system).__doc__ or "").strip(), "no docstring"
    assert system.source, "`source` does not say where the system is described"
    assert system.rate > 0


# --- Block by block -----------------------------------------------------------------------------------------------


def _streamed(system: Anonymizer, block: int) -> Samples:
    stream = system.stream(_rng())
    if stream is None:
        raise NotApplicable("converts whole recordings only")
    samples = _speech(system.rate).samples
    raw = [stream.push(samples[i : i + block]) for i in range(0, len(samples), block)]
    raw.append(stream.close())
    peak = max(float(np.abs(piece).max(initial=0.0)) for piece in raw)
    return np.concatenate([stream.finish(piece, peak) for piece in raw])


@check
def _stream_equals_whole(system: Anonymizer) -> None:
    difference = np.abs(_streamed(system, 4096) - _convert(system)).max()
    assert difference <= 1.01 / 32768, f"block by block differs by {difference:.2g}"


@check
def _block_size_does_not_matter(system: Anonymizer) -> None:
    assert np.array_equal(_streamed(system, 333), _streamed(system, 5000))


# --- The runner ---------------------------------------------------------------------------------------------------

_TITLE = "recorded by Ada in March"


def _batch(system: Anonymizer, folder: Path, jobs: int) -> dict[str, bytes]:
    source, target = folder / "source", folder / f"target{jobs}"
    if not source.exists():
        for speaker in range(2):
            for utterance in range(2):
                save(source / f"s{speaker}" / f"u{utterance}.wav", synthetic_voice(speaker, utterance, seconds=0.5))
        with soundfile.SoundFile(source / "s0" / "tagged.flac", "w", samplerate=16000, channels=2) as file:
            file.title = _TITLE
            file.write(np.stack([_speech().samples] * 2, axis=1))
    summary = anonymize(source, target, system=system, seed=1, jobs=jobs)
    assert not summary.failures, f"failed: {summary.failures}"
    return {str(path.relative_to(target)): path.read_bytes() for path in sorted(target.rglob("*.wav"))}


@check
def _files_keep_the_tree(system: Anonymizer) -> None:
    with tempfile.TemporaryDirectory() as folder:
        written = _batch(system, Path(folder), 1)
    assert list(written) == ["s0/tagged.wav", "s0/u0.wav", "s0/u1.wav", "s1/u0.wav", "s1/u1.wav"], str(list(written))


@check
def _files_hold_audio_alone(system: Anonymizer) -> None:
    with tempfile.TemporaryDirectory() as folder:
        written = _batch(system, Path(folder), 1)
        for name, data in written.items():
            assert _chunks(data) == ["fmt ", "data"], f"{name} has the chunks {_chunks(data)}"
            assert _TITLE.encode() not in data, f"{name} holds a tag of the original"
            assert folder.encode() not in data, f"{name} holds a path"


def _chunks(data: bytes) -> list[str]:
    names, position = [], 12
    while position < len(data):
        names.append(data[position : position + 4].decode("latin-1"))
        size = int.from_bytes(data[position + 4 : position + 8], "little")
        position += 8 + size + size % 2
    return names


@check
def _workers_do_not_matter(system: Anonymizer) -> None:
    """In two other processes the output is the same."""
    jobs = [(system, utterance) for utterance in range(3)]
    elsewhere: dict[int, Samples] = {}
    for (_, utterance), result in run_items(_convert_job, jobs, jobs=2, preload=(type(system).__module__,)):
        if isinstance(result, Exception):
            raise result
        elsewhere[utterance] = result
    for utterance, result in elsewhere.items():
        assert np.array_equal(result, _convert(system, 0, utterance)), "another process gives another output"


def _convert_job(job: tuple[Anonymizer, int]) -> Samples:
    system, utterance = job
    return _convert(system, 0, utterance)
