"""Media files that PyAV reads: lengths, rates, sync, and files that are damaged, false or dangerous."""

from __future__ import annotations

import struct
import tracemalloc
import warnings
from contextlib import suppress
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from tests.support.media_files import FORMATS, av, bursts, make_media
from voiceveil.audio import MixedDownWarning, info, load, open_audio, read_blocks
from voiceveil.audio.media import media_info
from voiceveil.core.errors import InputError

pytestmark = pytest.mark.filterwarnings("ignore::voiceveil.audio.MixedDownWarning")


@pytest.mark.parametrize("suffix", FORMATS)
def test_every_format_is_read_with_its_rate_channels_and_length(suffix: str, tmp_path: Path) -> None:
    path = make_media(tmp_path / f"a{suffix}")
    _, _, rate, layout, picture = FORMATS[suffix]
    header, wave = info(path), load(path)
    assert (header.rate, header.channels) == (rate, 2 if layout == "stereo" else 1)
    assert abs(header.duration - 2.0) < 0.1
    assert abs(wave.duration - header.duration) < 0.05
    assert media_info(path).video_streams == (picture is not None)
    expected = bursts(rate, 2.0)
    assert (
        _lag(wave.samples, expected, rate) < 0.05
    )  # a frame of the encoder, where the format does not state its delay


