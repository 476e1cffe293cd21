"""The record of a risk assessment, with which it can be repeated: versions, command, files, system."""

from __future__ import annotations

import platform
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np

from voiceveil.risk.folders import read_release
from voiceveil.run.ledger import sha256_file

if TYPE_CHECKING:
    from voiceveil.api.risk_assessment import RiskSettings

__all__ = ["risk_record"]


def risk_record(settings: RiskSettings, command: str) -> dict[str, Any]:
    """Return versions, command and input files, to repeat the assessment."""
    about: dict[str, Any] = {
        "date": datetime.now(UTC).date().isoformat(),
        **_releases(settings),
        "voiceveil": version("voiceveil"),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "command": command,
    }
    stated = {"recipient": settings.options.recipient, "means": settings.options.means}
    about |= {name: text for name, text in stated.items() if text}
    for name, path in (("protocol", settings.protocol), ("labels", settings.labels)):
        if path is not None and path.is_file():
            about[name] = {"file": path.name, "sha256": sha256_file(path)}
    return about


def _releases(settings: RiskSettings) -> dict[str, str]:
    """Return the system and parameters that the anonymized folders record; none where there is no record."""
    records = [record for spec in settings.anonymized if (record := read_release(spec)) is not None]
    systems = dict.fromkeys(str(record["system"]) for record in records)
    parameters = dict.fromkeys(
        ", ".join(f"{name} = {value}" for name, value in record["parameters"].items())
        for record in records
        if isinstance(record.get("parameters"), dict)
    )
    return {"system": ", ".join(systems), "parameters": "; ".join(parameters)} if systems else {}
