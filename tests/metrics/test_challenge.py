"""Averages and rankings: the published summaries of 2022 and 2024, reproduced from their parts."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.paths import GOLDEN
from voiceveil import InputError
from voiceveil.evaluation.protocol import load_protocol
from voiceveil.evaluation.ranking import ranking_rules
from voiceveil.metrics.challenge import Entry, average, condition, rank

VPC2022, VPC2024 = load_protocol("vpc2022"), load_protocol("vpc2024")
MINIMA_2022, MINIMA_2024 = (ranking_rules(protocol).minimum_eer for protocol in (VPC2022, VPC2024))

# 2022 summary of B2 (McAdams), test set, anonymized: EERs in percent and their published average.
B2_EER = {
    "libri_test f": 7.117,
    "libri_test m": 1.114,
    "vctk_test f": 16.92,
    "vctk_test m": 7.692,
    "vctk_test common f": 10.98,
    "vctk_test common m": 4.802,
}
# 2024 baselines on the test set: EER female, EER male, WER, UAR, in percent.
BASELINES_2024 = {
    "b1": (7.474, 4.675, 2.911, 42.7792),
    "b2": (7.483, 1.557, 9.954, 53.4914),
    "b3": (27.92, 26.724, 4.352, 37.5698),
    "b4": (29.378, 31.155, 5.899, 42.78),
    "b5": (33.946, 34.729, 4.369, 38.166),
    "b6": (21.146, 21.137, 9.092, 36.1314),
}


def test_average_of_2022_equals_the_published_one() -> None:
    assert round(average(B2_EER, VPC2022.weights("eer", "test")), 3) == 7.769
    assert round(average({"libri_dev": 4.32, "vctk_dev": 11.76}, VPC2022.weights("wer", "dev")), 3) == 8.040
    assert sorted(VPC2022.weights("eer", "test").values()) == [0.05, 0.05, 0.2, 0.2, 0.25, 0.25]


@pytest.mark.parametrize("metric", ["eer", "wer", "pitch_correlation", "gvd"])
def test_weights_sum_to_one(metric: Any) -> None:
    assert sum(VPC2022.weights(metric, "dev").values()) == pytest.approx(1.0)
    assert all("_dev" in dataset for dataset in VPC2022.weights(metric, "dev"))


def figures_2024() -> tuple[dict[str, float], dict[str, float], dict[str, float]]:
    eers = {
        name: average({"libri_test f": f / 100, "libri_test m": m / 100}, VPC2024.weights("eer", "test"))
        for name, (f, m, _, _) in BASELINES_2024.items()
    }
    wers = {
        name: average({"libri_test": w / 100}, VPC2024.weights("wer", "test"))
        for name, (_, _, w, _) in BASELINES_2024.items()
    }
    uars = {
        name: average({"IEMOCAP_test": u / 100}, VPC2024.weights("uar", "test"))
        for name, (_, _, _, u) in BASELINES_2024.items()
    }
    return eers, wers, uars


def test_averages_of_2024_equal_the_published_ones() -> None:
    eers, _, _ = figures_2024()
    published = {"b1": 6.07, "b2": 4.52, "b3": 27.32, "b4": 30.27, "b5": 34.34, "b6": 21.14}
    assert {name: round(100 * eer, 2) for name, eer in eers.items()} == published


def test_baselines_of_2024_are_in_their_conditions() -> None:
    eers, wers, uars = figures_2024()
    by_wer = rank(eers, wers, MINIMA_2024)
    assert {c: [entry.system for entry in entries] for c, entries in by_wer.items()} == {
        0.10: [],
        0.20: ["b3", "b6"],
        0.30: ["b5", "b4"],
        0.40: [],
    }
    by_uar = rank(eers, uars, MINIMA_2024, better="higher", membership="minimum")
    assert [entry.system for entry in by_uar[0.10]] == ["b4", "b5", "b3", "b6"]
    assert [entry.place for entry in by_uar[0.10]] == [1, 2, 3, 4]
    assert [entry.system for entry in by_uar[0.30]] == ["b4", "b5"]


def test_intervals_contain_their_lower_end_and_minimums_must_be_exceeded() -> None:
    """An interval contains its lower end; a minimum must be exceeded."""
    assert condition(0.15, MINIMA_2022) == 0.15
    assert condition(0.1499, MINIMA_2022) is None
    assert condition(1.0, MINIMA_2022) == 0.30
    at_border = {"s": 0.20}
    assert rank(at_border, {"s": 0.1}, MINIMA_2024)[0.20] == (Entry(1, "s", 0.1),)
    assert rank(at_border, {"s": 0.1}, MINIMA_2024, membership="minimum")[0.20] == ()


def test_equal_figures_share_a_rank() -> None:
    table = rank({"a": 0.25, "b": 0.25, "c": 0.25}, {"b": 0.05, "a": 0.05, "c": 0.06}, MINIMA_2024)
    assert [(entry.place, entry.system) for entry in table[0.20]] == [(1, "a"), (1, "b"), (3, "c")]


systems = st.dictionaries(st.sampled_from("abcdef"), st.tuples(st.floats(0, 0.6), st.floats(0, 1)), max_size=6)


@settings(deadline=None)
@given(systems, st.sampled_from([MINIMA_2022, MINIMA_2024]), st.sampled_from(["lower", "higher"]))
def test_ranks_equal_plain_counting(
    figures: dict[str, tuple[float, float]], minima: tuple[float, ...], better: Literal["lower", "higher"]
) -> None:
    eers, utility = ({name: figure[k] for name, figure in figures.items()} for k in (0, 1))
    edges = [*minima, 2.0]
    ranked = rank(eers, utility, minima, better=better)
    for (minimum, entries), upper in zip(ranked.items(), edges[1:], strict=True):
        members = [name for name, eer in eers.items() if minimum <= eer < upper]
        assert sorted(entry.system for entry in entries) == sorted(members)
        for entry in entries:
            ahead = [
                m for m in members if (utility[m] > entry.value if better == "higher" else utility[m] < entry.value)
            ]
            assert entry.place == 1 + len(ahead)
    assert rank(dict(reversed(eers.items())), utility, minima, better=better) == ranked


@pytest.mark.parametrize(
    "call",
    [
        lambda: average({"libri_test f": 0.1}, VPC2024.weights("eer", "test")),
        lambda: average({}, {}),
        lambda: VPC2022.weights("uar", "test"),
        lambda: VPC2024.weights("eer", "train"),
        lambda: VPC2024.weights("mos", "test"),
        lambda: rank({"a": 0.1}, {}, MINIMA_2024),
        lambda: rank({"a": float("nan")}, {"a": 0.1}, MINIMA_2024),
        lambda: rank({}, {}, MINIMA_2024, better="wer"),  # type: ignore[arg-type]
    ],
)
def test_invalid_input_is_rejected(call: Callable[[], object]) -> None:
    with pytest.raises(InputError):
        call()


def trial_sets(split: str) -> dict[str, str]:
    """Name in the weights -> trial set."""
    parts = [part for part in VPC2022.verification if part.split == split]
    return {
        " ".join(filter(None, [part.dataset, part.subset, trials.gender])): trials.set
        for part in parts
        for trials in part.trials
    }


def test_every_published_2022_average() -> None:
    """60 averages of five systems: EER orig and anon, WER orig and anon, ρ and G_VD, dev and test."""
    published = json.loads((GOLDEN / "published.json").read_text())["vpc2022"]
    checked = 0
    for summary in published.values():
        for split in ("dev", "test"):
            trials = trial_sets(split)
            words = {f"{corpus}_{split}": f"{corpus}_{split}_asr" for corpus in ("libri", "vctk")}
            for kind, suffix in (("orig", ""), ("anon", "_anon")):
                eers = {
                    name: summary[f"EER {name.split('_')[0]}_{split}_enrolls{suffix}-{trial_set}{suffix}"]
                    for name, trial_set in trials.items()
                }
                wers = {name: summary[f"WER {asr_set}{suffix}"]["wer"] for name, asr_set in words.items()}
                expected = summary[f"Weighted average EER {split} {kind}"], summary[f"Average WER {split} {kind}"]
                averages = average(eers, VPC2022.weights("eer", split)), average(wers, VPC2022.weights("wer", split))
                assert averages == pytest.approx(expected, abs=5.001e-4)
                checked += 2
            rho = {name: summary[f"rho {trial_set}"][0] for name, trial_set in trials.items()}
            gvd = {name: summary[f"GVD {trial_set}"] for name, trial_set in trials.items()}
            expected = (
                summary[f"Weighted average pitch correlation {split}"],
                summary[f"Weighted average gain of voice distinctiveness {split}"],
            )
            weights = VPC2022.weights("pitch_correlation", split)
            averages = average(rho, weights), average(gvd, VPC2022.weights("gvd", split))
            assert averages == pytest.approx(expected, abs=5.001e-4)
            checked += 2
    assert checked == 60


def test_every_published_2024_system_has_a_rank() -> None:
    published = json.loads((GOLDEN / "published.json").read_text())["vpc2024"]
    eers = {
        name: average(
            {
                f"libri_test {gender}": figures["EER"][f"semi-informed/libri_test_{gender}:anon-anon"] / 100
                for gender in "fm"
            },
            VPC2024.weights("eer", "test"),
        )
        for name, figures in published.items()
    }
    wers = {name: figures["WER"]["libri_test_anon"] / 100 for name, figures in published.items()}
    table = rank(eers, wers, MINIMA_2024)
    assert [e.system for e in table[0.30]] == ["asrbn_hifigan_bn_tdnnf_wav2vec2_vq_48_v1", "nac"]
    assert [e.system for e in table[0.20]] == ["sttts_sarina", "sttts", "asrbn_hifigan_bn_tdnnf_600h_vq_48_v1"]
