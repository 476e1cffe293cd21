"""Named corpora, each on a small tree in the layout of its distribution, with real audio files."""

from __future__ import annotations

import contextlib
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from voiceveil.core.errors import InputError
from voiceveil.corpus import Corpus, Utterance, check, corpora, open_corpus, write_manifest
from voiceveil.corpus.commonvoice import draw_subsets
from voiceveil.corpus.iemocap import DEVELOPMENT, TABLE_2
from voiceveil.corpus.vctk import read_vctk


def tone(path: Path, seconds: float = 0.05) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, 0.1 * np.sin(np.arange(round(seconds * 16000)) / 5), 16000)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def librispeech(root: Path) -> Path:
    write(
        root / "SPEAKERS.TXT",
        ";ID |SEX| SUBSET |MINUTES| NAME\n"
        "14   | F | train-clean-360 | 25.03 | Kristin\n1272 | M | dev-clean | 8.02 | A | B\n",
    )
    for key in ("1272-128104-0000", "1272-128104-0001"):
        tone(root / "dev-clean/1272/128104" / f"{key}.flac")
    write(
        root / "dev-clean/1272/128104/1272-128104.trans.txt",
        "1272-128104-0000 MISTER QUILTER IS\n1272-128104-0001 NOR IS\n",
    )
    tone(root / "train-clean-360/14/208/14-208-0000.flac")
    return root


def test_librispeech_is_read(tmp_path: Path) -> None:
    root = librispeech(tmp_path / "LibriSpeech")
    corpus = open_corpus(f"librispeech:{root / 'dev-clean'}")
    first = root / "dev-clean/1272/128104/1272-128104-0000.flac"
    assert corpus.utterances[0] == Utterance(
        "1272-128104-0000", first, "1272", "m", "MISTER QUILTER IS", subset="dev-clean"
    )
    assert (len(corpus), corpus.kind, corpus.name) == (2, "librispeech", "dev-clean")
    everything = open_corpus(f"librispeech:{root}")
    assert {(u.id, u.gender, u.subset) for u in everything} == {
        ("1272-128104-0000", "m", "dev-clean"),
        ("1272-128104-0001", "m", "dev-clean"),
        ("14-208-0000", "f", "train-clean-360"),
    }
    assert check(f"librispeech:{root}", rate=16000) == []


def libritts(root: Path) -> Path:
    write(root / "SPEAKERS.txt", ";ID |SEX| SUBSET |MINUTES| NAME\n20 | F | train-other-500 | 30 | X\n")
    chapter = root / "train-other-500/20/205"
    for number in (0, 1):
        tone(chapter / f"20_205_000000_00000{number}.wav")
        write(chapter / f"20_205_000000_00000{number}.original.txt", "No. 1")
        write(chapter / f"20_205_000000_00000{number}.normalized.txt", "number one\n")
    write(chapter / "20_205.trans.tsv", "20_205_000000_000000\tNo. 1\tnumber 1\n")
    return root


def test_libritts_is_read(tmp_path: Path) -> None:
    corpus = open_corpus(f"libritts:{libritts(tmp_path)}")
    assert [(u.id, u.speaker, u.gender, u.text, u.subset) for u in corpus] == [
        ("20_205_000000_000000", "20", "f", "number 1", "train-other-500"),
        ("20_205_000000_000001", "20", "f", "number one", "train-other-500"),
    ]


def vctk(root: Path) -> Path:
    write(
        root / "speaker-info.txt",
        "ID  AGE  GENDER  ACCENTS  REGION COMMENTS\n"
        "p225  23  F    English    Southern  England\np280  25  F    Unknown France\n",
    )
    for name in ("p225_001_mic1", "p225_001_mic2", "p225_024_mic2", "p225_025_mic2", "p280_003_mic1"):
        tone(root / "wav48_silence_trimmed" / name[:4] / f"{name}.flac")
        write(root / "txt" / name[:4] / f"{name[:8]}.txt", f"Please call {name[5:8]}.\n")
    return root


