"""A Node whose host cannot go on serving: it waits for its turn, is drained, is worked on, and is given back.

What an interruption has come to stands on the Node (`drain`), so that the next process goes on with it. What is kept here is
only why a host is left alone for a while, and whose kubelet has to be heard of.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final, Literal

import msgspec

from transom.apply.target import Target
from transom.apply.turns import stopped
from transom.controllers.instance.view import regarding_of
from transom.controllers.rollout import heartbeats
from transom.controllers.rollout.drain import Drain
from transom.controllers.rollout.rollouts import OpenRollout, Rollouts, Turn
from transom.controllers.rollout.slots import Slots
from transom.controllers.runtime.cached import CachedInstance, HostNode
from transom.controllers.runtime.conditions import Condition
from transom.controllers.runtime.controller import Leadership
from transom.controllers.runtime.options import Pace
from transom.hosts.errors import PutBack
from transom.hosts.passes import PassResult
from transom.kube.store import ObjectKey

Purpose = Literal["upgrade", "reboot"]
_DOUBLED: Final = 16
_LONGEST: Final = 86_400.0
"""Seconds after which a version that was put back is tried again at the latest."""
_REASONS: Final = {"upgrade": "UpgradePending", "reboot": "RebootRequired"}


class Pending(msgspec.Struct, frozen=True):
    """An interruption that has not come to the work on the host. `draining`: nothing else is done to it meanwhile."""

    condition: Condition
    again: float
    draining: bool = False


class _Left(msgspec.Struct, frozen=True):
    """A host that is left alone for a while, and why; another rollout of payloads than `upgrade` ends that."""

    until: datetime
    condition: Condition
    upgrade: OpenRollout | None


class Interruptions:
    """Asked before a host with a Node is worked on, and told what became of it."""

    def __init__(
        self, slots: Slots, settings: Rollouts, upgrades: Rollouts, pace: Pace, hold: float, now: Callable[[], datetime]
    ) -> None:
        """A host that cannot be brought on within `hold` seconds gives its slot back."""
        self._slots, self._settings, self._upgrades = slots, settings, upgrades
        self._pace, self._hold, self._now = pace, hold, now
        self._left: dict[ObjectKey, _Left] = {}
        self._tries: dict[ObjectKey, int] = {}
        """How often in a row the former version of a host was put back."""
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
        turn: Turn,
    ) -> Pending | None:
        """Bring the Node to where its host may be worked on. None: it is there. `why` says what for. Raises ApiError."""
        key = cached.key
        settings = await self._settings.meet(target, turn.digest)
        upgrade = await self._upgrades.meet(target, turn.digest) if purpose == "upgrade" else None
        if (left := self._left_alone(key, upgrade)) is not None:
            remaining = (left.until - self._now()).total_seconds()
            return Pending(left.condition, min(remaining, self._pace.check_interval))
        if upgrade is not None:
            known = key in self._met
            self._met.add(key)
            if not known and cached.reason("Configured") == PutBack.__name__ and key.name in upgrade.rollout.failed:
                # an earlier process has tried it, and may not have come to giving the Node back
                condition = Condition("False", PutBack.__name__, cached.message("Configured"))
                self._leave(key, self._put_back_again(key), condition, upgrade)
                return Pending(condition, self._pace.drain_step, draining=True)
        # one that was left as it was, for instance out of reach once it was empty, has no turn any more
        begun = upgrade is None or (self._turns.get(key) is upgrade and upgrade.rollout.knows(key.name))
        if node.cordoned_for is None or not begun or not self._slots.has(key):
            if node.cordoned_for is None:
                pending = self._waits(cached, settings, upgrade, turn, purpose, why)
            else:
                pending = await self._waits_empty(cached, node, upgrade, turn, purpose, why, leadership)
            if pending is not None:
                return pending
            self._slots.take(cached)
            if upgrade is not None:
                upgrade.resume(key.name)
                if upgrade.early:
                    await turn.note()
        if upgrade is not None:
            self._turns[key] = upgrade
        drain = self._drain(cached, node, purpose, leadership)
        failing = self._failing.get(key)
        if failing is not None and (self._now() - failing).total_seconds() >= self._hold:
            said = (
                f"{why}: not done in {self._hold / 60:.0f} min, see what the last pass said. Node {drain.node} takes pods again"
            )
            return await self._give_up(cached, drain, Condition("False", _REASONS[purpose], said))
        progress = await drain.step()
        if progress.done:
            return None
        if progress.overdue:
            said = f"{why}: Node {drain.node} cannot be drained, and takes pods again: {progress}"
            return await self._give_up(cached, drain, Condition("False", "DrainBlocked", said))
        return Pending(Condition("False", "Draining", f"{why}; {progress}"), self._pace.drain_step, draining=True)

    async def admit_away(self, cached: CachedInstance, target: Target, why: str, turn: Turn) -> Pending | None:
        """Whether it is the turn of a host to get another version whose Node is not Ready. None: it is. Raises ApiError.

        It is away already: it needs no slot, and nobody can drain it.
        """
        key = cached.key
        upgrade = await self._upgrades.meet(target, turn.digest)
        if (left := self._left_alone(key, upgrade)) is not None:
            return Pending(left.condition, self._pace.unready)
        if upgrade.admit(key.name, turn.ask):
            self._turns[key] = upgrade
            if upgrade.early:
                await turn.note()
            return None
        if (halted := upgrade.refusal(key.name)) is not None:
            return Pending(Condition("False", "RolloutHalted", f"{why}: {halted}"), self._pace.unready)
        waits = Condition("False", _REASONS["upgrade"], f"{why}; it waits for how the first hosts do")
        return Pending(waits, self._pace.unready)

    def _waits(
        self, cached: CachedInstance, settings: OpenRollout, upgrade: OpenRollout | None, turn: Turn, purpose: Purpose, why: str
    ) -> Pending | None:
        """Why the Node may not be cordoned yet; None where it may, and is about to be."""
        key, reason = cached.key, _REASONS[purpose]
        halted = stopped(settings.rollout) if settings.halted else None
        halted = halted or (upgrade.refusal(key.name) if upgrade is not None else None)
        if halted is not None:
            return Pending(Condition("False", "RolloutHalted", f"{why}: {halted}"), self._pace.check_interval)
        if key.name in settings.rollout.failed:
            # what goes wrong by the settings must not count against a version
            return Pending(
                Condition("False", reason, f"{why}; it waits until the host is healthy with its settings"), self._pace.unready
            )
        if (full := self._slots.refusal(cached)) is not None:
            return Pending(Condition("False", reason, f"{why}; it {full}"), self._pace.unready)
        if upgrade is not None and not upgrade.admit(key.name, turn.ask):
            return Pending(Condition("False", reason, f"{why}; it waits for how the first hosts do"), self._pace.check_interval)
        return None

    async def _waits_empty(
        self,
        cached: CachedInstance,
        node: HostNode,
        upgrade: OpenRollout | None,
        turn: Turn,
        purpose: Purpose,
        why: str,
        leadership: Leadership,
    ) -> Pending | None:
        """The same of a Node that was cordoned for another version, or by another process."""
        if upgrade is None or upgrade.admit(cached.metadata.name, turn.ask):
            return None
        self._slots.take(cached)
        if (halted := upgrade.refusal(cached.metadata.name)) is not None:
            condition = Condition("False", "RolloutHalted", f"{why}: {halted}")
            return await self._give_up(cached, self._drain(cached, node, purpose, leadership), condition)
        waits = Condition("False", _REASONS[purpose], f"{why}; it waits for how the first hosts do")
        return Pending(waits, self._pace.drain_step, draining=True)

    async def _give_up(self, cached: CachedInstance, drain: Drain, condition: Condition) -> Pending:
        await drain.uncordon()
        key = cached.key
        self._leave(key, self._pace.drain, condition, self._turns.get(key))
        self._failing.pop(key, None)
        self._slots.give_back(key)
        self._upgrades.leave(key.name)
        return Pending(condition, self._pace.drain)

    def _leave(self, key: ObjectKey, seconds: float, condition: Condition, upgrade: OpenRollout | None) -> None:
        self._left[key] = _Left(self._now() + timedelta(seconds=seconds), condition, upgrade)

    def _left_alone(self, key: ObjectKey, upgrade: OpenRollout | None) -> _Left | None:
        """What is still left alone. Another payload, or a person's word to go on, is a rollout of its own."""
        left = self._left.get(key)
        if left is None:
            return None
        other = upgrade is not None and not upgrade.superseded and left.upgrade is not None and left.upgrade is not upgrade
        if other or self._now() >= left.until:
            del self._left[key]
            if other:
                self._tries.pop(key, None)
            return None
        return left

    def _put_back_again(self, key: ObjectKey) -> float:
        """Seconds until a version that did not run is tried again: twice as many each time."""
        tries = self._tries[key] = self._tries.get(key, 0) + 1
        return min(self._pace.check_interval * 2.0 ** min(tries - 1, _DOUBLED), max(_LONGEST, self._pace.check_interval))

    def turn(self, key: ObjectKey) -> OpenRollout | None:
        """The rollout of a payload by which a host is interrupted; None where it is for something else."""
        return self._turns.get(key)

    def worked(self, cached: CachedInstance, found: PassResult, before: datetime | None) -> None:
        """The host of an empty Node was worked on. `before` is what its kubelet had last said then, by its own clock."""
        key = cached.key
        if "kubelet" in map(str.casefold, found.restarted):
            self._restarted[key] = self._now() - timedelta(seconds=found.seconds), before
        if found.error is None:
            self._failing.pop(key, None)
            self._tries.pop(key, None)
            return
        self._failing.setdefault(key, self._now())
        if isinstance(found.error, PutBack):
            # the old version runs: to try once more would end the pods once more
            condition = Condition("False", type(found.error).__name__, str(found.error))
            self._leave(key, self._put_back_again(key), condition, self._turns.get(key))

    def booted(self, cached: CachedInstance, before: datetime | None) -> None:
        """The host was told to boot: its kubelet has to be heard of since. `before` is as in `worked`."""
        self._restarted[cached.key] = self._now(), before

    def put_back(self, cached: CachedInstance) -> Condition | None:
        """What is said of a host whose old version runs again; None where there is nothing like it to be said."""
        left = self._left.get(cached.key)
        return left.condition if left is not None and self._now() < left.until else None

    async def give_back(self, cached: CachedInstance, node: HostNode, leadership: Leadership) -> bool:
        """Uncordon the Node once its kubelet says that it is Ready; whether that is so. Raises ApiError."""
        key = cached.key
        _, before = self._restarted.get(key, (None, None))
        if not node.is_ready or (before is not None and not heartbeats.beats(node, before)):
            return False
        await self._drain(cached, node, "upgrade", leadership).uncordon()
        self.forget(key)
        return True

    def awaited(self, key: ObjectKey) -> bool:
        """Whether a kubelet was restarted a moment ago, and may be heard of yet."""
        if key not in self._restarted:
            return False
        since, _ = self._restarted[key]
        if (self._now() - since).total_seconds() < heartbeats.HEARTBEAT:
            return True
        del self._restarted[key]
        return False

    def drop(self, key: ObjectKey) -> None:
        """The instance is to go."""
        self.end(key)
        self._left.pop(key, None)
        self._tries.pop(key, None)
        self._met.discard(key)

    def end(self, key: ObjectKey) -> None:
        """There is no Node to interrupt any more: nobody waits for what becomes of it."""
        self.forget(key)
        self._upgrades.leave(key.name)

    def forget(self, key: ObjectKey) -> None:
        """The Node takes pods, or there is none: it has no slot."""
        self._restarted.pop(key, None)
        self._failing.pop(key, None)
        self._turns.pop(key, None)
        self._slots.give_back(key)

    def _drain(self, cached: CachedInstance, node: HostNode, purpose: Purpose, leadership: Leadership) -> Drain:
        return Drain(
            node.metadata.name, node.metadata.uid or "", purpose, leadership, regarding_of(cached), self._now, self._pace.drain
        )
