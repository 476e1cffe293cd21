"""A small contest whose submissions are verified."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
from scipy.signal import resample

from tests.support.board_world import submission, tar
from tests.support.small_challenge import Bumps
from voiceveil.apps.board.contest import Contest, create_contest
from voiceveil.apps.board.entries import board_entries
from voiceveil.apps.board.leaderboard import BoardRow, tables
from voiceveil.apps.board.lists import open_set
from voiceveil.apps.board.scoring import score_submission
from voiceveil.apps.board.store import Store
from voiceveil.apps.board.worker import Worker
from voiceveil.apps.web.database import open_database
from voiceveil.apps.web.tokens import Seal, read_key
from voiceveil.audio import Waveform, load
from voiceveil.core.errors import InputError
from voiceveil.corpus import Utterance

SETS = ("libri_dev_enrolls", "libri_dev_trials_f", "libri_dev_trials_m")


RULES = {"verify": "all", "attackers": ("bumps",), "recognizer": "counter", "rank": "verified-only", "tolerance": 0.02}


Audio = dict[str, bytes]


def anonymized(utterance: Utterance) -> Waveform:
    """A poor anonymization: everybody speaks 10% faster and higher, so that voices stay apart."""
    wave = load(utterance.path)
    faster = Waveform(resample(wave.samples, round(len(wave.samples) / 1.1)).astype(np.float32), wave.rate)
    return Waveform((faster.int16() / 32768).astype(np.float32), wave.rate)  # as in a file


def honest(data: Path) -> dict[str, bytes]:
    """Scores of the attacker "bumps" and transcripts of the recognizer "counter", on the anonymized audio."""
    encode = Bumps("bumps")
    members = submission(data, split="dev", errors=0.0)
    enrolled: dict[str, list[np.ndarray]] = {}
    for u in open_set(data / "libri_dev_enrolls"):
        enrolled.setdefault(str(u.speaker), []).append(encode(anonymized(u)))
    means = {speaker: np.mean(vectors, axis=0) for speaker, vectors in enrolled.items()}
    for gender in "fm":
        name = f"libri_dev_trials_{gender}"
        heard = {u.id: encode(anonymized(u)) for u in open_set(data / name)}
        rows = []
        for line in (data / name / "trials").read_text().splitlines():
            speaker, key, _ = line.split()
            a, b = means[speaker], heard[key]
            rows.append(f"{speaker} {key} {a @ b / np.linalg.norm(a) / np.linalg.norm(b):.6f}\n")
        members[f"exp/asv_anon_x/libri_dev_enrolls_x-{name}_x/scores"] = "".join(rows).encode()
    return members


def invented(data: Path) -> dict[str, bytes]:
    """An EER of about 50% and a WER of 0."""
    return submission(data, split="dev", separation=0.0, errors=0.0, seed=3)


class Board:
    """A contest that verifies, without a server."""

    def __init__(self, folder: Path, data: Path, **rules: object) -> None:
        create_contest(folder, Contest("vpc2024", data, "dev", "t", **{**RULES, **rules}))  # type: ignore[arg-type]
        self.folder = folder
        self.contest = Contest.load(folder)
        self.store = Store(open_database(folder / "board.sqlite"))
        self.worker = Worker(folder, self.contest, self.store, Seal(read_key(folder / "key")))

    def upload(self, members: dict[str, bytes], team: str = "A") -> str:
        """What the server does with an upload."""
        from voiceveil.apps.board.worker import put_in_queue

        name = self.store.begin(self.contest, team, "s")
        archive = self.folder / "upload"
        archive.write_bytes(tar(members))
        try:
            judged = score_submission(self.contest, archive)
        except InputError as error:
            self.store.refuse(name, error.what)
            raise
        if judged.has_audio:
            put_in_queue(self.folder, name, archive)
        self.store.score(name, "", judged.figures, verify=judged.has_audio)
        return name

    def status(self, team: str = "A") -> str:
        return self.line(team).status

    def line(self, team: str = "A") -> BoardRow:
        entries = board_entries(self.contest, self.store, time.time())
        shown = [line for table in tables(self.contest, entries) for line in table.lines]
        (found,) = [line for line in shown if line.name == f"{team}/s"]
        return found


def left_over(folder: Path) -> list[str]:
    return [p.name for place in ("waiting", "verifying") for p in (folder / place).glob("*") if p.name != ".lock"]
