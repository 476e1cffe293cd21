"""CSV and JSON-lines manifests."""

from __future__ import annotations

import contextlib
import json
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voiceveil.core.errors import InputError
from voiceveil.corpus import Corpus, Trials, Utterance, open_corpus, read_manifest, stream_corpus, write_manifest
from voiceveil.corpus.faults import Fault


def test_csv_is_read(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text(
        'id,path,speaker,gender,text,start\nu,a/b.wav,s,F,"Yes, ""he"" said",1.5\nv,/c.wav,,,,\n'
    )
    corpus = open_corpus(tmp_path / "m.csv")
    assert corpus.utterances == (
        Utterance("u", tmp_path / "a/b.wav", "s", "f", 'Yes, "he" said', start=1.5),
        Utterance("v", Path("/c.wav")),
    )
    assert (corpus.kind, corpus.name, corpus.root) == ("manifest", "m", tmp_path)


def test_jsonl_with_paths_only_is_read(tmp_path: Path) -> None:
    (tmp_path / "m.jsonl").write_text('{"path": "a/b.c.wav"}\n{"path": "d.wav", "speaker": null, "unknown": [1]}\n')
    assert [(u.id, u.path) for u in open_corpus(tmp_path / "m.jsonl")] == [
        ("a/b.c", tmp_path / "a/b.c.wav"),
        ("d", tmp_path / "d.wav"),
    ]


def test_paths_are_relative_to_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lists").mkdir()
    (tmp_path / "lists/m.csv").write_text("path\naudio/a.wav\n")
    (tmp_path / "audio").mkdir()
    (tmp_path / "audio/a.wav").touch()
    monkeypatch.chdir(tmp_path)
    assert open_corpus("lists/m.csv").utterances[0].path == Path("audio/a.wav")
    (tmp_path / "lists/audio").mkdir()
    (tmp_path / "lists/audio/a.wav").touch()
    for read in (open_corpus, stream_corpus):
        with pytest.raises(
            InputError, match=r"m\.csv:2: .*two different files: /.*/lists/audio/a\.wav and /.*/audio/a\.wav"
        ):
            read("lists/m.csv")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("m.csv", "id,file\na,a.wav\n", r"m\.csv:1: no column `path`"),
        ("m.csv", "", r"m\.csv: an empty file"),
        ("m.csv", "path,path\na,b\n", r"m\.csv:1: a column occurs twice"),
        ("m.csv", "id,path\na,a.wav\na,b.wav\n", r"m\.csv:3: a occurs twice, first on line 2"),
        ("m.csv", "id,path\na,a.wav,x\n", r"m\.csv:2: 3 fields under 2 columns"),
        ("m.csv", "id,path\na,\n", r"m\.csv:2: no path"),
        ("m.csv", 'id,path\n"a,b\n', r"m\.csv:2: not CSV"),
        ("m.csv", "path,gender\na.wav,x\n", r"m\.csv:2: gender is 'x'"),
        ("m.csv", "path,role\na.wav,judge\n", r"m\.csv:2: role is 'judge'"),
        ("m.csv", "path,start\na.wav,-1\n", r"m\.csv:2: start is '-1'"),
        ("m.csv", "path,start\na.wav,nan\n", r"m\.csv:2: start is 'nan'"),
        ("m.jsonl", '{"path": "a.wav"}\n{"path"}\n', r"m\.jsonl:2: not JSON"),
        ("m.jsonl", "[1]\n", r"m\.jsonl:1: not a JSON object"),
        ("m.jsonl", '{"path": 3}\n', r"m\.jsonl:1: path is 3"),
        ("m.jsonl", '{"path": "a.wav", "duration": true}\n', r"m\.jsonl:1: duration is True"),
        ("m.jsonl", '{"path": "a.wav", "id": ""}\n', r"m\.jsonl:1: an empty id"),
        ("m.jsonl", "[" * 100_000 + "\n", r"m\.jsonl:1: not JSON"),
        ("m.jsonl", '{"path": "\\ud800.wav"}\n', r"m\.jsonl:1: path is"),
    ],
)
def test_faults_are_raised_with_file_and_line(tmp_path: Path, name: str, content: str, message: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=message):
        open_corpus(tmp_path / name)


