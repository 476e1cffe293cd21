"""The entries of a leaderboard: which submission of each system counts, its figures, and whether it may have a place.

Conventions: an entry is named TEAM/SYSTEM. Of the VoicePrivacy Challenges the last submission of a system counts, of
TdSV the best one of a team. A submission after the deadline never takes the place of one in time: it is an entry of its
own, TEAM/SYSTEM (late).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from voiceveil.apps.board.contest import TDSV, Contest
from voiceveil.apps.board.store import Store, Submission, SubmissionVerification
from voiceveil.evaluation.results import Figure

__all__ = ["BoardEntry", "all_entries", "board_entries"]


@dataclass(frozen=True)
class BoardEntry:
    """A submission with its verification, if it has one, and its description."""

    submission: Submission
    verification: SubmissionVerification | None = None
    late: bool = False
    disqualified: str = ""  # the reason
    description: str = ""

    @property
    def name(self) -> str:
        """TEAM/SYSTEM, with "(late)" behind it if it is."""
        return f"{self.submission.team}/{self.submission.system}{' (late)' if self.late else ''}"

    @property
    def is_verified(self) -> bool:
        """True if its audio was attacked and transcribed again, with whatever result."""
        return self.verification is not None and self.verification.state in ("verified", "differs")

    @property
    def is_rejected(self) -> bool:
        """True if its audio cannot be anonymized speech of the challenge."""
        return self.verification is not None and self.verification.state == "rejected"

    @property
    def figures(self) -> tuple[Figure, ...]:
        """The figures that count: recomputed ones if there are any, else the submitted ones."""
        if self.verification is not None and self.is_verified:
            return self.verification.figures
        return self.submission.figures

    def exclusion(self, contest: Contest) -> str:
        """Return why the entry gets no place whatever its figures are; "" if it may get one."""
        if self.disqualified:
            return "disqualified"
        if self.late and contest.late == "unranked":
            return "late"
        if contest.require_description and not self.description:
            return "no system description"
        if self.is_rejected or (contest.rank == "verified-only" and not self.is_verified):
            return "not verified"
        return ""

    def status(self, *, hidden: bool = False) -> str:
        """Return the state in words: late, disqualified, verification; without figures if ``hidden``."""
        marks = [f"disqualified: {self.disqualified}"] if self.disqualified else []
        marks += ["late"] if self.late else []
        if not self.is_verified and any(figure.detail.get("unofficial") for figure in self.submission.figures):
            marks.append("evaluators other than the challenge's own")
        return "; ".join([*marks, self._verification_status(hidden=hidden)])

    def _verification_status(self, *, hidden: bool) -> str:
        verification = self.verification
        if verification is None:
            return "scores as submitted, not verified"
        return {
            "waiting": "waiting for verification",
            "verifying": f"verifying, {verification.progress:.0%}",
            "verified": "verified",
            "differs": "differs" if hidden else f"differs: {verification.reason}",
            "rejected": "not verified: the audio was rejected" if hidden else f"audio rejected: {verification.reason}",
        }.get(verification.state, f"not verified: {verification.reason}")


def all_entries(contest: Contest, store: Store, submissions: Iterable[Submission] | None = None) -> list[BoardEntry]:
    """Return submissions (default: all that are scored) with all that is known of them, the oldest first."""
    verifications, disqualified, descriptions = store.verifications(), store.disqualified(), store.descriptions()
    return [
        BoardEntry(
            submission,
            verifications.get(submission.id),
            contest.is_late(submission.submitted),
            disqualified.get(("submission", submission.id)) or disqualified.get(("team", submission.team), ""),
            descriptions.get((submission.team, submission.system), ""),
        )
        for submission in (store.scored() if submissions is None else submissions)
    ]


def board_entries(contest: Contest, store: Store, now: float) -> dict[str, BoardEntry]:
    """Return name -> the entry that counts at the time ``now``, of submissions whose figures may be seen."""
    entries: dict[str, BoardEntry] = {}
    for entry in all_entries(contest, store):
        if contest.is_hidden(entry.submission.submitted, now):
            continue
        before = entries.get(entry.name)
        if before is None or contest.protocol != TDSV or _cost(entry) <= _cost(before):
            entries[entry.name] = entry
    return entries


def _cost(entry: BoardEntry) -> float:
    return next(figure.value for figure in entry.figures if figure.metric == "min_dcf")