def test_vctk_is_read(tmp_path: Path) -> None:
    root = vctk(tmp_path)
    corpus = open_corpus(f"vctk:{root}")
    assert [(u.id, u.speaker, u.gender, u.text, u.subset) for u in corpus] == [
        ("p225_001_mic2", "p225", "f", "Please call 001.", "common"),
        ("p225_024_mic2", "p225", "f", "Please call 024.", "common"),
        ("p225_025_mic2", "p225", "f", "Please call 025.", "different"),
        ("p280_003_mic1", "p280", "f", "Please call 003.", "common"),  # has no second microphone
    ]
    assert [u.id for u in read_vctk(root, mic=1)] == ["p225_001_mic1", "p280_003_mic1"]


def iemocap(root: Path) -> Path:
    labels = {"F000": "neu", "M001": "exc", "F002": "fru", "M003": "ang", "F004": "sad", "F005": "hap", "M006": "xxx"}
    for session in range(1, 6):
        dialog = f"Ses0{session}M_impro01"
        base = root / f"Session{session}"
        lines = ["% [START_TIME - END_TIME] TURN_NAME EMOTION [V, A, D]", ""]
        for number, (turn, label) in enumerate(labels.items()):
            lines += [f"[{number}.5 - {number}.9]\t{dialog}_{turn}\t{label}\t[2.5, 2.5, 2.5]"]
            lines += ["C-E2:\tNeutral;\t()", "A-E3:\tval 3; act 2; dom  2;\t()", ""]
            tone(base / "sentences/wav" / dialog / f"{dialog}_{turn}.wav")
        write(base / "dialog/EmoEvaluation" / f"{dialog}.txt", "\n".join(lines))
        write(base / "dialog/transcriptions" / f"{dialog}.txt", f"{dialog}_F000 [000.5000-000.9000]: Excuse me: yes.\n")
    return root


def test_iemocap_is_read(tmp_path: Path) -> None:
    root = iemocap(tmp_path)
    corpus = open_corpus(f"iemocap:{root}")
    first = corpus.filter(lambda u: u.fold == "1")
    assert [(u.id[-4:], u.speaker, u.gender, u.emotion, u.subset) for u in first] == [
        ("F000", "Ses01F", "f", "neu", "dev"),
        ("F004", "Ses01F", "f", "sad", "dev"),
        ("F005", "Ses01F", "f", "hap", "dev"),
        ("M001", "Ses01M", "m", "hap", "eval"),  # excitement counts as happiness
        ("M003", "Ses01M", "m", "ang", "eval"),
    ]
    assert corpus["Ses01M_impro01_F000"].text == "Excuse me: yes."
    assert len(corpus.speakers()) == 10
    assert Counter(u.fold for u in corpus) == {str(fold): 5 for fold in range(1, 6)}
    assert check(f"iemocap:{root}") == []


def test_iemocap_folds_are_those_of_table_2() -> None:
    """5,531 utterances of four emotions, as the literature counts them; one development speaker a session."""
    assert sum(TABLE_2.values()) == 5531
    assert set(DEVELOPMENT) == {session for session, _ in TABLE_2}


def commonvoice(root: Path, *, durations: bool = True) -> Path:
    """Speaker i has i minutes in clips of 10 s; client 7 states no gender."""
    rows = ["client_id\tpath\tsentence\tup_votes\tdown_votes\tage\tgender\taccents\tlocale\tsegment"]
    lengths = ["clip\tduration[ms]"]
    for speaker in range(8):
        for clip in range(6 * speaker + (speaker == 0)):
            name = f"common_voice_en_{speaker}{clip:03d}.mp3"
            gender = "" if speaker == 7 or clip % 2 else ("female", "male")[speaker % 2]
            rows.append(f"client{speaker}\t{name}\tHello, {clip}.\t2\t0\t\t{gender}\t\ten\t")
            lengths.append(f"{name}\t10000")
    write(root / "validated.tsv", "\n".join(rows) + "\n")
    if durations:
        write(root / "clip_durations.tsv", "\n".join(lengths) + "\n")
    return root


