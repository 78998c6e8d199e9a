"""A connection of the admission server: aiohttp's own, which answers a review that is all there without a task for it.

A task, a request and a response as objects are a third of what a review costs. aiohttp reads the request either way; whatever
does not look like a review from an API server goes aiohttp's usual way.
"""

import time
from collections.abc import Callable, Sequence
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import Any, Final

from aiohttp import hdrs, web
from aiohttp.http import SERVER_SOFTWARE, HttpVersion11
from aiohttp.http_parser import RawRequestMessage
from aiohttp.streams import StreamReader

from transom.http_server.connection import BoundedConnection, ConnectionEvents

REST_SECONDS: Final = 0.2
"""For the rest of a body: API servers send 4 kB, headers included, and what is left right after (Go, net/http, Transport)."""
MAX_WHOLE: Final = 48 << 10
"""Bytes of a body that is waited for here: fewer than aiohttp takes before it wants them read (64 kB, and twice that)."""
_INSIDES: Final = frozenset({"_messages", "_next_keepalive_close_time", "_parser", "_waiter"})
"""Private parts of aiohttp, which are used here if they exist."""

Message = tuple[RawRequestMessage, StreamReader]
Answer = Callable[[bytes, str, float], tuple[int, bytes]]
"""Status and JSON for a body that came to a path, begun at that time (`perf_counter`); after any status but 200 it ends."""
Takes = Callable[[str, str], bool]
"""Whether a method and a path are those of a review."""


class AdmissionConnection(BoundedConnection):
    """A connection on which `answer` is asked at once for each request that `takes` is true of."""

    __slots__ = ("_answer", "_answered", "_began", "_begun", "_takes")

    def __init__(
        self, manager: web.Server, events: ConnectionEvents, answer: Answer, accepts_request: Takes, **more: Any
    ) -> None:
        super().__init__(manager, events, **more)
        self._answer = answer
        self._takes = accepts_request
        self._answered = False
        self._begun: Message | None = None
        self._began = 0.0
        if all(hasattr(self, name) for name in _INSIDES) and hasattr(self._parser, "message_consumed"):
            self._parser: Any = _Parser(self._parser, self)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Forget the request that was begun."""
        self._begun = None
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on; a review that is all there has its answer afterwards."""
        if data:
            # without any, aiohttp reads on in what it has, which may be while a review is answered
            self._answered = False
        super().data_received(data)

    def limit_head(self, size: int) -> None:
        """Wait for nothing after a review that has its answer."""
        if self._answered:
            self._head_bytes = 0
        else:
            super().limit_head(size)

    def is_idle(self) -> bool:
        """Return True if no request is pending, nor the first part of a review."""
        return self._begun is None and super().is_idle()

    def filter_out_reviews(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Those of the requests that go aiohttp's way."""
        if self._begun is not None or len(messages) != 1 or not self._can_answer_inline(messages[0][0]):
            return messages
        self._begun, self._began = messages[0], time.perf_counter()
        self.answer_pending_request()
        if self._begun is not None:
            self.clear_deadline()
            self.set_deadline(REST_SECONDS, self._delegate_to_aiohttp)
        return ()

    def answer_pending_request(self) -> None:
        """Answer the pending request, if it is complete."""
        if self._begun is None or not self._begun[1].is_eof():
            return
        (message, payload), self._begun = self._begun, None
        self.clear_deadline()
        self._events.on_request()
        self._answered = True
        self._parser.message_consumed()
        status, content = self._answer(payload.read_nowait(-1), _get_path(message), self._began)
        if self.transport is None:
            return
        self.transport.write(_build_head(status, len(content), int(time.time())) + content)
        if status == HTTPStatus.OK:
            self._next_keepalive_close_time = self._loop.time() + self.keepalive_timeout
        else:
            self.force_close()

    def _can_answer_inline(self, message: RawRequestMessage) -> bool:
        """Return True if no other request is in progress and a short body follows."""
        if self._waiter is None or self._messages or self.writing_paused:
            return False
        length = message.headers.get(hdrs.CONTENT_LENGTH, "")
        return (
            # a longer number is too large as it is
            (len(length) < 6 and length.isdecimal() and int(length) <= MAX_WHOLE)
            and message.version == HttpVersion11
            and not (message.should_close or message.upgrade or message.compression)
            and self._takes(message.method, _get_path(message))
        )

    def _delegate_to_aiohttp(self) -> None:
        """Leave the rest to aiohttp because it takes long."""
        self.clear_deadline()
        if self._begun is not None:
            self._parser.left, self._begun = (self._begun,), None
            self.data_received(b"")


class _Parser:
    """aiohttp's parser, between whose requests and aiohttp a connection sifts."""

    __slots__ = ("_connection", "_feed", "_parser", "left", "message_consumed")

    def __init__(self, parser: Any, connection: AdmissionConnection) -> None:
        self._parser, self._connection = parser, connection
        self._feed, self.message_consumed = parser.feed_data, parser.message_consumed
        self.left: tuple[Message, ...] = ()
        """A request that was begun, for aiohttp."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._parser, name)

    def feed_data(self, data: bytes) -> tuple[Sequence[Message], bool, bytes]:
        """Return the remaining requests, whether another protocol follows, and its bytes."""
        try:
            messages, upgraded, tail = self._feed(data)
        finally:
            # also where what follows the body is no request
            self._connection.answer_pending_request()
        if self.left:
            messages, self.left = (*self.left, *messages), ()
            return messages, upgraded, tail
        return self._connection.filter_out_reviews(messages) if messages else messages, upgraded, tail


def _get_path(message: RawRequestMessage) -> str:
    """Without the query: API servers tell the timeout there."""
    return message.path.partition("?")[0]


def _build_head(status: int, length: int, now: int) -> bytes:
    """Build the head of an answer, with aiohttp's headers."""
    return b"%bContent-Length: %d\r\n\r\n" % (_build_fixed_head(status, now), length)


@lru_cache(maxsize=4)
def _build_fixed_head(status: int, now: int) -> bytes:
    lines = [
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
        "Content-Type: application/json",
        f"Date: {formatdate(now, usegmt=True)}",
        f"Server: {SERVER_SOFTWARE}",
    ]
    if status != HTTPStatus.OK:
        lines.append("Connection: close")
    return "\r\n".join([*lines, ""]).encode()
