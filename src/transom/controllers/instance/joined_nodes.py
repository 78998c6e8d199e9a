"""What Transom writes on the Node of a host that it joined: whose it is, and that no pods come before its payload has run.

Its kubelet is Ready as soon as there is a CNI configuration, and without kube-proxy its pods would have no Services. So it is
cordoned when it is first seen. How far that has come stands on the Node, for the next process; a person who uncordons it has
the last word.
"""

import contextlib
from collections.abc import Callable, Mapping
from typing import Any, Final

from transom.controllers.instance.view import regarding_of
from transom.controllers.runtime.cached import FIRST, JOINED, NODES, PAYLOAD_VERSION, CachedInstance, HostNode
from transom.controllers.runtime.controller import Leadership
from transom.kube import Conflict, NotFound
from transom.kube.resources import NODES as WHOLE_NODES

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


STATE_HASH: Final = "transom.dev/state-hash"
_WORKER: Final = "node-role.kubernetes.io/worker"
"""Kubelets may not give themselves a role (NodeRestriction); the other labels and the taint they register."""


async def mark(cached: CachedInstance, node: HostNode, version: str, digest: str | None, leadership: Leadership) -> None:
    """The annotations of an instance's Node, and the role that its kubelet may not give it. Raises ApiError.

    Another instance's annotation stays, and is told.
    """
    name, own = node.metadata.name, f"{cached.metadata.namespace}/{cached.metadata.name}"
    try:
        there = await leadership.client.get(WHOLE_NODES, name)
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
        await leadership.client.patch(WHOLE_NODES, change, name)
    except (NotFound, Conflict):
        # it is another Node by now; its coming is told
        return


async def unmark(cached: CachedInstance, node: HostNode, leadership: Leadership) -> None:
    """A Node that stays, and is nobody's from now on, says so no more. Raises ApiError."""
    if node.claimed_by != f"{cached.metadata.namespace}/{cached.metadata.name}":
        return
    with contextlib.suppress(NotFound, Conflict):
        change = {"metadata": {"uid": node.metadata.uid, "annotations": {JOINED: None}}}
        await leadership.client.patch(WHOLE_NODES, change, node.metadata.name)


def _has(there: Mapping[str, str] | None, wanted: Mapping[str, str]) -> bool:
    return all((there or {}).get(name) == value for name, value in wanted.items())
