"""Invitations of evaluators, and a study from corpora that are named as on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.listen_world import make_corpora
from voiceveil.apps.listen.design import StudyPlan, design_from_specs
from voiceveil.apps.listen.invitations import invite_evaluators, revoke_evaluators, revoke_links
from voiceveil.apps.web.database import open_database
from voiceveil.apps.web.tokens import Revocations, Seal, read_key
from voiceveil.core.errors import InputError
from voiceveil.corpus import Corpus

URL = "https://listen.example.org"


def manifest(corpus: Corpus, path: Path) -> str:
    rows = [f"{u.id},{u.path},{u.speaker},{u.gender}" for u in corpus]
    path.write_text("\n".join(["id,path,speaker,gender", *rows]) + "\n")
    return str(path)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of three evaluators from manifests; the first system has two corpora."""
    folder = tmp_path_factory.mktemp("study")
    original, systems = make_corpora(folder / "c", speakers=8, utterances=6)
    (first, halves), *others = systems.items()
    utterances = tuple(halves)
    parts = [Corpus(first, utterances[:10]), Corpus(first, utterances[10:])]
    specs = {first: [manifest(part, folder / f"{first}{i}.csv") for i, part in enumerate(parts)]}
    specs |= {name: [manifest(corpus, folder / f"{name}.csv")] for name, corpus in others}
    plan = StudyPlan(evaluators=3, items=8)
    design_from_specs(folder / "study", [manifest(original, folder / "original.csv")], specs, plan)
    return folder / "study"


def is_revoked(study: Path, link: str) -> bool:
    content = Seal(read_key(study / "key")).open("invitation", link.rpartition("/")[2])
    return Revocations(open_database(study / "answers.sqlite")).has(content["evaluator"], content)


def test_links_are_made_for_all_or_some_evaluators(study: Path) -> None:
    invitations = invite_evaluators(study, f"{URL}/", days=2)
    assert [invitation.evaluator for invitation in invitations] == ["e001", "e002", "e003"]
    assert all(invitation.link.startswith(f"{URL}/i/") for invitation in invitations)
    assert [invitation.evaluator for invitation in invite_evaluators(study, URL, evaluators=["e002"])] == ["e002"]


def test_links_are_revoked_singly_or_by_evaluator(study: Path) -> None:
    first, second = (invite_evaluators(study, URL, evaluators=["e001"])[0].link for _ in range(2))
    assert revoke_links(study, [first]) == ["e001"]
    assert (is_revoked(study, first), is_revoked(study, second)) == (True, False)
    revoke_evaluators(study, ["e001"])
    assert is_revoked(study, second)
    assert not is_revoked(study, invite_evaluators(study, URL, evaluators=["e001"])[0].link)


def test_wrong_names_links_and_times_are_rejected(study: Path) -> None:
    with pytest.raises(InputError, match=r"unknown evaluator 'e01' \(did you mean e001"):
        invite_evaluators(study, URL, evaluators=["e01"])
    with pytest.raises(InputError, match="unknown evaluator 'e9'"):
        revoke_evaluators(study, ["e001", "e9"])
    with pytest.raises(InputError, match="not a token of this server"):
        revoke_links(study, [f"{URL}/i/invented"])
    with pytest.raises(InputError, match="--days -1 is out of range"):
        invite_evaluators(study, URL, days=-1)
    with pytest.raises(InputError, match="is not the address of a server"):
        invite_evaluators(study, "listen.example.org")


def test_level_out_of_range_is_rejected() -> None:
    with pytest.raises(InputError, match="the level 3 is out of range"):
        StudyPlan(level=3.0)
