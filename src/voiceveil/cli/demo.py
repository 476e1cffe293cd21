"""The whole way on a small corpus: synthesise voices, anonymize, attack, recognise, rank, report.

Needs the extras `demo` and `eval` (pip install 'voiceveil[demo,eval]'); nothing is downloaded at run time. With `demo`
alone, real speech that comes with a dependency is anonymized, and that is all.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import shutil
import sys
from pathlib import Path

from voiceveil.apps.demo.espeak import is_installed
from voiceveil.audio import info
from voiceveil.core.atomic_files import atomic_path
from voiceveil.core.errors import InputError
from voiceveil.run.outputs import recorded
from voiceveil.systems import anonymize
from voiceveil.systems.resolve import default_system

EXAMPLES = """\
examples:
  voiceveil demo                    into the folder voiceveil-demo
  voiceveil demo out --system d1
  voiceveil demo out --listen       anonymize three real recordings, to listen to
"""
AFTER_INTERRUPTION = "; the same command goes on where it stopped"

# Readings of Dickens and Beckett inside the wheel of moonshine-voice.
_RECORDINGS = ("two_cities.wav", "beckett.wav", "endgame_nagg_nell.wav")
_WHOLE = "pip install 'voiceveil[demo,eval]'"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("output", nargs="?", type=Path, default=Path("voiceveil-demo"), help="default: voiceveil-demo")
    parser.add_argument("--system", help="see `voiceveil systems` (default: veil, or b2 where veil cannot be used)")
    parser.add_argument("--listen", action="store_true", help="real recordings and no evaluation")
    parser.add_argument(
        "--overwrite",
        action="store_true",
        help="start again where another demo left its results, and replace files that are in the way",
    )


def run(args: argparse.Namespace) -> int:
    """All of it, or what the installed packages allow."""
    if args.system is None:
        made, warning = default_system()
        args.system = made.name
        if warning:
            print(f"voiceveil: {warning}", file=sys.stderr)
    missing = [name for name in ("torch", "onnxruntime") if importlib.util.find_spec(name) is None]
    if args.listen or missing or not is_installed():
        _listen(args.output, args.system, overwrite=args.overwrite)
        if not args.listen:
            print(f"\nThis was half of the demo. To evaluate as well: {_WHOLE}")
        return 0
    return _evaluate(args.output, args.system, overwrite=args.overwrite)


def _evaluate(output: Path, system: str, *, overwrite: bool) -> int:
    """A corpus of synthetic voices, the system and a control, the ranking, the report."""
    from voiceveil.apps.demo.corpus import NOTE, corpus_files, make_corpus

    data, results, cache = output / "data", output / "results", output / "cache.sqlite"
    plane, again = results / "plane.svg", ["--overwrite"] if overwrite else []
    with recorded(output, None, lambda: [*corpus_files(data), plane], overwrite=overwrite):
        print(f"{NOTE}\n", flush=True)
        if overwrite or not (data / "libri_train" / "wav.scp").exists():  # written last
            make_corpus(data)
        names = list(dict.fromkeys([system, "identity"]))
        for name in names:
            to = ["--out", results / name, "--seed", 1, "--cache", cache, *again]
            _run("evaluate", "--data", data, "--system", name, *to)
        figures = [results / name / "results.json" for name in names]
        _run("rank", *figures, "--split", "dev", "--svg", plane, *again)
        others = [results / name for name in names[1:]]
        _run("report", results / system, *(["--compare", *others] if others else []), *again)
    return 0


def _run(*arguments: object) -> None:
    """Say a command and run it, as the reader might."""
    words = [str(argument) for argument in arguments]
    print(f"$ voiceveil {' '.join(words)}", flush=True)
    parser = argparse.ArgumentParser()
    verb = importlib.import_module(f"voiceveil.cli.{words[0]}")
    verb.add_arguments(parser)
    verb.run(parser.parse_args(words[1:]))
    print(flush=True)


def _listen(output: Path, system: str, *, overwrite: bool) -> None:
    """Copy the recordings, anonymize them, say where they are."""
    original, anonymized = output / "original", output / "anonymized"
    recordings = {original / recording.name: recording for recording in _recordings()}
    with recorded(output, None, lambda: recordings, overwrite=overwrite):
        for copy, recording in recordings.items():
            with atomic_path(copy) as part:
                shutil.copyfile(recording, part)
    summary = anonymize(original, anonymized, system=system, overwrite=overwrite)
    print(f"Anonymized {summary.done} recordings with {system}: {summary.audio_seconds:.0f} s of speech")
    print(f"in {summary.seconds:.1f} s. Listen to the two versions of each:\n")
    for name in _RECORDINGS:
        print(f"  {original / name}   ({info(original / name).duration:.0f} s)\n  {anonymized / name}\n")
    print(
        "Each got a pseudo-speaker from a random key that was not stored: run the demo again, and they differ.\n\n"
        "Next:\n"
        "  voiceveil systems                            which systems there are, and their parameters\n"
        "  voiceveil anonymize YOUR_FOLDER OUT          your own recordings\n"
        "  voiceveil corpus check DATA                  is a corpus fit for an evaluation?\n"
        "  voiceveil check b2                           what a system must hold to"
    )


def _recordings() -> list[Path]:
    spec = importlib.util.find_spec("moonshine_voice")  # found, not imported: its microphone code needs more libraries
    if spec is None or spec.origin is None:
        raise InputError("the demo's recordings are not installed", fix="pip install 'voiceveil[demo]'")
    return [Path(spec.origin).parent / "assets" / name for name in _RECORDINGS]
