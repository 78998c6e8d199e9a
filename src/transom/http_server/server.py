"""A listening port: at most so many connections, and what happens when there are more.

Every port of Transom is a BoundedServer. A peer may open connections and send nothing. So if a new connection has no room,
the server ends the one without a request for the longest time: probes, scrapes and API servers send their requests at once.
"""

import asyncio
import errno
import resource
import socket
import ssl
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec
import structlog
from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http_parser import RawRequestMessage
from aiohttp.streams import StreamReader

from transom.http_server.connection import SILENCE_SECONDS, BoundedConnection, ConnectionEvents

_log: Final = structlog.get_logger("transom.http_server")
GRACE_SECONDS: Final = 0.25
"""After its last request a connection is not ended for another one: a burst of honest peers waits in the kernel's queue."""
PATIENCE_SECONDS: Final = 2.0
"""That long at most new connections wait for this, and again after a minute: in a flood nothing is left to wait for."""
_PATIENCE_RATE: Final = PATIENCE_SECONDS / 60
BUFFER_BYTES: Final = 64 << 10
"""Of the kernel, each way, for one connection; it takes twice as much (socket(7), SO_SNDBUF), which counts as the pod's memory
(Linux, cgroup-v2, "memory.stat", `sock`). By default it may become 4 MB and more."""
LOG_SECONDS: Final = 60.0
"""Between two lines of the log about connections that cannot be accepted."""
RETRY_SECONDS: Final = 1.0
"""Until the next try where the system has no file or memory for a connection."""
_SHUTDOWN_SECONDS: Final = 2.0
"""For the end of TLS."""
_BACKLOG: Final = 1024
_EXHAUSTED: Final = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))
"""accept(2): the system has no room. Other errors are those of one connection."""

Handle = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
ConnectionFactory = Callable[..., BoundedConnection]
"""Called with aiohttp's server, the ConnectionEvents, and options of aiohttp by name."""


class ServerBounds(msgspec.Struct, frozen=True):
    """What the peers of one port may take."""

    connections: int
    """At once, those in a TLS handshake included."""
    idle: float
    """Seconds without a request after which a connection ends."""
    drain: float = 1.0
    """Seconds for requests under way when the server stops."""


class _ConnectionSlot(ConnectionEvents):
    """One of the connections of a server, from its acceptance."""

    __slots__ = ("connection", "last_request", "server", "task")

    def __init__(self, server: "BoundedServer") -> None:
        self.server = server
        self.connection: BoundedConnection | None = None
        self.task: asyncio.Task[None] | None = None
        """What makes the connection, TLS included."""
        self.last_request = asyncio.get_running_loop().time()

    def on_request(self) -> None:
        """Be the last one to end for another connection."""
        self.last_request = asyncio.get_running_loop().time()
        if self in self.server.slots:
            self.server.slots.move_to_end(self)

    def on_close(self) -> None:
        """Make room."""
        self.server.slots.pop(self, None)

    def abort(self) -> None:
        """End the connection, or what makes it."""
        self.on_close()
        if self.task is not None:
            self.task.cancel()
        if self.connection is not None:
            self.connection.abort()


