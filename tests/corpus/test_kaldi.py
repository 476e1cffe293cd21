"""Kaldi data directories: read, written, refused."""

from __future__ import annotations

import contextlib
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.official_lists import write_official_sets
from voiceveil.core.errors import InputError
from voiceveil.corpus import Corpus, Trials, Utterance, open_corpus, read_kaldi, write_kaldi
from voiceveil.corpus import lines as lines_module
from voiceveil.corpus.checking import check
from voiceveil.corpus.faults import Fault


def kaldi(directory: Path, **files: str) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (directory / name.replace("wav_scp", "wav.scp")).write_text(text, encoding="utf-8")
    return directory


def trials(*rows: tuple[str, str, bool]) -> Trials:
    enroll, utterance, target = zip(*rows, strict=True)
    return Trials(np.array(enroll), np.array(utterance), np.array(target))


def test_every_table_is_read(tmp_path: Path) -> None:
    directory = kaldi(
        tmp_path / "set",
        wav_scp="s1-a wav/s1-a.wav\ns2-b wav/s2-b.wav\ns2-c wav/s2-c.wav\n",
        utt2spk="s1-a s1\ns2-b s2\ns2-c s2\n",
        spk2gender="s1 f\ns2 m\n",
        text="s1-a HELLO  THERE\ns2-b\ns2-c IT IS\n",
        utt2dur="s1-a 1.5\n",
        utt2emo="s1-a ang\n",
        utt2phrase="s2-b 05\n",
        utt2subset="s2-b common\n",
        spk2fold="s2 3\n",
        enrolls="s2-c\n",
        trials="s2 s2-b target\ns1 s2-b nontarget\ns2 s1-a nontarget\n",
    )
    corpus = open_corpus(directory)
    a, b, c = corpus
    wav = directory / "wav"
    assert a == Utterance("s1-a", wav / "s1-a.wav", "s1", "f", "HELLO  THERE", emotion="ang", role="trial", seconds=1.5)
    assert b == Utterance("s2-b", wav / "s2-b.wav", "s2", "m", "", role="trial", fold="3", phrase="05", subset="common")
    assert (c.role, c.text, c.fold) == ("enroll", "IT IS", "3")
    # Trials stay in file order, not sorted.
    assert corpus.trials == trials(("s2", "s2-b", True), ("s1", "s2-b", False), ("s2", "s1-a", False))
    assert (corpus.kind, corpus.root, corpus.name) == ("kaldi", directory, "set")
    assert corpus.speakers() == ("s1", "s2")
    assert a.duration is None  # a stated length does not cut the audio


def test_enrolls_file_alone_sets_no_other_roles(tmp_path: Path) -> None:
    directory = kaldi(tmp_path, wav_scp="a a.wav\nb b.wav\n", enrolls="b\n")
    assert [u.role for u in open_corpus(directory)] == ["", "enroll"]


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("flac -c -d -s wav/b.flac |", "wav/b.flac"),
        ("flac -c -d -s /corpora/Libri-Speech/a=b/84-1-0000.flac |", "/corpora/Libri-Speech/a=b/84-1-0000.flac"),
        ("sox wav/b.wav -t wav - |", "wav/b.wav"),
        ("sox wav/b.wav -t wav -R -b 16 - |", "wav/b.wav"),
        ("sox wav/b.wav -t wav -r 16k -b 16 -e signed-integer -c 1 - |", "wav/b.wav"),
    ],
)
def test_command_that_only_decodes_a_file_is_read_as_its_path(tmp_path: Path, command: str, path: str) -> None:
    """As the challenges' own directories have them; nothing is run."""
    directory = kaldi(tmp_path, wav_scp=f"a wav/a.wav\nb {command}\n")
    assert [u.path for u in open_corpus(directory)] == [directory / "wav/a.wav", directory / path]


