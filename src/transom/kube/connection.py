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

from transom.kube.errors import ConfigurationError
from transom.kube.kubeconfig import SelectedContext, select_context
from transom.kube.permitted_networks import USUAL_NETWORKS, PermittedNetworks
from transom.kube.transport import FOREIGN, HttpTransport, build_transport

_log: Final = structlog.get_logger("transom.kube.connection")
NO_ANSWER: Final = "none"
"""The status of a request without an answer, or without one in time."""
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
    renewal: "ConnectionRenewal | None" = None
    answers: "Counter[str]" = field(default_factory=lambda: Counter({NO_ANSWER: 0}))
    """How often a request was answered how: by HTTP status."""

    def renew(self) -> None:
        """Continue over new connections if the files behind the current ones have been rotated.

        Requests in progress end on the old ones. Files that are unusable, because they are half-written, are read again
        later.
        """
        if self.renewal is None or not self.renewal.is_due():
            return
        try:
            made = self.renewal.connect()
        except ConfigurationError as error:
            _log.warning("the new API server settings are not usable: continuing with the previous ones", error=str(error))
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


class ConnectionRenewal:
    """The settings of new connections, and the connections in use before."""

    def __init__(self, files: "RotatedFiles", connect: Callable[[], Connection]) -> None:
        self.files = files
        self.connect = connect
        self._retired: list[HttpTransport] = []
        self._closing: set[asyncio.Task[None]] = set()

    def is_due(self) -> bool:
        """Return True if a file changed."""
        return self.files.has_changed()

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
    """Connect by `kubeconfig`, otherwise by the pod's service account, `$KUBECONFIG` or `~/.kube/config`.

    Nothing is sent yet. Raises ConfigurationError.
    """
    chosen = select_context(kubeconfig, context)
    # before certificates are read: what changes meanwhile is read again
    files = RotatedFiles(chosen.tls_files)
    connection = _build_connection(chosen, build_transport(chosen))
    connection.renewal = ConnectionRenewal(files, lambda: connect(kubeconfig, context))
    return connection


def connect_untrusted_cluster(
    chosen: SelectedContext, proxy: str | None = None, permitted: PermittedNetworks = USUAL_NETWORKS
) -> Connection:
    """Connect to another cluster, whose API server is not trusted: its answers are bounded. Nothing is sent yet.

    `proxy` is for a kubeconfig without a `proxy-url`; `permitted` are the networks that the kubeconfig may lead to. Raises
    ConfigurationError; its message has no value of the kubeconfig except an address that is not permitted.
    """
    return _build_connection(chosen, build_transport(chosen, FOREIGN, proxy, permitted))


def _build_connection(chosen: SelectedContext, transport: HttpTransport) -> Connection:
    return Connection(transport, chosen.cluster.server, chosen.namespace, chosen.source, chosen.context)


class RotatedFiles:
    """Client certificates, keys and CAs that connections were made from, which others rotate."""

    def __init__(self, paths: Iterable[Path], clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen = {path: _stat_file(path) for path in paths}
        self._next = clock() + _LOOK_AGAIN

    def has_changed(self) -> bool:
        """Return True if a file was replaced; repeated until a new `RotatedFiles`.

        A missing file counts as still being rotated.
        """
        now = self._clock()
        if now < self._next:
            return False
        self._next = now + _LOOK_AGAIN
        return any((state := _stat_file(path)) is not None and state != item for path, item in self._seen.items())


def _stat_file(path: Path) -> tuple[int, int, int] | None:
    try:
        file_stat = path.stat()
    except OSError:
        return None
    return file_stat.st_mtime_ns, file_stat.st_ino, file_stat.st_size
