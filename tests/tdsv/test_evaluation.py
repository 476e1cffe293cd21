"""Figures of answers against counting by hand; answers and submissions, good and bad."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

from voiceveil import metrics
from voiceveil.core.errors import InputError
from voiceveil.metrics import ScoredTrials
from voiceveil.tdsv.answers import check_submission, parse_answer, read_answer, write_answer, write_submission
from voiceveil.tdsv.evaluation import BAYES_THRESHOLD, complete_keys, evaluate, scored_trials
from voiceveil.tdsv.lists import TdsvKey, TdsvModel
from voiceveil.tdsv.tables import read_matching_keys, table

rng = np.random.default_rng(0)
SPEAKERS = [f"s{n}" for n in range(8)]


def some_keys() -> list[TdsvKey]:
    """Four women and four men, two phrases of different languages, all trials within a gender."""
    keys = []
    for s, speaker in enumerate(SPEAKERS):
        for phrase, language in (("01", "Persian"), ("06", "English")):
            for o, other in enumerate(SPEAKERS):
                for said in ("01", "06"):
                    kind = ("T" if o == s else "I") + ("C" if said == phrase else "W")
                    if s % 2 == o % 2 and kind != "IW":
                        for take in range(3):
                            test = f"{other}-{said}-{take}"
                            key = TdsvKey(
                                f"m-{speaker}-{phrase}", test, kind, speaker, other, "fm"[s % 2], phrase, language
                            )
                            keys.append(key)
    return keys


KEYS = some_keys()
MEANS = {"TC": 4.0, "TW": -1.0, "IC": 0.5}
SCORES = np.array([rng.normal(MEANS[key.type], 2.0) for key in KEYS])


def by_hand(chosen: list[int]) -> tuple[float, float]:
    """minDCF and actual DCF by trying every threshold."""
    target = [SCORES[k] for k in chosen if KEYS[k].type == "TC"]
    other = [SCORES[k] for k in chosen if KEYS[k].type != "TC"]

    def cost(threshold: float) -> float:
        miss = sum(score <= threshold for score in target) / len(target)
        alarm = sum(score > threshold for score in other) / len(other)
        return float((10 * 0.01 * miss + 1 * (1 - 0.01) * alarm) / 0.1)

    return min(map(cost, [-np.inf, *target, *other])), cost(float(np.log(9.9)))


def test_figures_of_all_parts_equal_plain_counting() -> None:
    found = evaluate(SCORES, KEYS, resamples=50)
    assert found.units == "speakers"
    assert [(part.group, part.name) for part in found.parts] == [
        ("all", "all trials"), ("type", "TW"), ("type", "IC"), ("language", "English"), ("language", "Persian"),
        ("gender", "men"), ("gender", "women"), ("phrase", "01"), ("phrase", "06"),
    ]  # fmt: skip
    chosen = {
        "all trials": range(len(KEYS)),
        "TW": [k for k, key in enumerate(KEYS) if key.type != "IC"],
        "IC": [k for k, key in enumerate(KEYS) if key.type != "TW"],
        "English": [k for k, key in enumerate(KEYS) if key.language == "English"],
        "women": [k for k, key in enumerate(KEYS) if key.gender == "f"],
        "06": [k for k, key in enumerate(KEYS) if key.phrase == "06"],
    }
    for part in found.parts:
        if part.name in chosen:
            own = list(chosen[part.name])
            minimum, actual = by_hand(own)
            assert part.min_dcf.value == pytest.approx(minimum, abs=1e-12)
            assert part.act_dcf.value == pytest.approx(actual, abs=1e-12)
            target = [SCORES[k] for k in own if KEYS[k].type == "TC"]
            other = [SCORES[k] for k in own if KEYS[k].type != "TC"]
            assert part.eer.value == metrics.eer(target, other)
            assert (part.targets, part.nontargets) == (len(target), len(other))
            assert part.min_dcf.low <= minimum <= part.min_dcf.high
    shares = {one.type: one.accepted for one in found.acceptance}
    for kind, share in shares.items():
        own_scores = SCORES[[key.type == kind for key in KEYS]]
        assert share.value == pytest.approx(np.mean(own_scores > BAYES_THRESHOLD))
        assert share.low <= share.value <= share.high
    assert found.overall.min_dcf.n == 8


def test_resampling_counts_repeated_speakers() -> None:
    """Copies of a speaker are people of their own: the twin builds the trials of every copy, one by one."""
    trials = scored_trials(SCORES, KEYS)
    codes = {speaker: int(trials.enroll[[k.speaker for k in KEYS].index(speaker)]) for speaker in SPEAKERS}
    weights = np.zeros(trials.n_codes)
    drawn = {"s0": 2, "s1": 1, "s2": 3, "s3": 1, "s5": 1}
    for speaker, times in drawn.items():
        weights[codes[speaker]] = times
    tally = trials.tally(weights)
    twin: dict[tuple[float, bool], float] = {}
    for score, key in zip(SCORES, KEYS, strict=True):
        for a in range(drawn.get(key.speaker or "", 0)):
            for b in range(drawn.get(key.test_speaker or "", 0)):
                if key.type[0] == "I" or a == b:
                    twin[score, key.type == "TC"] = twin.get((score, key.type == "TC"), 0) + 1
    for column, is_target in ((tally.target, True), (tally.nontarget, False)):
        assert {s: c for s, c in zip(tally.score, column, strict=True) if c} == {
            s: c for (s, t), c in twin.items() if t == is_target
        }


def test_only_text_dependent_trials_may_have_nontargets_of_one_speaker() -> None:
    score, target, codes = np.array([1.0, 0.0]), np.array([True, False]), np.array([0, 0])
    ScoredTrials(score, target, codes, codes, text_dependent=True)
    with pytest.raises(InputError, match="nontarget, but its speakers are the same"):
        ScoredTrials(score, target, codes, codes)
    with pytest.raises(InputError, match="target, but its speakers differ"):
        ScoredTrials(score, target, codes, np.array([1, 0]), text_dependent=True)


def test_keys_without_speakers_give_intervals_over_models() -> None:
    bare = [TdsvKey(key.model, key.test, key.type) for key in KEYS]
    found = evaluate(SCORES, bare, resamples=50)
    assert (found.units, found.overall.min_dcf.of, found.overall.min_dcf.n) == ("models", "models", 16)
    assert [part.group for part in found.parts] == ["all", "type", "type"]
    assert found.overall.min_dcf.value == evaluate(SCORES, KEYS, resamples=50).overall.min_dcf.value
    models = {key.model: TdsvModel(key.model, key.gender or "", ("a", "b", "c"), (), key.phrase) for key in KEYS}
    completed = complete_keys(bare, models)
    assert [(k.gender, k.phrase, k.language) for k in completed] == [(k.gender, k.phrase, k.language) for k in KEYS]


def test_impostors_with_wrong_words_are_allowed() -> None:
    keys = [*KEYS, TdsvKey("m-s0-01", "x", "IW", "s0", "s2", "f", "01", "Persian")]
    found = evaluate([*SCORES, -9.0], keys, resamples=20)
    assert [part.name for part in found.group("type")] == ["TW", "IC", "IW"]
    assert "TC against IW: an impostor, wrong words" in table([found])


def test_invalid_keys_and_scores_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"the keys have no targets \(TC\)"):
        evaluate([0.0], [TdsvKey("m", "t", "TW")])
    with pytest.raises(InputError, match="the keys have no nontargets"):
        evaluate([0.0], [TdsvKey("m", "t", "TC")])
    with pytest.raises(InputError, match="1 scores for 2 keys"):
        evaluate([0.0], [TdsvKey("m", "t", "TC"), TdsvKey("m", "u", "TW")])
    (tmp_path / "trials.txt").write_text("model-id evaluation-file-id\nm t\nm u\n")
    (tmp_path / "keys.txt").write_text("model-id evaluation-file-id trial-type\nm u TW\n")
    with pytest.raises(InputError, match=r"trials\.txt:2: no key for m t in keys\.txt"):
        read_matching_keys(tmp_path / "trials.txt", tmp_path / "keys.txt")
    (tmp_path / "keys.txt").write_text("model-id evaluation-file-id trial-type\nm u TW\nm t TC\n")
    assert [k.type for k in read_matching_keys(tmp_path / "trials.txt", tmp_path / "keys.txt")] == ["TC", "TW"]


def test_answers_round_trip(tmp_path: Path) -> None:
    scores = np.array([-6.1284, -97.8528, 4.4121])
    write_answer(tmp_path / "answer.txt", scores)
    assert (tmp_path / "answer.txt").read_text() == "-6.128400\n-97.852800\n4.412100\n"
    np.testing.assert_allclose(read_answer(tmp_path / "answer.txt", 3), scores)
    np.testing.assert_array_equal(parse_answer(b"1\r\n-2e3\r\n.5", "x"), [1.0, -2000.0, 0.5])
    with pytest.raises(InputError, match="the score of trial 2 is not finite"):
        write_answer(tmp_path / "a", [1.0, np.nan])


BAD_ANSWERS = [
    (b"score\n1\n2\n", "answer.txt:1: a header: 'score' (remove it: the first line is the first score)"),
    (b"1\n2\n", "answer.txt: 2 scores for 3 trials (give one score per trial)"),
    (b"1\n2\n3\n4\n", "answer.txt: 4 scores for 3 trials (give one score per trial)"),
    (b"1\nnan\n3\n", "answer.txt:2: 'nan' is not a finite number (repair the system: every trial needs a score)"),
    (b"1\n2\n-inf\n", "answer.txt:3: '-inf' is not a finite number (repair the system: every trial needs a score)"),
    (b"1\n2\n1e999\n", "answer.txt:3: '1e999' is not a finite number (repair the system: every trial needs a score)"),
    (b"1\n\n3\n", "answer.txt:2: a blank line (remove it: write one score per line, nothing else)"),
    (b"m t 1\n2\n3\n", "answer.txt:1: 3 columns: 'm t 1' (the scores alone, in the order of the trial file)"),
    (b"1\n1_0\n3\n", "answer.txt:2: '1_0' is not a number (write floats such as -6.1284)"),
    (b"", "answer.txt: no scores (write one number per line)"),
]


def zipped(path: Path, **files: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(name.replace("__", "/").replace("_txt", ".txt"), data)
    return path


@pytest.mark.parametrize(("data", "message"), BAD_ANSWERS)
def test_invalid_answers_are_rejected_in_files_and_archives(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "answer.txt").write_bytes(data)
    with pytest.raises(InputError) as error:
        write_submission(tmp_path / "s.zip", tmp_path / "answer.txt", 3)
    assert str(error.value) == f"{tmp_path}/{message}"
    assert not (tmp_path / "s.zip").exists()
    with pytest.raises(InputError) as error:
        check_submission(zipped(tmp_path / "s.zip", answer_txt=data), 3)
    assert str(error.value) == f"{tmp_path}/s.zip/{message}"


def test_submission_is_valid_and_reproducible(tmp_path: Path) -> None:
    write_answer(tmp_path / "answer.txt", [1.0, 2.0, 3.0])
    first = write_submission(tmp_path / "a.zip", tmp_path / "answer.txt", 3).read_bytes()
    assert write_submission(tmp_path / "b.zip", tmp_path / "answer.txt", 3).read_bytes() == first
    with zipfile.ZipFile(io.BytesIO(first)) as archive:
        assert archive.namelist() == ["answer.txt"]
    np.testing.assert_array_equal(check_submission(tmp_path / "a.zip", 3), [1.0, 2.0, 3.0])
    with pytest.raises(InputError, match="a submission is a ZIP file"):
        write_submission(tmp_path / "a.tar", tmp_path / "answer.txt", 3)


def test_invalid_submission_archives_are_rejected(tmp_path: Path) -> None:
    path = tmp_path / "s.zip"
    fix = " (pack answer.txt alone: `voiceveil tdsv submit answer.txt --trials TRIALS --out s.zip`)"
    good = b"1\n2\n3\n"

    def reason() -> str:
        with pytest.raises(InputError) as error:
            check_submission(path, 3)
        return str(error.value).removeprefix(f"{path}: ").removesuffix(fix)

    path.write_bytes(b"1\n2\n3\n")
    assert reason() == "not a ZIP file"
    zipped(path, answer_txt=good, readme_txt=b"hello")
    assert reason() == "readme.txt: a file that does not belong there"
    zipped(path, Answer_txt=good)
    assert reason() == "Answer.txt: a file that does not belong there"
    zipped(path, folder__answer_txt=good)
    assert reason() == "folder/answer.txt: a folder, where answer.txt must stand at the root"
    zipped(path, answer_txt=good)
    with zipfile.ZipFile(path, "a") as archive:
        archive.mkdir("empty")
    assert reason() == "empty/: a folder"
    zipped(path)
    assert reason() == "no answer.txt in it"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("../answer.txt", good)
    assert reason().startswith("'../answer.txt': a path that leads out of the archive")
