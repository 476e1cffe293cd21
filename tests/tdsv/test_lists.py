"""The challenge's lists and layout: the plan's own examples, round trips, and what is wrong, with file and line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from voiceveil.audio import Waveform, save
from voiceveil.core.errors import InputError
from voiceveil.tdsv.challenge import check, open_challenge
from voiceveil.tdsv.lists import (
    Label,
    TdsvKey,
    TdsvModel,
    Trial,
    read_keys,
    read_labels,
    read_models,
    read_trials,
    write_keys,
    write_labels,
    write_models,
    write_trials,
)
from voiceveil.tdsv.phrases import PERSIAN_VOWELS, language_of, phrases

# Section 2.6 to 3 of the plan.
TASK1 = """\
model-id phrase-id gender enroll-file-id1 enroll-file-id2 enroll-file-id3
eval_model_000001 05 m enr_036529 enr_036530 enr_036531
eval_model_000002 08 f enr_010048 enr_010049 enr_010050
"""
TASK2 = """\
model-id gender enroll-file-ids ...
eval_model_000001 f enr_014718 enr_014719 enr_014720 enr_014721 enr_014722 enr_014723 enr_014687
eval_model_000004 f enr_045576 enr_045577 enr_045578 enr_045579 enr_041021 enr_045580
"""
TRIALS = "model-id evaluation-file-id\neval_model_000001 evl_000122\neval_model_000001 evl_000186\n"
LABELS = "train-file-id speaker-id phrase-id\ntrn_000001 spk_000001 03\ntrn_000002 spk_000001 FT\n"

# Table 2 as it is printed, letters apart.
TABLE_2 = """\
S E D A A Y E - M A N - N E S H A A N D A H A N D E Y E - H O V I Y Y A T E - M A N - A H A S T
S E D A A Y E - H A R - K A S - M O N H A S E R - B E - F A R D - A H A S T
H O V I Y Y A T E - M A N - R A A - B A A - S E D A A Y E - M A N - T A A H Y I D - K O N
S E D A A Y E - M A N - R A M Z E - A H O B U R E - M A N - A H A S T
B A N I A H A A D A M - A H A A H Z A A Y E - Y E K D I G A R A N D
M A Y - V O Y S - I H Z - M A Y - P A E S W E R D
O W K E Y - G U W G A H L
A A R T A H F I H S H A H L - I H N T E H L A H J H A H N S - I H Z - F A O R - R I Y L
A E K S H A H N Z - S P I Y K - L A W D E R - D H A E N - W E R D Z
D H E H R - I H Z - N O W - S A H C H - T H I H N G - A E Z - E Y - F R I Y - L A H N C H
""".splitlines()
ARPABET = {
    "AA", "AE", "AH", "AO", "AW", "AY", "B", "CH", "D", "DH", "EH", "ER", "EY", "F", "G", "HH", "IH", "IY", "JH", "K",
    "L", "M", "N", "NG", "OW", "OY", "P", "R", "S", "SH", "T", "TH", "UH", "UW", "V", "W", "Y", "Z", "ZH",
}  # fmt: skip
PERSIAN = {*PERSIAN_VOWELS, "AH", "SH", *"BDFGHKMNRSTVYZ"}


def test_phrases_are_those_of_tables_1_and_2() -> None:
    ten = phrases()
    assert list(ten) == [f"{n:02d}" for n in range(1, 11)]
    assert [p.language for p in ten.values()] == ["Persian"] * 5 + ["English"] * 5
    assert ten["06"].text == "My voice is my password."
    assert ten["05"].text == "baniadam azaye yekdigarand."
    for phrase, printed in zip(ten.values(), TABLE_2, strict=True):
        letters = "-".join("".join(word) for word in phrase.words)
        assert letters == printed.replace(" ", "")
        known = ARPABET if phrase.language == "English" else PERSIAN
        assert {sound for word in phrase.words for sound in word} <= known
        assert len(phrase.words) == len(phrase.text.split())
    assert language_of("01") == "Persian"
    assert language_of("11") is None


def test_examples_of_the_plan_are_read(tmp_path: Path) -> None:
    for name, text in (("1", TASK1), ("2", TASK2), ("t", TRIALS), ("l", LABELS)):
        (tmp_path / name).write_text(text)
    task, models = read_models(tmp_path / "1")
    assert task == 1
    assert models["eval_model_000002"] == TdsvModel(
        "eval_model_000002", "f", ("enr_010048", "enr_010049", "enr_010050"), (), "08", 3
    )
    task, models = read_models(tmp_path / "2")
    assert task == 2
    assert models["eval_model_000004"].passphrase == ("enr_045576", "enr_045577", "enr_045578")
    assert models["eval_model_000004"].free_text == ("enr_045579", "enr_041021", "enr_045580")
    assert read_trials(tmp_path / "t")[1] == Trial("eval_model_000001", "evl_000186", 3)
    assert read_labels(tmp_path / "l")[1] == Label("trn_000002", "spk_000001", "FT", 3)


def test_examples_of_the_plan_round_trip(tmp_path: Path) -> None:
    for number, text in ((1, TASK1), (2, TASK2)):
        (tmp_path / "in").write_text(text)
        write_models(tmp_path / "out", read_models(tmp_path / "in")[1].values())
        assert (tmp_path / "out").read_text() == text, number
    (tmp_path / "in").write_text(TRIALS)
    write_trials(tmp_path / "out", read_trials(tmp_path / "in"))
    assert (tmp_path / "out").read_text() == TRIALS
    (tmp_path / "in").write_text(LABELS)
    write_labels(tmp_path / "out", read_labels(tmp_path / "in"))
    assert (tmp_path / "out").read_text() == LABELS
    keys = (
        TdsvKey("m1", "t1", "TC", "s1", "s1", "f", "01", "English", 2),
        TdsvKey("m1", "t2", "IW", None, "s2", None, None, None, 3),
    )
    write_keys(tmp_path / "keys", keys)
    assert read_keys(tmp_path / "keys") == keys
    (tmp_path / "keys").write_text("model-id evaluation-file-id trial-type\nm1 t1 TW\n")
    assert read_keys(tmp_path / "keys") == (TdsvKey("m1", "t1", "TW", line=2),)


@pytest.mark.parametrize(
    ("reader", "text", "message"),
    [
        (read_models, TASK1 + "m3 01 f enr_1 enr_2\n",
         ":4: model m3 has 2 enrollment files, not three (write `<model> <phrase> <m|f> <file> <file> <file>`)"),
        (read_models, TASK2 + "m3 f enr_1 enr_2\n",
         ":4: model m3 has 2 enrollment files, not three (write `<model> <m|f> <file> <file> <file> <file>...`)"),
        (read_models, TASK2 + "m3 f e1 e2 e3\n",
         ":4: model m3 has 3 enrollment files: the passphrase, but no free text "
         "(write `<model> <m|f> <file> <file> <file> <file>...`)"),
        (read_models, TASK1 + "m3 01 f e1 e2 e3 e4\n",
         ":4: model m3 has 4 enrollment files, not three (write `<model> <phrase> <m|f> <file> <file> <file>`)"),
        (read_models, TASK1 + "m3 01 x e1 e2 e3\n",
         ":4: not a model of task 1 (write `<model> <phrase> <m|f> <file> <file> <file>`)"),
        (read_models, TASK1 + "m3 01 f e1 e1 e3\n", ":4: model m3 has e1 twice (enroll with different recordings)"),
        (read_models, TASK1 + "eval_model_000001 01 f e1 e2 e3\n",
         ":4: model eval_model_000001 is there twice, first on line 2 (keep one)"),
        (read_models, TASK1 + "m3 01 f ../e1 e2 e3\n", ":4: unprintable characters or slashes (restore the file)"),
        (read_trials, TRIALS + "eval_model_000001 evl_000122\n",
         ":4: eval_model_000001 evl_000122: the same as line 2 (keep one of them)"),
        (read_trials, TRIALS + "eval_model_000001\n", ":4: 1 fields, not 2 (write `<model> <evaluation file>`)"),
        (read_trials, TRIALS.split("\n", 1)[1],
         ":1: no header line (the first line starts with `model-id`)"),
        (read_trials, "", ": the file is empty (its first line starts with `model-id`)"),
        (read_labels, LABELS + "trn_000001 s 01\n", ":4: trn_000001: the same as line 2 (keep one of them)"),
        (read_keys, "model-id evaluation-file-id trial-type\nm t XX\n",
         ":2: 'XX' is no type of trial (use TC, TW, IC, IW)"),
        (read_keys, "model-id evaluation-file-id\nm t\n", ":1: no column trial-type (name it in the header)"),
    ],
)  # fmt: skip
def test_faulty_lists_are_rejected(tmp_path: Path, reader: object, text: str, message: str) -> None:
    path = tmp_path / "list.txt"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        reader(path)  # type: ignore[operator]
    assert str(error.value) == f"{path}{message}"


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A good challenge of task 1 with one model, two trials and two training files."""
    root = tmp_path / "task1"
    noise = Waveform(np.random.default_rng(0).normal(0, 0.1, 1600).astype(np.float32), 16000)
    files = {
        "enrollment": ("enr_036529", "enr_036530", "enr_036531"),
        "evaluation": ("evl_000122", "evl_000186"),
        "train": ("trn_000001", "trn_000002"),
    }
    for part, names in files.items():
        for name in names:
            save(root / "wav" / part / f"{name}.wav", noise)
    docs = root / "docs"
    docs.mkdir()
    (docs / "eval_model_enrollment.txt").write_text("".join(TASK1.splitlines(keepends=True)[:2]))
    (docs / "eval_trials.txt").write_text(TRIALS)
    (docs / "train_labels.txt").write_text(LABELS)
    return root


