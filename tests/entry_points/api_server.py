"""An API server of a stranger's making: it lists and watches whatever bytes it is given, and honours nothing else."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec
from aiohttp import web
from tests.support.bundles import write

from transom.kube.client import Client
from transom.kube.connection import connect

_PIECE: Final = 64 << 10
_HEAD: Final = b'{"metadata":{"resourceVersion":"7"%b},"items":['


class StrangersApiServer:
    """`objects` are the texts of each path's objects; `events` come to whoever watches one; `answers` come before both."""

    def __init__(self) -> None:
        self.objects: dict[str, list[bytes]] = {}
        self.answers: dict[str, Callable[[web.BaseRequest], object]] = {}
        self._watchers: dict[str, list[asyncio.Queue[bytes]]] = {}

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[int]:
        """Listen on a port of this machine until the end of the block."""
        server = web.Server(self._handle)
        listening = await asyncio.get_running_loop().create_server(server, "127.0.0.1", 0)
        try:
            yield listening.sockets[0].getsockname()[1]
        finally:
            listening.close()
            await server.shutdown(0.1)

    def send(self, path: str, line: bytes) -> None:
        """Send one line of a watch to everybody who watches."""
        for queue in self._watchers.get(path, ()):
            queue.put_nowait(line)

    def is_watched(self, path: str) -> bool:
        """Return True if somebody watches a path."""
        return bool(self._watchers.get(path))

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        path = request.path
        if path in self.answers:
            answer = self.answers[path](request)
            if asyncio.iscoroutine(answer):
                answer = await answer
            if not isinstance(answer, web.StreamResponse):
                raise TypeError(path)
            return answer
        if request.query.get("watch"):
            return await self._watch(request, path)
        return await self._list(request, path)

    async def _list(self, request: web.BaseRequest, path: str) -> web.StreamResponse:
        if path not in self.objects:
            status = {"kind": "Status", "code": 404, "reason": "NotFound", "message": path}
            return web.Response(status=404, body=msgspec.json.encode(status))
        texts = self.objects[path]
        first, limit = int(request.query.get("continue") or 0), int(request.query.get("limit") or len(texts))
        page = texts[first : first + limit]
        more = b',"continue":"%d"' % (first + limit) if first + limit < len(texts) else b""
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        # a page as one text would be memory of this process, too
        with contextlib.suppress(ConnectionError):
            await response.write(_HEAD % more)
            for number, text in enumerate(page):
                await response.write(b"," * bool(number))
                for start in range(0, len(text), _PIECE):
                    await response.write(text[start : start + _PIECE])
            await response.write(b"]}")
        return response

    async def _watch(self, request: web.BaseRequest, path: str) -> web.StreamResponse:
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        response = web.StreamResponse()
        await response.prepare(request)
        watchers = self._watchers.setdefault(path, [])
        watchers.append(queue)
        try:
            while True:
                await response.write(await queue.get())
        finally:
            watchers.remove(queue)


@asynccontextmanager
async def serve_strangers(directory: Path) -> AsyncIterator[tuple[StrangersApiServer, Client]]:
    """Run such a server, and a client of it."""
    server = StrangersApiServer()
    async with server.serving() as port:
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
            "users": [{"name": "u", "user": {"token": "hunter2"}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "c",
        }
        write(directory, config, name="config")
        connection = connect(str(directory / "config"))
        try:
            yield server, Client(connection)
        finally:
            await connection.close()
