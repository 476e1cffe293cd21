"""Trials of several utterances, of both genders, and of one half of the speakers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import voiceveil.attack as attack
from tests.support.pitch_bumps import PitchBumps, make_corpus
from voiceveil.attack.attacker import TrainingSpeech
from voiceveil.attack.embedding import embed
from voiceveil.attack.encoder_attackers import EncoderAttacker
from voiceveil.attack.sets import TrialSet
from voiceveil.attack.trial_design import group_trials, in_half, mix_genders, single_utterances, take_half
from voiceveil.cli.main import main
from voiceveil.core.errors import InputError
from voiceveil.corpus import Corpus, Trials, Utterance
from voiceveil.evaluation.inventory import take_inventory
from voiceveil.evaluation.protocol import load_protocol
from voiceveil.evaluation.results import Results
from voiceveil.evaluation.tasks import TaskContext, TaskOptions, TaskSetup
from voiceveil.evaluation.tasks.verification import VerificationTask
from voiceveil.report.report_data import ReportData
from voiceveil.report.sections import command
from voiceveil.report.task_parts import _further_trials
from voiceveil.run.context import RunContext


def trial_set(gender: str, speakers: list[str], utterances: int = 7) -> TrialSet:
    """All pairs of speakers of one gender and their utterances; the last speaker is not enrolled."""
    spoken = [Utterance(f"{s}-{i}", Path("x"), speaker=s, gender=gender) for s in speakers for i in range(utterances)]
    enrolled = [Utterance(f"{s}-e", Path("x"), speaker=s, gender=gender) for s in speakers[:-1]]
    rows = [(s, u.id, u.speaker == s) for s in speakers[:-1] for u in spoken]
    name = f"toy_trials_{gender}"
    return TrialSet(
        name,
        gender,
        Trials(*(np.array(column) for column in zip(*rows, strict=True))),
        {s: (f"{s}-e",) for s in speakers[:-1]},
        {u.id: str(u.speaker) for u in spoken},
        (Corpus("toy_enrolls", tuple(enrolled)), Corpus(name, tuple(spoken))),
        None,
    )


WOMEN, MEN = trial_set("f", ["f1", "f2", "f3", "f4"]), trial_set("m", ["m1", "m2", "m3"])


def test_groups_are_compared_with_whom_their_utterances_are_compared_with() -> None:
    grouped = group_trials(WOMEN, 3)
    assert grouped is not None
    assert grouped.size == 3
    assert len(grouped.groups) == 4 * 2  # seven utterances: two groups of three, one left over
    expected = set()
    for name, members in grouped.groups.items():
        speakers = {WOMEN.speaker_of[key] for key in members}
        assert len(speakers) == 1 == len(members) / 3
        expected |= {(claimed, name, claimed in speakers) for claimed in ("f1", "f2", "f3")}
    trials = grouped.trials
    assert set(zip(trials.enroll.tolist(), trials.utterance.tolist(), trials.target.tolist(), strict=True)) == expected
    used = [key for members in grouped.groups.values() for key in members]
    assert sorted(u.id for u in grouped.speech("oo")[1]) == sorted(used)
    assert len(set(used)) == len(used)
    assert group_trials(WOMEN, 3, seed=1) != grouped
    assert group_trials(WOMEN, 8) is None
    assert group_trials(WOMEN, 1) is WOMEN


def test_group_with_a_trial_missing_from_the_list_is_not_compared() -> None:
    kept = ~((WOMEN.trials.enroll == "f1") & (WOMEN.trials.utterance == "f2-0"))
    grouped = group_trials(replace(WOMEN, trials=WOMEN.trials[kept]), 7)
    assert grouped is not None
    pairs = {(e, grouped.speaker_of[u]) for e, u in zip(grouped.trials.enroll, grouped.trials.utterance, strict=True)}
    assert pairs == {(e, s) for e in ("f1", "f2", "f3") for s in ("f1", "f2", "f3", "f4")} - {("f1", "f2")}


def test_single_utterances_of_groups_are_in_the_order_of_the_trials() -> None:
    grouped = group_trials(WOMEN, 2)
    assert grouped is not None
    single = single_utterances(grouped)
    assert len(single.trials) == 2 * len(grouped.trials)
    for number in (0, 5, 17):
        members = grouped.groups[str(grouped.trials.utterance[number])]
        assert single.trials.utterance[2 * number : 2 * number + 2].tolist() == list(members)
        assert set(single.trials.enroll[2 * number : 2 * number + 2]) == {grouped.trials.enroll[number]}


def test_mixed_trials_are_all_pairs_of_both_genders() -> None:
    (mixed,) = mix_genders([WOMEN, MEN])
    assert (mixed.name, mixed.gender, mixed.pairs) == ("toy_trials_mixed", "", "mixed")
    assert len(mixed.trials) == 5 * 7 * 7  # five enrolled, seven utterances of seven speakers
    assert mixed.trials.target.sum() == 5 * 7
    assert {("m1", "f4-0"), ("f1", "m3-6")} <= set(zip(mixed.trials.enroll, mixed.trials.utterance, strict=True))
    assert mix_genders([WOMEN]) == []


def test_half_of_the_speakers_is_enrolled_and_tested() -> None:
    half = take_half(trial_set("f", ["1", "2", "3", "4", "5"]), "odd")
    assert list(half.enrollment) == ["1", "3"]
    assert set(half.speaker_of.values()) == {"1", "3", "5"}
    assert set(half.trials.enroll) == {"1", "3"}
    assert len(half.trials) == 2 * 3 * 7
    assert [in_half("even")(speaker) for speaker in ("p226", "8842", "S01", "vctk2-p7")] == [True, True, False, False]
    with pytest.raises(InputError, match="no number"):
        in_half("odd")("anna")
    with pytest.raises(InputError, match="no target"):
        take_half(MEN, "even")  # m2 alone is left
    with pytest.raises(InputError, match="half"):
        in_half("both")  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def speech(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Synthetic voices, taken as anonymized by a system that changes nothing."""
    folder = tmp_path_factory.mktemp("halves")
    for suffix in ("", "_same"):
        make_corpus(folder, f"toy_enrolls{suffix}", range(24), range(4), "enroll")
        make_corpus(folder, f"toy_trials_x{suffix}", range(24), range(10, 14), "trial")
    return folder


