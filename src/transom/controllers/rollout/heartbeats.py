"""Whether the kubelets of Nodes report again: what a Node says now is compared with what the same Node said before.

A heartbeat has the time of the host's clock, so that it is never compared with another machine's. kubelet reports when it
starts, and then every 5 minutes unless something changes (Kubernetes documentation, KubeletConfiguration,
`nodeStatusReportFrequency`). Heartbeats come by the watch, so that waiting for one asks the API server nothing.
"""

import asyncio
from datetime import UTC, datetime
from typing import Final

from transom.controllers.runtime.cached import NODES, HostNode
from transom.kube.backoff import set_within
from transom.kube.client import Client
from transom.kube.store import Store

HEARTBEAT: Final = 120.0
"""Seconds in which a Node's kubelet must be heard of after it was restarted."""


class Heartbeats:
    """Told of each change of a Node by whoever follows `nodes`."""

    def __init__(self, nodes: Store[HostNode]) -> None:
        self._nodes = nodes
        self._waiting: dict[str, dict[asyncio.Event, datetime]] = {}

    def seen(self, name: str, node: HostNode | None) -> None:
        """A Node is there now, or changed."""
        for heard, before in self._waiting.get(name, {}).items():
            if beats(node, before):
                heard.set()

    def newest(self, name: str) -> datetime | None:
        """When the kubelet of a Node last said that it is Ready, by its own clock; None where it does not."""
        return beat_of(self._nodes.snapshot().named(name))

    async def heard_of(self, name: str, before: datetime, client: Client) -> bool:
        """Whether the kubelet of a Node says that it is Ready, later than it did `before`; waits at most `HEARTBEAT` seconds.

        Raises ApiError: before a kubelet is given up the API server is asked, which may be what was not heard of.
        """
        if beats(self._nodes.snapshot().named(name), before):
            return True
        heard = asyncio.Event()
        self._waiting.setdefault(name, {})[heard] = before
        try:
            if await set_within(heard, HEARTBEAT):
                return True
            found = (await client.list_objects(NODES, fields=f"metadata.name={name}")).items
            return beats(next(iter(found), None), before)
        finally:
            del self._waiting[name][heard]
            if not self._waiting[name]:
                del self._waiting[name]


def beat_of(node: HostNode | None) -> datetime | None:
    """When the kubelet of a Node last said that it is Ready, by its own clock; None where it does not say so."""
    ready = node.ready if node is not None else None
    beat = ready.last_heartbeat_time if ready is not None and ready.status == "True" else None
    return beat.astimezone(UTC) if beat is not None else None


def beats(node: HostNode | None, before: datetime) -> bool:
    """Whether the kubelet of a Node has said that it is Ready since it said so `before`."""
    beat = beat_of(node)
    return beat is not None and beat > before
