"""Folders of SpeechBrain that are incomplete, damaged or hostile: an ``InputError``, in bounded time and memory."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.faults.test_hostile_data import bounded
from tests.support.official_models import copy_checkout, golden, wave_of
from voiceveil.core.errors import InputError
from voiceveil.models import pretrained_recognizer
from voiceveil.models.asr.recognition import recognizer
from voiceveil.models.speaker.encoders import encoder
from voiceveil.models.speechbrain.emotion import SpeechBrainEmotionModel
from voiceveil.models.speechbrain.files import read_labels, read_tensors
from voiceveil.models.speechbrain.hyperparams import read_hyperparams

LAST = "exp/asv_anon_x/CKPT+10"
FOLD = "exp/ser/fold_1/CKPT+1"


def embed(checkout: Path) -> object:
    return encoder(f"speechbrain:{checkout / 'exp/asv_anon_x'}")(wave_of(golden()["x_noise_0p7s"]))


def transcribe(checkout: Path) -> object:
    return recognizer(f"speechbrain:{checkout / 'exp/asr'}")(wave_of(golden()["x_noise_0p7s"]))


def judge(checkout: Path) -> object:
    pretrained_recognizer(f"speechbrain:{checkout / 'exp/ser'}")
    return SpeechBrainEmotionModel(checkout / "exp/ser/fold_1")(wave_of(golden()["x_noise_0p7s"]))


class Code:
    """Makes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, (str(self.path),))


def changed(change: Callable[[dict[str, torch.Tensor]], Any]) -> Callable[[Path], None]:
    """Return what changes the tensors of a file."""

    def apply(path: Path) -> None:
        state = dict(read_tensors(path))
        result = change(state)
        torch.save(state if result is None else result, path)

    return apply


