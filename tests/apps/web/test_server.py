"""The server: its socket, its host names, its limits and its log."""

from __future__ import annotations

import asyncio
import logging
import resource
import socket

import pytest

from voiceveil.apps.web.connections import ConnectionLimits, TransferProgress
from voiceveil.apps.web.guarded_server import OncePerMinute, proxy_test
from voiceveil.apps.web.hosts import Hosts
from voiceveil.apps.web.server import connection_limits, listening_socket
from voiceveil.core.errors import InputError


def test_small_responses_are_sent_at_once() -> None:
    """asyncio turns Nagle's algorithm off for connections to the socket, as it does for sockets of its own."""

    async def without_delay() -> int:
        told: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            told.set_result(writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        bound = listening_socket("127.0.0.1", 0)
        async with await asyncio.start_server(connected, sock=bound):
            _, writer = await asyncio.open_connection(*bound.getsockname())
            answer = await told
            writer.close()
            await writer.wait_closed()
            return answer

    assert asyncio.run(without_delay()) == 1


def test_port_in_use_is_rejected() -> None:
    with listening_socket("127.0.0.1", 0) as bound:
        port = bound.getsockname()[1]
        with pytest.raises(InputError, match=f"cannot listen on 127.0.0.1 port {port}"):
            listening_socket("127.0.0.1", port)


@pytest.mark.parametrize(
    ("host", "served", "refused"),
    [
        ("127.0.0.1", ["127.0.0.1", "localhost:80", "[::1]:8000"], ["192.168.1.5", "x.org", "0.0.0.0"]),
        ("::1", ["[::1]", "localhost"], ["[::2]", "x.org"]),
        ("localhost", ["127.0.0.1:1", "LocalHost"], ["local", "x.org"]),
        ("192.168.1.5", ["192.168.1.5:8000"], ["localhost", "192.168.1.6", "x.org"]),
        ("0.0.0.0", ["192.168.1.5", "[fe80::1]:80", "localhost"], ["x.org", "2130706433", "0x7f.1", ""]),
        ("::", ["10.0.0.1", "[::1]"], ["x.org"]),
    ],
)
def test_allowed_host_names(host: str, served: list[str], refused: list[str]) -> None:
    """A server on all addresses answers to numbers, which nobody can rebind, and to no name that is not allowed."""
    assert all(Hosts(host).serves(name) for name in served)
    assert not any(Hosts(host).serves(name) for name in refused)
    assert Hosts(host, ["X.org:443", "y.org"]).serves("x.org:8443")
    with pytest.raises(InputError, match="no host name"):
        Hosts(host, ["http://x.org"])


def test_slow_transfers_are_noticed_once_the_time_is_over() -> None:
    limits = ConnectionLimits(stall_seconds=10.0, slowest=100)
    body = TransferProgress(limits, now=0.0)
    assert not body.is_too_slow(9.0, 0)
    assert not body.is_too_slow(10.0, 1000)
    assert not body.is_too_slow(19.0, 1000)
    assert body.is_too_slow(20.0, 1999)
    response = TransferProgress(limits, now=0.0)
    assert not response.is_unread(1.0, 5000)  # from here on
    assert not response.is_unread(11.0, 4000)
    assert not response.is_unread(20.0, 9000)  # the application has added something
    assert not response.is_unread(29.0, 9000)
    assert response.is_unread(30.0, 8001)
    assert not response.is_unread(40.0, 0)


def test_connections_leave_handles_for_other_files() -> None:
    handles, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        for few in (40, 256, 1024):
            resource.setrlimit(resource.RLIMIT_NOFILE, (few, hard))
            limits = connection_limits()
            assert limits.per_address <= limits.total < few
        assert limits.total == 832
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (handles, hard))


def test_repeated_message_is_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    logger, quiet = logging.getLogger("test.flood"), OncePerMinute(seconds=0.05)
    logger.addFilter(quiet)
    for number in range(100):
        logger.warning("bad request %d", number)
    logger.warning("another")
    assert [record.getMessage() for record in caplog.records] == ["bad request 0", "another"]
    for _ in range(2):
        asyncio.run(asyncio.sleep(0.06))
        for number in range(5):
            logger.warning("slow %d", number)
    assert [record.getMessage() for record in caplog.records][2:] == [
        "slow 0",
        "slow 0 (4 more since the last message)",
    ]


def test_proxies_are_addresses_and_networks() -> None:
    is_proxy = proxy_test("127.0.0.1, 10.0.0.0/8")
    assert [is_proxy(one) for one in ("127.0.0.1", "10.1.2.3")] == [True] * 2
    assert [is_proxy(one) for one in ("127.0.0.2", "11.0.0.1", "", "::1")] == [False] * 4
    assert proxy_test("*")("1.2.3.4")
    assert not proxy_test("")("127.0.0.1")
    with pytest.raises(InputError, match=r"--proxies '127.0.0.l'"):
        proxy_test("127.0.0.l")
