"""How an API server is reached: by what a kubeconfig says, or from inside a pod.

The environment decides nothing about the way there: a process that manages proxies must not be cut off from its API server by
the variables it manages. A proxy is used where the kubeconfig's cluster has a `proxy-url`, as kubectl does.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import structlog

from transom.kube import ConfigurationError
from transom.kube.kubeconfig import Chosen, choose
from transom.kube.transport import FOREIGN, HttpTransport, transport_to

_log: Final = structlog.get_logger("transom.kube.connection")
NO_ANSWER: Final = "none"
"""Stands for the status of a request that was not answered, or not in time."""
_RETIRED_SECONDS: Final = 1800.0
"""Longer than any watch lasts."""
_LOOK_AGAIN: Final = 1.0
"""Seconds between two looks at files."""


@dataclass
class Connection:
    """A server and the way to it.

    `namespace` is the context's own, `source` where the settings came from, `context` its name (none in a pod).
    """

    transport: HttpTransport
    server: str
    namespace: str
    source: str
    context: str = ""
    renewal: "Renewal | None" = None
    answers: "Counter[str]" = field(default_factory=lambda: Counter({NO_ANSWER: 0}))
    """How often a request was answered how: by HTTP status."""

    def renew(self) -> None:
        """Go on over new connections where the files that these were made from have been rotated.

        What is under way ends on the old ones. Files that cannot be used, because they are half-written, are looked at again.
        """
        if self.renewal is None or not self.renewal.due():
            return
        try:
            made = self.renewal.connect()
        except ConfigurationError as error:
            _log.warning("the way to the API server changed and cannot be used: going on as before", error=str(error))
            return
        self.renewal.retire(self.transport)
        _log.info("credentials of the API server were read again", source=self.source)
        self.transport, self.server = made.transport, made.server
        if made.renewal is not None:
            self.renewal.files = made.renewal.files

    async def close(self) -> None:
        """Close all connections."""
        if self.renewal is not None:
            await self.renewal.close()
        await self.transport.close()


class Renewal:
    """How connections are made anew, and those that were in use before."""

    def __init__(self, files: "RotatedFiles", connect: Callable[[], Connection]) -> None:
        self.files = files
        self.connect = connect
        self._retired: list[HttpTransport] = []
        self._closing: set[asyncio.Task[None]] = set()

    def due(self) -> bool:
        """Whether a file changed."""
        return self.files.changed()

    def retire(self, transport: HttpTransport) -> None:
        """Close this one when every watch that was begun on it has ended."""
        self._retired.append(transport)
        asyncio.get_running_loop().call_later(_RETIRED_SECONDS, self._close_oldest)

    def _close_oldest(self) -> None:
        if self._retired:
            task = asyncio.ensure_future(self._retired.pop(0).close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Close all of them now."""
        retired, self._retired = self._retired, []
        for transport in retired:
            await transport.close()


def connect(kubeconfig: str | None = None, context: str | None = None) -> Connection:
    """A connection by `kubeconfig`, else the pod's service account, else `$KUBECONFIG`, else `~/.kube/config`.

    Nothing is sent yet. Raises ConfigurationError.
    """
    chosen = choose(kubeconfig, context)
    # before certificates are read: what changes meanwhile is read again
    files = RotatedFiles(chosen.tls_files)
    connection = _reached(chosen, transport_to(chosen))
    connection.renewal = Renewal(files, lambda: connect(kubeconfig, context))
    return connection


def connect_foreign(chosen: Chosen, proxy: str | None = None) -> Connection:
    """A connection to another cluster, whose API server may be anybody: its answers are bounded. Nothing is sent yet.

    `proxy` is for a kubeconfig that has no `proxy-url`. Raises ConfigurationError; its message has no value of the kubeconfig.
    """
    return _reached(chosen, transport_to(chosen, FOREIGN, proxy))


def _reached(chosen: Chosen, transport: HttpTransport) -> Connection:
    return Connection(transport, chosen.cluster.server, chosen.namespace, chosen.source, chosen.context)


class RotatedFiles:
    """Client certificates, keys and CAs that connections were made from, which others rotate."""

    def __init__(self, paths: Iterable[Path], clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen = {path: _state(path) for path in paths}
        self._next = clock() + _LOOK_AGAIN

    def changed(self) -> bool:
        """Whether a file is another one; said until `RotatedFiles` are made anew. A file that is gone is on its way back."""
        now = self._clock()
        if now < self._next:
            return False
        self._next = now + _LOOK_AGAIN
        return any((state := _state(path)) is not None and state != seen for path, seen in self._seen.items())


def _state(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size
