"""Live: the same as offline whatever the blocks, in time, at a level one can hear; through a pipe and a websocket."""

from __future__ import annotations

import io
import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes.util import find_library
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import voiceveil as vv
from voiceveil.apps.live import Session, Timings, live_system
from voiceveil.apps.live.devices import Callback
from voiceveil.apps.live.pipes import run_pipe
from voiceveil.audio import Samples, Waveform, to_int16
from voiceveil.cli.main import main
from voiceveil.core.errors import InputError
from voiceveil.dsp.loudness import LoudnessFollower
from voiceveil.dsp.mcadams import McAdams
from voiceveil.systems.keys import Key
from voiceveil.testing import synthetic_voice

VOICE = synthetic_voice(3, seconds=1.5).samples
FRAME = 320  # samples: 20 ms


def offline(samples: Samples, seed: int = 1, name: str = "b2") -> Samples:
    """The conversion of the whole, as `voiceveil anonymize --set level=follow` does it."""
    system = vv.system(name, level="follow")
    return system.convert(Waveform(samples, 16000), Key.from_seed(seed).rng("live")).samples


def blocks(samples: Samples, sizes: list[int]) -> Iterator[Samples]:
    """Cut into blocks of these sizes, again and again."""
    at = 0
    while at < len(samples):
        for size in sizes:
            yield samples[at : at + size]
            at += size


# --- The same as offline ------------------------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=25)
@given(
    st.lists(st.integers(1, 3000), min_size=1, max_size=6),
    st.integers(0, len(VOICE)),
    st.sampled_from(["b2", "d1", "b2-2022"]),
    st.integers(0, 5),
)
def test_arbitrary_blocks_equal_the_offline_conversion(sizes: list[int], length: int, name: str, seed: int) -> None:
    session = Session(live_system(name), Key.from_seed(seed))
    out = [session.push(block) for block in blocks(VOICE[:length], sizes)]
    live = np.concatenate([*out, session.close()])
    assert live.shape == (length,)
    assert live.dtype == np.float32
    if length:
        assert np.abs(live - offline(VOICE[:length], seed, name)).max() <= 1e-5


def test_blocks_of_one_sample_equal_the_offline_conversion() -> None:
    session = Session(live_system("b2"), Key.from_seed(1))
    out = [session.push(VOICE[i : i + 1]) for i in range(2000)]
    assert np.abs(np.concatenate([*out, session.close()]) - offline(VOICE[:2000])).max() <= 1e-5


def test_live_differs_from_b2_by_a_slow_gain_only() -> None:
    """What is live differs from McAdams' transformation by a positive gain that moves slowly, and by nothing else."""
    alpha = float(Key.from_seed(1).rng("live").uniform(0.5, 0.9))
    raw = McAdams(alpha)(VOICE)
    live = offline(VOICE)
    heard = (np.abs(raw) > 1e-3 * np.abs(raw).max()) & (np.abs(live) < 1)
    gain = live[heard] / raw[heard]
    assert (gain > 0).all()
    assert np.abs(np.diff(np.log(gain))).max() < 0.5


def test_memory_of_a_long_session_is_bounded() -> None:
    session = Session(live_system("b2"))
    sizes = []
    for _ in range(300):
        session.push(VOICE[:333])
        sizes.append(sum(len(v) for v in vars(session._stream).values() if isinstance(v, np.ndarray)))
    assert max(sizes) < 2 * FRAME + 333


# --- In time ------------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(1, 700), min_size=1, max_size=5))
@settings(max_examples=15)
def test_latency_is_20_ms(sizes: list[int]) -> None:
    session = Session(live_system("b2"))
    assert session.latency == 0.020
    received = returned = 0
    for block in blocks(VOICE[:6000], sizes):
        returned += len(session.push(block))
        received += len(block)
        assert returned >= received - FRAME


