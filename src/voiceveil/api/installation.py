"""Checks of an installation: versions, packages, formats, models, device, write access, and a short self-test."""

from __future__ import annotations

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

from voiceveil.core.errors import InputError
from voiceveil.core.extras import EXTRAS
from voiceveil.run.device import available_devices, current_device, use_device
from voiceveil.run.executor import default_jobs

__all__ = ["Finding", "check_installation"]


class Finding(NamedTuple):
    """Result of a check: its group and name, whether it works, and details."""

    group: str
    name: str
    state: Literal["ok", "missing", "FAILED"]
    text: str


def check_installation() -> Iterator[Finding]:
    """Yield the result of each check as it is done; a missing optional package is not a failure."""
    yield Finding("versions", "voiceveil", "ok", version("voiceveil"))
    yield Finding("versions", "python", "ok", f"{platform.python_version()} ({sys.executable})")
    yield Finding("versions", "system", "ok", platform.platform())
    yield from _packages()
    yield from _formats()
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


def _formats() -> Iterator[Finding]:
    """Name the formats of recordings that can be read."""
    yield Finding("formats", "libsndfile", "ok", "WAV, FLAC, Ogg (Vorbis, Opus), MP3, AIFF, AU, CAF, W64")
    names = "M4A, AAC, AMR, WMA; video: MP4, MOV, WebM, MKV, AVI, 3GP, MPEG, WMV"
    if find_spec("av") is None:
        yield Finding("formats", "PyAV", "missing", f"{names}: pip install 'voiceveil[media]'")
    else:
        yield Finding("formats", "PyAV", "ok", names)


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
    yield Finding("device", "graphics cards", "ok", ", ".join(names) or "none that CUDA knows")
    with use_device("auto"):
        choices = ", ".join(available_devices())
        yield Finding("device", "networks", "ok", f"{current_device()} with --device auto, of {choices}")


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
    """Return the details that a check returns, or why it failed; a missing package is not a failure."""
    try:
        return Finding(group, name, "ok", check())
    except InputError as error:
        return Finding(group, name, "missing" if "pip install" in error.fix else "FAILED", str(error))
    except ModuleNotFoundError as error:
        return Finding(group, name, "missing", f"{error}")
    except Exception as error:
        return Finding(group, name, "FAILED", f"{type(error).__name__}: {error}")
