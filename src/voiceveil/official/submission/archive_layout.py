"""Places in the archive of a submission, by edition.

    2024    exp/results_summary/result_for_rank<suffix>, result_for_submission<suffix>.zip, data/<set><suffix>/wav/*.wav
    2026    the same below exp/results_summary/track1 or track2; track 2 has several languages in one archive
    2022    exp/results-<time>/, exp/results-<time>.orig/, data/<set>_anon/wav/*.wav without the training set

Sets have the names of the challenge: the trials of June 2026, ``libri_dev_trials_pooled`` here, are called
``libri_dev_trials_mixed`` there, as those of September.

An archive whose figures are not by the challenge's own evaluators has ``unofficial/`` before all these names.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from voiceveil.core.errors import InputError
from voiceveil.evaluation.protocol import Protocol
from voiceveil.evaluation.protocol_checks import official_set
from voiceveil.official.tree2024 import summary_folder

__all__ = ["UNOFFICIAL", "ArchiveLayout", "archive_layout"]

#: Stands before the name of every member of an archive that is not official.
UNOFFICIAL = "unofficial/"
_RUN = re.compile(r"exp/results-[0-9-]+/results_summary\.txt")


@dataclass(frozen=True)
class ArchiveLayout:
    """The layout ``edition`` of archives: ``vpc2022``, ``vpc2024`` or ``vpc2026``, of which there are two tracks."""

    edition: str
    track: int = 1

    @property
    def summary_folder(self) -> str:
        """Folder of ``result_for_rank<suffix>``; in 2022 there is none."""
        return summary_folder(self.edition, self.track)

    def archive_name(self, suffix: str) -> str:
        """Return the name that the challenge gives an archive."""
        track = f"_track{self.track}" if self.edition == "vpc2026" else ""
        return f"submission{track}{suffix}.tar.gz"

    def set_suffix(self, suffix: str) -> str:
        """Return the end of the names of anonymized sets in the archive."""
        return "_anon" if self.edition == "vpc2022" else suffix

    def sets(self, protocol: Protocol) -> list[str]:
        """Return the sets whose audio is part of a submission."""
        return [name for name, role in protocol.roles().items() if self.edition != "vpc2022" or role != "train"]

    def official_rules(self, protocol: Protocol) -> Protocol:
        """Return a protocol whose sets have the names of the archive."""
        verification = tuple(
            replace(part, trials=tuple(replace(t, set=official_set(t.set)) for t in part.trials))
            for part in protocol.verification
        )
        recognition = tuple(replace(part, sets=tuple(map(official_set, part.sets))) for part in protocol.recognition)
        return replace(protocol, verification=verification, recognition=recognition)

    def zip_suffix(self, member: str) -> str | None:
        """Return the suffix in the name of the zip file with the results; None if the member is another file."""
        match = re.fullmatch(rf"{self.summary_folder}/result_for_submission(.*)\.zip", member)
        return None if match is None or self.edition == "vpc2022" else match[1]

    def is_summary(self, member: str, suffix: str) -> bool:
        """Return whether a member is the file with the figures that systems are ranked by."""
        if self.edition == "vpc2022":
            return _RUN.fullmatch(member) is not None
        return member == f"{self.summary_folder}/result_for_rank{suffix}"

    def rank_suffix(self, member: str) -> str | None:
        """Return the suffix in the name of ``result_for_rank<suffix>``; None if the member is another file."""
        match = re.fullmatch(rf"{self.summary_folder}/result_for_rank(.*)", member)
        return None if match is None or self.edition == "vpc2022" else match[1]

    def is_result(self, member: str) -> bool:
        """Return whether a member below ``exp/`` is in a folder of results."""
        first = member.split("/")[1]
        if self.edition == "vpc2022":
            return first.startswith("results-")
        return first in ("results_summary", "asr", "ser", "asv_orig", "asv_ssl") or first.startswith("asv_anon")


def archive_layout(protocol: Protocol) -> ArchiveLayout:
    """Return the layout of the archives of a protocol.

    Raises
    ------
    InputError
        If the protocol has no [official], or its challenge took no archives.
    """
    official = protocol.official
    if official is None or official.layout == "vpc2020":
        fault = f"results of {protocol.name}; archives have the layout of the 2022, 2024 or 2026 challenge"
        fix = 'evaluate with --protocol vpc2024, or a protocol with [official] layout = "vpc2024"'
        raise InputError(fault, fix=fix)
    return ArchiveLayout(official.layout, official.track)
