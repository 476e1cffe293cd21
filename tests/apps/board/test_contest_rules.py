"""Rules of a contest on its board: UAR and pitch, best of a team, limits, deadline, descriptions, baselines."""

from __future__ import annotations

import csv
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.apps.board.test_board import Place, figures
from tests.support.board_world import make_lists, submission, tar, zipped
from tests.support.listen_client import Client
from tests.support.listen_world import running
from voiceveil.apps.board.administration import new_contest, set_up_contest
from voiceveil.apps.board.app import open_board
from voiceveil.apps.board.contest import Contest, create_contest, limits_of
from voiceveil.apps.board.entries import board_entries
from voiceveil.apps.board.leaderboard import BoardTable, figure_ranking, tables
from voiceveil.apps.board.rules import rules_of
from voiceveil.apps.board.scoring import score_submission
from voiceveil.apps.board.store import Store
from voiceveil.apps.web.database import open_database
from voiceveil.cli.main import main
from voiceveil.core.errors import InputError
from voiceveil.evaluation.protocol import RankingRules, load_protocol
from voiceveil.evaluation.protocol_writer import protocol_text
from voiceveil.evaluation.results import Figure, Results
from voiceveil.official.exp2024 import csv_text
from voiceveil.official.summary2022 import summary_text

FOLDS = "exp/ser/results_folds_x.csv"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_lists(tmp_path_factory.mktemp("lists"))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(open_database(tmp_path / "b.sqlite"))


def contest_of(data: Path, **rules: object) -> Contest:
    return Contest("vpc2024", data, "test", "A contest", **rules)  # type: ignore[arg-type]


def uar(value: float) -> Figure:
    return Figure("uar", value, "IEMOCAP_test", split="test", condition="a")


def folds(*values: float) -> bytes:
    """The official table of UARs of single folds."""
    parts = {str(n + 1): {"uar": value, "recalls": {"sad": value}} for n, value in enumerate(values)}
    own = [Figure("uar", 0.5, f"IEMOCAP_{s}", split=s, condition="a", detail={"folds": parts}) for s in ("dev", "test")]
    return csv_text(Results("x", "vpc2024", tuple(own)), "ser_folds").encode()


def scored(contest: Contest, archive: bytes, folder: Path) -> tuple[Figure, ...]:
    (folder / "upload").write_bytes(archive)
    return score_submission(contest, folder / "upload").figures


def shown(contest: Contest, store: Store, now: float | None = None) -> dict[str, BoardTable]:
    entries = board_entries(contest, store, time.time() if now is None else now)
    return {table.title: table for table in tables(contest, entries, store.baselines()) if table.lines}


def names(table: BoardTable) -> list[tuple[int | None, str]]:
    return [(line.place, line.name) for line in table.lines]


def test_stated_uar_is_the_mean_of_its_folds(data: Path, tmp_path: Path) -> None:
    contest = contest_of(data)
    members = submission(data)
    official_zip = {"exp/results_summary/result_for_submission_x.zip": zipped({FOLDS: folds(0.5, 0.6, 0.7)})}
    for extra in ({FOLDS: folds(0.5, 0.6, 0.7)}, official_zip):
        (figure,) = [f for f in scored(contest, tar({**members, **extra}), tmp_path) if f.metric == "uar"]
        assert figure.value == pytest.approx(0.6)
        assert (figure.dataset, figure.condition) == ("IEMOCAP_test", "a")
    assert not any(f.metric == "uar" for f in scored(contest, tar(members), tmp_path))
    only_dev = b"\n".join(line for line in folds(0.5).split(b"\n") if b"test" not in line)
    with pytest.raises(InputError, match="no uar of IEMOCAP_test, anonymized"):
        scored(contest, tar({**members, FOLDS: only_dev}), tmp_path)
    with pytest.raises(InputError, match=r"results_folds_x\.csv:1: not a file of results"):
        scored(contest, tar({**members, FOLDS: b"UAR 99%\n"}), tmp_path)


