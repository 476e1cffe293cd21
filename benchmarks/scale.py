"""Past one machine: what a Ray cluster costs, what it gains, and what the driver holds in memory.

    python benchmarks/scale.py [--items 480] [--rounds 3] [--lines 1000,1000000] [--json FILE]

The cluster is real (``ray.cluster_utils.Cluster``), but all its nodes are on this machine, of one core each.

* throughput: items of 5 s through B2, on one worker and on two;
* overhead: the same items by the local executor, in turns with one worker of the cluster. Once by the clock (the best
  round), once by processor time (of all processes, the median round), which other work on the machine hardly disturbs;
* memory: the peak of a driver that goes through manifests of different length. All that a driver does is done, from
  the first line read to the last line written; the workers only pretend, as a million conversions would take a day;
* train-clean-360 on paper: 104,014 utterances, 364 h. Its time is what the driver needs before the first block, and
  then the slower of the two: the workers (audio / pace of a worker / cores, and a last block), or the driver.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

from voiceveil.audio import AudioInfo, save
from voiceveil.corpus import Corpus, Utterance, open_corpus
from voiceveil.run.cluster import BLOCK, ray_executor
from voiceveil.run.executor import Jobs
from voiceveil.systems import anonymize, jobs
from voiceveil.systems.worker import Done, Job
from voiceveil.testing import synthetic_voice
from voiceveil.testing.memory import peak_memory
from voiceveil.testing.nodes import ray_nodes

SECONDS = 5.0  # of an item
UTTERANCES, HOURS = 104_014, 364.0  # of train-clean-360
TICKS = os.sysconf("SC_CLK_TCK")


def processor_seconds() -> float:
    """Of this process and all below it: raylets, their agents and workers."""
    parents: dict[int, int] = {}
    used: dict[int, float] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)] = int(fields[1])
            used[int(entry.name)] = sum(map(int, fields[11:15])) / TICKS  # its own, and of children that ended

    def ours(pid: int) -> bool:
        return pid == os.getpid() or (pid in parents and ours(parents[pid]))

    return sum(value for pid, value in used.items() if ours(pid))


def measured(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds by the clock and of processors."""
    before, start = processor_seconds(), time.perf_counter()
    work()
    return time.perf_counter() - start, processor_seconds() - before


def compare(folder: Path, items: int, rounds: int) -> dict[str, float]:
    """Throughput and overhead."""
    source = folder / "in"
    for number in range(items):
        save(source / f"{number:04d}.wav", synthetic_voice(number % 7, number, seconds=SECONDS))
    corpus = open_corpus(source)
    # The length is in the metadata, as in a manifest: a driver that must read headers does so beside the work.
    corpus = Corpus(corpus.name, tuple(_with_length(u) for u in corpus), kind="folder", root=corpus.root)
    runs: dict[str, list[tuple[float, float]]] = {"local": [], "one": [], "two": []}

    def run(name: str, jobs: Jobs) -> None:
        out = folder / name
        runs[name].append(measured(lambda: anonymize(corpus, out, seed=1, overwrite=True, jobs=jobs, system="b2")))

    with ray_nodes(1) as nodes:
        with ray_executor(nodes.address) as executor:
            for _ in range(rounds + 1):  # the first round starts workers and loads what is compiled
                run("local", 1)
                run("one", executor)
            nodes.add()
        with ray_executor(nodes.address) as executor:
            for _ in range(rounds + 1):
                run("two", executor)
    files = [sorted((folder / name).rglob("*.wav")) for name in runs]
    same = all(a.read_bytes() == b.read_bytes() for others in files[1:] for a, b in zip(files[0], others, strict=True))
    assert same, "the results differ"
    clock = {name: min(wall for wall, _ in runs[name][1:]) / items for name in runs}
    spent = {name: statistics.median(used for _, used in runs[name][1:]) / items for name in runs}
    for name, label in (("local", "local executor, 1 job"), ("one", "Ray, 1 worker"), ("two", "Ray, 2 workers")):
        pace = SECONDS / clock[name]
        print(
            f"{label:22} {1 / clock[name]:6.1f} items/s  {pace:6.0f} x real time  {1e3 * spent[name]:.1f} ms processor"
        )
    found = {
        "items_per_second_1": 1 / clock["one"],
        "items_per_second_2": 1 / clock["two"],
        "overhead_clock": clock["one"] / clock["local"] - 1,
        "overhead_processor": spent["one"] / spent["local"] - 1,
        "pace": SECONDS / clock["one"],
    }
    print(f"two workers against one: {clock['one'] / clock['two']:.2f} x")
    print(
        f"overhead an item: {found['overhead_clock']:.1%} by the clock, {found['overhead_processor']:.1%} of processors"
    )
    return found