def test_column_that_looks_like_a_typo_is_noted(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text("path,speeker\na.wav,s\n")
    faults: list[Fault] = []
    assert read_manifest(tmp_path / "m.csv", faults.append).utterances[0].speaker is None
    assert [(f.note, f.line, f.fix) for f in faults] == [(True, 1, "did you mean speaker?")]


def test_written_manifest_has_the_expected_bytes(tmp_path: Path) -> None:
    corpus = Corpus(
        "m",
        (Utterance("b", tmp_path / "wav/b.wav", "s", text="a, b"), Utterance("a", Path("/a.wav"), duration=0.5)),
        Trials(np.array(["s", "t"]), np.array(["b", "b"]), np.array([True, False])),
    )
    write_manifest(corpus, tmp_path / "m.csv")
    write_manifest(corpus, tmp_path / "m.jsonl")
    assert (tmp_path / "m.csv").read_text() == 'id,path,speaker,text,duration\nb,wav/b.wav,s,"a, b",\na,/a.wav,,,0.5\n'
    assert [json.loads(line) for line in (tmp_path / "m.jsonl").read_text().splitlines()] == [
        {"id": "b", "path": "wav/b.wav", "speaker": "s", "text": "a, b"},
        {"id": "a", "path": "/a.wav", "duration": 0.5},
    ]
    assert (tmp_path / "m.trials.csv").read_text() == "enroll,utterance,target\ns,b,1\nt,b,0\n"


text = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
name = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/\0"), min_size=1, max_size=12)
seconds = st.floats(0, 1e6)
optional = st.none() | text


@st.composite
def corpora(draw: st.DrawFn, root: Path) -> Corpus:
    utterances = tuple(
        Utterance(
            key,
            root / f"x{draw(name)}",
            draw(optional),
            draw(st.sampled_from(["f", "m", None])),
            draw(optional),
            draw(optional),
            draw(st.sampled_from(["", "enroll", "trial", "train"])),
            draw(optional),
            draw(optional),
            draw(optional),
            draw(seconds),
            draw(st.none() | seconds),
            draw(st.none() | seconds),
        )
        for key in draw(st.lists(text, unique=True, max_size=6))
    )
    trial_ids = text.filter(lambda value: not value.endswith("\0"))  # numpy strings end before zeros
    rows = draw(st.none() | st.lists(st.tuples(trial_ids, trial_ids, st.booleans()), max_size=5))
    trials = rows and Trials(*(np.array(column) for column in zip(*rows, strict=True)))
    return Corpus("m", utterances, trials or None, "manifest", root)


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_write_then_read_is_identity(suffix: str, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        corpus = data.draw(corpora(root))
        write_manifest(corpus, root / f"m.{suffix}")
        assert read_manifest(root / f"m.{suffix}") == corpus


fragments = st.lists(
    st.sampled_from([b"path", b"id", b",", b"\n", b'"', b'{"path":', b'"a"', b"}", b"1e999", b"null", b"\0", b"\xff"])
    | st.binary(max_size=6)
).map(b"".join)


@pytest.mark.parametrize("file", ["m.csv", "m.jsonl", "m.trials.csv"])
@settings(max_examples=100, deadline=None)
@given(content=fragments | fragments.map(b"id,path\n".__add__))
def test_arbitrary_bytes_raise_nothing_but_input_error(file: str, content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "m.csv").write_text("id,path\na,a.wav\n")
        (root / file).write_bytes(content)
        main = root / ("m.jsonl" if file == "m.jsonl" else "m.csv")
        with contextlib.suppress(InputError):
            open_corpus(main)
        assert len(read_manifest(main, lambda fault: None)) >= 0  # the tolerant reading never raises