def test_commonvoice_is_read(tmp_path: Path) -> None:
    corpus = open_corpus(f"commonvoice:{commonvoice(tmp_path / 'en')}")
    assert len(corpus) == 1 + 6 * 28
    one = corpus["common_voice_en_3001"]
    assert (one.speaker, one.gender, one.text, one.seconds) == ("client3", "m", "Hello, 1.", 10.0)
    assert one.path == tmp_path / "en/clips/common_voice_en_3001.mp3"
    assert {u.gender for u in corpus.by_speaker["client7"]} == {None}
    without = open_corpus(f"commonvoice:{commonvoice(tmp_path / 'de', durations=False)}")
    assert {(u.seconds, u.subset) for u in without} == {(None, None)}


def test_commonvoice_subsets(tmp_path: Path) -> None:
    """A: 2 minutes or more; B: 3 minutes or more, of speakers of A, other utterances; the same draw each time."""
    corpus = open_corpus(f"commonvoice:{commonvoice(tmp_path / 'en')}")
    minutes = {subset: Counter[str | None](u.speaker for u in corpus if u.subset == subset) for subset in ("A", "B")}
    # Clips of 10 s: client2..4 are in A with all they have, client5 and 6 with 2 minutes, and in B with the rest;
    # client0 and 1 say too little, client7 states no gender.
    assert minutes["A"] == {"client2": 12, "client3": 18, "client4": 24, "client5": 12, "client6": 12}
    assert minutes["B"] == {"client5": 18, "client6": 24}
    assert draw_subsets(corpus) == corpus
    assert draw_subsets(corpus, seed=1) != corpus
    # What the others say has no influence, and the draw can be written down.
    alone = draw_subsets(corpus.filter(lambda u: u.speaker == "client5"))
    assert {u.id: u.subset for u in alone} == {u.id: u.subset for u in corpus if u.speaker == "client5"}
    write_manifest(corpus, tmp_path / "cv.csv")
    assert [u.subset for u in open_corpus(tmp_path / "cv.csv")] == [u.subset for u in corpus]


def test_commonvoice_lengths_from_the_files(tmp_path: Path) -> None:
    for key in "abcde":
        tone(tmp_path / f"{key}.wav", seconds=1.0)
    utterances = tuple(Utterance(key, tmp_path / f"{key}.wav", "s", "f") for key in "abcde")
    drawn = draw_subsets(Corpus("x", utterances), a=2.0, b=3.0)
    assert Counter(u.subset for u in drawn) == {"A": 2, "B": 3}


def voxceleb(root: Path) -> Path:
    write(
        root / "vox1_meta.csv",
        "VoxCeleb1 ID\tVGGFace1 ID\tGender\tNationality\tSet\nid10001\tA.J._Buckley\tm\tIreland\tdev\n",
    )
    write(root / "vox2_meta.csv", "VoxCeleb2 ID ,VGGFace2 ID ,Gender ,Set \nid00012 ,n000012 ,f ,dev \n")
    tone(root / "wav/id10001/1zcIwhmdeo4/00001.wav")
    tone(root / "aac/id00012/21Uxsk56VDQ/00001.wav")
    for number in (1, 2):
        (root / f"aac/id00012/21Uxsk56VDQ/0000{number}.m4a").touch()
    return root


def test_voxceleb_is_read(tmp_path: Path) -> None:
    corpus = open_corpus(f"voxceleb:{voxceleb(tmp_path)}")
    assert [(u.id, u.speaker, u.gender, u.path.suffix) for u in corpus] == [
        ("id00012-21Uxsk56VDQ-00001", "id00012", "f", ".wav"),
        ("id00012-21Uxsk56VDQ-00002", "id00012", "f", ".m4a"),
        ("id10001-1zcIwhmdeo4-00001", "id10001", "m", ".wav"),
    ]
    assert not check(f"voxceleb:{tmp_path}", audio=False)


