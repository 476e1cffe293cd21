"""The device of a run: which one is taken, what is refused, and how it reaches other processes."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from dataclasses import dataclass

import pytest

from voiceveil.core.errors import InputError
from voiceveil.run import device as devices
from voiceveil.run.context import RunContext
from voiceveil.run.device import (
    OnDevice,
    available_devices,
    check_device,
    current_device,
    requested_device,
    use_device,
    worker_device,
)
from voiceveil.run.executor import Executor, Local
from voiceveil.run.local import run_items


@pytest.fixture
def cards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let torch have two cards of CUDA."""
    monkeypatch.setattr(devices, "available_devices", lambda: ("cpu", "cuda:0", "cuda:1", "cuda"))


@dataclass(frozen=True)
class Cluster(Local):
    """An executor on other machines."""

    distant: bool = True


def test_the_processor_is_the_device_unless_another_is_asked_for() -> None:
    assert (requested_device(), current_device(), RunContext().device) == ("cpu", "cpu", "cpu")


def test_auto_takes_the_best_device(monkeypatch: pytest.MonkeyPatch) -> None:
    for available in (("cpu",), ("cpu", "mps"), ("cpu", "mps", "cuda:0", "cuda")):
        monkeypatch.setattr(devices, "available_devices", lambda available=available: available)
        with use_device("auto"):
            assert (requested_device(), current_device(), RunContext().device) == ("auto", available[-1], "auto")


def test_the_devices_of_torch_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert available_devices.__wrapped__() == ("cpu", "mps", "cuda:0", "cuda:1", "cuda")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert available_devices.__wrapped__() == ("cpu", "mps")


def test_blocks_nest_and_end(cards: None) -> None:
    with use_device("cuda:1"):
        with use_device("cpu"):
            assert current_device() == "cpu"
        assert current_device() == "cuda:1"
        with pytest.raises(ZeroDivisionError), use_device("cuda"):
            _ = 1 / 0
        assert current_device() == "cuda:1"
    assert current_device() == "cpu"


def test_a_missing_device_is_named_with_those_that_there_are(cards: None, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("cuda:2", "gpu", "", "CPU", "mps"):
        with pytest.raises(InputError) as caught:
            check_device(name)
        assert caught.value.what == f"the device {name!r} is not available here"
        assert caught.value.fix == "use one of: auto, cpu, cuda:0, cuda:1, cuda"
    monkeypatch.setattr(devices, "available_devices", lambda: ("cpu",))
    monkeypatch.setattr(devices, "find_spec", lambda name: None)
    with pytest.raises(InputError, match="'cuda' is not available here: torch is not installed"):
        check_device("cuda")


@pytest.mark.parametrize(
    ("asked", "executor", "given"),
    [
        ("auto", Local(1), "auto"),
        ("auto", Local(4), "cpu"),
        ("auto", Cluster(1), "cpu"),
        ("cpu", Cluster(4), "cpu"),
        ("cuda", Local(1), "cuda"),
        ("cuda:1", Local(4), "cuda:1"),
    ],
)
def test_auto_uses_a_card_from_one_process_alone(cards: None, asked: str, executor: Executor, given: str) -> None:
    with use_device(asked):
        assert worker_device(executor) == given


def test_a_cluster_has_no_cards(cards: None) -> None:
    with use_device("cuda"), pytest.raises(InputError, match="--device cuda: nodes of a cluster use their processors"):
        worker_device(Cluster(4))


def _seen(item: int) -> tuple[int, str, int]:
    return item, requested_device(), os.getpid()


def test_the_device_goes_to_other_processes() -> None:
    function = OnDevice(_seen, "auto")
    assert pickle.loads(pickle.dumps(function)) == function
    seen = [result for _, result in run_items(function, range(4), jobs=2)]
    assert all(isinstance(result, tuple) and result[1] == "auto" and result[2] != os.getpid() for result in seen)
    assert requested_device() == "cpu"


def test_naming_a_device_does_not_import_torch() -> None:
    code = (
        "import sys; from voiceveil.run.device import use_device\n"
        "with use_device('auto'): assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
