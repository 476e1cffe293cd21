"""Track 2 of the 2026 challenge: whatever sets of a language the user has are evaluated."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import voiceveil as vv
from tests.support.evaluations import settings_for
from tests.support.small_challenge import ATTACKERS, make_challenge, make_mixed
from voiceveil.corpus import open_corpus, write_kaldi
from voiceveil.evaluation.evaluate import evaluate, prepare

pytestmark = pytest.mark.slow  # it anonymizes and attacks


def test_sets_of_one_language_are_evaluated(tmp_path: Path) -> None:
    """Mixed trials with one EER, words by the recognizer that is named; what is missing is said."""
    small, data = make_challenge(tmp_path / "small", only=("dev", "emotion")), tmp_path / "data"
    make_mixed(small, "dev")
    for part in ("enrolls", "trials_mixed"):
        corpus = open_corpus(small / f"libri_dev_{part}")
        write_kaldi(replace(corpus, name=f"de_dev_{part}"), data / f"de_dev_{part}")
    settings = settings_for(data, tmp_path / "out", "vpc2026-de", attackers=ATTACKERS, recognizers=["counter"], seed=1)
    results = evaluate(prepare(settings, system=vv.system("b2")))
    assert {(f.dataset, f.gender) for f in results.find("eer")} == {("de_dev", "")}
    assert {(f.dataset, f.condition) for f in results.find("wer")} == {("de_dev", "o"), ("de_dev", "a")}
    assert {"missing: de_test_enrolls", "missing: train_german", "missing: emodata_track2_dev"} <= set(
        results.info["notes"]
    )
