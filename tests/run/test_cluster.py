"""Work on a real Ray cluster of several nodes, all on this machine: the same results as at home, whatever dies."""

from __future__ import annotations

import json
import os
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tests.support.small_challenge  # noqa: F401 -- registers the encoder "bumps"
from tests.faults.conftest import data  # noqa: F401 -- the fixture
from tests.faults.runs import begun, evaluating, tree
from tests.run.test_local import Counted
from tests.support.cluster_work import Awkward, Killing, square
from tests.support.paths import ROOT
from tests.support.pitch_bumps import make_corpus
from voiceveil.attack.model_free import Cues
from voiceveil.audio import Samples, save
from voiceveil.cli.main import main
from voiceveil.core import user_modules as named_modules
from voiceveil.core.errors import InputError, OutputError
from voiceveil.corpus import open_corpus
from voiceveil.run import cluster
from voiceveil.run.cache import Cache, put_in_inbox
from voiceveil.run.cluster import RayExecutor, ray_executor
from voiceveil.run.extract import extract
from voiceveil.run.ledger import Ledger
from voiceveil.systems import anonymize
from voiceveil.systems.signal.b2 import B2
from voiceveil.testing import synthetic_voice
from voiceveil.testing.nodes import Nodes, ray_nodes

pytest.importorskip("ray")


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    """Nodes whose workers can import this package, which a Ray worker of VoiceVeil does not find by itself."""
    with pytest.MonkeyPatch.context() as patch, ray_nodes() as made:
        patch.setenv("PYTHONPATH", str(ROOT))
        with pytest.raises(InputError, match=r"the Ray cluster has no cores \(let nodes join it: ray start"):
            ray_executor(made.address).__enter__()
        for _ in range(2):
            made.add()
        yield made


@pytest.fixture(scope="module")
def ray(nodes: Nodes) -> Iterator[RayExecutor]:
    """A connection that stays: Ray has new workers for every new one."""
    with ray_executor(nodes.address, block=1.0) as executor:
        yield executor


def make_folder(root: Path, count: int, seconds: float = 0.3) -> Path:
    for number in range(count):
        save(root / f"s{number % 3}" / f"u{number:03d}.wav", synthetic_voice(number % 3, number, seconds=seconds))
    return root


def on(nodes: Nodes) -> list[str]:
    return ["--executor", "ray", "--address", nodes.address]


def run(executor: RayExecutor, function: Any, items: Any, folder: Path) -> list[tuple[Any, Any]]:
    return list(executor.run(function, items, folder=folder, seconds=lambda item: 0.25))


# --- A command, from nothing ----------------------------------------------------------------------------------------


