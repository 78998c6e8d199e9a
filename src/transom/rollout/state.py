"""The state of one rollout: a canary, then a tenth of the hosts, then all; two failures halt it. It may be any change.

A rollout knows hosts by name. A host *starts* right before it is changed, and has one of five results:

- *passed*: it was changed and is healthy;
- *failed*: it could not be changed, or is not healthy;
- *untouched*: it was not reached, or another process held it. This says nothing about the change.
- *conforming*: it already was as the change asks.
- *refuted*: the change is in place and does not do what it is for. Before any host has passed, this halts the rollout.

Once every host has passed or conforms, the rollout is completed, and nothing halts it any more.
"""

import math
from typing import Final, Literal

import msgspec

MAX_FAILURES = 2
"""How many failed hosts halt a rollout."""
CONFIG_MAP_NAME: Final = "transom-rollouts"
"""The operator's ConfigMap of hosts in progress."""
FIRST_SHARE = 0.1
"""The share of the hosts that must pass before all others follow."""

Stage = Literal["canary", "tenth", "all", "halted"]
LIMITED_STAGES: frozenset[Stage] = frozenset({"canary", "tenth"})
"""The stages in which the result of each host decides about the others."""
HostResult = Literal["passed", "failed", "refuted", "untouched", "conforming"]


class Rollout(msgspec.Struct, frozen=True):
    """How far a change has come among `hosts`. With `all_at_once`, for labs, no host waits for another.

    `failed` has the hosts that failed, in that order, and have not passed since. `halted_by` has the hosts that halted the
    rollout: it stays halted when they pass later, and a person starts a new rollout. `refuted`: no host had passed when the
    change was refuted on one. `conforming` hosts needed no change, which proves nothing.
    """

    hosts: frozenset[str]
    all_at_once: bool = False
    in_progress: frozenset[str] = frozenset()
    passed: frozenset[str] = frozenset()
    conforming: frozenset[str] = frozenset()
    failed: tuple[str, ...] = ()
    halted_by: tuple[str, ...] = ()
    refuted: bool = False
    completed: bool = False

    @property
    def stage(self) -> Stage:
        """The stage of the rollout."""
        if self.all_at_once or self.completed:
            return "all"
        if self.halted_by:
            return "halted"
        if len(self.passed) >= self.first_hosts_count:
            return "all"
        return "tenth" if self.passed else "canary"

    @property
    def first_hosts_count(self) -> int:
        """How many hosts must pass before all others follow."""
        return max(1, math.ceil(len(self.hosts) * FIRST_SHARE))

    @property
    def free_slots(self) -> float:
        """How many more hosts may start now."""
        match self.stage:
            case "halted":
                return 0
            case "all":
                return math.inf
            case "canary":
                return max(0, 1 - len(self.in_progress))
            case "tenth":
                return max(0, self.first_hosts_count - len(self.passed) - len(self.in_progress))

    def is_started(self, host: str) -> bool:
        """Return True if the change has reached this host: working on it again puts no further host at risk."""
        return host in self.in_progress or host in self.passed or host in self.conforming or host in self.failed

    def can_admit(self, host: str) -> bool:
        """Return True if this host may be changed now. A host that has started may always be repaired."""
        return self.is_started(host) or self.free_slots >= 1

    def start(self, host: str) -> "Rollout":
        """Start a host. Raises ValueError if it may not be changed now."""
        if not self.can_admit(host):
            raise ValueError(f"{host} may not be changed now")
        return self.resume(host)

    def resume(self, host: str) -> "Rollout":
        """Start a host that another process, or this one out of turn, has already begun to change."""
        changed = msgspec.structs.replace(self, in_progress=self.in_progress | {host}, conforming=self.conforming - {host})
        return changed if host in self.hosts else msgspec.structs.replace(changed, hosts=self.hosts | {host})

    def record_result(self, host: str, result: HostResult) -> "Rollout":
        """Record the result of a host."""
        if host not in self.hosts:
            return msgspec.structs.replace(self, in_progress=self.in_progress - {host})
        in_progress, passed, conforming = self.in_progress - {host}, self.passed, self.conforming
        failed, refuted = self.failed, self.refuted
        if result == "passed":
            passed, conforming = passed | {host}, conforming - {host}
            failed = tuple(name for name in failed if name != host)
        elif result == "conforming" and host not in passed and host not in failed:
            conforming |= {host}
        elif result in ("failed", "refuted") and not self.completed:
            passed, conforming = passed - {host}, conforming - {host}
            failed = failed if host in failed else (*failed, host)
            refuted = refuted or (result == "refuted" and not passed)
        rollout = msgspec.structs.replace(
            self, in_progress=in_progress, passed=passed, conforming=conforming, failed=failed, refuted=refuted
        )
        return rollout._with_halt_or_completion()

    def with_hosts(self, hosts: frozenset[str]) -> "Rollout":
        """Return the rollout for another set of hosts; hosts that are gone no longer count."""
        rollout = msgspec.structs.replace(
            self,
            hosts=hosts,
            in_progress=self.in_progress & hosts,
            passed=self.passed & hosts,
            conforming=self.conforming & hosts,
            failed=tuple(name for name in self.failed if name in hosts),
            halted_by=tuple(name for name in self.halted_by if name in hosts),
        )
        return rollout._with_halt_or_completion()

    def _with_halt_or_completion(self) -> "Rollout":
        """Return the rollout halted or completed, if the results of its hosts ask for that."""
        if self.completed or len(self.passed) + len(self.conforming) >= len(self.hosts) > 0:
            return msgspec.structs.replace(self, completed=True, halted_by=(), refuted=False, failed=())
        if self.refuted or len(self.failed) >= MAX_FAILURES:
            more = tuple(name for name in self.failed if name not in self.halted_by)
            return msgspec.structs.replace(self, halted_by=(*self.halted_by, *more)) if more else self
        return self
