"""The protocols of the challenges, as data: complete, consistent, and equal to the plans' tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.official_lists import write_official_sets
from voiceveil.core.errors import InputError
from voiceveil.corpus import open_corpus
from voiceveil.evaluation.protocol import load_protocol


@pytest.mark.parametrize("name", ["vpc2020", "vpc2022", "vpc2024"])
def test_set_sizes_equal_the_evaluation_plans(name: str) -> None:
    """Same- and different-speaker pairs, both genders: Table 4 of 2024, Table 3 of 2022."""
    totals = {
        (v.dataset, v.subset): tuple(sum(getattr(t, kind) for t in v.trials) for kind in ("target", "nontarget"))
        for v in load_protocol(name).verification
    }
    assert totals["libri_dev", ""] == (1348, 27362)
    assert totals["libri_test", ""] == (997, 20653)
    if name != "vpc2024":
        assert totals["vctk_dev", ""] == (3796, 26204)
        assert totals["vctk_dev", "common"] == (695, 9721)
        assert totals["vctk_test", ""] == (3686, 26314)
        assert totals["vctk_test", "common"] == (700, 9790)


def test_edition_2024_anonymizes_nine_sets_on_the_utterance_level() -> None:
    protocol = load_protocol("vpc2024")
    assert len(protocol.roles()) == 9
    assert {protocol.level(role) for role in protocol.roles().values()} == {"utterance"}


def test_edition_2022_has_speaker_and_utterance_levels() -> None:
    protocol = load_protocol("vpc2022")
    roles = protocol.roles()
    assert protocol.level(roles["libri_test_enrolls"]) == protocol.level(roles["vctk_dev_trials_f"]) == "speaker"
    assert protocol.level(roles["train-clean-360-asv"]) == "utterance"
    assert protocol.ranking is not None
    assert protocol.ranking.minimum_pitch_correlation == 0.3


def test_unknown_protocol_is_rejected() -> None:
    with pytest.raises(InputError, match="did you mean vpc2024"):
        load_protocol("vpc204")


def test_own_protocol_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        'name = "mine"\ntitle = "Mine"\nmetrics = ["eer"]\nlevels = { enroll = "utterance", trial = "utterance" }\n'
        'conditions = ["oo"]\nscoring = "cosine"\n[[verification]]\n'
        'dataset = "d"\nsplit = "dev"\nenroll = "d_enrolls"\ntrials = [{ set = "d_trials_f", gender = "f" }]\n'
    )
    assert load_protocol(path).roles() == {"d_enrolls": "enroll", "d_trials_f": "trial"}
    path.write_text("name = 3\n[[verification]]\n")
    with pytest.raises(InputError, match="name is 3, but must be text"):
        load_protocol(path)


@pytest.mark.parametrize("name", ["libri_dev", "libri_test"])
def test_official_lists_have_the_counts_of_the_evaluation_plan(name: str, tmp_path: Path) -> None:
    write_official_sets(tmp_path, name)
    (dataset,) = (v for v in load_protocol("vpc2024").verification if v.dataset == name)
    assert len(open_corpus(tmp_path / dataset.enroll)) == dataset.enroll_utterances
    utterances = 0
    for trials in dataset.trials:
        corpus = open_corpus(tmp_path / trials.set)
        utterances += len(corpus)
        assert corpus.trials is not None
        assert int(corpus.trials.target.sum()) == trials.target
        assert int((~corpus.trials.target).sum()) == trials.nontarget
    assert utterances == dataset.trial_utterances


@pytest.mark.parametrize(("code", "speakers"), [("en", 42), ("de", 30), ("es", 20), ("fr", 18)])
def test_track_2_of_2026_has_full_products_of_trials(code: str, speakers: int) -> None:
    """Enrollment is 15 % of each speaker's utterances, rounded up; every speaker meets every trial utterance."""
    protocol = load_protocol(f"vpc2026-{code}")
    for part in protocol.verification:
        (trials,) = part.trials
        assert part.trial_utterances is not None
        assert part.enroll_utterances is not None
        assert (trials.target, trials.nontarget) == (part.trial_utterances, part.trial_utterances * (speakers - 1))
        assert sum(part.enroll_speakers.values()) == trials.speakers == speakers
        total = part.trial_utterances + part.enroll_utterances
        assert 0 <= part.enroll_utterances - 0.15 * total < speakers
