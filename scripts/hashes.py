"""Write requirements/*.txt: all that the set-up commands install, with the sha256 of every file of each version.

    .venv/bin/python scripts/hashes.py

Run it after a change of pyproject.toml or constraints.txt, in an environment that was set up with them: what is
installed there is what is needed. The indexes that pip is set up for say which files there are. torch is not listed,
nor what its builds for graphics cards bring: which is right depends on the machine. Its version is in the Makefile.
"""

from __future__ import annotations

import html
import os
import re
import ssl
import subprocess
import sys
import tomllib
import urllib.error
import urllib.request
from functools import lru_cache
from importlib.metadata import requires, version
from pathlib import Path
from urllib.parse import unquote, urlsplit

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
#: File -> the extras that its set-up command installs.
SETS = {"demo": "demo", "dev": "dev"}
LEFT_OUT = re.compile(r"voiceveil|torch|triton|nvidia-.*|cuda-.*")
HEAD = "# Written by scripts/hashes.py: every file of each version, whichever machine it is for.\n"


def resolved(extras: str) -> dict[str, str]:
    """Package -> version of all that the project needs with these extras, as it is installed here."""
    found: dict[str, str] = {}
    left, seen = [Requirement(f"voiceveil[{extras}]"), Requirement("setuptools")], set()
    while left:
        wanted = left.pop()
        if str(wanted) in seen:
            continue
        seen.add(str(wanted))
        name = _normal(wanted.name)
        if not LEFT_OUT.fullmatch(name):
            found[name] = version(name)
        asked = [{"extra": extra} for extra in ("", *wanted.extras)]
        for needed in map(Requirement, _project(wanted.extras) if name == "voiceveil" else requires(name) or []):
            if needed.marker is None or any(needed.marker.evaluate(one) for one in asked):
                left.append(needed)
    return found


def _project(extras: set[str]) -> list[str]:
    """Return the requirements in pyproject.toml, as the metadata of an editable installation may be older."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [*project["dependencies"], *(line for extra in extras for line in project["optional-dependencies"][extra])]


def published(name: str, number: str) -> set[str]:
    """Return the sha256 of all files of a version, from the indexes that pip is set up for."""
    link = re.compile(r'<a\b[^>]*href="([^"#]*)#sha256=([0-9a-f]{64})"')
    spelled = "[-_.]+".join(map(re.escape, name.split("-")))
    start = re.compile(rf"{spelled}-{re.escape(number)}(-|\.tar|\.zip)", re.IGNORECASE)
    found = set()
    for index in _indexes():
        try:
            page = urllib.request.urlopen(f"{index}/{name}/", timeout=60, context=_context()).read().decode()  # noqa: S310
        except (urllib.error.URLError, ValueError):
            continue
        for address, digest in link.findall(page):
            if start.match(unquote(urlsplit(html.unescape(address)).path).rpartition("/")[2]):
                found.add(digest)
    return found


@lru_cache
def _indexes() -> list[str]:
    from pip._internal.models.index import PyPI

    shown = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True)
    settings = dict(re.findall(r"(?m)^(?:global|:env:)\.([\w-]+)='(.*)'$", shown.stdout))
    more = settings.get("extra-index-url", "").split()
    return [address.rstrip("/") for address in (settings.get("index-url", PyPI.simple_url), *more)]


@lru_cache
def _context() -> ssl.SSLContext:
    return ssl.create_default_context(cafile=os.environ.get("PIP_CERT"))


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def main() -> None:
    """Write the files."""
    hashes: dict[str, list[str]] = {}
    for file, extras in SETS.items():
        lines = [HEAD]
        for name, number in sorted(resolved(extras).items()):
            if name not in hashes:
                hashes[name] = sorted(published(name, number))
            if not hashes[name]:
                sys.exit(f"no index has files of {name} {number}")
            lines.append(
                " \\\n    ".join([f"{name}=={number}", *(f"--hash=sha256:{one}" for one in hashes[name])]) + "\n"
            )
        (ROOT / "requirements").mkdir(exist_ok=True)
        (ROOT / "requirements" / f"{file}.txt").write_text("".join(lines), encoding="ascii")
        print(f"requirements/{file}.txt: {len(lines) - 1} packages")


if __name__ == "__main__":
    main()
