"""The local executor: results, exceptions, look-ahead, and processes that die or are left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from voiceveil.core.errors import InputError, OutputError
from voiceveil.run.local import run_items


def square(number: int) -> int:
    return number * number


def slow_square(number: int) -> int:
    time.sleep(0.02 * (number % 3))
    return number * number


def fail_on_odd(number: int) -> int:
    if number % 2:
        raise InputError(f"{number} is odd", where="numbers", line=number, fix="double it")
    return number


def disk_full(number: int) -> int:
    raise OutputError("cannot write", where=str(number))


class Awkward(Exception):
    """Cannot be rebuilt from its arguments, as quite some exceptions of libraries."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text}")


def fail_awkwardly(number: int) -> int:
    raise Awkward(number, "no way back")


def give_a_lambda(number: int) -> object:
    return lambda: number


def die(number: int) -> int:
    if number == 3:
        os._exit(1)
    return number


def be_killed(number: int) -> int:
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def process_id(_: int) -> int:
    time.sleep(0.05)
    return os.getpid()


def leave_python(_: int) -> int:
    raise SystemExit(3)


class Counted:
    """Items, and how many have been asked for."""

    def __init__(self, total: int) -> None:
        self.total, self.asked = total, 0

    def __iter__(self) -> Iterator[int]:
        for number in range(self.total):
            self.asked += 1
            yield number


@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_every_item_runs_once(jobs: int) -> None:
    results = list(run_items(slow_square, range(40), jobs=jobs))
    assert sorted(results) == [(n, n * n) for n in range(40)]


@pytest.mark.parametrize("jobs", [1, 2])
def test_no_items_give_no_results(jobs: int) -> None:
    assert list(run_items(square, [], jobs=jobs)) == []


def test_one_job_runs_in_this_process_in_order() -> None:
    pids = list(run_items(process_id, range(2), jobs=1))
    assert pids == [(0, os.getpid()), (1, os.getpid())]


def test_two_jobs_run_in_two_other_processes() -> None:
    pids = {pid for _, pid in run_items(process_id, range(20), jobs=2)}
    assert len(pids) == 2
    assert os.getpid() not in pids


@pytest.mark.parametrize("jobs", [0, -1])
def test_zero_jobs_are_rejected(jobs: int) -> None:
    with pytest.raises(InputError, match=f"--jobs {jobs}: at least one"):
        list(run_items(square, [1], jobs=jobs))


@pytest.mark.parametrize("jobs", [1, 2])
def test_exception_is_a_result(jobs: int) -> None:
    results = dict(run_items(fail_on_odd, range(10), jobs=jobs))
    assert sorted(results) == list(range(10))
    for number, result in results.items():
        if number % 2:
            assert type(result) is InputError
            assert (result.where, result.line, result.fix) == ("numbers", number, "double it")
        else:
            assert result == number


@pytest.mark.parametrize("jobs", [1, 2])
def test_error_types_are_kept(jobs: int) -> None:
    assert [type(result) for _, result in run_items(disk_full, [1], jobs=jobs)] == [OutputError]


@pytest.mark.parametrize("jobs", [1, 2])
def test_unpicklable_exception_is_reported(jobs: int) -> None:
    results = [result for _, result in run_items(fail_awkwardly, range(5), jobs=jobs)]
    assert len(results) == 5
    for result in results:
        assert isinstance(result, Exception)
        assert "no way back" in str(result)


def test_traceback_of_the_worker_is_kept() -> None:
    ((_, error),) = run_items(fail_on_odd, [1], jobs=2)
    assert isinstance(error, Exception)
    assert "in fail_on_odd" in str(error.__cause__)


def test_unpicklable_result_is_an_exception() -> None:
    results = [result for _, result in run_items(give_a_lambda, range(3), jobs=2)]
    assert [isinstance(result, Exception) for result in results] == [True] * 3


@pytest.mark.parametrize("jobs", [1, 2])
def test_system_exit_is_not_a_result(jobs: int) -> None:
    with pytest.raises(SystemExit):
        list(run_items(leave_python, [1], jobs=jobs))


@pytest.mark.parametrize(("jobs", "ahead"), [(1, 1), (2, 10), (3, 15)])
def test_items_are_taken_lazily(jobs: int, ahead: int) -> None:
    items = Counted(1000)
    results = run_items(square, items, jobs=jobs)
    for done, _ in enumerate(results, 1):
        assert items.asked <= done + ahead
        if done == 50:
            break
    results.close()
    assert items.asked <= 50 + ahead