def text(content: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(content)


def replaced(old: str, new: str) -> Callable[[Path], None]:
    def apply(path: Path) -> None:
        content = path.read_text()
        assert old in content
        path.write_text(content.replace(old, new))

    return apply


def infinite(state: dict[str, torch.Tensor]) -> None:
    next(iter(state.values()))[0] = torch.inf


def without_last(state: dict[str, torch.Tensor]) -> None:
    del state[list(state)[-1]]


def transposed(state: dict[str, torch.Tensor]) -> None:
    name = next(name for name, tensor in state.items() if tensor.dim() > 1)
    state[name] = state[name].transpose(0, 1).contiguous()


def renamed(state: dict[str, torch.Tensor]) -> None:
    state["__class__"] = state.pop(next(iter(state)))


def links_to_itself(path: Path) -> None:
    path.unlink()
    path.symlink_to(path)


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (Path.unlink, "has no"),
    "empty": (text(""), "not a file of weights"),
    "text": (text("step: 10\n"), "not a file of weights"),
    "cut": (lambda path: os.truncate(path, path.stat().st_size // 2), "not a file of weights"),
    "a link to itself": (links_to_itself, "has no"),
    "a list": (changed(lambda state: list(state.values())), "does not hold named tensors"),
    "a tensor": (changed(lambda state: torch.zeros(3)), "does not hold named tensors"),
    "not finite": (changed(infinite), "not finite"),
    "one missing": (changed(without_last), "not|missing"),
    "another shape": (changed(transposed), "not"),
    "another name": (changed(renamed), "not"),
    "values that are not there": (
        changed(lambda state: {name: torch.zeros(1).expand(1 << 40) for name in state}),
        "claim more values than the file has",
    ),
}
USES: dict[str, Callable[[Path], object]] = {
    f"{LAST}/embedding_model.ckpt": embed,
    "exp/asr/wav2vec2.ckpt": transcribe,
    "exp/asr/asr.ckpt": transcribe,
    f"{FOLD}/wav2vec2.ckpt": judge,
    f"{FOLD}/model.ckpt": judge,
}


@pytest.mark.parametrize("file", USES)
@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_weights(file: str, damage: str, tmp_path: Path) -> None:
    checkout = copy_checkout(tmp_path)
    apply, message = DAMAGES[damage]
    apply(checkout / file)
    with bounded(), pytest.raises(InputError, match=message) as error:
        USES[file](checkout)
    assert str(checkout) in str(error.value)


@pytest.mark.parametrize("file", USES)
def test_code_in_weights_is_not_run(file: str, tmp_path: Path) -> None:
    checkout, made = copy_checkout(tmp_path), tmp_path / "made"
    inner = tmp_path / "inner"
    torch.save({"a": torch.zeros(1)}, inner)
    with zipfile.ZipFile(inner) as archive, zipfile.ZipFile(checkout / file, "w") as hostile:
        for member in archive.namelist():
            hostile.writestr(member, pickle.dumps(Code(made)) if member.endswith("data.pkl") else archive.read(member))
    with pytest.raises(InputError, match="cannot be read as data"):
        USES[file](checkout)
    (checkout / file).write_bytes(pickle.dumps(Code(made)))  # the format before torch 1.6
    with pytest.raises(InputError, match="not a file of weights"):
        USES[file](checkout)
    assert not made.exists()


@pytest.mark.parametrize("file", [f"{LAST}/hyperparams.yaml", "exp/asr/hyperparams.yaml", f"{FOLD}/hyperparams.yaml"])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a: !!python/object/apply:os.mkdir [made]", "would make Python objects"),
        ("a: !!python/name:os.system", "would make Python objects"),
        ("a: [", "not YAML"),
        ("- 1", "not a mapping"),
        ("", "not a mapping"),
        ("a: 1\n---\nb: 2", "not YAML"),
        ("a: " + "[" * 5000, "not YAML|levels"),
        ("a: &a [*a]", "levels|not YAML"),
        ("b0: &b0 [1]\n" + "".join(f"b{i}: &b{i} [{f'*b{i-1},' * 9}]\n" for i in range(1, 9)), "more values"),
        ("".join(f"a{i}: [!ref <a{i+1}>, !ref <a{i+1}>]\n" for i in range(25)) + "a25: 1", "more values"),
        ("a: !ref <b>\nb: !ref <a>", "more values"),
        ("a: 1", "no section|no wav2vec2"),
        ("x" * (2 << 20), "larger than"),
    ],
)  # fmt: skip
def test_hostile_settings(
    file: str, content: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout = copy_checkout(tmp_path)
    monkeypatch.chdir(tmp_path)
    (checkout / file).write_text(content)
    use = {"asv_anon_x": embed, "asr": transcribe, "ser": judge}[file.split("/")[1]]
    with bounded(), pytest.raises(InputError, match=message):
        use(checkout)
    assert not (tmp_path / "made").exists()


def test_tags_are_data(tmp_path: Path) -> None:
    path = tmp_path / "hyperparams.yaml"
    path.write_text(
        f"seed: 3\nnow: !apply:os.mkdir [{tmp_path / 'made'}]\nlater: !name:os.system\n  command: true\n"
        "new: !new:builtins.exec\n  text: !ref <seed>\nfile: !ref <folder>/a\nfolder: b\nsum: !ref <seed> * 2\n"
        "part: !ref <new[text]>\nnothing: !ref <missing>\nhole: !PLACEHOLDER\n"
    )
    assert read_hyperparams(path) == {
        "seed": 3,
        "now": [str(tmp_path / "made")],
        "later": {"!": "name:os.system", "command": True},
        "new": {"!": "new:builtins.exec", "text": 3},
        "file": "b/a",
        "folder": "b",
        "sum": "3 * 2",
        "part": 3,
        "nothing": "<missing>",
        "hole": {"!": "PLACEHOLDER"},
    }
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("file", "apply", "message"),
    [
        (f"{LAST}/hyperparams.yaml", replaced("[1, 2, 3, 4, 1]", "[1, 1, 1, 1, 1]"), "dilations is"),
        (f"{LAST}/hyperparams.yaml", replaced("std_norm: False", "std_norm: True"), "std_norm is True"),
        (f"{LAST}/hyperparams.yaml", replaced("norm_type: sentence", "norm_type: global"), "norm_type is global"),
        (f"{LAST}/hyperparams.yaml", Path.unlink, "no hyperparams.yaml"),
        ("exp/asr/hyperparams.yaml", replaced("sample_rate: 16000", "sample_rate: 8000"), "sample_rate is 8000"),
        ("exp/asr/hyperparams.yaml", replaced("output_norm: True", "output_norm: False"), "output_norm is False"),
        ("exp/asr/hyperparams.yaml", replaced("blank_index: 0", "blank_index: 99"), "blank"),
        ("exp/asr/hyperparams.yaml", replaced("hub: wav2vec2_tiny", "hub: nobody/knows"), "not on this"),
        ("exp/asr/hyperparams.yaml", replaced("torch.nn.LeakyReLU", "torch.nn.ReLU"), "LeakyReLU"),
        ("exp/asr/tokenizer.ckpt", Path.unlink, "no tokenizer.ckpt"),
        ("exp/asr/tokenizer.ckpt", text("'A' => 0\n'B' => 1\n"), "2 characters, but 31 outputs"),
        ("exp/asr/tokenizer.ckpt", text("'A' => 1\n"), "not numbered from 0"),
        ("exp/asr/tokenizer.ckpt", text("__import__('os') => 0\n"), "not a line of labels"),
        ("exp/asr/tokenizer.ckpt", text("'a' + 'b' => 0\n"), "not a line of labels"),
        (f"{FOLD}/label_encoder.txt", Path.unlink, "no label_encoder"),
        (f"{FOLD}/label_encoder.txt", text("'ang' => 0\n'hap' => 1\n"), "0.w.weight"),
        ("wav2vec2_tiny/config.json", text("{}"), "missing or of the wrong type"),
        ("wav2vec2_tiny/config.json", replaced('"hidden_size": 32', '"hidden_size": 100000000000'), "do not fit"),
        ("wav2vec2_tiny/config.json", replaced('"hidden_size": 32', '"hidden_size": -32'), "do not fit"),
        ("wav2vec2_tiny/config.json", replaced('_layers": 2', '_layers": 999999999'), "do not fit"),
        ("wav2vec2_tiny/config.json", replaced('"num_hidden_layers": 2', '"num_hidden_layers": 1'), "do not fit"),
        ("wav2vec2_tiny/config.json", replaced('"num_attention_heads": 4', '"num_attention_heads": 5'), "do not fit"),
        ("wav2vec2_tiny/config.json", replaced('"num_attention_heads": 4', '"num_attention_heads": 0'), "do not fit"),
        ("wav2vec2_tiny/config.json", replaced('"hidden_act": "gelu"', '"hidden_act": "os.system"'), "do not fit"),
        ("wav2vec2_tiny/config.json", replaced('_norm": "layer"', '_norm": "x"'), "do not fit"),
    ],
)  # fmt: skip
def test_files_that_do_not_fit_together(
    file: str, apply: Callable[[Path], object], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout = copy_checkout(tmp_path)
    monkeypatch.chdir(tmp_path)
    apply(checkout / file)
    use = embed if "asv" in file else judge if "ser" in file else transcribe
    with bounded(), pytest.raises(InputError, match=message):
        use(checkout)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: encoder("speechbrain"), "write speechbrain:FOLDER, e.g. speechbrain:exp/asv_orig"),
        (lambda: recognizer("speechbrain"), "write speechbrain:FOLDER, e.g. speechbrain:exp/asr"),
        (lambda: pretrained_recognizer("speechbrain"), "write speechbrain:FOLDER, e.g. speechbrain:exp/ser"),
        (lambda: encoder("speechbrain:nowhere").check(), "nowhere: no such folder"),
        (lambda: recognizer("speechbrain:nowhere"), "nowhere: no such folder"),
        (lambda: pretrained_recognizer("speechbrain:nowhere"), "nowhere: no such folder"),
        (lambda: encoder("speechbrian:exp/asv_orig"), "did you mean speechbrain"),
        (lambda: recognizer("speechbrian:exp/asr"), "did you mean speechbrain"),
        (lambda: pretrained_recognizer("speechbrian:exp/ser"), "did you mean speechbrain"),
    ],
)
def test_names_without_a_folder(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError) as error:
        make()
    assert message in str(error.value)


