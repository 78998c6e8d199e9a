"""``python -m lab.gateway ADDRESS PROXY_PORT``: a gateway that sends all TLS to a proxy, without the knowledge of clients.

Every name resolves to the gateway, but those below `.invalid` and `.example`. A TLS connection to it is passed to the proxy, as
CONNECT to the name that the client asks for (SNI, RFC 6066). A proxy that decrypts TLS is then what clients see of every
server.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
import ssl
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from lab.process import Process

DNS_PORT: Final = 53
TLS_PORT: Final = 443
_HEADER: Final = struct.Struct("!6H")
_QUESTION_END: Final = struct.Struct("!2H")
_ADDRESS = _INTERNET = 1
_ANSWER, _NAME_ERROR = 0x8180, 3
_TIME_TO_LIVE: Final = 60
_START_SECONDS: Final = 120


class GatewayError(Exception):
    """The gateway did not start; the message holds the end of its log."""


def answer_query(query: bytes, address: ipaddress.IPv4Address) -> bytes:
    """Return the answer to a DNS query (RFC 1035): the address for type A, an empty answer for any other type.

    No name below `.invalid` or `.example` exists (RFC 6761, RFC 2606).
    """
    number, _, _, _, _, _ = _HEADER.unpack_from(query)
    end = query.index(b"\0", _HEADER.size) + 1
    exists = not query[:end].lower().endswith((b"\x07invalid\0", b"\x07example\0"))
    kind, _ = _QUESTION_END.unpack_from(query, end)
    question = query[_HEADER.size : end + _QUESTION_END.size]
    record = struct.pack("!3HIH", 0xC000 | _HEADER.size, _ADDRESS, _INTERNET, _TIME_TO_LIVE, 4) + address.packed
    records = record if exists and kind == _ADDRESS else b""
    flags = _ANSWER if exists else _ANSWER | _NAME_ERROR
    return _HEADER.pack(number, flags, 1, 1 if records else 0, 0, 0) + question + records


async def answer_queries(address: ipaddress.IPv4Address) -> None:
    """Answer every DNS query with one address, until cancelled. What is not a query gets no answer."""
    loop = asyncio.get_running_loop()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.setblocking(False)
        server.bind((str(address), DNS_PORT))
        while True:
            query, client = await loop.sock_recvfrom(server, 4096)
            with contextlib.suppress(ValueError, struct.error):
                await loop.sock_sendto(server, answer_query(query, address), client)


def read_server_name(hello: bytes) -> str | None:
    """Return the name in a ClientHello; None where it has none, or is not complete."""
    names: list[str | None] = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.sni_callback = lambda _, name, __: names.append(name)
    incoming = ssl.MemoryBIO()
    incoming.write(hello)
    # it has no certificate: all that is wanted is the callback before that matters
    with contextlib.suppress(ssl.SSLError):
        context.wrap_bio(incoming, ssl.MemoryBIO(), server_side=True).do_handshake()
    return names[0] if names else None


class TlsRedirect:
    """Sends TLS connections to a proxy."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one connection to its end."""
        with contextlib.closing(writer), contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            hello = b""
            while (name := read_server_name(hello)) is None:
                part = await reader.read(65_536)
                if not part:
                    return
                hello += part
            proxy_reader, proxy_writer = await asyncio.open_connection(self._host, self._port)
            with contextlib.closing(proxy_writer):
                proxy_writer.write(f"CONNECT {name}:{TLS_PORT} HTTP/1.1\r\nHost: {name}:{TLS_PORT}\r\n\r\n".encode())
                status = await proxy_reader.readuntil(b"\r\n\r\n")
                if status.split(b" ", 2)[1] != b"200":
                    return
                proxy_writer.write(hello)
                await asyncio.gather(_copy_stream(reader, proxy_writer), _copy_stream(proxy_reader, writer))


async def _copy_stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while part := await reader.read(65_536):
            writer.write(part)
            await writer.drain()
    finally:
        writer.close()


async def serve(address: str, proxy_port: int) -> None:
    """Serve until the process ends."""
    server = await asyncio.start_server(TlsRedirect(address, proxy_port).handle, address, TLS_PORT)
    async with server:
        await answer_queries(ipaddress.IPv4Address(address))


@contextlib.contextmanager
def run_gateway(address: str, proxy_port: int, log: Path) -> Iterator[None]:
    """Run a gateway in a process of its own. Raises GatewayError if it does not start."""
    process = Process([sys.executable, "-m", "lab.gateway", address, str(proxy_port)], log)
    try:
        deadline = time.monotonic() + _START_SECONDS
        while True:
            with contextlib.suppress(OSError), socket.create_connection((address, TLS_PORT), 1):
                break
            if time.monotonic() > deadline or process.has_ended():
                raise GatewayError(f"the gateway did not start:\n{log.read_text()[-2000:]}")
            time.sleep(0.05)
        yield
    finally:
        process.stop()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], int(sys.argv[2])))
