"""Record the output of every part of the product on a small fixed corpus, and compare two records.

    python scripts/goldens.py record OUT        runs the commands below (about ten minutes on one core)
    python scripts/goldens.py compare OLD NEW   says which files differ, and how; exit code 1 if any does

For changes that are to leave all results as they are: record before, record after, compare. Audio is compared by its
bytes, text after times, durations and paths of the machine are taken out.
"""

from __future__ import annotations

import difflib
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

#: Name of a part -> commands, run in a folder with the data of tests/documentation/world.py.
EVALUATED = {"vpc2024": "b2", "vpc2022": "b2-2022", "vpc2020": "b2-2020"}
SYSTEMS = [
    "veil",
    "b2",
    "b2-2022",
    "b2-2020",
    "d1",
    "b1b",
    "b1a",
    "a1",
    "a2",
    "i1",
    "k2",
    "m1",
    "m1c1",
    "m1c2",
    "m1c3",
    "m1c4",
    "o1",
    "o1c1",
    "s1",
    "s1c1",
    "s2",
    "s2c1",
    "identity",
]
PARTS: dict[str, list[str]] = {
    **{
        f"systems/{name}": [f"anonymize data/libri_dev_enrolls OUT --system {name} --seed 1 --level speaker --quiet"]
        for name in SYSTEMS
    },
    "folder": ["anonymize recordings OUT --seed 2 --quiet"],
    "manifest": ["anonymize list.jsonl OUT --system b2 --seed 2 --quiet"],
    **{
        f"evaluate/{protocol}": [
            f"evaluate --protocol {protocol} --data data --system {system} --out OUT --seed 1 --quiet --cache c.sqlite"
        ]
        for protocol, system in EVALUATED.items()
    },
    "submission": ["submit OUT/../evaluate/vpc2024 --partial --unofficial --out OUT/submission.tar.gz --quiet"],
    "risk": [
        "corpus protocol commonvoice:corpora/cv-corpus/en OUT/legal --legal --a-utterances 4 --b-utterances 4 --seed 1",
        "risk --embeddings original=orig.npz --embeddings informed=anon.parquet --protocol OUT/legal/protocol.toml "
        "--lengths 1 --json --report OUT/risk.html",
    ],
    "tdsv": [
        "tdsv make data/digits OUT/task --task 2 --join 3-4 --phrases 4 --known 2 --tests 2 --quiet",
        "tdsv train OUT/task OUT/system.npz --cache t.sqlite --quiet",
        "tdsv score OUT/system.npz OUT/task --out OUT/answer.txt --cache t.sqlite --quiet",
        "tdsv evaluate OUT/answer.txt --trials OUT/task/docs/eval_trials.txt --keys OUT/task/docs/eval_keys.txt",
    ],
}
_TEXT = {".scp", ".json", ".jsonl", ".txt", ".tsv", ".csv", ".html", ".toml", ""}
_LEFT_OUT = {".sqlite", ".gz", ".npz"}
_VARIES = [
    (re.compile(r"Time: \d\d-\d\d-\d\d_\d\d:\d\d"), "Time: TIME"),
    (re.compile(r"\d{4}-\d\d-\d\d[T -]\d\d[:-]\d\d[:-]\d\d(\.\d+)?([+-]\d\d:\d\d)?"), "TIME"),
    (re.compile(r'"(time|seconds_taken|versions?|voiceveil|elapsed)": ("[^"]*"|[\d.e+-]+)'), r'"\1": VARIES'),
    (re.compile(r"/[\w./-]*?/goldens-work/"), "WORK/"),
]


def record(out: Path) -> None:
    """Run all parts into ``out``, which must be new."""
    from tests.documentation.world import make_world

    out.mkdir(parents=True)
    work = out / "goldens-work"
    make_world(work)
    for name, commands in PARTS.items():
        target = out / "parts" / name
        target.mkdir(parents=True)
        target.rmdir() if commands[0].startswith("evaluate") else None
        said = []
        for line in commands:
            words = line.replace("OUT/..", str(out / "parts")).replace("OUT", str(target)).split()
            command = [sys.executable, "-P", "-m", "voiceveil.cli.main", *words]
            environment = {**os.environ, "OMP_NUM_THREADS": "1"}
            done = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True, check=False)
            said.append(f"$ voiceveil {line}\nexit code {done.returncode}\n{done.stdout if '--json' in line else ''}")
            if done.returncode:
                print(f"{name}: {line}\n{done.stdout[-2000:]}{done.stderr[-2000:]}", file=sys.stderr)
        (out / "parts" / f"{name.replace('/', '-')}.said.txt").write_text("\n".join(said))
        print(name, flush=True)
    shutil.rmtree(work)


def compare(old: Path, new: Path) -> int:
    """Print what differs; return the number of files that do."""
    before, after = (dict(_files(folder / "parts")) for folder in (old, new))
    differing = 0
    for name in sorted({*before, *after}):
        if name not in after or name not in before:
            print(f"{name}: only in the {'old' if name in before else 'new'} record")
        elif before[name] != after[name]:
            print(f"{name}: differs")
            lines = [text.splitlines() for text in (before[name], after[name])]
            for line in list(difflib.unified_diff(*lines, lineterm="", n=0))[2:12]:
                print(f"    {line[:200]}")
        else:
            continue
        differing += 1
    print(f"{differing} of {len({*before, *after})} files differ")
    return differing


def _files(folder: Path) -> Iterator[tuple[str, str]]:
    """Name and comparable content of each file; times in names are taken out too."""
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or path.suffix in _LEFT_OUT or ".voiceveil" in path.parts:
            continue
        name = path.relative_to(folder).as_posix()
        content = path.read_bytes()
        if path.suffix in _TEXT:
            text = content.decode("utf-8", "replace").replace(str(folder.parent), "RECORD")
            for pattern, neutral in _VARIES:
                text, name = pattern.sub(neutral, text), pattern.sub(neutral, name)
            yield name, text
        else:
            yield name, hashlib.sha256(content).hexdigest()


def main() -> int:
    """Run the action that the arguments name."""
    action, *folders = sys.argv[1:]
    if action == "record" and len(folders) == 1:
        record(Path(folders[0]).resolve())
        return 0
    if action == "compare" and len(folders) == 2:
        return 1 if compare(*(Path(folder).resolve() for folder in folders)) else 0
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
