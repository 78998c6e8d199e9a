"""A Node that Transom joined takes no pods before everything of its payload has run once.

Its kubelet is Ready as soon as there is a CNI configuration, and without kube-proxy its pods would have no Services. So it is
cordoned when it is first seen. How far that has come stands on the Node, for the next process; a person who uncordons it has
the last word.
"""

from collections.abc import Callable
from typing import Any, Final

from transom.controllers.runtime.cached import FIRST, NODES, HostNode
from transom.controllers.runtime.controller import Leadership
from transom.kube.errors import Conflict, NotFound

CORDONED: Final = "Cordoned"
"""Transom cordoned it."""
PENDING: Final = "Pending"
"""Somebody else had: it stays cordoned."""
DONE: Final = "Done"
_ATTEMPTS: Final = 5


def is_pending(node: HostNode) -> bool:
    """Whether the Node has not taken pods yet."""
    return node.first_configuration in (CORDONED, PENDING)


def is_first(node: HostNode, *, installed: bool) -> bool:
    """Whether a Node is seen before anything was said of it. `installed`: whether a payload is on its host, of this Transom.

    A Node that was Ready before Transom came to its host is none, and none that an earlier version has configured.
    """
    return node.first_configuration is None and node.payload_version is None and (installed or not node.is_ready)


async def hold_back(node: HostNode, leadership: Leadership) -> None:
    """Cordon a Node that is first seen. Raises ApiError."""

    def wanted(now: HostNode) -> dict[str, Any] | None:
        if now.first_configuration is not None:
            return None
        if now.cordoned:
            return {"metadata": {"annotations": {FIRST: PENDING}}}
        return {"metadata": {"annotations": {FIRST: CORDONED}}, "spec": {"unschedulable": True}}

    await _changed(node, wanted, leadership)


async def let_in(node: HostNode, leadership: Leadership) -> None:
    """Let pods come to it, unless somebody else cordoned it, too. Raises ApiError."""

    def wanted(now: HostNode) -> dict[str, Any] | None:
        if not is_pending(now):
            return None
        done: dict[str, Any] = {"metadata": {"annotations": {FIRST: DONE}}}
        ours = now.first_configuration == CORDONED and now.cordoned and now.draining_since is None
        return done | ({"spec": {"unschedulable": None}} if ours else {})

    await _changed(node, wanted, leadership)


async def respect(node: HostNode, leadership: Leadership) -> None:
    """A Node that a person has uncordoned meanwhile is not cordoned again. Raises ApiError."""
    if node.first_configuration == CORDONED and not node.cordoned:
        await let_in(node, leadership)


async def _changed(node: HostNode, wanted: Callable[[HostNode], dict[str, Any] | None], leadership: Leadership) -> None:
    """Change the Node as it is now; somebody else's change in between is read again."""
    for attempt in range(_ATTEMPTS):
        try:
            now = await leadership.client.get(NODES, node.metadata.name)
            if now.metadata.uid != node.metadata.uid or (change := wanted(now)) is None:
                return
            version = {"uid": now.metadata.uid, "resourceVersion": now.metadata.resource_version}
            metadata = {**version, **change["metadata"]}
            await leadership.client.patch(NODES, {**change, "metadata": metadata}, node.metadata.name)
        except NotFound:
            return
        except Conflict:
            if attempt == _ATTEMPTS - 1:
                raise
            continue
        return
