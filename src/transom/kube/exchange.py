"""Requests and watches, by aiohttp: at a thousand objects the client library's own path costs more than the server.

What decides where a request goes, whom it trusts and who asks is the library's: the same TLS context, the same authentication.
"""

import ssl
from asyncio import sslproto
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final, NamedTuple
from urllib.parse import urlencode

import aiohttp
import httpx2
import msgspec
from yarl import URL

from transom.kube.errors import AnswerTooLarge

# asyncio holds a buffer of 256 kB for each TLS connection, and there are dozens; a record of TLS has 16 kB
sslproto.SSLProtocol.max_size = 65536
_CONNECT_SECONDS: Final = 10.0
_UNAUTHORIZED: Final = 401
_WHOLE: Final = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS)
"""For an answer that is awaited as a whole: who asks has a deadline."""


class Request(NamedTuple):
    """What a server is asked; `most` are the bytes of an answer that is taken, None for any number."""

    method: str
    path: str
    query: Mapping[str, str] | None = None
    content: bytes | None = None
    content_type: str = ""
    most: int | None = None


class Answer(msgspec.Struct, frozen=True):
    """What the server said."""

    status: int
    retry_after: str | None
    body: bytes

    def __repr__(self) -> str:
        return f"Answer({self.status})"


class Exchange:
    """The way to one server, with connections that are kept. `http` gives the headers that every request has.

    `server_name` is what the server's certificate has to name; without it, its host.
    """

    def __init__(
        self,
        http: httpx2.AsyncClient,
        server: str,
        context: ssl.SSLContext,
        auth: httpx2.Auth | None,
        proxy: str | None,
        connections: int,
        server_name: str | None = None,
    ) -> None:
        self._http = http
        self._server = server.rstrip("/")
        self._url = httpx2.URL(self._server)
        self._context = context
        self._auth = auth
        self._proxy = proxy
        self._connections = connections
        self._server_name = server_name
        self._session: aiohttp.ClientSession | None = None

    async def request(self, asked: Request) -> Answer:
        """One request; of a token that is refused a newer one is tried.

        Raises AnswerTooLarge, aiohttp.ClientError, OSError, TimeoutError.
        """
        response = await self._ask(asked, _WHOLE)
        async with response:
            body = await response.read() if asked.most is None else await _read(response, asked.most)
            return Answer(response.status, response.headers.get("Retry-After"), body)

    @asynccontextmanager
    async def stream(self, path: str, query: Mapping[str, str], inactivity: float) -> AsyncIterator[aiohttp.ClientResponse]:
        """An answer that comes bit by bit; its connection ends with the block. `inactivity` is in seconds; raises the same."""
        limits = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS, sock_read=inactivity)
        response = await self._ask(Request("GET", path, query), limits)
        try:
            yield response
        finally:
            response.close()

    async def _ask(self, request: Request, limits: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        method, content = request.method, request.content
        url = URL(f"{self._server}{request.path}{'?' + urlencode(request.query) if request.query else ''}", encoded=True)
        headers = dict(self._http.headers)
        headers.pop("accept-encoding", None)
        if content is not None:
            headers["Content-Type"] = request.content_type
        if self._auth is None:
            return await self._send(method, url, content, headers, limits)
        # the library's authentication works on a request of its own kind
        flow = self._auth.async_auth_flow(httpx2.Request(method, self._url))
        try:
            asked = await anext(flow)
            while True:
                authorization = asked.headers.get("Authorization")
                if authorization is not None:
                    headers["Authorization"] = authorization
                response = await self._send(method, url, content, headers, limits)
                if response.status != _UNAUTHORIZED:
                    return response
                try:
                    asked = await flow.asend(httpx2.Response(response.status))
                except StopAsyncIteration:
                    return response
                response.release()
        finally:
            await flow.aclose()

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    async def _send(
        self, method: str, url: URL, content: bytes | None, headers: Mapping[str, str], limits: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        if self._session is None:
            connector = aiohttp.TCPConnector(ssl=self._context, limit=self._connections, keepalive_timeout=60)
            self._session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
        return await self._session.request(
            method,
            url,
            data=content,
            headers=headers,
            proxy=self._proxy,
            server_hostname=self._server_name,
            allow_redirects=False,
            timeout=limits,
        )


async def _read(response: aiohttp.ClientResponse, most: int) -> bytes:
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > most:
            response.close()
            raise AnswerTooLarge(f"the answer has more than {most:,} bytes")
    return bytes(body)
