"""Deletion of instances: restores the host, then deletes its objects. Every step determines what is left to do.

Between two steps, cluster and host hold the whole state, so that the next process continues where one was killed.
"""

from datetime import UTC
from typing import Any, Final, Literal

import structlog

from transom.apply.target import Target
from transom.common.timestamps import parse_timestamp
from transom.controllers.hosts.services import HostServices
from transom.controllers.instance_state import joined_nodes, status
from transom.controllers.instance_state.instance_writes import InstanceUids, has_finalizer
from transom.controllers.instance_state.joined_nodes import remove_annotations
from transom.controllers.instance_state.view import InstanceView, format_managed_message, to_regarding
from transom.controllers.join.bootstrap_tokens import BootstrapTokens
from transom.controllers.rollout.drain import Drain
from transom.controllers.runtime.base_removal import LEAVE_HOST
from transom.controllers.runtime.cached_objects import ORIGIN, ORIGIN_UID, SOURCE, CachedInstance, HostNode
from transom.controllers.runtime.conditions import Condition
from transom.controllers.runtime.controller import Leadership, Result
from transom.controllers.runtime.informers import CLUSTER_MACHINES, MACHINES, get_address_index
from transom.hosts.errors import ManagedByOther
from transom.hosts.passes import removal as hosts
from transom.hosts.passes.removal import RemovalResult
from transom.kube.api_versions import resolve_api_version
from transom.kube.errors import Conflict, NotFound
from transom.kube.resources import NODES, Resource
from transom.proxy.settings import Egress
from transom.windows.nodes.inventory import is_ignored
from transom.windows.nodes.windows_instance import WindowsInstance, read_private_key

_log: Final = structlog.get_logger("transom.hosts")


