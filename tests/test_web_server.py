"""The socket of the server."""

from __future__ import annotations

import asyncio
import socket

import pytest

from voiceveil.errors import InputError
from voiceveil.web.server import listening_socket


def test_small_answers_do_not_wait() -> None:
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


def test_a_port_in_use() -> None:
    with listening_socket("127.0.0.1", 0) as bound:
        port = bound.getsockname()[1]
        with pytest.raises(InputError, match=f"cannot listen on 127.0.0.1 port {port}"):
            listening_socket("127.0.0.1", port)
