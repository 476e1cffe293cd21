"""Imported for its effect: what workers of resynthesis need is in memory before they are forked."""

from __future__ import annotations

import onnxruntime  # noqa: F401
import swift_f0  # noqa: F401