class HostRemoval:
    """The removal of the instances of one lifecycle."""

    def __init__(self, services: HostServices, tokens: BootstrapTokens | None) -> None:
        """`tokens`: where hosts are joined, their nodes are drained and go as well."""
        self._on, self._tokens = services, tokens
        self._begun = InstanceUids(services.informers.windows_instances)
        """Instances whose removal this process has begun."""

    async def run_step(self, view: InstanceView, leadership: Leadership) -> Result:
        """Run the next step for an instance that is being deleted. Raises ApiError."""
        if not has_finalizer(view.cached) or self._on.finalizers.was_removed(view.cached):
            return Result()
        if (why := await self._on.finalizers.find_deleted_parent(leadership)) is not None:
            return await self._skip_restore(view, why, leadership)
        if (why := await self._explain_skipped_restore(view, leadership)) is not None:
            return await self._skip_restore(view, why, leadership)
        machine = await self._get_machine_state(view.cached, leadership)
        if machine == "ignored":
            return await self._skip_restore(view, "its Machine is marked as ignored", leadership)
        if machine == "gone":
            return await self._delete_objects(view, "its host goes with its Machine", leadership, has_machine=False)
        if view.cached.spec_fields.get("paused"):
            message = f"spec.paused is set: the host is restored after `transom resume`, or left with annotation {LEAVE_HOST}"
            await self._on.status.write(view, {"Configured": Condition("Unknown", "Paused", message)}, {}, leadership)
            return Result()
        self._tell(view.cached, leadership)
        if self._tokens is not None and (waiting := await self._drain(view, leadership)) is not None:
            return waiting
        return await self._restore_host(view, leadership, has_machine=machine == "there")

    def _tell(self, cached: CachedInstance, leadership: Leadership) -> None:
        """Say once that it begins. The status may be of a pass that was under way when the instance was deleted."""
        if cached in self._begun:
            return
        self._begun.add(cached)
        if cached.get_reason("Configured") not in ("Draining", "Removing"):
            leadership.recorder.record_normal(
                to_regarding(cached), "Removing", "the instance is being deleted, and Transom restores its host"
            )

    async def release_instance(self, view: InstanceView, leadership: Leadership) -> Result:
        """Take the finalizer off an instance whose namespace goes, before it is deleted itself. Raises ApiError."""
        if not has_finalizer(view.cached) or self._on.finalizers.was_removed(view.cached):
            return Result()
        return await self._skip_restore(view, f"namespace {view.cached.metadata.namespace} is being deleted", leadership)

    # --- whose the host is

    async def _explain_skipped_restore(self, view: InstanceView, leadership: Leadership) -> str | None:
        """Return why the host is left unchanged; None if it must be restored."""
        cached = view.cached
        if (cached.metadata.annotations or {}).get(LEAVE_HOST) == "true":
            return f"annotation {LEAVE_HOST} is set"
        if view.managed is not None:
            return format_managed_message(view.managed)
        for other in self._on.informers.windows_instances.take_snapshot().list_by_index("place", get_address_index(cached)):
            lives = other.metadata.deletion_timestamp is None and other.metadata.uid != cached.metadata.uid
            if lives and _get_lifecycle(other) in (_get_lifecycle(cached), "Node"):
                return f"it is the host of WindowsInstance {other.metadata.name}, too"
        return None

    async def _get_machine_state(
        self, cached: CachedInstance, leadership: Leadership
    ) -> Literal["there", "gone", "ignored"] | None:
        """Return the state of the Machine that the instance came from; None if it came from none."""
        kinds: dict[str, Resource[Any]] = {"Node Machine": MACHINES, "Egress ClusterMachine": CLUSTER_MACHINES}
        annotations = cached.metadata.annotations or {}
        kind = kinds.get(f"{_get_lifecycle(cached)} {(cached.metadata.labels or {}).get(SOURCE)}")
        namespace, _, name = annotations.get(ORIGIN, "").partition("/")
        if kind is None or not name:
            return None
        try:
            live_machine = await leadership.client.get(
                await resolve_api_version(leadership.client.get_json, kind), name, namespace
            )
        except NotFound:
            return "gone"
        meta = live_machine.metadata
        if meta.deletion_timestamp is not None or meta.uid != annotations.get(ORIGIN_UID):
            return "gone"
        return "ignored" if is_ignored(meta.labels or {}, meta.annotations or {}) else "there"

    # --- the steps

    async def _drain(self, view: InstanceView, leadership: Leadership) -> Result | None:
        """Run a step of the drain; return None if there is nothing to drain. Pods of a silent kubelet end with the Node.

        PodDisruptionBudgets are always respected; the condition names the one that blocks.
        """
        node = view.node
        if node is None or node.ready is None or node.ready.status != "True":
            return None
        pace = self._on.pace
        progress = await self._create_drain(view, node, leadership).run_step()
        if progress.done:
            return None
        message = f"Node {node.metadata.name} is drained: {progress}"
        reason = "DrainBlocked" if progress.overdue else "Draining"
        await self._on.status.write(view, {"Configured": Condition("False", reason, message)}, {}, leadership)
        return Result(again=pace.unready if progress.overdue else pace.drain_step)

    def _create_drain(self, view: InstanceView, node: HostNode, leadership: Leadership) -> Drain:
        return Drain(
            node.metadata.name,
            node.metadata.uid or "",
            "removal",
            leadership,
            to_regarding(view.cached),
            self._on.now,
            self._on.pace.drain,
        )

    async def _restore_host(self, view: InstanceView, leadership: Leadership, *, has_machine: bool) -> Result:
        outcome = await self._run_removal(view, leadership)
        if isinstance(outcome, str):
            await self._on.status.write(view, {"Configured": Condition("False", "Removing", outcome)}, {}, leadership)
            if self._get_age(view.cached.metadata.deletion_timestamp) < self._on.pace.gone:
                return Result(again=self._on.pace.unready)
            return await self._give_up_restore(view, outcome, leadership, has_machine=has_machine)
        self._on.observe(outcome)
        if isinstance(outcome.error, ManagedByOther):
            return await self._skip_restore(view, str(outcome.error), leadership)
        if outcome.error is None:
            if outcome.remains:
                left = f"on {view.cached.spec_fields.get('address')} could not be removed: {', '.join(outcome.remains)}"
                await self._report_incomplete_removal(view, left, leadership)
            what = (
                status.format_summary(outcome.plan, outcome.restarted)
                if outcome.plan
                else "there was nothing of Transom's on it"
            )
            return await self._delete_objects(view, f"its host was restored: {what}", leadership, has_machine=has_machine)
        conditions = status.build_pass_conditions(Egress(), outcome)
        shown_conditions = {"Reachable": conditions["Reachable"], "Configured": conditions["Configured"]}
        await self._on.status.write(view, shown_conditions, {}, leadership)
        _log.warning("host restore failed", instance=view.cached.metadata.name, error=str(outcome.error))
        leadership.recorder.record_warning(to_regarding(view.cached), status.to_reason(outcome.error), str(outcome.error))
        if conditions["Reachable"].status == "True":
            return Result(failed=True)
        since = _get_unreachable_since(view.cached)
        if not view.cached.live.os_version or (since is not None and self._get_age(since) >= self._on.pace.gone):
            return await self._give_up_restore(view, str(outcome.error), leadership, has_machine=has_machine)
        return Result(again=min(self._on.pace.unready, self._on.pace.gone))

    async def _run_removal(self, view: InstanceView, leadership: Leadership) -> RemovalResult | str:
        """Run the removal on the host. Return its result, or why it cannot run."""
        if view.instance is None:
            return "; ".join(f"{error.field}: {error.message}" for error in view.errors)
        if view.missing_key is not None:
            return view.missing_key
        target = view.target or self._build_target(view.instance)
        message = f"{target.instance.spec.address}: what Transom made goes, and what it replaced comes back"
        await self._on.status.write(view, {"Configured": Condition("False", "Removing", message)}, {}, leadership)
        session = self._on.start_session(view, target, leadership)
        payload = self._tokens is not None
        result = await hosts.restore_host_state(
            target.access, session.host_keys, session.settings, check=session.check_state, payload=payload
        )
        leadership.permit()
        return result

    def _build_target(self, instance: WindowsInstance) -> Target:
        """Return the host without its settings: a removal needs no valid ones."""
        key = read_private_key(instance, self._on.informers.get_instance_objects(instance))
        return Target(instance, Egress(), key)

    async def _give_up_restore(self, view: InstanceView, why: str, leadership: Leadership, *, has_machine: bool) -> Result:
        """Remove the objects of a host that cannot be reached, and report what stays on it."""
        spared = "proxy, trust, services and files" if self._tokens is not None else "proxy and trust"
        left = f"{view.cached.spec_fields.get('address')} was not restored ({why}); Transom's {spared} are still on it"
        await self._report_incomplete_removal(view, left, leadership)
        return await self._delete_objects(view, "the cluster's side is done", leadership, has_machine=has_machine)

    async def _report_incomplete_removal(self, view: InstanceView, message: str, leadership: Leadership) -> None:
        """Report what stays on a host, in an event and, while finalizers of others keep the instance, in its condition."""
        await self._on.status.write(view, {"Configured": Condition("False", "RemovalIncomplete", message)}, {}, leadership)
        _log.warning("removal incomplete", instance=view.cached.metadata.name, message=message)
        leadership.recorder.record_warning(to_regarding(view.cached), "RemovalIncomplete", message)

    async def _skip_restore(self, view: InstanceView, why: str, leadership: Leadership) -> Result:
        """Delete the instance and leave the host unchanged."""
        _log.info("host left unchanged", instance=view.cached.metadata.name, reason=why)
        if not self._on.finalizers.is_namespace_deleted:
            leadership.recorder.record_normal(to_regarding(view.cached), "HostLeft", f"Transom does not change the host: {why}")
        await self._uncordon(view, leadership)
        if self._tokens is not None and view.node is not None and not view.node.is_managed_by_other:
            await remove_annotations(view.cached, view.node, leadership)
        await self._on.finalizers.remove_finalizer(self._on.reader.refresh(view).cached, leadership)
        return Result()

    async def _uncordon(self, view: InstanceView, leadership: Leadership) -> None:
        """Uncordon a Node that stays, if Transom cordoned it."""
        if self._tokens is not None and view.node is not None:
            await self._create_drain(view, view.node, leadership).uncordon()
            await joined_nodes.uncordon_joined_node(view.node, leadership)

    async def _delete_objects(self, view: InstanceView, why: str, leadership: Leadership, *, has_machine: bool) -> Result:
        """Delete the Node and the tokens, then remove the finalizer."""
        if self._tokens is not None:
            if has_machine or not await self._remove_node(view, leadership):
                await self._uncordon(view, leadership)
            await self._tokens.revoke(view.cached, leadership)
        await self._on.finalizers.remove_finalizer(self._on.reader.refresh(view).cached, leadership)
        _log.info("instance removed", instance=view.cached.metadata.name, reason=why)
        leadership.recorder.record_normal(to_regarding(view.cached), "Removed", why)
        return Result()

    async def _remove_node(self, view: InstanceView, leadership: Leadership) -> bool:
        """Delete the recorded Node by its UID, unless Transom did not join it. Return True if it is gone."""
        cached, node = view.cached, view.node
        if node is None:
            return True
        name = node.metadata.name
        if view.identity.proof != "Certificate" and not cached.live.payload_version:
            message = f"Node {name} existed before Transom made this host a node: it is not deleted"
            leadership.recorder.record_warning(to_regarding(cached), "NodeLeft", message)
            return False
        try:
            await leadership.client.delete(NODES, name, uid=node.metadata.uid)
        except (NotFound, Conflict):
            return True
        leadership.recorder.record_normal(to_regarding(cached), "NodeRemoved", f"Transom deleted Node {name} of this host")
        return True

    def _get_age(self, since: str | None) -> float:
        """Seconds since a time of the API server's."""
        start = parse_timestamp(since)
        return (self._on.now().astimezone(UTC) - start).total_seconds() if start else 0.0


def _get_lifecycle(cached: CachedInstance) -> str:
    return str(cached.spec_fields.get("lifecycle", "Egress"))


def _get_unreachable_since(cached: CachedInstance) -> str | None:
    reachable = cached.live.get_condition("Reachable")
    return reachable.last_transition_time or None if reachable.status != "True" else None