@pytest.mark.parametrize(
    "command",
    [
        "cat x.wav |",
        "| cat",
        "touch executed |  ",
        "flac -c -d -s x.flac; touch executed |",
        "flac -c -d -s $(touch executed) |",
        "flac -c -d -s `touch executed` |",
        "flac -c -d -s x.flac > executed |",
        "flac -c -d -s -o executed |",
        "flac -c -d -s my file.flac |",
        "flac -c -d x.flac |",
        "flac  -c -d -s x.flac |",
        "flac -c -d -s x.flac | touch executed |",
        "flac -c -d -s x.flac |\ttouch executed |",
        "sox x.wav -t wav - speed 0.9 |",
        "sox x.wav -t wav -r 8000 - |",
        "sox -v 2 x.wav -t wav - |",
        "sox x.wav y.wav -t wav - |",
        "sox x.wav -t wav executed |",
        "sox x.wav -t wav -b 16; touch executed - |",
        "sox x.wav -t mp3 - |",
        "wav/sox x.wav -t wav - |",
        "| flac -c -d -s x.flac |",
    ],
)
def test_pipe_is_rejected_with_its_line_and_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    directory = kaldi(tmp_path, wav_scp=f"a a.wav\nb {command}\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"wav\.scp:2: .*never run.*data is never code.*plain paths"):
        open_corpus(directory)
    assert not (tmp_path / "executed").exists()


def test_path_is_everything_after_the_first_blank(tmp_path: Path) -> None:
    directory = kaldi(tmp_path, wav_scp="a my  recordings/a | b.wav\nb\t/x/y z.wav\r\n")
    assert [u.path for u in open_corpus(directory)] == [tmp_path / "my  recordings/a | b.wav", Path("/x/y z.wav")]


def test_relative_paths_are_resolved_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The directory itself, the three folders above (the official data/<set>/wav), then the working directory."""
    project = tmp_path / "challenge"
    directory = kaldi(project / "data" / "set", wav_scp="a data/set/wav/a.wav\n")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    for place in (directory, directory.parent, project, tmp_path, elsewhere):
        file = place / "data/set/wav/a.wav"
        file.parent.mkdir(parents=True)
        file.touch()
        assert open_corpus(directory).utterances[0].path.resolve() == file
        file.unlink()
    assert open_corpus(directory).utterances[0].path == directory / "data/set/wav/a.wav"  # not found: the directory


def test_ambiguous_path_is_a_fault_naming_both_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the audio of another project, in the working directory, would be taken for that of the data."""
    directory = kaldi(tmp_path / "mine" / "data" / "set", wav_scp="a data/set/wav/a.wav\nb data/set/wav/b.wav\n")
    other = tmp_path / "other"
    for place in (directory / "wav", other / "data/set/wav"):
        place.mkdir(parents=True)
        (place / "a.wav").write_text(str(place))
    monkeypatch.chdir(other)
    with pytest.raises(
        InputError, match=r"wav\.scp:1: .*two different files: /.*/mine/.*a\.wav and /.*/other/.*a\.wav"
    ):
        open_corpus(directory)
    (faults,) = [fault.what for fault in check(directory, audio=False) if not fault.note]
    assert "two different files" in faults
    (other / "data/set/wav/b.wav").touch()  # the data's own is missing
    (other / "data/set/wav/a.wav").unlink()
    with pytest.raises(InputError, match=r"wav\.scp:2: .*b\.wav, but other files of its folder are in .*mine"):
        open_corpus(directory)
    monkeypatch.chdir(directory.parents[1])
    assert open_corpus(directory)["a"].path.read_text() == str(directory / "wav")


def test_links_to_one_file_are_one_candidate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = kaldi(tmp_path / "data" / "set", wav_scp="a wav/a.wav\n")
    (directory / "wav").mkdir()
    (directory / "wav" / "a.wav").touch()
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "wav").symlink_to(directory / "wav")
    monkeypatch.chdir(tmp_path / "links")
    assert open_corpus(directory)["a"].path == directory / "wav" / "a.wav"


