"""What the project takes in and gives out: no network in tests, no code in data, wheels that can be rebuilt."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.conftest import ROOT
from tests.loopback import NetworkBlocked

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
def test_no_test_leaves_this_machine(way: str) -> None:
    with pytest.raises(NetworkBlocked, match=r"^tests (reach loopback and unix sockets only|look up no names)"):
        ESCAPES[way]()


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.10", "localhost"])
def test_loopback_is_open(host: str) -> None:
    with (
        socket.create_server((host, 0)) as server,
        socket.create_connection((host, server.getsockname()[1]), timeout=5) as client,
    ):
        client.sendall(b"voice")
        assert server.accept()[0].recv(16) == b"voice"


def test_datagrams_to_loopback_and_to_a_connected_peer_are_open() -> None:
    with _udp() as there, _udp() as here:
        there.bind(("127.0.0.1", 0))
        here.sendto(b"to", there.getsockname())
        here.connect(there.getsockname())
        here.sendmsg([b"msg"])
        assert [there.recv(16), there.recv(16)] == [b"to", b"msg"]


def test_unix_sockets_are_open(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        server.bind(str(tmp_path / "s"))
        server.listen()
        client.connect(str(tmp_path / "s"))
        client.sendall(b"voice")
        assert server.accept()[0].recv(16) == b"voice"


def test_threads_are_guarded_too() -> None:
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
    wheels = []
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