def test_valid_challenge_has_no_faults(small: Path) -> None:
    challenge, faults = check(small)
    assert list(faults) == []
    assert (challenge.task, len(challenge.labels), list(challenge.subsets)) == (1, 2, ["eval"])
    assert challenge.subset("eval").keys is None
    assert [u.id for u in challenge.tests("eval")] == ["evl_000122", "evl_000186"]
    with pytest.raises(InputError, match=r"no subset 'dev' \(there: eval\)"):
        challenge.subset("dev")


def test_faults_of_a_challenge_name_file_and_line(small: Path) -> None:
    docs = small / "docs"
    (docs / "eval_trials.txt").write_text(TRIALS + "eval_model_000001 evl_000999\nnobody evl_000122\n")
    (small / "wav" / "enrollment" / "enr_036530.wav").write_bytes(b"")
    (small / "wav" / "train" / "trn_000009.wav").write_bytes(b"x")
    save(small / "wav" / "train" / "trn_000001.wav", Waveform(np.zeros(0, np.float32), 16000))
    save(small / "wav" / "train" / "trn_000002.wav", Waveform(np.ones(80, np.float32), 8000))
    found = [str(fault).replace(str(small), "DIR") for fault in check(small)[1]]
    assert found == [
        "DIR/docs/eval_trials.txt:4: unknown file evl_000999: there is no wav/evaluation/evl_000999.wav "
        "(correct the id, or copy the recording)",
        "DIR/docs/eval_trials.txt:5: unknown model nobody (it is not in eval_model_enrollment.txt)",
        "DIR/docs/train_labels.txt:2: wav/train/trn_000001.wav: an empty recording",
        "DIR/docs/train_labels.txt:3: wav/train/trn_000002.wav: 1 channel(s) at 8000 Hz; "
        "the challenge has one at 16000 Hz",
        "DIR/docs/eval_model_enrollment.txt:2: wav/enrollment/enr_036530.wav: an empty recording",
        "DIR/wav/train: 1 recordings that no list names, e.g. trn_000009.wav",
    ]
    assert [fault.note for fault in check(small)[1]] == [False, False, False, True, False, True]
    with pytest.raises(InputError, match="unknown file evl_000999"):
        open_challenge(small)


