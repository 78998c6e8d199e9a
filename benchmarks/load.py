"""An open loop that asks a server as an API server does, with as little work for each request as can be.

`python -m benchmarks.load` does so in a process of its own, at one rate.
"""

import asyncio
import json
import os
import ssl
import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import msgspec

CONNECTIONS = 16
FEW = 4
"""Connections at a rate that one could carry."""
PATIENCE = 0.020
"""Seconds in which 99 of 100 are to be answered."""
FIRST_WRITE = 4096
"""Bytes that an API server sends with the headers; the rest follows (Go's net/http, Transport.WriteBufferSize)."""


class Target(msgspec.Struct, frozen=True):
    """A server on this machine: its port, the authorities that it is believed by, and the body of each request."""

    port: int
    authorities: str
    body: str

    @property
    def request(self) -> bytes:
        """As an API server sends it."""
        headers = ("POST /pods?timeout=10s HTTP/1.1", f"Host: 127.0.0.1:{self.port}", "User-Agent: kube-apiserver-admission")
        typed = ("Content-Type: application/json", "Accept: application/json, */*")
        body = self.body.encode()
        return "\r\n".join([*headers, f"Content-Length: {len(body)}", *typed, "", ""]).encode() + body


class Order(msgspec.Struct, frozen=True):
    """What a process is asked to do; `cpu` is the only one that it works on."""

    target: Target
    rate: float
    seconds: float
    cpu: int | None


class Done(msgspec.Struct, frozen=True):
    """Seconds: of 99 of 100 requests each took no more than `p99`; `busy` is the share of the time that this loop worked."""

    p99: float
    busy: float


class Connection(asyncio.Protocol):
    """Sends one request after the other, each when the one before it was answered."""

    def __init__(self, request: bytes, took: list[float]) -> None:
        self._parts, self._took = (request[:FIRST_WRITE], request[FIRST_WRITE:]), took
        self._due: deque[float] = deque()
        self._wanted, self._buffer = 0, bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def ask(self, due: float) -> None:
        self._due.append(due)
        if len(self._due) == 1:
            self._send()

    def close(self) -> None:
        self._transport.abort()

    @property
    def waiting(self) -> int:
        return len(self._due)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self._wanted:
            head, separator, _ = bytes(self._buffer).partition(b"\r\n\r\n")
            if not separator:
                return
            if not head.startswith(b"HTTP/1.1 200"):
                raise RuntimeError(head.decode())
            length = head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0]
            self._wanted = len(head) + 4 + int(length)
        if len(self._buffer) < self._wanted:
            return
        self._buffer.clear()
        self._wanted = 0
        self._took.append(time.perf_counter() - self._due.popleft())
        if self._due:
            self._send()

    def _send(self) -> None:
        for part in self._parts:
            self._transport.write(part)


class Loop:
    """Connections to one server, which are kept."""

    def __init__(self, connections: Iterable[Connection], took: list[float]) -> None:
        self._connections, self._took = list(connections), took

    async def ask(self, rate: float, seconds: float, patience: float = 60.0) -> list[float]:
        """Seconds that each request took, sorted: sent when its time came, and counted from then.

        Those that have no answer `patience` after the last one was sent have taken as long as that.
        """
        self._took.clear()
        count, began = int(rate * seconds), time.perf_counter() + 0.01
        asked = 0
        while asked < count:
            now = time.perf_counter()
            while asked < count and began + asked / rate <= now:
                min(self._connections, key=lambda connection: connection.waiting).ask(began + asked / rate)
                asked += 1
            await asyncio.sleep(max(0.001, began + asked / rate - time.perf_counter()))
        end = time.perf_counter() + patience
        while len(self._took) < count and time.perf_counter() < end:  # noqa: ASYNC110  # the last of many answers
            await asyncio.sleep(0.005)
        return sorted([*self._took, *(patience for _ in range(count - len(self._took)))])


@asynccontextmanager
async def connected(target: Target, number: int) -> AsyncIterator[Loop]:
    """A loop whose connections have been used once."""
    loop, took = asyncio.get_running_loop(), list[float]()
    context = ssl.create_default_context(cadata=target.authorities)
    request = target.request
    connections = []
    try:
        for _ in range(number):
            _, made = await loop.create_connection(lambda: Connection(request, took), "127.0.0.1", target.port, ssl=context)
            connections.append(made)
            # before the server has waited too long for it
            made.ask(time.perf_counter())
        async with asyncio.timeout(60):
            while len(took) < number:  # noqa: ASYNC110  # as above
                await asyncio.sleep(0.005)
        yield Loop(connections, took)
    finally:
        for connection in connections:
            connection.close()


async def measured(order: Order) -> Done:
    """Work for one order, in a process of its own."""
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.load"), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    printed, _ = await child.communicate(msgspec.json.encode(order))
    return msgspec.json.decode(printed, type=Done)


async def _carry_out(order: Order) -> Done:
    if order.cpu is not None:
        os.sched_setaffinity(0, {order.cpu})
    async with connected(order.target, CONNECTIONS) as loop:
        began, used = time.perf_counter(), time.process_time()
        took = await loop.ask(order.rate, order.seconds, 10 * PATIENCE)
        busy = (time.process_time() - used) / (time.perf_counter() - began)
    return Done(took[int(len(took) * 0.99)], busy)


if __name__ == "__main__":
    given = msgspec.convert(json.load(sys.stdin), Order)
    sys.stdout.buffer.write(msgspec.json.encode(asyncio.run(_carry_out(given))))
