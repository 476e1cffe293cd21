"""ASV_eval of 2020 and 2022: scores agree with Kaldi's formulas one by one, and figures come out of an evaluation."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import voiceveil as vv
from tests.support.evaluations import settings_for
from tests.support.kaldi_models import Plda, make_plda, write_model, write_xvectors
from tests.support.small_challenge import make_challenge
from voiceveil.attack.kaldi_attacker import KaldiAttacker, kaldi_scorer
from voiceveil.attack.registry import make_attackers
from voiceveil.attack.sets import Condition, find_sets
from voiceveil.cli.main import main
from voiceveil.core.errors import InputError
from voiceveil.corpus import open_corpus
from voiceveil.evaluation.evaluate import evaluate, prepare
from voiceveil.official.tree import write_tree
from voiceveil.run.context import RunContext

pytest.importorskip("kaldiio", reason="kaldiio is not installed")

SETS = ("libri_dev_enrolls", "libri_dev_trials_f", "libri_dev_trials_m")
D, K = 8, 5
Vector = NDArray[Any]


def prepared_slowly(vector: Vector, plda: Plda, mean: Vector, transform: Vector, count: int) -> Vector:
    """Return what `ivector-plda-scoring` compares: ``TransformIvector`` after the commands before it."""
    centered = [vector[i] - mean[i] for i in range(D)] + [1.0]  # transform-vec appends 1 for an affine transform
    reduced = [sum(transform[row][i] * centered[i] for i in range(transform.shape[1])) for row in range(K)]
    length = math.sqrt(sum(x * x for x in reduced))
    scaled = [x * math.sqrt(K) / length for x in reduced]  # ivector-normalize-length
    plda_mean, plda_transform, psi = plda
    x = [sum(plda_transform[row][i] * (scaled[i] - plda_mean[i]) for i in range(K)) for row in range(K)]
    energy = sum(x[i] ** 2 / (psi[i] + 1.0 / count) for i in range(K))  # GetNormalizationFactor
    return np.array([value * math.sqrt(K / energy) for value in x])


def log_likelihood_ratio_slowly(enrolled: Vector, count: int, tested: Vector, psi: Vector) -> float:
    """Return ``Plda::LogLikelihoodRatio``, term by term."""
    given = without = 0.0
    for i in range(K):
        mean = count * psi[i] / (count * psi[i] + 1.0) * enrolled[i]
        variance = 1.0 + psi[i] / (count * psi[i] + 1.0)
        given += -0.5 * (math.log(variance) + math.log(2 * math.pi) + (tested[i] - mean) ** 2 / variance)
        variance = 1.0 + psi[i]
        without += -0.5 * (math.log(variance) + math.log(2 * math.pi) + tested[i] ** 2 / variance)
    return given - without


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_challenge(tmp_path_factory.mktemp("data"), only=("dev",))


@pytest.fixture(scope="module", params=["linear", "affine"])
def world(request: pytest.FixtureRequest, data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder as the challenge's scripts leave it: x-vectors that tell speakers apart, less so anonymized."""
    home = tmp_path_factory.mktemp("exp") / "xvect_01709_1"
    rng = np.random.default_rng(5)
    columns = D if request.param == "linear" else D + 1
    mean, transform = rng.normal(size=D), rng.normal(size=(K, columns)).astype(np.float32)
    write_model(home / "xvect_train_clean_360", make_plda(K), mean, transform)
    voices: dict[str, Vector] = {}
    for name in SETS:
        corpus = open_corpus(data / name)
        for suffix, noise in (("", 0.3), ("_b2", 3.0)):
            vectors = {}
            for utterance in corpus:
                voice = voices.setdefault(utterance.speaker or "", rng.normal(0, 2.0, D))
                vectors[utterance.id] = (voice + noise * rng.normal(size=D)).astype(np.float32)
            write_xvectors(home / f"xvect_{name}{suffix}", vectors)
    np.savez(home / "parts.npz", mean=mean, transform=transform)
    return home


def test_scores_are_those_of_kaldis_formulas(world: Path, data: Path) -> None:
    from voiceveil.models.speaker.kaldi_files import read_vectors

    parts = np.load(world / "parts.npz")
    plda = make_plda(K)
    attacker = KaldiAttacker(world)
    trial_set = find_sets(data, names=["libri_dev_trials_f"])[0]
    scores = attacker.score(trial_set, "oo", RunContext())
    trials = trial_set.trials
    for number in range(0, len(trials), 7):
        ids = trial_set.enrollment[str(trials.enroll[number])]
        enrolled = read_vectors(world / "xvect_libri_dev_enrolls" / "xvector.scp", ids).mean(axis=0)
        tested = read_vectors(world / "xvect_libri_dev_trials_f" / "xvector.scp", [str(trials.utterance[number])])[0]
        common = (plda, parts["mean"], parts["transform"])
        first = prepared_slowly(enrolled, *common, len(ids))
        second = prepared_slowly(tested, *common, 1)
        expected = log_likelihood_ratio_slowly(first, len(ids), second, plda[2])
        assert scores[number] == pytest.approx(expected, rel=1e-9)
    assert scores[trials.target].mean() > scores[~trials.target].mean()


