"""The output does not reveal lengths, content, tags or times of the originals."""

from __future__ import annotations

import gzip
import json
import re
import stat
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import soundfile

import voiceveil as vv
from voiceveil.audio import Samples, info, save
from voiceveil.corpus import Corpus, Utterance, open_corpus, write_kaldi, write_manifest
from voiceveil.systems import batch
from voiceveil.testing import synthetic_voice

anonymize = partial(batch.anonymize, system="b2")

LENGTHS = {"anna-1": 0.3411875, "anna-2": 0.4123125, "bert-1": 0.5234375}  # seconds, of the originals


@dataclass(frozen=True)
class Slower(vv.Anonymizer):
    """Changes the tempo, as veil does: three output samples for two input samples."""

    name = "slower"
    keeps_length = False

    def transform(self, samples: Samples, rng: np.random.Generator) -> Samples:
        """Return the samples, stretched."""
        places = np.linspace(0, len(samples) - 1, len(samples) * 3 // 2)
        return np.interp(places, np.arange(len(samples)), samples).astype(np.float32)


def utterances(folder: Path) -> tuple[Utterance, ...]:
    """Three recordings whose corpus states their lengths."""
    listed = []
    for number, (id, seconds) in enumerate(LENGTHS.items()):
        save(folder / f"{id}.wav", synthetic_voice(number, seconds=seconds))
        listed.append(Utterance(id, folder / f"{id}.wav", speaker=id[:4], text="HELLO", seconds=seconds))
    return tuple(listed)


def make_input(folder: Path, kind: str) -> Path:
    corpus = Corpus("set", utterances(folder / "audio"))
    if kind == "kaldi":
        write_kaldi(corpus, folder / "set")
        return folder / "set"
    if kind == "lhotse":
        pytest.importorskip("lhotse")
        from voiceveil.corpus.lhotse import write_lhotse

        return write_lhotse(corpus, folder / "set")[0]
    if kind == "folder":
        return folder / "audio"
    write_manifest(corpus, folder / f"set.{kind}")
    return folder / f"set.{kind}"


def numbers_in(folder: Path) -> set[float]:
    """Every number in every file of text below the folder."""
    values: set[float] = set()
    for path in folder.rglob("*"):
        if path.is_file() and path.suffix not in (".wav", ".flac") and path.name != "salt":
            data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
            values.update(map(float, re.findall(r"\d+\.\d+", data.decode())))
    return values


@pytest.mark.parametrize("kind", ["kaldi", "csv", "jsonl", "lhotse", "folder"])
def test_output_has_no_original_lengths(tmp_path: Path, kind: str) -> None:
    source = make_input(tmp_path, kind)
    summary = anonymize(source, tmp_path / "out", system=Slower())
    assert summary.failures == ()
    files = {path.stem: path for path in summary.output.rglob("*.wav")}
    assert sorted(files) == sorted(LENGTHS)
    for number in numbers_in(summary.output):
        assert all(abs(number - seconds) > 1e-3 for seconds in LENGTHS.values()), number
    assert summary.audio_seconds == pytest.approx(sum(info(path).duration for path in files.values()))


def test_stated_lengths_are_those_of_the_output(tmp_path: Path) -> None:
    """Also in a resumed run, where lengths of finished recordings come from the ledger."""
    source = make_input(tmp_path, "kaldi")
    first = anonymize(source, tmp_path / "out", system=Slower())
    for _ in range(2):
        for utterance in open_corpus(first.output):
            assert utterance.seconds == pytest.approx(info(utterance.path).duration, abs=1e-6)
            assert utterance.seconds == pytest.approx(1.5 * LENGTHS[utterance.id], abs=1e-3)
        again = anonymize(source, tmp_path / "out", system=Slower())
        assert again.already_done == 3


def test_unstated_lengths_stay_unstated(tmp_path: Path) -> None:
    listed = tuple(Utterance(u.id, u.path, speaker=u.speaker) for u in utterances(tmp_path / "audio"))
    write_kaldi(Corpus("set", listed), tmp_path / "set")
    summary = anonymize(tmp_path / "set", tmp_path / "out", system=Slower())
    assert not (summary.output / "utt2dur").exists()


def test_long_recording_states_its_output_length(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("voiceveil.systems.worker.LONG", 0.1)
    source = make_input(tmp_path, "jsonl")
    summary = anonymize(source, tmp_path / "out", system="b2", rate=8000)
    rows = [json.loads(line) for line in (summary.output / "set.jsonl").read_text().splitlines()]
    for row in rows:
        assert row["seconds"] == pytest.approx(info(summary.output / row["path"]).duration, abs=1e-6)


def test_lhotse_input_gives_lhotse_output(tmp_path: Path) -> None:
    source = make_input(tmp_path, "lhotse")
    summary = anonymize(source, tmp_path / "out", system=Slower())
    after = open_corpus(summary.output / "recordings.jsonl.gz")
    assert [(u.id, u.speaker, u.text) for u in after] == [(id, id[:4], "HELLO") for id in sorted(LENGTHS)]
    assert all(u.seconds == info(u.path).duration for u in after)


# --- The ledger ---------------------------------------------------------------------------------------------------


def ledger_of(output: Path) -> list[dict[str, str]]:
    lines = (output / ".voiceveil" / "ledger.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines[1:]]


def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "secret.key"
    path.write_bytes(b"a secret of thirty-two bytes ok.")
    path.chmod(0o600)
    return path


@pytest.mark.parametrize("keyed", [True, False])
def test_ledger_cannot_confirm_a_candidate_recording(tmp_path: Path, keyed: bool) -> None:
    """Two outputs of the same input have different digests, since they depend on a secret."""
    source = make_input(tmp_path, "folder")
    other = tmp_path / "other.key"
    other.write_bytes(b"another secret, of 30 letters.")
    other.chmod(0o600)
    first = anonymize(source, tmp_path / "1", key_file=key_file(tmp_path) if keyed else None)
    second = anonymize(source, tmp_path / "2", key_file=other if keyed else None)
    digests = [{row["id"]: row["source"] for row in ledger_of(out.output)} for out in (first, second)]
    assert digests[0].keys() == digests[1].keys() == LENGTHS.keys()
    assert not set(digests[0].values()) & set(digests[1].values())


def test_with_a_key_no_secret_is_stored(tmp_path: Path) -> None:
    summary = anonymize(make_input(tmp_path, "folder"), tmp_path / "out", key_file=key_file(tmp_path))
    assert [path.name for path in (summary.output / ".voiceveil").iterdir()] == ["ledger.jsonl"]


def test_salt_is_private_and_lets_a_run_resume(tmp_path: Path) -> None:
    source = make_input(tmp_path, "folder")
    salt = anonymize(source, tmp_path / "out").output / ".voiceveil" / "salt"
    assert stat.S_IMODE(salt.stat().st_mode) == 0o600
    assert len(salt.read_bytes()) == 32
    assert anonymize(source, tmp_path / "out").already_done == 3
    save(source / "anna-1.wav", synthetic_voice(7, seconds=0.3))
    assert anonymize(source, tmp_path / "out").already_done == 2, "an input that changed is done again"
    salt.unlink()
    assert anonymize(source, tmp_path / "out").already_done == 0, "without the salt nobody knows the inputs"


def test_invalid_salt_is_rejected(tmp_path: Path) -> None:
    source = make_input(tmp_path, "folder")
    (tmp_path / "out" / ".voiceveil").mkdir(parents=True)
    (tmp_path / "out" / ".voiceveil" / "salt").write_bytes(b"short")
    with pytest.raises(vv.InputError, match="salt"):
        anonymize(source, tmp_path / "out")
    assert (tmp_path / "out" / ".voiceveil" / "salt").read_bytes() == b"short"


# --- Audio files --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", ["wav", "flac"])
def test_tags_of_the_original_are_removed(tmp_path: Path, format: str) -> None:
    path = tmp_path / "in" / "a.wav"
    path.parent.mkdir()
    with soundfile.SoundFile(path, "w", 16000, 1, "PCM_16") as file:
        for name in ("title", "artist", "comment", "copyright", "date", "software"):
            setattr(file, name, f"Anna Muster {name}")
        file.write(synthetic_voice(1, seconds=0.3).samples)
    assert b"Anna Muster" in path.read_bytes()
    summary = anonymize(path.parent, tmp_path / "out", format=format)
    written = (summary.output / f"a.{format}").read_bytes()
    assert b"Anna" not in written
    assert b"LIST" not in written[:200]
