"""Risk from matrices of scores: an attacker's comparisons, without its embeddings.

Conventions: a :class:`ScoreMatrix` has a row for each test x-vector and a column for each enrolled speaker; a higher
score says "the same speaker". A file is one of

    NAME.npz                    scores (tests, enrolled), test_speakers, enroll_speakers, and optionally length
    NAME.npy with NAME.npy.json scores (enrolled, tests), as the authors of the paper publish theirs

Linkability, 1 - EER and the evidence in ranks need one x-vector of each test speaker; a speaker with several counts
once, by their mean. Singling Out needs two or more of at least two speakers, to calibrate on; else it is left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voiceveil.attack.checks import check_scores
from voiceveil.core.checks import Check, merged
from voiceveil.core.errors import InputError
from voiceveil.core.files import open_file, read_text
from voiceveil.core.zip_files import read_npz
from voiceveil.metrics import all_pairs, legal
from voiceveil.metrics.isolation import SinglingOutProtocol
from voiceveil.metrics.legal_linkability import own_columns
from voiceveil.metrics.legal_singling_out import singling_out_from_scores
from voiceveil.risk.assessment import Assessment, complete
from voiceveil.risk.curves import METRICS, Curve, LinkedTests, RiskPlan, linking_curves, singling_out_curve
from voiceveil.risk.sets import ATTACKERS
from voiceveil.risk.verdicts import RiskLimits
from voiceveil.run.ledger import sha256_file

__all__ = ["ScoreMatrix", "assess_scores", "measure_scores", "read_scores"]

_LARGEST = 1 << 33  # bytes of an .npz file
_SAMPLE = 200_000  # nontarget scores that are checked
_FIX = "see docs/how-to/risk.md: scores, test_speakers and enroll_speakers"


@dataclass(frozen=True, eq=False)
class ScoreMatrix:
    """Scores of an attacker.

    Parameters
    ----------
    scores : array of shape (tests, enrolled)
        Finite numbers.
    test_speakers, enroll_speakers : tuple of str
        Speaker of each row, and of each column; the latter are all different, and hold the former.
    length : int
        Utterances of a test x-vector.
    where : Path, optional
        The file, for errors.
    """

    scores: NDArray[np.floating]
    test_speakers: tuple[str, ...]
    enroll_speakers: tuple[str, ...]
    length: int = 1
    where: Path | None = None

    def __post_init__(self) -> None:
        shape = (len(self.test_speakers), len(self.enroll_speakers))
        if self.scores.ndim != 2 or self.scores.shape != shape or self.scores.dtype.kind != "f" or shape[1] < 2:
            problem = f"scores of shape {self.scores.shape} for {shape[0]} tests and {shape[1]} enrolled speakers"
            raise InputError(
                problem, where=self.where, fix="give (tests, enrolled speakers), two or more of the latter"
            )
        step = max(1, legal.BLOCK_BYTES // (8 * shape[1]))
        if not all(np.isfinite(self.scores[start : start + step]).all() for start in range(0, shape[0], step)):
            raise InputError("a score is not finite", where=self.where, fix="repair the attacker's system")
        if self.length < 1:
            raise InputError(f"a length of {self.length} utterances", where=self.where, fix="give 1 or more")


def read_scores(path: Path) -> ScoreMatrix:
    """Read a matrix of scores.

    Raises
    ------
    InputError
        If the file cannot be read, or its parts do not fit.
    """
    if not path.is_file():
        raise InputError("no such file", where=path, fix="give a matrix of scores, .npz or .npy")
    if path.suffix == ".npy":
        return _read_npy(path)
    try:
        arrays = read_npz(path, largest=_LARGEST)
        tests, enrolled = (_names(arrays[name], name, path) for name in ("test_speakers", "enroll_speakers"))
        length = int(arrays["length"]) if "length" in arrays else 1
        return ScoreMatrix(_floats(arrays["scores"]), tests, enrolled, length, path)
    except KeyError as error:
        raise InputError(f"no array {error.args[0]!r}", where=path, fix=_FIX) from error
    except (OSError, ValueError, TypeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError("not readable as .npz", where=path, fix=_FIX) from error


def _read_npy(path: Path) -> ScoreMatrix:
    """Read the authors' form: enrolled speakers in rows, and a JSON file beside it that names both."""
    beside = path.with_name(f"{path.name}.json")
    try:
        names = json.loads(read_text(beside))
        with open_file(path) as file:  # refuses what is no regular file
            file.read(1)
        scores = np.load(path, mmap_mode="r", allow_pickle=False)
        speakers = [tuple(map(str, names[key])) for key in ("test_speakers", "enroll_speakers")]
        about = names.get("metadata", {})
        length = int(about.get("conversation_length", 1)) if isinstance(about, dict) else 1
        return ScoreMatrix(_floats(scores).T, speakers[0], speakers[1], length, path)
    except (KeyError, OSError, ValueError, TypeError, EOFError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        fix = f"{beside.name} must name enroll_speakers (rows) and test_speakers (columns)"
        raise InputError("not readable as scores with names", where=path, fix=fix) from error


def _floats(array: NDArray[Any]) -> NDArray[np.floating]:
    return array if array.dtype.kind == "f" else np.asarray(array, dtype=np.float64)


def _names(array: NDArray[Any], name: str, path: Path) -> tuple[str, ...]:
    if array.ndim != 1 or array.dtype.kind not in "UTiu":
        raise InputError(f"{name} is no list of names", where=path, fix=_FIX)
    return tuple(map(str, array.tolist()))


def measure_scores(attacker: str, matrix: ScoreMatrix, plan: RiskPlan) -> tuple[Curve, ...]:
    """Return the curves of Linkability, of 1 - EER and, where there are enough x-vectors, of Singling Out.

    Raises
    ------
    InputError
        If a test speaker is not enrolled, or a speaker is enrolled twice.
    """
    n = len(matrix.enroll_speakers)
    sizes = plan.curve_sizes(n, n)
    own = own_columns(matrix.test_speakers, matrix.enroll_speakers)
    claimed = (own + np.random.default_rng([plan.seed, 2]).integers(1, n, size=len(own))) % n  # anybody but the speaker
    trials = all_pairs.LinkScores(matrix.scores, own, claimed)
    pairs = all_pairs.score_all_pairs(trials, sizes, np.random.default_rng([plan.seed, 3, 0]))
    tests = LinkedTests.of_draws([pairs], matrix.test_speakers, n, sizes).by_speaker()
    curves = linking_curves((attacker, matrix.length), sizes, [tests], plan)
    usable = int((np.unique(np.array(matrix.test_speakers), return_counts=True)[1] > 1).sum())
    return curves if usable < 2 else (singling_out_of(attacker, matrix, plan, usable), *curves)


def singling_out_of(attacker: str, matrix: ScoreMatrix, plan: RiskPlan, usable: int) -> Curve:
    """Return the curve of Singling Out, with ``usable`` speakers who have two x-vectors or more."""
    sizes = plan.curve_sizes(len(matrix.enroll_speakers), usable)
    protocol = SinglingOutProtocol(
        matrix.length, plan.enroll_length, plan.enrolled, folds=plan.folds, draws=plan.draws, rank=plan.rank
    )
    result = singling_out_from_scores(
        matrix.scores.T, matrix.enroll_speakers, matrix.test_speakers, protocol, sizes=sizes, seed=plan.seed
    )
    return singling_out_curve((attacker, matrix.length), sizes, [result], plan)


def assess_scores(
    files: Mapping[str, Sequence[Path]], plan: RiskPlan | None = None, *, limits: RiskLimits | None = None
) -> Assessment:
    """Measure the re-identification risk from matrices of scores.

    Parameters
    ----------
    files : mapping
        Attacker -> a file for each conversation length.
    plan : RiskPlan, optional
        Settings; lengths are those of the files.
    limits : RiskLimits, optional
        Rates that the user accepts.

    Raises
    ------
    InputError
        If a file cannot be read, or an attacker has two matrices of one length.
    """
    chosen = plan or RiskPlan()
    curves: list[Curve] = []
    checks: list[Check] = []
    sets: dict[str, dict[str, Any]] = {}
    for attacker, paths in files.items():
        lengths: set[int] = set()
        for path in paths:
            matrix = read_scores(path)
            if matrix.length in lengths:
                problem = f"two matrices of L = {matrix.length} for the attacker {attacker}"
                raise InputError(problem, where=path, fix="store the number of utterances in them, as `length`")
            lengths.add(matrix.length)
            curves += measure_scores(attacker, matrix, chosen)
            checks += _checks(attacker, matrix)
            sizes = {"A": len(matrix.enroll_speakers), "B": len(set(matrix.test_speakers))}
            sets = sets or {name: {"speakers": count, "utterances": None} for name, count in sizes.items()}
    about: dict[str, Mapping[str, Any]] = {
        attacker: {
            "knows": ATTACKERS[attacker],
            "encoder": "scores that were given",
            "files": {path.name: sha256_file(path) for path in paths},
        }
        for attacker, paths in files.items()
    }
    measured = replace(chosen, lengths=tuple(sorted({curve.length for curve in curves})))
    ordered = tuple(sorted(curves, key=lambda curve: (METRICS.index(curve.metric), curve.length)))
    assessment = Assessment(measured, about, ordered, (), (), (), (), (), sets, {}, merged(checks))
    return complete(assessment, limits or RiskLimits())


def _checks(attacker: str, matrix: ScoreMatrix) -> list[Check]:
    """Return the failed checks of a part of the scores."""
    own = own_columns(matrix.test_speakers, matrix.enroll_speakers)
    rows = slice(0, max(1, _SAMPLE // matrix.scores.shape[1]))
    block = np.array(matrix.scores[rows], dtype=np.float64)
    is_target = np.zeros(block.shape, dtype=bool)
    is_target[np.arange(len(block)), own[rows]] = True
    return check_scores(block[is_target], block[~is_target], where=f"{attacker} attacker, L = {matrix.length}")
