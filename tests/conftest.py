"""Settings of all tests, the option --quick, and the guard against the network."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.support.loopback import loopback_only
from tests.support.missing_packages import SkippingModule, skip_if_missing
from tests.support.paths import ROOT
from tests.support.quick import skip_heavy_imports

# One thread a process, before anybody imports torch: threads that wait for each other make busy machines crawl.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

# What a shell starts in the background ignores Ctrl-C, and so would all programs that tests start and end by it.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Compiled functions take their time at the first call: no limit for a single example.
settings.register_profile("voiceveil", deadline=None)
settings.load_profile("voiceveil")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--quick",
        action="store_true",
        help="skip tests that are slow or need torch, a browser, a cluster or a database",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--quick"):
        skip_heavy_imports()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the folder whose tests kill, starve and flood processes."""
    return True if config.getoption("--quick") and collection_path == ROOT / "tests" / "faults" else None


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module:
    return SkippingModule.from_parent(parent, path=module_path)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Generator[None]:
    return (yield from skip_if_missing())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None]:
    return (yield from skip_if_missing())


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--quick"):
        slow = [item for item in items if item.get_closest_marker("slow")]
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if item not in set(slow)]


@pytest.fixture(scope="session", autouse=True)
def _offline() -> Iterator[None]:
    """No test leaves this machine; ``tests/support/loopback.py`` says what this covers and what not."""
    with loopback_only():
        yield
