"""Check the installation: versions, optional packages, models, device, write access, and a short self-test.

Optional packages that are missing are no fault: the list says which extra installs them. Exit code 1 if something that
is installed does not work.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from voiceveil.cli.extras import EXTRAS
from voiceveil.cli.options import add_json, default_jobs
from voiceveil.core.errors import InputError
from voiceveil.core.terminal import print_styled

EXAMPLES = """\
examples:
  voiceveil doctor
  voiceveil doctor --json           to attach to a bug report
"""
_STYLES = {"ok": "green", "missing": "yellow", "FAILED": "red"}


class Finding(NamedTuple):
    """One line: what was looked at, whether it works, and a text."""

    group: str
    name: str
    state: Literal["ok", "missing", "FAILED"]
    text: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_json(parser, "the findings")


def run(args: argparse.Namespace) -> int:
    """Print the findings as they come; return 1 if something failed."""
    findings: list[Finding] = []
    for finding in _findings():
        if not args.json:
            if not findings or findings[-1].group != finding.group:
                print_styled((finding.group, "bold"))
            state = (finding.state.ljust(8), _STYLES[finding.state])
            print_styled(("  ", ""), state, (f"{finding.name.ljust(18)}  {finding.text}".rstrip(), ""))
        findings.append(finding)
    failed = [finding for finding in findings if finding.state == "FAILED"]
    if args.json:
        print(json.dumps([finding._asdict() for finding in findings], indent=2))
    else:
        print_styled((f"{len(failed)} of {len(findings)} checks failed" if failed else "everything works", "bold"))
    return 1 if failed else 0


def _findings() -> Iterator[Finding]:
    yield Finding("versions", "voiceveil", "ok", version("voiceveil"))
    yield Finding("versions", "python", "ok", f"{platform.python_version()} ({sys.executable})")
    yield Finding("versions", "system", "ok", platform.platform())
    yield from _packages()
    yield from _models()
    yield from _device()
    yield from _write_access()
    yield from _self_test()


def _packages() -> Iterator[Finding]:
    distributions = packages_distributions()
    for package in ("numpy", "scipy", "soundfile", "soxr", "numba", *EXTRAS):
        if find_spec(package) is None:
            yield Finding("packages", package, "missing", f"pip install 'voiceveil[{EXTRAS.get(package, '')}]'")
            continue
        try:
            installed = version(distributions.get(package, [package])[0])
        except PackageNotFoundError:
            installed = "installed"
        yield Finding("packages", package, "ok", installed)


def _models() -> Iterator[Finding]:
    from voiceveil.models.weights import store

    for name in store.names():
        yield _checked("models", name, lambda name=name: f"{store.path(name).stat().st_size / 1e6:.1f} MB")  # type: ignore[misc]


def _device() -> Iterator[Finding]:
    yield Finding("device", "processor cores", "ok", f"{default_jobs()} for --jobs ({os.cpu_count()} in this computer)")
    if find_spec("torch") is None:
        return
    import torch

    names = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    yield Finding("device", "graphics cards", "ok", ", ".join(names) or "none: networks run on the processor")


def _write_access() -> Iterator[Finding]:
    folders = {"working folder": Path.cwd(), "temporary folder": Path(tempfile.gettempdir())}
    for name, folder in folders.items():

        def write(folder: Path = folder) -> str:
            with tempfile.TemporaryFile(dir=folder) as file:
                file.write(b"voiceveil")
            return str(folder)

        yield _checked("write access", name, write)


def _self_test() -> Iterator[Finding]:
    """Anonymize three seconds of synthetic speech by both systems that can be the default."""
    for name in ("b2", "veil"):
        yield _checked("self-test", name, lambda name=name: _anonymize(name))  # type: ignore[misc]


def _anonymize(name: str) -> str:
    from voiceveil.systems import system
    from voiceveil.testing import synthetic_voice

    start = time.monotonic()
    voice = synthetic_voice(0, 0, seconds=3.0)
    converted = system(name).convert(voice, np.random.default_rng(0))
    seconds = time.monotonic() - start
    count = min(len(voice.samples), len(converted.samples))
    if not count or np.allclose(voice.samples[:count], converted.samples[:count], atol=1e-3):
        raise InputError(f"{name} did not change the voice")
    return f"3 s of speech in {seconds:.1f} s, models included"


def _checked(group: str, name: str, check: Callable[[], str]) -> Finding:
    """Return what a check says, or why it failed; a missing package is no failure."""
    try:
        return Finding(group, name, "ok", check())
    except InputError as error:
        return Finding(group, name, "missing" if "pip install" in error.fix else "FAILED", str(error))
    except ModuleNotFoundError as error:
        return Finding(group, name, "missing", f"{error}")
    except Exception as error:
        return Finding(group, name, "FAILED", f"{type(error).__name__}: {error}")
