"""The design of listening studies: balance, nothing heard twice, panels, checks, recordings."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from tests.support.listen_world import make_corpora, make_study
from voiceveil import audio
from voiceveil.apps.listen.design import StudyPlan, design_study
from voiceveil.apps.listen.recordings import active_level, beeps, headphone_tones, prepare
from voiceveil.apps.listen.sampling import Balance, deal_cells, deal_pairs, panel_shape
from voiceveil.apps.listen.study import Item, Study
from voiceveil.audio import Waveform, save
from voiceveil.cli.main import main
from voiceveil.core.errors import InputError
from voiceveil.corpus import Corpus

EVERYTHING = ("naturalness", "similarity", "intelligibility", "preference", "clustering")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Study]:
    """Six evaluators, two sessions of each task; two systems."""
    folder = tmp_path_factory.mktemp("whole")
    plan = StudyPlan(evaluators=6, raters=3, sessions=2, tasks=EVERYTHING, panels=3, seed=5)
    return folder / "study", make_study(folder, plan, speakers=30, utterances=20, seconds=3.2)


def items(study: Study, evaluator: str, kind: str, session: int | None = None) -> list[Item]:
    sessions = study.evaluators[evaluator]
    chosen = sessions if session is None else sessions[session : session + 1]
    found = [study.items[name] for one in chosen for name in one.items]
    return [item for item in found if item.kind == kind]


@pytest.mark.slow
def test_session_has_36_items_half_original_half_same_speaker(whole: tuple[Path, Study]) -> None:
    _, study = whole
    for evaluator, sessions in study.evaluators.items():
        assert [one.task for one in sessions] == ["rating"] * 2 + ["preference"] * 2 + ["clustering"] * 2
        for number in (0, 1):
            rated = items(study, evaluator, "rating", number)
            assert len(rated) == 36
            assert Counter(study.source(item) for item in rated) == {"original": 18, "good": 9, "poor": 9}
            assert sum(study.is_same(item) for item in rated) == 18
            for item in rated:
                a, b = (study.recordings[name] for name in item.audio)
                assert b.source == "original"
                assert a.gender == b.gender
                assert a.utterance != b.utterance


@pytest.mark.slow
def test_no_evaluator_hears_an_utterance_in_two_items(whole: tuple[Path, Study]) -> None:
    _, study = whole
    for evaluator in study.evaluators:
        heard: Counter[str] = Counter()
        for kind in ("rating", "preference", "panel"):
            for item in items(study, evaluator, kind):
                heard.update({study.recordings[name].utterance for name in item.audio})
        assert set(heard.values()) == {1}


def test_systems_and_pairs_are_balanced_over_the_study(whole: tuple[Path, Study]) -> None:
    _, study = whole
    cells: Counter[tuple[str, bool]] = Counter()
    speakers: Counter[str] = Counter()
    for item in study.items.values():
        if item.kind == "rating":
            cells[study.source(item), study.is_same(item)] += 1
            speakers[study.recordings[item.audio[0]].speaker] += 1
    for source in ("original", "good", "poor"):
        assert abs(cells[source, True] - cells[source, False]) <= 1
    assert cells["good", True] + cells["good", False] == cells["poor", True] + cells["poor", False]
    assert max(speakers.values()) - min(speakers.values()) <= 2
    ways = Counter(
        tuple(study.recordings[name].source for name in item.audio)
        for item in study.items.values()
        if item.kind == "preference"
    )
    assert ways["good", "poor"] == ways["poor", "good"] == 72


@given(st.integers(1, 60), st.integers(1, 7), st.integers(0, 5), st.integers(1, 12))
def test_cells_are_balanced_for_any_size(count: int, systems: int, seed: int, sessions: int) -> None:
    names = [f"s{n}" for n in range(systems)]
    balance = Balance(seed)
    total: Counter[tuple[str, bool]] = Counter()
    for session in range(sessions):
        cells = deal_cells(count, names, balance, f"session {session}")
        assert len(cells) == count
        original = sum(source == "original" for source, _ in cells)
        assert abs(2 * original - count) <= 1
        same = sum(alike for _, alike in cells)
        assert abs(2 * same - count) <= 1
        total.update(cells)
    by_system = [total[name, True] + total[name, False] for name in names]
    assert max(by_system) - min(by_system) <= 1
    everything = sum(total.values())
    assert abs(2 * sum(n for (_, alike), n in total.items() if alike) - everything) <= 1


@given(st.integers(1, 50), st.integers(1, 6))
def test_pairs_are_balanced_for_any_size(count: int, systems: int) -> None:
    dealt = deal_pairs(count, [f"s{n}" for n in range(systems)], Balance(0), "x")
    unordered = Counter(frozenset(pair) for pair in dealt)
    possible = max(1, systems * (systems - 1) // 2)
    assert max(unordered.values()) - (min(unordered.values()) if len(unordered) == possible else 0) <= 1
    ordered = Counter(dealt)
    assert all(abs(ordered[a, b] - ordered[b, a]) <= 1 for a, b in ordered)


def test_panels_are_as_in_the_paper(whole: tuple[Path, Study]) -> None:
    folder, study = whole
    for evaluator in study.evaluators:
        for session in (4, 5):
            panels = items(study, evaluator, "panel", session)
            heard = [[study.recordings[name] for name in item.audio] for item in panels]
            assert [len(panel) for panel in heard] == [16] * 3
            assert len({one.gender for panel in heard for one in panel}) == 1
            where = defaultdict(set)
            for number, panel in enumerate(heard):
                sizes = sorted(Counter(one.speaker for one in panel).values())
                assert sizes[0] == 1
                assert len(sizes) == 4
                assert all(2 <= size <= 6 for size in sizes[1:])
                for one in panel:
                    where[one.speaker].add(number)
            assert all(len(numbers) == 1 for numbers in where.values())
            systems = [{one.source for one in panel} for panel in heard]
            assert sorted(map(len, systems)) == [1, 2, 2]
            assert {"original"} in systems
            assert len(set.union(*systems)) == 2  # one system in a session
            for item, panel in zip(panels, heard, strict=True):
                if study.panel_system(item) == "original":
                    continue
                assert sum(one.source != "original" for one in panel) == 8
                counts = Counter(one.speaker for one in panel)
                distractor = next(one for one in panel if counts[one.speaker] == 1)
                assert distractor.source != "original"
    excerpt = study.items[panels[0].id].audio[0]
    assert audio.info(folder / "audio" / f"{excerpt}.wav").duration == pytest.approx(3.2, abs=0.001)  # 3 s in silence
    genders = {study.recordings[i.audio[0]].gender for i in study.items.values() if i.kind == "panel"}
    assert genders == {"f", "m"}


def test_panel_shape_can_be_chosen() -> None:
    shapes = {panel_shape((6, 6, 6), seed, "x") for seed in range(300)}
    slow = {(a, b, c) for a in range(2, 7) for b in range(2, 7) for c in range(2, 7) if a + b + c == 15}
    assert shapes == slow
    assert panel_shape((4, 6, 6), 0, "x") in slow
    assert panel_shape((2, 6, 6), 0, "x") is None


def test_evaluators_of_a_set_hear_the_same_items_in_other_orders(whole: tuple[Path, Study]) -> None:
    _, study = whole
    first, same, other = ([item.id for item in items(study, name, "rating", 0)] for name in ("e001", "e003", "e002"))
    assert set(first) == set(same)
    assert first != same
    assert not set(first) & set(other)


def test_every_session_has_checks_with_known_answers(whole: tuple[Path, Study]) -> None:
    folder, study = whole
    for evaluator, sessions in study.evaluators.items():
        kinds = [study.items[name].kind for name in sessions[0].items]
        assert kinds[:6] == ["headphones"] * 6
        assert kinds[6] != "attention"
        assert kinds.count("attention") == 2
        answers = Counter(item.answer for item in items(study, evaluator, "headphones"))
        assert answers == {"1": 2, "2": 2, "3": 2}
    checks = {item.audio[0]: int(item.answer) for item in study.items.values() if item.kind == "attention"}
    for name, count in checks.items():
        samples, rate = soundfile.read(folder / "audio" / f"{name}.wav")
        loud = np.abs(samples[:, 0]).reshape(-1)[: len(samples) // 441 * 441].reshape(-1, 441).max(axis=1) > 0.05
        assert int((np.diff(loud.astype(int)) == 1).sum()) == count
        assert rate == 44100


def test_headphone_tones_cancel_in_the_air_only_where_inverted() -> None:
    tones = headphone_tones(softest=1, inverted=2)
    third = len(tones) // 3
    parts = [tones[n * third : (n + 1) * third] for n in range(3)]
    level = [np.sqrt((part[:, 0] ** 2).mean()) for part in parts]
    assert level[1] / level[0] == pytest.approx(10 ** (-6 / 20), rel=0.05)
    assert level[2] == pytest.approx(level[0], rel=0.05)
    summed = [np.abs(part.sum(axis=1)).max() for part in parts]
    assert summed[2] < 1e-9 < summed[1] < summed[0]
    assert np.abs(beeps(3)).max() < 0.3


@given(st.floats(0.001, 1.0), st.floats(-40, -10), st.integers(0, 100))
def test_prepared_recordings_are_equally_loud_and_never_clipped(gain: float, level: float, seed: int) -> None:
    import tempfile

    rng = np.random.default_rng(seed)
    samples = (gain * rng.normal(0, 0.2, 8000)).clip(-1, 1).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.wav"
        save(path, Waveform(samples, 16000))
        wave = prepare(path, level=level)
    peak = float(np.abs(wave.samples).max())
    assert peak <= 10 ** (-1 / 20) + 1e-6
    got = active_level(Waveform(wave.samples[1600 + 80 : -1600 - 80], 16000))
    # Quieter only where the level would clip; the highest sample may be one that is faded.
    wanted = float(np.abs(samples).max()) * 10 ** ((level - active_level(Waveform(samples, 16000))) / 20)
    assert abs(got - level) < 0.5 or (got < level and wanted > 10 ** (-1 / 20) - 1e-3)
    assert wave.samples[0] == wave.samples[-1] == 0.0
    assert len(wave) == 8000 + 3200


def test_design_depends_on_the_seed_except_for_names(tmp_path: Path) -> None:
    original, systems = make_corpora(tmp_path / "c", speakers=12, utterances=8)

    def sounds(name: str, seed: int) -> list[list[tuple[str, str]]]:
        plan = StudyPlan(evaluators=2, raters=2, items=12, seed=seed)
        study = design_study(tmp_path / name, original, systems, plan)
        order = [study.items[one] for one in study.evaluators["e002"][0].items]
        return [[(study.recordings[a].source, study.recordings[a].utterance) for a in item.audio] for item in order]

    def rated(found: list[list[tuple[str, str]]]) -> list[list[tuple[str, str]]]:
        return [item for item in found if item[0][0] != "check"]

    assert rated(sounds("a", 1)) == rated(sounds("b", 1))
    assert rated(sounds("d", 2)) != rated(sounds("a2", 1))
    names = [set(Study.load(tmp_path / name).recordings) for name in ("a", "b")]
    assert not names[0] & names[1]  # another key: a name tells nothing


def test_names_of_recordings_reveal_nothing(whole: tuple[Path, Study]) -> None:
    folder, study = whole
    assert {path.stem for path in (folder / "audio").iterdir()} == set(study.recordings)
    assert all(len(name) == 20 and name.isalnum() for name in study.recordings)
    assert (folder / "key").stat().st_mode & 0o777 == 0o600


def test_invalid_designs_are_rejected_with_the_reason(tmp_path: Path) -> None:
    original, systems = make_corpora(tmp_path / "c", speakers=4, utterances=4)
    with pytest.raises(InputError, match=r"unknown task 'naturalnes' \(did you mean naturalness\?\)"):
        StudyPlan(tasks=("naturalnes",))
    with pytest.raises(InputError, match=r"items is 0 \(give 1 or more\)"):
        StudyPlan(items=0)
    with pytest.raises(InputError, match="an evaluator who never hears one twice runs out after 16"):
        design_study(tmp_path / "a", original, systems)
    with pytest.raises(
        InputError, match=r"3 panels need 12 speakers of one gender with 6 utterances of 3 s each; there are: none"
    ):
        design_study(tmp_path / "a", original, systems, StudyPlan(tasks=("clustering",)))
    with pytest.raises(InputError, match="a system cannot be called 'original'"):
        design_study(tmp_path / "a", original, {"original": original})
    strange = Corpus("x", tuple(replace(u, id=f"x{u.id}") for u in original))
    with pytest.raises(InputError, match="no utterance of a known speaker is in all of the corpora"):
        design_study(tmp_path / "a", original, {"x": strange})
    assert not (tmp_path / "a").exists()
    broken = tmp_path / "c" / "good" / "1.wav"
    broken.write_bytes(b"RIFFnothing")
    with pytest.raises(InputError, match="not readable as audio"):
        design_study(tmp_path / "a", original, systems, StudyPlan(items=4))
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


def test_broken_design_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"design\.json: no such file"):
        Study.load(tmp_path)
    (tmp_path / "design.json").write_text("{")
    with pytest.raises(InputError, match="not JSON"):
        Study.load(tmp_path)
    (tmp_path / "design.json").write_text(json.dumps({"format": "voiceveil listening study 1", "name": "x"}))
    with pytest.raises(InputError, match="seed is missing"):
        Study.load(tmp_path)


def test_commands_design_and_invite(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    original, systems = make_corpora(tmp_path / "c", speakers=8, utterances=6)
    specs = []
    for name, corpus in {"original": original, **systems}.items():
        path = tmp_path / f"{name}.csv"
        rows = [f"{u.id},{u.path},{u.speaker},{u.gender}" for u in corpus]
        path.write_text("\n".join(["id,path,speaker,gender", *rows]) + "\n")
        specs.append(f"{name}={path}")
    study = str(tmp_path / "study")
    command = ["listen", "design", study, "--original", specs[0].partition("=")[2], "--system", *specs[1:]]
    assert main([*command, "--items", "8", "--evaluators", "3"]) == 0
    assert "3 evaluators, 8 rating items" in capsys.readouterr().out
    assert main([*command, "--items", "8"]) == 1
    assert "this folder exists already (name a new folder" in capsys.readouterr().err
    assert main(["listen", "invite", study, "--url", "https://x.org/", "--days", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "evaluator,link,expires"
    assert [line.partition(",")[0] for line in lines[1:]] == ["e001", "e002", "e003"]
    assert all(line.split(",")[1].startswith("https://x.org/i/") for line in lines[1:])
    assert main(["listen", "invite", study, "--url", "https://x.org", "--evaluators", "e01"]) == 1
    assert "unknown evaluator 'e01' (did you mean e001" in capsys.readouterr().err
    assert main(["listen", "analyze", study]) == 1
    assert "no answers yet (`voiceveil listen serve` collects them)" in capsys.readouterr().err
