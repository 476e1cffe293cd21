"""Files of a SpeechBrain folder: which checkpoint counts, its tensors, its labels.

A training leaves folders ``CKPT+<number>`` with ``CKPT.yaml`` and one ``.ckpt`` for each part. Some ``.ckpt`` files
are written by ``torch.save``, some are text.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

from voiceveil.core.errors import InputError
from voiceveil.core.files import read_text
from voiceveil.models.speechbrain import Mode

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["checkpoint", "checkpoints", "error_rate", "read_labels", "read_tensors"]

_NUMBERED = re.compile(r"CKPT\+(\d{1,9})")
_ERROR_RATE = re.compile(r"^(?:ErrorRate|error_rate): *([0-9.eE+-]+)$", re.MULTILINE)  # of ASV_eval, of SER_eval
_LABEL = re.compile(r"""((['"]).{0,200}\2) => (\d{1,9})""")
_MOST_LABELS = 100_000
_LARGEST_TEXT = 1 << 24  # bytes


def checkpoints(folder: Path) -> list[Path]:
    """Return the folders ``CKPT+<number>`` of a training, the latest first."""
    if not folder.is_dir():
        raise InputError("no such folder", where=folder, fix="give a folder of the challenge, e.g. exp/asv_orig")
    numbered = [(int(match[1]), path) for path in folder.iterdir() if (match := _NUMBERED.fullmatch(path.name))]
    return [path for _, path in sorted(numbered, reverse=True) if path.is_dir()]


def checkpoint(folder: Path, mode: Mode) -> Path:
    """Return the folder of the weights: a checkpoint, or ``folder`` itself if it has none.

    The challenge's code takes the checkpoint with the highest number, that is the last epoch, although the one with
    the lowest error rate on the development data is kept as well: ``correct`` takes the latter.
    """
    numbered = checkpoints(folder)
    if mode == "correct":
        rates = {path: rate for path in numbered if (rate := error_rate(path)) is not None}
        if rates:
            return min(rates, key=rates.__getitem__)  # of equal ones the latest
    return numbered[0] if numbered else folder


def error_rate(path: Path) -> float | None:
    """Return the error rate on the development data, a fraction, as ``CKPT.yaml`` states it; None if it does not."""
    file = path / "CKPT.yaml"
    match = _ERROR_RATE.search(read_text(file, at_most=_LARGEST_TEXT)) if file.is_file() else None
    try:
        return float(match[1]) if match else None
    except ValueError:
        return None


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Return the tensors of a file of ``torch.save``, on the CPU; read as data alone.

    Raises
    ------
    InputError
        If the file is missing, damaged, holds anything but named tensors, or values that are not finite.
    """
    import torch

    from voiceveil.models.checkpoint import check_finite, check_torch_file

    check_torch_file(path)
    fix = "copy it again from the challenge's archive, or train it again"
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)  # noqa: TID251 -- data alone
    except Exception as error:  # damaged pickles lead to exceptions of every kind
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InputError(f"the weights cannot be read as data: {reason}", where=path, fix=fix) from error
    if not isinstance(state, dict) or not all(
        isinstance(name, str) and isinstance(tensor, torch.Tensor) and tensor.layout == torch.strided
        for name, tensor in state.items()
    ):
        raise InputError("the file does not hold named tensors", where=path, fix=fix)
    if sum(tensor.numel() * tensor.element_size() for tensor in state.values()) > path.stat().st_size:
        raise InputError("its tensors claim more values than the file has", where=path, fix=fix)
    check_finite(state, path)
    return dict(state)


def read_labels(path: Path) -> list[str]:
    """Return the labels of an encoder of SpeechBrain in the order of their numbers, from 0 on.

    The file has a line ``'label' => number`` for each, in any order, then a line of equals signs and settings.
    """
    numbers: dict[int, str] = {}
    fix = "copy it again from the challenge's archive"
    for count, line in enumerate(read_text(path, at_most=_LARGEST_TEXT).splitlines(), 1):
        if line.startswith("===") or count > _MOST_LABELS:
            break
        match = _LABEL.fullmatch(line)
        try:
            label = ast.literal_eval(match[1]) if match else None  # a quoted text, as Python's repr() writes it
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            label = None
        if match is None or not isinstance(label, str):
            raise InputError(f"not a line of labels: {line[:80]!r}", where=path, line=count, fix=fix)
        numbers[int(match[3])] = label
    if sorted(numbers) != list(range(len(numbers))) or not numbers:
        raise InputError("the labels are not numbered from 0 on", where=path, fix=fix)
    return [numbers[number] for number in range(len(numbers))]
