"""A relay before an API server that can do what networks do: cut at a given byte, fall silent, become slow, refuse.

It ends TLS on both sides, so that a cut is at a byte of the HTTP answer, not of a TLS record.
"""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

_CHUNK = 16384


def _end(writer: asyncio.StreamWriter) -> None:
    # Python 3.11.2 (Debian 12) cannot abort a TLS transport that is closed already
    if not writer.is_closing():
        writer.transport.abort()


class Relay:
    def __init__(self, port: int, server: ssl.SSLContext, client: ssl.SSLContext) -> None:
        self._target = port
        self._server_context = server
        self._client_context = client
        self._writers: set[asyncio.StreamWriter] = set()
        self.port = 0
        self.refuse = False
        self.silent = False
        """Nothing more comes from the server; connections stay open."""
        self.cut_after: int | None = None
        """So many bytes of the server's answers on each new connection, then the end."""
        self.pause = 0.0
        """Seconds before each chunk of `chunk` bytes from the server."""
        self.chunk = _CHUNK
        self.connections = 0

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def cut(self) -> None:
        """End every connection now, without a goodbye."""
        for writer in self._writers:
            _end(writer)

    async def serve(self, near_reader: asyncio.StreamReader, near: asyncio.StreamWriter) -> None:
        self.connections += 1
        if self.refuse:
            _end(near)
            return
        try:
            far_reader, far = await asyncio.open_connection("127.0.0.1", self._target, ssl=self._client_context)
        except OSError:
            _end(near)
            return
        self._writers |= {near, far}
        try:
            await asyncio.gather(self._forward(near_reader, far), self._answer(far_reader, near))
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self._writers -= {near, far}
            _end(near)
            _end(far)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()
        _end(writer)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        left = self.cut_after
        while data := await reader.read(self.chunk):
            if self.pause:
                await asyncio.sleep(self.pause)
            while self.silent:
                await asyncio.sleep(0.05)
            if left is not None and len(data) >= left:
                writer.write(data[:left])
                await writer.drain()
                break
            if left is not None:
                left -= len(data)
            writer.write(data)
            await writer.drain()
        writer.close()


@contextlib.asynccontextmanager
async def relay_to(port: int, directory: Path) -> AsyncIterator[Relay]:
    """A relay to that port; `directory` has the server's certificate, its key, and the CA."""
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(directory / "server.crt", directory / "server.key")
    client = ssl.create_default_context(cafile=str(directory / "ca.crt"))
    relay = Relay(port, server, client)
    listener = await asyncio.start_server(relay.serve, "127.0.0.1", 0, ssl=server, limit=_CHUNK)
    relay.port = listener.sockets[0].getsockname()[1]
    try:
        yield relay
    finally:
        listener.close()
        relay.cut()
        await asyncio.sleep(0)
