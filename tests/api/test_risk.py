"""``vv.assess_risk``: from two folders of recordings to verdicts and a report."""

from __future__ import annotations

from pathlib import Path

import pytest

import voiceveil as vv
from tests.support.pitch_bumps import make_corpus  # registers the encoder `pitch-bumps`


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Recordings of 20 speakers, 8 utterances each, and their anonymized versions."""
    home = tmp_path_factory.mktemp("risk")
    make_corpus(home, "recordings", range(20), range(8))
    vv.anonymize(home / "recordings", home, system="b2", seed=1)
    return home / "recordings", home / "recordings_b2"


@pytest.mark.slow
def test_two_folders_are_enough(folders: tuple[Path, Path], tmp_path: Path) -> None:
    risk = vv.assess_risk(
        *folders,
        plan=vv.RiskPlan(lengths=(2,), draws=1),
        limits=vv.RiskLimits(linkability=0.0),
        options=vv.RiskOptions(
            amounts=(4, 4),
            unit="utterances",
            encoders={"original": "pitch-bumps", "ignorant": "pitch-bumps", "informed": "pitch-bumps-adapted"},
        ),
    )
    records = risk.records()
    assert {record["attacker"] for record in records} == {"original", "ignorant", "informed"}
    assert all(0 <= record["low"] <= record["value"] <= record["high"] <= 1 for record in records)
    assert [verdict.criterion for verdict in risk.verdicts] == ["linkability"]
    assert not risk.acceptable
    assert "This informs a legal assessment and does not replace one." in str(risk)
    page = risk.report(tmp_path / "risk.html")
    assert "<html" in page.read_text(encoding="utf-8")
    with pytest.raises(vv.InputError, match="this file exists"):
        risk.report(page)
    with pytest.raises(vv.InputError, match="lies inside the input"):
        risk.report(folders[0] / "risk.html", overwrite=True)


def test_too_little_speech_says_so(folders: tuple[Path, Path]) -> None:
    with pytest.raises(vv.InputError, match="too little speech"):
        vv.assess_risk(*folders, options=vv.RiskOptions(amounts=(2.0, 3.0)))
