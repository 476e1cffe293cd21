"""Names by a spaCy pipeline: folders and packages, and what is refused."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("spacy")

from tests.support.names_pipeline import write_pipeline, write_pipeline_package
from voiceveil.core.errors import InputError
from voiceveil.systems.redaction import names
from voiceveil.systems.redaction.names import (
    default_pipeline,
    find_names,
    load_pipeline,
    pipeline_digest,
    pipeline_folder,
)


def found(text: str, folder: Path) -> list[str]:
    tokens = text.split()
    return [" ".join(tokens[first : last + 1]) for first, last in find_names(text, folder)]


def test_names_are_found_without_titles(tmp_path: Path) -> None:
    folder = write_pipeline(tmp_path / "pipeline")
    text = "Sir Harry Towne bowed and said he had met Mr. Alexander's wife in Tokyo."
    assert found(text, folder) == ["Harry Towne", "Alexander's", "Tokyo."]


def test_the_code_of_a_package_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_pipeline_package(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert default_pipeline() == "en_core_web_sm"
    folder = pipeline_folder("en_core_web_sm")
    assert folder == tmp_path / "en_core_web_sm" / "en_core_web_sm-3.8.0"
    assert found("In Tokyo", folder) == ["Tokyo"]
    assert "en_core_web_sm" not in sys.modules


def test_a_missing_pipeline_is_told_with_its_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "DEFAULTS", ("en_core_web_nothing",))
    with pytest.raises(InputError, match="spacy download"):
        default_pipeline()
    for spec in ("en_core_web_nothing", "no/such/folder", "os.path", ""):
        with pytest.raises(InputError, match=r"no spaCy pipeline|not a pipeline"):
            pipeline_folder(spec)


def test_a_folder_that_is_no_pipeline_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"config\.cfg"):
        pipeline_folder(str(tmp_path))


def test_a_pipeline_cannot_bring_code(tmp_path: Path) -> None:
    """A config can name registered functions only: a module beside it is not imported."""
    folder = write_pipeline(tmp_path / "pipeline")
    config = (folder / "config.cfg").read_text()
    (folder / "planted.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    (folder / "config.cfg").write_text(config.replace('factory = "entity_ruler"', 'factory = "planted"'))
    with pytest.raises(InputError, match="cannot load"):
        load_pipeline(folder)
    (folder / "config.cfg").write_text(
        config.replace("before_creation = null", 'before_creation = {"@callbacks": "planted.run"}')
    )
    with pytest.raises(InputError, match="cannot load"):
        load_pipeline(folder)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("content", ["", "nonsense", '[nlp]\nlang = "xx-none"\npipeline = []\n', "\x00\x01"])
def test_a_broken_config_is_an_input_error(tmp_path: Path, content: str) -> None:
    folder = write_pipeline(tmp_path / "pipeline")
    (folder / "config.cfg").write_text(content)
    with pytest.raises(InputError):
        load_pipeline(folder)


def test_a_pipeline_without_names_is_refused(tmp_path: Path) -> None:
    import spacy

    spacy.blank("en").to_disk(tmp_path / "blank")
    with pytest.raises(InputError, match="finds no names"):
        load_pipeline(tmp_path / "blank")


def test_the_digest_changes_with_the_pipeline(tmp_path: Path) -> None:
    folder = write_pipeline(tmp_path / "pipeline")
    before = pipeline_digest(folder)
    (folder / "config.cfg").write_text((folder / "config.cfg").read_text() + "\n# changed\n")
    assert pipeline_digest(folder) != before
