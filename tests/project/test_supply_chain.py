"""What the project takes in and gives out: no network in tests, no code in data, wheels that can be rebuilt."""

from __future__ import annotations

import ast
import asyncio
import json
import os
import re
import socket
import ssl
import subprocess
import sys
import threading
import time
import tomllib
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.support.loopback import NetworkBlocked
from tests.support.paths import ROOT

# RFC 5737 and RFC 3849: addresses for documentation, which nobody answers at.
FOREIGN = ("192.0.2.1", 9)
FOREIGN_6 = ("2001:db8::1", 9, 0, 0)


def _udp() -> socket.socket:
    return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)


def _tls() -> None:
    with ssl.create_default_context().wrap_socket(socket.socket(), server_hostname="example.org") as wrapped:
        wrapped.connect(FOREIGN)


ESCAPES: dict[str, Callable[[], object]] = {
    "connect": lambda: socket.socket().connect(FOREIGN),
    "connect_ex": lambda: socket.socket().connect_ex(FOREIGN),
    "IPv6": lambda: socket.socket(socket.AF_INET6).connect(FOREIGN_6),
    "a name": lambda: socket.socket().connect(("example.org", 80)),
    "a number in disguise": lambda: socket.socket().connect(("3221225985", 80)),
    "every interface": lambda: socket.socket().connect(("0.0.0.0", 80)),
    "sendto": lambda: _udp().sendto(b"voice", FOREIGN),
    "sendto with flags": lambda: _udp().sendto(b"voice", 0, FOREIGN),
    "sendmsg": lambda: _udp().sendmsg([b"voice"], [], 0, FOREIGN),
    "create_connection": lambda: socket.create_connection(FOREIGN, timeout=1),
    "getaddrinfo": lambda: socket.getaddrinfo("example.org", 80),
    "getaddrinfo in bytes": lambda: socket.getaddrinfo(b"example.org", 80),
    "gethostbyname": lambda: socket.gethostbyname("example.org"),
    "gethostbyname_ex": lambda: socket.gethostbyname_ex("example.org"),
    "urllib": lambda: urllib.request.urlopen("http://example.org/", timeout=1),
    "asyncio": lambda: asyncio.run(asyncio.wait_for(asyncio.open_connection(*FOREIGN), 1)),
    "TLS": _tls,
}


@pytest.mark.parametrize("way", ESCAPES)
def test_network_is_blocked(way: str) -> None:
    with pytest.raises(NetworkBlocked, match=r"^tests (reach loopback and unix sockets only|look up no names)"):
        ESCAPES[way]()


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.10", "localhost"])
def test_loopback_is_allowed(host: str) -> None:
    with (
        socket.create_server((host, 0)) as server,
        socket.create_connection((host, server.getsockname()[1]), timeout=5) as client,
    ):
        client.sendall(b"voice")
        assert server.accept()[0].recv(16) == b"voice"


def test_datagrams_to_loopback_and_to_a_connected_peer_are_allowed() -> None:
    with _udp() as there, _udp() as here:
        there.bind(("127.0.0.1", 0))
        here.sendto(b"to", there.getsockname())
        here.connect(there.getsockname())
        here.sendmsg([b"msg"])
        assert [there.recv(16), there.recv(16)] == [b"to", b"msg"]