def test_folder_of_another_evaluator(tmp_path: Path) -> None:
    checkout = copy_checkout(tmp_path)
    with pytest.raises(InputError, match=r"no embedding_model\.ckpt"):
        encoder(f"speechbrain:{checkout / 'exp/asr'}").check()
    with pytest.raises(InputError, match=r"has no wav2vec2\.ckpt"):
        recognizer(f"speechbrain:{checkout / 'exp/asv_anon_x'}")
    with pytest.raises(InputError, match="no folder fold_1"):
        pretrained_recognizer(f"speechbrain:{checkout / 'exp/asr'}")


def test_audio_that_is_silent_or_too_short(tmp_path: Path) -> None:
    checkout = copy_checkout(tmp_path)
    model = encoder(f"speechbrain:{checkout / 'exp/asv_anon_x'}")
    silence, noise = golden()["x_gap"] * 0, golden()["x_noise_0p7s"]
    with pytest.raises(InputError, match=r"0\.000 s of audio besides digital silence"):
        model(wave_of(silence))
    with pytest.raises(InputError, match=r"0\.019 s of audio"):
        model(wave_of(noise[:300]))
    with pytest.raises(InputError, match="300 samples of audio"):
        recognizer(f"speechbrain:{checkout / 'exp/asr'}")(wave_of(noise[:300]))


