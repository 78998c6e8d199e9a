"""Whether the kubelets of Nodes report again: what a Node says now is compared with what the same Node said before.

A heartbeat has the time of the host's clock, so that it is never compared with another machine's. kubelet reports when it
starts, and then every 5 minutes unless something changes (Kubernetes documentation, KubeletConfiguration,
`nodeStatusReportFrequency`). Heartbeats come by the watch, so that waiting for one asks the API server nothing.
"""

import asyncio
from datetime import UTC, datetime
from typing import Final

from transom.controllers.runtime.cached_objects import NODES, HostNode
from transom.kube.backoff import wait_for_event
from transom.kube.client import Client
from transom.kube.store import Store

HEARTBEAT_SECONDS: Final = 120.0
"""Seconds in which a Node's kubelet must be heard of after it was restarted."""


class Heartbeats:
    """The last heartbeats of Nodes. The watcher of Nodes calls `update` on each change."""

    def __init__(self, nodes: Store[HostNode]) -> None:
        self._nodes = nodes
        self._waiting: dict[str, dict[asyncio.Event, datetime]] = {}

    def update(self, name: str, node: HostNode | None) -> None:
        """Record a new or changed Node."""
        for heard, before in self._waiting.get(name, {}).items():
            if is_newer(node, before):
                heard.set()

    def find_newest(self, name: str) -> datetime | None:
        """When the kubelet of a Node last said that it is Ready, by its own clock; None where it does not."""
        return read_heartbeat(self._nodes.take_snapshot().find_named(name))

    async def wait_for_newer(self, name: str, before: datetime, client: Client) -> bool:
        """Return True if a Node's kubelet reports Ready later than `before`; wait at most `HEARTBEAT` seconds.

        Before it gives a kubelet up, it asks the API server, whose watch may be late. Raises ApiError.
        """
        if is_newer(self._nodes.take_snapshot().find_named(name), before):
            return True
        heard = asyncio.Event()
        self._waiting.setdefault(name, {})[heard] = before
        try:
            if await wait_for_event(heard, HEARTBEAT_SECONDS):
                return True
            nodes = (await client.list_objects(NODES, fields=f"metadata.name={name}")).items
            return is_newer(next(iter(nodes), None), before)
        finally:
            del self._waiting[name][heard]
            if not self._waiting[name]:
                del self._waiting[name]


def read_heartbeat(node: HostNode | None) -> datetime | None:
    """Return when the kubelet of a Node last reported Ready, by its own clock; None if it does not report Ready."""
    ready = node.ready if node is not None else None
    beat = ready.last_heartbeat_time if ready is not None and ready.status == "True" else None
    return beat.astimezone(UTC) if beat is not None else None


def is_newer(node: HostNode | None, before: datetime) -> bool:
    """Return True if the kubelet of a Node reported Ready after `before`."""
    beat = read_heartbeat(node)
    return beat is not None and beat > before
