"""Every JSON and TOML document that is read, with something else in each of its places: good, or an ``InputError``."""

from __future__ import annotations

import copy
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.faults.test_hostile_data import CONTEST, RECORD, STUDY, bounded
from tests.faults.test_hostile_results import HTML, MARK, RAW, VALUES
from voiceveil.apps.board.contest import Contest
from voiceveil.apps.listen.study import Study
from voiceveil.apps.listen.texts import load_texts
from voiceveil.core.errors import InputError
from voiceveil.corpus import open_corpus
from voiceveil.evaluation.protocol import load_protocol
from voiceveil.models.pretrained import model_kind
from voiceveil.run.ledger import finished_items, open_ledger
from voiceveil.tdsv.serialization import load_system

ENTRY = {"file": "a.wav", "id": "a", "seconds": 1.0, "sha256": "0", "source": "s"}


def places(document: Any, before: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield every place in a document, the document itself last."""
    inner: Any = document.items() if isinstance(document, dict) else ()
    for key, value in enumerate(document) if isinstance(document, list) else inner:
        yield from places(value, (*before, key))
    yield before


def contents(document: Any) -> Iterator[tuple[str, bytes]]:
    """Yield the document with each of the values in each of its places, as JSON."""
    for place in places(document):
        name = ".".join(map(str, place))
        for what, value in [*VALUES.items(), *((what, MARK) for what in RAW)]:
            if what == "a huge text":
                value = "A" * 20_000
            changed = copy.deepcopy(document)
            inner = changed
            for key in place[:-1]:
                inner = inner[key]
            if place:
                inner[place[-1]] = value
            text = json.dumps(changed if place else value)
            yield f"{name} is {what}", text.replace(f'"{MARK}"', RAW.get(what, "")).encode()


def _ledger(path: Path) -> None:
    finished_items(path, {"system": "b2"})
    with open_ledger(path, {"system": "b2"}) as ledger:
        ledger.has("a", "s", path.with_name("a.wav"))


def _system(path: Path) -> None:
    arrays: dict[str, Any] = {name: np.ones(2) for name in ("voice_mean", "content_mean")}
    arrays |= {"fusion": np.ones((2, 3)), "cohort": np.eye(2), "content_matrix": np.eye(2)}
    arrays["json"] = np.frombuffer(path.read_bytes(), np.uint8)
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    path.with_suffix(".npz").write_bytes(buffer.getvalue())
    load_system(path.with_suffix(".npz"))


def _manifest(path: Path) -> None:
    open_corpus(path)


def _finished_training(path: Path) -> None:
    from voiceveil.training.training_run import finished_training

    finished_training(path.parent, {"model": "ecapa", "seed": 1}, "checkpoint", overwrite=False)


def _begun_training(path: Path) -> None:
    from voiceveil.training.asr import _begin

    _begin(path.parent, {"seed": 1}, overwrite=False)


CONFIG = {"architectures": ["Wav2Vec2ForCTC"], "model_type": "wav2vec2"}
DOCUMENTS: dict[str, tuple[str, Any, Callable[[Path], object]]] = {
    "study": ("design.json", STUDY, lambda path: Study.load(path.parent)),
    "ledger": ("ledger.jsonl", ENTRY, _ledger),
    "tdsv system": ("system.json", RECORD, _system),
    "manifest": ("a.jsonl", {"id": "u1", "path": "a.wav", "start": 0.1, "speaker": "s"}, _manifest),
    "training of an encoder": ("record.json", {"settings": {"model": "ecapa", "seed": 1}}, _finished_training),
    "training of a recognizer": ("training.json", {"settings": {"seed": 1}, "wer": 0.1}, _begun_training),
    "settings of a model": ("config.json", CONFIG, lambda path: model_kind(path.parent)),
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_mutated_document_is_read_or_raises_input_error(name: str, tmp_path: Path) -> None:
    file, document, read = DOCUMENTS[name]
    path = tmp_path / file
    before = b'{"system": "b2"}\n' if name == "ledger" else b""
    path.write_bytes(before + json.dumps(document).encode() + b"\n")
    read(path)
    outcomes = set()
    for change, content in contents(document):
        path.write_bytes(before + content + b"\n")
        outcomes.add(_outcome(read, path, change))
    assert "refused" in outcomes


def _outcome(read: Callable[[Path], object], path: Path, change: str) -> str:
    """Return whether a document is read or refused; anything else is an exception that names the change."""
    try:
        with bounded():
            read(path)
    except InputError:
        return "refused"
    except BaseException as error:
        error.add_note(f"{path.name}: {change}")
        raise
    return "read"


TOML = ["", "1", "-1", "1.5", "nan", "inf", "9" * 4000, "true", '""', '"x"', "[]", "[1]", "{}", '{ a = "x" }',
        "1979-05-27T07:32:00Z", "1979-05-27", "[" * 5000, '"\\u0000"', '"../../x"', json.dumps(HTML)]  # fmt: skip


def _lines(text: str) -> Iterator[tuple[str, str]]:
    """Yield the text with each of the values in each line that has one."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        key, equals, _ = line.partition(" = ")
        if equals:
            for value in TOML:
                yield f"{key} = {value[:20]}", "\n".join([*lines[:number], f"{key} = {value}", *lines[number + 1 :]])
        yield f"without {line}", "\n".join([*lines[:number], *lines[number + 1 :]])


@pytest.mark.parametrize("name", ["contest", "protocol", "texts"])
def test_mutated_toml_is_read_or_raises_input_error(name: str, tmp_path: Path) -> None:
    from tests.faults.runs import PROTOCOL

    more = "largest = 1000\nhidden_from = 2026-06-01T12:00:00Z\nhidden_until = 2026-06-08T12:00:00Z\nverify = 3\n"
    kinds: dict[str, tuple[str, str, Callable[[Path], object]]] = {
        "contest": ("contest.toml", CONTEST + more, lambda path: Contest.load(path.parent)),
        "protocol": ("mine.toml", PROTOCOL, load_protocol),
        "texts": ("texts.toml", 'language = "de"\ndirection = "ltr"\n[start]\n', lambda path: load_texts(path.parent)),
    }
    file, text, read = kinds[name]
    path = tmp_path / file
    outcomes = set()
    for change, content in _lines(text):
        path.write_text(content)
        outcomes.add(_outcome(read, path, change))
    assert outcomes == {"read", "refused"}


@pytest.mark.parametrize("value", ["../../out", "a/b", ".hidden", ""])
def test_protocol_set_name_cannot_be_a_path(value: str, tmp_path: Path) -> None:
    from tests.faults.runs import PROTOCOL

    path = tmp_path / "mine.toml"
    path.write_text(PROTOCOL.replace("libri_dev_enrolls", value))
    with pytest.raises(InputError, match="cannot be the name of a folder"):
        load_protocol(path)
