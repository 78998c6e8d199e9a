"""HTTP servers of others that Transom asks: for files, readiness, an admission server's answer, a page of a node."""

import asyncio
import base64
import contextlib
import gzip
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from lab.authority import Authority
from tests.controllers.propagation.test_foreign_clusters import Foreign
from tests.entry_points.attacks import ANSWER_VARIANTS
from tests.entry_points.entry_point import MIB, Bench

from transom.controllers.join.api_server_trust import ApiServerTrust
from transom.controllers.pods.webhook_check import _check_server, _ServerFault
from transom.http.downloads import DownloadError, Route, download, fetch_checksum
from transom.http.readiness import probe
from transom.proxy.settings import Egress
from transom.verification.checks import Fetch
from transom.verification.cluster_verification import _fetch_directly

_BOMB: Final = gzip.compress(b" " * 30 * MIB, 1)
_ANSWERS: Final[Mapping[str, tuple[bytes, list[bytes]]]] = {
    **ANSWER_VARIANTS,
    "gzip": (b"Content-Encoding: gzip\r\n", [_BOMB] * 10),
    "a redirect to itself": (b"Location: /\r\n", [b"x"]),
}
_SUM: Final = "a" * 64


class _EndpointBench(Bench):
    def __init__(self, directory: Path, plain: Foreign, encrypted: Foreign, ports: tuple[int, int]) -> None:
        self._directory, self._plain, self._encrypted = directory, plain, encrypted
        self._url, self._secure = f"http://127.0.0.1:{ports[0]}/f", f"https://127.0.0.1:{ports[1]}/f"
        authority = (directory / "ca.crt").read_bytes()
        self._bundle = base64.b64encode(authority).decode()
        self._way = Route(Egress())
        self._readers: Mapping[str, Callable[[], Awaitable[object]]] = {
            "checksum": self._read_checksum,
            "file": self._read_file,
            "readiness": lambda: probe(Egress(readiness_endpoints=(self._url,)), pause=0),
            "admission server": lambda: _check_server(self._secure, self._bundle),
            "page": lambda: _fetch_directly(Fetch(url=self._url, what="page")),
            "API server": lambda: ApiServerTrust().find_trust_problem(
                {"server": self._secure, "certificate-authority-data": self._bundle}
            ),
        }

    async def _read_checksum(self) -> None:
        async with self._way.open_session() as session:
            await fetch_checksum(self._way, session, self._url, self._url)

    async def _read_file(self) -> None:
        async with self._way.open_session() as session:
            await download(self._way, session, self._url, _SUM, self._directory / "file")

    async def attack(self, name: str) -> None:
        reader, _, variant = name.partition(": ")
        for server in (self._plain, self._encrypted):
            server.headers, server.chunks = _ANSWERS[variant]
            server.status = b"302 Found" if "redirect" in variant else b"200 OK"
        with contextlib.suppress(DownloadError, _ServerFault):
            await self._readers[reader]()

    async def serve_neighbour(self) -> None:
        ended = asyncio.Event()
        asyncio.get_running_loop().call_soon(ended.set)
        await ended.wait()


READERS: Final = ("checksum", "file", "readiness", "admission server", "page", "API server")
ENDPOINTS: Final = tuple(f"{reader}: {variant}" for reader in READERS for variant in _ANSWERS)


@asynccontextmanager
async def open_endpoints(directory: Path, _: tuple[str, ...]) -> AsyncIterator[Bench]:
    """Servers with and without TLS that answer as they like."""
    authority = Authority(directory)
    authority.issue("server", "api", addresses=("127.0.0.1",))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "server.crt", directory / "server.key")
    servers = Foreign(), Foreign()
    listeners = [
        await asyncio.start_server(servers[0].serve, "127.0.0.1", 0),
        await asyncio.start_server(servers[1].serve, "127.0.0.1", 0, ssl=context),
    ]
    first, second = (listener.sockets[0].getsockname()[1] for listener in listeners)
    try:
        yield _EndpointBench(directory, *servers, (first, second))
    finally:
        for listener in listeners:
            listener.close()
