"""A Node made empty, step by step: cordoned, its pods evicted, and given back by who cordoned it.

What is known of a drain stands on the Node: why it was cordoned, when the drain began, and since when it is empty. So another
process goes on with it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

import msgspec

from transom.controllers.runtime.cached import CORDONED, DRAIN, DRAINED, NODES, HostNode
from transom.controllers.runtime.conditions import timestamp
from transom.controllers.runtime.controller import Leadership
from transom.kube import Conflict, NotFound, StatusError
from transom.kube.events import Regarding
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


PODS: Final = Resource("", "v1", "Pod", "pods", True, NodePod)


class Remaining(msgspec.Struct, frozen=True):
    """A pod that is still there, and why."""

    pod: str
    """`namespace/name`."""
    why: str


class DrainProgress(msgspec.Struct, frozen=True):
    """How far a drain has come."""

    remaining: tuple[Remaining, ...] = ()
    overdue: bool = False
    """Whether pods remain, and it took longer than it may."""

    @property
    def done(self) -> bool:
        """Whether the Node has nothing to lose."""
        return not self.remaining

    def __str__(self) -> str:
        """The pods that remain, each with what holds it."""
        named = "; ".join(f"{one.pod}: {one.why}" for one in self.remaining[:_SHOWN])
        return named + (f"; and {len(self.remaining) - _SHOWN} more" if len(self.remaining) > _SHOWN else "")


def fate(pod: NodePod) -> Fate:
    """What a drain does with a pod.

    A DaemonSet's comes back to a cordoned Node, and a mirror pod belongs to its host: `kubectl drain` leaves both. A pod that
    has ended stays, too: its log may still be read.
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
    """Whose events tell of it."""
    now: Callable[[], datetime]
    timeout: float
    """Seconds after which it is overdue."""

    async def step(self) -> DrainProgress:
        """Cordon the Node where it is not, evict what remains, and say who is left. A Node that is gone is empty.

        Pods have the time that they ask for to end. Raises ApiError.
        """
        try:
            node = await self._change(self._cordoned)
        except NotFound:
            return DrainProgress()
        found = await self.leadership.client.list_objects(PODS, fields=f"spec.nodeName={self.node}")
        remaining = [left for pod in found.items if (left := await self._ended(pod)) is not None]
        remaining += [
            _unreadable(one.metadata.metadata.namespace, one.metadata.metadata.name)
            for one in found.malformed
            if not one.in_use
        ]
        if not remaining:
            if not node.drained:
                await self._change(self._drained)
                self.leadership.recorder.normal(self.regarding, "Drained", f"Node {self.node} has no pods left that can go")
            return DrainProgress()
        begun = node.draining_since or self.now()
        lasted = (self.now() - begun).total_seconds()
        progress = DrainProgress(tuple(remaining), overdue=lasted >= self.timeout)
        if progress.overdue:
            # the same words each time: who comes again and again tells one event
            message = f"Node {self.node} is not empty after {self.timeout / 60:.0f} min: {progress}"
            self.leadership.recorder.warning(self.regarding, "DrainBlocked", message)
        return progress

    async def uncordon(self) -> None:
        """End the drain: what we cordoned takes pods again; a cordon that a person made stays. Raises ApiError."""
        try:
            before = await self._read()
            await self._change(_given_back)
        except NotFound:
            return
        if before.cordoned and before.cordoned_for is not None:
            self.leadership.recorder.normal(self.regarding, "Uncordoned", f"Node {self.node} takes pods again")

    async def _read(self) -> HostNode:
        """The Node. Raises NotFound, also where there is another one of its name by now."""
        node = await self.leadership.client.get(NODES, self.node)
        if node.metadata.uid != self.uid:
            raise NotFound(404, "NotFound", f"Node {self.node} was made again")
        return node

    async def _ended(self, pod: NodePod) -> Remaining | None:
        """Why a pod is still there after it was told to go; None where it does not matter."""
        decided = fate(pod)
        meta = pod.metadata
        name = f"{meta.namespace}/{meta.name}"
        if decided == "stay":
            return None
        if decided == "wait":
            return Remaining(name, "is ending")
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": meta.name, "namespace": meta.namespace},
            "deleteOptions": {"preconditions": {"uid": meta.uid}},
        }
        path = PODS.path(meta.namespace, meta.name, "eviction")
        try:
            await self.leadership.client.request("POST", path, None, body, retries=0)
        except (NotFound, Conflict):
            return None
        except StatusError as error:
            return Remaining(name, str(error))
        return Remaining(name, "was told to end")

    async def _change(self, wanted: Callable[[HostNode], Values | None]) -> HostNode:
        """The Node after a change to what was read of it; somebody else's change in between is read again."""
        for attempt in range(_ATTEMPTS):
            node = await self._read()
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
                self.leadership.recorder.normal(self.regarding, "Cordoned", f"Node {self.node} takes no pods: {self.purpose}")
            return changed
        raise AssertionError("unreachable")  # pragma: no cover

    def _cordoned(self, node: HostNode) -> Values | None:
        begun = timestamp(node.draining_since or self.now())
        if node.cordoned:
            return None if node.draining_since is not None else {"annotations": {DRAIN: begun}}
        annotations = {CORDONED: self.purpose, DRAIN: begun, DRAINED: None}
        return {"annotations": annotations, "spec": {"unschedulable": True}}

    def _drained(self, node: HostNode) -> Values | None:
        return {"annotations": {DRAINED: timestamp(self.now())}}


def _given_back(node: HostNode) -> Values | None:
    cached = node.metadata.annotations
    if cached is None or (cached.cordoned, cached.drain, cached.drained) == (None, None, None):
        return None
    annotations = dict.fromkeys((CORDONED, DRAIN, DRAINED))
    return {"annotations": annotations} | ({"spec": {"unschedulable": None}} if cached.cordoned is not None else {})


def _unreadable(namespace: str | None, name: str) -> Remaining:
    return Remaining(f"{namespace}/{name}", "cannot be read")