def test_segments_are_read(tmp_path: Path) -> None:
    directory = kaldi(
        tmp_path,
        wav_scp="rec r.wav\n",
        segments="u1 rec 1.1 1.3\nu2 rec 2 -1\n",
        utt2spk="u1 s\nu2 s\n",
    )
    first, second = open_corpus(directory)
    assert (first.id, first.start, first.duration, first.path) == ("u1", 1.1, 0.2, tmp_path / "r.wav")
    assert (second.start, second.duration, second.is_segment) == (2.0, None, True)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"wav_scp": "a a.wav\na b.wav\n"}, r"wav\.scp:2: a occurs twice, first on line 1"),
        ({"wav_scp": "a a.wav\n b.wav\n"}, r"wav\.scp:2: .*id is empty"),
        ({"wav_scp": "a\n"}, r"wav\.scp:1: a has no value"),
        ({"wav_scp": "a \0.wav\n"}, r"wav\.scp:1: .*zero byte"),
        ({"wav_scp": "a a.wav\n", "utt2spk": "a s t\n"}, r"utt2spk:1: .*more than one value"),
        ({"wav_scp": "a a.wav\n", "spk2gender": "s f\nt x\n"}, r"spk2gender:2: t has the gender 'x'"),
        ({"wav_scp": "a a.wav\n", "utt2dur": "a nan\n"}, r"utt2dur:1: .*duration 'nan'"),
        ({"wav_scp": "a a.wav\n", "trials": "s a target\ns a maybe\n"}, r"trials:2: not a trial"),
        ({"wav_scp": "a a.wav\n", "trials": "s a\n"}, r"trials:1: not a trial"),
        ({"wav_scp": "a a.wav\n", "segments": "u a 2 1\n"}, r"segments:1: u is no segment"),
        ({"wav_scp": "a a.wav\n", "segments": "u b 0 1\n"}, r"segments:1: .*b, which has no audio"),
    ],
)
def test_faults_are_raised_with_file_and_line(tmp_path: Path, files: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        open_corpus(kaldi(tmp_path, **files))


def test_invalid_utf8_is_reported_with_its_line(tmp_path: Path) -> None:
    directory = kaldi(tmp_path, wav_scp="a a.wav\nb b.wav\n")
    (directory / "text").write_bytes(b"a ok\nb caf\xe9\n")
    with pytest.raises(InputError, match=r"text:2: not UTF-8"):
        open_corpus(directory)


def test_written_tables_have_the_expected_bytes(tmp_path: Path) -> None:
    """C order (capitals before small letters), single blanks, trials in their order, paths below relative."""
    out = tmp_path / "out"
    corpus = Corpus(
        "x",
        (
            Utterance("b", Path("/audio/b.wav"), "s2", "m", "IT   IS", emotion="sad", role="trial", fold="1"),
            Utterance("a", out / "wav/a b.wav", "S1", "f", seconds=1.25, role="enroll", phrase="06"),
            Utterance("B", out / "wav/B.wav", "s2", "m", subset="common"),
        ),
        trials(("s2", "b", True), ("S1", "b", False)),
    )
    write_kaldi(corpus, out)
    assert {file.name: file.read_text() for file in out.iterdir()} == {
        "wav.scp": "B wav/B.wav\na wav/a b.wav\nb /audio/b.wav\n",
        "utt2spk": "B s2\na S1\nb s2\n",
        "spk2utt": "S1 a\ns2 B b\n",
        "spk2gender": "S1 f\ns2 m\n",
        "spk2fold": "s2 1\n",
        "text": "b IT IS\n",
        "utt2dur": "a 1.25\n",
        "utt2emo": "b sad\n",
        "utt2phrase": "a 06\n",
        "utt2subset": "B common\n",
        "enrolls": "a\n",
        "trials": "s2 b target\nS1 b nontarget\n",
    }


def test_tables_are_written_for_anonymized_audio(tmp_path: Path) -> None:
    """``audio`` names the new files; segments become files of their own, what failed is left out, trials stay."""
    corpus = Corpus(
        "x",
        (Utterance("a", Path("r.wav"), "s", start=1.0, duration=2.0), Utterance("b", Path("r.wav"), "s", start=3.0)),
        trials(("s", "a", True), ("s", "b", True)),
    )
    write_kaldi(corpus, tmp_path, audio={"a": tmp_path / "wav/a.wav"})
    assert (tmp_path / "wav.scp").read_text() == "a wav/a.wav\n"
    assert (tmp_path / "trials").read_text() == "s a target\ns b target\n"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["spk2utt", "trials", "utt2spk", "wav.scp"]


def test_stale_table_of_the_target_folder_is_rejected(tmp_path: Path) -> None:
    kaldi(tmp_path, utt2emo="stale ang\n")
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    with pytest.raises(InputError, match=r"utt2emo: the corpus has no data for utt2emo"):
        write_kaldi(Corpus("x", (Utterance("a", Path("r.wav"), "s"),)), tmp_path)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


@pytest.mark.parametrize(
    ("utterances", "message"),
    [
        ([Utterance("a", Path("a.wav |"))], "cannot stand in a wav.scp"),
        ([Utterance("a", Path("a\nb.wav"))], "cannot stand in a wav.scp"),
        ([Utterance("a", Path("a.wav"), emotion="very sad")], "cannot stand in"),
        ([Utterance("a", Path("a.wav"), gender="f")], "no speaker"),
        ([Utterance("a", Path("a"), "s", "f"), Utterance("b", Path("b"), "s", "m")], "more than one gender"),
    ],
)
def test_unwritable_corpora_are_rejected(tmp_path: Path, utterances: list[Utterance], message: str) -> None:
    with pytest.raises(InputError, match=message):
        write_kaldi(Corpus("x", tuple(utterances)), tmp_path / "out")
    assert not (tmp_path / "out" / "wav.scp").exists()


letters = st.text(st.characters(exclude_categories=("Cs", "Cc", "Zs", "Zl", "Zp")), min_size=1, max_size=12)
ids = letters.filter(lines_module.is_id)
words = st.lists(ids, max_size=4).map(" ".join)
seconds = st.integers(0, 10**8).map(lambda micro: micro / 10**6)
file_names = st.lists(
    ids.map(lambda name: name.replace("/", "-").strip(".|")).filter(bool), min_size=1, max_size=2
).map(" ".join)


@st.composite
def corpora_of_speakers(draw: st.DrawFn, root: Path) -> Corpus:
    people = draw(st.dictionaries(ids, st.tuples(st.sampled_from(["f", "m", None]), st.none() | ids), min_size=1))
    with_trials = draw(st.booleans())
    segmented = draw(st.booleans())
    keys = draw(st.sets(ids, min_size=1, max_size=8))
    utterances = []
    for key in sorted(keys):
        speaker = draw(st.none() | st.sampled_from(sorted(people)))
        gender, fold = people[speaker] if speaker else (None, None)
        start = draw(seconds) if segmented else 0.0
        utterances.append(
            Utterance(
                key,
                root / draw(file_names),
                speaker,
                gender,
                draw(st.none() | words),
                draw(st.none() | ids),
                draw(st.sampled_from(["enroll", "trial" if with_trials else ""])),
                fold,
                draw(st.none() | ids),
                draw(st.none() | ids),
                start,
                draw(st.none() | seconds.filter(bool)) if segmented else None,
                draw(st.none() | seconds),
            )
        )
    rows = draw(st.lists(st.tuples(ids, st.sampled_from(sorted(keys)), st.booleans()), min_size=1, max_size=6))
    return Corpus(root.name, tuple(utterances), trials(*rows) if with_trials else None, "kaldi", root)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_write_then_read_is_identity(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve() / "of" / "a" / "set"  # a path is looked for in the folders around the set, too
        corpus = data.draw(corpora_of_speakers(root))
        write_kaldi(corpus, root)
        assert read_kaldi(root) == corpus
        before = {file.name: file.read_bytes() for file in root.iterdir()}
        write_kaldi(read_kaldi(root), root)
        assert {file.name: file.read_bytes() for file in root.iterdir()} == before


names = ["wav.scp", "utt2spk", "spk2utt", "spk2gender", "text", "utt2dur", "enrolls", "trials", "utt2emo"]
names += ["utt2phrase", "utt2subset", "spk2fold", "segments"]
fragments = st.lists(
    st.sampled_from([b"a", b" ", b"\n", b"\r\n", b"\t", b"1.0", b"target", b"f", b"|", b"\0", b"\xff", b"\xc2\xa0"])
    | st.binary(max_size=6)
).map(b"".join)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.sampled_from(names), fragments | st.binary(max_size=200), st.booleans())
def test_arbitrary_bytes_raise_nothing_but_input_error(name: str, content: bytes, others: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "wav.scp").write_bytes(b"a a.wav\n")
        if others:
            (root / "utt2spk").write_bytes(b"a a\n")
            (root / "trials").write_bytes(b"a a target\n")
        (root / name).write_bytes(content)
        with contextlib.suppress(InputError):
            open_corpus(root)
        faults: list[Fault] = []
        assert len(read_kaldi(root, faults.append)) >= 0  # the tolerant reading never raises


@pytest.mark.slow
def test_corpus_of_the_size_of_train_clean_360_opens_quickly(tmp_path: Path) -> None:
    """104,014 utterances, as LibriSpeech train-clean-360 has: no file is opened, none is looked at twice."""
    keys = [f"{i // 113:04d}-{i // 20:06d}-{i:06d}" for i in range(104_014)]
    text = " THE LAST TWO DAYS OF THE VOYAGE BARTLEY FOUND ALMOST INTOLERABLE" * 3
    kaldi(
        tmp_path,
        wav_scp="".join(f"{key} wav/{key}.wav\n" for key in keys),
        utt2spk="".join(f"{key} {key[:4]}\n" for key in keys),
        spk2gender="".join(f"{i:04d} f\n" for i in range(921)),
        text="".join(f"{key}{text}\n" for key in keys),
    )
    (tmp_path / "wav").mkdir()
    (tmp_path / "wav" / f"{keys[0]}.wav").touch()
    plain = min(_time(lambda: [Path(f"/data/wav/{key}.wav") for key in keys]) for _ in range(2))
    taken = min(_time(lambda: open_corpus(tmp_path)) for _ in range(2))
    # Against making the 104,014 paths alone, so that a slow machine does not fail it; about 4 times is usual.
    assert taken < 10 * plain, f"{taken:.2f} s, {plain:.2f} s for the paths"


def _time(work: object) -> float:
    begin = time.process_time()
    work()  # type: ignore[operator]
    return time.process_time() - begin


def test_official_development_sets_have_their_counts(tmp_path: Path) -> None:
    """Table 1 of the VoicePrivacy 2024 evaluation plan, and the published numbers of trials."""
    write_official_sets(tmp_path)
    enrolls = open_corpus(tmp_path / "libri_dev_enrolls")
    assert (len(enrolls), len(enrolls.speakers())) == (343, 29)
    assert {u.role for u in enrolls} == {"enroll"}
    for gender, utterances, target, nontarget in (("f", 1018, 704, 14566), ("m", 960, 644, 12796)):
        corpus = open_corpus(tmp_path / f"libri_dev_trials_{gender}")
        assert corpus.trials is not None
        assert (len(corpus), len(corpus.speakers())) == (utterances, 20)
        assert (corpus.trials.target.sum(), (~corpus.trials.target).sum()) == (target, nontarget)
        assert {(u.role, u.gender) for u in corpus} == {("trial", gender)}
