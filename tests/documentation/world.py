"""Small data of every kind that the documentation names, and stand-ins for programs that tests do not have."""

from __future__ import annotations

import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import soundfile

from tests.support.conversations import demo_conversation
from tests.support.embedding_caches import voices, write_cache
from tests.support.names_pipeline import write_pipeline_package
from tests.support.small_challenge import make_challenge, make_set, spoken
from tests.support.tdsv_world import make_corpus as make_digits
from voiceveil.audio import save
from voiceveil.corpus import open_corpus, write_kaldi, write_manifest
from voiceveil.testing import synthetic_voice

_COMMAND = Path(__file__).with_name("command.py")
#: Program -> its stand-in. ``pip`` refuses extras that pyproject.toml does not declare.
_PROGRAMS = {
    "voiceveil": f'exec "{sys.executable}" -P "{_COMMAND}" "$@"',
    "python": f'exec "{sys.executable}" -P "$@"',
    "pip": 'for extra in $(echo "$2" | sed "s/.*\\[\\(.*\\)\\].*/\\1/; s/,/ /g"); do '
    f'grep -q "^$extra = " "{_COMMAND.parents[2]}/pyproject.toml"; done',
    "ffmpeg": "head -c 64000 /dev/zero",
    "arecord": "head -c 64000 /dev/zero",
    "aplay": "cat > /dev/null",
}


def make_programs(folder: Path) -> Path:
    """Write the stand-ins into ``folder``, which goes first on the PATH."""
    folder.mkdir()
    for name, script in _PROGRAMS.items():
        program = folder / name
        program.write_text(f"#!/bin/sh\nset -eu\n{script}\n")
        program.chmod(0o755)
    return folder


def make_world(folder: Path) -> Path:
    """Fill ``folder`` with recordings, challenge data, corpora as distributed, lists and keys."""
    _make_recordings(folder)
    data = make_challenge(folder / "data", only=("dev", "emotion"), count=2)
    for name in ("train-clean-360", "train-clean-100"):
        utterances = [
            u
            for g, first in (("f", 90), ("m", 200))
            for u in spoken(data, "train-clean-360", list(range(first, first + 9)), 4, g)
        ]
        make_set(data, name, utterances)
    for name in ("libri_train", "libri_pool"):
        write_kaldi(open_corpus(data / "train-clean-360"), folder / name)
    write_manifest(open_corpus(data / "libri_dev_enrolls"), folder / "list.jsonl")
    _make_librispeech(folder / "corpora" / "LibriSpeech")
    _make_commonvoice(folder / "corpora" / "cv-corpus" / "en")
    _make_embeddings(folder)
    make_digits(folder / "data" / "digits", speakers=24)
    if find_spec("spacy") is not None:
        write_pipeline_package(folder / "site")  # on the PYTHONPATH of all blocks
    for name in ("secret.key", "key"):
        (folder / name).write_bytes(os.urandom(32))
        (folder / name).chmod(0o600)
    return folder


def _make_recordings(folder: Path) -> None:
    for speaker, name in enumerate(("anna", "ben")):
        for index in (1, 2):
            save(folder / "recordings" / name / f"{index}.wav", synthetic_voice(speaker, index, seconds=1.0))
    for speaker, name in enumerate(("ada", "bea", "cem", "dan")):
        for take in (1, 2, 3):
            save(folder / "interviews" / name / f"take {take}.wav", synthetic_voice(speaker, take, seconds=1.0))
    for name in ("interview.wav", "interview.flac"):
        save(folder / name, synthetic_voice(3, 1, seconds=1.5))
    if find_spec("av") is not None:
        from tests.support.media_files import make_media

        for name in ("interview.m4a", "interview.mp4"):
            make_media(folder / name, seconds=1.0)
        conversation = demo_conversation()
        sound = conversation.wave.resampled(48000).samples
        make_media(folder / "talk.mp4", seconds=conversation.wave.duration, samples=sound)
    sides = [synthetic_voice(speaker, 1, seconds=2.0).samples for speaker in (3, 4)]
    soundfile.write(folder / "call.wav", np.stack(sides, axis=1), 16000)


def _make_librispeech(root: Path) -> None:
    subsets = {"dev-clean": range(10, 18), "train-clean-100": range(90, 94), "train-other-500": range(94, 98)}
    lines = []
    for subset, speakers in subsets.items():
        for speaker in speakers:
            lines.append(f"{speaker} | {'FM'[speaker % 2]} | {subset} | 8.0 | Somebody")
            chapter = root / subset / str(speaker) / "100"
            for index in range(4):
                save(chapter / f"{speaker}-100-{index:04d}.flac", synthetic_voice(speaker, index, seconds=0.6))
            texts = "".join(f"{speaker}-100-{index:04d} ONE TWO THREE\n" for index in range(4))
            (chapter / f"{speaker}-100.trans.txt").write_text(texts)
    (root / "SPEAKERS.TXT").write_text("\n".join(lines) + "\n")


def _make_commonvoice(root: Path) -> None:
    """Write a corpus in the layout of Common Voice; one speaker states no gender."""
    rows, lengths = ["client_id\tpath\tsentence\tgender"], ["clip\tduration[ms]"]
    (root / "clips").mkdir(parents=True)
    for speaker in range(22):
        for index in range(8):
            name = f"common_voice_en_{speaker:02d}{index:03d}.mp3"
            wave = synthetic_voice(speaker, index, seconds=0.6)
            soundfile.write(root / "clips" / name, wave.samples, wave.rate)
            gender = "" if speaker == 21 else ("female", "male")[speaker % 2]
            rows.append(f"client{speaker}\t{name}\tHello.\t{gender}")
            lengths.append(f"{name}\t600")
    (root / "validated.tsv").write_text("\n".join(rows) + "\n")
    (root / "clip_durations.tsv").write_text("\n".join(lengths) + "\n")


def _make_embeddings(folder: Path) -> None:
    """Write embeddings of the Common Voice clips as .npz and .parquet: a direction for each speaker, and noise.

    Beside them, embeddings as the challenges' own evaluation leaves them.
    """
    run = folder / "exp" / "asv_anon_b2" / "cosine_out"
    write_cache(run, "libri_dev_enrolls_b2", voices(8, 6, 1))
    write_cache(run, "libri_dev_trials_f_b2", voices(8, 6, 2))
    write_cache(run, "train-clean-360_b2", voices(12, 4, 3, "d"))
    import pyarrow
    import pyarrow.parquet

    rng = np.random.default_rng(1)
    table = (folder / "corpora" / "cv-corpus" / "en" / "validated.tsv").read_text().splitlines()[1:]
    speakers, clips = zip(*(line.split("\t")[:2] for line in table), strict=True)
    centers = {speaker: rng.standard_normal(16) for speaker in sorted(set(speakers))}
    for name, noise in (("orig.npz", 0.3), ("anon.parquet", 2.0)):
        vectors = np.stack([centers[speaker] + noise * rng.standard_normal(16) for speaker in speakers])
        vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
        columns = {"utterance": [Path(clip).stem for clip in clips], "speaker": list(speakers)}
        if name.endswith(".npz"):
            np.savez(folder / name, utterance=columns["utterance"], speaker=columns["speaker"], vector=vectors)
        else:
            pyarrow.parquet.write_table(pyarrow.table({**columns, "vector": vectors.tolist()}), folder / name)


def copy_world(world: Path, folder: Path) -> Path:
    """Return a copy of the world that a page may change."""
    shutil.copytree(world, folder, symlinks=True)
    return folder
