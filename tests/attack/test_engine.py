"""The attack from end to end, on synthetic voices; what it says of itself, and what it says of bad input."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import voiceveil as vv
import voiceveil.attack as attack
from tests.support.pitch_bumps import PitchBumps, make_corpus
from voiceveil import metrics
from voiceveil.attack.attacker import TrainingSpeech
from voiceveil.attack.embedding import Embedded, enroll, score_trials, write_scores
from voiceveil.attack.encoder_attackers import EncoderAttacker
from voiceveil.attack.health import control_eer, diagnose
from voiceveil.attack.sets import find_sets
from voiceveil.audio import Waveform, save
from voiceveil.cli.main import main
from voiceveil.core.errors import InputError
from voiceveil.corpus import Trials, open_corpus
from voiceveil.corpus.score_files import read_key, read_scores
from voiceveil.evaluation.inventory import take_inventory
from voiceveil.evaluation.protocol import load_protocol
from voiceveil.evaluation.tasks import TaskContext, TaskOptions, TaskResult, TaskSetup
from voiceveil.evaluation.tasks.verification import VerificationTask
from voiceveil.models.speaker.encoders import TrainingRecord
from voiceveil.models.speaker.plda import Plda
from voiceveil.run.cache import Cache
from voiceveil.run.context import RunContext

PEOPLE = 8


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Enrollment, trials and training speech, original and by B2."""
    folder = tmp_path_factory.mktemp("data")
    make_corpus(folder, "toy_enrolls", range(PEOPLE), range(3), "enroll")
    make_corpus(folder, "toy_trials_x", range(PEOPLE), range(10, 14), "trial")
    make_corpus(folder, "train", range(20, 52), range(6))
    for name in ("toy_enrolls", "toy_trials_x", "train"):
        assert not vv.anonymize(folder / name, folder, seed=1, system="b2").failures
    return folder


WRONG_SCORING = attack.AttackOptions(scoring="pdla")  # type: ignore[arg-type]


@pytest.fixture
def data(made: Path, tmp_path: Path) -> Path:
    """A copy to spoil."""
    return Path(shutil.copytree(made, tmp_path / "data"))


@pytest.mark.slow
def test_attack_from_end_to_end(made: Path, tmp_path: Path) -> None:
    result = attack.attack(
        made,
        anon="_b2",
        attackers=["pitch-bumps", "pitch-bumps-adapted", "free"],
        train=[made / "train_b2"],
        out=tmp_path / "out",
        options=attack.AttackOptions(cache=tmp_path / "cache.sqlite", resamples=50),
    )
    shown = [(row.attacker, row.condition, row.knowledge) for row in result.rows]
    assert shown == [
        ("pitch-bumps", "oo", "unprotected"),
        ("pitch-bumps", "oa", "ignorant"),
        ("pitch-bumps", "aa", "lazy-informed"),
        ("pitch-bumps-adapted", "aa", "semi-informed"),
        *((f"free:{cue}", "aa", "free") for cue in ("duration", "silence", "f0")),
        ("free:order", "aa", "metadata"),
    ]
    value = {(row.attacker, row.condition): row.eer.value for row in result.rows}
    assert value["pitch-bumps", "oo"] < 0.25
    assert value["free:order", "aa"] < 0.1  # the directories are sorted by speaker
    best = result.strongest
    assert best is not None
    heard = {key: v for key, v in value.items() if key[1] != "oo" and key[0] != "free:order"}
    assert result.mean(*best).value == min(heard.values())
    assert "shuffle" in result.health[-1].warnings[0]
    for row in result.rows:
        assert row.scores is not None
        key = read_key(made / "toy_trials_x" / "trials")
        scores = read_scores(row.scores, key)
        assert metrics.eer(scores[key.target], scores[~key.target]) == pytest.approx(row.eer.value)
        assert row.eer.low <= row.eer.value <= row.eer.high
    adapted = result.health[1]
    assert adapted.choice == adapted.tried[0][0]
    assert len(adapted.tried) == 15
    assert adapted.validation_eer == min(rate for _, rate in adapted.tried)
    assert all(0.3 < one.control_eer < 0.7 for one in result.health)
    json.dumps(result.as_dict())


