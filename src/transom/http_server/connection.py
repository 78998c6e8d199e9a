"""A connection of an open port: aiohttp's own, with a limit of time and of bytes for whatever a peer does or leaves undone."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, cast

from aiohttp import web

SILENCE_SECONDS: Final = 10.0
"""For the TLS handshake, from there for the headers of the first request, and for those of each other from their first byte."""
UNSENT_SECONDS: Final = 10.0
"""For a peer to take what it is sent."""
LINGER_SECONDS: Final = 2.0
"""For the rest of an unread body, so that the peer reads its answer before the connection ends."""
MAX_HEAD: Final = 32 << 10
"""Bytes of a request line and headers. aiohttp takes 8 kB for each of 128 headers, a megabyte for each connection."""
_MAX_REASON: Final = 200
_TOO_LATE: Final = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
_TOO_LONG: Final = b"HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


class ConnectionEvents:
    """Events of a connection, for its owner. Each method does nothing unless a subclass overrides it."""

    def on_request(self) -> None:
        """Handle a request whose headers are complete."""

    def on_close(self) -> None:
        """Handle the end of the connection."""


class BoundedConnection(web.RequestHandler):
    """A connection whose peer has to send the headers of a request in time, and to take the answers."""

    __slots__ = ("_answering", "_deadline", "_events", "_head_bytes", "_unsent", "_wire")

    def __init__(self, manager: web.Server, events: ConnectionEvents, **more: Any) -> None:
        super().__init__(manager, loop=asyncio.get_running_loop(), lingering_time=LINGER_SECONDS, auto_decompress=False, **more)
        self._events = events
        self._answering = False
        self._head_bytes = 0
        self._deadline: asyncio.TimerHandle | None = None
        self._unsent: asyncio.TimerHandle | None = None
        self._wire: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the time of the first request."""
        super().connection_made(transport)
        self._wire = cast(asyncio.Transport, transport)
        # every byte that is not sent counts: by default 64 kB wait without an end
        self._wire.set_write_buffer_limits(high=1, low=0)
        self.set_deadline(SILENCE_SECONDS, self._close_timed_out)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Stop all timers."""
        self.clear_deadline()
        if self._unsent is not None:
            self._unsent.cancel()
        self._wire = self._unsent = None
        self._events.on_close()
        super().connection_lost(exc)

    def abort(self) -> None:
        """End the connection now, whatever was not sent."""
        if self._wire is not None:
            self._wire.abort()

    def data_received(self, data: bytes) -> None:
        """Read on, and start the time of a request that begins."""
        super().data_received(data)
        # without data aiohttp reads on in what it has, and the rest of a request that is answered is its body
        if data and not self._answering:
            self.limit_head(len(data))

    def limit_head(self, size: int) -> None:
        """Count bytes of a head, and start its time; end the connection if the head is too long."""
        if not self.is_idle():
            self._head_bytes = 0
        elif self._limit_head_size(size):
            return
        if self._deadline is None:
            self.set_deadline(SILENCE_SECONDS, self._close_timed_out)

    def pause_writing(self) -> None:
        """Start the time in which the peer has to take what is not sent."""
        super().pause_writing()
        self._unsent = self._loop.call_later(UNSENT_SECONDS, self.abort)

    def resume_writing(self) -> None:
        """Stop that time: all is sent."""
        super().resume_writing()
        if self._unsent is not None:
            self._unsent.cancel()
            self._unsent = None

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        """Answer what is not HTTP in few words. A stranger's mistake is not logged, an internal error is."""
        if status >= 500 and not isinstance(exc, ConnectionError):
            return super().handle_error(request, status, exc, message)
        response = web.Response(status=status, text=(message or "")[:_MAX_REASON])
        response.force_close()
        return response

    def is_idle(self) -> bool:
        """Return True if no request is pending: the next data is the head of one."""
        if self._request_count == 0:
            # aiohttp may not wait yet where the first bytes are there as the connection begins
            return True
        waiter = self._waiter
        return waiter is not None and not waiter.done()

    @contextmanager
    def suspend_timers(self) -> Iterator[None]:
        """Wait for nothing of the peer until the request has its answer: who reads its body has a limit of its own."""
        self.clear_deadline()
        self._head_bytes = 0
        self._events.on_request()
        self._answering = True
        try:
            yield
        finally:
            self._answering = False

    def set_deadline(self, seconds: float, expire: Callable[[], None]) -> None:
        """Call `expire` unless the deadline is cleared before."""
        self._deadline = self._loop.call_later(seconds, expire)

    def clear_deadline(self) -> None:
        """Let the peer have time."""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _limit_head_size(self, size: int) -> bool:
        """Return True if the head is too long, and the connection has ended for that."""
        self._head_bytes += size
        if self._head_bytes > MAX_HEAD:
            self._end(_TOO_LONG)
            return True
        return False

    def _close_timed_out(self) -> None:
        self._end(_TOO_LATE)

    def _end(self, answer: bytes) -> None:
        if self.transport is not None:
            self.transport.write(answer)
            self.force_close()