def test_output_does_not_depend_on_later_input() -> None:
    """The latency is no trick of bookkeeping: with another future, the samples so far are the same."""
    other = np.concatenate([VOICE[:5000], np.flip(VOICE)[:5000]])
    one, two = offline(VOICE[:10000]), offline(other)
    known = 5000 - FRAME
    assert np.array_equal(one[:known], two[:known])
    assert not np.array_equal(one[known : known + 2 * FRAME], two[known : known + 2 * FRAME])


@given(st.lists(st.integers(1, 700), min_size=1, max_size=5))
@settings(max_examples=15)
def test_devices_get_equal_lengths_20_ms_later(sizes: list[int]) -> None:
    session = Session(live_system("b2"), Key.from_seed(1))
    out = [(len(block), session.exchange(block)) for block in blocks(VOICE[:6000], sizes)]
    assert all(len(given) == size for size, given in out)
    whole = np.concatenate([given for _, given in out])
    assert not whole[:FRAME].any()
    assert np.abs(whole[FRAME:] - offline(VOICE[:6000])[: len(whole) - FRAME]).max() <= 1e-5


def test_timings_are_per_block() -> None:
    timings = Timings()
    assert timings.as_dict()["blocks"] == 0
    taken = np.random.default_rng(0).uniform(0.0, 0.03, 1000)
    for one in taken:
        timings.add(float(one), 0.02)
    row = timings.as_dict()
    assert (row["blocks"], row["late"]) == (1000, int((taken > 0.02).sum()))
    assert [row[k] for k in ("p50", "p99", "worst")] == pytest.approx(1e3 * np.quantile(taken, [0.5, 0.99, 1.0]))
    assert f"late blocks: {row['late']} of 1000" in str(timings)


# --- The level ----------------------------------------------------------------------------------------------------


def slow_follower(source: NDArray[np.float64], result: NDArray[np.float64], start: float, hop: int) -> list[float]:
    """Sample by sample, as the text of the module says."""
    keep = math.exp(-hop / 16000)
    quiet = 1e-8 * hop / (1 - keep)
    inside = outside = 0.0
    gain, scaled = start, []
    for at in range(0, len(result), hop):
        inside = keep * inside + sum(float(x) ** 2 for x in source[at : at + hop])
        outside = keep * outside + sum(float(x) ** 2 for x in result[at : at + hop])
        new = math.sqrt((inside + quiet) / (outside + quiet / start**2))
        new = min(new, 0.99 / max(max(abs(x) for x in result[at : at + hop]), 1e-300))
        count = len(result[at : at + hop])
        for i, x in enumerate(result[at : at + hop], start=1):
            scaled.append(min(max(x * (gain + (new - gain) * i / count), -1.0), 1.0))
        gain = new
    return scaled


