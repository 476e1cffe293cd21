"""The challenges' data from corpora as distributed, at the official sizes.

dev-clean, test-clean and IEMOCAP are complete trees of tiny audio files; VCTK and train-clean-360 (127,000 files) are
given to the code as their readers would return them, and VCTK is read from a small tree as well.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest

from tests.support.raw_corpora import (
    VCTK_TRIALS,
    VctkTrials,
    make_iemocap,
    make_librispeech,
    make_vctk,
    train_clean_360,
    vctk_corpus,
    write_vctk_lists,
)
from voiceveil.cli.main import main
from voiceveil.corpus import challenge_sets, check, open_corpus
from voiceveil.corpus.challenge_data import prepare_challenge
from voiceveil.corpus.challenge_sets import Sources
from voiceveil.corpus.librispeech import read_librispeech
from voiceveil.evaluation.plan_counts import count_differences, word_differences
from voiceveil.evaluation.protocol import load_protocol

pytestmark = pytest.mark.slow  # complete corpora


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """LibriSpeech without training data, the organizers' VCTK lists, IEMOCAP."""
    root = tmp_path_factory.mktemp("raw")
    make_librispeech(root / "LibriSpeech")
    (root / "texts.json").write_text(json.dumps(write_vctk_lists(root / "lists")))
    make_iemocap(root / "IEMOCAP")
    return root