@pytest.mark.slow
def test_scores_equal_a_plain_loop(made: Path) -> None:
    """Enrollment by the unweighted mean of raw embeddings; cosine; the order of the list."""
    one = find_sets(made, anon="_b2")[0]
    encoder = PitchBumps()
    context = RunContext(Cache(None))
    attacker = EncoderAttacker(encoder)
    attacker.fit(TrainingSpeech(), context)
    scores = attacker.score(one, "oa", context)
    assert one.anonymized is not None
    for i in (0, 37, 150):
        own = [encoder(vv.load(u.path)) for u in one.original[0] if u.speaker == one.trials.enroll[i]]
        model = sum(own) / len(own)
        test = encoder(vv.load(one.anonymized[1][str(one.trials.utterance[i])].path))
        cosine = model @ test / np.linalg.norm(model) / np.linalg.norm(test)
        assert scores[i] == pytest.approx(cosine, abs=1e-6)


def test_enrollment_and_score_files_equal_hand_computation(tmp_path: Path) -> None:
    embedded = Embedded(("a1", "a2", "b1"), np.array([[2.0, 0.0], [0.0, 2.0], [0.0, 8.0]]))
    enrolled = enroll(embedded, {"a": ("a1", "a2"), "b": ("b1",)})
    np.testing.assert_array_equal(enrolled.means, [[1.0, 1.0], [0.0, 8.0]])
    np.testing.assert_array_equal(enrolled.counts, [2, 1])
    trials = Trials(np.array(["b", "a", "a"]), np.array(["a1", "b1", "a1"]), np.array([False, False, True]))

    def dot(enroll: Any, counts: Any, test: Any) -> Any:
        return enroll @ test.T

    scores = score_trials(trials, enrolled, embedded, dot)
    np.testing.assert_array_equal(scores, [0.0, 8.0, 2.0])
    write_scores(tmp_path / "deep" / "x.scores", trials, scores)
    assert (tmp_path / "deep" / "x.scores").read_text() == "b a1 0.0\na b1 8.0\na a1 2.0\n"
    with pytest.raises(InputError, match="no enrollment"):
        enroll(embedded, {"c": ()})


