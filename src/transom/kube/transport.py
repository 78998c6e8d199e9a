"""The way to one API server, ours or a stranger's: requests and watches, by aiohttp."""

import asyncio
import contextlib
import functools
import os
import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

import aiohttp
import msgspec
from yarl import URL

from transom.http.bodies import read_body
from transom.kube.credentials import (
    ClientCertificate,
    Credentials,
    RequestIdentity,
    build_credentials,
    build_impersonation_headers,
    format_basic,
)
from transom.kube.errors import ConfigurationError, ConnectionFailed, ResponseTooLarge
from transom.kube.kubeconfig import SelectedContext
from transom.kube.permitted_networks import AddressNotPermitted, CheckedResolver, PermittedNetworks
from transom.kube.tls import build_tls_context

_UNAUTHORIZED: Final = 401
_GOODBYE_SECONDS: Final = 2.0
"""For a server to confirm the end of a WebSocket."""


class TransportLimits(NamedTuple):
    """What a server may cost: connections at once, seconds of a connect and of silence, bytes and values of an answer."""

    connections: int = 128
    connect: float = 10.0
    silence: float | None = None
    size: int | None = None
    values: int | None = None


OURS: Final = TransportLimits()
"""For an answer as a whole, who asks has a deadline."""
FOREIGN: Final = TransportLimits(connections=2, connect=5.0, silence=10.0, size=4 << 20, values=100_000)
"""It may be far away, gone, or anybody's. Objects have up to 1.5 MiB; a value takes up to fifty times its text's memory."""


class Request(NamedTuple):
    """What a server is asked; `most` are the bytes of an answer that is taken, None for any number."""

    method: str
    path: str
    query: Mapping[str, str] | None = None
    content: bytes | None = None
    content_type: str = ""
    most: int | None = None


