"""Verdicts: three outcomes, decided by the interval; how many people would be needed; simulations of both."""

from __future__ import annotations

import numpy as np
import pytest

from voiceveil.core.errors import InputError
from voiceveil.metrics.legal import Floats, speaker_interval
from voiceveil.risk.verdicts import (
    MARGIN,
    CriterionVerdict,
    LimitVerdict,
    Outcome,
    decide,
    needed_speakers,
    overall_outcome,
    parse_rate,
)
from voiceveil.risk.wording import criterion_answer, limit_sentence, needed_sentence


def rates(rng: np.random.Generator, rate: float, people: int) -> Floats:
    """Draw the rate of each person in 400 assessments, (people, 400); people differ, and are attacked five times."""
    own = rng.beta(8 * rate, 8 * (1 - rate), size=(people, 400))
    return np.asarray(rng.binomial(5, own) / 5)


def outcomes(rate: float, people: int, limit: float) -> dict[Outcome, float]:
    """Return the share of each outcome over assessments of different people with the same true rate."""
    components = rates(np.random.default_rng(7), rate, people)
    intervals = speaker_interval(components, [str(number) for number in range(people)], seed=1)
    results = [decide(low, high, limit, limit) for low, high in intervals.tolist()]
    return {name: results.count(name) / len(results) for name in ("found", "not found", "cannot be said")}


@pytest.mark.parametrize(("rate", "people"), [(0.1, 20), (0.1, 80), (0.3, 40)])
def test_a_rate_at_the_limit_is_rarely_decided(rate: float, people: int) -> None:
    shares = outcomes(rate, people, limit=rate)
    assert shares["found"] <= 0.06
    assert shares["not found"] <= 0.06
    assert shares["cannot be said"] >= 0.9


def test_more_people_decide_what_few_cannot() -> None:
    few, many = (outcomes(0.1, people, limit=0.2) for people in (10, 160))
    assert few["cannot be said"] > 0.4
    assert many["not found"] > 0.95
    assert few["found"] < 0.02
    above = outcomes(0.4, 160, limit=0.2)
    assert above["found"] > 0.99


@pytest.mark.parametrize(("rate", "limit"), [(0.1, 0.2), (0.3, 0.2), (0.9, 0.8)])
def test_the_needed_number_of_people_decides_in_most_cases(rate: float, limit: float) -> None:
    """An assessment of 12 people asks for more; so many decide in about 8 of 10 cases, half as many do not."""
    components = rates(np.random.default_rng(3), rate, 12)
    measured = components.mean(axis=0)
    intervals = speaker_interval(components, list("abcdefghijkl"), seed=2)
    near = np.abs(measured - rate) < 0.02  # the number assumes that the measured rate is the true one
    asked = [needed_speakers(rate, (low, high), 12, limit) for low, high in intervals[near].tolist()]
    people = int(np.median([number for number in asked if number is not None]))
    side: Outcome = "not found" if rate < limit else "found"
    assert people > 12
    assert 0.6 < outcomes(rate, people, limit)[side] < 0.97
    assert outcomes(rate, people // 4, limit)[side] < 0.6


def test_nobody_found_needs_as_many_people_as_wilsons_interval_says() -> None:
    assert needed_speakers(0.0, (0.0, 0.28), 10, 0.05) == 73  # 0 of 73: [0, 5.0%]
    assert needed_speakers(0.05, (0.0, 0.2), 20, 0.05) is None  # on the border: no number settles it
    assert needed_speakers(0.0, (0.0, 0.28), 10, 0.0) is None


def limit_verdict(value: float, low: float, high: float, *, limit: float, chance: float = 0.05) -> LimitVerdict:
    return LimitVerdict("linkability", value, low, high, chance, "informed", 1, 20, 20, limit)


def test_sentences_say_outcome_and_need() -> None:
    kept, exceeded = (limit_verdict(*rate, limit=0.2) for rate in ((0.05, 0.01, 0.15), (0.5, 0.3, 0.7)))
    assert (kept.kept, kept.exceeded, kept.needed) == (True, False, None)
    assert (exceeded.kept, exceeded.exceeded, exceeded.needed) == (False, True, None)
    assert limit_sentence(kept, judged=True).startswith("limit kept: linkability 5.0% [1.0%, 15.0%], allowed 20.0%")
    assert "NOT JUDGED" in limit_sentence(kept, judged=False)
    open_ = limit_verdict(0.1, 0.01, 0.35, limit=0.2)
    assert "CANNOT BE SAID" in limit_sentence(open_, judged=True)
    assert f"about {open_.needed:,} would be needed" in needed_sentence(open_)


def test_limits_below_chance_are_named() -> None:
    verdict = limit_verdict(0.05, 0.0, 0.2, limit=0.01)
    assert verdict.below_chance
    assert verdict.needed == 200
    sentence = limit_sentence(verdict, judged=True)
    assert "The limit is below chance: among 20 people guessing alone succeeds in 5.0%" in sentence
    assert "At least 200 people would be needed." in sentence
    assert not limit_verdict(0.05, 0.0, 0.2, limit=0.05).below_chance


def test_criteria_are_judged_against_guessing() -> None:
    def criterion(low: float, high: float) -> CriterionVerdict:
        return CriterionVerdict("linkability", (low + high) / 2, low, high, 0.05, "informed", 1, 20, 20)

    assert criterion(0.06, 0.3).outcome == "found"
    assert criterion(0.0, 0.05 + MARGIN).outcome == "not found"
    few = criterion(0.0, 0.3)
    assert few.outcome == "cannot be said"
    assert criterion_answer(few) == "Cannot be said with so few people (20)"


def test_overall_verdict_is_the_worst() -> None:
    assert overall_outcome(["not found", "found", "cannot be said"]) == "found"
    assert overall_outcome(["not found", "cannot be said"]) == "cannot be said"
    assert overall_outcome(["not found", "not found"]) == "not found"
    assert overall_outcome([]) == "cannot be said"


def test_rates_are_read_in_percent() -> None:
    assert parse_rate("5%", "--max-linkability") == parse_rate("0.05", "--max-linkability") == 0.05
    assert parse_rate(" 12.5 %", "x") == 0.125
    with pytest.raises(InputError, match=r"--max-linkability 5 is not a rate \(did you mean 5%\?\)"):
        parse_rate("5", "--max-linkability")
    for text in ("five", "-1", "nan", "200%", ""):
        with pytest.raises(InputError, match="give a fraction such as"):
            parse_rate(text, "--max-linkability")
