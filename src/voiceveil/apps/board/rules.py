"""The rules of a contest in words, as the board's page and `voiceveil board rules` show them.

Conventions: a section is a heading and its paragraphs. The organizer's own text is ``rules.txt`` in the folder of the
contest: paragraphs with blank lines between them, a heading is a line that begins with ``# ``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

from voiceveil.apps.board.contest import TDSV, Contest
from voiceveil.apps.board.lists import audio_sets
from voiceveil.core.errors import InputError
from voiceveil.core.files import read_bytes
from voiceveil.metrics.catalog import metric_info

__all__ = ["RULES_FILE", "RulesSection", "rules_of"]

#: The organizer's own text, in the folder of the contest.
RULES_FILE = "rules.txt"
_LONGEST = 1 << 20  # bytes
_LATE = {
    "marked": "A later submission is marked as late, and ranked.",
    "unranked": "A later submission is marked as late, and gets no place.",
    "refused": "Later submissions are refused.",
}


@dataclass(frozen=True)
class RulesSection:
    """A heading and the paragraphs below it."""

    heading: str
    paragraphs: tuple[str, ...]


def rules_of(contest: Contest, folder: Path) -> list[RulesSection]:
    """Return the rules of the contest in ``folder``: the organizer's own text, then ``contest.toml``."""
    return [
        *_own(folder / RULES_FILE),
        RulesSection("Submissions", tuple(_submissions(contest))),
        RulesSection("Ranking", tuple(_tdsv_ranking() if contest.protocol == TDSV else _ranking(contest))),
        RulesSection("Verification", tuple(_verification(contest))),
    ]


def _own(path: Path) -> Iterator[RulesSection]:
    if not path.exists():
        return
    try:
        text = read_bytes(path, at_most=_LONGEST).decode("utf-8")
    except UnicodeDecodeError:
        raise InputError("not UTF-8", where=path, fix="save the rules as UTF-8 text") from None
    heading = "About this contest"
    paragraphs: list[str] = []
    for block in text.replace("\r\n", "\n").split("\n\n"):
        lines = block.strip().splitlines()
        if lines and lines[0].startswith("# "):
            if paragraphs:
                yield RulesSection(heading, tuple(paragraphs))
            heading, paragraphs, lines = lines[0][2:].strip(), [], lines[1:]
        if lines:
            paragraphs.append(" ".join(line.strip() for line in lines))
    if paragraphs:
        yield RulesSection(heading, tuple(paragraphs))


def _submissions(contest: Contest) -> Iterator[str]:
    limits = [f"{n} {when}" for n, when in ((contest.daily, "a day"), (contest.total, "in all")) if n]
    number = f"at most {' and '.join(limits)}; refused ones do not count" if limits else "as many as it likes"
    yield f"Submissions of a team: {number}. An upload has at most {_size(contest.largest)}."
    if contest.deadline is not None:
        yield f"Deadline: {_utc(contest.deadline)}, when the upload begins. {_LATE[contest.late]}"
    if contest.hidden_from is not None and contest.hidden_until is not None:
        yield f"From {_utc(contest.hidden_from)} to {_utc(contest.hidden_until)} new figures are hidden from everybody."
    if contest.protocol == TDSV:
        yield "A submission is a ZIP file with answer.txt, one score for each trial in the order of the trial file."
    else:
        yield "A submission is a .tar.gz, .tar or .zip archive in the layout of the challenge's scripts."
    if contest.require_audio:
        yield f"It must hold the anonymized audio of {', '.join(audio_sets(contest))}: 16-bit WAV files at 16 kHz."
    must = "Without one it gets no place." if contest.require_description else ""
    yield f"Each system has a public description, which the team writes on its page. {must}".rstrip()


def _ranking(contest: Contest) -> Iterator[str]:
    rules, protocol = contest.ranking, contest.rules
    names = " and by ".join(metric_info(metric).title for metric in rules.by)
    last = [f"{100 * low:g} to {100 * high:g}%" for low, high in pairwise([*rules.minimum_eer, 1.0])]
    yield f"Rules of the {protocol.title}, on its {contest.split} data."
    yield f"Within each EER condition ({', '.join(last)}) systems are ranked by {names}, each separately."
    if rules.systems_per_team is not None:
        yield (
            f"A team with more than {rules.systems_per_team} system(s) in one condition keeps its best one by each of "
            "these."
        )
    if rules.minimum_pitch_correlation is not None:
        yield f"Places are for systems with a pitch correlation above {rules.minimum_pitch_correlation:g} in every set."
    for metric in ("eer", *rules.by):
        weights = protocol.weights(metric, contest.split)
        shown = ", ".join(f"{dataset} {100 * weight:g}%" for dataset, weight in weights.items())
        yield f"The {metric_info(metric).title} is the weighted average of: {shown}."
    yield "Systems whose 95% intervals overlap are tied: the data do not tell them apart."


def _tdsv_ranking() -> Iterator[str]:
    yield "The best submission of each team is ranked by its normalized minimum detection cost."
    yield "Systems whose 95% intervals overlap are tied: the data do not tell them apart."


def _verification(contest: Contest) -> Iterator[str]:
    if not contest.is_verified:
        yield "Figures are as submitted: EERs and WERs are computed from the submitted scores and transcripts."
        return
    what = "all audio" if contest.verify == "all" else f"a secret random sample of {contest.verify} utterances a list"
    yield f"The board attacks and transcribes {what} again, by {', '.join(contest.attackers)} and {contest.recognizer}."
    only = "Others get no place." if contest.rank == "verified-only" else "Others rank behind them."
    yield f"Verified systems are ranked by the recomputed figures. {only}"


def _utc(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")


def _size(size: int) -> str:
    return f"{size / (1 << 30):g} GiB" if size >= 1 << 30 else f"{size} bytes"
