"""Strangers at the open ports: each connection ends, honest peers are answered meanwhile, and nothing grows without bound."""

import asyncio
import errno
import os
import resource
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import aiohttp
import pytest
import structlog
from aiohttp import web
from lab.ports import reserve
from tests.operations.hostile_peers import FLOODS, PEERS, Streams
from tests.operations.test_metrics import KUBECONFIG
from tests.support.bundles import write
from tests.support.event_loop import measure_cost
from tests.support.strangers import connect_strangers
from tests.support.waiting import PATIENCE, until
from tests.webhook.caller import calling, of, reviewed

from transom.http_server import connection, server
from transom.http_server.server import BoundedServer, ServerBounds
from transom.operations import server as operations
from transom.webhook import server as webhook
from transom.webhook.metrics import WebhookMetrics

SECONDS = 0.4
"""Each limit of time, in the tests that wait for it."""


class LargeMetrics:
    def render(self) -> bytes:
        return b"x" * 300_000


@dataclass
class Door:
    """An open port, and a question of an honest peer."""

    port: int
    path: bytes
    context: ssl.SSLContext | None
    connections: int
    ask: Any
    server: BoundedServer

    async def connect(self) -> Streams:
        return await asyncio.open_connection("127.0.0.1", self.port, ssl=self.context)


@contextmanager
def record_servers(module: ModuleType) -> Iterator[list[BoundedServer]]:
    """Record the servers that a module makes while the block runs."""
    servers: list[BoundedServer] = []

    class RecordedServer(BoundedServer):
        def __init__(self, *arguments: Any, **more: Any) -> None:
            super().__init__(*arguments, **more)
            servers.append(self)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "BoundedServer", RecordedServer)
        yield servers


@asynccontextmanager
async def metrics_door(_: Path) -> AsyncIterator[Door]:
    """The port of /metrics, /healthz and /readyz, of `transom run` and of `transom webhook`."""
    with record_servers(operations) as servers:
        async with operations.serve(("127.0.0.1", 0), lambda: True, LargeMetrics()) as port:

            async def ask() -> None:
                async with (
                    aiohttp.ClientSession(trust_env=False) as session,
                    session.get(f"http://127.0.0.1:{port}/healthz") as response,
                ):
                    assert response.status == 200

            yield Door(port, b"/metrics", None, operations.BOUNDS.connections, ask, servers[0])


@asynccontextmanager
async def admission_door(directory: Path) -> AsyncIterator[Door]:
    """The port of the admission server."""
    with record_servers(webhook) as servers:
        async with calling(directory) as caller:
            body = of(reviewed())

            async def ask() -> None:
                connector = aiohttp.TCPConnector(ssl=caller.context)
                async with (
                    aiohttp.ClientSession(connector=connector, trust_env=False) as session,
                    session.post(f"https://127.0.0.1:{caller.port}/pods", data=body) as response,
                ):
                    assert response.status == 200

            yield Door(caller.port, b"/pods", caller.context, webhook.MAX_CONNECTIONS, ask, servers[0])


DOORS = {"metrics": metrics_door, "admission": admission_door}


@pytest.fixture(params=DOORS)
async def door(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Door]:
    async with DOORS[request.param](tmp_path) as made:
        yield made


