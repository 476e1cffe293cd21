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
from voiceveil.metrics.challenge import CONDITIONS, Entry, average, condition, rank, weights

# 2022 summary of B2 (McAdams), test set, anonymized: EERs in percent and their published average.
B2_EER = {
    "libri_test_trials_f": 7.117,
    "libri_test_trials_m": 1.114,
    "vctk_test_trials_f": 16.92,
    "vctk_test_trials_m": 7.692,
    "vctk_test_trials_f_common": 10.98,
    "vctk_test_trials_m_common": 4.802,
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
Edition = Literal[2022, 2024]


def test_average_of_2022_equals_the_published_one() -> None:
    assert round(average(B2_EER, 2022, "eer"), 3) == 7.769
    assert round(average({"libri_dev_asr": 4.32, "vctk_dev_asr": 11.76}, 2022, "wer", "dev"), 3) == 8.040
    assert sorted(weights(2022, "eer").values()) == [0.05, 0.05, 0.2, 0.2, 0.25, 0.25]


@pytest.mark.parametrize("metric", ["eer", "wer", "pitch_correlation", "gvd"])
def test_weights_sum_to_one(metric: Any) -> None:
    assert sum(weights(2022, metric, "dev").values()) == pytest.approx(1.0)
    assert all("_dev_" in dataset for dataset in weights(2022, metric, "dev"))


def figures_2024() -> tuple[dict[str, float], dict[str, float], dict[str, float]]:
    eers = {
        name: average({"libri_test_trials_f": f / 100, "libri_test_trials_m": m / 100}, 2024, "eer")
        for name, (f, m, _, _) in BASELINES_2024.items()
    }
    wers = {name: average({"libri_test_asr": w / 100}, 2024, "wer") for name, (_, _, w, _) in BASELINES_2024.items()}
    uars = {name: average({"IEMOCAP_test": u / 100}, 2024, "uar") for name, (_, _, _, u) in BASELINES_2024.items()}
    return eers, wers, uars


def test_averages_of_2024_equal_the_published_ones() -> None:
    eers, _, _ = figures_2024()
    published = {"b1": 6.07, "b2": 4.52, "b3": 27.32, "b4": 30.27, "b5": 34.34, "b6": 21.14}
    assert {name: round(100 * eer, 2) for name, eer in eers.items()} == published


def test_baselines_of_2024_are_in_their_conditions() -> None:
    eers, wers, uars = figures_2024()
    by_wer = rank(eers, wers, 2024)
    assert {c: [entry.system for entry in entries] for c, entries in by_wer.items()} == {
        0.10: [],
        0.20: ["b3", "b6"],
        0.30: ["b5", "b4"],
        0.40: [],
    }
    by_uar = rank(eers, uars, 2024, by="uar", membership="minimum")
    assert [entry.system for entry in by_uar[0.10]] == ["b4", "b5", "b3", "b6"]
    assert [entry.place for entry in by_uar[0.10]] == [1, 2, 3, 4]
    assert [entry.system for entry in by_uar[0.30]] == ["b4", "b5"]


def test_intervals_contain_their_lower_end_and_minimums_must_be_exceeded() -> None:
    """An interval contains its lower end; a minimum must be exceeded."""
    assert condition(0.15, 2022) == 0.15
    assert condition(0.1499, 2022) is None
    assert condition(1.0, 2022) == 0.30
    at_border = {"s": 0.20}
    assert rank(at_border, {"s": 0.1}, 2024)[0.20] == (Entry(1, "s", 0.1),)
    assert rank(at_border, {"s": 0.1}, 2024, membership="minimum")[0.20] == ()


def test_equal_figures_share_a_rank() -> None:
    table = rank({"a": 0.25, "b": 0.25, "c": 0.25}, {"b": 0.05, "a": 0.05, "c": 0.06}, 2024)
    assert [(entry.place, entry.system) for entry in table[0.20]] == [(1, "a"), (1, "b"), (3, "c")]


def test_ranking_of_2022_requires_a_pitch_correlation() -> None:
    eers, wers = {"a": 0.16, "b": 0.17}, {"a": 0.05, "b": 0.06}
    rho = {"a": {"libri_test_trials_f": 0.5, "vctk_test_trials_m": 0.3}, "b": {"libri_test_trials_f": 0.31}}
    assert [entry.system for entry in rank(eers, wers, 2022, pitch_correlations=rho)[0.15]] == ["b"]
    assert [entry.system for entry in rank(eers, wers, 2022)[0.15]] == ["a", "b"]


systems = st.dictionaries(st.sampled_from("abcdef"), st.tuples(st.floats(0, 0.6), st.floats(0, 1)), max_size=6)


@settings(deadline=None)
@given(systems, st.sampled_from([2022, 2024]), st.sampled_from(["wer", "uar"]))
def test_ranks_equal_plain_counting(figures: dict[str, tuple[float, float]], edition: Edition, by: Any) -> None:
    eers, utility = ({name: figure[k] for name, figure in figures.items()} for k in (0, 1))
    edges = [*CONDITIONS[edition], 2.0]
    for (minimum, entries), upper in zip(rank(eers, utility, edition, by=by).items(), edges[1:], strict=True):
        members = [name for name, eer in eers.items() if minimum <= eer < upper]
        assert sorted(entry.system for entry in entries) == sorted(members)
        for entry in entries:
            better = [m for m in members if (utility[m] > entry.value if by == "uar" else utility[m] < entry.value)]
            assert entry.place == 1 + len(better)
    reversed_order = rank(dict(reversed(eers.items())), utility, edition, by=by)
    assert reversed_order == rank(eers, utility, edition, by=by)


@pytest.mark.parametrize(
    "call",
    [
        lambda: average({"libri_test_trials_f": 0.1}, 2024, "eer"),
        lambda: average({}, 2022, "uar"),
        lambda: weights(2020, "eer"),  # type: ignore[arg-type]
        lambda: weights(2024, "eer", "train"),  # type: ignore[arg-type]
        lambda: condition(0.1, 2020),  # type: ignore[arg-type]
        lambda: rank({"a": 0.1}, {}, 2024),
        lambda: rank({"a": float("nan")}, {"a": 0.1}, 2024),
        lambda: rank({}, {}, 2024, by="mos"),  # type: ignore[arg-type]
    ],
)
def test_invalid_input_is_rejected(call: Callable[[], object]) -> None:
    with pytest.raises(InputError):
        call()


def test_every_published_2022_average() -> None:
    """60 averages of five systems: EER orig and anon, WER orig and anon, ρ and G_VD, dev and test."""
    published = json.loads((GOLDEN / "published.json").read_text())["vpc2022"]
    checked = 0
    for summary in published.values():
        for split in ("dev", "test"):
            for kind, suffix in (("orig", ""), ("anon", "_anon")):
                eers = {
                    dataset: summary[f"EER {dataset.split('_')[0]}_{split}_enrolls{suffix}-{dataset}{suffix}"]
                    for dataset in weights(2022, "eer", split)
                }
                wers = {dataset: summary[f"WER {dataset}{suffix}"]["wer"] for dataset in weights(2022, "wer", split)}
                expected = summary[f"Weighted average EER {split} {kind}"], summary[f"Average WER {split} {kind}"]
                found = average(eers, 2022, "eer", split), average(wers, 2022, "wer", split)
                assert found == pytest.approx(expected, abs=5.001e-4)
                checked += 2
            rho = {name: summary[f"rho {name}"][0] for name in weights(2022, "pitch_correlation", split)}
            gvd = {name: summary[f"GVD {name}"] for name in weights(2022, "gvd", split)}
            expected = (
                summary[f"Weighted average pitch correlation {split}"],
                summary[f"Weighted average gain of voice distinctiveness {split}"],
            )
            found = average(rho, 2022, "pitch_correlation", split), average(gvd, 2022, "gvd", split)
            assert found == pytest.approx(expected, abs=5.001e-4)
            checked += 2
    assert checked == 60


def test_every_published_2024_system_has_a_rank() -> None:
    published = json.loads((GOLDEN / "published.json").read_text())["vpc2024"]
    eers = {
        name: average(
            {
                f"libri_test_trials_{gender}": figures["EER"][f"semi-informed/libri_test_{gender}:anon-anon"] / 100
                for gender in "fm"
            },
            2024,
            "eer",
        )
        for name, figures in published.items()
    }
    wers = {name: figures["WER"]["libri_test_anon"] / 100 for name, figures in published.items()}
    table = rank(eers, wers, 2024)
    assert [e.system for e in table[0.30]] == ["asrbn_hifigan_bn_tdnnf_wav2vec2_vq_48_v1", "nac"]
    assert [e.system for e in table[0.20]] == ["sttts_sarina", "sttts", "asrbn_hifigan_bn_tdnnf_600h_vq_48_v1"]
