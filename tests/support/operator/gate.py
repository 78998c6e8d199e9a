"""A gate before an API server, at the level of HTTP: it can answer in the server's place, delay, and cut answers short."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import aiohttp
from aiohttp import web

Answer = Callable[[web.Request], web.Response | None]


class Gate:
    """What is set holds from the next request on."""

    def __init__(self, target: str, session: aiohttp.ClientSession) -> None:
        self._target = target
        self._session = session
        self._transports: set[asyncio.Transport] = set()
        self.url = ""
        self.requests: list[str] = []
        """`METHOD /path`, or `WATCH /path`."""
        self.answer: Answer = lambda _: None
        self.delay = 0.0
        """Seconds before each list is answered."""
        self.delay_all = 0.0
        """Seconds before each request but a watch is passed on."""
        self.stalled = False
        """Whether nothing passes in either direction, and no connection ends: a network that is partitioned."""
        self.cut_lines = False
        """The next line of each watch is cut in its middle, and the connection with it."""

    def cut(self) -> None:
        """End every connection, without a goodbye."""
        for transport in self._transports:
            # Python 3.11.2 (Debian 12) cannot abort a TLS transport that is closed already
            if not transport.is_closing():
                transport.abort()

    async def _wait_while_stalled(self) -> None:
        while self.stalled:
            await asyncio.sleep(0.05)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        watch = request.query.get("watch") == "true"
        self.requests.append(f"{'WATCH' if watch else request.method} {request.path}")
        if request.transport is not None:
            self._transports.add(request.transport)
        if (answer := self.answer(request)) is not None:
            return answer
        await self._wait_while_stalled()
        if self.delay_all and not watch:
            await asyncio.sleep(self.delay_all)
        if self.delay and request.method == "GET" and not watch:
            await asyncio.sleep(self.delay)
        headers = {
            name: request.headers[name] for name in ("Authorization", "Content-Type", "Accept") if name in request.headers
        }
        url = f"{self._target}{request.path_qs}"
        try:
            body = await request.read() or None
            async with self._session.request(request.method, url, headers=headers, data=body) as far:
                near = web.StreamResponse(status=far.status, headers={"Content-Type": far.headers.get("Content-Type", "")})
                await near.prepare(request)
                async for chunk in far.content.iter_any():
                    await self._wait_while_stalled()
                    if watch and self.cut_lines:
                        await near.write(chunk[: len(chunk) // 2])
                        self.cut()
                        return near
                    await near.write(chunk)
                await near.write_eof()
                return near
        except (aiohttp.ClientError, OSError):
            if request.transport is not None:
                request.transport.abort()
            return web.Response(status=502)


@contextlib.asynccontextmanager
async def gate_to(target: str, directory: Path) -> AsyncIterator[Gate]:
    """A gate to that server; `directory` has its certificate, its key, and the CA."""
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(directory / "server.crt", directory / "server.key")
    client = ssl.create_default_context(cafile=str(directory / "ca.crt"))
    connector = aiohttp.TCPConnector(ssl=client, limit=0)
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout, trust_env=False) as session:
        gate = Gate(target, session)
        app = web.Application(client_max_size=16 << 20)
        app.router.add_route("*", "/{path:.*}", gate.handle)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=server)
        await site.start()
        gate.url = f"https://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield gate
        finally:
            gate.cut()
            await runner.cleanup()
