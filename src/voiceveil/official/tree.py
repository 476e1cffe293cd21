"""The result files of the challenge's own scripts, beside ``results.json``: the same figures in the official layout.

The files are listed in ``info["official"]``, with the official names of evaluators (see :mod:`.labels`). A later run of
the same evaluation removes listed files that it does not write itself, and nothing else.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path, PurePosixPath

from voiceveil.core.atomic_files import atomic_path, remove_if_recorded
from voiceveil.core.documents import read_json
from voiceveil.evaluation.evaluate import Outcome
from voiceveil.evaluation.protocol import protocol_of
from voiceveil.evaluation.results import Results
from voiceveil.official.labels import as_published, labels_of, note_text
from voiceveil.official.tree2022 import write_2022
from voiceveil.official.tree2024 import summary_folder, write_2024

__all__ = ["write_tree"]


def write_tree(outcome: Outcome) -> Results:
    """Write ``exp`` beside the results if the protocol has [official].

    Returns the results with the list of files in their ``info``. For ``exports`` of
    :func:`voiceveil.evaluation.evaluate.evaluate`.
    """
    results, out, suffix, time = outcome.results, outcome.out, outcome.suffix, outcome.time
    protocol = protocol_of(results)
    official = protocol.official
    if official is None:
        return results
    labels = labels_of(results, official)
    published = as_published(results, labels)
    if official.layout in ("vpc2024", "vpc2026"):
        errors = outcome.word_errors
        files = list(write_2024(published, out, suffix=suffix, word_errors=errors, time=time, official=official))
        note = out / summary_folder(official.layout, official.track) / f"NOTE{suffix}.txt"
    else:
        files = list(write_2022(published, out, official.layout, trials=outcome.trials, time=time))
        note = out / "exp" / f"results-{time:%Y-%m-%d-%H-%M-%S}" / "NOTE.txt"
    with atomic_path(note) as part:
        part.write_text(note_text(results, labels, protocol.title, official), encoding="utf-8")
    written = sorted({path.relative_to(out).as_posix() for path in [*files, note]})
    _remove_others(out, written)
    return replace(results, info={**results.info, "official": {"names": labels.as_dict(), "files": written}})


def _remove_others(out: Path, written: list[str]) -> None:
    """Remove files that an earlier run wrote and listed, and this run did not write."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        before = read_json(out / "results.json")["info"]["official"]["files"]
        for name in {str(name) for name in before} - set(written):
            parts = PurePosixPath(name).parts
            if parts[:1] == ("exp",) and ".." not in parts:
                remove_if_recorded(out / name)
