"""The way to one API server, ours or a stranger's: requests and watches, by aiohttp."""

import os
import ssl
from asyncio import sslproto
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

import aiohttp
import msgspec
from yarl import URL

from transom.kube import AnswerTooLarge, ConfigurationError, ConnectionFailed
from transom.kube.credentials import Credentials, basic, credentials_of
from transom.kube.kubeconfig import Chosen
from transom.kube.tls import context_of

# asyncio holds a buffer of 256 kB for each TLS connection, and there are dozens; a record of TLS has 16 kB
sslproto.SSLProtocol.max_size = 32768
_UNAUTHORIZED: Final = 401


class Bounds(NamedTuple):
    """What a server may cost: connections at once, seconds of a connect and of silence, bytes and values of an answer."""

    connections: int = 128
    connect: float = 10.0
    silence: float | None = None
    size: int | None = None
    values: int | None = None


OURS: Final = Bounds()
"""For an answer as a whole, who asks has a deadline."""
FOREIGN: Final = Bounds(connections=2, connect=5.0, silence=10.0, size=4 << 20, values=100_000)
"""It may be far away, gone, or anybody's. Objects have up to 1.5 MiB; a value takes up to fifty times its text's memory."""


class Request(NamedTuple):
    """What a server is asked; `most` are the bytes of an answer that is taken, None for any number."""

    method: str
    path: str
    query: Mapping[str, str] | None = None
    content: bytes | None = None
    content_type: str = ""
    most: int | None = None


class HttpAnswer(msgspec.Struct, frozen=True):
    """What the server said."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def __repr__(self) -> str:
        return f"Answer({self.status})"


class HttpTransport:
    """The way to one server, with connections that are kept. Each request has `headers`."""

    def __init__(
        self,
        server: URL,
        context: ssl.SSLContext,
        credentials: Credentials,
        *,
        proxy: URL | None = None,
        server_name: str | None = None,
        bounds: Bounds = OURS,
    ) -> None:
        """Nothing is sent yet. `server_name` is what the server's certificate has to name; without it, its host."""
        self.headers = {"User-Agent": "transom", "Accept": "application/json"}
        self._server = str(server.with_user(None)).rstrip("/")
        self._context = context
        self._credentials = credentials
        self._proxy = proxy.with_user(None) if proxy is not None else None
        self._proxy_headers = _proxy_headers(proxy)
        self._server_name = server_name
        self._bounds = bounds
        self._session: aiohttp.ClientSession | None = None
        if bounds.size is not None:
            # what is compressed may become any size
            self.headers["Accept-Encoding"] = "identity"

    async def request(self, request: Request) -> HttpAnswer:
        """One request; where who asks is refused, newer credentials are tried. Raises ApiError, and what `WayErrors` takes."""
        async with await self._ask(request, self._bounds.silence) as response:
            return HttpAnswer(response.status, response.headers, await self._body(response, request.most))

    @asynccontextmanager
    async def stream(self, path: str, query: Mapping[str, str], inactivity: float) -> AsyncIterator[aiohttp.ClientResponse]:
        """An answer that comes bit by bit; its connection ends with the block. `inactivity` is in seconds; raises the same."""
        response = await self._ask(Request("GET", path, query), inactivity)
        try:
            yield response
        finally:
            response.close()

    @asynccontextmanager
    async def websocket(
        self, path: str, query: Sequence[tuple[str, str]], protocols: Sequence[str]
    ) -> "AsyncIterator[aiohttp.ClientWebSocketResponse[Any] | int]":
        """A WebSocket that ends with the block; where the server gives none, the HTTP status of its answer. Raises the same."""
        url = URL(f"{self._server}{path}?{urlencode(query)}", encoded=True)
        said = await self._credentials.authorization()
        opened = await self._upgrade(url, protocols, said)
        if opened == _UNAUTHORIZED and (newer := await self._credentials.authorization(said)) is not None:
            opened = await self._upgrade(url, protocols, newer)
        try:
            yield opened
        finally:
            if not isinstance(opened, int):
                await opened.close()

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    async def _ask(self, request: Request, silence: float | None) -> aiohttp.ClientResponse:
        bounds = self._bounds
        limits = aiohttp.ClientTimeout(total=None, connect=bounds.silence, sock_connect=bounds.connect, sock_read=silence)
        said = await self._credentials.authorization()
        response = await self._send(request, said, limits)
        if response.status != _UNAUTHORIZED:
            return response
        try:
            newer = await self._credentials.authorization(said)
        except BaseException:
            response.close()
            raise
        if newer is None:
            return response
        response.release()
        return await self._send(request, newer, limits)

    async def _send(self, request: Request, said: str | None, limits: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        headers = dict(self.headers)
        if said is not None:
            headers["Authorization"] = said
        if request.content is not None:
            headers["Content-Type"] = request.content_type
        query = f"?{urlencode(request.query)}" if request.query else ""
        return await self._opened().request(
            request.method,
            URL(f"{self._server}{request.path}{query}", encoded=True),
            data=request.content,
            headers=headers,
            proxy=self._proxy,
            proxy_headers=self._proxy_headers,
            server_hostname=self._server_name,
            allow_redirects=False,
            timeout=limits,
        )

    async def _upgrade(
        self, url: URL, protocols: Sequence[str], said: str | None
    ) -> "aiohttp.ClientWebSocketResponse[Any] | int":
        # the kubelet, to whom headers are handed on, refuses what it cannot make JSON of: no Accept (406)
        headers = {"User-Agent": self.headers["User-Agent"]}
        if said is not None:
            headers["Authorization"] = said
        try:
            return await self._opened().ws_connect(
                url,
                protocols=protocols,
                headers=headers,
                proxy=self._proxy,
                proxy_headers=self._proxy_headers,
                server_hostname=self._server_name,
            )
        except aiohttp.WSServerHandshakeError as error:
            return error.status

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=self._context, limit=self._bounds.connections, keepalive_timeout=60),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=self._bounds.size is None,
            )
        return self._session

    async def _body(self, response: aiohttp.ClientResponse, most: int | None) -> bytes:
        sizes = [size for size in (most, self._bounds.size) if size is not None]
        if not sizes:
            return await response.read()
        if self._bounds.size is not None and response.headers.get("Content-Encoding", "identity").strip().lower() != "identity":
            raise ConnectionFailed("the answer is compressed, though the request allows none that is")
        body = bytearray()
        async for chunk in response.content.iter_any():
            body += chunk
            if len(body) > min(sizes):
                response.close()
                raise AnswerTooLarge(f"the answer has more than {min(sizes):,} bytes")
        values = self._bounds.values
        if values is not None and sum(map(body.count, (b"{", b"[", b","))) > values:
            raise AnswerTooLarge(f"the answer has more than {values:,} values")
        return bytes(body)


