"""The data of a report: figures of an evaluation, the scores behind them, and details of utterances.

All of it is read from the folder of the results; nothing is computed from audio. Missing parts are empty, and the
report says so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from voiceveil.core.errors import InputError
from voiceveil.core.files import bounded_lines, open_file
from voiceveil.evaluation.details import Details, read_details
from voiceveil.evaluation.protocol import Protocol, find_protocol
from voiceveil.evaluation.results import Figure, Results, attacker_label
from voiceveil.metrics import ScoredTrials
from voiceveil.official import read_results

__all__ = ["Attack", "ReportData", "Scored", "attacks_of", "load_report_data", "set_name"]


@dataclass(frozen=True, eq=False)
class Scored:
    """The scored trials behind an EER; speakers are indices into the names ``speakers``."""

    figure: Figure
    trials: ScoredTrials
    speakers: tuple[str, ...]
    utterances: NDArray[np.str_]  # (n,), of each trial


@dataclass(frozen=True)
class Attack:
    """An attacker in one condition, and its EERs of all sets."""

    attacker: str  # "campplus-adapted"
    knowledge: str  # "semi-informed"
    condition: str  # "aa"
    figures: tuple[Figure, ...]

    @property
    def evaluator(self) -> str:
        """The attacker with its knowledge, for a reader."""
        return attacker_label(self.attacker, self.knowledge)

    @property
    def is_free(self) -> bool:
        """True if it needs no model."""
        return self.knowledge in ("free", "metadata")


@dataclass(frozen=True, eq=False)
class ReportData:
    """Results, details of utterances, and the scored trials of each EER whose scores were kept."""

    results: Results
    folder: Path
    details: Details = field(default_factory=lambda: Details({}, {}))
    scored: tuple[Scored, ...] = ()

    @property
    def protocol(self) -> Protocol | None:
        """The protocol of the results; None if they neither hold it nor name one that ships with the package."""
        return find_protocol(self.results)

    def attacks(self) -> tuple[Attack, ...]:
        """Return all attacks, in the order of the results."""
        return attacks_of(self.results)

    def strongest(self) -> Attack | None:
        """Return the attack on anonymized speech with the lowest mean EER; attacks on metadata do not count."""
        attacks = [attack for attack in self.attacks() if "a" in attack.condition and attack.knowledge != "metadata"]
        return min(attacks, key=lambda a: sum(f.value for f in a.figures) / len(a.figures), default=None)

    def scores_of(self, attack: Attack) -> tuple[Scored, ...]:
        """Return the scores of an attack, one entry for each set."""
        return tuple(scored for scored in self.scored if scored.figure in attack.figures)


def attacks_of(results: Results) -> tuple[Attack, ...]:
    """Return all attacks of some results, in their order."""
    by_attack: dict[tuple[str, str, str], list[Figure]] = {}
    for figure in results.find("eer"):
        by_attack.setdefault((figure.attacker, figure.knowledge, figure.condition), []).append(figure)
    return tuple(Attack(*names, tuple(figures)) for names, figures in by_attack.items())


def set_name(figure: Figure) -> str:
    """Return the trial set of a figure, for a reader."""
    gender = {"f": "female", "m": "male"}.get(figure.gender, "")
    return " ".join(filter(None, [figure.dataset, figure.subset, gender]))


def load_report_data(path: Path) -> ReportData:
    """Read a folder of results, its ``results.json``, or an official result file, which has figures alone."""
    results = read_results(path)
    folder = path if path.is_dir() else path.parent
    if path.is_file() and path.name != "results.json":
        return ReportData(results, folder)
    details = read_details(folder)
    speakers = {name: {row.utterance: row.speaker for row in rows} for name, rows in details.utterances.items()}
    scored = []
    for figure in results.find("eer"):
        speaker_of = speakers.get(str(figure.detail.get("set", "")))
        file = _score_file(folder, figure)
        if speaker_of and file is not None:
            scored.append(_read(file, figure, speaker_of))
    return ReportData(results, folder, details, tuple(scored))


def _score_file(folder: Path, figure: Figure) -> Path | None:
    """Return the score file of a figure, or None; never a file outside of the results."""
    name = "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in figure.attacker)
    usual = f"scores/{name}/{figure.detail.get('set')}.{figure.condition}.scores"
    file = folder / str(figure.detail.get("scores") or usual)
    inside = file.resolve().is_relative_to(folder.resolve())
    return file if inside and file.is_file() else None


def _read(file: Path, figure: Figure, speaker_of: dict[str, str]) -> Scored:
    """Read lines ``<enrolled speaker> <utterance> <score>``; the details name the speaker of each utterance."""
    enroll, utterance, score, actual = [], [], [], []
    with open_file(file) as stream:
        for number, line in enumerate(bounded_lines(stream, file), start=1):
            try:
                claimed, name, value = line.decode("utf-8").split()
                if math.isnan(float(value)):
                    raise ValueError("the score is not a number")
                score.append(float(value))
                actual.append(speaker_of[name])
            except (ValueError, KeyError) as error:
                problem = f"not `<speaker> <utterance> <score>` of the details: {str(error)[:100]}"
                raise InputError(problem, where=file, line=number, fix="evaluate again") from None
            enroll.append(claimed)
            utterance.append(name)
    claims, speakers = np.array(enroll), np.array(actual)
    names, codes = np.unique(np.concatenate([claims, speakers]), return_inverse=True)
    codes = codes.reshape(-1).astype(np.int64)
    trials = ScoredTrials(np.array(score), claims == speakers, codes[: len(claims)], codes[len(claims) :])
    return Scored(figure, trials, tuple(names.tolist()), np.array(utterance))
