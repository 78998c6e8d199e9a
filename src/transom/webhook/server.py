"""The HTTPS server: reviews in, answers out. What is no review gets its HTTP status, and costs nobody else anything."""

import asyncio
import os
import ssl
import tempfile
import time
from asyncio import sslproto
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Final

import msgspec
import structlog
from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http_parser import RawRequestMessage
from aiohttp.streams import StreamReader

from transom.webhook.connection import SILENCE_SECONDS, AdmissionConnection, Answer, Takes
from transom.webhook.holdings import Holdings
from transom.webhook.review import NoReview

_log: Final = structlog.get_logger("transom.webhook")
PATHS: Final = ("/pods", "/pods-with-ca")
MAX_BODY: Final = 3 << 20
"""Bytes. The API server takes no larger object (its limit for requests is 3 MiB)."""
BODY_SECONDS: Final = 5.0
"""For a body to come: the API server itself waits for no answer longer."""
_IDLE_SECONDS: Final = 180.0
"""Longer than the API server keeps a connection that it does not use: it should be the one to close it."""
_BACKLOG: Final = 1024
_TLS_BUFFER: Final = 32 << 10
"""Bytes for each connection. asyncio takes 256 kB, and writes to all of them at once: a thousand silent ones were 256 MB."""

Review = Callable[[bytes, str], bytes]
"""Answers a body that came to a path. Raises NoReview."""


class _Server(web.Server):
    answer: Answer
    takes: Takes

    def __call__(self) -> AdmissionConnection:
        return AdmissionConnection(self, self.answer, self.takes, **self._kwargs)


class AdmissionServer:
    """Answers reviews while it is `serving`."""

    def __init__(self, review: Review, observe: Callable[[int, float], None] = lambda _, __: None) -> None:
        # before the first connection to the API server, which are more
        sslproto.SSLProtocol.max_size = _TLS_BUFFER
        self._review = review
        self._observe = observe
        self.draining = False
        """Whether clients are told to go elsewhere for their next request."""

    @asynccontextmanager
    async def serving(self, address: tuple[str, int], context: ssl.SSLContext) -> AsyncIterator[int]:
        """Listen until the end of the block; gives the port. Raises OSError where the address cannot be had."""
        loop = asyncio.get_running_loop()
        server = _Server(
            self._handle,
            request_factory=_request,
            access_log=None,
            keepalive_timeout=_IDLE_SECONDS,
            logger=structlog.get_logger("transom.webhook.http"),
        )
        server.answer, server.takes = self._answer_at_once, self._takes
        listening = await loop.create_server(
            server,
            *address,
            ssl=context,
            ssl_handshake_timeout=SILENCE_SECONDS,
            ssl_shutdown_timeout=2.0,
            backlog=_BACKLOG,
        )
        try:
            yield listening.sockets[0].getsockname()[1]
        finally:
            listening.close()
            server.pre_shutdown()
            await server.shutdown(BODY_SECONDS)

    async def _handle(self, request: web.BaseRequest) -> web.Response:
        protocol, began = request.protocol, time.perf_counter()
        with protocol.answering() if isinstance(protocol, AdmissionConnection) else nullcontext():
            response = await self._respond(request)
        if self.draining or response.status != 200:
            response.force_close()
        self._observe(response.status, time.perf_counter() - began)
        return response

    async def _respond(self, request: web.BaseRequest) -> web.Response:
        path = request.rel_url.raw_path
        if path not in PATHS:
            return _status(404, "NotFound", f"there are {' and '.join(PATHS)}")
        if request.method != "POST":
            return _status(405, "MethodNotAllowed", "reviews come by POST")
        if (request.content_length or 0) >= MAX_BODY:
            return _too_large()
        try:
            body = await _body(request)
        except TimeoutError:
            return _status(408, "Timeout", f"the body did not come within {BODY_SECONDS:g} s")
        except web.HTTPRequestEntityTooLarge:
            return _too_large()
        except web.RequestPayloadError:
            return _status(400, "BadRequest", "the body ended too early")
        return _json(*self._answer(body, path))

    def _takes(self, method: str, path: str) -> bool:
        return method == "POST" and path in PATHS and not self.draining

    def _answer_at_once(self, body: bytes, path: str, began: float) -> tuple[int, bytes]:
        status, content = self._answer(body, path)
        self._observe(status, time.perf_counter() - began)
        return status, content

    def _answer(self, body: bytes, path: str) -> tuple[int, bytes]:
        try:
            return 200, self._review(body, path)
        except NoReview as error:
            return 400, _status_text(400, "BadRequest", str(error))
        except Exception:  # noqa: BLE001  # one request's trouble is its own
            _log.exception("a fault of Transom itself; the other requests go on")
            return 500, _status_text(500, "InternalError", "a fault of Transom itself: its log has it")


def _request(
    message: RawRequestMessage,
    payload: StreamReader,
    protocol: web.RequestHandler,
    writer: AbstractStreamWriter,
    task: "asyncio.Task[None]",
) -> web.BaseRequest:
    loop = asyncio.get_running_loop()
    return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=MAX_BODY - 1)


async def _body(request: web.BaseRequest) -> bytes:
    """Raises TimeoutError, and what aiohttp raises for a body that is too large or ends early."""
    if request.content.is_eof():
        # it came with the headers, as most do
        return await request.read()
    async with asyncio.timeout(BODY_SECONDS):
        return await request.read()


def _too_large() -> web.Response:
    return _status(413, "RequestEntityTooLarge", f"the body has {MAX_BODY:,} bytes or more")


def _status(code: int, reason: str, message: str) -> web.Response:
    return _json(code, _status_text(code, reason, message))


def _json(code: int, content: bytes) -> web.Response:
    return web.Response(status=code, body=content, content_type="application/json")


def _status_text(code: int, reason: str, message: str) -> bytes:
    """A metav1.Status."""
    value = {
        "apiVersion": "v1",
        "kind": "Status",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
    }
    return msgspec.json.encode(value)


_CIPHERS: Final = "ECDHE+AESGCM:ECDHE+CHACHA20"


class ServingContext:
    """An SSLContext whose certificate can be replaced. No client certificate is asked for."""

    def __init__(self) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.context.set_ciphers(_CIPHERS)
        self._shown: Holdings | None = None

    @property
    def ready(self) -> bool:
        """Whether there is a certificate to show."""
        return self._shown is not None

    def show(self, current: Holdings) -> bool:
        """Show this certificate from now on; whether it is another one. Raises ssl.SSLError where it does not fit its key."""
        if self._shown is not None and self._shown.certificate == current.certificate:
            return False
        # Python's ssl reads certificates from files alone
        with tempfile.TemporaryDirectory(prefix="transom-webhook-") as directory:
            file = Path(directory, "tls.pem")
            with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
                out.write(current.key.reveal() + current.certificate)
            self.context.load_cert_chain(file)
        self._shown = current
        return True
