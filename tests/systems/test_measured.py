"""Figures of `voiceveil systems`: each is in the document that it names, with its interval."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from voiceveil.systems import systems
from voiceveil.systems.listing import measured

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", sorted(measured()))
def test_figures_stand_in_the_documents(name: str) -> None:
    assert name in systems
    figures = measured()[name]
    text = re.sub(r"(?<=\d) ?%", "", (ROOT / figures.page).read_text(encoding="utf-8"))
    eer = " / ".join(f"{rate.value:.1f} [{rate.low:.1f}, {rate.high:.1f}]" for rate in figures.eer)
    assert eer in text
    for rate in filter(None, (figures.wer, figures.original_wer)):
        assert f"{rate.value:.1f} [{rate.low:.1f}, {rate.high:.1f}]" in text
    if figures.speed is not None:
        assert f" {figures.speed:g} |" in text
    assert figures.command.split()[1] in text
