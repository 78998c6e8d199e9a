"""The part of one controller's hosts in rollouts: admit a host to a change, report what became of it, forget it."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import structlog

from transom.apply.roll_out import judge_result
from transom.apply.target import Target
from transom.controllers.instance_state.view import InstanceView
from transom.controllers.rollout.heartbeats import Heartbeats
from transom.controllers.rollout.in_flight_hosts import InFlightHosts
from transom.controllers.rollout.open_rollout import OpenRollout
from transom.controllers.rollout.rollouts import Rollouts
from transom.controllers.runtime.cached_objects import HostNode
from transom.controllers.runtime.conditions import Conditions
from transom.controllers.runtime.controller import Leadership
from transom.controllers.runtime.hash_key import HashKey
from transom.hosts.errors import Held, Overtaken, Superseded
from transom.hosts.passes.base_pass import PassResult
from transom.kube.errors import ApiError
from transom.kube.lease import LeaseLost
from transom.kube.queue import KeyQueue, Priority
from transom.kube.store import ObjectKey
from transom.proxy.settings import Egress
from transom.rollout.markers import FIELD, merge_markers

_log: Final = structlog.get_logger("transom.rollout")
_RETRY_SECONDS: Final = 30.0
"""Seconds until a Node without watch events is read again."""
_REPORT_SECONDS: Final = 5.0
"""In which a kubelet mostly reports after a pass: it reports as it starts, while the pass continues."""
WriteStatus = Callable[[InstanceView, Conditions, dict[str, str | None], Leadership], Awaitable[None]]


@dataclass
class HostMemory:
    """What this process remembers of one host from one pass to the next."""

    applied_settings: Egress | None = None
    """The settings that the host has, as far as this process knows: other settings will change it."""
    writes_status: bool = False
    """Whether the pass is about to write the status."""


@dataclass
class PassRecord:
    """What rollouts learn of one pass while it runs, besides its result."""

    change_started: bool = False
    """Whether the pass has started to change the host."""
    heartbeat_before_change: datetime | None = None
    """The last heartbeat of the host's kubelet when the change started; None if there was none."""
    admitted_to: OpenRollout | None = None
    former_heartbeat: datetime | None = None
    """The heartbeat that `admitted_to` waited for before it admitted the host."""