def test_systems_are_ranked_by_uar_where_it_is_stated(data: Path, store: Store) -> None:
    """One table for each metric; a system without a UAR has a place by WER alone."""
    contest = contest_of(data)
    for team, wer, rate in (("A", 0.10, 0.4), ("B", 0.20, 0.6), ("C", 0.15, None)):
        extra = () if rate is None else (uar(rate),)
        store.score(store.begin(contest, team, "s"), "", (*figures(0.25, wer), *extra))
    board = shown(contest, store)
    by_wer, by_uar = board["EER from 20 to 30%, by WER"], board["EER from 20 to 30%, by UAR"]
    assert names(by_wer) == [(1, "A/s"), (2, "C/s"), (3, "B/s")]
    assert names(by_uar) == [(1, "B/s"), (2, "A/s")]
    assert by_uar.headings == ("UAR", "EER", "WER")
    assert by_uar.lines[0].figures[0] == "60.00%"
    assert [line.figures[2] for line in by_wer.lines] == ["40.00%", "–", "60.00%"]


def test_pitch_correlation_of_2022_decides_who_is_ranked(tmp_path: Path, store: Store) -> None:
    """It stands in results_summary.txt; without it, or with 0.3 and less in any set, a system has no place."""
    data = make_lists(tmp_path / "lists", "vpc2022")
    contest = Contest("vpc2022", data, "test", "t")
    sets = [(part, trials) for part in load_protocol("vpc2022").verification for trials in part.trials]

    def summary(lowest: float) -> bytes:
        rates = [
            Figure("pitch_correlation", lowest if n == 0 else 0.6, part.dataset, split=part.split,
                   gender=trials.gender, subset=part.subset, detail={"std": 0.1})
            for n, (part, trials) in enumerate(p for p in sets if p[0].split == "test")
        ]  # fmt: skip
        eer = Figure("eer", 0.1, "libri_test", split="test", gender="f", condition="oo", attacker="ASV_eval")
        return summary_text(Results("x", "vpc2022", (eer, *rates))).encode()

    members = submission(data, "vpc2022")
    for team, lowest in (("good", 0.4), ("low", 0.3), ("none", None)):
        extra = {} if lowest is None else {"x/results_summary.txt": summary(lowest)}
        name = store.begin(contest, team, "s")
        store.score(name, "", scored(contest, tar({**members, **extra}), tmp_path))
    board = shown(contest, store)
    unranked = board["Not ranked: no pitch correlation above 0.3 in all sets"]
    assert {line.name: line.status.partition(",")[0] for line in unranked.lines} == {
        "low/s": "pitch correlation 0.300 on libri_test f",
        "none/s": "no pitch correlation on libri_test f",
    }
    assert unranked.headings[-1] == "lowest pitch correlation"
    ranked = [(line.name, line.figures[-1]) for t in board.values() if t is not unranked for line in t.lines]
    assert ranked == [("good/s", "0.400")]


def test_edition_2026_is_ranked_by_rules_of_the_organizers_own(tmp_path: Path, store: Store) -> None:
    """Its conditions are not published: an organizer adds [ranking] to a copy. Trials are mixed, in one list."""
    own = replace(load_protocol("vpc2026"), ranking=RankingRules(minimum_eer=(0.0, 0.2), by=("wer", "uar")))
    path = tmp_path / "own.toml"
    path.write_text(protocol_text(own))
    data = make_lists(tmp_path / "lists", str(path))
    contest = Contest(str(path), data, "test", "t")
    archive = tar({**submission(data, str(path)), FOLDS: folds(0.5, 0.7)})
    store.score(store.begin(contest, "A", "s"), "", scored(contest, archive, tmp_path))
    board = shown(contest, store)
    assert sorted(title.partition(", by ")[2] for title in board) == ["UAR", "WER"]
    assert {f.metric for f in store.scored()[0].figures} == {"eer", "wer", "uar"}
    with pytest.raises(InputError, match="vpc2026 does not rank systems"):
        Contest("vpc2026", data, "test", "t")