def test_score_of_several_utterances_is_that_of_their_mean_embedding(speech: Path) -> None:
    (single,) = attack.sets.find_sets(speech, anon="_same")
    grouped = group_trials(single, 2)
    assert grouped is not None
    context, encoder = RunContext(), PitchBumps()
    attacker = EncoderAttacker(encoder)
    attacker.fit(TrainingSpeech(), context)
    scores = attacker.score(grouped, "aa", context)
    enrollment, trial = (embed(side, encoder, context) for side in grouped.speech("aa"))
    for number in (0, 100, 999):
        model = enrollment.of(grouped.enrollment[str(grouped.trials.enroll[number])]).sum(axis=0) / 4
        members = grouped.groups[str(grouped.trials.utterance[number])]
        test = (trial.of(members[:1])[0] + trial.of(members[1:])[0]) / 2
        cosine = model @ test / np.linalg.norm(model) / np.linalg.norm(test)
        assert scores[number] == pytest.approx(cosine, abs=1e-6)


@pytest.mark.slow
def test_attack_on_one_half_learns_from_the_other(speech: Path, tmp_path: Path) -> None:
    train = [speech / "toy_trials_x_same"]  # four utterances a speaker: two are tested, fewer than a trial of four has
    options = attack.AttackOptions(
        resamples=50, conditions=("aa",), speakers="even", trial_utterances=(1, 2, 4), mixed=True, from_enrollment=True
    )
    names = ["pitch-bumps", "pitch-bumps-adapted", "free:f0", "fusion"]
    result = attack.attack(speech, anon="_same", attackers=names, train=train, out=tmp_path / "out", options=options)
    kinds = {(row.trial_utterances, row.pairs) for row in result.rows if row.attacker == "fusion"}
    assert kinds == {(size, pairs) for size in (1, 2, 4) for pairs in ("listed", "mixed")}
    for row in result.rows:
        assert set(row.scored.enroll[row.scored.target].tolist()) == set(range(12))
        assert row.scores is not None
        assert row.scores.is_file()
        assert row.speakers is not None
        assert np.isfinite(row.speakers.worst.value) == (row.trial_utterances == 1)  # others have too few trials
        assert 0.0 <= row.speakers.identified.value <= 1.0
    one, two = (result.mean("free:f0", "aa", trial_utterances=size).value for size in (1, 2))
    assert two < one  # scores of single utterances are averaged
    assert result.tried == {"attackers": 4, "back-ends": 15 + 5}
    assert result.selected is not None
    text = str(result)
    assert "attacked: speakers with even ids alone" in text
    assert "tried: 4 attackers, 20 back-ends and fusions, chosen on training speakers, never on the trials" in text
    fused = next(health for health in result.health if health.attacker == "fusion")
    assert fused.validation_eer == fused.tried[0][1]
    assert "pitch-bumps-adapted" in fused.choice