@given(st.integers(1, 700), st.floats(0.01, 3.0), st.floats(0.0, 50.0), st.integers(0, 100))
def test_loudness_follower_equals_its_slow_twin(length: int, start: float, loud: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    source = (0.1 * rng.standard_normal(length)).astype(np.float32)
    result = (loud * rng.standard_normal(length)).astype(np.float32)
    follower = LoudnessFollower(160, 16000, start)
    first = length // 160 // 2 * 160
    fast = np.concatenate(
        [follower.push(source[:first], result[:first]), follower.push(source[first:], result[first:])]
    )
    slow = slow_follower(source.astype(float), result.astype(float), start, 160)
    assert np.allclose(fast, slow, atol=1e-5)


@pytest.mark.parametrize("alpha", [0.5, 0.7, 0.9])
@pytest.mark.parametrize("volume", [0.02, 0.5])
def test_output_is_as_loud_as_the_input(alpha: float, volume: float) -> None:
    samples = (volume * VOICE / np.abs(VOICE).max()).astype(np.float32)
    system = vv.system("b2", level="follow", alpha=(alpha, alpha))
    result = system.convert(Waveform(samples, 16000), np.random.default_rng(0)).samples
    change = 20 * np.log10(result[8000:].std() / samples[8000:].std())
    assert abs(change) < 6.0  # dB; unscaled it would be up to 40
    assert (np.abs(result) >= 1).mean() < 1e-3


def test_silence_stays_silent() -> None:
    assert np.abs(offline(np.zeros(16000, dtype=np.float32))).max() < 1e-4


# --- Who one becomes ----------------------------------------------------------------------------------------------


def test_each_session_has_its_own_pseudo_speaker() -> None:
    def spoken(key: Key | None = None) -> Samples:
        return Session(live_system("b2"), key).push(VOICE)

    assert not np.allclose(spoken(), spoken(), atol=1e-3)
    assert np.array_equal(spoken(Key.from_seed(5)), spoken(Key.from_seed(5)))


@pytest.mark.parametrize(
    ("system", "chosen"), [("b2", ["level=peak"]), ("b1b", []), ("d1", ["level=peak"]), ("veil", [])]
)
def test_systems_that_need_the_whole_recording_are_rejected(system: str, chosen: list[str]) -> None:
    with pytest.raises(InputError) as error:
        live_system(system, chosen)
    assert str(error.value) == (
        f"{system} needs the whole recording and cannot run live (use b2, b2-2022, b2-2020 or d1 with level=follow)"
    )


def test_non_finite_sample_is_rejected() -> None:
    with pytest.raises(InputError, match="a sample is not finite"):
        Session(live_system("b2")).push(np.array([0.0, np.nan], dtype=np.float32))


# --- Pipes --------------------------------------------------------------------------------------------------------


@contextmanager
def piped(data: bytes, pieces: list[int]) -> Iterator[io.FileIO]:
    """A pipe into which somebody writes pieces of these sizes."""
    read, write = os.pipe()

    def feed() -> None:
        with os.fdopen(write, "wb", 0) as stream:
            at = 0
            while at < len(data):
                for size in pieces:
                    stream.write(data[at : at + size])
                    at += size

    thread = threading.Thread(target=feed)
    thread.start()
    with os.fdopen(read, "rb", 0) as stream:
        yield stream
    thread.join()


@pytest.mark.parametrize("form", ["s16le", "f32le"])
@pytest.mark.parametrize("pieces", [[1, 3, 777], [65536], [640]])
def test_pipe_accepts_arbitrary_pieces(form: str, pieces: list[int]) -> None:
    samples = VOICE[:8001]
    data = to_int16(samples).tobytes() if form == "s16le" else samples.tobytes()
    heard = to_int16(samples).astype(np.float32) / np.float32(32768) if form == "s16le" else samples
    sink = io.BytesIO()
    with piped(data, pieces) as source:
        run_pipe(Session(live_system("b2"), Key.from_seed(1)), source, sink, form=form, block=100)
    wanted = offline(heard)
    got = np.frombuffer(sink.getvalue(), "<i2" if form == "s16le" else "<f4")
    assert np.abs(got.astype(float) - (to_int16(wanted) if form == "s16le" else wanted)).max() <= 1e-5


def live(*options: str, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "voiceveil.cli.main", "live", *options]
    return subprocess.run(command, input=data, capture_output=True, timeout=120, check=False)


@pytest.mark.slow
def test_command_works_in_a_pipe() -> None:
    samples = VOICE[:16000]
    done = live("--stdin", "--stdout", "--format", "f32le", "--seed", "1", "--block", "10", data=samples.tobytes())
    assert done.returncode == 0, done.stderr
    assert np.abs(np.frombuffer(done.stdout, "<f4") - offline(samples)).max() <= 1e-5
    said = done.stderr.decode()
    assert "b2: latency 20 ms and one block of 10 ms" in said
    assert "processing a block: p50 " in said
    assert " of 100" in said


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "no input and output are given (give --stdin --stdout, or --input DEVICE --output DEVICE, or --serve)"),
        (["--stdin"], "an input without its output, or an output without its input, is given"),
        (["--stdin", "--stdout", "--serve"], "several inputs or outputs are given"),
        (["--input", "x"], "an input without its output, or an output without its input, is given"),
        (["--stdin", "--stdout", "--block", "0"], "--block 0 is out of range (give 1 to 1000 milliseconds)"),
        (["--stdin", "--stdout", "--system", "b3"], "unknown system 'b3'"),
    ],
)
def test_invalid_options_are_rejected(options: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["live", *options]) == 1
    assert f"voiceveil live: {message}" in capsys.readouterr().err