def test_best_system_of_each_team_is_shown(data: Path, store: Store) -> None:
    """The one of the highest EER condition, and of these the one with the lowest WER."""
    contest = contest_of(data)
    systems = {"A/low": (0.15, 0.02), "A/high": (0.35, 0.30), "A/best": (0.36, 0.20), "B/one": (0.25, 0.05)}
    for name, (eer, wer) in systems.items():
        store.score(store.begin(contest, name[0], name[2:], now=86400.0 * wer * 1e4), "", figures(eer, wer))
    best = shown(contest, store)["Best system of each team"]
    assert names(best) == [(None, "A/best"), (None, "B/one")]


def test_limits_are_those_of_the_edition(data: Path, tmp_path: Path, store: Store) -> None:
    """Two a day and ten in all in TdSV; any number of systems, of up to 45 GB, in 2024."""
    assert (limits_of("tdsv2024").daily, limits_of("tdsv2024").total) == (2, 10)
    contest = new_contest("vpc2024", data, title="t")
    assert (contest.daily, contest.total) == (0, 0)
    assert contest.largest > 45e9 > limits_of("vpc2022").largest
    assert store.left(contest, "A") == (None, None)
    for _ in range(12):
        store.begin(contest, "A", "s")
    assert new_contest("vpc2024", data, daily=1, total=3, title="t").total == 3
    with pytest.raises(InputError, match="daily = 4, total = 3"):
        new_contest("vpc2024", data, daily=4, total=3, title="t")


def test_late_submissions_are_marked_and_never_replace_one_in_time(data: Path, store: Store) -> None:
    deadline = datetime(2030, 1, 1, tzinfo=UTC)
    before, after = (deadline + timedelta(seconds=s) for s in (-60, 60))
    contest = contest_of(data, deadline=deadline)
    store.score(store.begin(contest, "A", "s", now=before.timestamp()), "", figures(0.25, 0.20))
    store.score(store.begin(contest, "A", "s", now=after.timestamp()), "", figures(0.25, 0.10))
    table = shown(contest, store)["EER from 20 to 30%"]
    assert names(table) == [(1, "A/s (late)"), (2, "A/s")]
    assert table.lines[0].status.startswith("late; ")
    unranked = shown(contest_of(data, deadline=deadline, late="unranked"), store)
    assert names(unranked["EER from 20 to 30%"]) == [(1, "A/s")]
    assert names(unranked["Not ranked: late"]) == [(None, "A/s (late)")]
    with pytest.raises(InputError, match="unknown late 'ranked'"):
        contest_of(data, late="ranked")


def test_tdsv_ranks_the_best_submission_of_each_team(tmp_path: Path, store: Store) -> None:
    contest = Contest("tdsv2024", tmp_path, "eval", "t")
    for number, (team, system, cost) in enumerate(
        [("A", "s", 0.30), ("A", "s", 0.40), ("A", "t", 0.35), ("B", "s", 0.50)]
    ):
        own = [Figure(metric, cost, "tdsv", split="eval") for metric in ("min_dcf", "eer")]
        store.score(store.begin(contest, team, system, now=86400.0 * number), "", own)
    board = shown(contest, store)
    first = board["By minimum detection cost"]
    assert names(first) == [(1, "A/s"), (2, "B/s")]
    assert first.lines[0].figures[0] == "0.3000"  # not the later 0.40
    assert names(board["Not ranked: the team has better systems"]) == [(None, "A/t")]


