"""One change on its way to many hosts: a canary, then a tenth, then all; two failures stop it. It may be any change.

A rollout knows hosts by name. A host *begins* when it is about to be changed, and comes out as one of five:

- *passed*: it was changed, and is well;
- *failed*: it could not be changed, or is not well;
- *left*: it is as it was. It was not reached, or somebody else held it, which says nothing about the change.
- *right*: it was found as it should be.
- *refuted*: the change is in place, and does not do what it is for. Before any host has passed, this stops the rollout.

Once every host has passed, or was right, the rollout is over: nothing stops it any more.
"""

import math
from typing import Final, Literal

import msgspec

FAILURES = 2
"""So many stop a rollout."""
ROLLOUTS: Final = "transom-rollouts"
"""The operator's ConfigMap of the hosts that were begun."""
SHARE = 0.1
"""Of the hosts, until all may follow."""

Stage = Literal["canary", "tenth", "all", "halted"]
EARLY: frozenset[Stage] = frozenset({"canary", "tenth"})
"""The stages in which each host counts for the others."""
HostResult = Literal["passed", "failed", "refuted", "left", "right"]


class Rollout(msgspec.Struct, frozen=True):
    """How far a change has come among `hosts`; with `all_at_once`, which is for a lab, nothing holds it back.

    `failed` are those that failed, in that order, and have not passed since. `stopped_by` are those by which the rollout was
    halted: that they pass afterwards does not set it going again, a person does, and that is a new rollout. `refuted`: no host
    had passed when the change was refuted on one. `right`: found as the change asks, which proves nothing.
    """

    hosts: frozenset[str]
    all_at_once: bool = False
    working: frozenset[str] = frozenset()
    passed: frozenset[str] = frozenset()
    right: frozenset[str] = frozenset()
    failed: tuple[str, ...] = ()
    stopped_by: tuple[str, ...] = ()
    refuted: bool = False
    over: bool = False

    @property
    def stage(self) -> Stage:
        """Where the rollout stands."""
        if self.all_at_once or self.over:
            return "all"
        if self.stopped_by:
            return "halted"
        if len(self.passed) >= self.tenth:
            return "all"
        return "tenth" if self.passed else "canary"

    @property
    def tenth(self) -> int:
        """How many hosts must have passed before all may follow."""
        return max(1, math.ceil(len(self.hosts) * SHARE))

    @property
    def slots(self) -> float:
        """How many hosts more may begin now."""
        match self.stage:
            case "halted":
                return 0
            case "all":
                return math.inf
            case "canary":
                return max(0, 1 - len(self.working))
            case "tenth":
                return max(0, self.tenth - len(self.passed) - len(self.working))

    def knows(self, host: str) -> bool:
        """Whether the change has reached this host: what is done to it then harms no further one."""
        return host in self.working or host in self.passed or host in self.right or host in self.failed

    def admits(self, host: str) -> bool:
        """Whether this host may be changed now. One that was changed may be put right, whatever became of the others."""
        return self.knows(host) or self.slots >= 1

    def begin(self, host: str) -> "Rollout":
        """The host is about to be changed. Raises ValueError where it is not admitted."""
        if not self.admits(host):
            raise ValueError(f"{host} may not be changed now")
        return self.resume(host)

    def resume(self, host: str) -> "Rollout":
        """The host was begun before this rollout was known, or while it was another's turn: it cannot be left half done."""
        changed = msgspec.structs.replace(self, working=self.working | {host}, right=self.right - {host})
        return changed if host in self.hosts else msgspec.structs.replace(changed, hosts=self.hosts | {host})

    def come_out(self, host: str, result: HostResult) -> "Rollout":
        """What became of a host."""
        if host not in self.hosts:
            return msgspec.structs.replace(self, working=self.working - {host})
        working, passed, right = self.working - {host}, self.passed, self.right
        failed, refuted = self.failed, self.refuted
        if result == "passed":
            passed, right = passed | {host}, right - {host}
            failed = tuple(one for one in failed if one != host)
        elif result == "right" and host not in passed and host not in failed:
            right |= {host}
        elif result in ("failed", "refuted") and not self.over:
            passed, right = passed - {host}, right - {host}
            failed = failed if host in failed else (*failed, host)
            refuted = refuted or (result == "refuted" and not passed)
        found = msgspec.structs.replace(self, working=working, passed=passed, right=right, failed=failed, refuted=refuted)
        return found._settled()

    def among(self, hosts: frozenset[str]) -> "Rollout":
        """The same rollout when the hosts have become others: those that are gone no longer count."""
        found = msgspec.structs.replace(
            self,
            hosts=hosts,
            working=self.working & hosts,
            passed=self.passed & hosts,
            right=self.right & hosts,
            failed=tuple(name for name in self.failed if name in hosts),
            stopped_by=tuple(name for name in self.stopped_by if name in hosts),
        )
        return found._settled()

    def _settled(self) -> "Rollout":
        """Halted, or over, where that follows from what is known of the hosts."""
        if self.over or len(self.passed) + len(self.right) >= len(self.hosts) > 0:
            return msgspec.structs.replace(self, over=True, stopped_by=(), refuted=False, failed=())
        if self.refuted or len(self.failed) >= FAILURES:
            more = tuple(name for name in self.failed if name not in self.stopped_by)
            return msgspec.structs.replace(self, stopped_by=(*self.stopped_by, *more)) if more else self
        return self
