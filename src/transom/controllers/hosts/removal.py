"""Instances on their way out: the host is given back, then the cluster forgets it. Every step looks at what is left to do.

Between two steps everything is known from the cluster and the host, so that the next process goes on where one was killed.
"""

from datetime import UTC
from typing import Any, Final, Literal

import structlog

from transom.apply.target import Target
from transom.controllers.hosts.services import HostServices
from transom.controllers.instance import joined_nodes, status
from transom.controllers.instance.joined_nodes import unmark
from transom.controllers.instance.view import InstanceView, managed_message, regarding_of
from transom.controllers.instance.writes import Uids, has_finalizer
from transom.controllers.join.bootstrap_tokens import BootstrapTokens
from transom.controllers.rollout.drain import Drain
from transom.controllers.runtime.base_removal import LEAVE_HOST
from transom.controllers.runtime.cached import ORIGIN, ORIGIN_UID, SOURCE, CachedInstance, HostNode
from transom.controllers.runtime.conditions import Condition, moment
from transom.controllers.runtime.controller import Leadership, Result
from transom.controllers.runtime.informers import CLUSTER_MACHINES, MACHINES, place_of
from transom.hosts.errors import ManagedByOther
from transom.hosts.passes import removal as hosts
from transom.hosts.passes.removal import Removed
from transom.kube import Conflict, NotFound
from transom.kube.resources import NODES, Resource
from transom.kube.versions import served
from transom.proxy.settings import Egress
from transom.windows.nodes import WindowsInstance, private_key
from transom.windows.nodes.inventory import ignored

_log: Final = structlog.get_logger("transom.hosts")