def _lag(samples: np.ndarray, expected: np.ndarray, rate: int) -> float:
    """Return by how many seconds the envelope of a sound is away from the expected one."""
    hop = rate // 200

    def envelope(sound: np.ndarray) -> np.ndarray:
        level = np.sqrt(np.square(sound[: len(sound) // hop * hop].reshape(-1, hop)).mean(axis=1))
        return np.asarray(level - level.mean())

    correlation = np.correlate(envelope(samples), envelope(expected), mode="full")
    return abs(int(correlation.argmax()) - (len(expected) // hop - 1)) / 200


def test_part_of_a_media_file_is_read(tmp_path: Path) -> None:
    path = make_media(tmp_path / "a.m4a")
    whole, part = load(path), load(path, start=0.5, duration=0.75)
    np.testing.assert_array_equal(part.samples, whole.samples[22050 : 22050 + 33075])
    with pytest.raises(InputError, match=r"has 2 s, but 1\.5 to 2\.5 s are asked for"):
        load(path, start=1.5, duration=1.0)


def test_blocks_are_the_whole_recording(tmp_path: Path) -> None:
    path = make_media(tmp_path / "a.webm")
    with open_audio(path) as file:
        blocks = list(read_blocks(file, path, size=3000))
    assert max(map(len, blocks)) <= 3000
    np.testing.assert_array_equal(np.concatenate(blocks), load(path).samples)


def test_gaps_in_the_timestamps_become_silence(tmp_path: Path) -> None:
    """As in a screen recording whose microphone was muted for a while."""
    path = tmp_path / "a.mkv"
    with av.open(str(path), "w", format="matroska") as output:
        stream = output.add_stream("pcm_s16le", rate=16000, layout="mono")
        for start in (0, 24000):
            frame = av.AudioFrame.from_ndarray(np.full((1, 8000), 10000, np.int16), "s16", "mono")
            frame.sample_rate, frame.pts, frame.time_base = 16000, start, Fraction(1, 16000)
            output.mux(stream.encode(frame))
        output.mux(stream.encode(None))
    samples = load(path).samples
    assert len(samples) == 32000
    assert not samples[8000:24000].any()
    assert (samples[24000:] > 0.3).all()


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("suffix", sorted(FORMATS.keys() - {".mts"}))  # which has no length and may end anywhere
def test_truncated_media_file_is_rejected(suffix: str, share: float, tmp_path: Path) -> None:
    data = make_media(tmp_path / f"whole{suffix}").read_bytes()
    path = tmp_path / f"a{suffix}"
    path.write_bytes(data[: int(share * len(data))])
    with pytest.raises(InputError):
        load(path)


@pytest.mark.parametrize(
    "content", [b"", b"\0" * 4096, b"ftyp", b"\0\0\0\x1cftypM4A not really", b"<html></html>" * 99]
)
@pytest.mark.parametrize("suffix", [".m4a", ".webm", ".mp3", ".wma"])
def test_what_is_no_media_file_is_rejected(suffix: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / f"a{suffix}").write_bytes(content)
    with pytest.raises(InputError, match=r"not readable as audio|the file is empty|no sound"):
        load(tmp_path / f"a{suffix}")


def test_the_content_decides_not_the_name(tmp_path: Path) -> None:
    path = make_media(tmp_path / "a.wav", suffix=".m4a")
    assert load(path).rate == 44100


PLAYLISTS = {
    "a.m3u8": "#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\n{target}\n#EXT-X-ENDLIST\n",
    "a.mp4": "#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\n{target}\n#EXT-X-ENDLIST\n",
    "a.ffconcat": "ffconcat version 1.0\nfile '{target}'\n",
    "a.m4a": "ffconcat version 1.0\nfile '{target}'\n",
    "a.sdp": "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=audio 5004 RTP/AVP 0\n",
    "a.mpd": '<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011"><BaseURL>{target}</BaseURL></MPD>',
    "a.asx": "[Reference]\nRef1={target}\n",
}


@pytest.mark.parametrize("target", ["secret.m4a", "http://127.0.0.1:9/x.m4a", "file:///etc/passwd"])
@pytest.mark.parametrize("name", PLAYLISTS)
def test_playlists_open_no_other_file(name: str, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_media(tmp_path / "secret.m4a")
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text(PLAYLISTS[name].format(target=target))
    with pytest.raises(InputError, match="not readable as audio"):
        load(tmp_path / name)


def test_reference_to_another_file_in_a_movie_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A QuickTime movie may hold only a table of samples of another file, which its `alis` names."""
    path = make_media(tmp_path / "a.mov")
    data = bytearray(path.read_bytes())
    at = data.rindex(b"url \0\0\0\1")  # of the sound: "in this file"
    data[at : at + 8] = b"url \0\0\0\0"
    path.write_bytes(data)
    opened: list[str] = []
    monkeypatch.setattr("builtins.open", lambda name, *_: opened.append(str(name)))
    with suppress(InputError):
        load(path)
    assert not opened


def test_timestamps_of_years_are_rejected(tmp_path: Path) -> None:
    path = tmp_path / "a.mkv"
    with av.open(str(path), "w", format="matroska") as output:
        stream = output.add_stream("pcm_s16le", rate=16000, layout="mono")
        for start in (0, 16000 * 3600 * 24 * 365):
            frame = av.AudioFrame.from_ndarray(np.zeros((1, 8000), np.int16), "s16", "mono")
            frame.sample_rate, frame.pts, frame.time_base = 16000, start, Fraction(1, 16000)
            output.mux(stream.encode(frame))
    with pytest.raises(InputError, match="its timestamps cover 8760 hours; up to 48 can be read"):
        info(path)


@pytest.mark.parametrize(("box", "offset"), [(b"stsz", 12), (b"stts", 12), (b"stsc", 16), (b"stts", 16)])
def test_counts_of_billions_in_a_header_take_no_memory(box: bytes, offset: int, tmp_path: Path) -> None:
    """A table of 2 billion samples would take 48 GB."""
    path = make_media(tmp_path / "a.m4a")
    data = bytearray(path.read_bytes())
    at = data.index(box) + offset
    data[at : at + 4] = struct.pack(">I", 2**31 - 1)
    path.write_bytes(data)
    before = _resident()
    with suppress(InputError):
        load(path)
    assert _resident() - before < 200_000_000


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.slow
def test_silence_of_hours_in_a_small_file_is_read_in_blocks(tmp_path: Path) -> None:
    """An hour of stereo silence as ALAC or Opus takes little space; 1.4 GB as floats."""
    path = tmp_path / "a.mka"
    with av.open(str(path), "w", format="matroska") as output:
        stream = output.add_stream("libopus", rate=48000, layout="stereo")
        stream.codec_context.bit_rate = 6000
        for number in range(600):
            frame = av.AudioFrame.from_ndarray(np.zeros((1, 2 * 48000), np.int16), "s16", "stereo")
            frame.sample_rate, frame.pts, frame.time_base = 48000, number * 48000, Fraction(1, 48000)
            output.mux(stream.encode(frame))
        output.mux(stream.encode(None))
    tracemalloc.start()
    try:
        with open_audio(path) as file:
            assert sum(map(len, read_blocks(file, path, size=1 << 16))) / 48000 == pytest.approx(600, abs=0.1)
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


def test_file_without_sound_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "a.mp4"
    with av.open(str(path), "w") as output:
        video = output.add_stream("mpeg4", rate=25)
        video.width, video.height, video.pix_fmt = 64, 48, "yuv420p"
        output.mux(video.encode(av.VideoFrame(64, 48, "yuv420p")))
        output.mux(video.encode(None))
    with pytest.raises(InputError, match="there is no sound in this file"):
        load(path)


def test_more_streams_than_any_recording_has_are_rejected(tmp_path: Path) -> None:
    path = tmp_path / "a.mkv"
    with av.open(str(path), "w") as output:
        streams = [output.add_stream("pcm_s16le", rate=16000, layout="mono") for _ in range(100)]
        for stream in streams:
            frame = av.AudioFrame.from_ndarray(np.zeros((1, 800), np.int16), "s16", "mono")
            frame.sample_rate, frame.pts, frame.time_base = 16000, 0, Fraction(1, 16000)
            output.mux(stream.encode(frame))
    with pytest.raises(InputError, match=r"not readable|streams"):
        load(path)


def test_channels_are_averaged_with_a_warning(tmp_path: Path) -> None:
    path = make_media(tmp_path / "a.m4a")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        load(path)
    assert [warning.category for warning in caught] == [MixedDownWarning]