class BoundedServer:
    """Answers requests by `handle` on connections that `connect` makes, while it is `serving`."""

    def __init__(
        self,
        handle: Handle,
        bounds: ServerBounds,
        *,
        connect: ConnectionFactory = BoundedConnection,
        count_dropped: Callable[[], None] = lambda: None,
    ) -> None:
        self._handle_request = handle
        self._bounds = bounds
        self._connect = connect
        self._count_dropped = count_dropped
        self._next_log = 0.0
        self._patience = PATIENCE_SECONDS
        self._patience_time = 0.0
        self.slots: OrderedDict[_ConnectionSlot, None] = OrderedDict()
        """The connections; first the one that has sent no request for the longest time."""

    @asynccontextmanager
    async def serve(self, address: tuple[str, int], context: ssl.SSLContext | None = None) -> AsyncIterator[int]:
        """Listen until the end of the block; gives the port. Raises OSError where the address cannot be had."""
        manager = web.Server(self._handle, request_factory=_build_request)
        listeners = await _listen(*address)
        accepting = [asyncio.ensure_future(self._accept(listener, manager, context)) for listener in listeners]
        try:
            yield listeners[0].getsockname()[1]
        finally:
            for task in accepting:
                task.cancel()
            await asyncio.gather(*accepting, return_exceptions=True)
            for listener in listeners:
                listener.close()
            manager.pre_shutdown()
            await manager.shutdown(self._bounds.drain)
            for slot in list(self.slots):
                slot.abort()

    async def _accept(self, listener: socket.socket, manager: web.Server, context: ssl.SSLContext | None) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, _ = await loop.sock_accept(listener)
            except OSError as error:
                self._log_refusal(error)
                await asyncio.sleep(RETRY_SECONDS if error.errno in _EXHAUSTED else 0)
                continue
            try:
                await self._drop_oldest_connections()
            except asyncio.CancelledError:
                accepted.close()
                raise
            slot = _ConnectionSlot(self)
            self.slots[slot] = None
            slot.task = loop.create_task(self._open(slot, accepted, manager, context))
            # `sock_accept` does not wait where a connection is there already
            await asyncio.sleep(0)

    async def _drop_oldest_connections(self) -> None:
        loop = asyncio.get_running_loop()
        while len(self.slots) >= self._bounds.connections:
            oldest = next(iter(self.slots))
            now = loop.time()
            self._patience = min(PATIENCE_SECONDS, self._patience + (now - self._patience_time) * _PATIENCE_RATE)
            self._patience_time = now
            wait = min(oldest.last_request + GRACE_SECONDS - now, self._patience)
            if wait > 0.001:
                self._patience -= wait
                await asyncio.sleep(wait)
                continue
            self._count_dropped()
            oldest.abort()
            await asyncio.sleep(0)

    async def _open(
        self, slot: _ConnectionSlot, accepted: socket.socket, manager: web.Server, context: ssl.SSLContext | None
    ) -> None:
        def connect() -> BoundedConnection:
            slot.connection = self._connect(
                manager,
                slot,
                access_log=None,
                keepalive_timeout=self._bounds.idle,
                logger=_log,
            )
            return slot.connection

        encryption: dict[str, Any] = {}
        if context is not None:
            encryption = {
                "ssl": context,
                "ssl_handshake_timeout": SILENCE_SECONDS,
                "ssl_shutdown_timeout": _SHUTDOWN_SECONDS,
            }
        try:
            await asyncio.get_running_loop().connect_accepted_socket(connect, accepted, **encryption)
        except OSError as error:
            # the peer left, or does not speak TLS
            _log.debug("connection failed", error=str(error))
            slot.on_close()
        except BaseException:
            slot.on_close()
            raise
        finally:
            slot.task = None

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        connection = request.protocol
        if not isinstance(connection, BoundedConnection):
            raise TypeError(f"a request on {type(connection).__name__}")
        with connection.suspend_timers():
            return await self._handle_request(request)

    def _log_refusal(self, error: OSError) -> None:
        now = asyncio.get_running_loop().time()
        if now < self._next_log:
            return
        self._next_log = now + LOG_SECONDS
        _log.warning("connection refused", error=error.strerror, connections=len(self.slots), silent_seconds=LOG_SECONDS)


def raise_file_limit() -> None:
    """Let this process have as many files as the system allows: connections must not use up those that its work needs."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _build_request(
    message: RawRequestMessage,
    payload: StreamReader,
    protocol: web.RequestHandler,
    writer: AbstractStreamWriter,
    task: "asyncio.Task[None]",
) -> web.BaseRequest:
    return web.BaseRequest(message, payload, protocol, writer, task, asyncio.get_running_loop())


async def _listen(host: str, port: int) -> list[socket.socket]:
    """Return a socket for each address of a host. Raises OSError."""
    loop = asyncio.get_running_loop()
    addresses = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    listeners: list[socket.socket] = []
    try:
        for family, address in dict.fromkeys((family, address[:2]) for family, _, _, _, address in addresses):
            listener = socket.create_server((str(address[0]), int(address[1])), family=family, backlog=_BACKLOG)
            listener.setblocking(False)
            for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
                # an accepted socket has them of its listener
                listener.setsockopt(socket.SOL_SOCKET, option, BUFFER_BYTES)
            listeners.append(listener)
    except OSError:
        for listener in listeners:
            listener.close()
        raise
    return listeners
