"""A connection of the admission server: aiohttp's own, which answers a review that is all there without a task for it.

A task, a request and a response as objects are a third of what a review costs. aiohttp reads the request either way; whatever
is no review as API servers send them goes aiohttp's usual way.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import Any, Final

from aiohttp import hdrs, web
from aiohttp.http import SERVER_SOFTWARE, HttpVersion11
from aiohttp.http_parser import RawRequestMessage
from aiohttp.streams import StreamReader

SILENCE_SECONDS: Final = 10.0
"""For the TLS handshake, from there for the headers of the first request, and for those of each other from their first byte."""
REST_SECONDS: Final = 0.2
"""For the rest of a body: API servers send 4 kB, headers included, and what is left right after (Go, net/http, Transport)."""
MAX_WHOLE: Final = 48 << 10
"""Bytes of a body that is waited for here: fewer than aiohttp takes before it wants them read (64 kB, and twice that)."""
_TOO_LATE: Final = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
_INSIDES: Final = frozenset({"_messages", "_next_keepalive_close_time", "_parser", "_waiter"})
"""What aiohttp does not publish, and is used here where it is there."""

Message = tuple[RawRequestMessage, StreamReader]
Answer = Callable[[bytes, str, float], tuple[int, bytes]]
"""Status and JSON for a body that came to a path, begun at that time (`perf_counter`); after any status but 200 it ends."""
Takes = Callable[[str, str], bool]
"""Whether a method and a path are those of a review."""


class AdmissionConnection(web.RequestHandler):
    """A connection that has to say something soon, and what it begins to say to its end.

    `answer` is asked at once for each request that `takes` is true of.
    """

    __slots__ = ("_answer", "_answered", "_answering", "_began", "_begun", "_patience", "_takes")

    def __init__(self, manager: web.Server, answer: Answer, takes: Takes, **more: Any) -> None:
        super().__init__(manager, loop=asyncio.get_running_loop(), **more)
        self._answer = answer
        self._takes = takes
        self._answered = self._answering = False
        self._begun: Message | None = None
        self._began = 0.0
        self._patience: asyncio.TimerHandle | None = None
        if all(hasattr(self, name) for name in _INSIDES) and hasattr(self._parser, "message_consumed"):
            self._parser: Any = _Parser(self._parser, self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Somebody is there."""
        super().connection_made(transport)
        self._wait(SILENCE_SECONDS, self._hurry)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Nobody is there any more."""
        self._calm()
        self._begun = None
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Something was said."""
        if not data:
            # said by aiohttp: it reads on
            super().data_received(data)
            return
        self._answered = False
        super().data_received(data)
        # what comes while a request is answered is its body
        if not (self._answered or self._answering) and self._patience is None:
            self._wait(SILENCE_SECONDS, self._hurry)

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Its headers are there, and nothing else is waited for until it has its answer."""
        self._calm()
        self._answering = True
        try:
            yield
        finally:
            self._answering = False

    def sifted(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Those of the requests that go aiohttp's way."""
        if self._begun is not None or len(messages) != 1 or not self._at_once(messages[0][0]):
            return messages
        self._begun, self._began = messages[0], time.perf_counter()
        self.complete()
        if self._begun is not None:
            self._calm()
            self._wait(REST_SECONDS, self._hand_over)
        return ()

    def complete(self) -> None:
        """Answer the request that was begun, if all of it is there."""
        if self._begun is None or not self._begun[1].is_eof():
            return
        (message, payload), self._begun = self._begun, None
        self._calm()
        self._answered = True
        self._parser.message_consumed()
        status, content = self._answer(payload.read_nowait(-1), _path(message), self._began)
        if self.transport is None:
            return
        self.transport.write(_head(status, len(content), int(time.time())) + content)
        if status == HTTPStatus.OK:
            self._next_keepalive_close_time = self._loop.time() + self.keepalive_timeout
        else:
            self.force_close()

    def _at_once(self, message: RawRequestMessage) -> bool:
        """Whether nothing else is under way, and a short body follows."""
        if self._waiter is None or self._messages or self.writing_paused:
            return False
        length = message.headers.get(hdrs.CONTENT_LENGTH, "")
        return (
            # a longer number is too large as it is
            (len(length) < 6 and length.isdecimal() and int(length) <= MAX_WHOLE)
            and message.version == HttpVersion11
            and not (message.should_close or message.upgrade or message.compression)
            and self._takes(message.method, _path(message))
        )

    def _hand_over(self) -> None:
        """The rest takes long: who waits for it is aiohttp."""
        self._patience = None
        if self._begun is not None:
            self._parser.left, self._begun = (self._begun,), None
            self.data_received(b"")

    def _wait(self, seconds: float, then: Callable[[], None]) -> None:
        self._patience = self._loop.call_later(seconds, then)

    def _calm(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _hurry(self) -> None:
        if self.transport is not None:
            self.transport.write(_TOO_LATE)
            self.force_close()


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
        """The requests that are left, whether another protocol follows, and what there is of it."""
        try:
            messages, upgraded, tail = self._feed(data)
        finally:
            # also where what follows the body is no request
            self._connection.complete()
        if self.left:
            messages, self.left = (*self.left, *messages), ()
            return messages, upgraded, tail
        return self._connection.sifted(messages) if messages else messages, upgraded, tail


def _path(message: RawRequestMessage) -> str:
    """Without the query: API servers tell the timeout there."""
    return message.path.partition("?")[0]


def _head(status: int, length: int, now: int) -> bytes:
    """The head of an answer, with the headers that aiohttp gives."""
    return b"%bContent-Length: %d\r\n\r\n" % (_fixed(status, now), length)


@lru_cache(maxsize=4)
def _fixed(status: int, now: int) -> bytes:
    lines = [
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
        "Content-Type: application/json",
        f"Date: {formatdate(now, usegmt=True)}",
        f"Server: {SERVER_SOFTWARE}",
    ]
    if status != HTTPStatus.OK:
        lines.append("Connection: close")
    return "\r\n".join([*lines, ""]).encode()
