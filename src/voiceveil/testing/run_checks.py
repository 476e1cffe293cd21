"""The conformance checks of conversion block by block, and of whole runs over files."""

# ruff: noqa: S101, D1 -- checks are assertions, and their names say it all

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import soundfile

from voiceveil.audio import Samples, Waveform, save
from voiceveil.run.local import run_items
from voiceveil.systems.batch import anonymize
from voiceveil.systems.contract import Anonymizer, Stream
from voiceveil.testing.conformance import NotApplicable, check
from voiceveil.testing.probes import convert, rng, speech
from voiceveil.testing.voices import synthetic_voice

# --- Block by block -----------------------------------------------------------------------------------------------


def _stream(system: Anonymizer, seed: int = 0) -> Stream:
    stream = system.stream(rng(seed))
    if stream is None:
        raise NotApplicable("converts whole recordings only")
    return stream


def _finished(stream: Stream, raw: list[Samples]) -> Samples:
    raw = [*raw, stream.close()]
    peak = max(float(np.abs(piece).max(initial=0.0)) for piece in raw)
    return np.concatenate([stream.finish(piece, peak) for piece in raw])


def _blocks(samples: Samples, size: int) -> list[Samples]:
    return [samples[i : i + size] for i in range(0, len(samples), size)]


def _streamed(system: Anonymizer, samples: Samples, block: int) -> Samples:
    stream = _stream(system)
    return _finished(stream, [stream.push(piece) for piece in _blocks(samples, block)])


def _assert_close(streamed: Samples, whole: Samples) -> None:
    assert len(streamed) == len(whole), f"block by block gives {len(streamed)} samples, not {len(whole)}"
    difference = np.abs(streamed - whole).max(initial=0.0)
    assert difference <= 1.01 / 32768, f"block by block differs by {difference:.2g}"


@check
def _stream_equals_whole(system: Anonymizer) -> None:
    _assert_close(_streamed(system, speech(system.rate).samples, 4096), convert(system))


@check
def _block_size_does_not_matter(system: Anonymizer) -> None:
    samples = speech(system.rate).samples
    few, many = _streamed(system, samples, 5000), _streamed(system, samples, 333)
    assert np.array_equal(few, many), "the size of the blocks matters"


@check
def _stream_of_few_samples(system: Anonymizer) -> None:
    for count in (0, 1, 100):
        samples = speech(system.rate).samples[:count]
        whole = system.convert(Waveform(samples, system.rate), rng()).samples
        _assert_close(_streamed(system, samples, 7), whole)


@check
def _stream_of_silence(system: Anonymizer) -> None:
    silence = np.zeros(system.rate // 2, dtype=np.float32)
    _assert_close(_streamed(system, silence, 4096), system.convert(Waveform(silence, system.rate), rng()).samples)


@check
def _two_streams_at_once(system: Anonymizer) -> None:
    streams = [_stream(system, seed) for seed in (0, 1)]
    raw: list[list[Samples]] = [[], []]
    for pieces in zip(*(_blocks(speech(system.rate, utterance).samples, 4096) for utterance in (0, 1)), strict=True):
        for stream, out, piece in zip(streams, raw, pieces, strict=True):
            out.append(stream.push(piece))
    for i in (0, 1):
        _assert_close(_finished(streams[i], raw[i]), convert(system, i, i))


@check
def _stream_leaves_its_input_alone(system: Anonymizer) -> None:
    samples = speech(system.rate).samples
    before = samples.copy()
    _streamed(system, samples, 4096)
    assert np.array_equal(samples, before), "the blocks were changed"


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
            file.write(np.stack([speech().samples] * 2, axis=1))
    summary = anonymize(source, target, system=system, seed=1, jobs=jobs, format="wav")
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
    """Check that the output of worker processes is the same as in this process."""
    jobs = [(system, utterance) for utterance in (2, 1, 0)]  # not in the order that this process has seen them in
    elsewhere: dict[int, Samples] = {}
    modules = (__name__, type(system).__module__)
    for (_, utterance), result in run_items(_convert_job, jobs, jobs=2, preload=modules):
        if isinstance(result, Exception):
            raise result
        elsewhere[utterance] = result
    for utterance, result in elsewhere.items():
        assert np.array_equal(result, convert(system, utterance, utterance)), "another process gives another output"


def _convert_job(job: tuple[Anonymizer, int]) -> Samples:
    system, utterance = job
    return convert(system, utterance, utterance)
