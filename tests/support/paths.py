"""Paths of the repository, its golden files, and recordings beside it."""

from __future__ import annotations

import os
from pathlib import Path

#: The repository.
ROOT = Path(__file__).resolve().parents[2]
#: Inputs and outputs of the official code of the challenges; README.md there says where they come from.
GOLDEN = ROOT / "tests" / "golden"
#: Recordings that may not be redistributed; the tests that need them skip when they are absent.
SHARED = Path(os.environ.get("VOICEVEIL_SHARED", ROOT.parent / "shared"))