def transport_to(chosen: Chosen, bounds: Bounds = OURS, proxy: str | None = None) -> HttpTransport:
    """The way that a kubeconfig says; its `proxy-url` comes before `proxy`. Raises ConfigurationError."""
    server = _url(chosen.cluster.server, "server", chosen.source)
    proxy = chosen.cluster.proxy_url or proxy
    way = _url(proxy, "proxy", chosen.source) if proxy else None
    context = context_of(chosen)
    if bounds.size is not None and way is not None and way.scheme == "https":
        # at home the proxy, too, is believed by the kubeconfig's authority, as by kubectl
        context.proxy_host = way.host
    name = chosen.cluster.tls_server_name or None
    return HttpTransport(server, context, credentials_of(chosen, server), proxy=way, server_name=name, bounds=bounds)


def _url(text: str, what: str, source: str) -> URL:
    try:
        url = URL(text)
        if url.scheme in ("http", "https") and url.host and url.port:
            return url
    except ValueError:
        pass
    # a proxy's has its password in it
    raise ConfigurationError(f"{source}: the {what} has no usable URL: it is http:// or https://, a host, and perhaps a port")


def _proxy_headers(proxy: URL | None) -> dict[str, str] | None:
    if proxy is None or proxy.user is None:
        return None
    return {"Proxy-Authorization": basic(proxy.user, proxy.password or "")}


class WayErrors:
    """Everything that can happen on the way to a server and back, as ConnectionFailed."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, TimeoutError):
            raise ConnectionFailed(f"{self._what}: no answer in time") from error
        if isinstance(error, UnicodeError | OverflowError):
            # a name or a port that no resolver takes
            raise ConnectionFailed(f"{self._what}: the server's address is none") from error
        if isinstance(error, aiohttp.ClientError | OSError):
            raise ConnectionFailed(f"{self._what}: {_told(error)}") from error
        if isinstance(error, ConfigurationError):
            raise ConnectionFailed(f"{self._what}: {error}") from error
        if isinstance(error, AttributeError) and (failed := _handshake_failure(error)) is not None:
            raise ConnectionFailed(f"{self._what}: {failed}") from error


def _handshake_failure(error: AttributeError) -> ssl.SSLError | None:
    """What asyncio of Python 3.11.2, which the image has, failed to tell: a handshake within a tunnel by TLS that failed."""
    earlier: BaseException | None = error
    while earlier is not None and not isinstance(earlier, ssl.SSLError):
        earlier = earlier.__context__
    return earlier


def _told(error: Exception) -> str:
    """What is wrong on the way to the server."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        cause = error.certificate_error
        told = cause.verify_message if isinstance(cause, ssl.SSLCertVerificationError) else str(cause)
        return f"certificate verify failed: {told}: it is another server, or the kubeconfig has another CA"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"{error.host} cannot be resolved"
    if isinstance(error, aiohttp.ClientConnectorError) and error.os_error.errno:
        return os.strerror(error.os_error.errno)
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "the server ended the connection without an answer"
    if isinstance(error, aiohttp.ClientPayloadError):
        return "the answer was cut before its end"
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return f"the proxy answers with HTTP {error.status}"
    if isinstance(error, aiohttp.ClientResponseError):
        # of the parser: a status that the server sends is no exception
        return "what answers there is no HTTP server"
    return str(error) or "the connection failed"