@pytest.mark.slow
def test_second_run_uses_the_cache(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = attack.AttackOptions(cache=tmp_path / "c", resamples=10)
    first = attack.attack(made, attackers=["pitch-bumps"], options=options)
    monkeypatch.setattr(PitchBumps, "__call__", lambda self, wave: pytest.fail("computed again"))
    second = attack.attack(made, attackers=["pitch-bumps"], options=options)
    assert first.rows == second.rows
    assert first.strongest is None  # original speech alone


@pytest.mark.slow
def test_control_eer_of_a_good_attacker_is_one_half(made: Path) -> None:
    one = find_sets(made)[0]
    rng = np.random.default_rng(0)
    honest = rng.standard_normal(len(one.trials)) + 3.0 * one.trials.target
    assert control_eer(one, honest) == pytest.approx(0.5, abs=0.07)


def test_weak_attackers_give_warnings(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    path.write_text(json.dumps({"data": "anonymized", "accuracy": 0.2, "peak_reached": False, "speakers": 5, "x": 1}))
    (weak,) = attack.make_attackers([f"pitch-bumps:{path}"])
    assert weak.conditions() == {"aa": "semi-informed"}
    health = diagnose(weak, control=0.8, original_eer=0.3)
    told = " ".join(health.warnings)
    for reason in ("weak on original", "shuffled", "never reached its peak", "5 speakers only", "only 20.0%"):
        assert reason in told
    assert (health.accuracy, health.peak_reached) == (0.2, False)
    (good,) = attack.make_attackers(["pitch-bumps"])
    assert diagnose(good, control=0.5, original_eer=0.02).warnings == ()
    path.write_text(json.dumps({"data": "similar", "accuracy": 1.0}))
    assert attack.make_attackers([f"pitch-bumps:{path}"])[0].conditions() == {"aa": "similar-system"}


def test_invalid_training_records_are_rejected(tmp_path: Path) -> None:
    for text in ("no json", '{"data": "other"}', "[1]"):
        (tmp_path / "r.json").write_text(text)
        with pytest.raises(InputError, match=r"record\.json that `voiceveil train` wrote"):
            TrainingRecord.read(tmp_path / "r.json")


def spoil_enrollment(data: Path) -> None:
    for name in ("wav.scp", "utt2spk", "enrolls", "spk2utt"):
        path = data / "toy_enrolls" / name
        path.write_text("".join(line for line in path.open() if not line.startswith("p03")))


def spoil_length(data: Path) -> None:
    save(data / "toy_trials_x_b2" / "wav" / "p02-11.wav", Waveform(np.zeros(100, np.float32), 16000))


def spoil_audio(data: Path) -> None:
    (data / "toy_trials_x_b2" / "wav" / "p02-11.wav").unlink()


def spoil_list(data: Path) -> None:
    path = data / "toy_enrolls_b2" / "wav.scp"
    path.write_text("".join(line for line in path.open() if not line.startswith("p03-00")))


def spoil_trials(data: Path) -> None:
    for path in data.glob("toy_trials_x*/trials"):
        path.unlink()


def spoil_folder(data: Path) -> None:
    shutil.rmtree(data / "toy_enrolls_b2")


@pytest.mark.parametrize(
    ("spoil", "what"),
    [
        (spoil_enrollment, "speaker p03 of the trials has no enrollment audio"),
        (spoil_length, "utterance p02-11 has 0.006 s"),
        (spoil_audio, "no such audio file"),
        (spoil_list, "1 utterance\\(s\\) are missing, e.g. p03-00"),
        (spoil_trials, "no trials here"),
        (spoil_folder, "needs the enrollment toy_enrolls_b2"),
    ],
)
def test_invalid_data_is_found_before_the_work(
    data: Path, spoil: Any, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PitchBumps, "__call__", lambda self, wave: pytest.fail("the work has begun"))
    spoil(data)
    with pytest.raises(InputError, match=what):
        attack.attack(data, anon="_b2", attackers=["pitch-bumps"])


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"anon": "_b3"}, "no anonymized speech toy_trials_x_b3.*did you mean toy_trials_x_b2"),
        ({"anon": ""}, "suffix is empty"),
        ({"anon": "_b2", "sets": ["toi"]}, "no set 'toi'"),
        ({"anon": "_b2", "attackers": ["pitch-bumbs"]}, "did you mean pitch-bumps"),
        ({"anon": "_b2", "attackers": []}, "no attacker"),
        ({"anon": "_b2", "attackers": ["free:smell"]}, "unknown cue"),
        ({"anon": "_b2", "attackers": ["pitch-bumps-adapted"]}, "needs anonymized training speech"),
        ({"attackers": ["free:f0"], "jobs": 0}, "at least one job"),
        (
            {"anon": "_b2", "options": attack.AttackOptions(scoring="plda")},
            "pitch-bumps needs original training speech.*--train-original",
        ),
        ({"anon": "_b2", "options": WRONG_SCORING}, "unknown scoring 'pdla'.*cosine, plda"),
    ],
)
def test_invalid_options_are_rejected(made: Path, options: dict[str, Any], what: str) -> None:
    with pytest.raises(InputError, match=what):
        attack.attack(made, **{"attackers": ["pitch-bumps"], **options})


