"""How much memory a process took at most."""

from __future__ import annotations

from pathlib import Path

__all__ = ["peak_memory"]


def peak_memory() -> int:
    """Most megabytes of this process at any time since its program was started (Linux).

    Not ``ru_maxrss``: that one begins at the peak of the process which started it, and a small child of a large
    parent seems as large.
    """
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.partition("VmHWM:")[2].split()[0]) // 1024
