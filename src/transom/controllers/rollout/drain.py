"""The drain of a Node, step by step: it is cordoned, its pods evicted, and it is uncordoned by the same field manager.

The Node holds the state of a drain: why it was cordoned, when the drain began, and since when it is empty. So another
process continues it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

import msgspec

from transom.common.timestamps import format_timestamp
from transom.controllers.runtime.cached_objects import CORDONED, DRAIN, DRAINED, NODES, HostNode
from transom.controllers.runtime.controller import Leadership
from transom.kube.errors import Conflict, NotFound, StatusError
from transom.kube.events import Regarding
from transom.kube.memory_limits import MemoryLimit
from transom.kube.objects import OwnerReference, Projected
from transom.kube.resources import Resource

Purpose = Literal["upgrade", "reboot", "removal"]
Fate = Literal["evict", "wait", "stay"]
_MIRROR: Final = "kubernetes.io/config.mirror"
_ATTEMPTS: Final = 5
_SHOWN: Final = 3
Values = Mapping[str, Any]


class PodAnnotations(msgspec.Struct, frozen=True):
    """The annotation of a pod that says that it comes from a file of its host."""

    mirror: str | None = msgspec.field(default=None, name=_MIRROR)


class DrainedPodMeta(Projected, frozen=True):
    """`metadata` of a pod, as far as a drain reads it."""

    name: str = ""
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    deletion_timestamp: str | None = None
    annotations: PodAnnotations | None = None
    owner_references: list[OwnerReference] | None = None


class PodStatus(Projected, frozen=True):
    """`status` of a pod."""

    phase: str | None = None


class NodePod(Projected, frozen=True):
    """A pod of a Node that is drained."""

    metadata: DrainedPodMeta = DrainedPodMeta()
    status: PodStatus | None = None


_BOUND: Final = MemoryLimit(256 << 10, 32 << 20)
"""Of the pods of a Node: one that is larger counts as a pod that cannot be read."""
PODS: Final = Resource("", "v1", "Pod", "pods", True, NodePod)


class RemainingPod(msgspec.Struct, frozen=True):
    """A pod that still exists, and why."""

    pod: str
    """`namespace/name`."""
    why: str


class DrainProgress(msgspec.Struct, frozen=True):
    """How far a drain has come."""

    remaining: tuple[RemainingPod, ...] = ()
    overdue: bool = False
    """Whether pods remain, and it took longer than it may."""

    @property
    def done(self) -> bool:
        """Whether the Node has nothing to lose."""
        return not self.remaining

    def __str__(self) -> str:
        """Return the remaining pods, each with what blocks it."""
        named = "; ".join(f"{item.pod}: {item.why}" for item in self.remaining[:_SHOWN])
        return named + (f"; and {len(self.remaining) - _SHOWN} more" if len(self.remaining) > _SHOWN else "")


def get_drain_action(pod: NodePod) -> Fate:
    """Return what a drain does with a pod.

     Pods of DaemonSets return to a cordoned Node and mirror pods belong to their host: `kubectl drain` leaves both. A pod that
    has ended also stays, since its log may still be read.
    """
    meta = pod.metadata
    if meta.annotations is not None and meta.annotations.mirror is not None:
        return "stay"
    if any(owner.controller and owner.kind == "DaemonSet" for owner in meta.owner_references or ()):
        return "stay"
    if pod.status is not None and pod.status.phase in ("Succeeded", "Failed"):
        return "stay"
    return "wait" if meta.deletion_timestamp is not None else "evict"


@dataclass(frozen=True)
class Drain:
    """One Node, and why it is drained. Each call is short: who waits for pods comes again."""

    node: str
    uid: str
    """Of that Node: another one of its name is none to be drained."""
    purpose: Purpose
    leadership: Leadership
    regarding: Regarding
    """The object of its events."""
    now: Callable[[], datetime]
    timeout: float
    """Seconds after which it is overdue."""

    async def run_step(self) -> DrainProgress:
        """Cordon the Node where it is not, evict what remains, and say who is left. A Node that is gone is empty.

        Pods have the time that they ask for to end. Raises ApiError.
        """
        try:
            node = await self._patch_node(self._build_cordon_patch)
        except NotFound:
            return DrainProgress()
        pods = await self.leadership.client.list_objects(PODS, fields=f"spec.nodeName={self.node}", memory_limit=_BOUND)
        remaining = [left for pod in pods.items if (left := await self._evict_pod(pod)) is not None]
        remaining += [
            _build_unreadable(item.metadata.metadata.namespace, item.metadata.metadata.name)
            for item in pods.malformed
            if not item.in_use
        ]
        if not remaining:
            if not node.drained:
                await self._patch_node(self._build_drained_patch)
                self.leadership.recorder.record_normal(
                    self.regarding, "Drained", f"Node {self.node} has no pods left that can be evicted"
                )
            return DrainProgress()
        start = node.draining_since or self.now()
        lasted = (self.now() - start).total_seconds()
        progress = DrainProgress(tuple(remaining), overdue=lasted >= self.timeout)
        if progress.overdue:
            # the same words each time: who comes again and again tells one event
            message = f"Node {self.node} is not empty after {self.timeout / 60:.0f} min: {progress}"
            self.leadership.recorder.record_warning(self.regarding, "DrainBlocked", message)
        return progress

    async def uncordon(self) -> None:
        """End the drain: what we cordoned takes pods again; a cordon that a person made stays. Raises ApiError."""
        try:
            before = await self._read_node()
            await self._patch_node(_build_uncordon_patch)
        except NotFound:
            return
        if before.cordoned and before.cordoned_for is not None:
            self.leadership.recorder.record_normal(self.regarding, "Uncordoned", f"Node {self.node} accepts pods again")

    async def _read_node(self) -> HostNode:
        """Return the Node. Raises NotFound, also if another Node has its name by now."""
        node = await self.leadership.client.get(NODES, self.node)
        if node.metadata.uid != self.uid:
            raise NotFound(404, "NotFound", f"Node {self.node} was made again")
        return node

    async def _evict_pod(self, pod: NodePod) -> RemainingPod | None:
        """Return why a pod remains after its deletion; None if that does not matter."""
        decided = get_drain_action(pod)
        meta = pod.metadata
        name = f"{meta.namespace}/{meta.name}"
        if decided == "stay":
            return None
        if decided == "wait":
            return RemainingPod(name, "is ending")
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": meta.name, "namespace": meta.namespace},
            "deleteOptions": {"preconditions": {"uid": meta.uid}},
        }
        path = PODS.build_path(meta.namespace, meta.name, "eviction")
        try:
            await self.leadership.client.request("POST", path, None, body, retries=0)
        except (NotFound, Conflict):
            return None
        except StatusError as error:
            return RemainingPod(name, str(error))
        return RemainingPod(name, "is terminating")

    async def _patch_node(self, wanted: Callable[[HostNode], Values | None]) -> HostNode:
        """Patch the observed Node; after a conflict, read it again. Return the result."""
        for attempt in range(_ATTEMPTS):
            node = await self._read_node()
            change = wanted(node)
            if change is None:
                return node
            version = {"uid": node.metadata.uid, "resourceVersion": node.metadata.resource_version}
            metadata = {**version, "annotations": change["annotations"]}
            spec = {"spec": change["spec"]} if "spec" in change else {}
            try:
                changed = await self.leadership.client.patch(NODES, {"metadata": metadata, **spec}, self.node)
            except Conflict:
                if attempt == _ATTEMPTS - 1:
                    raise
                continue
            if spec and changed.cordoned:
                self.leadership.recorder.record_normal(
                    self.regarding, "Cordoned", f"Node {self.node} accepts no new pods: {self.purpose}"
                )
            return changed
        raise AssertionError("unreachable")  # pragma: no cover

    def _build_cordon_patch(self, node: HostNode) -> Values | None:
        start = format_timestamp(node.draining_since or self.now())
        if node.cordoned:
            return None if node.draining_since is not None else {"annotations": {DRAIN: start}}
        annotations = {CORDONED: self.purpose, DRAIN: start, DRAINED: None}
        return {"annotations": annotations, "spec": {"unschedulable": True}}

    def _build_drained_patch(self, node: HostNode) -> Values | None:
        return {"annotations": {DRAINED: format_timestamp(self.now())}}


def _build_uncordon_patch(node: HostNode) -> Values | None:
    cached = node.metadata.annotations
    if cached is None or (cached.cordoned, cached.drain, cached.drained) == (None, None, None):
        return None
    annotations = dict.fromkeys((CORDONED, DRAIN, DRAINED))
    return {"annotations": annotations} | ({"spec": {"unschedulable": None}} if cached.cordoned is not None else {})


def _build_unreadable(namespace: str | None, name: str) -> RemainingPod:
    return RemainingPod(f"{namespace}/{name}", "cannot be read")
