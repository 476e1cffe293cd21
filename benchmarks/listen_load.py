"""A listening test under load and under fire: 200 evaluators at once, and a server that is killed in the middle.

Every simulated evaluator opens the page, plays both recordings (range requests), answers each question after a pause
for thought and goes on. They arrive within ten seconds. First the time of each answer is taken, from the request to the
acknowledgement; then the server gets ``kill -9`` while all go on, is started again, and in the end the database is
compared with what was acknowledged.

With ``--hostile N`` the server is not killed: 50 evaluators work, each item on a new connection, first alone and then
while another process holds N connections that never finish a request, from the address of the evaluators and two others
(127.0.0.2 and 127.0.0.3). A third of them is silent, a third sends a byte of its headers a second, a third a byte of a
body a second; one that the server ends is opened again after a second.

    python benchmarks/listen_load.py                      # 200 evaluators, SQLite
    python benchmarks/listen_load.py --database postgresql://listen@localhost/listen
    python benchmarks/listen_load.py --hostile 500        # 50 evaluators, 500 connections that mean harm

Exit code 1 if the 95th percentile exceeds 200 ms (300 ms with hostile connections), or if an acknowledged answer is
lost, changed or doubled.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from tests.support.listen_world import make_study

from voiceveil.apps.listen.app import invitation
from voiceveil.apps.listen.design import StudyPlan
from voiceveil.apps.web.database import open_database
from voiceveil.apps.web.tokens import Seal, read_key

LIMIT, HOSTILE_LIMIT = 0.2, 0.3  # seconds
ARRIVAL = 10.0
QUESTIONS = ("naturalness", "similarity", "intelligibility")


@dataclass
class Log:
    """What was sent and acknowledged, and how long it took."""

    sent: dict[tuple[str, str, str], str] = field(default_factory=dict)
    acknowledged: dict[tuple[str, str, str], str] = field(default_factory=dict)
    finished: set[tuple[str, str]] = field(default_factory=set)
    seconds: dict[str, list[float]] = field(default_factory=dict)
    retries: int = 0
    late: list[float] = field(default_factory=list)
    phase: str = "load"
    attack: str = ""

    def took(self, kind: str, seconds: float) -> None:
        self.seconds.setdefault(f"{self.phase} {kind}", []).append(seconds)


class Connection:
    """HTTP/1.1 over one connection that is opened again when it breaks."""

    def __init__(self, port: int, log: Log) -> None:
        self.port, self.log, self.cookie = port, log, ""
        self.streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def request(self, method: str, path: str, body: bytes = b"", headers: str = "") -> tuple[int, str, bytes]:
        """Until there is an answer that is not "try again"."""
        while True:
            try:
                status, head, data = await asyncio.wait_for(self._once(method, path, body, headers), 20)
                if status not in (429, 500, 503):
                    return status, head, data
            except (OSError, asyncio.IncompleteReadError, TimeoutError):
                self.close()
            self.log.retries += 1
            await asyncio.sleep(0.3)

    async def _once(self, method: str, path: str, body: bytes, headers: str) -> tuple[int, str, bytes]:
        if self.streams is None:
            self.streams = await asyncio.open_connection("127.0.0.1", self.port)
        reader, writer = self.streams
        common = f"host: 127.0.0.1\r\ncookie: {self.cookie}\r\ncontent-length: {len(body)}\r\n"
        writer.write(f"{method} {path} HTTP/1.1\r\n{common}{headers}\r\n".encode() + body)
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = re.search(r"content-length: (\d+)", head, re.IGNORECASE)
        data = await reader.readexactly(int(length[1])) if length else b""
        return int(head[9:12]), head, data

    def close(self) -> None:
        if self.streams is not None:
            self.streams[1].close()
        self.streams = None

    async def post(self, path: str, values: dict[str, object]) -> int:
        body = json.dumps(values).encode()
        return (await self.request("POST", path, body, "content-type: application/json\r\n"))[0]


async def evaluator(
    name: str, token: str, port: int, think: float, log: Log, until: asyncio.Event, *, reconnect: bool = False
) -> None:
    """One person, until the time is over; ``reconnect``: with a new connection for each item."""
    rng = random.Random(name)
    connection = Connection(port, log)
    await asyncio.sleep(rng.random() * ARRIVAL)
    head = (await connection.request("GET", f"/i/{token}"))[1]
    connection.cookie = re.search(r"set-cookie: ([^;]+)", head, re.IGNORECASE)[1]  # type: ignore[index]
    page = (await connection.request("GET", "/"))[2].decode()
    mark = re.search(r'name="mark" value="(\w+)"', page)[1]  # type: ignore[index]
    form = f"mark={mark}&agree=yes".encode()
    await connection.request("POST", "/consent", form, "content-type: application/x-www-form-urlencoded\r\n")
    while not until.is_set():
        if reconnect:
            connection.close()
        began = time.monotonic()
        page = (await connection.request("GET", "/"))[2].decode()
        log.took("page", time.monotonic() - began)
        item = re.search(r'name="item" value="([\w-]+)"', page)
        if item is None:
            return
        step = {"mark": mark, "item": item[1]}
        for audio in re.findall(r'src="(/audio/\w+)"', page):
            began = time.monotonic()
            await connection.request("GET", audio, headers="range: bytes=0-\r\n")
            log.took("audio", time.monotonic() - began)
        for question in QUESTIONS if item[1].startswith("rating") else ():
            await asyncio.sleep(rng.expovariate(1 / think))
            value = str(rng.randint(1, 10))
            log.sent[name, item[1], question] = value
            began = time.monotonic()
            status = await connection.post("/answer", {**step, question: value})
            assert status == 200, status
            log.acknowledged[name, item[1], question] = value
            log.took("answer", time.monotonic() - began)
        await asyncio.sleep(rng.expovariate(1 / think))
        began = time.monotonic()
        status = await connection.post("/next", dict(step))
        assert status in (200, 409), status  # 409: it was stored, but the acknowledgement was lost
        log.finished.add((name, item[1]))
        log.took("answer", time.monotonic() - began)


async def pulse(log: Log, until: asyncio.Event) -> None:
    """How late the machine lets us go on after a short pause: its other work, without any server."""
    while not until.is_set():
        began = time.monotonic()
        await asyncio.sleep(0.01)
        if log.phase != "warm-up":
            log.late.append(time.monotonic() - began - 0.01)


def start(study: Path, port: int, database: str | None) -> subprocess.Popen[bytes]:
    """The server as a user starts it; returns when it answers."""
    command = [sys.executable, "-m", "voiceveil.cli.main", "listen", "serve", str(study), "--port", str(port)]
    process = subprocess.Popen([*command, *(["--database", database] if database else [])], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    return process


@dataclass
class Attack:
    """Connections that never finish a request; how many are open now, and how many the server has ended."""

    port: int
    count: int
    open: int = 0
    ended: int = 0

    async def run(self) -> None:
        """Hold ``count`` connections, and tell once a second how many there are."""
        held = [asyncio.create_task(self._hold(number)) for number in range(self.count)]
        while held:
            await asyncio.sleep(1.0)
            print(self.open, self.ended, flush=True)

    async def _hold(self, number: int) -> None:
        heads = ("", "GET / HTTP/1.1\r\nhost: 127.0.0.1\r\nx: ", "POST /answer HTTP/1.1\r\nhost: 127.0.0.1\r\n"
                 "content-length: 9999\r\n\r\n")  # fmt: skip
        await asyncio.sleep(number / self.count)
        while True:
            try:
                source = (f"127.0.0.{1 + number // 3 % 3}", 0)
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port, local_addr=source)
            except OSError:
                await asyncio.sleep(1.0)
                continue
            self.open += 1
            with contextlib.suppress(OSError):
                writer.write(heads[number % 3].encode())
                while not reader.at_eof():
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(reader.read(4096), 1.0)
                    writer.write(b"x" if number % 3 else b"")
                    await writer.drain()
            self.open -= 1
            self.ended += 1
            writer.close()
            await asyncio.sleep(1.0)


async def besiege(study: Path, tokens: dict[str, str], options: argparse.Namespace, log: Log) -> None:
    """Load, then the same load with hostile connections."""
    port = options.port
    server = start(study, port, options.database)
    over = asyncio.Event()
    people = [
        asyncio.create_task(evaluator(name, token, port, options.think, log, over, reconnect=True))
        for name, token in tokens.items()
    ]
    people.append(asyncio.create_task(pulse(log, over)))
    command = [sys.executable, __file__, "--attack", str(options.hostile), "--port", str(port)]
    attacker = None
    try:
        log.phase = "warm-up"
        await asyncio.sleep(ARRIVAL + 2 * options.think)
        log.phase = "load"
        await asyncio.sleep(options.seconds)
        log.phase = "warm-up"
        attacker = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        await asyncio.sleep(4.0)
        log.phase = "hostile"
        await asyncio.sleep(options.seconds)
        over.set()
        await asyncio.gather(*people)
    finally:
        if attacker is not None:
            attacker.terminate()
            rows = [[int(number) for number in line.split()] for line in attacker.communicate()[0].splitlines()]
            log.attack = f"{rows[-1][0]} hostile connections open at the end; the server has ended {rows[-1][1]}"
        server.terminate()
        server.wait()


async def fire(study: Path, tokens: dict[str, str], options: argparse.Namespace, log: Log) -> None:
    """Load, kill, load."""
    port = options.port
    server = start(study, port, options.database)
    over = asyncio.Event()
    people = [asyncio.create_task(evaluator(n, t, port, options.think, log, over)) for n, t in tokens.items()]
    people.append(asyncio.create_task(pulse(log, over)))
    try:
        log.phase = "warm-up"
        await asyncio.sleep(ARRIVAL + 2 * options.think)
        log.phase = "load"
        await asyncio.sleep(options.seconds)
        log.phase = "fault"
        os.kill(server.pid, signal.SIGKILL)
        server.wait()
        await asyncio.sleep(1.0)
        server = await asyncio.to_thread(start, study, port, options.database)
        await asyncio.sleep(options.seconds / 2)
        over.set()
        await asyncio.gather(*people)
    finally:
        server.terminate()
        server.wait()


def verdict(log: Log, study: Path, options: argparse.Namespace) -> int:
    """Print what was measured; 0 if all is well."""
    for key, values in sorted(log.seconds.items()):
        p50, p95, p99, most = np.percentile(values, [50, 95, 99, 100]) * 1000
        line = f"{key:<16} {len(values):>7}   p50 {p50:7.1f} ms   p95 {p95:7.1f} ms   p99 {p99:7.1f} ms"
        print(f"{line}   max {most:7.1f} ms")
    rate = len(log.seconds["load answer"]) / options.seconds
    every = sum(len(values) for key, values in log.seconds.items() if key.startswith("load")) / options.seconds
    print(f"{options.evaluators} evaluators: {rate:.0f} answers/s, {every:.0f} requests/s; {log.retries} tried again")
    late = np.percentile(log.late, 95) * 1000
    print(f"the machine itself: a pause of 10 ms is late by {late:.1f} ms (p95); more than a few: it is busy otherwise")
    database = open_database(options.database or study / "answers.sqlite")
    stored = {tuple(row[:3]): row[3] for row in database.read("SELECT evaluator, item, question, value FROM answers")}
    count = database.read("SELECT count(*) FROM answers")[0][0]
    done = {tuple(row) for row in database.read("SELECT evaluator, item FROM finished")}
    lost = [key for key, value in log.acknowledged.items() if stored.get(key) != value]
    invented = [key for key in stored if key not in log.sent]
    print(f"acknowledged {len(log.acknowledged)} answers and {len(log.finished)} items; stored {count} answers")
    faults = {"lost": len(lost), "doubled": count - len(stored), "never sent": len(invented)}
    faults["items lost"] = len(log.finished - done)
    print(", ".join(f"{name} {number}" for name, number in faults.items()))
    phase, limit = ("hostile answer", HOSTILE_LIMIT) if options.hostile else ("load answer", LIMIT)
    p95 = float(np.percentile(log.seconds[phase], 95))
    print(f"{log.attack}\np95 of an answer: {1000 * p95:.1f} ms (limit {1000 * limit:.0f} ms)".lstrip())
    return int(any(faults.values()) or p95 > limit)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--evaluators", type=int, help="people at work (default: 200; with --hostile 50)")
    parser.add_argument("--hostile", type=int, default=0, metavar="N", help="connections that never finish a request")
    parser.add_argument("--attack", type=int, help=argparse.SUPPRESS)  # the process that holds them
    parser.add_argument("--seconds", type=float, default=40.0, help="of the load that is measured")
    parser.add_argument("--think", type=float, default=3.0, help="mean pause before an answer, seconds")
    parser.add_argument("--port", type=int, default=8765)
    parser.add_argument("--database", help="postgresql://... (default: SQLite)")
    options = parser.parse_args()
    if options.attack:
        asyncio.run(Attack(options.port, options.attack).run())
    options.evaluators = options.evaluators or (50 if options.hostile else 200)
    log = Log()
    with tempfile.TemporaryDirectory() as folder:
        plan = StudyPlan(evaluators=options.evaluators, raters=options.evaluators, headphones=0)
        study = make_study(Path(folder), plan, speakers=16, utterances=8, seconds=4.0)
        path = Path(folder) / "study"
        seal = Seal(read_key(path / "key"))
        tokens = {name: invitation(seal, name, time.time() + 3600) for name in study.evaluators}
        asyncio.run((besiege if options.hostile else fire)(path, tokens, options, log))
        return verdict(log, path, options)


if __name__ == "__main__":
    sys.exit(main())
