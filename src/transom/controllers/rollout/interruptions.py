"""A Node whose host must be interrupted: it waits for its turn, is drained, changed, and uncordoned.

The Node holds the progress of an interruption (`drain`), so that the next process continues it. This module keeps
only why a host is left alone for a while, and which kubelets must report.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final, Literal

import msgspec

from transom.apply.target import Target
from transom.controllers.instance_state.view import to_regarding
from transom.controllers.rollout import heartbeats
from transom.controllers.rollout.drain import Drain
from transom.controllers.rollout.host_rollout import HostRollout
from transom.controllers.rollout.open_rollout import OpenRollout
from transom.controllers.rollout.rollouts import Rollouts
from transom.controllers.rollout.slots import UnavailabilitySlots
from transom.controllers.runtime.cached_objects import CachedInstance, HostNode
from transom.controllers.runtime.conditions import Condition
from transom.controllers.runtime.controller import Leadership
from transom.controllers.runtime.options import HostTimings
from transom.hosts.errors import PutBack
from transom.hosts.passes.base_pass import PassResult
from transom.kube.store import ObjectKey
from transom.rollout.queue import format_halt_message

Purpose = Literal["upgrade", "reboot"]
_DOUBLED: Final = 16
_LONGEST: Final = 86_400.0
"""The maximum number of seconds after which a reverted version is tried again."""
_REASONS: Final = {"upgrade": "UpgradePending", "reboot": "RebootRequired"}


class PendingInterruption(msgspec.Struct, frozen=True):
    """An interruption that has not come to the work on the host. `draining`: nothing else is done to it meanwhile."""

    condition: Condition
    again: float
    draining: bool = False


class _PausedHost(msgspec.Struct, frozen=True):
    """A host that is left alone for a while, and why; another rollout of payloads than `upgrade` ends that."""

    until: datetime
    condition: Condition
    upgrade: OpenRollout | None


class Interruptions:
    """Called before and after work on a host with a Node."""

    def __init__(
        self,
        slots: UnavailabilitySlots,
        settings: Rollouts,
        upgrades: Rollouts,
        host_rollout: HostRollout,
        pace: HostTimings,
        hold: float,
        now: Callable[[], datetime],
    ) -> None:
        """Create it; a host that makes no progress within `hold` seconds returns its slot."""
        self._slots, self._settings, self._upgrades, self._host_rollout = slots, settings, upgrades, host_rollout
        self._pace, self._hold, self._now = pace, hold, now
        self._left: dict[ObjectKey, _PausedHost] = {}
        self._tries: dict[ObjectKey, int] = {}
        """The number of consecutive times that the former version of a host was restored."""
        self._met: set[ObjectKey] = set()
        """Hosts that this process has thought of upgrading."""
        self._failing: dict[ObjectKey, datetime] = {}
        """Since when the work on an empty Node's host fails."""
        self._restarted: dict[ObjectKey, tuple[datetime, datetime | None]] = {}
        """Since when the kubelet has to be heard of, and what it had last said before, by the clock of its host."""
        self._turns: dict[ObjectKey, OpenRollout] = {}
        """By which rollout of a payload a host is interrupted."""

    async def prepare(
        self,
        cached: CachedInstance,
        target: Target,
        node: HostNode,
        purpose: Purpose,
        why: str,
        leadership: Leadership,
    ) -> PendingInterruption | None:
        """Prepare the Node for work on its host. None: it is ready. `why` is the reason. Raises ApiError."""
        key = cached.key
        settings = await self._host_rollout.open_rollout(self._settings, target, leadership)
        upgrade = None
        if purpose == "upgrade":
            upgrade = await self._host_rollout.open_rollout(self._upgrades, target, leadership)
        if (left := self._get_paused_host(key, upgrade)) is not None:
            remaining = (left.until - self._now()).total_seconds()
            return PendingInterruption(left.condition, min(remaining, self._pace.check_interval))
        if upgrade is not None:
            known = key in self._met
            self._met.add(key)
            if not known and cached.get_reason("Configured") == PutBack.__name__ and key.name in upgrade.state.failed:
                # an earlier process has tried it, and may not have come to giving the Node back
                condition = Condition("False", PutBack.__name__, cached.get_message("Configured"))
                self._pause_host(key, self._compute_retry_delay(key), condition, upgrade)
                return PendingInterruption(condition, self._pace.drain_step, draining=True)
        # one that was left as it was, for instance out of reach once it was empty, has no turn any more
        is_started = upgrade is None or (self._turns.get(key) is upgrade and upgrade.state.is_started(key.name))
        if node.cordoned_for is None or not is_started or not self._slots.has(key):
            if node.cordoned_for is None:
                pending = self._find_wait_reason(cached, settings, upgrade, purpose, why)
            else:
                pending = await self._find_drained_wait_reason(cached, node, upgrade, purpose, why, leadership)
            if pending is not None:
                return pending
            self._slots.take(cached)
            if upgrade is not None:
                upgrade.queue.resume(key.name)
                await self._host_rollout.record_in_flight(upgrade, leadership)
        if upgrade is not None:
            self._turns[key] = upgrade
        drain = self._create_drain(cached, node, purpose, leadership)
        failing = self._failing.get(key)
        if failing is not None and (self._now() - failing).total_seconds() >= self._hold:
            message = f"{why}: not done in {self._hold / 60:.0f} min, see the last pass. Node {drain.node} accepts pods again"
            return await self._give_up(cached, drain, Condition("False", _REASONS[purpose], message))
        progress = await drain.run_step()
        if progress.done:
            return None
        if progress.overdue:
            message = f"{why}: Node {drain.node} cannot be drained, and accepts pods again: {progress}"
            return await self._give_up(cached, drain, Condition("False", "DrainBlocked", message))
        return PendingInterruption(Condition("False", "Draining", f"{why}; {progress}"), self._pace.drain_step, draining=True)

    async def admit_unavailable_node(
        self, cached: CachedInstance, target: Target, why: str, leadership: Leadership
    ) -> PendingInterruption | None:
        """Return None if a host whose Node is not Ready may get another version now, else what it waits for.

        It is already unavailable: it needs no slot, and cannot be drained. Raises ApiError.
        """
        key = cached.key
        upgrade = await self._host_rollout.open_rollout(self._upgrades, target, leadership)
        if (left := self._get_paused_host(key, upgrade)) is not None:
            return PendingInterruption(left.condition, self._pace.unready)
        if self._host_rollout.try_admit(upgrade, key):
            self._turns[key] = upgrade
            await self._host_rollout.record_in_flight(upgrade, leadership)
            return None
        if (halted := upgrade.queue.get_halt_reason(key.name)) is not None:
            return PendingInterruption(Condition("False", "RolloutHalted", f"{why}: {halted}"), self._pace.unready)
        waits = Condition("False", _REASONS["upgrade"], f"{why}; it waits for the result of the first hosts")
        return PendingInterruption(waits, self._pace.unready)

    def _find_wait_reason(
        self, cached: CachedInstance, settings: OpenRollout, upgrade: OpenRollout | None, purpose: Purpose, why: str
    ) -> PendingInterruption | None:
        """Why the Node may not be cordoned yet; None where it may, and is about to be."""
        key, reason = cached.key, _REASONS[purpose]
        halted = format_halt_message(settings.state) if settings.queue.halted else None
        halted = halted or (upgrade.queue.get_halt_reason(key.name) if upgrade is not None else None)
        if halted is not None:
            return PendingInterruption(Condition("False", "RolloutHalted", f"{why}: {halted}"), self._pace.check_interval)
        if key.name in settings.state.failed:
            # what goes wrong by the settings must not count against a version
            return PendingInterruption(
                Condition("False", reason, f"{why}; it waits until the host is healthy with its settings"), self._pace.unready
            )
        if (full := self._slots.find_wait_reason(cached)) is not None:
            return PendingInterruption(Condition("False", reason, f"{why}; it {full}"), self._pace.unready)
        if upgrade is not None and not self._host_rollout.try_admit(upgrade, key):
            message = f"{why}; it waits for the result of the first hosts"
            return PendingInterruption(Condition("False", reason, message), self._pace.check_interval)
        return None

    async def _find_drained_wait_reason(
        self,
        cached: CachedInstance,
        node: HostNode,
        upgrade: OpenRollout | None,
        purpose: Purpose,
        why: str,
        leadership: Leadership,
    ) -> PendingInterruption | None:
        """Find the same for a Node that was cordoned for another version, or by another process."""
        if upgrade is None or self._host_rollout.try_admit(upgrade, cached.key):
            return None
        self._slots.take(cached)
        if (halted := upgrade.queue.get_halt_reason(cached.metadata.name)) is not None:
            condition = Condition("False", "RolloutHalted", f"{why}: {halted}")
            return await self._give_up(cached, self._create_drain(cached, node, purpose, leadership), condition)
        waits = Condition("False", _REASONS[purpose], f"{why}; it waits for the result of the first hosts")
        return PendingInterruption(waits, self._pace.drain_step, draining=True)

    async def _give_up(self, cached: CachedInstance, drain: Drain, condition: Condition) -> PendingInterruption:
        await drain.uncordon()
        key = cached.key
        self._pause_host(key, self._pace.drain, condition, self._turns.get(key))
        self._failing.pop(key, None)
        self._slots.release(key)
        self._upgrades.release_host(key.name)
        return PendingInterruption(condition, self._pace.drain)

    def _pause_host(self, key: ObjectKey, seconds: float, condition: Condition, upgrade: OpenRollout | None) -> None:
        self._left[key] = _PausedHost(self._now() + timedelta(seconds=seconds), condition, upgrade)

    def _get_paused_host(self, key: ObjectKey, upgrade: OpenRollout | None) -> _PausedHost | None:
        """Return the record of a host that is left alone. Another payload, or a person's request to resume, starts a new
        rollout.
        """
        left = self._left.get(key)
        if left is None:
            return None
        other = (
            upgrade is not None and not upgrade.queue.superseded and left.upgrade is not None and left.upgrade is not upgrade
        )
        if other or self._now() >= left.until:
            del self._left[key]
            if other:
                self._tries.pop(key, None)
            return None
        return left

    def _compute_retry_delay(self, key: ObjectKey) -> float:
        """Seconds until a version that did not run is tried again: twice as many each time."""
        tries = self._tries[key] = self._tries.get(key, 0) + 1
        return min(self._pace.check_interval * 2.0 ** min(tries - 1, _DOUBLED), max(_LONGEST, self._pace.check_interval))

    def get_rollout(self, key: ObjectKey) -> OpenRollout | None:
        """Return the rollout of a payload for which a host is interrupted; None if it is for something else."""
        return self._turns.get(key)

    def record_pass(self, cached: CachedInstance, result: PassResult, before: datetime | None) -> None:
        """Record a pass on the host of a drained Node. `before` is its kubelet's last heartbeat then, by its own clock."""
        key = cached.key
        if "kubelet" in map(str.casefold, result.restarted):
            self._restarted[key] = self._now() - timedelta(seconds=result.seconds), before
        if result.error is None:
            self._failing.pop(key, None)
            self._tries.pop(key, None)
            return
        self._failing.setdefault(key, self._now())
        if isinstance(result.error, PutBack):
            # the old version runs: to try once more would end the pods once more
            condition = Condition("False", type(result.error).__name__, str(result.error))
            self._pause_host(key, self._compute_retry_delay(key), condition, self._turns.get(key))

    def record_reboot(self, cached: CachedInstance, before: datetime | None) -> None:
        """Record a requested reboot, after which the kubelet must report. `before` is as in `record_pass`."""
        self._restarted[cached.key] = self._now(), before

    def get_rollback_condition(self, cached: CachedInstance) -> Condition | None:
        """Return the condition of a host whose old version runs again; None if there was no rollback."""
        left = self._left.get(cached.key)
        return left.condition if left is not None and self._now() < left.until else None

    async def uncordon_when_ready(self, cached: CachedInstance, node: HostNode, leadership: Leadership) -> bool:
        """Uncordon the Node once its kubelet says that it is Ready; whether that is so. Raises ApiError."""
        key = cached.key
        _, before = self._restarted.get(key, (None, None))
        if not node.is_ready or (before is not None and not heartbeats.is_newer(node, before)):
            return False
        await self._create_drain(cached, node, "upgrade", leadership).uncordon()
        self.release_node_slot(key)
        return True

    def is_heartbeat_awaited(self, key: ObjectKey) -> bool:
        """Return True if a kubelet was restarted a moment ago and may still report."""
        if key not in self._restarted:
            return False
        since, _ = self._restarted[key]
        if (self._now() - since).total_seconds() < heartbeats.HEARTBEAT_SECONDS:
            return True
        del self._restarted[key]
        return False

    def drop_instance(self, key: ObjectKey) -> None:
        """Forget an instance that is being deleted."""
        self.end_interruption(key)
        self._left.pop(key, None)
        self._tries.pop(key, None)
        self._met.discard(key)

    def end_interruption(self, key: ObjectKey) -> None:
        """End an interruption without a Node: no result is awaited any more."""
        self.release_node_slot(key)
        self._upgrades.release_host(key.name)

    def release_node_slot(self, key: ObjectKey) -> None:
        """Release the slot of a Node that accepts pods or does not exist."""
        self._restarted.pop(key, None)
        self._failing.pop(key, None)
        self._turns.pop(key, None)
        self._slots.release(key)

    def _create_drain(self, cached: CachedInstance, node: HostNode, purpose: Purpose, leadership: Leadership) -> Drain:
        return Drain(
            node.metadata.name, node.metadata.uid or "", purpose, leadership, to_regarding(cached), self._now, self._pace.drain
        )
