"""A Node whose host cannot go on serving: it waits for its turn, is drained, is worked on, and is given back.

What an interruption has come to stands on the Node (`drain`), so that the next process goes on with it. What is kept here is
only why a host is left alone for a while, and whose kubelet has to be heard of.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final, Literal

import msgspec

from transom.controllers.conditions import Verdict
from transom.controllers.kept import HeldInstance, HostNode
from transom.controllers.options import Pace
from transom.controllers.term import Term
from transom.controllers.windows import heartbeats
from transom.controllers.windows.case import regarding_of
from transom.controllers.windows.drain import Drain
from transom.controllers.windows.hosts import Target
from transom.controllers.windows.rollouts import Digest, Rollouts
from transom.controllers.windows.slots import Slots
from transom.hosts.errors import PutBack
from transom.hosts.passes import PassResult
from transom.kube.store import Name

Purpose = Literal["upgrade", "reboot"]
_REASONS: Final = {"upgrade": "UpgradePending", "reboot": "RebootRequired"}


class Pending(msgspec.Struct, frozen=True):
    """An interruption that has not come to the work on the host. `draining`: nothing else is done to it meanwhile."""

    verdict: Verdict
    again: float
    draining: bool = False


class _Left(msgspec.Struct, frozen=True):
    """A host that is left alone for a while, and why."""

    until: datetime
    verdict: Verdict


class Interruptions:
    """Asked before a host with a Node is worked on, and told what became of it."""

    def __init__(
        self, slots: Slots, settings: Rollouts, upgrades: Rollouts, pace: Pace, hold: float, now: Callable[[], datetime]
    ) -> None:
        """A host that cannot be brought on within `hold` seconds gives its slot back."""
        self._slots, self._settings, self._upgrades = slots, settings, upgrades
        self._pace, self._hold, self._now = pace, hold, now
        self._left: dict[Name, _Left] = {}
        self._met: set[Name] = set()
        """Hosts that this process has thought of upgrading."""
        self._failing: dict[Name, datetime] = {}
        """Since when the work on an empty Node's host fails."""
        self._restarted: dict[Name, datetime] = {}
        """Since when the kubelet has to be heard of."""

    async def prepare(
        self, held: HeldInstance, target: Target, node: HostNode, purpose: Purpose, why: str, term: Term, digest: Digest
    ) -> Pending | None:
        """Bring the Node to where its host may be worked on. None: it is there. `why` says what for. Raises ApiError."""
        key = held.key
        left = self._left.get(key)
        if left is not None and self._now() < left.until:
            return Pending(left.verdict, (left.until - self._now()).total_seconds())
        self._left.pop(key, None)
        await self._settings.meet(target, digest)
        if purpose == "upgrade":
            await self._upgrades.meet(target, digest)
            known = key in self._met
            self._met.add(key)
            if not known and held.reason("Configured") == PutBack.__name__ and self._upgrades.failed_change(target):
                # an earlier process has tried it, and may not have come to giving the Node back
                verdict = Verdict("False", PutBack.__name__, held.message("Configured"))
                self._left[key] = _Left(self._now() + timedelta(seconds=self._pace.check_interval), verdict)
                return Pending(verdict, self._pace.drain_step, draining=True)
        if node.cordoned_for is None or not self._slots.has(key):
            if node.cordoned_for is None and (pending := self._waits(held, target, purpose, why)) is not None:
                return pending
            self._slots.take(held)
            if purpose == "upgrade":
                self._upgrades.resume(target)
        drain = self._drain(held, node, purpose, term)
        failing = self._failing.get(key)
        if failing is not None and (self._now() - failing).total_seconds() >= self._hold:
            said = (
                f"{why}: not done in {self._hold / 60:.0f} min, see what the last pass said. Node {drain.node} takes pods again"
            )
            return await self._give_up(held, target, drain, Verdict("False", _REASONS[purpose], said))
        progress = await drain.step()
        if progress.done:
            return None
        if progress.overdue:
            said = f"{why}: Node {drain.node} cannot be drained, and takes pods again: {progress}"
            return await self._give_up(held, target, drain, Verdict("False", "DrainBlocked", said))
        return Pending(Verdict("False", "Draining", f"{why}; {progress}"), self._pace.drain_step, draining=True)

    def _waits(self, held: HeldInstance, target: Target, purpose: Purpose, why: str) -> Pending | None:
        """Why the Node may not be cordoned yet; None where it may, and is about to be."""
        key, reason = held.key, _REASONS[purpose]
        halted = self._settings.stopped(target) or (self._upgrades.halted(target) if purpose == "upgrade" else None)
        if halted is not None:
            return Pending(Verdict("False", "RolloutHalted", f"{why}: {halted}"), self._pace.check_interval)
        if (full := self._slots.refusal(held)) is not None:
            return Pending(Verdict("False", reason, f"{why}; it {full}"), self._pace.unready)
        if purpose == "upgrade" and not self._upgrades.admit(key, target):
            return Pending(Verdict("False", reason, f"{why}; it waits for how the first hosts do"), self._pace.check_interval)
        return None

    async def _give_up(self, held: HeldInstance, target: Target, drain: Drain, verdict: Verdict) -> Pending:
        await drain.uncordon()
        key = held.key
        self._left[key] = _Left(self._now() + timedelta(seconds=self._pace.drain), verdict)
        self._failing.pop(key, None)
        self._slots.give_back(key)
        self._upgrades.leave(target)
        return Pending(verdict, self._pace.drain)

    def worked(self, held: HeldInstance, found: PassResult) -> None:
        """The host of an empty Node was worked on."""
        key = held.key
        if "kubelet" in map(str.casefold, found.restarted):
            self._restarted[key] = self._now() - timedelta(seconds=found.seconds)
        if found.error is None:
            self._failing.pop(key, None)
            return
        self._failing.setdefault(key, self._now())
        if isinstance(found.error, PutBack):
            # the old version runs: to try once more would end the pods once more
            until = self._now() + timedelta(seconds=self._pace.check_interval)
            self._left[key] = _Left(until, Verdict("False", type(found.error).__name__, str(found.error)))

    def booted(self, held: HeldInstance) -> None:
        """The host was told to boot: its kubelet has to be heard of since."""
        self._restarted[held.key] = self._now()

    def put_back(self, held: HeldInstance) -> Verdict | None:
        """What is said of a host whose old version runs again; None where there is nothing like it to be said."""
        left = self._left.get(held.key)
        return left.verdict if left is not None and self._now() < left.until else None

    async def give_back(self, held: HeldInstance, node: HostNode, term: Term) -> bool:
        """Uncordon the Node once its kubelet says that it is Ready; whether that is so. Raises ApiError."""
        key = held.key
        since = self._restarted.get(key)
        if not node.is_ready or (since is not None and not heartbeats.beats(node, since)):
            return False
        await self._drain(held, node, "upgrade", term).uncordon()
        self.forget(key)
        return True

    def awaited(self, key: Name) -> bool:
        """Whether a kubelet was restarted a moment ago, and may be heard of yet."""
        since = self._restarted.get(key)
        if since is None:
            return False
        if (self._now() - since).total_seconds() < heartbeats.HEARTBEAT:
            return True
        del self._restarted[key]
        return False

    def drop(self, key: Name) -> None:
        """The instance is to go: nobody waits for it."""
        self.forget(key)
        self._left.pop(key, None)
        self._met.discard(key)
        self._upgrades.drop(key[1])

    def forget(self, key: Name) -> None:
        """The Node takes pods, or there is none: it has no slot."""
        self._restarted.pop(key, None)
        self._failing.pop(key, None)
        self._slots.give_back(key)

    def _drain(self, held: HeldInstance, node: HostNode, purpose: Purpose, term: Term) -> Drain:
        return Drain(node.metadata.name, purpose, term, regarding_of(held), self._now, self._pace.drain)