def test_unix_sockets_are_allowed(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        server.bind(str(tmp_path / "s"))
        server.listen()
        client.connect(str(tmp_path / "s"))
        client.sendall(b"voice")
        assert server.accept()[0].recv(16) == b"voice"


def test_network_is_blocked_in_threads() -> None:
    caught: list[BaseException] = []

    def leave() -> None:
        try:
            socket.create_connection(FOREIGN, timeout=1)
        except NetworkBlocked as error:
            caught.append(error)

    thread = threading.Thread(target=leave)
    thread.start()
    thread.join()
    assert len(caught) == 1


def _run(*command: str | Path, umask: int = -1, **environment: str) -> str:
    done = subprocess.run(command, env=os.environ | environment, umask=umask, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_two_builds_of_the_wheel_are_identical(tmp_path: Path) -> None:
    """In two folders, at two times, by two users who grant other permissions and live elsewhere."""
    if subprocess.run(["git", "-C", ROOT, "rev-parse", "HEAD"], capture_output=True).returncode:
        pytest.skip("the wheel is that of a commit, and this is no git repository")
    wheels: list[Path] = []
    for name, umask, zone in (("one", 0o022, "UTC"), ("another-place", 0o077, "Asia/Tokyo")):
        clone, out = tmp_path / name / "clone", tmp_path / name / "out"
        _run("git", "clone", "--quiet", "--shared", ROOT, clone, umask=umask)
        settings = {"PYTHON": sys.executable, "TZ": zone, "PYTHONHASHSEED": str(umask)}
        _run(clone / "scripts" / "wheel.sh", out, umask=umask, **settings)
        wheels += out.iterdir()
    one, other = wheels
    assert one.name == other.name
    assert one.read_bytes() == other.read_bytes()

    # and they are whole: every file of the package that the commit has and that is code or data of it
    commit_time = time.gmtime(int(_run("git", "-C", clone, "log", "-1", "--format=%ct")))
    tracked = _run("git", "-C", clone, "ls-files", "src/voiceveil").split()
    with ZipFile(one) as archive:
        assert {path.removeprefix("src/") for path in tracked} <= set(archive.namelist())
        assert all(member.date_time[:5] == commit_time[:5] for member in archive.infolist())
        for name in ("LICENSE", "NOTICE"):
            (packed,) = (path for path in archive.namelist() if path.endswith(f".dist-info/licenses/{name}"))
            assert archive.read(packed) == (clone / name).read_bytes()


def _pins(path: Path) -> dict[str, str]:
    """Package -> version, of lines ``name==version``."""
    lines = re.findall(r"(?m)^([A-Za-z0-9._-]+)==(\S+)", path.read_text(encoding="ascii"))
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in lines}


@pytest.mark.parametrize("name", ["demo", "dev"])
def test_set_up_installs_by_hash(name: str) -> None:
    """Every package in the pinned version with hashes, and with it all that the extras name but torch."""
    path = ROOT / "requirements" / f"{name}.txt"
    lines = path.read_text(encoding="ascii").splitlines()
    starts = [line for line in lines if re.match(r"[a-z0-9]", line)]
    assert all(re.fullmatch(r"[a-z0-9-]+==[^ ]+ \\", line) for line in starts)
    hashes = [line for line in lines if line.startswith(" ")]
    assert all(re.fullmatch(r" {4}--hash=sha256:[0-9a-f]{64}( \\)?", line) for line in hashes)
    assert sum(not line.endswith("\\") for line in hashes) == len(starts)  # each list of hashes has an end
    pinned, allowed = _pins(path), _pins(ROOT / "constraints.txt")
    assert {package: version for package, version in pinned.items() if allowed.get(package) != version} == {}
    assert _wanted({"demo": ["demo"], "dev": ["dev"]}[name]) - set(pinned) == {"torch"}


def _wanted(extras: list[str]) -> set[str]:
    """The packages that the project and these extras name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted, left = set(), [*project["dependencies"], *(f"voiceveil[{','.join(extras)}]",)]
    while left:
        name, _, rest = re.fullmatch(r"([A-Za-z0-9._-]+)(\[([^]]*)\])?.*", left.pop()).groups()  # type: ignore[union-attr]
        if name == "voiceveil":
            left += [one for extra in rest.split(",") for one in project["optional-dependencies"][extra]]
        else:
            wanted.add(re.sub(r"[-_.]+", "-", name).lower())
    return wanted


def test_make_installs_nothing_without_a_hash_but_torch() -> None:
    recipes = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "HASHED = $(PIP) --require-hashes --no-deps --requirement\n" in recipes
    installs = [line.strip() for line in recipes.splitlines() if re.match(r"\t.*\$\((PIP|HASHED|PINNED)\)", line)]
    assert [line.split()[0] for line in installs] == ["$(HASHED)", "$(PINNED)"] * 2


# What would turn data into code -> the rule that refuses it, with the project's own settings.
OFFENCES = {
    "import pickle\n\npickle.load(stream)": "S301",
    "import pickle\n\npickle.loads(data)": "S301",
    "from pickle import Unpickler as Reader\n\nReader(stream).load()": "S301",
    "import dill\n\ndill.loads(data)": "S301",
    "import shelve\n\nshelve.open(path)": "S301",
    "import marshal\n\nmarshal.loads(data)": "S302",
    'import subprocess\n\nsubprocess.run(f"sox {path}", shell=True)': "S602",
    'import subprocess\n\nsubprocess.Popen("ls", shell=True)': "S602",
    'import os\n\nos.system(f"sox {path}")': "S605",
    "eval(text)": "S307",
    "exec(text)": "S102",
    "import yaml\n\nyaml.load(text)": "S506",
    "import yaml\n\nyaml.load(text, Loader=yaml.UnsafeLoader)": "S506",
    "import torch\n\ntorch.load(path)": "TID251",
    "import torch as t\n\nt.load(path, weights_only=False)": "TID251",
    "from torch import load\n\nload(path)": "TID251",
}
INNOCENT = [
    "import json\n\njson.loads(text)",
    "import ast\n\nast.literal_eval(text)",
    "import yaml\n\nyaml.safe_load(text)",
    'import subprocess\n\nsubprocess.run(["sox", path])',
    "import torch\n\ntorch.zeros(1)",
]


def _rules_broken(snippet: str) -> set[str]:
    """The rules that `ruff check` names for a module of the package with this content, but for undefined names."""
    module = f'"""A module."""\n\n{snippet}\n'
    place = str(ROOT / "src" / "voiceveil" / "snippet.py")  # by this name alone: nothing is written there
    options = ["--no-cache", "--output-format=json", "--stdin-filename", place, "-"]
    command = [sys.executable, "-m", "ruff", "check", *options]
    done = subprocess.run(command, input=module, capture_output=True, text=True, cwd=ROOT)
    rules = {str(finding["code"]) for finding in json.loads(done.stdout)}
    assert done.returncode == (1 if rules else 0), done.stderr
    return rules - {"F821"}


@pytest.mark.parametrize("snippet", OFFENCES)
def test_lint_rejects_data_that_becomes_code(snippet: str) -> None:
    assert OFFENCES[snippet] in _rules_broken(snippet)


@pytest.mark.parametrize("snippet", INNOCENT)
def test_lint_accepts_the_safe_ways(snippet: str) -> None:
    assert _rules_broken(snippet) == set()


def _loading_calls(tree: ast.AST) -> Iterator[tuple[int, bool]]:
    """Line of each call of ``torch.load``, and whether it reads data alone."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "torch.load":
            given = {word.arg: word.value for word in node.keywords}.get("weights_only")
            yield node.lineno, isinstance(given, ast.Constant) and given.value is True


def _modules_with(word: str, *folders: str) -> Iterator[tuple[str, ast.AST]]:
    """Name and syntax tree of each module in which a word occurs."""
    for path in sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if word in text:
            yield str(path.relative_to(ROOT)), ast.parse(text)


def test_exempted_calls_of_torch_load_use_weights_only() -> None:
    """The lint rule can be silenced in a line; no such line may unpickle."""
    calls = {
        f"{name}:{line}": safe
        for name, tree in _modules_with("torch.load", "src", "tests", "benchmarks", "examples", "scripts")
        for line, safe in _loading_calls(tree)
    }
    assert [where for where, safe in calls.items() if not safe] == []
    assert any(where.startswith("src/voiceveil/models/speaker/campplus.py:") for where in calls)


def test_arrays_are_never_unpickled() -> None:
    """numpy reads pickles when it is told to, and ruff has no rule for that."""
    told = [
        (name, ast.unparse(word))
        for name, tree in _modules_with("allow_pickle", "src")
        for word in ast.walk(tree)
        if isinstance(word, ast.keyword) and word.arg == "allow_pickle"
    ]
    assert len(told) >= 2  # they are found
    assert {words for _, words in told} == {"allow_pickle=False"}, told


@pytest.mark.parametrize(
    ("call", "safe"),
    [
        ("torch.load(p, weights_only=True)", True),
        ("torch.load(p)", False),
        ("torch.load(p, weights_only=False)", False),
        ("torch.load(p, weights_only=flag)", False),
        ("torch.load(p, **options)", False),
    ],
)
def test_unsafe_calls_of_torch_load_are_found(call: str, safe: bool) -> None:
    assert [found for _, found in _loading_calls(ast.parse(call))] == [safe]