def test_baselines_stand_where_they_belong_without_a_place(data: Path, tmp_path: Path) -> None:
    folder = tmp_path / "contest"
    set_up_contest(folder, new_contest("vpc2024", data, title="t"))
    command = ["board", "baselines", str(folder)]
    results = Results("mine", "vpc2024", (*figures(0.25, 0.15), uar(0.5)))
    (tmp_path / "results.json").write_text(json.dumps(results.as_dict()))
    assert main([*command, "--published", "--add", f"ours={tmp_path / 'results.json'}"]) == 0
    contest, store = Contest.load(folder), Store(open_database(folder / "board.sqlite"))
    for team, wer in (("A", 0.10), ("B", 0.20)):
        store.score(store.begin(contest, team, "s"), "", figures(0.25, wer))
    board = shown(contest, store)
    rows = board["EER from 20 to 30%"].lines
    assert [(row.place, row.name) for row in rows if row.name in ("A/s", "B/s", "ours")] == [
        (1, "A/s"), (None, "ours"), (2, "B/s"),
    ]  # fmt: skip
    assert next(row.status for row in rows if row.name == "ours") == "baseline: results.json"
    assert "B2" in {row.name for row in board["Not ranked: EER below 10%"].lines}
    drawn = figure_ranking(contest, board_entries(contest, store, time.time()), store.baselines())
    assert drawn is not None
    assert [(p.place, p.system) for p in drawn.places["wer"][0.2]] == [(1, "A/s"), (2, "B/s")]
    assert {"ours", "B2", "A/s"} <= {standing.system for standing in drawn.standings}
    assert main([*command, "--remove", "ours"]) == 0
    assert "ours" not in store.baselines()
    assert main([*command, "--remove", "ours"]) == 1
    assert main([*command, "--add", "ours"]) == 1
    assert main(command) == 1


