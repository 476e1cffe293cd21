"""Stands for ``voiceveil`` on the PATH of the documentation's blocks: the real command, ended or made small.

A server is ended by Ctrl-C as soon as it says its address. Trainings and designs get the sizes of ``SMALLER`` behind
their own options (the last one counts), so that they take seconds. Everything else is run as it is written.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

#: First words of a command -> options that make it small.
SMALLER: dict[tuple[str, ...], list[str]] = {
    ("demo",): ["--listen"],
    ("anonymize", "call.wav"): ["--system", "b2"],
    ("anonymize", "turns.csv"): ["--system", "b2"],
    ("anonymize", "interviews"): ["--system", "b2"],
    ("anonymize", "--redact"): ["--system", "b2"],
    ("listen", "design"): ["--tasks", "naturalness", "preference", "--items", "4", "--evaluators", "3"],
    ("corpus", "protocol", "--legal"): ["--a-utterances", "4", "--b-utterances", "4"],
    ("risk",): ["--lengths", "1"],
    ("risk", "interviews"): ["--draws", "1"],
    ("tdsv", "make"): ["--join", "3-4", "--phrases", "4", "--known", "2", "--tests", "2", "--quiet"],
    ("train", "source-filter"): ["--size", "small", "--steps", "1", "--batch-size", "2", "--quiet"],
    ("train", "veil"): ["--size", "small", "--steps", "1", "--batch-size", "2", "--quiet"],
    ("train", "intonation"): ["--steps", "1", "--quiet"],
    ("train", "voicing"): ["--steps", "1", "--quiet"],
    ("anonymize", "pool=exp/pool"): ["--set", "candidates=2", "--set", "averaged=1"],
    ("train", "asv", "official"): [
        "--channels",
        "8",
        "--epochs",
        "1",
        "--batch-size",
        "4",
        "--seconds-per-chunk",
        "0.5",
    ],
    ("train", "ser"): ["--epochs", "1"],
    ("train", "ctc-attention"): ["--size", "small", "--steps", "1", "--batch-size", "2", "--quiet"],
    ("train", "ctc-attention-masked"): ["--size", "small", "--steps", "1", "--batch-size", "2", "--quiet"],
}
_COMMAND = [sys.executable, "-P", "-m", "voiceveil.cli.main"]


def main(arguments: list[str]) -> int:
    """Run the command; returns its exit code."""
    if arguments[:2] in (["listen", "serve"], ["board", "serve"]) or {"live", "--serve"} <= set(arguments):
        return _serve([*_COMMAND, *arguments, "--port", "0"])
    return subprocess.run([*_COMMAND, *made_small(arguments)], check=False).returncode


def made_small(arguments: list[str]) -> list[str]:
    """Return the arguments with the options of ``SMALLER``."""
    options = [option for words, more in SMALLER.items() if set(words) <= set(arguments) for option in more]
    return [*arguments, *options]


def _serve(command: list[str]) -> int:
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
        said = []
        for line in server.stdout or ():
            said.append(line)
            if "http://127.0.0.1:" in line:
                if "listen" in command:
                    _answer(Path(command[command.index("serve") + 1]))
                server.send_signal(signal.SIGINT)
                break
        said.append((server.stdout and server.stdout.read()) or "")
        code = server.wait()
    print("".join(said))
    return 0 if code in (0, 128 + signal.SIGINT) else code or 1


def _answer(study: Path) -> None:
    """Answer all questions of a listening test, as its evaluators would."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from tests.support.listen_world import LEFT, QUALITY, answer_all
    from voiceveil.apps.listen.answers import Answers
    from voiceveil.apps.listen.study import Study
    from voiceveil.apps.web.database import open_database
    from voiceveil.run.ledger import sha256_file

    QUALITY.update({"B2": 0.4, "D1": 0.3})
    LEFT.update({"B2": 0.4, "D1": 0.3})
    answer_all(Study.load(study), Answers(open_database(study / "answers.sqlite"), sha256_file(study / "design.json")))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