def deepmine(root: Path) -> Path:
    write(
        root / "docs/train_labels.txt",
        "train-file-id speaker-id phrase-id\ntrn_000001 spk_000001 03\ntrn_000002 spk_000001 FT\n",
    )
    write(
        root / "docs/eval_model_enrollment.txt",
        "model-id phrase-id gender enroll-file-id1 enroll-file-id2 enroll-file-id3\n"
        "eval_model_000001 05 m enr_036529 enr_036530 enr_036531\n",
    )
    write(
        root / "docs/dev_model_enrollment.txt",
        "model-id gender enroll-file-ids ...\ndev_model_000001 f enr_1 enr_2 enr_3 enr_4 enr_5\n",
    )
    write(
        root / "docs/eval_trials.txt",
        "model-id evaluation-file-id\neval_model_000001 evl_000122\n"
        "eval_model_000001 evl_000186\neval_model_000002 evl_000122\n",
    )
    return root


def test_deepmine_is_read(tmp_path: Path) -> None:
    corpus = open_corpus(f"deepmine:{deepmine(tmp_path)}")
    assert Counter((u.role, u.subset) for u in corpus) == {
        ("train", None): 2, ("enroll", "eval"): 3, ("enroll", "dev"): 5, ("trial", "eval"): 2,
    }  # fmt: skip
    wav = tmp_path / "wav"
    assert corpus["trn_000002"] == Utterance(
        "trn_000002", wav / "train/trn_000002.wav", "spk_000001", phrase="FT", role="train"
    )
    assert corpus["enr_036530"] == Utterance(
        "enr_036530",
        wav / "enrollment/enr_036530.wav",
        "eval_model_000001",
        "m",
        phrase="05",
        role="enroll",
        subset="eval",
    )
    assert corpus["enr_5"].phrase is None
    assert corpus["evl_000122"].path == wav / "evaluation/evl_000122.wav"
    assert corpus["evl_000122"].speaker is None


BUILDERS = {
    "librispeech": librispeech, "libritts": libritts, "vctk": vctk, "iemocap": iemocap, "commonvoice": commonvoice,
    "voxceleb": voxceleb, "deepmine": deepmine,
}  # fmt: skip


@pytest.mark.parametrize("name", BUILDERS)
def test_wrong_folder_names_the_expected_layout(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no utterance of .* found here .*expected"):
        open_corpus(f"{name}:{tmp_path}")


fragments = st.lists(
    st.sampled_from([b"1272", b" | ", b"\t", b"\n", b"F", b"1272-128104-0000 ", b"p225", b"[1]\tSes01F_a_F0\tneu\t"])
    | st.sampled_from([b"id10001", b"a.mp3\t", b"99999999999999999999", b"\xb2", "²".encode(), b"\0", b"\xff", b" "])
    | st.binary(max_size=5)
).map(b"".join)


@pytest.mark.parametrize("name", BUILDERS)
def test_arbitrary_bytes_raise_nothing_but_input_error(name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = BUILDERS[name](Path(folder))
        files = [path for path in sorted(root.rglob("*.*")) if path.suffix.lower() in (".txt", ".tsv", ".csv")]

        @settings(max_examples=60, deadline=None)
        @given(st.sampled_from(files), fragments, st.booleans())
        def garble(file: Path, content: bytes, keep_header: bool) -> None:
            before = file.read_bytes()
            try:
                file.write_bytes(before.partition(b"\n")[0] + b"\n" + content if keep_header else content)
                with contextlib.suppress(InputError):
                    open_corpus(f"{name}:{root}")
                assert len(corpora[name](root, lambda fault: None)) >= 0  # the tolerant reading never raises
            finally:
                file.write_bytes(before)

        garble()
