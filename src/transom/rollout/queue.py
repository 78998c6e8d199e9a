"""The queue of one rollout: which hosts may be read and changed now, and which wait. `apply` and the operator share it."""

from collections.abc import Callable
from typing import Final

from transom.rollout.state import LIMITED_STAGES, MAX_FAILURES, HostResult, Rollout, Stage

Requeue = Callable[[], None]
"""Makes a host that waited come again."""
READ_SECONDS: Final = 10.0
"""How long other hosts wait for a host that is being read; it may be silent for minutes."""
_REFUTED: Final = "not changed: the rollout stopped at its first host, which has no egress with these settings"


class RolloutQueue:
    """The hosts of one rollout that are read, changed, or wait.

    A pass keeps the queue that admitted it, and reports to that queue alone. A superseded queue admits no host, and what it
    still learns changes only itself.
    """

    def __init__(self, state: Rollout, *, first_alone: bool = False) -> None:
        """With `first_alone` the other hosts wait until one host has been read, so that it is the canary if it differs."""
        self.state = state
        self.superseded = False
        self.has_differences = False
        """Whether a host has been found that must be changed: the others probably must be, too."""
        self._has_looked = not first_alone
        self._reading: set[str] = set()
        """Hosts that are being read and may turn out to need the change."""
        self._waiting: dict[str, Requeue] = {}
        self._requeued: set[str] = set()
        """Hosts that waited and were requeued."""

    @property
    def stage(self) -> Stage:
        """The stage of the rollout."""
        return self.state.stage

    @property
    def is_in_limited_stage(self) -> bool:
        """Whether the result of each host decides about the others, so that it must not be lost."""
        return self.stage in LIMITED_STAGES and len(self.state.hosts) > 1

    @property
    def halted(self) -> bool:
        """Whether no further host is changed."""
        return self.state.stage == "halted"

    @property
    def is_active(self) -> bool:
        """Whether a host is being changed or waits for its turn."""
        return bool(self.state.in_progress or self._waiting or self._requeued) and not self.superseded

    def request_read(self, host: str, requeue: Requeue, *, is_different: bool = False, is_check_due: bool = False) -> bool:
        """Return True if a host may be read now. If not, it waits and is requeued when it may.

        `is_different`: the host is known to have other settings. `is_check_due`: its periodic check is due, whatever the
        rollout does.
        """
        if self.superseded:
            return False
        self.has_differences |= is_different
        if not self._can_read(host, is_different=is_different, is_check_due=is_check_due):
            self._enqueue(host, requeue)
            return False
        self._reading.add(host)
        return True

    def _can_read(self, host: str, *, is_different: bool, is_check_due: bool) -> bool:
        if not self._has_looked and self._reading:
            return False
        if not self.has_differences or self.state.is_started(host):
            return True
        if self.halted:
            # reading is harmless; a host that is known to differ gets its condition all the same
            return is_check_due or not is_different
        return len(self._reading) < self.state.free_slots

    def admit(self, host: str, requeue: Requeue) -> bool:
        """Start the host if it may be changed now and return True; otherwise it waits and is requeued."""
        self._reading.discard(host)
        if self.superseded:
            return False
        self.has_differences = self._has_looked = True
        if not self.state.can_admit(host):
            self._enqueue(host, requeue)
            return False
        self.state = self.state.start(host)
        return True

    def resume(self, host: str) -> None:
        """Resume a host that another process, or an earlier pass, has begun to change."""
        self.has_differences = True
        self.state = self.state.resume(host)

    def finish_read(self, host: str) -> None:
        """Note that a host was read without a result: it is not its turn, or it was left half done."""
        self._reading.discard(host)
        self._has_looked = True
        self._admit_next()

    def stop_waiting_for(self, host: str) -> None:
        """Stop letting other hosts wait for a host that takes long to be read."""
        if host in self._reading:
            self._reading.discard(host)
            self._admit_next()

    def record_result(self, host: str, result: HostResult) -> None:
        """Record the result of a host, and requeue the hosts whose turn it is."""
        self.state = self.state.record_result(host, result)
        self.finish_read(host)

    def add_host(self, host: str) -> None:
        """Add a host to the rollout."""
        if host not in self.state.hosts:
            self.state = self.state.with_hosts(self.state.hosts | {host})

    def remove_host(self, host: str) -> None:
        """Remove a host from the rollout: it no longer counts."""
        if host in self.state.hosts:
            self.state = self.state.with_hosts(self.state.hosts - {host})
            self._admit_next()

    def release_turn(self, host: str) -> None:
        """Give the turn of a host that was worked on, or is gone, to the next one."""
        if host in self._requeued:
            self._requeued.discard(host)
            if not self.halted:
                self._admit_next()

    def supersede(self) -> None:
        """Mark the rollout as replaced by another one, and requeue the hosts that wait here."""
        self.superseded = True
        waiting, self._waiting = self._waiting, {}
        for requeue in waiting.values():
            requeue()

    def get_halt_reason(self, host: str) -> str | None:
        """Return why the host will not be changed; None if it will be."""
        return format_halt_message(self.state) if self.halted and not self.state.can_admit(host) else None

    def _enqueue(self, host: str, requeue: Requeue) -> None:
        """Let a host wait for its turn; a halted rollout has no turns."""
        if not self.halted:
            self._waiting[host] = requeue

    def _admit_next(self) -> None:
        stage = self.stage
        free = self.state.free_slots - len(self._reading) if stage != "halted" else 0
        # hosts that wait when a rollout is halted get its condition, once
        everyone = stage in ("all", "halted") or not self.has_differences
        chosen = list(self._waiting)[: None if everyone else max(0, int(free))]
        for host in chosen:
            requeue = self._waiting.pop(host)
            self._requeued.add(host)
            requeue()


def format_halt_message(state: Rollout) -> str:
    """Return the sentence that says why a halted rollout changes no further host."""
    hosts = ", ".join(state.halted_by)
    if state.refuted:
        return f"{_REFUTED} ({hosts})"
    return f"not changed: the rollout stopped after {MAX_FAILURES} failures ({hosts})"
