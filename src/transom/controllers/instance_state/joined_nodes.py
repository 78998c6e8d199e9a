"""What Transom writes on the Node of a host that it joined: whose it is, and that no pods come before its payload has run.

Its kubelet is Ready as soon as there is a CNI configuration, and without kube-proxy its pods would have no Services. So it is
cordoned when it is first seen. How far that has come stands on the Node, for the next process; a person who uncordons it has
the last word.
"""

import contextlib
from collections.abc import Callable, Mapping
from typing import Any, Final

from transom.controllers.instance_state.view import to_regarding
from transom.controllers.runtime.cached_objects import FIRST, JOINED, NODES, PAYLOAD_VERSION, CachedInstance, HostNode
from transom.controllers.runtime.controller import Leadership
from transom.kube.errors import Conflict, NotFound
from transom.kube.resources import NODES as WHOLE_NODES

CORDONED: Final = "Cordoned"
"""Transom cordoned it."""
PENDING: Final = "Pending"
"""Another user or program had cordoned it: it stays cordoned."""
DONE: Final = "Done"
_ATTEMPTS: Final = 5


def is_pending(node: HostNode) -> bool:
    """Return True if the Node has not accepted pods yet."""
    return node.first_configuration in (CORDONED, PENDING)


def is_first_observation(node: HostNode, *, installed: bool) -> bool:
    """Return True if the Node has no record yet. `installed`: whether this Transom installed a payload on its host.

    Returns False for a Node that was Ready before Transom reached its host, or that an earlier version configured.
    """
    return node.first_configuration is None and node.payload_version is None and (installed or not node.is_ready)


async def cordon_new_node(node: HostNode, leadership: Leadership) -> None:
    """Cordon a Node that is first seen. Raises ApiError."""

    def build_cordon_patch(now: HostNode) -> dict[str, Any] | None:
        if now.first_configuration is not None:
            return None
        if now.cordoned:
            return {"metadata": {"annotations": {FIRST: PENDING}}}
        return {"metadata": {"annotations": {FIRST: CORDONED}}, "spec": {"unschedulable": True}}

    await _patch_node(node, build_cordon_patch, leadership)


async def uncordon_joined_node(node: HostNode, leadership: Leadership) -> None:
    """Uncordon a joined Node unless another client also cordoned it. Raises ApiError."""

    def build_uncordon_patch(now: HostNode) -> dict[str, Any] | None:
        if not is_pending(now):
            return None
        done: dict[str, Any] = {"metadata": {"annotations": {FIRST: DONE}}}
        ours = now.first_configuration == CORDONED and now.cordoned and now.draining_since is None
        return done | ({"spec": {"unschedulable": None}} if ours else {})

    await _patch_node(node, build_uncordon_patch, leadership)


async def respect_manual_uncordon(node: HostNode, leadership: Leadership) -> None:
    """Record that a person uncordoned the Node, so that it is not cordoned again. Raises ApiError."""
    if node.first_configuration == CORDONED and not node.cordoned:
        await uncordon_joined_node(node, leadership)


async def _patch_node(node: HostNode, wanted: Callable[[HostNode], dict[str, Any] | None], leadership: Leadership) -> None:
    """Patch the Node in its current state; after a conflict, read it again."""
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


async def annotate_node(
    cached: CachedInstance, node: HostNode, version: str, digest: str | None, leadership: Leadership
) -> None:
    """Write an instance's annotations to its Node, and the role that its kubelet may not set. Raises ApiError.

    Another instance's annotation stays and is reported.
    """
    name, own = node.metadata.name, f"{cached.metadata.namespace}/{cached.metadata.name}"
    try:
        live_node = await leadership.client.get(WHOLE_NODES, name)
        if live_node.metadata.uid != node.metadata.uid:
            return
        claimed = (live_node.metadata.annotations or {}).get(JOINED, own)
        if claimed != own:
            message = f"Node {name} is this host's, and its annotation {JOINED} names another instance: it is unchanged"
            leadership.recorder.record_warning(to_regarding(cached), "NodeMarkedForeign", message)
        marks = {JOINED: claimed, PAYLOAD_VERSION: version, **({STATE_HASH: digest} if digest else {})}
        if _has(live_node.metadata.annotations, marks) and _has(live_node.metadata.labels, {_WORKER: ""}):
            return
        change = {"metadata": {"uid": live_node.metadata.uid, "annotations": marks, "labels": {_WORKER: ""}}}
        await leadership.client.patch(WHOLE_NODES, change, name)
    except (NotFound, Conflict):
        # it is another Node by now, which has its own event
        return


async def remove_annotations(cached: CachedInstance, node: HostNode, leadership: Leadership) -> None:
    """Remove the annotations of a Node that stays and belongs to no instance any more. Raises ApiError."""
    if node.claimed_by != f"{cached.metadata.namespace}/{cached.metadata.name}":
        return
    with contextlib.suppress(NotFound, Conflict):
        change = {"metadata": {"uid": node.metadata.uid, "annotations": {JOINED: None}}}
        await leadership.client.patch(WHOLE_NODES, change, node.metadata.name)


def _has(existing: Mapping[str, str] | None, wanted: Mapping[str, str]) -> bool:
    return all((existing or {}).get(name) == value for name, value in wanted.items())
