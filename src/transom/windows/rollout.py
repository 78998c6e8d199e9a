"""One change on its way to many hosts: a canary, then a tenth, then all; two failures stop it. It may be any change.

A rollout knows hosts by name. A host *begins* when it is about to be changed, and comes out as one of four: it *passed*, it
*failed*, it was *left* as it was (not reached, held by somebody else, nothing to do: that says nothing about the change), or
the change was *refuted* on it: it is in place, and does not do what it is for. Before any host has passed, that stops it.
"""

import math
from typing import Literal

import msgspec

FAILURES = 2
"""So many stop a rollout."""
SHARE = 0.1
"""Of the hosts, until all may follow."""

Stage = Literal["canary", "tenth", "all", "halted"]
Verdict = Literal["passed", "failed", "refuted", "left"]


class Rollout(msgspec.Struct, frozen=True):
    """How far a change has come among `hosts` hosts; with `all_at_once`, which is for a lab, nothing holds it back.

    `failed` are those that failed once, in that order: what they become later does not set a halted rollout going again. Only
    a new change does, which is a new rollout. `refuted`: no host had passed when the change was refuted on one.
    """

    hosts: int
    all_at_once: bool = False
    working: frozenset[str] = frozenset()
    passed: frozenset[str] = frozenset()
    failed: tuple[str, ...] = ()
    refuted: bool = False

    @property
    def stage(self) -> Stage:
        """Where the rollout stands."""
        if (self.refuted or len(self.failed) >= FAILURES) and not self.all_at_once:
            return "halted"
        if self.all_at_once or len(self.passed) >= self.tenth:
            return "all"
        return "tenth" if self.passed else "canary"

    @property
    def tenth(self) -> int:
        """How many hosts must have passed before all may follow."""
        return max(1, math.ceil(self.hosts * SHARE))

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

    def admits(self, host: str) -> bool:
        """Whether this host may be changed now. One that was changed may be put right, whatever became of the others."""
        return host in self.working or host in self.passed or host in self.failed or self.slots >= 1

    def begin(self, host: str) -> "Rollout":
        """The host is about to be changed. Raises ValueError where it is not admitted."""
        if not self.admits(host):
            raise ValueError(f"{host} may not be changed now")
        return msgspec.structs.replace(self, working=self.working | {host})

    def resume(self, host: str) -> "Rollout":
        """The host was begun before this rollout was known, or while it was another's turn: it cannot be left half done."""
        return msgspec.structs.replace(self, working=self.working | {host})

    def come_out(self, host: str, verdict: Verdict) -> "Rollout":
        """What became of a host."""
        passed, failed = self.passed, self.failed
        if verdict == "passed":
            passed |= {host}
        elif verdict != "left":
            passed -= {host}
            failed = failed if host in failed else (*failed, host)
        refuted = self.refuted or (verdict == "refuted" and not self.passed)
        return msgspec.structs.replace(self, working=self.working - {host}, passed=passed, failed=failed, refuted=refuted)

    def among(self, hosts: frozenset[str]) -> "Rollout":
        """The same rollout when the hosts have become others: those that are gone no longer count."""
        return msgspec.structs.replace(
            self,
            hosts=len(hosts),
            working=self.working & hosts,
            passed=self.passed & hosts,
            failed=tuple(name for name in self.failed if name in hosts),
        )
