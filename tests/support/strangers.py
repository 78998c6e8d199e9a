"""Peers in a process of their own that open connections, send the same bytes on each, and read nothing."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

STRANGER = "127.0.0.2"
"""The address from which strangers come: honest peers come from another one."""
_PROGRAM = """
import resource, socket, ssl, sys
port, count, encrypted, data = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "tls", bytes.fromhex(sys.argv[4])
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
context = ssl._create_unverified_context()
held, lost = [], 0
for _ in range(count):
    try:
        peer = socket.create_connection(("127.0.0.1", port), timeout=10, source_address=(sys.argv[5], 0))
        if encrypted:
            peer = context.wrap_socket(peer)
        peer.setblocking(False)
        held.append(peer)
        sent = peer.send(data) if data else 0
    except OSError:
        lost += 1
print(len(held), lost, flush=True)
sys.stdin.readline()
"""


@asynccontextmanager
async def connect_strangers(port: int, count: int, data: bytes = b"", *, encrypted: bool = False) -> AsyncIterator[None]:
    """Hold `count` connections to a port of this machine during the block, or what the server leaves of them."""
    kind = "tls" if encrypted else "plain"
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        _PROGRAM,
        *(str(port), str(count), kind, data.hex(), STRANGER),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    if process.stdin is None or process.stdout is None:
        raise RuntimeError("a process without pipes")
    try:
        line = await process.stdout.readline()
        if sum(map(int, line.split())) < count:
            raise RuntimeError(f"the strangers ended: {line!r}")
        yield
    finally:
        process.stdin.close()
        await process.wait()