@pytest.fixture
def quick(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten each limit of time. An idle connection ends soon for the peer alone who is idle: it would end others as well."""
    idle = SECONDS if request.node.callspec.params["name"] == "asks once and stays" else 3600.0
    for name in ("SILENCE_SECONDS", "UNSENT_SECONDS", "LINGER_SECONDS"):
        monkeypatch.setattr(connection, name, SECONDS)
    monkeypatch.setattr(webhook, "BODY_SECONDS", SECONDS)
    monkeypatch.setattr(webhook, "_IDLE_SECONDS", idle)
    monkeypatch.setattr(operations, "BOUNDS", ServerBounds(operations.BOUNDS.connections, idle))


@pytest.mark.parametrize("name", PEERS)
async def test_every_connection_ends_and_others_are_answered(quick: None, door: Door, name: str) -> None:
    streams = await door.connect()
    peer = asyncio.ensure_future(PEERS[name](streams, door.path))
    await door.ask()
    with measure_cost() as cost:
        # asyncio's TLS of a peer that reads nothing does not notice the end
        await until(lambda: not door.server.slots)
    assert cost.growth < 16 << 20
    peer.cancel()
    await asyncio.gather(peer, return_exceptions=True)
    streams[1].transport.abort()
    await door.ask()


@pytest.mark.parametrize("name", FLOODS)
async def test_more_connections_than_there_may_be(door: Door, name: str) -> None:
    """Each honest question is answered while many strangers hold on to what they have; nobody's time is waited for."""
    await door.ask()
    with measure_cost() as cost:
        async with connect_strangers(door.port, 2 * door.connections + 50, FLOODS[name], encrypted=door.context is not None):
            for _ in range(5):
                started = time.monotonic()
                await door.ask()
                assert time.monotonic() - started < connection.SILENCE_SECONDS / 2
                assert len(door.server.slots) <= door.connections
    assert cost.growth < 100 << 20
    assert cost.longest < 0.5, cost.callback
    await door.ask()


async def test_what_the_kernel_holds_for_a_connection(door: Door) -> None:
    """It counts as memory of the pod, and grows to megabytes by default."""
    streams = await door.connect()

    def list_sockets() -> list[Any]:
        connections = [slot.connection for slot in door.server.slots if slot.connection is not None]
        return [item._wire.get_extra_info("socket") for item in connections if item._wire is not None]

    await until(list_sockets)
    sockets = list_sockets()
    for entry in sockets:
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            assert entry.getsockopt(socket.SOL_SOCKET, option) <= 2 * server.BUFFER_BYTES
    streams[1].transport.abort()


async def test_the_head_of_a_request_has_a_length(door: Door) -> None:
    """Fewer headers than aiohttp takes, and each of them shorter."""
    for count, wanted in ((28, {b"200", b"405"}), (40, {b"431"})):
        reader, writer = await door.connect()
        writer.write(b"GET %b HTTP/1.1\r\nHost: x\r\n" % door.path + b"X: %b\r\n" % (b"a" * 1_000) * count)
        await asyncio.sleep(0.2)
        if count == 28:
            writer.write(b"\r\n")
        async with asyncio.timeout(connection.SILENCE_SECONDS / 2):
            assert (await reader.readline()).split()[1] in wanted
        writer.transport.abort()


async def test_who_asks_again_and_again_is_not_the_one_who_ends(door: Door) -> None:
    streams = await door.connect()
    reader, writer = streams
    content = of(reviewed()) if door.path == b"/pods" else b""
    method = b"POST" if content else b"GET"
    request = b"%b %b HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b" % (method, door.path, len(content), content)

    async def ask() -> None:
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.split()[1] == b"200"
        length = next(line.split()[1] for line in head.splitlines() if line.lower().startswith(b"content-length"))
        await reader.readexactly(int(length))

    async def flood() -> None:
        async with connect_strangers(door.port, 3 * door.connections, encrypted=door.context is not None):
            pass

    async with asyncio.timeout(PATIENCE):
        flooding = asyncio.ensure_future(flood())
        while not flooding.done():
            await ask()
            await asyncio.sleep(0.05)
        await flooding
        await ask()
    writer.transport.abort()


async def test_connections_that_ask_all_the_time(door: Door) -> None:
    """As many as there may be, each with a request every few milliseconds: none of them is idle when an honest one comes."""
    stop = asyncio.Event()

    async def ask_on(streams: Streams) -> None:
        reader, writer = streams
        reading = asyncio.ensure_future(_discard(reader))
        while not stop.is_set() and not writer.is_closing():
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n" if door.context is None else _REVIEW)
            await asyncio.sleep(0.05)
        writer.transport.abort()
        await asyncio.gather(reading, return_exceptions=True)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(server, "PATIENCE_SECONDS", 0.5)
        tasks = [asyncio.ensure_future(ask_on(await door.connect())) for _ in range(door.connections)]
        try:
            for _ in range(10):
                async with asyncio.timeout(connection.SILENCE_SECONDS / 2):
                    await door.ask()
        finally:
            stop.set()
            await asyncio.gather(*tasks)


_REVIEW = b"POST /pods HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b" % (len(of(reviewed())), of(reviewed()))


async def _discard(reader: asyncio.StreamReader) -> None:
    while await reader.read(1 << 16):
        pass


async def test_no_file_for_a_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line of the log however long it lasts, and afterwards it goes on."""
    monkeypatch.setattr(server, "RETRY_SECONDS", 0.05)

    async def handle(_: web.BaseRequest) -> web.Response:
        return web.Response(text="ok")

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with structlog.testing.capture_logs() as logs:
        async with (
            BoundedServer(handle, ServerBounds(10, 10.0)).serve(("127.0.0.1", 0)) as port,
            aiohttp.ClientSession(trust_env=False) as session,
        ):
            peer = socket.socket()
            peer.setblocking(False)
            lowest = os.dup(0)
            os.close(lowest)
            try:
                resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
                peer.connect_ex(("127.0.0.1", port))
                await asyncio.sleep(1.0)
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            async with session.get(f"http://127.0.0.1:{port}/") as response:
                assert response.status == 200
            peer.close()
    assert [entry["error"] for entry in logs if entry["log_level"] == "warning"] == [os.strerror(errno.EMFILE)]


async def test_what_strangers_get_wrong_is_no_line_of_the_log(door: Door) -> None:
    with structlog.testing.capture_logs() as logs:
        for data in (
            b"nonsense\r\n\r\n",
            b"GET / HTTP/1.1\r\nA\x00: b\r\n\r\n",
            b"GET /" + b"a" * 9_000 + b" HTTP/1.1\r\n\r\n",
        ):
            reader, writer = await door.connect()
            writer.write(data)
            async with asyncio.timeout(PATIENCE):
                answer = await reader.read()
            assert answer.split()[1] == b"400"
            assert len(answer) < 1_000
            writer.close()
        for data in (b"", b"x", b"12345"):
            _, writer = await door.connect()
            writer.write(b"POST %b HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n" % door.path + data)
            await asyncio.sleep(0.3)
            writer.transport.abort()
        await until(lambda: not door.server.slots)
        await door.ask()
    assert [entry for entry in logs if entry["log_level"] != "debug"] == []


async def test_bodies_on_their_way_share_a_bound(tmp_path: Path) -> None:
    """Reviews that are all there are answered, a large one is refused, and all is well once the bodies took too long."""
    async with admission_door(tmp_path) as door:
        head = b"POST /pods HTTP/1.1\r\nHost: x\r\nContent-Length: 3000000\r\n\r\n"
        peers = []
        with measure_cost() as cost:
            for _ in range(20):
                _, writer = await door.connect()
                writer.write(head + b" " * 2_900_000)
                peers.append(writer)
                # a peer that was refused is sent away
                await asyncio.wait({asyncio.ensure_future(writer.drain())}, timeout=0.2)
            await door.ask()
        # the buffers of the peers, in this process too, are as large as the bodies
        assert cost.growth < 3 * webhook.MAX_BODIES + (60 << 20)
        for writer in peers:
            writer.transport.abort()
        await until(lambda: len(door.server.slots) == 0)
        connector = aiohttp.TCPConnector(ssl=door.context)
        async with (
            aiohttp.ClientSession(connector=connector, trust_env=False) as session,
            session.post(f"https://127.0.0.1:{door.port}/pods", data=of(reviewed(options="x" * 2_000_000))) as response,
        ):
            assert response.status == 200


async def test_one_body_too_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook, "MAX_BODIES", 1_000_000)
    async with admission_door(tmp_path) as door:
        _, first = await door.connect()
        first.write(b"POST /pods HTTP/1.1\r\nHost: x\r\nContent-Length: 900000\r\n\r\n" + b" " * 899_000)
        await asyncio.sleep(0.3)
        reader, second = await door.connect()
        second.write(b"POST /pods HTTP/1.1\r\nHost: x\r\nContent-Length: 900000\r\n\r\n" + b" " * 300_000)
        async with asyncio.timeout(PATIENCE):
            assert (await reader.readline()).split()[1] == b"503"
        await door.ask()
        first.transport.abort()
        second.transport.abort()


@pytest.mark.parametrize("command", ["run", "webhook"])
def test_a_process_may_have_as_many_files_as_the_system_allows(command: str, tmp_path: Path) -> None:
    file = Path(write(tmp_path, KUBECONFIG, name="config"), "config")
    addresses = [f"--bind-address=127.0.0.1:{reserve()}"]
    if command == "webhook":
        addresses.append(f"--metrics-bind-address=127.0.0.1:{reserve()}")
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    process = subprocess.Popen(
        [sys.executable, "-m", "transom", command, "--kubeconfig", str(file), *addresses],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard)),  # noqa: PLW1509  # no thread runs here
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline and process.poll() is None:
            if resource.prlimit(process.pid, resource.RLIMIT_NOFILE)[0] == hard:
                break
            time.sleep(0.1)
        assert process.poll() is None
        assert resource.prlimit(process.pid, resource.RLIMIT_NOFILE)[0] == hard
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


def test_the_metrics_of_dropped_connections_are_counted() -> None:
    metrics = WebhookMetrics()
    metrics.count_dropped()
    assert metrics.registry.get_sample_value("transom_webhook_connections_dropped_total") == 1
