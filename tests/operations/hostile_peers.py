"""What a peer of an open port may do or leave undone, by name. Each tries to stay for ever, or to make the server hold much."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Peer = Callable[[Streams, bytes], Awaitable[None]]
"""Misbehaves on a connection until the server ends it; `path` is one that the server has."""


async def _wait_for_end(reader: asyncio.StreamReader) -> None:
    try:
        while await reader.read(1 << 16):
            pass
    except OSError:
        # the server ended the connection without reading all
        return


async def _send(streams: Streams, data: bytes) -> None:
    reader, writer = streams
    writer.write(data)
    await _wait_for_end(reader)


async def _repeat(streams: Streams, data: bytes, piece: bytes, pause: float) -> None:
    """Send a piece again and again."""
    reader, writer = streams
    end = asyncio.ensure_future(_wait_for_end(reader))
    try:
        writer.write(data)
        while not end.done():
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(pause)
    except OSError:
        # the server ended the connection while something was sent
        return
    finally:
        end.cancel()
        await asyncio.gather(end, return_exceptions=True)


async def _read_nothing(streams: Streams, path: bytes) -> None:
    """Ask as long as the server listens, and read no answer."""
    _, writer = streams
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    try:
        while not writer.is_closing():
            writer.write((b"GET %b HTTP/1.1\r\nHost: x\r\n\r\n" % path) * 100)
            await writer.drain()
            await asyncio.sleep(0.01)
    except OSError:
        # the server ended the connection
        return


_HEAD: Final = b"POST %b HTTP/1.1\r\nHost: x\r\n"

PEERS: Final[dict[str, Peer]] = {
    "says nothing": lambda streams, path: _send(streams, b""),
    "sends one byte": lambda streams, path: _send(streams, b"G"),
    "sends half a request line": lambda streams, path: _send(streams, b"GET /healthz"),
    "sends headers without an end": lambda streams, path: _repeat(
        streams, _HEAD % path, b"X-A: %b\r\n" % (b"a" * 4_000), 0.001
    ),
    "sends headers slowly": lambda streams, path: _repeat(streams, _HEAD % path, b"A: b\r\n", 0.05),
    "sends a header name slowly": lambda streams, path: _repeat(streams, _HEAD % path, b"A", 0.05),
    "sends no body": lambda streams, path: _send(streams, _HEAD % path + b"Content-Length: 1000\r\n\r\n"),
    "sends a body slowly": lambda streams, path: _repeat(
        streams, _HEAD % path + b"Content-Length: 1000000\r\n\r\n", b"a" * 100, 0.05
    ),
    "sends chunks slowly": lambda streams, path: _repeat(
        streams, _HEAD % path + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\na\r\n", 0.05
    ),
    "sends chunks without an end": lambda streams, path: _repeat(
        streams, _HEAD % path + b"Transfer-Encoding: chunked\r\n\r\n", b"8000\r\n%b\r\n" % (b"a" * 0x8000), 0.001
    ),
    "asks for another protocol": lambda streams, path: _repeat(
        streams, _HEAD % path + b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n", b"a" * 1_000, 0.01
    ),
    "speaks no HTTP": lambda streams, path: _repeat(streams, b"\x16\x03\x01", b"\0" * 1_000, 0.001),
    "asks once and stays": lambda streams, path: _send(streams, b"GET %b HTTP/1.1\r\nHost: x\r\n\r\n" % path),
    "reads no answer": _read_nothing,
}
"""Each of them, on a connection of any open port."""

FLOODS: Final[dict[str, bytes]] = {
    "nothing": b"",
    "half a request": b"GET /healthz HTTP/1.1\r\nHost",
    "long headers": b"GET / HTTP/1.1\r\n" + b"X-A: %b\r\n" % (b"a" * 8_000) * 4,
    "requests": b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 20,
    "half a body": b"POST /pods HTTP/1.1\r\nHost: x\r\nContent-Length: 3000000\r\n\r\n" + b" " * 60_000,
}
"""What each of many connections sends before it says nothing more."""