@pytest.mark.parametrize(
    ("spec", "what"),
    [
        ("campplus:{}/trials", "not a file of weights that torch wrote"),
        ("campplus:{}/none.safetensors", "no such file of weights"),
        ("trained:{}/trials", "not a safetensors file"),
        ("ecapa:speechbrain/spkrec-ecapa-voxceleb", "give a folder that `voiceveil train asv` wrote"),  # a hub id
    ],
)
def test_wrong_models_are_found_before_the_work(
    made: Path, spec: str, what: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(PitchBumps, "__call__", lambda self, wave: pytest.fail("the work has begun"))
    names = f"pitch-bumps,{spec.format(made / 'toy_trials_x')}"
    assert main(["attack", "--data", str(made), "--anon", "_b2", "--attackers", names]) == 1
    assert what in capsys.readouterr().err


def test_training_speakers_must_not_be_in_the_trials(made: Path) -> None:
    with pytest.raises(InputError, match=r"8 training speaker.* are among those attacked"):
        attack.attack(made, anon="_b2", attackers=["pitch-bumps-adapted"], train=[made / "toy_enrolls_b2"])
    with pytest.raises(InputError, match="needs anonymized speech"):
        attack.attack(made, attackers=["pitch-bumps-adapted"], train=[made / "train_b2"])


@pytest.mark.slow
def test_attack_command_writes_scores_and_results(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--data", str(made), "--anon", "_b2", "--attackers", "pitch-bumps,free:f0", "--resamples", "20"]
    assert main(["attack", *options, "--sets", "toy", "--out", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    for word in ("lazy-informed", "toy_trials_x", "shuffled control", "strongest attacker", "free:f0"):
        assert word in text
    assert (tmp_path / "pitch-bumps" / "toy_trials_x.aa.scores").exists()
    assert main(["attack", *options, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["rows"] == [
        {**row, "scores": None} for row in json.loads((tmp_path / "attack.json").read_text())["rows"]
    ]
    assert main(["attack", "--data", str(tmp_path / "none")]) == 1
    assert "no such folder" in capsys.readouterr().err
    assert main(["attack", "--data", str(made), "--attackers", ","]) == 1


@pytest.mark.slow
def test_plda_scores_from_end_to_end(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """PLDA learns from original speech if the encoder did, from anonymized speech if adapted; its scores are LLRs."""
    options = ["--data", str(made), "--anon", "_b2", "--attackers", "pitch-bumps,pitch-bumps-adapted,free:f0"]
    options += ["--scoring", "plda", "--train", str(made / "train_b2"), "--train-original", str(made / "train")]
    assert main(["attack", *options, "--resamples", "20", "--out", str(tmp_path), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    shown = {(row["attacker"], row["condition"]): (row["backend"], row["llr"]) for row in result["rows"]}
    backend, llr = shown.pop(("pitch-bumps-adapted", "aa"))
    assert backend.startswith("plda60")
    assert llr
    assert shown.pop(("free:f0", "aa")) == ("distance", False)
    assert shown == {("pitch-bumps", condition): ("plda200", True) for condition in ("oo", "oa", "aa")}
    assert {name for name, _ in result["health"][1]["tried"]} == {"plda60", "plda60-single"}
    told = (
        "0 of the 32 speakers of its PLDA are known to have several recording sessions: its likelihood ratios are too"
    )
    assert any(text.startswith(told) for text in result["health"][0]["warnings"])
    encoder = PitchBumps()
    train = [(u.speaker, encoder(vv.load(u.path))) for u in open_corpus(made / "train")]
    scorer = Plda(200).fit(
        np.array([x for _, x in train], float), np.unique([s for s, _ in train], return_inverse=True)[1]
    )
    own = [encoder(vv.load(u.path)) for u in open_corpus(made / "toy_enrolls_b2") if u.speaker == "p02"]
    heard = encoder(vv.load(made / "toy_trials_x_b2" / "wav" / "p05-11.wav"))
    score = scorer(np.mean(own, axis=0, dtype=float)[None], np.array([3]), heard[None].astype(float))[0, 0]
    lines = (tmp_path / "pitch-bumps" / "toy_trials_x.aa.scores").read_text().splitlines()
    found = next(float(line.split()[2]) for line in lines if line.startswith("p02 p05-11 "))
    assert found == pytest.approx(score, rel=1e-5)


_PROTOCOL = """
name = "toy"
title = "Toy"
metrics = ["eer", "cllr"]
levels = {}
conditions = ["oo", "oa", "aa"]
scoring = "plda"
[[verification]]
dataset = "toy"
split = "dev"
enroll = "toy_enrolls"
trials = [{ set = "toy_trials_x", gender = "f" }]
"""


@pytest.mark.slow
def test_protocol_with_plda_uses_plda_given_training_speech(made: Path, tmp_path: Path) -> None:
    (tmp_path / "toy.toml").write_text(_PROTOCOL)
    protocol = load_protocol(tmp_path / "toy.toml")

    def verified(train: list[str], out: Path) -> TaskResult:
        setup = TaskSetup(take_inventory(protocol, made, train=train), made, TaskOptions(attackers=("pitch-bumps",)))
        return VerificationTask().run(TaskContext(setup, {}, RunContext(Cache(None)), out, "_b2", anon_data=made))

    result = verified(["train"], tmp_path / "a")
    assert {(f.metric, f.condition) for f in result.figures} == {
        (m, c) for m in ("eer", "cllr") for c in ("oo", "oa", "aa")
    }
    assert list(result.notes) == []
    result = verified([], tmp_path / "b")
    assert {f.metric for f in result.figures} == {"eer"}
    assert {"worst", "below", "identified", "candidates"} <= result.figures[0].detail["speaker_rates"].keys()
    assert result.notes[0] == "scores are cosines: the PLDA of the protocol needs training speech, and there is none"
    assert "no Cllr of pitch-bumps" in result.notes[1]


def test_set_without_anonymized_version_is_reported(data: Path) -> None:
    shutil.copytree(data / "toy_trials_x", data / "toy_trials_y")
    with pytest.raises(
        InputError, match=r"no anonymized speech toy_trials_y_b2.*anonymize it too.*--sets toy_trials_x"
    ):
        find_sets(data, anon="_b2")
    assert [one.name for one in find_sets(data, anon="_b2", names=["toy_trials_x"])] == ["toy_trials_x"]


def test_original_sets_are_not_suggested_as_anonymized(data: Path) -> None:
    for name in ("toy_enrolls", "toy_trials_x"):
        shutil.rmtree(data / f"{name}_b2")
    with pytest.raises(InputError, match=r"no anonymized speech toy_trials_x_b2 \(anonymize it first"):
        find_sets(data, anon="_b2")


def test_anonymized_data_may_be_elsewhere_among_other_versions(data: Path, tmp_path: Path) -> None:
    """Other systems' directories beside the original ones are not taken for original."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for name in ("toy_enrolls", "toy_trials_x"):
        shutil.copytree(data / f"{name}_b2", data / f"{name}_other")
        shutil.move(data / f"{name}_b2", elsewhere / f"{name}_b2")
    assert [one.name for one in find_sets(data, anon="_b2", anon_data=elsewhere)] == ["toy_trials_x"]
    assert [one.name for one in find_sets(data)] == ["toy_trials_x"]


def test_campplus_from_end_to_end(made: Path, tmp_path: Path) -> None:
    """The ready-made encoder, through two processes."""
    result = attack.attack(
        made, attackers=["campplus"], jobs=2, options=attack.AttackOptions(cache=tmp_path / "c", resamples=20)
    )
    assert [(row.condition, row.knowledge) for row in result.rows] == [("oo", "unprotected")]
    assert result.health[0].original_eer == pytest.approx(result.rows[0].eer.value)
    assert result.rows[0].eer.value < 0.4
