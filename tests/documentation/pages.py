"""The code blocks of README.md, CONTRIBUTING.md and docs/*.md.

A block that cannot run in a test has an HTML comment in the line before it: ``<!-- not run: REASON -->``. Readers of
the rendered page do not see it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tests.support.paths import ROOT

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
#: Languages of blocks that are run, and of those that are not code.
RUN, SHOWN = {"sh", "python"}, {"text", "toml", "json", "html"}

_FENCE = re.compile(r"^```(\w*)\s*$")
_NOT_RUN = re.compile(r"^<!-- not run: (.+) -->$")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, the line that it starts in, and why it is not run ("" if it is)."""

    page: Path
    line: int
    language: str
    text: str
    not_run: str = ""

    @property
    def is_doctest(self) -> bool:
        """Whether the block is a Python session with ``>>>`` prompts."""
        return self.language == "python" and self.text.startswith(">>> ")


def blocks(page: Path) -> list[Block]:
    """Return all fenced blocks of a page, in order."""
    found: list[Block] = []
    lines = page.read_text().splitlines()
    number = 0
    while number < len(lines):
        fence = _FENCE.match(lines[number])
        if fence is None:
            number += 1
            continue
        end = lines.index("```", number + 1)
        remark = _NOT_RUN.match(lines[number - 1]) if number else None
        text = "\n".join(lines[number + 1 : end]) + "\n"
        found.append(Block(page, number + 1, fence[1], text, remark[1] if remark else ""))
        number = end + 1
    return found


def indented_commands(page: Path) -> list[str]:
    """Return commands in indented blocks, which nothing would run."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S)
    return re.findall(r"^    (?:voiceveil|python|pip|make) .*", text, flags=re.M)
