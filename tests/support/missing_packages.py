"""Skip tests that need an optional package that is not installed, and say which extra brings it.

Without this a clone with the plain package alone could not even collect all tests. Where all extras are installed, as
in CI, nothing is skipped here.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Generator
from importlib.util import find_spec
from typing import Any

import pytest

from tests.support.paths import ROOT
from voiceveil.core.errors import InputError

#: Packages whose import name differs from the name that pip knows.
_IMPORT_NAMES = {
    "moonshine-voice": "moonshine_voice",
    "AMFM_decompy": "amfm_decompy",
    "swift-f0": "swift_f0",
    "kaldi-native-fbank": "kaldi_native_fbank",
    "pyyaml": "yaml",
}


def optional_packages() -> dict[str, str]:
    """Return import name -> first extra of pyproject.toml that lists the package."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    packages: dict[str, str] = {}
    for extra, requirements in extras.items():
        for requirement in requirements:
            name = re.split(r"[^\w-]", requirement)[0]
            packages.setdefault(_IMPORT_NAMES.get(name, name), extra)
    return packages


def reason(error: BaseException) -> str:
    """Return why a test cannot run here, if ``error`` is due to an optional package that is missing; else ""."""
    missing = {name: extra for name, extra in optional_packages().items() if find_spec(name) is None}
    if isinstance(error, ModuleNotFoundError):
        name = (error.name or "").partition(".")[0]
        return f"not installed: {name} (pip install 'voiceveil[{missing[name]}]')" if name in missing else ""
    if isinstance(error, InputError) and missing and "pip install 'voiceveil[" in error.fix:
        return f"not installed: {error}"
    return ""


class SkippingModule(pytest.Module):
    """A module of tests that is skipped if its imports need an optional package that is missing."""

    def _getobj(self) -> Any:
        try:
            return super()._getobj()  # type: ignore[no-untyped-call]
        except self.CollectError as error:
            if error.__cause__ is not None and (why := reason(error.__cause__)):
                pytest.skip(why, allow_module_level=True)
            raise


def skip_if_missing() -> Generator[None]:
    """Wrap a hook of a test: an error that is due to a missing package becomes a skip."""
    try:
        return (yield)
    except (ModuleNotFoundError, InputError) as error:
        if why := reason(error):
            pytest.skip(why)
        raise