@pytest.fixture
def full_vctk(raw: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """VCTK at its full size, without files."""
    texts = json.loads((raw / "texts.json").read_text())
    monkeypatch.setattr(challenge_sets, "read_vctk", lambda folder: vctk_corpus(folder, texts))


def prepare(edition: str, raw: Path, out: Path, *options: str) -> int:
    corpora = {"librispeech": "LibriSpeech", "vctk": "VCTK", "vctk-lists": "lists", "iemocap": "IEMOCAP"}
    given = [word for name, folder in corpora.items() for word in (f"--{name}", str(raw / folder))]
    return main(["corpus", "prepare", edition, *given, "--out", str(out), *options])


def differences(edition: str, data: Path) -> list[str]:
    """What is not as the plan says, of the sets in a folder."""
    protocol = load_protocol(edition)
    sets = {name: open_corpus(data / name) for name in protocol.roles() if (data / name).exists()}
    return [d.text for d in count_differences(protocol, sets)] + word_differences(protocol, sets)


def test_full_training_data_in_both_forms(
    tmp_path: Path, raw: Path, full_vctk: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """104,014 utterances of 921 speakers; 2020 and 2022 also have a speaker for each chapter."""
    libri, out = tmp_path / "LibriSpeech", tmp_path / "data"
    (libri / "train-clean-360").mkdir(parents=True)
    for name in ("SPEAKERS.TXT", "dev-clean", "test-clean"):
        (libri / name).symlink_to(raw / "LibriSpeech" / name)
    (tmp_path / "lists").symlink_to(raw / "lists")
    monkeypatch.setattr(
        challenge_sets,
        "read_librispeech",
        lambda folder: train_clean_360(folder) if folder.name == "train-clean-360" else read_librispeech(folder),
    )
    assert prepare("vpc2022", tmp_path, out) == 0
    printed = capsys.readouterr()
    assert "train-clean-360-asv: 921 speakers, 104014 utterances" in printed.out
    assert printed.err == ""
    assert differences("vpc2022", out) == []
    assert set(load_protocol("vpc2022").roles()) <= {folder.name for folder in out.iterdir()}
    real, chapters = open_corpus(out / "train-clean-360-asv"), open_corpus(out / "train-clean-360")
    assert (len(real), len(chapters)) == (104014, 104014)
    assert len(real.speakers()) == 921
    assert Counter(spoken[0].gender for spoken in real.by_speaker.values()) == {"f": 439, "m": 482}
    assert {u.speaker for u in chapters} == {u.id.rpartition("-")[0] for u in chapters}
    assert chapters.utterances[0].path == out / "corpora/LibriSpeech/train-clean-360/10000/7/10000-7-0000.flac"


def test_vctk_is_prepared_from_its_files(tmp_path: Path, raw: Path) -> None:
    counts: VctkTrials = {
        dataset: {"f": (20, 40, 30), "m": (20, 50, 30), "f_common": (15, 30, 15), "m_common": (15, 30, 15)}
        for dataset in VCTK_TRIALS
    }
    texts = write_vctk_lists(tmp_path / "lists", counts, enroll=60)
    sources = Sources(raw / "LibriSpeech", make_vctk(tmp_path / "VCTK", texts), tmp_path / "lists")
    out = tmp_path / "data"
    prepared = prepare_challenge("vpc2022", sources, out, compare=lambda sets: [], partial=True)
    assert set(prepared.missing) == {"train-clean-360", "train-clean-360-asv"}
    first = open_corpus(out / "vctk_dev_trials_f_common").utterances[0]
    assert (first.id, first.speaker, first.gender, first.subset) == ("p320_001_mic2", "p320", "f", None)
    assert first.path == out / "corpora/VCTK/wav48_silence_trimmed/p320/p320_001_mic2.flac"
    assert set((first.text or "").split(" ")) == {"WORD"}
    for name in ("vctk_dev_trials_f", "vctk_test_trials_all"):
        enrolls = out / f"{name[: name.index('_trials')]}_enrolls"
        assert [f for f in check(out / name, enroll=enrolls, rate=48000) if not f.note] == []


def test_2024_has_the_counts_of_the_plan(tmp_path: Path, raw: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "data"
    assert prepare("vpc2024", raw, out, "--partial") == 0  # there is no train-clean-360
    printed = capsys.readouterr()
    assert (
        f"{out}/libri_dev_trials_f: 20 speakers, 1018 utterances, 704 target and 14566 nontarget trials" in printed.out
    )
    assert "missing: train-clean-360: no folder" in printed.err
    assert differences("vpc2024", out) == []
    for name in ("libri_dev_enrolls", "libri_dev_trials_f", "libri_test_trials_m", "IEMOCAP_dev"):
        enroll = out / f"{name[:-9]}_enrolls" if "trials" in name else None
        assert [fault for fault in check(out / name, rate=16000, enroll=enroll) if not fault.note] == []
    link = out / "corpora" / "LibriSpeech"
    assert link.is_symlink()
    assert link.resolve() == (raw / "LibriSpeech").resolve()
    assert not [path for path in out.rglob("*.flac") if not path.is_symlink() and link not in path.parents]


def test_iemocap_sets_have_emotions_and_folds_of_table_2(tmp_path: Path, raw: Path) -> None:
    prepare("vpc2024", raw, tmp_path, "--partial")
    dev, test = open_corpus(tmp_path / "IEMOCAP_dev"), open_corpus(tmp_path / "IEMOCAP_test")
    assert (len(dev), len(test)) == (2746, 2785)
    assert dev.speakers() == ("Ses01F", "Ses02M", "Ses03F", "Ses04M", "Ses05M")
    assert test.speakers() == ("Ses01M", "Ses02F", "Ses03M", "Ses04F", "Ses05F")
    assert (tmp_path / "IEMOCAP_dev/spk2fold").read_text().split("\n")[:2] == ["Ses01F 1", "Ses02M 2"]
    assert set(Counter(u.emotion for u in dev)) == {"ang", "hap", "neu", "sad"}
    assert (tmp_path / "IEMOCAP_dev/utt2emo").read_text().startswith("Ses01F_impro01_F000 ang\n")


def test_2020_and_2022_have_all_vctk_directories(tmp_path: Path, raw: Path, full_vctk: None) -> None:
    assert prepare("vpc2020", raw, tmp_path, "--partial") == 0
    assert differences("vpc2020", tmp_path) == []
    for dataset, parts in VCTK_TRIALS.items():
        for part, (target, nontarget, utterances) in parts.items():
            corpus = open_corpus(tmp_path / f"{dataset}_trials_{part}")
            assert corpus.trials is not None
            assert (int(corpus.trials.target.sum()), len(corpus)) == (target, utterances)
            assert len(corpus.trials) == target + nontarget
        for part, joined in (("f_all", ("f", "f_common")), ("m_all", ("m", "m_common")), ("all", tuple(parts))):
            corpus = open_corpus(tmp_path / f"{dataset}_trials_{part}")
            assert len(corpus) == sum(parts[one][2] for one in joined)
            assert corpus.trials is not None
            assert len(corpus.trials) == sum(sum(parts[one][:2]) for one in joined)
    everything = open_corpus(tmp_path / "libri_dev_trials_all")
    assert everything.trials is not None
    assert (len(everything), len(everything.trials), int(everything.trials.target.sum())) == (1978, 28710, 1348)


def test_2026_has_both_trial_editions(tmp_path: Path, raw: Path) -> None:
    """Mixed: every enrolled speaker with every utterance. Pooled: the pairs of one gender, as in June 2026."""
    assert prepare("vpc2026", raw, tmp_path, "--partial") == 0
    sizes = {}
    for name in (
        "libri_dev_trials_mixed",
        "libri_dev_trials_pooled",
        "libri_test_trials_mixed",
        "libri_test_trials_pooled",
    ):
        corpus = open_corpus(tmp_path / name)
        assert corpus.trials is not None
        sizes[name] = (len(corpus), len(corpus.trials), int(corpus.trials.target.sum()))
    assert sizes == {
        "libri_dev_trials_mixed": (1978, 29 * 1978, 1348),
        "libri_dev_trials_pooled": (1978, 28710, 1348),
        "libri_test_trials_mixed": (1496, 29 * 1496, 997),
        "libri_test_trials_pooled": (1496, 21650, 997),
    }
    assert differences("vpc2026", tmp_path) == differences("vpc2026-pooled", tmp_path) == []
    assert not (tmp_path / "libri_dev_trials_f").exists()


def test_incomplete_corpora_are_listed_and_nothing_is_written(
    tmp_path: Path, raw: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    libri, iemocap = tmp_path / "LibriSpeech", tmp_path / "IEMOCAP"
    shutil.copytree(raw / "LibriSpeech", libri)
    shutil.copytree(raw / "IEMOCAP", iemocap)
    (libri / "dev-clean/1272/128104/1272-128104-0000.flac").unlink()
    (iemocap / "Session3/sentences/wav/Ses03F_impro01/Ses03F_impro01_F000.wav").unlink()
    shutil.rmtree(iemocap / "Session5")
    assert prepare("vpc2024", tmp_path, tmp_path / "data") == 1
    lines = capsys.readouterr().err.splitlines()
    assert (
        f"missing: libri_dev_enrolls: 1 of 2321 utterances are not in {libri}/dev-clean, e.g. 1272-128104-0000" in lines
    )
    (iemocap_line,) = [line for line in lines if line.startswith("missing: IEMOCAP_dev")]
    counts = f"utterances of the four emotions in {iemocap}: Ses05F 0 (Table 2: 590), Ses05M 0 (Table 2: 651); "
    assert counts in iemocap_line
    assert "1 of 4290 audio files are missing" in iemocap_line
    assert lines[-1] == "voiceveil: nothing was written. Complete the corpora, or write the other sets with --partial."
    assert not (tmp_path / "data").exists()
    assert prepare("vpc2024", tmp_path, tmp_path / "data", "--partial") == 0
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == [
        "corpora", "design.json", "libri_test_enrolls", "libri_test_trials_f", "libri_test_trials_m",
    ]  # fmt: skip
    assert set(json.loads((tmp_path / "data/design.json").read_text())["missing"]) >= {"IEMOCAP_dev", "train-clean-360"}


def test_misspelled_folder_is_one_sentence(tmp_path: Path, raw: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(raw / "LibriSpech")
    assert main(["corpus", "prepare", "vpc2024", "--librispeech", folder, "--out", str(tmp_path / "data")]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{folder}: no such folder (give the folder of LibriSpeech that has SPEAKERS.TXT" in line


def test_corpora_that_are_not_given_are_named(tmp_path: Path, raw: Path, capsys: pytest.CaptureFixture[str]) -> None:
    libri = str(raw / "LibriSpeech")
    main(["corpus", "prepare", "vpc2024", "--librispeech", libri, "--out", str(tmp_path / "a"), "--partial"])
    assert "note: IEMOCAP_dev is not there: needs IEMOCAP: --iemocap" in capsys.readouterr().err
    main(["corpus", "prepare", "vpc2022", "--librispeech", libri, "--out", str(tmp_path / "b"), "--partial"])
    assert "note: vctk_dev_enrolls is not there: needs VCTK and the organizers' lists" in capsys.readouterr().err


def test_altered_lists_do_not_pass(
    tmp_path: Path, raw: Path, full_vctk: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """A list of the wrong length is not that of the challenge."""
    (tmp_path / "LibriSpeech").symlink_to(raw / "LibriSpeech")
    shutil.copytree(raw / "lists", tmp_path / "lists")
    path = tmp_path / "lists/vctk_test/trials_m_mic2"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    (tmp_path / "lists/vctk_dev/trials_f_common_mic2").unlink()
    assert prepare("vpc2022", tmp_path, tmp_path / "data", "--partial") == 0
    errors = capsys.readouterr().err
    assert "missing: vctk_test_trials_m: nontarget trials of vctk_test_trials_m: 13257, the plan says 13258" in errors
    assert f"missing: vctk_dev_trials_f: no trials_f_common_mic2 in {tmp_path}/lists/vctk_dev" in errors


def test_files_of_the_user_are_kept(tmp_path: Path, raw: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "data"
    (out / "libri_dev_enrolls").mkdir(parents=True)
    (out / "libri_dev_enrolls" / "text").write_text("mine\n")
    assert prepare("vpc2024", raw, out, "--partial") == 1
    assert "this file exists" in capsys.readouterr().err
    assert sorted(path.name for path in out.iterdir()) == ["libri_dev_enrolls"]
    assert prepare("vpc2024", raw, out, "--partial", "--overwrite") == 0
    assert (out / "libri_dev_enrolls" / "text").read_text() != "mine\n"
    inside = raw / "LibriSpeech" / "data"
    assert prepare("vpc2024", raw, inside, "--partial") == 1
    assert "lies inside the input" in capsys.readouterr().err
    assert not inside.exists()


def test_other_link_in_the_way_is_refused(tmp_path: Path, raw: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "data" / "corpora").mkdir(parents=True)
    (tmp_path / "data" / "corpora" / "LibriSpeech").symlink_to(tmp_path)
    assert prepare("vpc2024", raw, tmp_path / "data", "--partial") == 1
    assert "this link leads to" in capsys.readouterr().err
    assert prepare("vpc2024", raw, tmp_path / "data", "--partial", "--overwrite") == 0
    assert (tmp_path / "data" / "corpora" / "LibriSpeech").resolve() == (raw / "LibriSpeech").resolve()