class HttpResponse(msgspec.Struct, frozen=True):
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
        limits: TransportLimits = OURS,
        permitted: PermittedNetworks | None = None,
        identity_headers: Sequence[tuple[str, str]] = (),
        compression: bool = True,
        context_with: Callable[[ClientCertificate], ssl.SSLContext] | None = None,
    ) -> None:
        """Nothing is sent yet. `server_name` is what the server's certificate has to name; without it, its host.

        `context_with` makes the context for the client certificate that the credentials give; None: they give none.

        `permitted` checks the address of the connection, which is the proxy's if one is set; None: any.
        """
        self.headers = {"User-Agent": "transom", "Accept": "application/json"}
        self._server = str(server.with_user(None)).rstrip("/")
        self._context = context
        self._credentials = credentials
        self._proxy = proxy.with_user(None) if proxy is not None else None
        self._proxy_headers = _build_proxy_headers(proxy)
        self._server_name = server_name
        self._bounds = limits
        self._permitted = permitted
        self._identity_headers = tuple(identity_headers)
        self._context_with = context_with
        self._certificate: ClientCertificate | None = None
        self._session: aiohttp.ClientSession | None = None
        self._previous_session: aiohttp.ClientSession | None = None
        if limits.size is not None or not compression:
            # what is compressed may become any size
            self.headers["Accept-Encoding"] = "identity"

    async def request(self, request: Request) -> HttpResponse:
        """Send one request; if refused, retry with newer credentials. Raises ApiError, and what `TransportErrors` takes."""
        async with await self._send_with_credentials(request, self._bounds.silence) as response:
            return HttpResponse(response.status, response.headers, await self._read_body(response, request.most))

    @asynccontextmanager
    async def open_stream(
        self, path: str, query: Mapping[str, str], inactivity: float
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Open a streamed answer; its connection ends with the block. `inactivity` is in seconds.

        Raises the same as `request`.
        """
        response = await self._send_with_credentials(Request("GET", path, query), inactivity)
        try:
            yield response
        finally:
            response.close()

    @asynccontextmanager
    async def open_websocket(
        self, path: str, query: Sequence[tuple[str, str]], protocols: Sequence[str]
    ) -> "AsyncIterator[aiohttp.ClientWebSocketResponse[Any] | int]":
        """Open a WebSocket that ends with the block; if the server refuses it, yield the HTTP status.

        Raises the same as `request`.
        """
        url = URL(f"{self._server}{path}?{urlencode(query)}", encoded=True)
        identity = await self._credentials.get()
        opened = await self._connect_websocket(url, protocols, identity)
        if opened == _UNAUTHORIZED and (newer := await self._credentials.replace_refused_identity(identity)) is not None:
            opened = await self._connect_websocket(url, protocols, newer)
        try:
            yield opened
        finally:
            if not isinstance(opened, int):
                # a server that sends on never comes to its goodbye
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_GOODBYE_SECONDS):
                        await opened.close()

    async def close(self) -> None:
        """Close all connections."""
        for session in (self._session, self._previous_session):
            if session is not None:
                await session.close()

    async def _send_with_credentials(self, request: Request, read_timeout: float | None) -> aiohttp.ClientResponse:
        bounds = self._bounds
        limits = aiohttp.ClientTimeout(total=None, connect=bounds.silence, sock_connect=bounds.connect, sock_read=read_timeout)
        identity = await self._credentials.get()
        response = await self._send(request, identity, limits)
        if response.status != _UNAUTHORIZED:
            return response
        try:
            newer = await self._credentials.replace_refused_identity(identity)
        except BaseException:
            response.close()
            raise
        if newer is None:
            return response
        response.release()
        return await self._send(request, newer, limits)

    async def _send(self, request: Request, identity: RequestIdentity, limits: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        headers = self._with_auth_headers(self.headers, identity)
        if request.content is not None:
            headers.append(("Content-Type", request.content_type))
        query = f"?{urlencode(request.query)}" if request.query else ""
        session = await self._get_session(identity.certificate)
        return await session.request(
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

    async def _connect_websocket(
        self, url: URL, protocols: Sequence[str], identity: RequestIdentity
    ) -> "aiohttp.ClientWebSocketResponse[Any] | int":
        # the kubelet, to whom headers are handed on, refuses what it cannot make JSON of: no Accept (406)
        headers = self._with_auth_headers({"User-Agent": self.headers["User-Agent"]}, identity)
        session = await self._get_session(identity.certificate)
        try:
            return await session.ws_connect(
                url,
                protocols=protocols,
                headers=headers,
                proxy=self._proxy,
                proxy_headers=self._proxy_headers,
                server_hostname=self._server_name,
            )
        except aiohttp.WSServerHandshakeError as error:
            return error.status

    def _with_auth_headers(self, headers: Mapping[str, str], identity: RequestIdentity) -> list[tuple[str, str]]:
        authorization = [] if identity.authorization is None else [("Authorization", identity.authorization)]
        return [*headers.items(), *self._identity_headers, *authorization]

    async def _get_session(self, certificate: ClientCertificate | None) -> aiohttp.ClientSession:
        if certificate != self._certificate:
            await self._replace_certificate(certificate)
        if self._session is None:
            resolver = CheckedResolver(self._permitted) if self._permitted is not None else None
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    ssl=self._context, limit=self._bounds.connections, keepalive_timeout=60, resolver=resolver
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=self._bounds.size is None,
            )
        return self._session

    async def _replace_certificate(self, certificate: ClientCertificate | None) -> None:
        """Use new connections from now on; watches on the earlier ones continue until the next certificate."""
        if certificate is not None and self._context_with is not None:
            self._context = self._context_with(certificate)
        oldest, self._previous_session, self._session = self._previous_session, self._session, None
        self._certificate = certificate
        if oldest is not None:
            await oldest.close()

    async def _read_body(self, response: aiohttp.ClientResponse, limit: int | None) -> bytes:
        sizes = [size for size in (limit, self._bounds.size) if size is not None]
        if not sizes:
            return await response.read()
        if self._bounds.size is not None and response.headers.get("Content-Encoding", "identity").strip().lower() != "identity":
            raise ConnectionFailed("the answer is compressed, though the request allows none that is")
        most = min(sizes)
        body = await read_body(response, most + 1)
        if len(body) > most:
            response.close()
            raise ResponseTooLarge(f"the answer has more than {most:,} bytes")
        values = self._bounds.values
        if values is not None and sum(map(body.count, (b"{", b"[", b","))) > values:
            raise ResponseTooLarge(f"the answer has more than {values:,} values")
        return body


def build_transport(
    chosen: SelectedContext,
    limits: TransportLimits = OURS,
    proxy: str | None = None,
    permitted: PermittedNetworks | None = None,
) -> HttpTransport:
    """Build the transport for a kubeconfig; its `proxy-url` overrides `proxy`. Raises ConfigurationError.

    `permitted` applies to addresses in the kubeconfig, but not to `proxy`, which resolves the server's name itself.
    """
    server = _parse_url(chosen.cluster.server, "server", chosen.source)
    proxy = chosen.cluster.proxy_url or proxy
    if proxy and proxy.lower().startswith("socks"):
        message = "the proxy has no usable URL: Transom uses no SOCKS proxy; forward a local port to the server by ssh -L"
        raise ConfigurationError(f"{chosen.source}: {message}, and set tls-server-name")
    way = _parse_url(proxy, "proxy", chosen.source) if proxy else None
    if permitted is not None:
        _check_permitted_hosts(chosen, server, way, permitted)
        if way is not None and not chosen.cluster.proxy_url:
            permitted = None
    context = build_tls_context(chosen)
    if limits.size is not None and way is not None and way.scheme == "https":
        # at home the proxy, too, is believed by the kubeconfig's authority, as by kubectl
        context.proxy_host = way.host
    name = chosen.cluster.tls_server_name or None
    return HttpTransport(
        server,
        context,
        build_credentials(chosen, server),
        proxy=way,
        server_name=name,
        limits=limits,
        permitted=permitted,
        identity_headers=build_impersonation_headers(chosen.user, chosen.source),
        compression=not chosen.cluster.disable_compression,
        context_with=functools.partial(build_tls_context, chosen),
    )


def _check_permitted_hosts(chosen: SelectedContext, server: URL, proxy: URL | None, permitted: PermittedNetworks) -> None:
    try:
        permitted.check(server.host or "", "cluster.server")
        if proxy is not None and chosen.cluster.proxy_url:
            permitted.check(proxy.host or "", "cluster.proxy-url")
    except AddressNotPermitted as error:
        raise ConfigurationError(f"{chosen.source}: {error}") from None


def _parse_url(text: str, what: str, source: str) -> URL:
    try:
        url = URL(text)
        if url.scheme in ("http", "https") and url.host and url.port:
            return url
    except ValueError:
        pass
    # a proxy's has its password in it
    raise ConfigurationError(f"{source}: the {what} has no usable URL: it is http:// or https://, a host, and perhaps a port")


def _build_proxy_headers(proxy: URL | None) -> dict[str, str] | None:
    if proxy is None or proxy.user is None:
        return None
    return {"Proxy-Authorization": format_basic(proxy.user, proxy.password or "")}


class TransportErrors:
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
            raise ConnectionFailed(f"{self._what}: {_describe_error(error)}") from error
        if isinstance(error, ConfigurationError):
            raise ConnectionFailed(f"{self._what}: {error}") from error
        if isinstance(error, AttributeError) and (failed := _find_handshake_failure(error)) is not None:
            raise ConnectionFailed(f"{self._what}: {failed}") from error


def _find_handshake_failure(error: AttributeError) -> ssl.SSLError | None:
    """Return the failed handshake in a TLS tunnel that asyncio of Python 3.11.2, in the image, hides; or None."""
    earlier: BaseException | None = error
    while earlier is not None and not isinstance(earlier, ssl.SSLError):
        earlier = earlier.__context__
    return earlier


def _describe_error(error: Exception) -> str:
    """Describe what is wrong on the connection to the server."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        cause = error.certificate_error
        message = cause.verify_message if isinstance(cause, ssl.SSLCertVerificationError) else str(cause)
        return f"certificate verify failed: {message}: it is another server, or the kubeconfig has another CA"
    if isinstance(error, aiohttp.ClientConnectorDNSError) and isinstance(error.os_error, AddressNotPermitted):
        return str(error.os_error)
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
        return "the server does not speak HTTP"
    return str(error) or "the connection failed"
