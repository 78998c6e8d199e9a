"""The HTTPS server: reviews in, answers out. Other requests get their HTTP status, without a cost for other clients."""

import asyncio
import os
import ssl
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
import structlog
from aiohttp import web

from transom.http_server.connection import BoundedConnection, ConnectionEvents
from transom.http_server.server import BoundedServer, ServerBounds
from transom.webhook.connection import AdmissionConnection
from transom.webhook.review import InvalidReview
from transom.webhook.webhook_secret import WebhookSecret

_log: Final = structlog.get_logger("transom.webhook")
PATHS: Final = ("/pods", "/pods-with-ca")
MAX_BODY: Final = 3 << 20
"""Bytes. The API server takes no larger object (its limit for requests is 3 MiB)."""
BODY_SECONDS: Final = 5.0
"""For a body to come: the API server itself waits for no answer longer."""
_IDLE_SECONDS: Final = 180.0
"""Longer than the API server keeps a connection that it does not use: it should be the one to close it."""
MAX_CONNECTIONS: Final = 128
"""One costs 0.5 MB at most: 256 KiB that asyncio's TLS reads at once, and the read-ahead."""
MAX_BODIES: Final = 24 << 20
"""Bytes of bodies that are on their way, of all connections: eight of the largest."""

Review = Callable[[bytes, str], bytes]
"""Answers a body that came to a path. Raises InvalidReview."""


class AdmissionServer:
    """Answers reviews while it is `serving`."""

    def __init__(
        self,
        review: Review,
        observe: Callable[[int, float], None] = lambda _, __: None,
        count_dropped: Callable[[], None] = lambda: None,
    ) -> None:
        self._review = review
        self._observe = observe
        self._body_bytes = 0
        bounds = ServerBounds(MAX_CONNECTIONS, _IDLE_SECONDS, BODY_SECONDS)
        self._server = BoundedServer(self._handle, bounds, connect=self._create_connection, count_dropped=count_dropped)
        self.draining = False
        """Whether responses close the connection, so that clients reconnect to another replica."""

    @asynccontextmanager
    async def serve(self, address: tuple[str, int], context: ssl.SSLContext) -> AsyncIterator[int]:
        """Listen until the end of the block; gives the port. Raises OSError where the address cannot be had."""
        async with self._server.serve(address, context) as port:
            yield port

    def _create_connection(self, manager: web.Server, events: ConnectionEvents, **more: Any) -> BoundedConnection:
        return AdmissionConnection(manager, events, self._answer_and_observe, self._accepts_request, **more)

    async def _handle(self, request: web.BaseRequest) -> web.Response:
        began = time.perf_counter()
        response = await self._respond(request)
        if self.draining or response.status != 200:
            response.force_close()
        self._observe(response.status, time.perf_counter() - began)
        return response

    async def _respond(self, request: web.BaseRequest) -> web.Response:
        path = request.rel_url.raw_path
        if path not in PATHS:
            return _build_status(404, "NotFound", f"there are {' and '.join(PATHS)}")
        if request.method != "POST":
            return _build_status(405, "MethodNotAllowed", "reviews come by POST")
        if (request.content_length or 0) >= MAX_BODY:
            return _build_too_large()
        try:
            async with asyncio.timeout(BODY_SECONDS):
                body = await self._read_body(request)
        except TimeoutError:
            return _build_status(408, "Timeout", f"the body did not come within {BODY_SECONDS:g} s")
        except _BodyTooLarge:
            return _build_too_large()
        except _TooManyBodies:
            return _build_status(503, "ServiceUnavailable", f"{MAX_BODIES:,} bytes of other requests are on their way")
        except web.RequestPayloadError:
            return _build_status(400, "BadRequest", "the body ended too early")
        return _build_json(*self._answer_review(body, path))

    async def _read_body(self, request: web.BaseRequest) -> bytes:
        """Raise _BodyTooLarge, _TooManyBodies, and what aiohttp raises for a body that ends early."""
        chunks: list[bytes] = []
        size = 0
        try:
            async for chunk in request.content.iter_any():
                chunks.append(chunk)
                size += len(chunk)
                self._body_bytes += len(chunk)
                if size >= MAX_BODY:
                    raise _BodyTooLarge
                if self._body_bytes > MAX_BODIES:
                    raise _TooManyBodies
        finally:
            self._body_bytes -= size
        return b"".join(chunks)

    def _accepts_request(self, method: str, path: str) -> bool:
        return method == "POST" and path in PATHS and not self.draining

    def _answer_and_observe(self, body: bytes, path: str, began: float) -> tuple[int, bytes]:
        status, content = self._answer_review(body, path)
        self._observe(status, time.perf_counter() - began)
        return status, content

    def _answer_review(self, body: bytes, path: str) -> tuple[int, bytes]:
        try:
            return 200, self._review(body, path)
        except InvalidReview as error:
            return 400, _render_status(400, "BadRequest", str(error))
        except Exception:  # noqa: BLE001  # one request's trouble is its own
            _log.exception("internal error; the other requests continue")
            return 500, _render_status(500, "InternalError", "a fault of Transom itself: its log has it")


class _BodyTooLarge(Exception):
    """A body of more than the server takes."""


class _TooManyBodies(Exception):
    """More bytes on their way than the server has memory for."""


def _build_too_large() -> web.Response:
    return _build_status(413, "RequestEntityTooLarge", f"the body has {MAX_BODY:,} bytes or more")


def _build_status(code: int, reason: str, message: str) -> web.Response:
    return _build_json(code, _render_status(code, reason, message))


def _build_json(code: int, content: bytes) -> web.Response:
    return web.Response(status=code, body=content, content_type="application/json")


def _render_status(code: int, reason: str, message: str) -> bytes:
    """Render a metav1.Status."""
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
    """An SSLContext whose certificate can be replaced. No client certificate is requested."""

    def __init__(self) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.context.set_ciphers(_CIPHERS)
        self._shown: WebhookSecret | None = None

    @property
    def ready(self) -> bool:
        """Whether there is a certificate to show."""
        return self._shown is not None

    def show(self, current: WebhookSecret) -> bool:
        """Show this certificate from now on; whether it is another one. Raises ssl.SSLError if it does not match its key."""
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
