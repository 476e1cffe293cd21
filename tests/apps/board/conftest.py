"""A small contest with verification, for all tests of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.board_verification import SETS, Audio, Board, anonymized
from tests.support.board_world import wav_bytes
from tests.support.small_challenge import Counter, make_challenge
from voiceveil.apps.board.lists import open_set
from voiceveil.corpus import open_corpus, write_kaldi


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Development sets with audio, whose texts are the words that the recognizer hears in anonymized speech."""
    folder = make_challenge(tmp_path_factory.mktemp("data"), only=("dev",))
    for name in SETS:
        corpus = open_corpus(folder / name)
        spoken = tuple(replace(u, text=Counter()(anonymized(u))) for u in corpus)
        write_kaldi(replace(corpus, utterances=spoken), folder / name)
    return folder


@pytest.fixture(scope="module")
def audio(data: Path) -> Audio:
    """The members of an archive with all anonymized audio."""
    return {f"data/{name}_x/wav/{u.id}.wav": wav_bytes(anonymized(u)) for name in SETS for u in open_set(data / name)}


@pytest.fixture
def board(data: Path, tmp_path: Path) -> Board:
    return Board(tmp_path / "contest", data)
