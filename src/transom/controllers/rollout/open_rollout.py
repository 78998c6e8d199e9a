"""One open rollout of the operator: its queue, the heartbeats that it waits for, and unrecorded results."""

import time
from collections.abc import Callable
from datetime import datetime
from typing import Final

from transom.controllers.rollout.rollout_kind import RolloutKind
from transom.rollout.markers import InFlight, ProgressMarker
from transom.rollout.queue import RolloutQueue
from transom.rollout.state import HostResult, Rollout

LOCK_PATIENCE: Final = 1800.0
"""Seconds for which a host in progress keeps its turn while another process holds it: longer than a pass can last."""


class OpenRollout:
    """One rollout. A pass keeps the one that it was given, and reports to that one."""

    def __init__(
        self, kind: RolloutKind, fingerprint: str, name: str | None, state: Rollout, on_change: Callable[[], None]
    ) -> None:
        self.queue = RolloutQueue(state)
        self.kind, self.fingerprint = kind, fingerprint
        self.name = name
        """A keyed hash by which the next process recognizes it; None: no other process knows it."""
        self.unresolved = set(state.failed) if kind.prepared else {*state.in_progress, *state.failed}
        """Hosts on which the change was started and that have not passed: their state shows how the change works."""
        self.heartbeats: dict[str, datetime] = {}
        """The heartbeats of hosts from before their kubelets were restarted, until a later one is observed."""
        self._unrecorded = set(state.in_progress)
        """Hosts that were started, and whose status does not have the result yet."""
        self._locked_since: dict[str, float] = {}
        """Since when hosts in progress have been held by another process (time.monotonic)."""
        self._on_change = on_change

    @property
    def state(self) -> Rollout:
        """The state of the rollout."""
        return self.queue.state

    @property
    def change_id(self) -> str:
        """The change's key in the record of hosts in progress; empty if no other process knows the change."""
        return build_change_id(self.kind.name, self.name)

    @property
    def has_unrecorded_hosts(self) -> bool:
        """Whether hosts were started whose results only this process knows."""
        return bool(self._unrecorded or self.state.in_progress)

    def record_result(self, host: str, result: HostResult) -> None:
        """Record the result of a host, requeue the hosts whose turn it is, and report the change of state."""
        if result == "refuted" and not self.kind.refutable:
            result = "failed"
        self.queue.record_result(host, result)
        if host in self.state.failed:
            self.unresolved.add(host)
        else:
            self.unresolved.discard(host)
        if result == "passed":
            self.heartbeats.pop(host, None)
        self._locked_since.pop(host, None)
        self._on_change()

    def list_in_flight(self, recorded: InFlight) -> InFlight:
        """Return the hosts that the next leader must know: all in a limited stage, later those that are `recorded`."""
        self._unrecorded |= self.state.in_progress
        # a host that was left untouched has nothing of the change
        hosts = (host for host in self._unrecorded if host in self.state.in_progress or self.build_marker(host) is not None)
        return {host: self.heartbeats.get(host) for host in hosts if self.queue.is_in_limited_stage or host in recorded}

    def finish_status_write(self, host: str, recorded: InFlight) -> bool:
        """Note that the status of a host was written. Return True if it has no marker although the host is `recorded`."""
        if host in self.state.in_progress or host not in self._unrecorded:
            return False
        self._unrecorded.discard(host)
        return host in recorded and self.build_marker(host) is None

    def can_keep_turn(self, host: str) -> bool:
        """Return True if a host in progress that another process holds keeps its turn: not longer than a pass can last."""
        now = time.monotonic()
        return now - self._locked_since.setdefault(host, now) < LOCK_PATIENCE and host not in self.state.failed

    def has_no_result(self, host: str) -> bool:
        """Return True if nothing is known of a host, or only that an earlier process started it."""
        return host in self.state.in_progress or not self.state.is_started(host)

    def build_marker(self, host: str) -> ProgressMarker | None:
        """Return the marker for the status of a host; None if there is nothing to record."""
        if self.name is None:
            return None
        state, kind, halted = self.state, self.kind.name, host in self.state.halted_by
        heartbeat = self.heartbeats.get(host)
        if host in state.failed:
            refuted = state.refuted and halted
            return ProgressMarker(kind, self.name, "refuted" if refuted else "failed", halted, heartbeat)
        if state.completed and (host in state.passed or host in state.conforming):
            return ProgressMarker(kind, self.name, "over")
        if host in state.passed:
            return ProgressMarker(kind, self.name, "passed", halted, heartbeat)
        return ProgressMarker(kind, self.name, "begun", halted, heartbeat) if host in state.in_progress else None


def build_change_id(kind: str, name: str | None) -> str:
    """Return the key of a change in the record of hosts in progress; empty for a change without a name."""
    return f"{kind}.{name}" if name is not None else ""
