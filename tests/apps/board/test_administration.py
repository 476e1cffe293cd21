"""A contest as its organizer manages it: rules, teams, tokens, submissions, the running board."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.board_world import make_lists
from voiceveil.apps.board.administration import (
    add_team,
    list_board,
    new_contest,
    remove_submission,
    revoke_team,
    revoke_team_token,
    running_board,
    set_up_contest,
)
from voiceveil.apps.board.contest import Contest
from voiceveil.apps.board.store import Store
from voiceveil.apps.web.database import open_database
from voiceveil.apps.web.tokens import Revocations, Seal, read_key
from voiceveil.core.errors import InputError

URL = "https://board.example.org/"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_lists(tmp_path_factory.mktemp("data"))


@pytest.fixture
def folder(data: Path, tmp_path: Path) -> Path:
    set_up_contest(tmp_path / "contest", new_contest("vpc2024", data, title="T"))
    return tmp_path / "contest"


def test_defaults_follow_from_the_audio_that_is_required(data: Path) -> None:
    plain = new_contest("vpc2024", data, title="T")
    assert (plain.split, plain.verify, plain.rank) == ("test", "none", "verified-first")
    with_audio = new_contest("vpc2024", data, require_audio=True, title="T")
    assert (with_audio.verify, with_audio.rank) == ("all", "verified-only")
    sample = new_contest("vpc2024", data, verify=20, rank="verified-first", title="T")
    assert (sample.verify, sample.rank) == (20, "verified-first")
    with pytest.raises(InputError, match="verify is 0"):
        new_contest("vpc2024", data, verify=0, title="T")


def test_contest_is_not_set_up_inside_its_data(data: Path) -> None:
    inside = next(path for path in data.iterdir() if path.is_dir()) / "contest"
    with pytest.raises(InputError, match="the output lies inside the input"):
        set_up_contest(inside, new_contest("vpc2024", data, title="T"))
    assert not inside.exists()


def revocations(folder: Path) -> Revocations:
    return Revocations(open_database(folder / "board.sqlite"))


def test_tokens_of_teams_are_made_and_revoked(folder: Path) -> None:
    first = add_team(folder, "Team A", url=URL, days=2)
    second = add_team(folder, "Team A", url=URL, days=2)
    assert (first.is_new, second.is_new) == (True, False)
    assert first.link == f"https://board.example.org/team/{first.token}"
    seal = Seal(read_key(folder / "key"))
    contents = [seal.open("team", team.token) for team in (first, second)]
    assert revoke_team_token(folder, first.link) == "Team A"
    assert [revocations(folder).has("Team A", content) for content in contents] == [True, False]
    revoke_team(folder, "Team A")
    assert all(revocations(folder).has("Team A", content) for content in contents)
    with pytest.raises(InputError, match="unknown team 'Team B'"):
        revoke_team(folder, "Team B")


@pytest.mark.parametrize(
    ("name", "url", "days", "message"),
    [
        ("<b>", URL, 2, "'<b>' cannot be the name of a team"),
        ("A", "board.example.org", 2, "--url 'board.example.org' is not the address of a server"),
        ("A", URL, 0, "--days 0 is out of range"),
        ("A", URL, float("nan"), "--days nan is out of range"),
    ],
)
def test_unusable_teams_and_links_are_rejected(folder: Path, name: str, url: str, days: float, message: str) -> None:
    with pytest.raises(InputError, match=message):
        add_team(folder, name, url=url, days=days)


def test_submissions_are_listed_and_removed(folder: Path) -> None:
    store = Store(open_database(folder / "board.sqlite"))
    add_team(folder, "A", url=URL, days=2)
    id = store.begin(Contest.load(folder), "A", "b2")
    store.score(id, "0" * 64, [])
    (entry,) = list_board(folder).entries
    assert (entry.submission.id, entry.status()) == (id, "scores as submitted, not verified")
    remove_submission(folder, id, "withdrawn")
    assert [e.submission.state for e in list_board(folder).entries] == ["removed"]
    with pytest.raises(InputError, match="no scored submission 'nobody'"):
        remove_submission(folder, "nobody", "x")


def test_board_runs_once(folder: Path) -> None:
    with running_board(folder), pytest.raises(InputError, match="another server"), running_board(folder):
        pass
    with running_board(folder):
        pass


def test_folder_without_a_contest_is_rejected_and_not_created(tmp_path: Path) -> None:
    with pytest.raises(InputError), running_board(tmp_path / "nothing"):
        pass
    with pytest.raises(InputError):
        add_team(tmp_path / "nothing", "A", url=URL, days=2)
    assert not (tmp_path / "nothing").exists()
