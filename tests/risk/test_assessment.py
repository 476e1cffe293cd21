"""The assessment, its limits and warnings, inference, extrapolation, the command and the page."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from voiceveil.cli.main import main
from voiceveil.core.errors import InputError
from voiceveil.metrics.legal import UtteranceEmbeddings
from voiceveil.report.risk import render
from voiceveil.risk import Assessment, AttackPart, RiskAttack, RiskLimits, RiskPlan, assess
from voiceveil.risk.curves import measure_linking
from voiceveil.risk.extrapolation import extrapolate_length, extrapolate_speakers
from voiceveil.risk.inference import infer
from voiceveil.testing.embeddings import EmbeddingWorld

WORLD = EmbeddingWorld(speakers=80, speakers_b=40, utterances=80 * 10, utterances_b=40 * 32, dimension=16)
PLAN = RiskPlan(lengths=(1, 3), enrolled=20, draws=1)


def attack(name: str, strength: float, shift: float = 0.0) -> RiskAttack:
    """UtteranceEmbeddings whose first dimension tells the gender, if ``shift`` says so."""
    a, b = WORLD.draw(strength)
    gender = np.where(a.codes % 2 == 0, "f", "m")
    matrix = a.matrix.copy()
    matrix[:, 0] += shift * np.where(gender == "f", 1, -1)
    return RiskAttack(name, (AttackPart(UtteranceEmbeddings(a.names, a.codes, matrix), b),), {"gender": gender})


@pytest.fixture(scope="module")
def found() -> Assessment:
    attacks = [attack("original", 1.5), attack("ignorant", 0.0), attack("informed", 0.8)]
    return assess(attacks, PLAN, limits=RiskLimits(linkability=0.05))


def test_every_point_has_an_interval_and_a_chance(found: Assessment) -> None:
    assert {(c.attacker, c.metric, c.length) for c in found.curves} == {
        (attacker, metric, length)
        for attacker in ("original", "ignorant", "informed")
        for metric in ("singling_out", "linkability", "one_minus_eer")
        for length in (1, 3)
    }
    for curve in found.curves:
        assert (curve.low <= curve.value).all()
        assert (curve.value <= curve.high).all()
        assert len(curve.chance) == len(curve.sizes) >= 1


def test_weak_attackers_give_warnings(found: Assessment) -> None:
    assert any(line.startswith("The ignorant attacker is no better than guessing in: ") for line in found.warnings)
    assert not any("original attacker is no better than guessing in: Linkability" in line for line in found.warnings)
    alone = assess([attack("ignorant", 0.5)], PLAN)
    assert any(line.startswith("No informed attacker was tried") for line in alone.warnings)
    weak = assess([attack("original", 0.05), attack("informed", 0.05)], PLAN)
    assert any(line.startswith("Even on original speech (L = 1)") for line in weak.warnings)


def test_limits_apply_to_the_strongest_attacker_on_protected_speech(found: Assessment) -> None:
    (verdict,) = found.verdicts
    assert (verdict.attacker, verdict.exceeded, found.exceeded) == ("informed", True, True)
    assert verdict.high >= verdict.value > 0.05
    kept = assess([attack("informed", 0.8)], PLAN, limits=RiskLimits(linkability=1.0, singling_out=1.0, inference=1.0))
    assert not kept.exceeded
    assert [one.criterion for one in kept.verdicts] == ["linkability", "singling_out", "inference of gender"]
    with pytest.raises(InputError, match="no protected attacker to judge"):
        assess([attack("original", 0.8)], PLAN, limits=RiskLimits(linkability=0.5))
    with pytest.raises(InputError, match="the limit for linkability is 5, but must be from 0 to 1"):
        RiskLimits(linkability=5)


def test_result_does_not_depend_on_the_number_of_threads(found: Assessment) -> None:
    attacks = [attack("original", 1.5), attack("ignorant", 0.0), attack("informed", 0.8)]
    again = assess(attacks, PLAN, limits=RiskLimits(linkability=0.05), jobs=3)
    assert again.as_dict() == found.as_dict()


def test_worst_protected_speakers_come_first(found: Assessment) -> None:
    rates = [one.linkability for one in found.worst]
    assert rates == sorted(rates, reverse=True)
    curve = found.strongest("linkability")
    assert curve is not None
    assert curve.components is not None
    assert rates[0] == curve.components[:, -1].max()
    assert {one.attacker for one in found.worst} == {"informed"}


def test_attackers_must_have_the_same_speakers() -> None:
    one, other = attack("original", 1.0), attack("informed", 1.0)
    a = other.parts[0].a
    fewer = UtteranceEmbeddings(a.names[:-1], a.codes[a.codes < 79], a.matrix[a.codes < 79])
    with pytest.raises(InputError, match="speaker speaker000079 is in A of the attacker original but not of informed"):
        assess([one, RiskAttack("informed", (AttackPart(fewer, other.parts[0].b),))], PLAN)
    with pytest.raises(InputError, match="there twice"):
        assess([one, one], PLAN)


def test_attribute_in_the_embeddings_is_inferred() -> None:
    told = infer(attack("informed", 0.5, shift=1.0), "gender", 1)
    hidden = infer(attack("informed", 0.5), "gender", 1)
    assert told is not None
    assert hidden is not None
    assert told.value > 0.9
    assert told.low > told.baseline == 0.5
    assert abs(told.control - 0.5) < 0.12
    assert hidden.low < 0.6


def test_unusable_labels_give_no_inference() -> None:
    one = attack("informed", 0.5)
    n = len(one.parts[0].a.codes)
    rare = np.where(one.parts[0].a.codes < 3, "x", "y")
    emotions = np.where(np.arange(n) % 2 == 0, "sad", "hap")
    other = RiskAttack("informed", one.parts, {"rare": rare, "emotion": emotions, "none": np.full(n, "")})
    assert infer(other, "rare", 1) is None  # three speakers are people, not a class
    assert infer(other, "none", 1) is None
    assert infer(other, "emotion", 3) is None  # it changes from utterance to utterance
    assert infer(other, "emotion", 1) is not None


def test_extrapolation_over_speakers_covers_known_values() -> None:
    """The line through N' up to 200 holds what 400, 800 and 2,000 speakers really give."""
    world = EmbeddingWorld(speakers=2000, speakers_b=400, utterances=2000 * 6, utterances_b=400 * 30, dimension=48)
    a, b = world.draw(0.6)
    linked = measure_linking(RiskAttack("informed", (AttackPart(a, b),)), RiskPlan(lengths=(1,), draws=2), 1)[0]
    few = measure_linking(
        RiskAttack("informed", (AttackPart(a, b),)), RiskPlan(lengths=(1,), sizes=(25, 50, 100, 200), draws=2), 1
    )[0]
    told = {one.speakers: one for one in extrapolate_speakers(few)}
    true = measure_linking(
        RiskAttack("informed", (AttackPart(a, b),)), RiskPlan(lengths=(1,), sizes=(400, 800, 2000), draws=2), 1
    )[0]
    for size, value in zip(true.sizes, true.value, strict=True):
        assert told[size].low <= value <= told[size].high
        assert told[size].as_dict()["extrapolated"] is True
    widths = [told[size].high - told[size].low for size in (400, 800, 2000)]
    assert widths[0] < widths[2]
    assert extrapolate_length([linked]) == []
    everybody = replace(few, value=np.ones(4), components=np.ones((400, 4)))
    assert extrapolate_speakers(everybody) == []  # no trend and no error is no certainty