class HostRollout:
    """Answers whether a host may change now, and records what became of it.

    `find_node` returns the current Node of a view, `refresh` the view with its newest status.
    """

    def __init__(
        self,
        heartbeats: Heartbeats,
        queue: KeyQueue[ObjectKey],
        hash_key: HashKey,
        find_node: Callable[[InstanceView], HostNode | None],
        refresh: Callable[[InstanceView], InstanceView],
        write_status: WriteStatus,
        in_flight_hosts: InFlightHosts,
    ) -> None:
        self._heartbeats, self._queue, self._hash_key, self._in_flight = heartbeats, queue, hash_key, in_flight_hosts
        self._find_node, self._refresh, self._write_status = find_node, refresh, write_status
        self.rollouts: list[Rollouts] = []
        """The rollouts of each kind that a host of this controller takes part in."""
        self._memory: dict[ObjectKey, HostMemory] = {}
        self._pending: dict[tuple[ObjectKey, OpenRollout], asyncio.Task[None]] = {}

    # --- may this host change now?

    async def admit(
        self, rollout: OpenRollout, view: InstanceView, target: Target, record: PassRecord, leadership: Leadership
    ) -> bool:
        """Return True if the host may change now; the next leader then knows that it was started. Raises ApiError."""
        key, name = view.cached.key, target.instance.name
        unresolved = name in rollout.unresolved
        if not self.try_admit(rollout, key):
            return False
        try:
            if (heartbeat := self.find_newest_heartbeat(view)) is not None:
                record.admitted_to, record.former_heartbeat = rollout, rollout.heartbeats.get(name)
                rollout.heartbeats[name] = heartbeat
            if rollout.queue.is_in_limited_stage:
                await self._in_flight.record_hosts(leadership)
                leadership.permit()
        except BaseException:
            if not unresolved:
                rollout.record_result(name, "untouched")
            raise
        if rollout.queue.superseded and not unresolved:
            rollout.record_result(name, "untouched")
            return False
        return True

    def try_admit(self, rollout: OpenRollout, key: ObjectKey) -> bool:
        """Return True if it is the host's turn; otherwise the host waits and is requeued."""
        return rollout.queue.admit(key.name, lambda: self.requeue(key))

    async def record_in_flight(self, rollout: OpenRollout, leadership: Leadership) -> None:
        """Record the hosts in progress for the next leader, in a stage in which each host counts. Raises ApiError."""
        if rollout.queue.is_in_limited_stage:
            await self._in_flight.record_hosts(leadership)

    def requeue(self, key: ObjectKey) -> None:
        """Make a host that waited come again: behind those of the first tenth, before those that must wait."""
        self._queue.add(key, Priority.TURN)

    async def open_rollout(self, rollouts: Rollouts, target: Target, leadership: Leadership) -> OpenRollout:
        """Return the rollout of a target's change. Raises ApiError."""
        return await rollouts.get_or_open(target, lambda text: self._hash_key.compute_hash(text, leadership))

    # --- what became of it?

    def report_pass(
        self,
        rollout: OpenRollout,
        view: InstanceView,
        target: Target,
        result: PassResult,
        record: PassRecord,
        leadership: Leadership,
    ) -> None:
        """Report a pass to a rollout. A host passes once its kubelet reports again after it was restarted."""
        key, name = view.cached.key, target.instance.name
        refused = isinstance(result.error, Held | Overtaken | Superseded)
        if refused or not record.change_started:
            _restore_heartbeat(rollout, name, record)
        # the change was begun, by this process or another one, and the host has it now
        unresolved = name in rollout.unresolved or (name in rollout.state.in_progress and result.error is None)
        outcome = judge_result(target.egress, result, was_started=unresolved)
        if outcome == "untouched" and (unresolved or (refused and rollout.kind.prepared)):
            # an earlier pass has begun the change and may still be at it, and this one could not read the host
            if rollout.can_keep_turn(name):
                rollout.queue.finish_read(name)
                return
            outcome = "failed" if unresolved else "untouched"
        if outcome == "passed" and result.begun:
            restarted = "kubelet" in map(str.casefold, result.restarted)
            if not restarted:
                rollout.heartbeats.pop(name, None)
            elif record.heartbeat_before_change is not None:
                rollout.heartbeats[name] = record.heartbeat_before_change
        heartbeat, node = rollout.heartbeats.get(name), self._find_node(view)
        was_silent = heartbeat is None and node is not None and not node.is_ready
        if outcome == "passed" and was_silent and name not in rollout.state.failed:
            # the kubelet did not report before the change either: the host proves nothing for others
            outcome = "conforming"
        if outcome != "passed" or heartbeat is None or node is None:
            rollout.record_result(name, outcome)
            return
        rollout.unresolved.add(name)
        rollout.queue.finish_read(name)
        if (key, rollout) not in self._pending:
            waiting = self._wait_for_heartbeat(rollout, view, target, node.metadata.name, heartbeat, leadership)
            task = self._pending[key, rollout] = asyncio.create_task(waiting)
            task.add_done_callback(lambda _: self._pending.pop((key, rollout), None))

    def report_conforming(
        self,
        rollout: OpenRollout,
        view: InstanceView,
        target: Target,
        result: PassResult,
        record: PassRecord,
        leadership: Leadership,
    ) -> None:
        """Report a host that already was as the change asks, which proves nothing for others.

        A host that was started and has no result yet, or that has failed with the change, is reported as usual.
        """
        name = target.instance.name
        if name in rollout.unresolved or name in rollout.state.in_progress:
            self.report_pass(rollout, view, target, result, record, leadership)
        else:
            rollout.record_result(name, "conforming")

    async def finish_status_write(self, key: ObjectKey, leadership: Leadership) -> None:
        """Note that the status of a host was written: an untouched host is in flight no longer. Raises ApiError."""
        finished = [rollouts.finish_status_write(key.name) for rollouts in self.rollouts]
        if any(finished):
            await self._in_flight.record_hosts(leadership)

    def forget(self, key: ObjectKey) -> None:
        """Forget a host whose instance is gone."""
        self._memory.pop(key, None)

    # --- what is known of it?

    def get_memory(self, key: ObjectKey) -> HostMemory:
        """Return what this process remembers of a host."""
        return self._memory.setdefault(key, HostMemory())

    def build_markers(self, view: InstanceView, target: Target) -> str:
        """Return the progress markers for the status of a host, from which the next leader resumes."""
        markers = (rollouts.build_marker(target) for rollouts in self.rollouts)
        return merge_markers(self._refresh(view).cached.live.changes, filter(None, markers))

    def has_failed(self, target: Target) -> bool:
        """Return True if the host has failed with an open change: it is tried again until it passes."""
        rollouts = (kind.find(target) for kind in self.rollouts)
        return any(rollout is not None and target.instance.name in rollout.state.failed for rollout in rollouts)

    def find_newest_heartbeat(self, view: InstanceView) -> datetime | None:
        """Return the last heartbeat of a host's kubelet, by its own clock; None if no healthy kubelet reports."""
        node = self._find_node(view)
        return self._heartbeats.find_newest(node.metadata.name) if node is not None else None

    def record_change(self, record: PassRecord, view: InstanceView) -> None:
        """Record that a pass starts to change the host; call this right before each step that does.

        That is as late as possible before the kubelet stops: a heartbeat from before must not count as one from after.
        """
        if not record.change_started:
            record.change_started, record.heartbeat_before_change = True, self.find_newest_heartbeat(view)

    @property
    def pending_heartbeats(self) -> list[asyncio.Task[None]]:
        """The tasks that wait for a kubelet's heartbeat."""
        return list(self._pending.values())

    async def wait_for_heartbeats(self, view: InstanceView) -> None:
        """Wait a moment for the kubelet of a host that other hosts wait for, before the pass writes the status.

        One write then records both that the host has the change and that its kubelet reports. Other hosts are worked on
        meanwhile: the connection to this one has ended.
        """
        key = view.cached.key
        tasks = [task for (host, rollout), task in self._pending.items() if host == key and rollout.queue.is_in_limited_stage]
        if not tasks:
            return
        memory = self.get_memory(key)
        memory.writes_status = True
        try:
            with self._queue.release_slot():
                await asyncio.wait(tasks, timeout=_REPORT_SECONDS)
        finally:
            memory.writes_status = False

    async def _wait_for_heartbeat(
        self,
        rollout: OpenRollout,
        view: InstanceView,
        target: Target,
        node: str,
        heartbeat: datetime,
        leadership: Leadership,
    ) -> None:
        key, name = view.cached.key, target.instance.name
        try:
            reports = await self._heartbeats.wait_for_newer(node, heartbeat, leadership.client)
            limited, had_failed, completed = (
                rollout.queue.is_in_limited_stage,
                name in rollout.state.failed,
                rollout.state.completed,
            )
            rollout.record_result(name, "passed" if reports else "failed")
            if rollout.queue.superseded:
                return
            if reports == had_failed:
                # the next pass records it in the status; a host that has failed is tried again from then on
                self._queue.add(key, Priority.RETRY)
                return
            is_news = limited or rollout.queue.halted or rollout.state.completed != completed
            if reports and is_news and not self.get_memory(key).writes_status:
                await self._write_status(view, {}, {FIELD: self.build_markers(view, target)}, leadership)
        except ApiError as error:
            _log.warning("heartbeat not read", node=node, error=str(error))
            self._queue.add(key, Priority.RETRY, after=_RETRY_SECONDS)
        except LeaseLost:
            _log.info("heartbeat wait ended", reason="lease lost", instance=name)


def _restore_heartbeat(rollout: OpenRollout, name: str, record: PassRecord) -> None:
    """Restore the heartbeat that the rollout waited for, if the host was admitted and then not changed."""
    if record.admitted_to is not rollout:
        return
    rollout.heartbeats.pop(name, None)
    if record.former_heartbeat is not None:
        rollout.heartbeats[name] = record.former_heartbeat