def test_settings_are_checked_before_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkout = copy_checkout(tmp_path)
    monkeypatch.chdir(tmp_path)
    shutil.rmtree(checkout / "wav2vec2_tiny")
    shutil.rmtree(checkout / "wav2vec2_tiny_2")
    with pytest.raises(InputError, match="configuration of 'wav2vec2_tiny' is not on this machine"):
        recognizer(f"speechbrain:{checkout / 'exp/asr'}")
    with pytest.raises(InputError, match="configuration of 'wav2vec2_tiny_2' is not on this machine"):
        pretrained_recognizer(f"speechbrain:{checkout / 'exp/ser'}")


def test_labels_are_texts(tmp_path: Path) -> None:
    path = tmp_path / "labels"
    path.write_text("\"'\" => 1\n'\\u00e9 => 1' => 0\n====\nstarting_index => 0\n")
    assert read_labels(path) == ["é => 1", "'"]


def test_damaged_numbers_beside_the_weights(tmp_path: Path) -> None:
    folder = copy_checkout(tmp_path) / "exp" / "asv_anon_x"
    for content in ("ErrorRate: nan\n", "ErrorRate: 1e9\n", "ErrorRate: --\n", "", "\0"):
        (folder / "CKPT+10" / "CKPT.yaml").write_text(content)
        assert encoder(f"speechbrain:{folder}").training().accuracy is None
    shutil.rmtree(folder / "CKPT+3")
    encoder(f"speechbrain-correct:{folder}").check()
    (folder / "train.csv").write_text("ID,wav\na_0_3,x.wav\na_3_6,x.wav\nb,y.wav\n")
    assert encoder(f"speechbrain:{folder}").training().utterances == 2
    (folder / "label_encoder.txt").write_text(json.dumps({}))
    with pytest.raises(InputError, match="not a line of labels"):
        encoder(f"speechbrain:{folder}").training()