def test_keys_must_match_the_trials_in_order(small: Path) -> None:
    keys = small / "docs" / "eval_keys.txt"
    keys.write_text(
        "model-id evaluation-file-id trial-type\neval_model_000001 evl_000186 TW\neval_model_000001 evl_000122 TC\n"
    )
    with pytest.raises(
        InputError, match=r"eval_keys.txt:2: the key of eval_model_000001 evl_000186, where eval_trials"
    ):
        open_challenge(small)
    keys.write_text("model-id evaluation-file-id trial-type\neval_model_000001 evl_000122 TC\n")
    with pytest.raises(InputError, match="1 keys for 2 trials"):
        open_challenge(small)


def test_other_folders_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no challenge: it has no folder docs"):
        open_challenge(tmp_path)
    (tmp_path / "docs").mkdir()
    with pytest.raises(InputError, match="no list of the challenge"):
        open_challenge(tmp_path)
    (tmp_path / "docs" / "dev_model_enrollment.txt").write_text(TASK1.splitlines()[0] + "\n")
    (tmp_path / "docs" / "dev_trials.txt").write_text(TRIALS.splitlines()[0] + "\n")
    (tmp_path / "docs" / "eval_model_enrollment.txt").write_text(TASK2.splitlines()[0] + "\n")
    (tmp_path / "docs" / "eval_trials.txt").write_text(TRIALS.splitlines()[0] + "\n")
    with pytest.raises(InputError, match=r"a list of task 2, but dev_model_enrollment.txt is one of task 1"):
        open_challenge(tmp_path)
