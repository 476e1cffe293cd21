"""``check_anonymizer``: does a system keep the contract? For our systems and for yours.

    from voiceveil.testing import check_anonymizer
    check_anonymizer(MySystem())          # raises AssertionError with the names of the failed checks

The checks themselves are in :mod:`voiceveil.testing.checks` and :mod:`voiceveil.testing.run_checks`. They run in
the order of their definition, on the one instance that is given.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from voiceveil.audio import Waveform
from voiceveil.systems.contract import Anonymizer

__all__ = ["CHECKS", "CheckResult", "NotApplicable", "check", "check_anonymizer"]


@dataclass(frozen=True)
class CheckResult:
    """The outcome of one check; ``message`` says why it failed or does not apply."""

    name: str
    status: Literal["passed", "failed", "skipped"]
    message: str = ""


class NotApplicable(Exception):
    """A check that makes no sense for this system."""


Check = Callable[[Anonymizer], None]
CHECKS: dict[str, Check] = {}


def check(function: Check) -> Check:
    """Register a function that takes a system and asserts a property as a check of the same name."""
    CHECKS[function.__name__.strip("_").replace("_", "-")] = function
    return function


def check_anonymizer(
    system: Anonymizer, *, raise_on_failure: bool = True, speech: Waveform | None = None
) -> list[CheckResult]:
    """Run all conformance checks of an anonymization system.

    Parameters
    ----------
    system
        The system.
    raise_on_failure
        Raise an ``AssertionError`` that lists the failed checks.
    speech
        A recording of real speech, if there is one; it and a whispered version of it must change as well.

    Returns
    -------
    list of CheckResult
        One for each check.
    """
    from voiceveil.testing import checks, run_checks  # noqa: F401 -- both fill CHECKS, in this order
    from voiceveil.testing.voices import whispered

    chosen = dict(CHECKS)
    if speech is not None:
        chosen["real-voice-changes"] = lambda system: checks.assert_changes(system, speech)
        chosen["real-whispered-voice-changes"] = lambda system: checks.assert_changes(system, whispered(speech))
    results = [_run(name, function, system) for name, function in chosen.items()]
    failed = [result for result in results if result.status == "failed"]
    if failed and raise_on_failure:
        lines = "\n".join(f"  {result.name}: {result.message}" for result in failed)
        raise AssertionError(f"{system!r} fails {len(failed)} of {len(results)} checks:\n{lines}")
    return results


def _run(name: str, function: Check, system: Anonymizer) -> CheckResult:
    try:
        function(system)
    except NotApplicable as reason:
        return CheckResult(name, "skipped", str(reason))
    except AssertionError as error:
        return CheckResult(name, "failed", str(error) or "assertion failed")
    except (Exception, SystemExit) as error:  # whatever a system does is a failed check, not the end of the others
        return CheckResult(name, "failed", f"{type(error).__name__}: {error}")
    return CheckResult(name, "passed")
