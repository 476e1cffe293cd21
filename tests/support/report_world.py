"""A small folder of results with everything that a report shows, written without models."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from voiceveil.audio import save
from voiceveil.evaluation.details import Details, Similarity, UtteranceRecord, write_details
from voiceveil.evaluation.results import Figure, Results
from voiceveil.metrics import ScoredTrials, estimate
from voiceveil.testing import synthetic_voice

SPEAKERS = {"f": ("11", "12", "13", "14"), "m": ("21", "22", "23", "24")}
ATTACKS = {("campplus (unprotected)", "oo"): 6.0, ("campplus (lazy-informed)", "aa"): 1.5,
           ("campplus-adapted (semi-informed)", "aa"): 2.5}  # fmt: skip
HEALTH = {
    "attacker": "campplus-adapted",
    "original_eer": 0.02,
    "control_eer": 0.5,
    "accuracy": 0.4,
    "validation_eer": 0.1,
    "choice": "plda",
    "warnings": ["it identifies only 40.0% of its own utterances"],
}


def make_results(folder: Path, *, protocol: str = "vpc2024", rename: str = "", audio: bool = False) -> Path:
    """Write a folder of results; ``rename`` is put before the name of each speaker, utterance and word."""
    rng = np.random.default_rng(5)
    figures: list[Figure] = []
    utterances, similarity = {}, {}
    for gender, speakers in SPEAKERS.items():
        name = f"libri_dev_trials_{gender}"
        rows = [_record(f"{rename}{s}", f"{rename}{s}-{i}", gender, i, rename) for s in speakers for i in range(6)]
        if audio:
            rows = [_with_audio(folder, row) for row in rows]
        utterances[name] = tuple(rows)
        matrix = np.eye(len(speakers)) * 0.6 + 0.2
        square = tuple(tuple(line) for line in matrix.tolist())
        similarity[name] = Similarity(tuple(f"{rename}{s}" for s in speakers), square, square, square)
        for (model, conditions), separation in ATTACKS.items():
            figures.append(_attack(folder, name, gender, rows, (model, conditions), separation, rng))
    figures += _utility() + _of_protocol(protocol)
    info = {"notes": ["missing: libri_test_enrolls", f"{rename}a remark"], "health": [HEALTH], "voiceveil": "0.1.0",
            "parameters": {"alpha": [0.5, 0.9]}, "training": ["libri_train"], "attackers": ["campplus"],
            "recognizers": ["moonshine"], "seed": 1, "time": "2026-01-01T00:00:00"}  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    write_details(Details(utterances, similarity), folder)
    Results(f"{rename}mine", protocol, tuple(figures), info).save(folder / "results.json")
    return folder


def _record(speaker: str, utterance: str, gender: str, i: int, rename: str) -> UtteranceRecord:
    said = f"{rename}THE CAT SAT ON A MAT"
    heard = f"{rename}THE CAT SAT" if i % 2 else f"{rename}THE HAT SAT ON A MAT"
    pitch = 200.0 if gender == "f" else 110.0
    measured: dict[str, str | float] = {
        "reference": said, "heard_original": said, "heard_anonymized": heard,
        "f0_original": pitch + i, "f0_anonymized": pitch + 3 * i, "pitch_correlation": 0.4 + 0.1 * i,
    }  # fmt: skip
    return UtteranceRecord(utterance, speaker, gender, "o.wav", "a.wav", measured=measured)


def _with_audio(folder: Path, row: UtteranceRecord) -> UtteranceRecord:
    wave = synthetic_voice(3, 1, seconds=1.5)
    paths = [folder / "audio" / f"{side}.wav" for side in ("original", "anonymized")]
    for path in paths:
        save(path, wave)
    return replace(row, original=str(paths[0]), anonymized=str(paths[1]))


def _attack(
    folder: Path, name: str, gender: str, rows: list[UtteranceRecord], attack: tuple[str, str], separation: float,
    rng: np.random.Generator,
) -> Figure:  # fmt: skip
    evaluator, condition = attack
    attacker, knowledge = evaluator.removesuffix(")").split(" (")
    speakers = sorted({row.speaker for row in rows})
    trials = [(s, row.utterance, s == row.speaker) for s in speakers for row in rows]
    target = np.array([t[2] for t in trials])
    scores = rng.normal(size=len(trials)) + separation * target
    file = folder / "scores" / attacker / f"{name}.{condition}.scores"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(f"{s} {u} {score:.17g}\n" for (s, u, _), score in zip(trials, scores, strict=True)))
    heard = [row.speaker for _ in speakers for row in rows]
    value = estimate(ScoredTrials.of_speakers(scores, target, [t[0] for t in trials], heard), "eer", resamples=100)
    place: dict[str, Any] = {"dataset": "libri_dev", "split": "dev", "gender": gender, "condition": condition}
    place |= {"attacker": attacker, "knowledge": knowledge}
    detail = {"set": name, "trials": len(trials), "scores": file.relative_to(folder).as_posix()}
    return Figure("eer", value.value, low=value.low, high=value.high, detail=detail, **place)


def _utility() -> list[Figure]:
    counts = {"words": 288, "substitutions": 10, "deletions": 20, "insertions": 1}
    recalls = {"recalls": {"ang": 0.7, "sad": 0.5}}
    return [
        Figure("wer", 0.02, "libri_dev", 0.01, 0.03, "dev", condition="o", model="moonshine", detail=counts),
        Figure("wer", 0.30, "libri_dev", 0.25, 0.36, "dev", condition="a", model="moonshine", detail=counts),
        Figure("uar", 0.80, "IEMOCAP_dev", 0.7, 0.9, "dev", condition="o", model="functionals", detail=recalls),
        Figure("uar", 0.60, "IEMOCAP_dev", 0.5, 0.7, "dev", condition="a", model="functionals", detail=recalls),
    ]


def _of_protocol(protocol: str) -> list[Figure]:
    """What only some protocols measure."""
    place = {"dataset": "libri_dev", "split": "dev", "gender": "f", "condition": "aa", "model": "campplus"}
    values = {
        "vpc2020": {"min_cllr": 0.6, "cllr": 1.4, "d_sys": 0.3, "zebra_population": 0.2, "deid": 0.9, "gvd": -3.0},
        "vpc2022": {"pitch_correlation": 0.63, "gvd": -3.0},
    }.get(protocol, {})
    figures = [Figure(m, v, low=v - 0.1, high=v + 0.1, **place) for m, v in values.items()]  # type: ignore[arg-type]
    if protocol == "vpc2020":
        figures.append(Figure("zebra_individual", 1.9, detail={"tag": "B"}, **place))  # type: ignore[arg-type]
    return figures