def test_incomplete_last_sample_is_an_error_after_the_rest() -> None:
    sink = io.BytesIO()
    data = to_int16(VOICE[:1000]).tobytes() + b"\x01"
    with pytest.raises(InputError, match=r"^the input ends in the middle of a sample \(is it s16le\? see --format\)"):
        run_pipe(Session(live_system("b2")), io.BytesIO(data), sink)
    assert len(sink.getvalue()) == 2000


# --- Devices ------------------------------------------------------------------------------------------------------


def test_device_callback_converts_and_counts_errors() -> None:
    """Blocks of the driver in, the conversion 20 ms later out; its complaints are counted, our errors are kept."""
    callback = Callback(Session(live_system("b2"), Key.from_seed(1)))
    played = []
    for index, block in enumerate(blocks(VOICE[:6400], [320])):
        out = np.full((320, 1), 9.0, dtype=np.float32)
        callback(block[:, None], out, 320, None, index == 3)
        played.append(out[:, 0].copy())
    assert callback.dropped == 1
    assert np.abs(np.concatenate(played)[FRAME:] - offline(VOICE[:6400])[:-FRAME]).max() <= 1e-5
    out = np.full((320, 1), 9.0, dtype=np.float32)
    callback(np.full((320, 1), np.inf, dtype=np.float32), out, 320, None, False)
    assert not out.any()
    assert callback.ended.is_set()
    assert isinstance(callback.error, InputError)


MICROPHONE_AND_WIRE = """\
</usr/share/alsa/alsa.conf>
pcm.voiceveil_nothing {{ type null }}
pcm.voiceveil_mic {{ type file slave.pcm voiceveil_nothing format raw infile {folder}/in.raw file /dev/null }}
pcm.voiceveil_wire {{ type file slave.pcm voiceveil_nothing format raw file {folder}/out.raw }}
"""


@pytest.fixture
def sound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is a sound card: ``voiceveil_mic`` hears in.raw, ``voiceveil_wire`` writes out.raw (float32)."""
    if find_library("portaudio") is None or not Path("/usr/share/alsa/alsa.conf").exists():
        pytest.skip("no PortAudio with ALSA (apt install libportaudio2)")
    (tmp_path / "asound.conf").write_text(MICROPHONE_AND_WIRE.format(folder=tmp_path))
    monkeypatch.setenv("ALSA_CONFIG_PATH", str(tmp_path / "asound.conf"))
    VOICE.tofile(tmp_path / "in.raw")
    return tmp_path


@pytest.mark.slow
def test_command_works_between_devices(sound: Path) -> None:
    """By PortAudio, until Ctrl-C: what is played is the conversion of what was heard."""
    assert b"voiceveil_mic, ALSA" in live("--devices").stdout
    played = sound / "out.raw"
    options = ["--input", "voiceveil_mic", "--output", "voiceveil_wire", "--seed", "1", "--block", "10"]
    command = [sys.executable, "-m", "voiceveil.cli.main", "live", *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        while process.poll() is None and not (played.exists() and played.stat().st_size > 8 * len(VOICE)):
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        try:
            said = process.communicate(timeout=60)[1]
        finally:
            process.kill()
    assert process.returncode == 0, said
    assert "b2: latency 20 ms and one block of 10 ms" in said
    assert "blocks that the driver dropped: " in said
    assert "processing a block: p50 " in said
    whole, wanted = np.fromfile(played, "<f4"), offline(VOICE)[: len(VOICE) - FRAME]
    begin = int(np.flatnonzero(whole)[0]) - int(np.flatnonzero(wanted)[0])
    assert begin >= FRAME  # the latency, and what the driver had waiting
    assert np.abs(whole[begin : begin + len(wanted)] - wanted).max() <= 1e-5


@pytest.mark.slow
def test_missing_device_is_rejected(sound: Path) -> None:
    done = live("--input", "voiceveil_mic", "--output", "voiceveil_tape")
    assert done.returncode == 1
    said = done.stderr.decode()
    assert "voiceveil live: cannot use the devices: " in said
    assert "voiceveil_tape" in said
    assert "(see `voiceveil live --devices`)" in said


def test_aborting_sound_system_is_reported(sound: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PortAudio ends its process where ALSA is not configured at all."""
    monkeypatch.setenv("ALSA_CONFIG_PATH", str(sound / "nothing.conf"))
    done = live("--devices")
    assert done.returncode == 1
    assert "voiceveil live: the sound system of this machine does not start" in done.stderr.decode()


