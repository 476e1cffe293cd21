"""Recordings keep their formats, videos their picture and their timing; nothing else of a media file is copied."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import soundfile

import voiceveil as vv
from tests.support.audio_files import tone
from tests.support.media_files import FORMATS, av, bursts, make_media, packets
from voiceveil.audio import Samples, info
from voiceveil.core.errors import InputError
from voiceveil.systems import Anonymizer, anonymize
from voiceveil.testing import synthetic_voice

pytestmark = pytest.mark.filterwarnings("ignore::voiceveil.audio.MixedDownWarning")
VIDEOS = [suffix for suffix, row in FORMATS.items() if row[4]]


@pytest.mark.parametrize("suffix", FORMATS)
def test_output_has_container_codec_rate_and_channels_of_the_input(suffix: str, tmp_path: Path) -> None:
    source = make_media(tmp_path / f"a{suffix}", tags=True)
    summary = anonymize(source, tmp_path / "out", system="b2", seed=1)
    assert summary.output == tmp_path / "out" / f"a{suffix}"
    before, after = info(source), info(summary.output)
    for name in ("container", "codec", "rate", "channels", "has_picture"):
        assert getattr(after, name) == getattr(before, name), name
    lost = 0.1 if suffix == ".wma" else 0.06  # frames that the WMA decoder leaves out at the beginning
    assert after.duration == pytest.approx(before.duration, abs=lost)


@pytest.mark.parametrize("suffix", FORMATS)
def test_no_tags_are_copied(suffix: str, tmp_path: Path) -> None:
    source = make_media(tmp_path / f"a{suffix}", tags=True)
    output = anonymize(source, tmp_path / "out", system="b2", seed=1).output
    if FORMATS[suffix][0] not in {"adts", "amr", "mpegts"}:
        assert b"Jane" in source.read_bytes().replace(b"\0", b"")
    written = output.read_bytes()
    for trace in (b"Jane", b"48.8577", *(() if FORMATS[suffix][4] else (b"Lavc6", b"Lavf6"))):  # a picture has its own
        assert trace not in written


@pytest.mark.parametrize("suffix", VIDEOS)
def test_picture_is_copied_bit_for_bit(suffix: str, tmp_path: Path) -> None:
    source = make_media(tmp_path / f"a{suffix}")
    output = anonymize(source, tmp_path / "out", system="b2", seed=1).output
    before, after = packets(source), packets(output)
    assert [data for data, _ in after] == [data for data, _ in before]
    assert packets(output, "audio") != packets(source, "audio")
    shift = [new - old for (_, new), (_, old) in zip(after, before, strict=True)]
    assert max(shift) - min(shift) < 0.002


@pytest.mark.parametrize("delay", [0.0, 0.4])
@pytest.mark.parametrize("suffix", VIDEOS)
def test_sound_stays_in_sync_with_the_picture(suffix: str, delay: float, tmp_path: Path) -> None:
    """The time from the first picture to each burst of sound is that of the original, to 20 ms."""
    if suffix == ".avi" and delay:
        pytest.skip("AVI has no times: the sound begins with the picture")
    source = make_media(tmp_path / f"a{suffix}", delay=delay)
    output = anonymize(source, tmp_path / "out", system="identity").output
    before, after = onsets(source), onsets(output)
    np.testing.assert_allclose(after, before, atol=0.02)


def onsets(path: Path) -> np.ndarray:
    """Return the times of the bursts of sound in seconds, from the first picture on."""
    picture = min(time for _, time in packets(path))
    with av.open(str(path)) as container:
        frames = [frame for frame in container.decode(container.streams.audio[0]) if frame.samples]
        times, levels = [], []
        for frame in frames:
            sound = frame.to_ndarray().astype(np.float64)
            sound = sound[0] if frame.format.is_planar else sound[0, :: len(frame.layout.channels)]
            times.append(frame.time + np.arange(len(sound)) / frame.sample_rate)
            levels.append(np.abs(sound))
    time, level = np.concatenate(times), np.concatenate(levels)
    loud = level > 0.3 * level.max()
    begins = [time[i] for i in np.flatnonzero(loud) if not loud[max(0, i - 2000) : i].any()]
    return np.array(begins) - picture


def test_rotation_of_a_video_is_kept(tmp_path: Path) -> None:
    """Phones record lying and say in the header how to turn the picture."""
    source = make_media(tmp_path / "a.mp4")
    data = bytearray(source.read_bytes())
    upright = b"".join(number.to_bytes(4) for number in (1 << 16, 0, 0, 0, 1 << 16, 0, 0, 0, 1 << 30))
    turned = b"".join(n.to_bytes(4, signed=True) for n in (0, 1 << 16, 0, -(1 << 16), 0, 0, 0, 0, 1 << 30))
    at = data.index(upright, data.index(b"tkhd"))
    data[at : at + 36] = turned
    source.write_bytes(data)
    output = anonymize(source, tmp_path / "out", system="b2", seed=1).output
    assert turned in output.read_bytes()


def test_other_tracks_are_left_out_and_counted(tmp_path: Path) -> None:
    """A second microphone, subtitles and attachments would tell what the first track hides."""
    source = tmp_path / "a.mkv"
    with av.open(str(source), "w") as output:
        streams = [output.add_stream("pcm_s16le", rate=16000, layout="mono") for _ in range(2)]
        for stream in streams:
            frame = av.AudioFrame.from_ndarray((bursts(16000, 1.0) * 32767).astype(np.int16)[None], "s16", "mono")
            frame.sample_rate, frame.pts = 16000, 0
            output.mux(stream.encode(frame))
    summary = anonymize(source, tmp_path / "out", system="b2", seed=1)
    assert summary.tracks_left_out == 1
    assert "1 further audio track(s) were left out" in str(summary)
    assert info(summary.output).tracks == 1


def test_folder_with_one_stem_in_two_formats_keeps_both(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for suffix in (".m4a", ".amr"):
        make_media(tmp_path / "in" / f"a{suffix}")
    vv.save(tmp_path / "in" / "a.mp3", tone(300))
    summary = anonymize(tmp_path / "in", tmp_path / "out", system="b2", seed=1)
    assert summary.failures == ()
    assert {p.name for p in (tmp_path / "out").glob("a*")} == {"a.m4a", "a.amr", "a.mp3"}
    wav = anonymize(tmp_path / "in", tmp_path / "wav", system="b2", seed=1, format="wav")
    assert {p.name for p in wav.output.glob("a*")} == {"a.m4a.wav", "a.amr.wav", "a.mp3.wav"}


def test_damaged_media_file_fails_as_one_item(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    data = make_media(tmp_path / "in" / "good.m4a").read_bytes()
    (tmp_path / "in" / "cut.m4a").write_bytes(data[: len(data) // 2])
    (tmp_path / "in" / "list.mp4").write_text("#EXTM3U\n#EXTINF:9,\ngood.m4a\n")
    (tmp_path / "in" / "empty.webm").touch()
    summary = anonymize(tmp_path / "in", tmp_path / "out", system="b2", seed=1)
    assert (summary.done, [failure.id for failure in summary.failures]) == (1, ["cut", "empty", "list"])


@pytest.mark.parametrize("suffix", [".m4a", ".webm", ".mkv", ".mp4", ".opus", ".mp3", ".ogg", ".wma", ".avi"])
def test_same_input_and_seed_give_the_same_bytes(suffix: str, tmp_path: Path) -> None:
    source = tmp_path / f"a{suffix}"
    if suffix in FORMATS:
        make_media(source)
    else:
        vv.save(source, tone(300))
    first = anonymize(source, tmp_path / "x", system="b2", seed=1).output
    if suffix == ".ogg":
        time.sleep(1.1)  # libsndfile's serial numbers are of the second
    second = anonymize(source, tmp_path / "y", system="b2", seed=1).output
    assert first.read_bytes() == second.read_bytes()


def test_depth_and_telephone_codecs_of_wav_files_are_kept(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for subtype in ("PCM_16", "PCM_24", "ULAW"):
        soundfile.write(tmp_path / "in" / f"{subtype}.wav", tone(300).samples, 44100, subtype=subtype)
    output = anonymize(tmp_path / "in", tmp_path / "out", system="b2", seed=1).output
    for subtype in ("PCM_16", "PCM_24", "ULAW"):
        header = soundfile.info(output / f"{subtype}.wav")
        assert (header.subtype, header.samplerate) == (subtype, 44100)


def test_format_and_rate_can_be_chosen(tmp_path: Path) -> None:
    source = make_media(tmp_path / "a.mp4")
    sound = anonymize(source, tmp_path / "b.wav", system="b2", seed=1, rate=8000).output
    assert (soundfile.info(sound).samplerate, soundfile.info(sound).channels) == (8000, 2)
    copied = anonymize(source, tmp_path / "b.mkv", system="b2", seed=1).output
    assert info(copied).has_picture
    with pytest.raises(InputError, match="unknown format 'mp5'"):
        anonymize(source, tmp_path / "out", format="mp5")


def test_corpus_in_memory_becomes_wav_at_the_rate_of_the_system(tmp_path: Path) -> None:
    source = make_media(tmp_path / "a.m4a")
    corpus = vv.open_corpus(tmp_path)
    output = anonymize(corpus, tmp_path.parent / f"{tmp_path.name}-out", system="b2", seed=1).output
    header = soundfile.info(output / "a.wav")
    assert (header.samplerate, header.channels, header.subtype) == (16000, 1, "PCM_16")
    assert source.is_file()


def test_summary_tells_length_and_bandwidth_in_words(tmp_path: Path) -> None:
    source = make_media(tmp_path / "a.m4a")
    text = str(anonymize(source, tmp_path / "out", system="b2", seed=1))
    assert "length: 0:02, as before" in text
    assert "1 recording(s) could hold frequencies above 8 kHz: new voices lack them" in text


# --- Timing -------------------------------------------------------------------------------------------------------


def test_timing_is_kept_by_systems_that_change_it() -> None:
    veil = vv.system("veil").with_timing_kept()
    assert (veil.parameters()["tempo"], veil.parameters()["rhythm"]) == (0.0, 0.0)
    speech = synthetic_voice(1, 2, seconds=20.0)
    for seed in range(3):
        rng = np.random.default_rng(seed)
        assert len(vv.system("i1").with_timing_kept().convert(speech, rng)) == pytest.approx(len(speech), abs=8)
    b2 = vv.system("b2")
    assert b2.with_timing_kept() is b2


@dataclass(frozen=True)
class Hurried(Anonymizer):
    """Leaves out every second sample, whatever it is told."""

    keeps_length: ClassVar[bool] = False

    def transform(self, samples: Samples, rng: np.random.Generator) -> Samples:
        return samples[::2]


def test_system_that_cannot_keep_the_timing_is_refused_for_videos(tmp_path: Path) -> None:
    source = make_media(tmp_path / "a.mp4")
    with pytest.raises(InputError, match="cannot keep the timing of a recording"):
        anonymize(source, tmp_path / "b.mp4", system=Hurried())
    with pytest.raises(InputError, match="cannot keep the timing of a recording"):
        anonymize(source, tmp_path / "b.wav", system=Hurried(), keep_timing=True)
    summary = anonymize(source, tmp_path / "c.mp4", system=Hurried(), keep_timing=False)
    assert "length: 0:02 became 0:01" in str(summary)


def test_run_with_kept_timing_is_not_mixed_with_another(tmp_path: Path) -> None:
    vv.save(tmp_path / "in" / "a.wav", synthetic_voice(1, 2, seconds=3.0))
    kept = anonymize(tmp_path / "in", tmp_path / "out", system="i1", seed=1, keep_timing=True)
    assert kept.keeps_length
    with pytest.raises(InputError, match="holds the results of another run: keep_timing"):
        anonymize(tmp_path / "in", tmp_path / "out", system="i1", seed=1)
