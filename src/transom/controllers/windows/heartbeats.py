"""Whether the kubelets of Nodes are heard of: they come by the watch, so that waiting for one asks the API server nothing."""

import asyncio
from datetime import UTC, datetime
from typing import Final

from transom.controllers.kept import NODES, HostNode
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
        for heard, since in self._waiting.get(name, {}).items():
            if beats(node, since):
                heard.set()

    async def heard_of(self, name: str, since: datetime, client: Client) -> bool:
        """Whether the kubelet of a Node says that it is Ready, later than `since`; waits for it, at most `HEARTBEAT` seconds.

        Raises ApiError: before a kubelet is given up the API server is asked, which may be what was not heard of.
        """
        if beats(self._nodes.snapshot().get(name), since):
            return True
        heard = asyncio.Event()
        self._waiting.setdefault(name, {})[heard] = since
        try:
            if await set_within(heard, HEARTBEAT):
                return True
            found = (await client.list_objects(NODES, fields=f"metadata.name={name}")).items
            return beats(next(iter(found), None), since)
        finally:
            del self._waiting[name][heard]
            if not self._waiting[name]:
                del self._waiting[name]


def beats(node: HostNode | None, since: datetime) -> bool:
    """Whether the kubelet of a Node has said that it is Ready, later than `since`."""
    ready = node.ready if node is not None else None
    beat = ready.last_heartbeat_time if ready is not None and ready.status == "True" else None
    # kubelets give whole seconds
    return beat is not None and beat.astimezone(UTC) >= since.replace(microsecond=0)
