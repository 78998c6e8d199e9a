"""What an SFTP server says, as bytes: asyncssh's client and `SshTransport` over them, without a connection."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

import asyncssh
from asyncssh.logging import SSHLogger
from asyncssh.sftp import start_sftp_client

from transom.hosts.ssh import Timeouts
from transom.hosts.ssh.transport import SshTransport

_SECONDS = 0.02
"""Without an answer; nobody answers later here."""
VERSION = b"\0\0\0\x05\x02\0\0\0\x03"


class _Reader:
    """Says all of it, and then that the connection has ended."""

    def __init__(self, data: bytes) -> None:
        self.logger = SSHLogger(logging.getLogger("fuzz"))
        self._data = data

    def get_extra_info(self, name: str, default: object = None) -> object:
        return default

    async def readexactly(self, n: int) -> bytes:
        await asyncio.sleep(0)
        found, self._data = self._data[:n], self._data[n:]
        if len(found) < n:
            raise asyncio.IncompleteReadError(found, n)
        return found


class _Writer:
    """Takes everything."""

    def __init__(self) -> None:
        self.channel = self

    def write(self, data: bytes) -> None: ...
    def close(self) -> None: ...
    def is_closing(self) -> bool:
        return False


class _Connection:
    """As much of a connection as an SFTP client needs."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._tasks: list[asyncio.Task[None]] = []
        self.faults: list[BaseException] = []

    def create_task(self, work: Coroutine[Any, Any, None], _: object) -> None:
        self._tasks.append(asyncio.ensure_future(work))

    async def start_sftp_client(self) -> asyncssh.SFTPClient:
        reader: Any = _Reader(self._data)
        connection: Any = self
        loop = asyncio.get_running_loop()
        return await start_sftp_client(connection, loop, "strict", reader, _Writer(), "utf-8", "strict", 3)  # type: ignore[arg-type]

    def get_extra_info(self, name: str) -> object:
        return {"peername": ("127.0.0.1", 22)}.get(name)

    def abort(self) -> None:
        for task in self._tasks:
            task.cancel()


def framed(data: bytes) -> bytes:
    """Answers to requests 0, 1, 2 …: a length of two bytes, a type, the rest."""
    parts, number, at = [VERSION], 0, 0
    while len(data) > at + 2:
        size = int.from_bytes(data[at : at + 2], "big")
        answer = data[at + 2 : at + 2 + size]
        body = answer[:1] + number.to_bytes(4, "big") + answer[1:]
        parts.append(len(body).to_bytes(4, "big") + body)
        number, at = number + 1, at + 2 + size
    return b"".join(parts)


async def spoken(data: bytes) -> None:
    """What comes of these answers for each kind of request. Raises what a transport raises."""
    said = framed(data[1:]) if data[:1] == b"\x01" else data[1:]
    ways = ("look", "read", "names", "create", "rename", "make_directory", "remove")
    way = ways[data[0] % len(ways)] if data[:1] > b"\x01" else None
    for name in (way,) if way else ways:
        connection: Any = _Connection(said if data[:1] < b"\x02" else framed(data[1:]))
        transport = SshTransport(connection, Timeouts(_SECONDS, _SECONDS, _SECONDS))
        more = {"read": (100,), "create": (b"abc",), "rename": ("C:/y",)}.get(name, ())
        try:
            await getattr(transport, name)("C:/x", *more)
        finally:
            connection.abort()
