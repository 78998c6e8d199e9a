"""The open ports: what comes to them on one connection, and on many at once."""

import asyncio
import multiprocessing
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Final

import pytest
from tests.entry_points.attacks import BROKEN_TLS, HTTP_VARIANTS
from tests.entry_points.entry_point import Bench
from tests.operations.hostile_peers import FLOODS, PEERS, Streams
from tests.operations.test_open_ports import Door, admission_door, metrics_door
from tests.support.strangers import STRANGER, connect_strangers
from tests.support.waiting import PATIENCE, until
from tests.webhook.hostile_reviews import REVIEWS

from transom.http_server import connection
from transom.http_server.connection import BoundedConnection

_SECONDS: Final = 3.0
"""The limit of a stranger's silence. An honest peer has `PATIENCE`: on a busy machine it may not have its turn for as long."""
_SILENCE: Final = 1.5
"""Seconds without an answer after which a stranger leaves who has sent all there is."""
_STAYS: Final = "asks once and stays"
"""A peer who does nothing wrong, and stays until others need the place."""
_PEERS: Final = tuple(name for name in PEERS if name != _STAYS)
METRICS: Final = (*_PEERS, *FLOODS, *HTTP_VARIANTS, *BROKEN_TLS)
ADMISSION: Final = (*METRICS, *REVIEWS)


class _PortBench(Bench):
    def __init__(self, door: Door, directory: Path) -> None:
        self._door, self._directory = door, directory

    async def attack(self, name: str) -> None:
        if name in FLOODS:
            many = 2 * self._door.connections + 50
            async with connect_strangers(self._door.port, many, FLOODS[name], encrypted=self._door.context is not None):
                for _ in range(3):
                    await self._door.ask()
            return
        data = self._build(name)
        reader, writer = await self._connect(encrypted=self._door.context is not None and name not in BROKEN_TLS)
        try:
            if name in PEERS:
                peer = asyncio.ensure_future(PEERS[name]((reader, writer), self._door.path))
                # asyncio's TLS of a peer that reads nothing does not notice the end: the server knows
                local = writer.get_extra_info("sockname")
                await until(lambda: peer.done() or not self._holds(local))
                peer.cancel()
                await asyncio.gather(peer, return_exceptions=True)
            else:
                await self._send(reader, writer, data)
        finally:
            writer.transport.abort()

    def _build(self, name: str) -> bytes:
        if name in REVIEWS:
            file = self._directory / name
            data = file.read_bytes()
            file.unlink()
            return data
        if name in BROKEN_TLS:
            return BROKEN_TLS[name]()
        return HTTP_VARIANTS[name](self._door.path) if name in HTTP_VARIANTS else b""

    async def _connect(self, *, encrypted: bool) -> Streams:
        context = self._door.context if encrypted else None
        return await asyncio.open_connection("127.0.0.1", self._door.port, ssl=context, local_addr=(STRANGER, 0))

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
            while True:
                async with asyncio.timeout(_SILENCE):
                    if not await reader.read(1 << 16):
                        return
        except (OSError, TimeoutError):
            # refused, or answered and waiting for the next request
            return

    async def serve_neighbour(self) -> None:
        await self._door.ask()


def write_posts(directory: Path, names: Iterable[str]) -> None:
    """Write a request with each of these reviews, as a file of its name."""
    head = b"POST /pods HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
    for name in names:
        body = REVIEWS[name]("1")
        (directory / name).write_bytes(head % len(body) + body)


@asynccontextmanager
async def _open(
    opened: AbstractAsyncContextManager[Door], directory: Path, names: tuple[str, ...] = ()
) -> AsyncIterator[Bench]:
    # in a process of its own: each takes a part of a second, in which nobody would be served
    reviews = tuple(name for name in names if name in REVIEWS)
    if reviews:
        builder = multiprocessing.get_context("spawn").Process(target=write_posts, args=(directory, reviews))
        builder.start()
        await asyncio.to_thread(builder.join)
        assert builder.exitcode == 0
    async with opened as door:
        yield _PortBench(door, directory)


@asynccontextmanager
async def open_metrics(directory: Path, _: tuple[str, ...]) -> AsyncIterator[Bench]:
    """The port of /metrics, /healthz and /readyz."""
    with pytest.MonkeyPatch.context() as patched:
        _shorten(patched)
        async with _open(metrics_door(directory), directory) as bench:
            yield bench


@asynccontextmanager
async def open_admission(directory: Path, names: tuple[str, ...]) -> AsyncIterator[Bench]:
    """The port of the admission server."""
    with pytest.MonkeyPatch.context() as patched:
        _shorten(patched)
        async with _open(admission_door(directory), directory, names) as bench:
            yield bench


def _shorten(patched: pytest.MonkeyPatch) -> None:
    set_deadline = BoundedConnection.set_deadline

    def set_deadline_of_peer(self: BoundedConnection, seconds: float, expire: Callable[[], None]) -> None:
        peer = None if self._wire is None else self._wire.get_extra_info("peername")
        is_honest = expire == self._close_timed_out and (peer is None or peer[0] != STRANGER)
        set_deadline(self, PATIENCE if is_honest else min(seconds, _SECONDS), expire)

    patched.setattr(BoundedConnection, "set_deadline", set_deadline_of_peer)
    for name in ("UNSENT_SECONDS", "LINGER_SECONDS"):
        patched.setattr(connection, name, min(_SECONDS, getattr(connection, name)))
