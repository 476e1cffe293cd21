"""Names of attackers, and the fields that stand for them everywhere else."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

from tests.support.pitch_bumps import PitchBumps
from voiceveil.attack import Attacker, TrainingSpeech, attackers, make_attackers
from voiceveil.attack.encoder_attackers import AdaptedAttacker, EncoderAttacker
from voiceveil.core.errors import InputError
from voiceveil.models.speaker.plda import Plda
from voiceveil.run.cache import Cache
from voiceveil.run.context import RunContext

SOURCE = Path(__file__).resolve().parents[2] / "src"


@pytest.mark.parametrize(
    ("name", "family", "knowledge", "needs_training"),
    [
        ("pitch-bumps", "pitch-bumps", {"oo": "unprotected", "oa": "ignorant", "aa": "lazy-informed"}, False),
        ("pitch-bumps-adapted", "pitch-bumps", {"aa": "semi-informed"}, True),
        ("mcadams-inversion:pitch-bumps", "pitch-bumps", {"oa": "inverting"}, False),
        ("free:f0", None, {"aa": "free"}, False),
        ("free:order", None, {"aa": "metadata"}, False),
    ],
)
def test_fields_of_named_attackers(
    name: str, family: str | None, knowledge: dict[str, str], needs_training: bool
) -> None:
    (attacker,) = make_attackers([name])
    assert attacker.name == name
    assert (None if attacker.encoder is None else attacker.encoder.family) == family
    assert attacker.conditions() == knowledge
    assert attacker.needs_training is needs_training
    assert set(attacker.conditions(anonymized=False)) <= {"oo"}


def test_names_of_encoders_with_weights_of_their_own() -> None:
    encoder = PitchBumps(name="pitch-bumps:exp/asv")
    assert EncoderAttacker(encoder).name == "pitch-bumps:exp/asv"
    assert AdaptedAttacker(encoder).name == "pitch-bumps-adapted:exp/asv"


def test_a_name_stands_for_several_attackers_and_counts_once() -> None:
    names = [attacker.name for attacker in make_attackers(["free", "free", "pitch-bumps"])]
    assert names == ["free:duration", "free:silence", "free:f0", "free:order", "pitch-bumps"]


def test_options_choose_back_end_and_knowledge() -> None:
    plain, adapted = make_attackers(["pitch-bumps", "pitch-bumps-adapted"], scoring="plda", similar=True)
    assert (plain.backend, plain.llr) == ("plda200", True)
    assert adapted.conditions() == {"aa": "similar-system"}


def test_attackers_without_a_name() -> None:
    """Any encoder with any back-end, said in Python."""
    attacker = EncoderAttacker(PitchBumps(), Plda(10))
    assert make_attackers([attacker]) == [attacker]
    assert (attacker.backend, attacker.llr, attacker.needs_training) == ("plda10", True, False)
    with pytest.raises(InputError, match=r"pitch-bumps needs original training speech.*--train-original"):
        attacker.check_training(TrainingSpeech())


def test_a_third_partys_attacker() -> None:
    class Coin(Attacker):
        name, minimum = "coin", 0.0

        def conditions(self, *, anonymized: bool = True):  # type: ignore[no-untyped-def]
            return {"aa": "free"}

        def fingerprint(self) -> str:
            return "coin 1"

        def score(self, trial_set, condition, context):  # type: ignore[no-untyped-def]
            return np.zeros(len(trial_set.trials))

    attackers.register("coin")(lambda options: [Coin()])
    (coin,) = make_attackers(["coin"])
    assert (coin.backend, coin.llr, coin.needs_training, coin.reference) == ("", False, False, None)
    assert list(coin.work([], (), {}, Cache(None))) == []
    coin.fit(TrainingSpeech(), RunContext(Cache(None)))
    assert coin.health(None, None).warnings == ()


@pytest.mark.parametrize(
    ("names", "options", "what"),
    [
        (["pitch-bumsp"], {}, "unknown attacker 'pitch-bumsp'.*did you mean pitch-bumps"),
        (["mcadams-inversoin"], {}, "did you mean mcadams-inversion"),
        (["free:smell"], {}, "unknown cue 'smell'"),
        ([], {}, "no attacker is named"),
        (["free"], {"scoring": "pdla"}, "unknown scoring 'pdla'.*cosine, plda"),
    ],
)
def test_wrong_names(names: list[str], options: dict[str, str], what: str) -> None:
    with pytest.raises(InputError, match=what):
        make_attackers(names, **options)  # type: ignore[arg-type]


def test_nothing_asks_for_the_class_of_an_attacker() -> None:
    """The contract suffices: no ``isinstance`` of a kind of attacker anywhere in the source."""
    asked = []
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance" and len(node.args) == 2:
                kinds = {word.id for word in ast.walk(node.args[1]) if isinstance(word, ast.Name)}
                asked += [f"{path.name}:{node.lineno}" for kind in kinds if kind.endswith("Attacker") and len(kind) > 8]
    assert asked == []
