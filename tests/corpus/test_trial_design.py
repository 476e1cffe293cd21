"""Designed enrollment and trial lists, and legal sets: their promises hold for any corpus."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.official_lists import write_official_sets
from voiceveil.cli.main import main
from voiceveil.core.errors import InputError
from voiceveil.corpus import Corpus, Utterance, check, open_corpus
from voiceveil.corpus.legal_sets import design_legal_sets
from voiceveil.corpus.sampling import Sessions, shuffled
from voiceveil.corpus.trial_design import Design, TrialPlan, design_trials, write_design


def corpus_of(sizes: dict[str, list[int]], kind: str = "folder", seconds: float | None = None) -> Corpus:
    """Speakers with so many utterances in each session; the first letter of a name is the gender."""
    utterances = [
        Utterance(
            f"{name}-{s}-{i:04d}", Path(f"/audio/{name}/{s}/{i}.wav"), speaker=name, gender=name[0], seconds=seconds
        )
        for name, sessions in sizes.items()
        for s, count in enumerate(sessions)
        for i in range(count)
    ]
    return Corpus("small", tuple(utterances), kind=kind)


#: Two women and two men can be enrolled with three utterances; f3 has one session, m3 too few utterances.
SIZES = {"f1": [4, 3], "f2": [2, 2, 5], "f3": [9], "m1": [6, 6], "m2": [3, 1], "m3": [1, 1]}

sizes = st.dictionaries(
    st.builds("{}{}".format, st.sampled_from("fm"), st.integers(0, 9)),
    st.lists(st.integers(1, 6), min_size=1, max_size=4),
    min_size=4,
    max_size=12,
)


def ids(corpus: Corpus) -> list[str]:
    return [utterance.id for utterance in corpus]


def sessions(corpus: Corpus) -> set[str]:
    return {key.rpartition("-")[0] for key in ids(corpus)}


def promises(design: Design, corpus: Corpus, enroll: int, by_session: bool) -> None:
    """What every design keeps."""
    enrolls = design.sets["small_enrolls"]
    assert all(len(said) == enroll for said in enrolls.by_speaker.values())
    assert all(u.role == "enroll" for u in enrolls)
    seen = ids(enrolls)
    for name, one in design.sets.items():
        if name == "small_enrolls":
            continue
        seen += ids(one)
        assert all(u.role == "trial" for u in one)
        assert one.trials is not None
        gender = {u.gender for u in one}
        assert len(gender) == 1
        mine = {speaker for speaker, said in enrolls.by_speaker.items() if said[0].gender in gender}
        assert len(mine) >= 2
        rows = list(
            zip(one.trials.enroll.tolist(), one.trials.utterance.tolist(), one.trials.target.tolist(), strict=True)
        )
        assert Counter((speaker, key) for speaker, key, _ in rows) == Counter((s, k) for s in mine for k in ids(one))
        assert all(target == (one[key].speaker == speaker) for speaker, key, target in rows)
        assert mine == {speaker for speaker, _, target in rows if target}  # every enrolled speaker has targets
    assert len(seen) == len(set(seen))  # no utterance on both sides
    assert set(seen) <= set(ids(corpus))
    if by_session:
        tried = set().union(*(sessions(one) for name, one in design.sets.items() if name != "small_enrolls"))
        assert not sessions(enrolls) & tried


@pytest.mark.slow
@settings(max_examples=150)
@given(sizes, st.integers(1, 5), st.integers(0, 3), st.booleans(), st.integers(0, 1))
def test_designed_sets_have_their_properties(
    sizes: dict[str, list[int]], enroll: int, seed: int, by_session: bool, impostors: int
) -> None:
    corpus = corpus_of(sizes, "librispeech")
    plan = TrialPlan(enroll=enroll, session="auto" if by_session else "none", impostors=impostors)
    try:
        design = design_trials(corpus, plan, seed=seed)
    except InputError as error:
        assert "too few speakers" in str(error)  # noqa: PT017 -- only some corpora are too small
        return
    promises(design, corpus, enroll, by_session)
    mixed = list(corpus)
    random.Random(seed).shuffle(mixed)
    again = design_trials(Corpus("small", tuple(mixed), kind="librispeech"), plan, seed=seed)
    assert again == design  # whatever the order of the files


def test_enrolled_speakers_have_enough_sessions_and_utterances() -> None:
    """A slow twin of the rule: some sessions hold enough and leave another."""
    design = design_trials(corpus_of(SIZES, "librispeech"), TrialPlan(enroll=3))
    assert design.sets["small_enrolls"].speakers() == ("f1", "f2", "m1", "m2")
    assert set(design.sets) == {"small_enrolls", "small_trials_f", "small_trials_m"}
    assert design.record["not_enrolled"] == {
        "f3": "1 session(s), which cannot be divided into 3 utterances of enrollment and a trial",
        "m3": "2 utterances, not more than the 3 of enrollment",
    }
    assert design.sets["small_trials_f"].by_speaker["f3"]  # in trials all the same
    assert len(design.sets["small_trials_m"].by_speaker["m2"]) == 1  # its session of one, since the other has three
    counts = design.record["sets"]["small_trials_f"]
    trials = design.sets["small_trials_f"].trials
    assert trials is not None
    assert counts["target"] + counts["nontarget"] == len(trials) == 2 * counts["trial_utterances"]
    free = design_trials(corpus_of(SIZES, "librispeech"), TrialPlan(enroll=3, session="none"))
    assert free.sets["small_enrolls"].speakers() == ("f1", "f2", "f3", "m1", "m2")


def test_design_depends_on_seed_and_sizes() -> None:
    corpus = corpus_of({f"{gender}{i}": [20, 20] for gender in "fm" for i in range(6)}, "librispeech")
    one, two = design_trials(corpus, seed=1), design_trials(corpus, seed=2)
    assert ids(one.sets["small_enrolls"]) != ids(two.sets["small_enrolls"])
    few = design_trials(corpus, TrialPlan(trials=4, impostors=2), seed=1)
    assert all(len(said) == 4 for said in few.sets["small_trials_f"].by_speaker.values())
    assert len(few.sets["small_enrolls"].speakers()) == 8
    assert sum(reason == "drawn to be in trials only" for reason in few.record["not_enrolled"].values()) == 4
    more = design_trials(corpus, TrialPlan(enroll=12), seed=1)
    assert set(ids(one.sets["small_enrolls"])) < set(ids(more.sets["small_enrolls"]))  # draws are nested


def test_trials_are_drawn_uniformly() -> None:
    first = Counter(shuffled(["a", "b", "c", "d"], seed, "x")[0] for seed in range(4000))
    assert all(abs(count - 1000) < 120 for count in first.values())  # 4.4 standard deviations
    assert shuffled(["a", "b", "c"], 0, "x") == shuffled(["c", "a", "b"], 0, "x")
    assert any(shuffled("abcdef", 0, "x") != shuffled("abcdef", 0, "y") for _ in "x")


def test_session_is_read_from_the_id() -> None:
    libri = Corpus("x", (Utterance("84-121123-0001", Path("a.wav"), speaker="84"),), kind="kaldi")
    assert Sessions(libri).of(libri.utterances[0]) == "121123"
    vox = Corpus("x", (Utterance("id10001-1zc-whm-00001", Path("a.wav"), speaker="id10001"),), kind="voxceleb")
    assert Sessions(vox).of(vox.utterances[0]) == "1zc-whm"
    other = Corpus("x", (Utterance("p1_morning_3", Path("a.wav"), speaker="p1"),))
    assert Sessions(other).pattern is None
    assert Sessions(other, r"[^_]+_([^_]+)").of(other.utterances[0]) == "morning"
    with pytest.raises(InputError, match="no session in the id"):
        Sessions(other, r"(\d+)").of(other.utterances[0])
    for rule in ("(", "[^_]+"):
        with pytest.raises(InputError, match=r"regular expression|no group"):
            Sessions(other, rule)


@pytest.mark.parametrize(
    ("corpus", "options", "what"),
    [
        (corpus_of({"f1": [9, 9], "f2": [9, 9], "m1": [9, 9]}), {"enroll": 3}, "too few speakers of gender m: 1"),
        (corpus_of(SIZES), {"enroll": 100}, "too few speakers of gender f: 3, of whom 0 can be enrolled"),
        (corpus_of(SIZES), {"enroll": 3, "impostors": 9}, "of whom 0 can be enrolled"),
        (corpus_of(SIZES), {"enroll": 0}, "enroll is 0"),
        (corpus_of(SIZES), {"trials": 0}, "trials is 0"),
        (corpus_of(SIZES), {"name": "a/b"}, "cannot be the name of a set"),
        (Corpus("x", (Utterance("u", Path("u.wav")),)), {}, "no utterance has a speaker"),
        (Corpus("x", (Utterance("u", Path("u.wav"), speaker="s"),)), {}, "1 speaker.s. of unknown gender"),
    ],
)
def test_impossible_designs_are_rejected(corpus: Corpus, options: dict[str, Any], what: str) -> None:
    sizes = {key: value for key, value in options.items() if key != "name"}
    with pytest.raises(InputError, match=what):
        design_trials(corpus, TrialPlan(**sizes), name=options.get("name"))


@settings(max_examples=150)
@given(sizes, st.integers(1, 6), st.integers(1, 6), st.integers(0, 3))
def test_legal_sets_have_their_properties(sizes: dict[str, list[int]], a: int, b: int, seed: int) -> None:
    corpus = corpus_of(sizes)
    totals = {name: sum(counts) for name, counts in sizes.items()}
    try:
        design = design_legal_sets(corpus, a=a, b=b, unit="utterances", seed=seed)
    except InputError as error:
        assert "too little speech" in str(error)  # noqa: PT017
        assert sum(total >= a for total in totals.values()) < 2 or all(total < a + b for total in totals.values())
        return
    in_a, in_b = design.sets["small_A"], design.sets["small_B"]
    assert set(in_b.by_speaker) <= set(in_a.by_speaker)
    assert not set(ids(in_a)) & set(ids(in_b))
    assert set(in_a.by_speaker) == {name for name, total in totals.items() if total >= a}
    assert set(in_b.by_speaker) == {name for name, total in totals.items() if total >= a + b}
    assert all(len(said) >= b for said in in_b.by_speaker.values())
    assert {s: len(said) for s, said in in_a.by_speaker.items()} == {
        s: a if s in in_b.by_speaker else totals[s] for s in in_a.by_speaker
    }
    mixed = list(corpus)
    random.Random(seed).shuffle(mixed)
    assert design_legal_sets(Corpus("small", tuple(mixed)), a=a, b=b, unit="utterances", seed=seed) == design


def test_legal_sets_can_be_sized_by_minutes() -> None:
    """Half a minute each: five minutes are ten utterances, four go to A and the rest to B."""
    design = design_legal_sets(corpus_of({"f1": [10], "f2": [9], "m1": [4], "m2": [3]}, seconds=30.0))
    in_a, in_b = design.sets["small_A"], design.sets["small_B"]
    assert {s: len(said) for s, said in in_a.by_speaker.items()} == {"f1": 4, "f2": 9, "m1": 4}
    assert {s: len(said) for s, said in in_b.by_speaker.items()} == {"f1": 6}
    assert design.record["sets"] == {
        "small_A": {"speakers": 3, "utterances": 17, "minutes": 8.5},
        "small_B": {"speakers": 1, "utterances": 6, "minutes": 3.0},
    }
    with pytest.raises(InputError, match="no amounts"):
        design_legal_sets(corpus_of(SIZES), a=0, b=1, unit="utterances")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A Kaldi directory with audio: 3 women and 3 men, 2 sessions of 3 utterances of 0.1 s each."""
    root = tmp_path / "corpus"
    lines: dict[str, list[str]] = {"wav.scp": [], "utt2spk": [], "spk2gender": [], "text": []}
    for speaker in (*range(1, 4), *range(11, 14)):
        lines["spk2gender"].append(f"{speaker} {'f' if speaker < 10 else 'm'}")
        for session in (1, 2):
            for number in range(3):
                key = f"{speaker}-{session}-{number:04d}"
                (root / "wav").mkdir(parents=True, exist_ok=True)
                soundfile.write(root / "wav" / f"{key}.wav", 0.1 * np.sin(np.arange(1600) / 5), 16000)
                lines["wav.scp"].append(f"{key} wav/{key}.wav")
                lines["utt2spk"].append(f"{key} {speaker}")
                lines["text"].append(f"{key} SOME WORDS")
    for name, rows in lines.items():
        (root / name).write_text("".join(f"{row}\n" for row in sorted(rows)))
    return root