# --- The websocket ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """Where ``voiceveil live --serve`` listens, with room for three."""
    pytest.importorskip("websockets")
    options = ["--serve", "--port", "0", "--seed", "1", "--sessions", "3"]
    command = [sys.executable, "-m", "voiceveil.cli.main", "live", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        assert said.startswith("b2: speak into http://127.0.0.1:"), said
        yield said.split("//")[1].split()[0]
        process.terminate()


@contextmanager
def connected(server: str, origin: str | None = None) -> Iterator[object]:
    from websockets.sync.client import connect

    with connect(f"ws://{server}/stream", proxy=None, origin=origin, open_timeout=30) as socket:  # type: ignore[arg-type]
        yield socket


def converse(
    server: str, data: list[bytes | str], origin: str | None = None
) -> tuple[bytes, list[dict[str, float]], int]:
    """Send messages; the audio that comes back, what was said of it, and the code that it was closed with."""
    from websockets.exceptions import ConnectionClosed

    audio, texts = b"", []
    with connected(server, origin) as socket:
        try:
            for message in data:
                socket.send(message)  # type: ignore[attr-defined]
            while True:
                answer = socket.recv(timeout=60)  # type: ignore[attr-defined]
                if isinstance(answer, bytes):
                    audio += answer
                else:
                    texts.append(json.loads(answer))
        except ConnectionClosed:
            return audio, texts, int(socket.close_code)  # type: ignore[attr-defined]


def test_websocket_converts_audio(server: str) -> None:
    samples = VOICE[:16000]
    audio, texts, code = converse(server, [*(b.tobytes() for b in blocks(samples, [160, 50, 1000])), "end"])
    assert code == 1000
    assert np.abs(np.frombuffer(audio, "<f4") - offline(samples)).max() <= 1e-5
    assert texts[-1]["blocks"] == len([b for b in blocks(samples, [160, 50, 1000]) if len(b)])
    assert 0 < texts[-1]["p50"] <= texts[-1]["p99"] <= texts[-1]["worst"]


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (b"\0" * 5, 1007),
        (b"\0" * 64004, 1009),
        (np.array([np.nan], "<f4").tobytes(), 1007),
        ("hello", 1007),
    ],
)
def test_invalid_messages_end_the_session(server: str, message: bytes | str, code: int) -> None:
    assert converse(server, [message])[2] == code


@pytest.mark.slow
def test_other_sites_and_too_many_sessions_are_rejected(server: str) -> None:
    assert converse(server, ["end"], "https://evil.example")[2] == 1008
    assert converse(server, ["end"], f"http://{server}")[2] == 1000
    with connected(server), connected(server), connected(server):
        assert converse(server, ["end"])[2] == 1013
    for _ in range(100):  # the server notices that they have left
        if converse(server, ["end"])[2] == 1000:
            return
    raise AssertionError("no room was made")
