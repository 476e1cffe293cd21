"""Links by which evaluators take part in a study: make them, and revoke them.

``folder`` is that of the study; ``database`` a SQLite file or a PostgreSQL address (default: ``answers.sqlite`` in the
folder).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from voiceveil.apps.listen.app import invitation
from voiceveil.apps.listen.study import Study
from voiceveil.apps.web.database import open_database
from voiceveil.apps.web.tokens import Revocations, Seal, check_link, open_own_token, read_key
from voiceveil.core.errors import InputError
from voiceveil.core.registry import did_you_mean

__all__ = ["Invitation", "invite_evaluators", "revoke_evaluators", "revoke_links"]


@dataclass(frozen=True)
class Invitation:
    """The link of an evaluator, and when it expires in seconds since 1970."""

    evaluator: str
    link: str
    expires: float


def invite_evaluators(
    folder: Path, url: str, days: float = 30.0, evaluators: Sequence[str] | None = None
) -> list[Invitation]:
    """Return a signed link for each evaluator.

    Parameters
    ----------
    folder
        Folder of the study.
    url
        Address where the study is served.
    days
        Days that the links are valid.
    evaluators
        Names of evaluators (default: all).

    Raises
    ------
    InputError
        If an evaluator is unknown, or the address or the number of days cannot be used.
    """
    study = Study.load(folder)
    names = list(evaluators or study.evaluators)
    _check_evaluators(study, names)
    check_link(url, days)
    seal, expires = Seal(read_key(folder / "key")), time.time() + 86400 * days
    base = f"{url.rstrip('/')}/i/"
    return [Invitation(name, f"{base}{invitation(seal, name, expires)}", expires) for name in names]


def revoke_evaluators(folder: Path, evaluators: Sequence[str], database: str | None = None) -> None:
    """Make all links of these evaluators so far invalid; ``InputError`` if one is unknown."""
    _check_evaluators(Study.load(folder), evaluators)
    revocations = _revocations(folder, database)
    for name in evaluators:
        revocations.revoke_holder(name)


def revoke_links(folder: Path, links: Sequence[str], database: str | None = None) -> list[str]:
    """Make these links invalid, and return the evaluator of each; ``InputError`` if one is not of this study."""
    Study.load(folder)
    seal = Seal(read_key(folder / "key"))
    contents = [open_own_token(seal, "invitation", link) for link in links]
    revocations = _revocations(folder, database)
    for content in contents:
        revocations.revoke_token(content)
    return [str(content["evaluator"]) for content in contents]


def _check_evaluators(study: Study, names: Sequence[str]) -> None:
    """Raise ``InputError`` at the first name that is not of the study."""
    for name in names:
        if name not in study.evaluators:
            raise InputError(f"unknown evaluator {name!r}", fix=did_you_mean(name, list(study.evaluators)))


def _revocations(folder: Path, database: str | None) -> Revocations:
    return Revocations(open_database(database or folder / "answers.sqlite"))