def test_design_command_writes_the_sets(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert main(["corpus", "protocol", str(folder), str(out), "--enroll", "2", "--name", "mine"]) == 0
    assert (
        f"{out / 'mine_trials_f'}: 3 speakers, 9 utterances, 9 target and 18 nontarget trials"
        in capsys.readouterr().out
    )
    enrolls = open_corpus(out / "mine_enrolls")
    assert (len(enrolls), {u.role for u in enrolls}) == (12, {"enroll"})
    assert enrolls.utterances[0].path.parent == folder / "wav"  # referenced, not copied
    for gender in "fm":
        assert check(out / f"mine_trials_{gender}", rate=16000, enroll=out / "mine_enrolls") == []
    record = json.loads((out / "design.json").read_text())
    assert (record["seed"], record["sessions"]) == (0, "[^-]+-([^-]+)-")
    assert record["enrollment"] == {"speakers": 6, "utterances": 12}
    assert main(["corpus", "protocol", str(folder), str(out), "--enroll", "2", "--name", "mine"]) == 1
    assert "mine_enrolls/wav.scp: this file exists" in capsys.readouterr().err
    again = tmp_path / "again"
    assert main(["corpus", "protocol", str(folder), str(again), "--enroll", "2", "--name", "mine"]) == 0
    for path in sorted(out.rglob("*")):
        if path.is_file():
            assert (again / path.relative_to(out)).read_bytes() == path.read_bytes()


def test_design_command_works_without_gender(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "spk2gender").unlink()
    assert main(["corpus", "protocol", str(folder), str(tmp_path / "out"), "--enroll", "2"]) == 1
    assert "--pooled" in capsys.readouterr().err
    assert main(["corpus", "protocol", str(folder), str(tmp_path / "out"), "--enroll", "2", "--pooled"]) == 0
    trials = open_corpus(tmp_path / "out" / "corpus_trials").trials
    assert trials is not None
    assert (len(trials), int(trials.target.sum())) == (6 * 18, 18)


def test_design_command_writes_legal_sets(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = ["corpus", "protocol", str(folder), str(tmp_path / "out"), "--legal"]
    assert main([*base, "--a-minutes", "0.003", "--b-minutes", "0.005"]) == 0  # lengths from the headers
    assert len(open_corpus(tmp_path / "out" / "corpus_A")) == 6 * 2
    assert len(open_corpus(tmp_path / "out" / "corpus_B")) == 6 * 4
    assert main([*base, "--a-utterances", "3"]) == 1
    assert "different kinds" in capsys.readouterr().err
    base[3] = str(tmp_path / "other")
    assert main([*base, "--a-utterances", "3", "--b-utterances", "3"]) == 0
    assert json.loads((tmp_path / "other" / "design.json").read_text())["options"]["unit"] == "utterances"
    base[3] = str(tmp_path / "third")
    assert main(base) == 1  # nobody has five minutes
    assert "0 speaker(s) have 2 minutes for A" in capsys.readouterr().err


def common_voice(folder: Path, clips: int = 40) -> Path:
    """Five clients, of whom two state no gender, each with clips of 10 s, as distributed."""
    rows = ["client_id\tpath\tsentence\tgender"]
    genders = ("female_feminine", "", "male", "", "male_masculine")
    rows += [f"c{i}\tc{i}-{k}.mp3\tWords.\t{gender}" for i, gender in enumerate(genders) for k in range(clips)]
    folder.mkdir()
    (folder / "validated.tsv").write_text("\n".join(rows) + "\n")
    times = [f"c{i}-{k}.mp3\t10000" for i in range(5) for k in range(clips)]
    (folder / "clip_durations.tsv").write_text("\n".join(["clip\tduration[ms]", *times]) + "\n")
    return folder


def test_speakers_without_gender_are_in_legal_sets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = common_voice(tmp_path / "en")
    assert main(["corpus", "protocol", f"commonvoice:{data}", str(tmp_path / "out"), "--legal"]) == 0
    assert "2 speaker(s) of unknown gender are in the sets too, e.g. c1" in capsys.readouterr().err
    assert len(open_corpus(tmp_path / "out" / "en_A").speakers()) == 5
    assert {u.gender for u in open_corpus(tmp_path / "out" / "en_B")} == {"f", "m", None}
    assert json.loads((tmp_path / "out" / "design.json").read_text())["without_gender"] == ["c1", "c3"]


def test_speakers_without_gender_are_left_out_of_trials(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = common_voice(tmp_path / "en")
    table = (data / "validated.tsv").read_text().replace("female_feminine", "male")
    (data / "validated.tsv").write_text(table)
    command = ["corpus", "protocol", f"commonvoice:{data}", str(tmp_path / "out"), "--enroll", "2"]
    assert main(command) == 0
    assert "2 speaker(s) of unknown gender are left out (--pooled includes them)" in capsys.readouterr().err
    assert open_corpus(tmp_path / "out" / "en_enrolls").speakers() == ("c0", "c2", "c4")
    command[3] = str(tmp_path / "pooled")
    assert main([*command, "--pooled"]) == 0
    assert len(open_corpus(tmp_path / "pooled" / "en_enrolls").speakers()) == 5


def test_failed_design_leaves_no_files(tmp_path: Path) -> None:
    """The third set cannot be written: its speaker has two genders."""
    segments = [Utterance(f"{s}-{i}", Path("/a.wav"), speaker=s) for s in ("s", "t") for i in range(9)]
    design = design_trials(Corpus("x", tuple(segments)), TrialPlan(enroll=2, pooled=True))
    bad = Corpus("y", tuple(Utterance(f"u{g}", Path("/a.wav"), speaker="s", gender=g) for g in "fm"))
    broken = Design({**design.sets, "y": bad}, design.record)
    with pytest.raises(InputError, match="more than one gender"):
        write_design(broken, tmp_path / "out" / "data")
    assert not (tmp_path / "out" / "data").exists()
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "theirs").write_text("kept")
    with pytest.raises(InputError, match="more than one gender"):
        write_design(broken, tmp_path / "data")
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["theirs"]


def test_folder_with_segments_and_no_gender_can_be_designed(tmp_path: Path) -> None:
    """A folder of audio: ids with slashes, no gender; segments stay segments."""
    segments = tuple(
        Utterance(f"s{i % 3}/{i}", Path("/audio/long.wav"), speaker=f"s{i % 3}", start=float(i), duration=1.0)
        for i in range(12)
    )
    design = design_trials(Corpus("a name", segments), TrialPlan(enroll=2, pooled=True))
    write_design(design, tmp_path)
    again = open_corpus(tmp_path / "a_name_trials")
    assert {(u.start, u.duration) for u in again} <= {(float(i), 1.0) for i in range(12)}
    assert again.trials is not None
    assert len(again.trials) == 3 * 6


def test_design_reproduces_the_official_lists(tmp_path: Path) -> None:
    """The development set of the challenges: speakers of one chapter are left out, and no chapter is on both sides."""
    write_official_sets(tmp_path)
    official = {name: open_corpus(tmp_path / f"libri_dev_{name}") for name in ("enrolls", "trials_f", "trials_m")}
    everything = Corpus("small", tuple(u for one in official.values() for u in one), kind="kaldi")
    design = design_trials(everything, TrialPlan(enroll=4))
    promises(design, everything, 4, by_session=True)
    for gender in "fm":
        ours, theirs = design.sets[f"small_trials_{gender}"], official[f"trials_{gender}"]
        assert ours.speakers() == theirs.speakers()
    enrolled = set(official["enrolls"].speakers())
    assert not enrolled & set(design.record["not_enrolled"])
    assert set(design.sets["small_enrolls"].speakers()) - enrolled == {"7850"}  # the official lists leave out one more