def test_training_speakers_among_the_attacked_are_refused_unless_one_half_is_attacked(speech: Path) -> None:
    with pytest.raises(InputError, match="--speakers even"):
        attack.attack(speech, anon="_same", attackers=["pitch-bumps-adapted"], train=[speech / "toy_enrolls_same"])


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--trial-utterances", "0"], "no numbers from 1"),
        (["--trial-utterances", "1;3"], "no numbers from 1"),
        (["--trial-utterances", "50"], "no speaker has 50"),
        (["--trials", "mixt"], "mixed"),
        (["--speakers", "half"], "even"),
        (["--attackers", "fusion"], "needs two other attackers"),
        (["--attackers", "fusion:x"], "no argument"),
        (["--attackers", "strongest:x"], "no argument"),
        (["--attackers", "codes:x"], "no number of codes"),
    ],
)
def test_wrong_options_are_explained(
    speech: Path, options: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["attack", "--data", str(speech), "--anon", "_same", "--attackers", "pitch-bumps", "-q", *options]
    try:
        code = main(words)
    except SystemExit as error:
        code = int(str(error.code))
    assert code in (1, 2)
    assert problem in capsys.readouterr().err


_PROTOCOL = """
name = "toy"
title = "Toy"
metrics = ["eer", "identified"]
conditions = ["aa"]

[[verification]]
dataset = "toy"
split = "dev"
enroll = "toy_enrolls"
trials = [{ set = "toy_trials_x" }]
"""


def test_figures_of_an_evaluation_name_the_kind_of_trials(speech: Path, tmp_path: Path) -> None:
    (tmp_path / "toy.toml").write_text(_PROTOCOL)
    inventory = take_inventory(load_protocol(tmp_path / "toy.toml"), speech)
    options = TaskOptions(attackers=("pitch-bumps",), trial_utterances=(1, 2), mixed=True)
    context = TaskContext(TaskSetup(inventory, speech, options), {}, RunContext(), tmp_path, "_same", speech)
    result = VerificationTask().run(context)
    results = Results("same", "toy", tuple(result.figures), dict(result.info))
    results.save(tmp_path / "results.json")
    again = Results.load(tmp_path / "results.json")
    assert len(again.find("eer")) == 1, "rankings and official files see the trials of the list alone"
    kinds = [(f.trial_utterances, f.trials, f.trial_kind) for f in again.find("eer_trials")]
    assert kinds == [(1, "mixed", "mixed"), (2, "", "2 utterances"), (2, "mixed", "mixed, 2 utterances")]
    assert len(again.find("identified")) == 4
    assert again.info["tried"] == {"attackers": 1, "back-ends": 0}
    several, speakers = _further_trials(ReportData(again, tmp_path))
    assert [row[2] for row in several.rows] == ["mixed", "2 utterances", "mixed, 2 utterances"]
    assert speakers.title == "Single speakers, by pitch-bumps"
    assert len(speakers.rows) == 4
    words = command(ReportData(replace_info(again), tmp_path)).replace("\\", "").split()
    assert {"--trial-utterances", "1,2", "--trials", "mixed"} <= set(words)


def replace_info(results: Results) -> Results:
    """Return results that say which version made them, as those of an evaluation do."""
    return replace(results, info={**results.info, "voiceveil": "0"})


@pytest.mark.slow
def test_histograms_of_codes_attack_in_one_command(speech: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("moonshine_voice")
    options = ["--attackers", "codes:16,moonshine-adapted:2,fusion", "--speakers", "odd", "--resamples", "20"]
    train = ["--train", str(speech / "toy_enrolls_same"), str(speech / "toy_trials_x_same")]
    assert main(["attack", "--data", str(speech), "--anon", "_same", *options, *train]) == 0
    shown = capsys.readouterr()
    assert "3 attackers (codes:16, moonshine-adapted:2, fusion)" in shown.err
    assert "tried: 3 attackers" in shown.out
    assert "attacked: speakers with odd ids alone" in shown.out
