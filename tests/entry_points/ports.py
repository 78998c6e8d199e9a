"""The open ports: what comes to them on one connection, and on many at once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Final

import pytest
from tests.entry_points.attacks import HTTP_VARIANTS
from tests.entry_points.entry_point import Bench
from tests.operations.hostile_peers import FLOODS, PEERS
from tests.operations.test_open_ports import Door, admission_door, metrics_door
from tests.support.strangers import connect_strangers
from tests.support.waiting import until
from tests.webhook.hostile_reviews import REVIEWS

from transom.http_server import connection
from transom.operations import server as operations
from transom.webhook import server as webhook

_SECONDS: Final = 3.0
"""Each limit of time: long enough for an honest peer on a busy machine."""
_STAYS: Final = "asks once and stays"
"""A peer who does nothing wrong, and stays until others need the place."""
_PEERS: Final = tuple(name for name in PEERS if name != _STAYS)
METRICS: Final = (*_PEERS, *FLOODS, *HTTP_VARIANTS)
ADMISSION: Final = (*METRICS, *REVIEWS)


class _PortBench(Bench):
    def __init__(self, door: Door) -> None:
        self._door = door

    async def attack(self, name: str) -> None:
        if name in FLOODS:
            many = 2 * self._door.connections + 50
            async with connect_strangers(self._door.port, many, FLOODS[name], encrypted=self._door.context is not None):
                for _ in range(3):
                    await self._door.ask()
            return
        reader, writer = await self._door.connect()
        try:
            if name in PEERS:
                peer = asyncio.ensure_future(PEERS[name]((reader, writer), self._door.path))
                # asyncio's TLS of a peer that reads nothing does not notice the end: the server knows
                local = writer.get_extra_info("sockname")
                await until(lambda: peer.done() or not self._holds(local))
                peer.cancel()
                await asyncio.gather(peer, return_exceptions=True)
            else:
                await self._send(reader, writer, HTTP_VARIANTS[name](self._door.path) if name in HTTP_VARIANTS else _post(name))
        finally:
            writer.transport.abort()

    def _holds(self, address: tuple[str, int]) -> bool:
        """Return True if the server has a connection from that address."""
        connections = (slot.connection for slot in self._door.server.slots)
        wires = [one._wire for one in connections if one is not None and one._wire is not None]
        return any(wire.get_extra_info("peername") == address for wire in wires)

    async def _send(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, data: bytes) -> None:
        """Send as much as the server takes, and read until it ends the connection or is silent."""
        try:
            for start in range(0, len(data), 1 << 16):
                writer.write(data[start : start + (1 << 16)])
                await writer.drain()
            async with asyncio.timeout(_SECONDS * 3):
                while await reader.read(1 << 16):
                    pass
        except (OSError, TimeoutError):
            # refused, or answered and waiting for the next request
            return

    async def serve_neighbour(self) -> None:
        await self._door.ask()


def _post(name: str) -> bytes:
    body = REVIEWS[name]("1")
    return b"POST /pods HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


@asynccontextmanager
async def _open(opened: AbstractAsyncContextManager[Door]) -> AsyncIterator[Bench]:
    async with opened as door:
        yield _PortBench(door)


@asynccontextmanager
async def open_metrics(directory: Path, _: tuple[str, ...]) -> AsyncIterator[Bench]:
    """The port of /metrics, /healthz and /readyz."""
    with pytest.MonkeyPatch.context() as patched:
        _shorten(patched)
        async with _open(metrics_door(directory)) as bench:
            yield bench


@asynccontextmanager
async def open_admission(directory: Path, _: tuple[str, ...]) -> AsyncIterator[Bench]:
    """The port of the admission server."""
    with pytest.MonkeyPatch.context() as patched:
        _shorten(patched)
        async with _open(admission_door(directory)) as bench:
            yield bench


def _shorten(patched: pytest.MonkeyPatch) -> None:
    for name in ("SILENCE_SECONDS", "UNSENT_SECONDS", "LINGER_SECONDS"):
        patched.setattr(connection, name, min(_SECONDS, getattr(connection, name)))
    patched.setattr(webhook, "BODY_SECONDS", min(_SECONDS, webhook.BODY_SECONDS))
    assert operations.BOUNDS.connections