class Removal:
    """The way out of the instances of one lifecycle."""

    def __init__(self, on: HostServices, tokens: BootstrapTokens | None) -> None:
        """`tokens`: where hosts are joined, their nodes are drained and go as well."""
        self._on, self._tokens = on, tokens
        self._begun = Uids(on.informers.windows_instances)
        """Instances whose removal this process has begun."""

    async def step(self, case: InstanceView, leadership: Leadership) -> Result:
        """Do what is to be done next about an instance that is being deleted. Raises ApiError."""
        if not has_finalizer(case.cached) or self._on.finalizers.was_taken(case.cached):
            return Result()
        if (why := await self._on.finalizers.all_go(leadership)) is not None:
            return await self._leave(case, why, leadership)
        if (why := await self._why_left(case, leadership)) is not None:
            return await self._leave(case, why, leadership)
        machine = await self._machine(case.cached, leadership)
        if machine == "ignored":
            return await self._leave(case, "its Machine is to be ignored", leadership)
        if machine == "gone":
            return await self._forget(case, "its host goes with its Machine", leadership, machine=False)
        if case.cached.fields.get("paused"):
            message = f"spec.paused is set: the host is given back once it is not, or left with annotation {LEAVE_HOST}"
            await self._on.status.write(case, {"Configured": Condition("Unknown", "Paused", message)}, {}, leadership)
            return Result()
        self._tell(case.cached, leadership)
        if self._tokens is not None and (waiting := await self._drain(case, leadership)) is not None:
            return waiting
        return await self._give_back(case, leadership, machine=machine == "there")

    def _tell(self, cached: CachedInstance, leadership: Leadership) -> None:
        """Say once that it begins. The status may be of a pass that was under way when the instance was deleted."""
        if cached in self._begun:
            return
        self._begun.add(cached)
        if cached.reason("Configured") not in ("Draining", "Removing"):
            leadership.recorder.normal(regarding_of(cached), "Removing", "the instance is deleted: its host is given back")

    async def release(self, case: InstanceView, leadership: Leadership) -> Result:
        """Take the finalizer off an instance whose namespace goes, before it is deleted itself. Raises ApiError."""
        if not has_finalizer(case.cached) or self._on.finalizers.was_taken(case.cached):
            return Result()
        return await self._leave(case, f"namespace {case.cached.metadata.namespace} is being deleted", leadership)

    # --- whose the host is

    async def _why_left(self, case: InstanceView, leadership: Leadership) -> str | None:
        """Why the host stays as it is; None where it is to be given back."""
        cached = case.cached
        if (cached.metadata.annotations or {}).get(LEAVE_HOST) == "true":
            return f"annotation {LEAVE_HOST} says so"
        if case.managed is not None:
            return managed_message(case.managed)
        for other in self._on.informers.windows_instances.snapshot().by("place", place_of(cached)):
            lives = other.metadata.deletion_timestamp is None and other.metadata.uid != cached.metadata.uid
            if lives and _lifecycle(other) in (_lifecycle(cached), "Node"):
                return f"it is the host of WindowsInstance {other.metadata.name}, too"
        return None

    async def _machine(self, cached: CachedInstance, leadership: Leadership) -> Literal["there", "gone", "ignored"] | None:
        """What has become of the Machine that the instance came from; None where it came from none."""
        kinds: dict[str, Resource[Any]] = {"Node Machine": MACHINES, "Egress ClusterMachine": CLUSTER_MACHINES}
        annotations = cached.metadata.annotations or {}
        kind = kinds.get(f"{_lifecycle(cached)} {(cached.metadata.labels or {}).get(SOURCE)}")
        namespace, _, name = annotations.get(ORIGIN, "").partition("/")
        if kind is None or not name:
            return None
        try:
            found = await leadership.client.get(await served(leadership.client.get_json, kind), name, namespace)
        except NotFound:
            return "gone"
        meta = found.metadata
        if meta.deletion_timestamp is not None or meta.uid != annotations.get(ORIGIN_UID):
            return "gone"
        return "ignored" if ignored(meta.labels or {}, meta.annotations or {}) else "there"

    # --- the steps

    async def _drain(self, case: InstanceView, leadership: Leadership) -> Result | None:
        """A step of the drain; None where there is nothing to drain. Pods of a kubelet that is silent end with the Node.

        Nobody's budget is passed over, however long that lasts: people are told what holds it.
        """
        node = case.node
        if node is None or node.ready is None or node.ready.status != "True":
            return None
        pace = self._on.pace
        progress = await self._drain_of(case, node, leadership).step()
        if progress.done:
            return None
        message = f"Node {node.metadata.name} is drained: {progress}"
        reason = "DrainBlocked" if progress.overdue else "Draining"
        await self._on.status.write(case, {"Configured": Condition("False", reason, message)}, {}, leadership)
        return Result(again=pace.unready if progress.overdue else pace.drain_step)

    def _drain_of(self, case: InstanceView, node: HostNode, leadership: Leadership) -> Drain:
        return Drain(
            node.metadata.name,
            node.metadata.uid or "",
            "removal",
            leadership,
            regarding_of(case.cached),
            self._on.now,
            self._on.pace.drain,
        )

    async def _give_back(self, case: InstanceView, leadership: Leadership, *, machine: bool) -> Result:
        found = await self._on_host(case, leadership)
        if isinstance(found, str):
            await self._on.status.write(case, {"Configured": Condition("False", "Removing", found)}, {}, leadership)
            if self._lasted(case.cached.metadata.deletion_timestamp) < self._on.pace.gone:
                return Result(again=self._on.pace.unready)
            return await self._give_up(case, found, leadership, machine=machine)
        self._on.observe(found)
        if isinstance(found.error, ManagedByOther):
            return await self._leave(case, str(found.error), leadership)
        if found.error is None:
            if found.remains:
                left = f"on {case.cached.fields.get('address')} could not be removed: {', '.join(found.remains)}"
                await self._warn(case, left, leadership)
            what = status.summary(found.plan, found.restarted) if found.plan else "there was nothing of Transom's on it"
            return await self._forget(case, f"its host was given back: {what}", leadership, machine=machine)
        conditions = status.after_pass(Egress(), found)
        said = {"Reachable": conditions["Reachable"], "Configured": conditions["Configured"]}
        await self._on.status.write(case, said, {}, leadership)
        _log.warning("host not given back", instance=case.cached.metadata.name, error=str(found.error))
        leadership.recorder.warning(regarding_of(case.cached), status.reason_of(found.error), str(found.error))
        if conditions["Reachable"].status == "True":
            return Result(failed=True)
        since = _unreachable_since(case.cached)
        if not case.cached.live.os_version or (since is not None and self._lasted(since) >= self._on.pace.gone):
            return await self._give_up(case, str(found.error), leadership, machine=machine)
        return Result(again=min(self._on.pace.unready, self._on.pace.gone))

    async def _on_host(self, case: InstanceView, leadership: Leadership) -> Removed | str:
        """The pass on the host; why there can be none."""
        if case.instance is None:
            return "; ".join(f"{one.field}: {one.message}" for one in case.errors)
        if case.missing_key is not None:
            return case.missing_key
        target = case.target or self._target(case.instance)
        message = f"{target.instance.spec.address}: what Transom made goes, and what it replaced comes back"
        await self._on.status.write(case, {"Configured": Condition("False", "Removing", message)}, {}, leadership)
        on = self._on.session(case, target, leadership)
        payload = self._tokens is not None
        found = await hosts.remove(target.access, on.host_keys, on.settings, check=on.check, payload=payload)
        leadership.permit()
        return found

    def _target(self, instance: WindowsInstance) -> Target:
        """What is left to do needs no valid settings."""
        key = private_key(instance, self._on.informers.instance_objects(instance))
        return Target(instance, Egress(), key)

    async def _give_up(self, case: InstanceView, why: str, leadership: Leadership, *, machine: bool) -> Result:
        """The host does not come back: the cluster forgets it, and people are told what is still there."""
        spared = "proxy, trust, services and files" if self._tokens is not None else "proxy and trust"
        left = f"{case.cached.fields.get('address')} was not given back ({why}); Transom's {spared} are still on it"
        await self._warn(case, left, leadership)
        return await self._forget(case, "the cluster's side is done", leadership, machine=machine)

    async def _warn(self, case: InstanceView, message: str, leadership: Leadership) -> None:
        """Say what stays on a host: for as long as others keep the instance, its condition says so, too."""
        await self._on.status.write(case, {"Configured": Condition("False", "RemovalIncomplete", message)}, {}, leadership)
        _log.warning("removal incomplete", instance=case.cached.metadata.name, message=message)
        leadership.recorder.warning(regarding_of(case.cached), "RemovalIncomplete", message)

    async def _leave(self, case: InstanceView, why: str, leadership: Leadership) -> Result:
        """The host stays as it is."""
        _log.info("host left as it is", instance=case.cached.metadata.name, reason=why)
        if not self._on.finalizers.namespace_goes:
            leadership.recorder.normal(regarding_of(case.cached), "HostLeft", f"the host is left as it is: {why}")
        await self._uncordon(case, leadership)
        if self._tokens is not None and case.node is not None and not case.node.managed_by_other:
            await unmark(case.cached, case.node, leadership)
        await self._on.finalizers.take(self._on.cases.current(case).cached, leadership)
        return Result()

    async def _uncordon(self, case: InstanceView, leadership: Leadership) -> None:
        """A Node that stays takes pods again, where it was cordoned here, be it a moment ago."""
        if self._tokens is not None and case.node is not None:
            await self._drain_of(case, case.node, leadership).uncordon()
            await joined_nodes.let_in(case.node, leadership)

    async def _forget(self, case: InstanceView, why: str, leadership: Leadership, *, machine: bool) -> Result:
        """The cluster's side, and the end."""
        if self._tokens is not None:
            if machine or not await self._remove_node(case, leadership):
                await self._uncordon(case, leadership)
            await self._tokens.forget(case.cached, leadership)
        await self._on.finalizers.take(self._on.cases.current(case).cached, leadership)
        _log.info("instance removed", instance=case.cached.metadata.name, reason=why)
        leadership.recorder.normal(regarding_of(case.cached), "Removed", why)
        return Result()

    async def _remove_node(self, case: InstanceView, leadership: Leadership) -> bool:
        """Whether the Node that the host was is gone: the recorded one, by its UID. One that Transom did not join stays."""
        cached, node = case.cached, case.node
        if node is None:
            return True
        name = node.metadata.name
        if case.identity.proof != "Certificate" and not cached.live.payload_version:
            message = f"Node {name} was there before Transom had made this host a node: it is not deleted"
            leadership.recorder.warning(regarding_of(cached), "NodeLeft", message)
            return False
        try:
            await leadership.client.delete(NODES, name, uid=node.metadata.uid)
        except (NotFound, Conflict):
            return True
        leadership.recorder.normal(regarding_of(cached), "NodeRemoved", f"Node {name} was this host's")
        return True

    def _lasted(self, since: str | None) -> float:
        """Seconds since a time of the API server's."""
        begun = moment(since)
        return (self._on.now().astimezone(UTC) - begun).total_seconds() if begun else 0.0


def _lifecycle(cached: CachedInstance) -> str:
    return str(cached.fields.get("lifecycle", "Egress"))


def _unreachable_since(cached: CachedInstance) -> str | None:
    reachable = cached.live.condition("Reachable")
    return reachable.last_transition_time or None if reachable.status != "True" else None
