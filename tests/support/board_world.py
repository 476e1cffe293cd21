"""Small contests: lists without audio, and correct, false and hostile archives of teams."""

from __future__ import annotations

import io
import tarfile
import wave as wavfile
import zipfile
from pathlib import Path

import numpy as np

from voiceveil.audio import Waveform
from voiceveil.corpus import Corpus, Trials, Utterance, write_kaldi
from voiceveil.evaluation.protocol import load_protocol

WORDS = "ONE TWO THREE FOUR FIVE SIX SEVEN EIGHT".split()  # noqa: SIM905


def make_lists(folder: Path, challenge: str = "vpc2024", split: str = "test", speakers: int = 6) -> Path:
    """Write the Kaldi directories of a split: trials, texts, and names of audio files that do not exist."""
    protocol = load_protocol(challenge)
    rng = np.random.default_rng(1)
    for one in protocol.verification:
        if one.split != split:
            continue
        for trials in one.trials:
            rows, pairs = [], []
            names = [f"{trials.gender or 's'}{n}" for n in range(speakers)]
            for who in names:
                for turn in range(6):
                    key = f"{who}-{trials.set}-{turn}"
                    text = " ".join(rng.choice(WORDS, 6))
                    rows.append(Utterance(key, Path(f"/no/{key}.wav"), who, trials.gender or None, text, seconds=1.0))
                    pairs += [(other, key, other == who) for other in names]
            columns = [np.array(column) for column in zip(*pairs, strict=True)]
            write_kaldi(Corpus(trials.set, tuple(rows), Trials(*columns)), folder / trials.set)
    for heard in protocol.recognition:
        for name in heard.sets if heard.split == split else ():
            if not (folder / name).exists():  # 2022: words of sets that have no trials of their own
                keys = [f"v{n % 4}-{name}-{n}" for n in range(12)]
                spoken = [Utterance(k, Path(f"/no/{k}.wav"), k[:2], "f", "ONE TWO THREE", seconds=1.0) for k in keys]
                write_kaldi(Corpus(name, tuple(spoken)), folder / name)
    return folder


def submission(
    data: Path, challenge: str = "vpc2024", split: str = "test", *, separation: float = 1.0, errors: float = 0.1,
    seed: int = 0, suffix: str = "_x",
) -> dict[str, bytes]:  # fmt: skip
    """Return the members of a correct archive whose summary is false: an EER of 50% and a WER of 0 everywhere."""
    protocol = load_protocol(challenge)
    rng = np.random.default_rng(seed)
    members: dict[str, bytes] = {}
    asv, asr = ("results/ASV-", "results/ASR-") if challenge == "vpc2022" else ("exp/asv_anon{0}/", "exp/asr/")
    for one in protocol.verification:
        if one.split != split:
            continue
        for trials in one.trials:
            name = f"{asv.format(suffix)}{one.enroll}{suffix}-{trials.set}{suffix}"
            lines = (data / trials.set / "trials").read_text().splitlines()
            rows = []
            for line in lines:
                speaker, utterance, label = line.split()
                rows.append(f"{speaker} {utterance} {rng.normal() + separation * (label == 'target'):.6f}")
            members[f"{name}/scores"] = ("\n".join(rows) + "\n").encode()
            members[f"{name}/EER"] = b"0.5\n"
    for heard_sets in protocol.recognition:
        if heard_sets.split != split:
            continue
        rows = []
        for name in heard_sets.sets:
            for line in (data / name / "text").read_text().splitlines():
                key, *words = line.split()
                heard = [word if rng.random() > errors else "WRONG" for word in words]
                rows.append(f"{key} {' '.join(heard)}")
        members[f"{asr}{heard_sets.dataset}_asr{suffix}/text"] = ("\n".join(rows) + "\n").encode()
        members[f"{asr}{heard_sets.dataset}_asr{suffix}/wer"] = b"%WER 0.00 [ 0 / 99, 0 ins, 0 del, 0 sub ]\n"
    members[f"exp/results_summary/result_for_rank{suffix}"] = b"everything is best\n"
    return members


def tar(members: dict[str, bytes], *extra: tarfile.TarInfo) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for info in extra:
            archive.addfile(info, io.BytesIO(b"\0" * info.size))
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def wav_bytes(wave: Waveform) -> bytes:
    """Return the bytes of a 16-bit WAV file."""
    buffer = io.BytesIO()
    with wavfile.open(buffer, "wb") as file:
        file.setparams((1, 2, wave.rate, 0, "NONE", ""))
        file.writeframes(wave.int16().tobytes())
    return buffer.getvalue()


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def zipped(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return buffer.getvalue()
