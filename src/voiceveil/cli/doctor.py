"""Check the installation: versions, optional packages, models, device, write access, and a short self-test.

Optional packages that are missing are no fault: the list says which extra installs them. Exit code 1 if something that
is installed does not work.
"""

from __future__ import annotations

import argparse
import json

from voiceveil.cli.options import add_json
from voiceveil.core.terminal import print_styled

EXAMPLES = """\
examples:
  voiceveil doctor
  voiceveil doctor --json           to attach to a bug report
"""
_STYLES = {"ok": "green", "missing": "yellow", "FAILED": "red"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_json(parser, "the findings")


def run(args: argparse.Namespace) -> int:
    """Print the findings as they come; return 1 if something failed."""
    from voiceveil.api.installation import Finding, check_installation

    findings: list[Finding] = []
    for finding in check_installation():
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
