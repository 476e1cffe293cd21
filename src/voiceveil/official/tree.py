"""The result files of the challenge's own scripts, beside ``results.json``: the same figures in the official layout.

What was written is listed in ``info["official"]``, with who stands for whom (see :mod:`.labels`); a later run of the
same evaluation removes those of the listed files that it does not write itself, and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path, PurePosixPath

from voiceveil.core.atomic_files import atomic_path, remove_if_recorded
from voiceveil.core.documents import read_json
from voiceveil.corpus import Trials
from voiceveil.evaluation.protocol import protocol_of
from voiceveil.evaluation.results import Results
from voiceveil.metrics.wer import WordErrors
from voiceveil.official.labels import as_published, labels_of, note_text
from voiceveil.official.tree2022 import write_2022
from voiceveil.official.tree2024 import write_2024

__all__ = ["write_tree"]


def write_tree(
    results: Results,
    out: Path,
    *,
    suffix: str,
    heard: Mapping[str, WordErrors],
    trials: Mapping[str, Trials],
    time: datetime,
) -> Results:
    """Write ``out/exp`` if the protocol has [official]; return the results, with the files in their ``info``.

    ``heard``: dataset, dot, ``o`` or ``a`` -> what the recogniser made of it. ``trials``: set -> its trial list.
    """
    protocol = protocol_of(results)
    official = protocol.official
    if official is None:
        return results
    labels = labels_of(results, official)
    published = as_published(results, labels)
    if official.layout == "vpc2024":
        files = list(write_2024(published, out, suffix=suffix, heard=heard, time=time))
        note = out / "exp" / "results_summary" / f"NOTE{suffix}.txt"
    else:
        files = list(write_2022(published, out, official.layout, trials=trials, time=time))
        note = out / "exp" / f"results-{time:%Y-%m-%d-%H-%M-%S}" / "NOTE.txt"
    with atomic_path(note) as part:
        part.write_text(note_text(results, labels, protocol.title, official), encoding="utf-8")
    written = sorted({path.relative_to(out).as_posix() for path in [*files, note]})
    _remove_others(out, written)
    return replace(results, info={**results.info, "official": {"names": labels.as_dict(), "files": written}})


def _remove_others(out: Path, written: list[str]) -> None:
    """Files that an earlier run has written and listed, and this one has not."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        before = read_json(out / "results.json")["info"]["official"]["files"]
        for name in {str(one) for one in before} - set(written):
            parts = PurePosixPath(name).parts
            if parts[:1] == ("exp",) and ".." not in parts:
                remove_if_recorded(out / name)