def _with_length(utterance: Utterance) -> Utterance:
    return Utterance(utterance.id, utterance.path, seconds=SECONDS)


# --- Memory -------------------------------------------------------------------------------------------------------


def pretend(job: Job, **options: object) -> Done:
    """What a worker says when it has done its work; it has not, and its file is empty."""
    job.part.parent.mkdir(parents=True, exist_ok=True)
    job.part.touch()
    return Done(SECONDS, SECONDS, AudioInfo(16000, 1, 0), False, False, "0" * 64, "0" * 64)


def drive(manifest: str, out: str, address: str) -> None:
    """The driver whose memory is measured."""
    import scale  # workers know this module by its name

    setattr(jobs, "run_job", scale.pretend)  # noqa: B010 -- it is not ours to replace, says mypy
    start, began = time.perf_counter(), 0.0
    with ray_executor(address) as executor:
        first = executor.run

        def run(*args: Any, **options: Any) -> Any:
            nonlocal began
            began = time.perf_counter() - start
            return first(*args, **options)

        executor.run = run  # type: ignore[method-assign]
        summary = anonymize(manifest, out, seed=1, jobs=executor, system="b2")
        assert not summary.failures
        usage = resource.getrusage(resource.RUSAGE_SELF)
    said = {
        "items": summary.done,
        "peak_mb": peak_memory(),
        "seconds": time.perf_counter() - start,
        "seconds_before": began,
        "processor_seconds": usage.ru_utime + usage.ru_stime,
    }
    print(json.dumps(said))


def memory(folder: Path, lines: list[int]) -> dict[int, dict[str, float]]:
    """Peak of the driver for manifests of so many lines."""
    audio = folder / "a.wav"
    save(audio, synthetic_voice(1, seconds=0.1))
    found = {}
    with ray_nodes(1) as nodes:
        for count in lines:
            manifest = folder / f"{count}.jsonl"
            with manifest.open("w") as file:
                for number in range(count):
                    row = {"id": f"speaker{number % 1000:04d}-{number:07d}", "path": str(audio), "seconds": SECONDS}
                    file.write(json.dumps(row) + "\n")
            command = [sys.executable, __file__, "--drive", str(manifest), str(folder / str(count)), nodes.address]
            place = str(Path(__file__).parent)
            done = subprocess.run(
                command, capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": place}
            )
            found[count] = json.loads(done.stdout.splitlines()[-1])
            assert found[count]["items"] == count
            one = found[count]
            spent, clock = (1e6 * one[name] / count for name in ("processor_seconds", "seconds"))
            print(
                f"{count:9,} lines: {one['peak_mb']:.0f} MB; a line: {spent:.0f} us of processor, {clock:.0f} us in all"
            )
    return found


def on_paper(pace: float, driver: dict[str, float]) -> dict[int, float]:
    """Seconds for train-clean-360 on so many cores."""
    before = driver["seconds_before"] / driver["items"] * UTTERANCES
    serial = (driver["seconds"] - driver["seconds_before"]) / driver["items"] * UTTERANCES
    found = {}
    print(f"train-clean-360, B2 at {pace:.0f} x real time; driver: {before:.0f} s before, {serial:.0f} s beside")
    for cores in (16, 64, 256):
        workers = HOURS * 3600 / pace / cores + BLOCK / pace
        found[cores] = before + max(workers, serial)
        bound = "workers" if workers > serial else "driver"
        print(f"{cores:5} cores: {found[cores] / 60:6.1f} min  ({workers:.0f} s of work; bound by the {bound})")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=480)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--lines", default="1000,1000000")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--drive", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.drive:
        drive(*args.drive)
        return
    with tempfile.TemporaryDirectory() as folder:
        found = compare(Path(folder), args.items, args.rounds)
    with tempfile.TemporaryDirectory() as folder:
        drivers = memory(Path(folder), [int(count) for count in args.lines.split(",")])
    largest = drivers[max(drivers)]
    paper = on_paper(found["pace"], largest)
    within = "yes" if found["overhead_clock"] <= 0.10 else "no"
    flat = "yes" if largest["peak_mb"] < 300 else "no"
    print(f"overhead at most 10%: {within}; driver under 300 MB: {flat}")
    if args.json:
        args.json.write_text(json.dumps({**found, "drivers": drivers, "train_clean_360": paper}, indent=1) + "\n")


if __name__ == "__main__":
    main()
