"""How many requests a second a server answers: an open loop in a process of its own, with as little work for each as can be."""

import asyncio
import json
import ssl
import sys
import time
from collections import deque

CONNECTIONS = 16
BEGIN, STEP = 200.0, 1.15
"""Requests a second that are asked for first, and so many times as many each time after that."""
SECONDS = 3.0
PATIENCE = 0.020
"""Seconds in which 99 of 100 are to be answered."""


class _Connection(asyncio.Protocol):
    """Sends one request after the other, each when the one before it was answered."""

    def __init__(self, request: bytes, took: list[float]) -> None:
        self._request, self._took = request, took
        self._due: deque[float] = deque()
        self._wanted, self._buffer = 0, bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def ask(self, due: float) -> None:
        self._due.append(due)
        if len(self._due) == 1:
            self._transport.write(self._request)

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
            self._transport.write(self._request)


async def _p99(port: int, context: ssl.SSLContext, request: bytes, rate: float) -> float:
    """Seconds."""
    took: list[float] = []
    loop = asyncio.get_running_loop()
    connections = [
        (await loop.create_connection(lambda: _Connection(request, took), "127.0.0.1", port, ssl=context))[1]
        for _ in range(CONNECTIONS)
    ]
    count, began = int(rate * SECONDS), time.perf_counter() + 0.05
    asked = 0
    while asked < count:
        now = time.perf_counter()
        while asked < count and began + asked / rate <= now:
            min(connections, key=lambda one: one.waiting).ask(began + asked / rate)
            asked += 1
        await asyncio.sleep(0.001)
    end = time.perf_counter() + 10 * PATIENCE
    while len(took) < count and time.perf_counter() < end:  # noqa: ASYNC110  # the last of many answers
        await asyncio.sleep(0.005)
    for one in connections:
        one._transport.abort()
    # what has no answer yet took longer than that
    return sorted([*took, *(10 * PATIENCE for _ in range(count - len(took)))])[int(count * 0.99)]


async def _most(port: int, authorities: str, body: bytes) -> float:
    context = ssl.create_default_context(cadata=authorities)
    headers = (
        "POST /pods HTTP/1.1",
        f"Host: 127.0.0.1:{port}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
    )
    request = "\r\n".join([*headers, "", ""]).encode() + body
    rate, reached, failed = BEGIN, 0.0, 0
    while failed < 2:
        # one that is over it may be the machine's
        if await _p99(port, context, request, rate) <= PATIENCE:
            reached, failed = rate, 0
            rate *= STEP
        else:
            failed += 1
    return reached


async def most(port: int, authorities: str, body: bytes) -> float:
    """The most requests a second, in steps of 15 %, of which 99 of 100 are answered within 20 ms."""
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.load"), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    printed, _ = await child.communicate(json.dumps([port, authorities, body.decode()]).encode())
    return float(printed)


if __name__ == "__main__":
    given = json.load(sys.stdin)
    print(asyncio.run(_most(given[0], given[1], given[2].encode())))
