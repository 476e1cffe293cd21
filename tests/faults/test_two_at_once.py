"""Two runs into one output folder: the second is refused as long as the first lives, however slow it is."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from tests.faults import many
from tests.faults.runs import anonymizing, evaluating, tree
from tests.faults.victims import KILLED, Victims

COMMANDS = {
    "anonymize": (anonymizing, ".voiceveil/ledger.jsonl", "another run is writing here (wait for it to end)"),
    "evaluate": (evaluating, "cache.sqlite", "another evaluation is running here (wait, or use another folder)"),
}


@pytest.mark.parametrize("verb", COMMANDS)
def test_second_run_is_rejected_until_the_first_ends(victim: Victims, data: Path, tmp_path: Path, verb: str) -> None:
    command, sign, refusal = COMMANDS[verb]
    out = tmp_path / "out"
    first = victim.start(command(data, out))
    try:
        while not (out / sign).exists():
            time.sleep(0.0005)
        os.kill(first, signal.SIGSTOP)  # alive, and not getting on
        assert not (out / "results.json").exists()
        before = tree(out)
        for _ in range(2):
            assert victim.run(command(data, out)) == 1
            assert refusal in victim.said
        assert {name: text for name, text in tree(out).items() if ".voiceveil-part-" not in name} == {
            name: text for name, text in before.items() if ".voiceveil-part-" not in name
        }, "who is refused touches nothing"
    finally:
        os.kill(first, signal.SIGKILL)
    assert victim.end(first) == KILLED
    assert victim.run(command(data, out)) == 0, victim.said


def test_only_one_of_many_simultaneous_runs_works(victim: Victims, data: Path, tmp_path: Path) -> None:
    """Others are refused, or come when all is done; the output is that of one."""
    assert victim.run(anonymizing(data, tmp_path / "alone")) == 0
    for round in range(many(2, 20)):
        out = tmp_path / f"out{round}"
        processes = [victim.start(anonymizing(data, out)) for _ in range(4)]
        codes = {}
        for process in processes:
            codes[process] = victim.end(process)
            assert codes[process] == 0 or "another run is writing here" in victim.said
        assert 0 in codes.values()
        assert tree(out) == tree(tmp_path / "alone")