def test_anonymize_on_a_cluster_is_byte_identical(
    nodes: Nodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a bad file, in several blocks, and going on when half of it is there."""
    monkeypatch.setattr(cluster, "BLOCK", 1.0)
    source, out = make_folder(tmp_path / "in", 12), tmp_path / "ray"
    (source / "s0" / "bad.wav").write_bytes(b"no audio at all")
    options = ["--system", "b2", "--seed", "1", "--quiet"]
    assert main(["anonymize", str(source), str(tmp_path / "local"), *options]) == 1
    assert main(["anonymize", str(source), str(out), *options, *on(nodes)]) == 1
    assert tree(out) == tree(tmp_path / "local")
    ledger = out / ".voiceveil" / "ledger.jsonl"
    lines = ledger.read_bytes().splitlines(keepends=True)
    ledger.write_bytes(b"".join(lines[:6]))
    for line in lines[6:]:  # a killed run has not written what its record does not have
        (ledger.parent / json.loads(line)["file"]).unlink(missing_ok=True)
    (out / "s1" / "u001.wav").unlink()
    with ray_executor(nodes.address, block=1.0) as executor:
        summary = anonymize(source, out, seed=1, jobs=executor, system="b2")
    assert (summary.done, summary.already_done, len(summary.failures)) == (8, 4, 1)
    assert tree(out) == tree(tmp_path / "local")


# --- The executor -------------------------------------------------------------------------------------------------


def test_every_item_runs_once_and_exceptions_are_results(ray: RayExecutor, tmp_path: Path) -> None:
    assert ray.workers == 2
    assert sorted(run(ray, square, range(40), tmp_path)) == [(n, n * n) for n in range(40)]
    assert run(ray, square, [], tmp_path) == []
    results = dict(run(ray, square, [-1, 2], tmp_path))
    assert results[2] == 4
    assert not isinstance(results[-1], Awkward)
    assert str(results[-1]) == "Awkward: -1: no way back"
    assert list(tmp_path.iterdir()) == []


def test_workers_do_not_import_from_the_working_directory(
    nodes: Nodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A system of one's own is found all the same, by its file."""
    monkeypatch.chdir(tmp_path)
    make_folder(tmp_path / "in", 4)
    (tmp_path / "soxr.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    (tmp_path / "own_system.py").write_text(
        "from dataclasses import dataclass\n"
        "import os, sys\n"
        "from voiceveil import Anonymizer\n"
        "@dataclass(frozen=True)\n"
        "class Half(Anonymizer):\n"
        "    'Half as loud.'\n"
        "    def transform(self, samples, rng):\n"
        "        assert not {'', os.getcwd()} & set(sys.path), sys.path\n"
        "        return samples * 0.5\n"
    )
    options = ["--system", "own_system:Half", "--rate", "8000", "--quiet"]
    try:
        assert main(["anonymize", "in", "out", *options, *on(nodes)]) == 0
    finally:
        named_modules._folders.clear()
        sys.modules.pop("own_system", None)
    assert len(list((tmp_path / "out").rglob("*.wav"))) == 4
    assert not (tmp_path / "ran").exists()


def test_items_are_taken_lazily(ray: RayExecutor, tmp_path: Path) -> None:
    """Back-pressure: two blocks of four items are out for each of the two cores, and one is being filled."""
    items = Counted(1000)
    results = ray.run(square, items, folder=tmp_path, seconds=lambda item: 0.25)
    for done, _ in enumerate(results, 1):
        assert items.asked <= done - 1 + 4 * 4 + 4 + 1
        if done == 60:
            break
    results.close()
    assert items.asked < 100
    assert list(tmp_path.iterdir()) == []


def test_item_that_kills_workers_is_isolated_and_reported(
    ray: RayExecutor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "RETRIES", 1)
    results = dict(run(ray, Killing(str(tmp_path), poison=6), range(12), tmp_path))
    assert sorted(results) == list(range(12))
    poison = results.pop(6)
    assert isinstance(poison, InputError)
    assert str(poison) == ("its worker died 2 times, perhaps for lack of memory (try it alone, without --executor ray)")
    assert all(number == result for number, result in results.items())
    tries = {number: len((tmp_path / f"{number}").read_text().splitlines()) for number in range(12)}
    assert tries[6] == 4  # twice in its block of four, twice alone
    assert all(tries[number] <= 3 for number in results)
    assert all(tries[number] == 1 for number in (0, 1, 2, 3, 8, 9, 10, 11)), "other blocks are not touched"


def test_node_with_other_files_or_version_is_rejected(tmp_path: Path) -> None:
    """What each worker looks at first; its cores would write where nobody looks."""
    with cluster._marked(tmp_path / "out") as (marker, token, version, folder):
        assert cluster._misplaced((marker, token, version, folder)) is None
        elsewhere = cluster._misplaced((str(tmp_path / "away" / "m"), token, version, folder))
        other = cluster._misplaced((marker, token, "9.9", folder))
    name = os.uname().nodename
    assert isinstance(elsewhere, OutputError)
    assert str(elsewhere) == (
        f"{tmp_path / 'away'}: node {name} does not see this folder "
        "(give an output on storage that all nodes share, under the same path)"
    )
    assert str(other) == f"node {name} has VoiceVeil {version}, not 9.9 (install the same version on all nodes)"
    assert not Path(marker).exists()


@pytest.mark.parametrize(
    ("lengths", "most", "blocks"),
    [
        ([5, 5, 5, 5, 5], 12, [2, 2, 1]),
        ([20, 1, 1, 20], 12, [1, 2, 1]),
        ([0.0] * 2500, 60, [1000, 1000, 500]),
        ([], 60, []),
    ],
)
def test_blocks_are_sized_by_duration(lengths: list[float], most: float, blocks: list[int]) -> None:
    made = list(cluster._blocks(iter(range(len(lengths))), lambda item: lengths[item], most))
    assert [item for block in made for item in block] == list(range(len(lengths)))
    assert [len(block) for block in made] == blocks


# --- The commands -------------------------------------------------------------------------------------------------


def test_manifest_corpus_works_on_a_cluster(nodes: Nodes, ray: RayExecutor, tmp_path: Path) -> None:
    source = make_folder(tmp_path / "in", 6)
    rows = [{"id": path.stem, "path": str(path), "seconds": 0.3} for path in sorted(source.rglob("u*.wav"))]
    (tmp_path / "list.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for place, where in (("l", []), ("r", on(nodes))):
        options = ["--system", "b2", "--seed", "1", *where]
        assert main(["anonymize", str(tmp_path / "list.jsonl"), str(tmp_path / place), *options]) == 0
    assert tree(tmp_path / "l") == tree(tmp_path / "r")


def test_attack_evaluate_and_risk_give_the_local_results(
    nodes: Nodes,
    ray: RayExecutor,
    data: Path,  # noqa: F811 -- what the fixture makes
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The same bytes of all result files; and nothing stays in the inbox of the cache."""
    make_corpus(tmp_path, "toy", range(6), range(4))
    design = ["corpus", "protocol", str(tmp_path / "toy"), str(tmp_path), "--name", "toy", "--legal"]
    assert main([*design, "--a-utterances", "2", "--b-utterances", "2"]) == 0
    sides = [f"--original={tmp_path / name}" for name in ("toy_A", "toy_B")]
    risk = ["risk", f"--protocol={tmp_path / 'protocol.toml'}", *sides, "--encoder=original=bumps"]
    attack = ["attack", "--data", str(data), "--attackers", "free,bumps", "--json"]
    found = {}
    for place, where in (("local", []), ("ray", on(nodes))):
        cache = ["--cache", str(tmp_path / f"{place}.sqlite")]
        capsys.readouterr()
        assert main([*attack, "--out", str(tmp_path / place / "attack"), *cache, *where]) == 0
        assert main([*risk, "--lengths=1", "--draws=1", "--enrolled=2", "--json", *cache, *where]) == 0
        said = capsys.readouterr().out.replace(str(tmp_path / place), "")
        begun(tmp_path / place / "evaluate")
        assert main([*evaluating(data, tmp_path / place / "evaluate"), *where]) == 0
        written = tree(tmp_path / place)
        written["attack/attack.json"] = re.sub(rb'"seconds": [\d.]+', b"", written["attack/attack.json"])
        del written["attack/.voiceveil/ledger.jsonl"]  # has the hash of attack.json, with these seconds
        found[place] = (re.sub(r'"seconds": [\d.]+', "", said), written)
    assert found["local"][0] == found["ray"][0]
    local, there = found["local"][1], found["ray"][1]
    assert sorted(local) == sorted(there)
    assert [name for name in local if local[name].replace(b"local", b"ray") != there[name]] == []
    assert len([name for name in local if name.endswith(".wav")]) == 15
    assert not list(tmp_path.rglob("*.inbox"))


def test_results_in_the_inbox_are_not_computed_again(ray: RayExecutor, tmp_path: Path) -> None:
    """The process that had sent them was killed: its results are in the inbox."""
    source = open_corpus(make_folder(tmp_path / "in", 4))
    cache = Cache(tmp_path / "cache.sqlite")
    key = cache.keys(Cues().fingerprint(), source)["s1/u001"]
    assert cache.inbox is not None
    put_in_inbox(np.full(8, 7.0), cache.inbox, key)
    found = extract(source, Cues(), cache=cache, jobs=ray)
    expected = extract(source, Cues())
    assert np.array_equal(found["s1/u001"], np.full(8, 7.0))
    for name in ("s0/u000", "s2/u002", "s0/u003"):
        assert np.array_equal(found[name], expected[name])
    assert not cache.inbox.exists()
    cache.close()
    with pytest.raises(InputError, match=r"a cluster needs a place for its results \(give --cache FILE, on storage"):
        extract(source, Cues(), jobs=ray)


# --- A node dies --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Slow(B2):
    """B2 that takes its time, so that there is a middle, and counts how often it is called, in the working folder."""

    def transform(self, samples: Samples, rng: np.random.Generator) -> Samples:
        part = Path("ray/s0/.voiceveil-part-of-a-dead-node")  # as if it were killed while it writes
        part.parent.mkdir(parents=True, exist_ok=True)
        part.touch()
        time.sleep(0.15)
        return super().transform(samples, rng)


@pytest.mark.slow
def test_killed_node_does_not_lose_results(nodes: Nodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is lost, and nothing is booked twice: the output is that of a local run, to the byte."""
    source = make_folder(tmp_path / "in", 60)
    slow = Slow()
    object.__setattr__(slow, "name", "b2")
    anonymize(source, tmp_path / "local", seed=1, system="b2")
    monkeypatch.chdir(tmp_path)
    victim = nodes.add()
    booked: list[str] = []
    add = Ledger.add

    def adding(self: Ledger, id: str, *rest: Any) -> None:
        booked.append(id)
        add(self, id, *rest)

    monkeypatch.setattr(Ledger, "add", adding)

    def kill() -> None:
        while len(booked) < 15:
            time.sleep(0.01)
        seen.append(len(booked))
        nodes.kill(victim)

    seen: list[int] = []
    killer = threading.Thread(target=kill)
    with ray_executor(nodes.address, block=1.0) as executor:
        assert executor.workers == 3
        killer.start()
        summary = anonymize(source, tmp_path / "ray", system=slow, seed=1, jobs=executor)
    killer.join()
    assert 15 <= seen[0] < 50, "killed in the middle"
    assert (summary.done, summary.failures) == (60, ())
    assert len(booked) == 60
    assert Counter(booked).most_common(1)[0][1] == 1
    assert tree(tmp_path / "ray") == tree(tmp_path / "local")


# --- What a user does wrong ---------------------------------------------------------------------------------------


def test_missing_cluster_and_invalid_options_are_rejected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = make_folder(tmp_path / "in", 1)
    command = ["anonymize", str(source), str(tmp_path / "out"), "--system", "b2"]
    assert main([*command, "--address", "head:6379"]) == 1
    assert "--address head:6379 is only for --executor ray (add --executor ray)" in capsys.readouterr().err
    assert main([*command, "--executor", "ray", "--address", "ray://head:10001"]) == 1
    assert "run this on a node of the cluster, with --address HOST:PORT" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "ray", None)
    assert main([*command, "--executor", "ray"]) == 1
    assert "Ray is not installed (pip install 'voiceveil[cluster]')" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