def test_every_metric_of_2022_is_by_the_stored_x_vectors(world: Path, data: Path, tmp_path: Path) -> None:
    name = f"kaldi:{world}"
    settings = settings_for(
        data, tmp_path / "out", "vpc2022", attackers=[name, f"kaldi-anonymized:{world}"], seed=1,
        recognizers=["counter"], similarity=name,
    )  # fmt: skip
    system = vv.system("b2")
    results = evaluate(prepare(settings, system=system), exports=(write_tree,))
    assert {f.attacker for f in results.find("eer", condition="oo")} == {"kaldi:xvect_01709_1"}
    assert {f.knowledge for f in results.find("eer", condition="aa")} == {"lazy-informed", "semi-informed"}
    assert {f.encoder for f in results.find("eer")} == {"xvector"}
    assert {f.model for f in (*results.find("deid"), *results.find("gvd"))} == {"kaldi:xvect_01709_1"}
    assert {f.detail["backend"] for f in results.find("gvd")} == {"plda"}
    assert results.find("cllr")  # PLDA gives log-likelihood ratios
    oo, oa = (np.mean([f.value for f in results.find("eer", condition=c)]) for c in ("oo", "oa"))
    assert oo < oa
    names = results.info["official"]["names"]
    assert (names["ASV_eval"], names["ASV_eval^anon"]) == (
        "kaldi:xvect_01709_1",
        "kaldi-anonymized:xvect_01709_1",
    )
    note = next((tmp_path / "out" / "exp").glob("results-*/NOTE.txt")).read_text()
    assert "ASV_eval: kaldi:xvect_01709_1; the challenge's own, as far as that folder is" in note
    assert "ASR_eval: counter; in the challenge: a Kaldi TDNN-F with a 3-gram" in note
    assert results.info["models"]["kaldi:xvect_01709_1"].startswith("kaldi plda 1 ")


def test_missing_archives_and_models_are_named(
    world: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["attack", "--data", str(data), "--quiet", "--jobs", "1", "--out", str(tmp_path / "out")]
    assert main([*arguments, "--attackers", f"kaldi:{tmp_path / 'nothing'}"]) != 0
    assert "nothing: no such folder" in capsys.readouterr().err
    assert main([*arguments, "--attackers", "kaldi"]) != 0
    assert "needs a folder" in capsys.readouterr().err
    (empty := tmp_path / "empty").mkdir()
    assert main([*arguments, "--attackers", f"kaldi:{empty}"]) != 0
    assert "0 folders with a PLDA" in capsys.readouterr().err
    write_model(empty, make_plda(K), np.zeros(D), np.ones((K, D)))
    assert main([*arguments, "--attackers", f"kaldi:{empty}"]) != 0
    assert "xvect_libri_dev_enrolls/xvector.scp: no such list of x-vectors" in capsys.readouterr().err


def test_parts_of_other_models_are_refused(tmp_path: Path, world: Path, data: Path) -> None:
    with pytest.raises(InputError, match=r"a transform of the shape \(3, 8\) before a PLDA of 5 dimensions"):
        kaldi_scorer(write_model(tmp_path / "a", make_plda(K), np.zeros(D), np.ones((3, D))))
    with pytest.raises(InputError, match=r"a mean of the shape \(4,\)"):
        kaldi_scorer(write_model(tmp_path / "b", make_plda(K), np.zeros(4), np.ones((K, D))))
    write_model(other := tmp_path / "c", make_plda(K), np.zeros(9), np.ones((K, 9)))
    for name in SETS:
        (other / f"xvect_{name}").symlink_to(world / f"xvect_{name}")
    with pytest.raises(InputError, match="x-vectors of 8 dimensions, but a PLDA for 9"):
        KaldiAttacker(other).score(find_sets(data, names=["libri_dev_trials_f"])[0], "oo", RunContext())


@pytest.mark.parametrize(("name", "conditions"), [("kaldi", ("oo", "oa", "aa")), ("kaldi-anonymized", ("aa",))])
def test_names_say_what_the_model_was_trained_on(world: Path, name: str, conditions: tuple[Condition, ...]) -> None:
    (attacker,) = make_attackers([f"{name}:{world}"])
    assert tuple(attacker.conditions()) == conditions
    assert attacker.llr
    assert attacker.backend == "plda"
