"""What Transom writes on the Node of a host that it joined."""

import contextlib
from collections.abc import Mapping
from typing import Final

from transom.controllers.instance.view import regarding_of
from transom.controllers.runtime.cached import JOINED, PAYLOAD_VERSION, CachedInstance, HostNode
from transom.controllers.runtime.controller import Leadership
from transom.kube.errors import Conflict, NotFound
from transom.kube.resources import NODES

STATE_HASH: Final = "transom.dev/state-hash"
_WORKER: Final = "node-role.kubernetes.io/worker"
"""Kubelets may not give themselves a role (NodeRestriction); the other labels and the taint they register."""


async def mark(cached: CachedInstance, node: HostNode, version: str, digest: str | None, leadership: Leadership) -> None:
    """The annotations of an instance's Node, and the role that its kubelet may not give it. Raises ApiError.

    Another instance's annotation stays, and is told.
    """
    name, own = node.metadata.name, f"{cached.metadata.namespace}/{cached.metadata.name}"
    try:
        there = await leadership.client.get(NODES, name)
        if there.metadata.uid != node.metadata.uid:
            return
        claimed = (there.metadata.annotations or {}).get(JOINED, own)
        if claimed != own:
            message = f"Node {name} is this host's, and its annotation {JOINED} names another instance: it is left as it is"
            leadership.recorder.warning(regarding_of(cached), "NodeMarkedForeign", message)
        marks = {JOINED: claimed, PAYLOAD_VERSION: version, **({STATE_HASH: digest} if digest else {})}
        if _has(there.metadata.annotations, marks) and _has(there.metadata.labels, {_WORKER: ""}):
            return
        change = {"metadata": {"uid": there.metadata.uid, "annotations": marks, "labels": {_WORKER: ""}}}
        await leadership.client.patch(NODES, change, name)
    except (NotFound, Conflict):
        # it is another Node by now; its coming is told
        return


async def unmark(cached: CachedInstance, node: HostNode, leadership: Leadership) -> None:
    """A Node that stays, and is nobody's from now on, says so no more. Raises ApiError."""
    if node.claimed_by != f"{cached.metadata.namespace}/{cached.metadata.name}":
        return
    with contextlib.suppress(NotFound, Conflict):
        change = {"metadata": {"uid": node.metadata.uid, "annotations": {JOINED: None}}}
        await leadership.client.patch(NODES, change, node.metadata.name)


def _has(there: Mapping[str, str] | None, wanted: Mapping[str, str]) -> bool:
    return all((there or {}).get(name) == value for name, value in wanted.items())