@pytest.mark.parametrize("function", [die, be_killed])
def test_dead_worker_is_an_input_error(function: object) -> None:
    with pytest.raises(InputError, match=r"a worker died, perhaps for lack of memory \(run again with fewer --jobs"):
        list(run_items(function, range(100), jobs=2))  # type: ignore[arg-type]


def test_executor_works_again_after_a_dead_worker() -> None:
    with pytest.raises(InputError):
        list(run_items(die, range(10), jobs=2))
    assert sorted(run_items(square, range(5), jobs=2)) == [(n, n * n) for n in range(5)]


def failing_items() -> Iterator[int]:
    yield 1
    raise InputError("the list is damaged")


@pytest.mark.parametrize("jobs", [1, 2])
def test_exception_of_the_item_iterator_is_raised(jobs: int) -> None:
    with pytest.raises(InputError, match="the list is damaged"):
        list(run_items(square, failing_items(), jobs=jobs))


# --- Processes left behind ----------------------------------------------------------------------------------------


def is_alive(pid: int) -> bool:
    """A zombie is dead: it only waits for its parent to look."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_until_dead(pids: set[int], seconds: float) -> set[int]:
    """Those that still live after some seconds."""
    end = time.monotonic() + seconds
    while (alive := {pid for pid in pids if is_alive(pid)}) and time.monotonic() < end:
        time.sleep(0.02)
    return alive


def test_closing_ends_all_workers() -> None:
    results = run_items(process_id, Counted(1000), jobs=2)
    pids = {result for _, (_, result) in zip(range(10), results, strict=False) if isinstance(result, int)}
    assert len(pids) == 2
    results.close()
    assert wait_until_dead(pids, 0.0) == set()


# Prints the workers' ids as they come; items take long once a certain file is there.
PROGRAM = """
import os, sys, time
from voiceveil.run.local import run_items

def work(number):
    time.sleep(float(sys.argv[1]) if os.path.exists(sys.argv[2]) else 0.02)
    return os.getpid()

if __name__ == "__main__":
    try:
        for number, pid in run_items(work, range(10**9), jobs=2):
            print(pid, flush=True)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""


def start_program(folder: Path, seconds: float) -> tuple[subprocess.Popen[str], set[int]]:
    """A program with two workers, in a process group of its own as a shell would make it."""
    (folder / "program.py").write_text(PROGRAM)
    command = [sys.executable, str(folder / "program.py"), str(seconds), str(folder / "go")]
    program = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert program.stdout is not None
    pids: set[int] = set()
    while len(pids) < 2:
        pids.add(int(program.stdout.readline()))
    (folder / "go").touch()
    time.sleep(0.2)  # now both are in the middle of a long item
    return program, pids


def test_killing_the_parent_ends_the_workers(tmp_path: Path) -> None:
    """Even in the middle of an item that would take a minute."""
    program, pids = start_program(tmp_path, 60)
    assert all(map(is_alive, pids))
    program.kill()
    alive = wait_until_dead(pids, 2.0)
    program.communicate(timeout=10)
    assert alive == set()


def test_killing_the_parent_ends_all_its_processes(tmp_path: Path) -> None:
    """The server that forks the workers goes as well."""
    program, _ = start_program(tmp_path, 60)
    group = {
        int(path.parent.name)
        for path in Path("/proc").glob("[0-9]*/stat")
        if is_alive(int(path.parent.name)) and _group(path) == program.pid
    }
    assert len(group) >= 4  # the program, the server, two workers
    program.kill()
    program.communicate(timeout=10)
    assert wait_until_dead(group, 3.0) == set()


def _group(path: Path) -> int:
    try:
        return int(path.read_text().rpartition(")")[2].split()[2])
    except OSError:
        return -1


def test_interrupt_ends_without_traceback(tmp_path: Path) -> None:
    """A terminal sends SIGINT to the whole group: workers finish their item, and no traceback of theirs is seen."""
    program, pids = start_program(tmp_path, 0.3)
    os.killpg(program.pid, signal.SIGINT)
    out, err = program.communicate(timeout=20)
    assert out.splitlines()[-1] == "interrupted"
    assert err == ""
    assert program.returncode == 0
    assert wait_until_dead(pids, 1.0) == set()