@pytest.mark.parametrize("strength", [0.2, 0.35])
def test_extrapolation_over_length_covers_known_values(strength: float) -> None:
    """The line through conversations of 1, 2 and 3 utterances holds what 6, 12 and 30 really give."""
    world = EmbeddingWorld(speakers=300, speakers_b=300, utterances=300 * 60, utterances_b=300 * 30, dimension=48)
    a, b = world.draw(strength)
    one = RiskAttack("informed", (AttackPart(a, b),))
    plan = RiskPlan(lengths=(1, 2, 3, 6, 12, 30), sizes=(75, 300), draws=2)
    short, true = ([measure_linking(one, plan, length)[0] for length in some] for some in ((1, 2, 3), (6, 12, 30)))
    told = {known.length: known for known in extrapolate_length(short)}
    for curve in true:
        assert told[curve.length].low <= curve.value[-1] <= told[curve.length].high
        assert told[curve.length].speakers == 300
    assert told[6].high - told[6].low < 0.35  # it does not hold everything
    assert told[6].low > short[-1].value[-1]


def test_page_has_all_three_criteria_and_no_scripts(found: Assessment) -> None:
    page = render(found)
    for words in (
        "it does not replace one.",
        "Opinion 05/2014",
        "Singling Out: Can one person",
        "Linkability: Can two recordings",
        "Inference: Can something",
        "✖ exceeded",
        "extrapolated",
        "Linguistic content: not covered",
    ):
        assert words in page
    assert page.count("<svg") >= 6
    assert "<script" not in page
    assert 'http-equiv="Content-Security-Policy"' in page


