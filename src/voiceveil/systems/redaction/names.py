"""Names of people, places and organizations in a transcript, by a spaCy pipeline with named entity recognition.

The pipeline is a package (``en_core_web_sm``) or a folder that spaCy wrote. Only its data are read, also those of a
package: its own code is not run. Its ``config.cfg`` can name functions that spaCy, or another installed package that
extends spaCy, has registered; it can bring none of its own.
"""

from __future__ import annotations

import hashlib
import importlib.util
import warnings
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from voiceveil.core.errors import InputError
from voiceveil.run.records import sha256_file

__all__ = ["LABELS", "default_pipeline", "find_names", "pipeline_digest", "pipeline_folder"]

#: Labels of entities that are removed: people, places, organizations, in the names of all usual label sets.
LABELS = frozenset(("PERSON", "PER", "GPE", "LOC", "FAC", "ORG"))
DEFAULTS = ("en_core_web_trf", "en_core_web_lg", "en_core_web_md", "en_core_web_sm")
_INSTALL = "pip install 'voiceveil[pii]'"
_DOWNLOAD = "python -m spacy download en_core_web_sm"
_WITHOUT = "or say what else is to go, e.g. --redact numbers,words"
_TITLES = frozenset("mr mrs ms miss mister missus doctor dr sir lord lady uncle aunt captain professor".split())  # noqa: SIM905


def default_pipeline() -> str:
    """Return the best English pipeline of spaCy that is installed; an ``InputError`` if there is none."""
    _check_spacy()
    for name in DEFAULTS:
        if importlib.util.find_spec(name) is not None:
            return name
    raise InputError(
        "names are found by a spaCy pipeline, and none for English is installed",
        fix=f"{_DOWNLOAD}, or give a folder: --names-model DIR; {_WITHOUT}",
    )


def pipeline_folder(spec: str) -> Path:
    """Return the folder with the data of a pipeline.

    Parameters
    ----------
    spec
        Name of an installed package, or a folder.

    Raises
    ------
    InputError
        If spaCy is not installed, or there is no such pipeline, or it is one of spaCy 2.
    """
    _check_spacy()
    folder = Path(spec)
    if not folder.is_dir():
        package = importlib.util.find_spec(spec) if spec.isidentifier() else None
        if package is None or not package.submodule_search_locations:
            problem = f"there is no spaCy pipeline {spec!r}: neither a folder nor an installed package"
            raise InputError(problem, fix=f"{_DOWNLOAD}, or give a folder that spaCy wrote; {_WITHOUT}")
        folder = Path(next(iter(package.submodule_search_locations)))
    if (folder / "config.cfg").is_file():
        return folder
    inner = sorted(path.parent for path in folder.glob("*/config.cfg"))  # of a package: NAME/NAME-VERSION
    if len(inner) == 1:
        return inner[0]
    raise InputError("not a pipeline of spaCy 3: it has no config.cfg", where=folder, fix="give the folder that has it")


def pipeline_digest(folder: Path) -> str:
    """Return a digest of the files of a pipeline, 16 hexadecimal digits."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    content = "".join(f"{path.relative_to(folder).as_posix()} {sha256_file(path)}\n" for path in files)
    return hashlib.sha256(f"spacy {version('spacy')} {content}".encode()).hexdigest()[:16]


def find_names(text: str, folder: Path) -> list[tuple[int, int]]:
    """Return the names in a transcript with capitals and punctuation, as (first, last) token.

    A title before a name ("Mrs.") is no part of it.
    """
    places = []
    position = 0
    for token in text.split():
        start = text.index(token, position)
        position = start + len(token)
        places.append((start, position, token))
    found = []
    for entity in load_pipeline(folder)(text).ents:
        if entity.label_ not in LABELS:
            continue
        tokens = [n for n, (start, end, _) in enumerate(places) if start < entity.end_char and end > entity.start_char]
        while len(tokens) > 1 and places[tokens[0]][2].lower().strip(".,") in _TITLES:
            tokens.pop(0)
        if tokens:
            found.append((tokens[0], tokens[-1]))
    return found


@lru_cache(maxsize=1)
def load_pipeline(folder: Path) -> Any:
    """Return the pipeline of a folder, loaded once per process; an ``InputError`` if it has no entity recognizer."""
    from spacy.util import load_model_from_path

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a pipeline of another minor version of spaCy works as a rule
            pipeline = load_model_from_path(folder)
    except Exception as error:  # spaCy raises many kinds; all mean that this folder cannot be used
        reason = str(error).strip().partition("\n")[0]
        raise InputError(f"spaCy cannot load this pipeline: {reason}", where=folder, fix="give another one") from error
    if not {"ner", "entity_ruler", "span_ruler"} & set(pipeline.pipe_names) and not any(
        "ents" in str(pipeline.get_pipe_meta(name).assigns) for name in pipeline.pipe_names
    ):
        raise InputError("this pipeline finds no names: it has no `ner`", where=folder, fix=_DOWNLOAD)
    return pipeline


def _check_spacy() -> None:
    if importlib.util.find_spec("spacy") is None:
        raise InputError(
            "names are found by spaCy, which is not installed", fix=f"{_INSTALL} and {_DOWNLOAD}; {_WITHOUT}"
        )