def test_disqualified_entries_are_listed_with_the_reason(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "contest"
    set_up_contest(folder, new_contest("vpc2024", data, title="t"))
    contest, store = Contest.load(folder), Store(open_database(folder / "board.sqlite"))
    ids = {}
    for team in "AB":
        store.add_team(team)
        ids[team] = store.begin(contest, team, "s")
        store.score(ids[team], "", figures(0.25, 0.1))
    command = ["board", "disqualify", str(folder)]
    assert main([*command, "--team", "A", "--reason", "trained on test data"]) == 0
    table = shown(contest, store)["Not ranked: disqualified"]
    assert names(table) == [(None, "A/s")]
    assert table.lines[0].status.startswith("disqualified: trained on test data")
    assert main([*command, "--submission", ids["B"], "--reason", "no paper"]) == 0
    assert names(shown(contest, store)["Not ranked: disqualified"]) == [(None, "A/s"), (None, "B/s")]
    capsys.readouterr()
    assert main(["board", "list", str(folder)]) == 0
    assert "A: disqualified: trained on test data" in capsys.readouterr().out
    assert main([*command, "--team", "A", "--undo"]) == 0
    assert names(shown(contest, store)["Not ranked: disqualified"]) == [(None, "B/s")]
    assert main([*command, "--team", "C", "--reason", "x"]) == 1
    assert "unknown team 'C'" in capsys.readouterr().err
    assert main([*command, "--team", "A", "--undo"]) == 1


def test_export_holds_all_submissions_and_results_to_rank(data: Path, tmp_path: Path) -> None:
    folder, out = tmp_path / "contest", tmp_path / "export"
    begin = datetime.now(UTC) - timedelta(days=1)
    set_up_contest(
        folder,
        new_contest("vpc2024", data, title="t", hidden_from=begin, hidden_until=begin + timedelta(days=9)),
    )
    contest, store = Contest.load(folder), Store(open_database(folder / "board.sqlite"))
    for team, wer in (("A", 0.1), ("B", 0.2)):
        store.score(store.begin(contest, team, "s"), "", figures(0.25, wer))
    store.describe("A", "s", "=cmd()")
    store.refuse(store.begin(contest, "B", "bad"), "no scores")
    assert main(["board", "export", str(folder), "--out", str(out)]) == 0
    rows = list(csv.DictReader((out / "submissions.csv").open()))
    assert [(row["team"], row["state"], row["reason"]) for row in rows] == [
        ("A", "scored", ""), ("B", "scored", ""), ("B", "refused", "no scores"),
    ]  # fmt: skip
    assert rows[0]["description"] == "'=cmd()"  # no formula for a spreadsheet
    assert len(list(csv.DictReader((out / "figures.csv").open()))) == 6
    paths = [str(out / "results" / team / "s") for team in "AB"]
    assert main(["rank", *paths]) == 0
    store.add_team("B")
    store.disqualify("team", "B", "cheating")
    assert main(["board", "export", str(folder), "--out", str(tmp_path / "second")]) == 0
    assert [path.name for path in (tmp_path / "second" / "results").iterdir()] == ["A"]
    assert main(["board", "export", str(folder), "--out", str(out)]) == 1


def test_rules_say_limits_dates_weights_and_the_own_text(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(tmp_path / "contest")
    command = ["board", "create", folder, "--protocol", "vpc2024", "--data", str(data), "--daily", "2", "--total", "9"]
    assert main([*command, "--deadline", "tomorrow"]) == 1
    assert "'tomorrow' is no time" in capsys.readouterr().err
    assert main([*command, "--deadline", "2026-06-08T12:00+02:00", "--late", "unranked"]) == 0
    Path(folder, "rules.txt").write_text("Welcome\nto all.\n\n# Prizes\n\nA <b>cup</b>.\n")
    capsys.readouterr()
    assert main(["board", "rules", folder]) == 0
    said = capsys.readouterr().out
    for text in (
        "About this contest\n  Welcome to all.", "Prizes\n  A <b>cup</b>.", "at most 2 a day and 9 in all", "64 GiB",
        "2026-06-08 10:00 UTC", "gets no place", "10 to 20%", "WER and by UAR", "libri_test f 50%",
    ):  # fmt: skip
        assert text in said
    tdsv = rules_of(Contest("tdsv2024", data, "eval", "t"), tmp_path)
    assert "best submission of each team" in tdsv[1].paragraphs[0]


@pytest.fixture
def place(data: Path, tmp_path: Path) -> Iterator[Place]:
    folder = tmp_path / "contest"
    create_contest(folder, contest_of(data, require_description=True))
    with running(open_board(folder)) as address:
        yield Place(folder, address)


def test_descriptions_are_written_by_the_team_and_read_by_everybody(place: Place, data: Path) -> None:
    token = place.token("A")
    client = Client(place.address)

    def describe(text: bytes, system: str = "b2", token: str = token) -> int:
        path = f"/describe?system={quote(system)}"
        return client.request("POST", path, text, {"authorization": f"Bearer {token}"})[0]

    assert place.send(token, tar(submission(data)))[0] == 200
    assert "Not ranked: no system description" in client.page()
    assert describe(b"see https://example.org/paper.pdf\n\n<script>") == 200
    page = client.page()
    assert "Not ranked: no system description" not in page
    id = place.store.scored()[0].id
    system = client.page(f"/system/{id}")
    assert 'href="https://example.org/paper.pdf"' in system
    assert "<script>" not in system
    assert "libri_test f" in system
    assert f'href="/system/{id}"' in page
    assert client.get("/system/none")[0] == 404
    assert describe(b"\xff\xfe") == 422
    assert describe(b"a\x00b") == 422
    assert describe(b"x" * 30_000) == 413
    assert describe(b"x", system="<b>") == 422
    assert describe(b"x", token="none") == 403
    assert describe(b"") == 200
    assert place.store.descriptions() == {}


def test_disqualified_team_cannot_upload(place: Place, data: Path) -> None:
    token = place.token("A")
    place.store.disqualify("team", "A", "cheating")
    status, said = place.send(token, tar(submission(data)))
    assert (status, said["reason"]) == (403, "the team is disqualified: cheating")


def test_uploads_after_the_deadline_are_refused_if_the_contest_says_so(data: Path, tmp_path: Path) -> None:
    folder = tmp_path / "contest"
    create_contest(folder, contest_of(data, deadline=datetime(2020, 1, 1, tzinfo=UTC), late="refused"))
    with running(open_board(folder)) as address:
        place = Place(folder, address)
        assert place.send(place.token("A"), tar(submission(data))) == (
            409,
            {"accepted": False, "reason": "the deadline is over"},
        )
        assert "2020-01-01 00:00 UTC" in Client(address).page("/rules")