def test_page_escapes_data() -> None:
    a, b = WORLD.draw(1.0)
    names = ("<script>alert(1)</script>", *a.names[1:])
    evil = RiskAttack(
        "informed",
        (
            AttackPart(
                UtteranceEmbeddings(names, a.codes, a.matrix), UtteranceEmbeddings(names[:40], b.codes, b.matrix)
            ),
        ),
    )
    page = render(replace(assess([evil], PLAN), about={"command": "<img src=x onerror=alert(1)>"}))
    assert "<script>alert" not in page
    assert "<img" not in page
    assert "&lt;script&gt;" in page


def save(folder: Path, name: str, strength: float) -> Path:
    a, b = WORLD.draw(strength)
    data: dict[str, Any] = {"vector": np.concatenate([a.matrix, b.matrix])}
    data["speaker"] = np.array([side.names[code] for side in (a, b) for code in side.codes])
    data["utterance"] = np.array([f"u{number}" for number in range(len(data["speaker"]))])
    data["set"] = np.repeat(["A", "B"], [len(a.codes), len(b.codes)])
    np.savez(folder / name, **data)
    return folder / name


def test_command_writes_report_and_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    informed = save(tmp_path, "informed.npz", 0.8)
    labels = tmp_path / "labels.csv"
    rows = [f"speaker{number:06d},{'young' if number % 2 else 'old'}" for number in range(80)]
    labels.write_text("speaker,age\n" + "\n".join(rows) + "\n")
    options = ["--lengths", "1", "--enrolled", "10", "--draws", "1", "--quiet", "--labels", str(labels)]
    report = tmp_path / "risk.html"
    command = ["risk", "--embeddings", f"informed={informed}", *options]
    assert main([*command, "--report", str(report), "--max-linkability", "0.05"]) == 1
    printed = capsys.readouterr().out
    assert "limit EXCEEDED: linkability" in printed
    assert "inference: age" in printed
    assert "This informs a legal assessment and does not replace one." in printed
    assert report.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert main([*command, "--max-linkability", "1", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["format"] == "voiceveil risk 1"
    assert result["exceeded"] is False
    assert len(result["attackers"]["informed"]["files"]["informed.npz"]) == 64


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ([], "give embeddings, or corpora of audio"),
        (["--embeddings", "infromed=FILE"], "unknown attacker 'infromed'"),
        (["--embeddings", "FILE"], "write ATTACKER=VALUE"),
        (["--embeddings", "informed=FILE", "--lengths", "one"], "--lengths one is not a list of whole numbers"),
        (
            ["--embeddings", "informed=FILE", "--speakers", "500"],
            "a speaker count of 500 is impossible (between 2 and 80",
        ),
        (["--embeddings", "informed=FILE", "--at-length", "7"], "--at-length 7 is not measured"),
        (["--embeddings", "informed=FILE", "--report", "no/such/folder/r.html"], "no such folder"),
        (["--anonymized", "nowhere"], "which utterances are in A and which in B?"),
    ],
)
def test_command_rejects_invalid_arguments(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], what: str
) -> None:
    file = str(save(tmp_path, "e.npz", 0.8))
    assert main(["risk", *(option.replace("FILE", file) for option in options), "--quiet"]) == 1
    assert what in capsys.readouterr().err


def test_labels_are_read_from_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = save(tmp_path, "e.npz", 0.8)
    labels = tmp_path / "labels.csv"
    for text, what in (
        ("age\n1\n", "no column speaker or utterance"),
        ("speaker\nx\n", "no attribute"),
        ("speaker,age\nx\n", "labels.csv:2: not as many fields as the header has"),
    ):
        labels.write_text(text)
        assert main(["risk", "--embeddings", f"informed={file}", "--labels", str(labels), "--quiet"]) == 1
        assert what in capsys.readouterr().err
