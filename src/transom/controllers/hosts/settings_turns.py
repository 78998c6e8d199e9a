"""The settings that a host gets in a visit, and whether it is its turn to get them."""

import asyncio
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import Final

import msgspec

from transom.apply.roll_out import change_of, has_change
from transom.apply.turns import PATIENCE
from transom.controllers.hosts.work import Done, HostSession, HostWork, Visit
from transom.controllers.instance import status
from transom.controllers.rollout.host_turns import HostTurns
from transom.controllers.rollout.passed_settings import PassedSettings
from transom.controllers.rollout.rollouts import OpenRollout, Rollouts
from transom.controllers.runtime.cached import CachedInstance
from transom.controllers.runtime.conditions import Fields, moment, timestamp
from transom.controllers.runtime.controller import Result
from transom.hosts.passes import EVERYBODY, PassResult
from transom.kube.store import ObjectKey
from transom.proxy.settings import Egress

EARLIEST: Final = 0.9
"""Of the time between two checks, that the next one may be early."""


class CheckSchedule:
    """When hosts are looked at though nothing has changed: every `interval` seconds on average."""

    def __init__(self, interval: float, now: Callable[[], datetime], draw: Callable[[], float] = random.random) -> None:
        self._interval, self._now, self._draw = interval, now, draw

    def next_check(self) -> Result:
        """Many hosts that were begun at once do not stay together."""
        return Result(again=self._interval * (EARLIEST + 0.2 * self._draw()))

    def is_fresh(self, cached: CachedInstance) -> bool:
        """Whether a host was looked at since its last check was due."""
        checked = moment(cached.live.last_checked)
        return checked is not None and (self._now() - checked).total_seconds() < EARLIEST * self._interval

    def timestamp(self) -> str:
        """The time, as a status has it."""
        return timestamp(self._now())


class SettingsTurns:
    """The part of the hosts of one controller in the rollouts of settings."""

    def __init__(self, rollouts: Rollouts, turns: HostTurns, passed: PassedSettings, schedule: CheckSchedule) -> None:
        self._rollouts, self._turns, self._passed, self._schedule = rollouts, turns, passed, schedule
        self.reached: dict[ObjectKey, Egress] = {}
        """What each host was brought to, as far as this process knows: other settings than these will change it."""
        self.given: dict[ObjectKey, Egress] = {}
        """What a host was given that joins while newer settings are on their way."""

    async def carry_out(self, visit: Visit) -> Visit:
        """The stage at which the host is worked on, if it is its turn. If not, `found` says that it waits."""
        on, work = visit.session, visit.work
        if visit.opened.error is not None:
            return replace(visit, found=PassResult(error=visit.opened.error))
        key, alone = on.case.cached.key, work.stands_alone(on.case)
        rollout = await self._rollouts.meet(on.target, self._turns.digest(on.leadership))
        reached = self.reached.get(key)
        if (earlier := self._earlier(on, work, rollout)) is not None:
            self.given[key] = earlier
            by_earlier = replace(on, target=msgspec.structs.replace(on.target, egress=earlier))
            found = await work.carry_out(by_earlier, EVERYBODY, change_expected=True)
            # where these ask for nothing, no trace on the host says that it has them
            reached = earlier
        elif not alone and reached != on.target.egress and not self._may_read(rollout, on, reached):
            found = PassResult(waiting=True)
        else:
            self.reached.pop(key, None)
            expected = reached != on.target.egress if reached is not None else _is_new(on)
            with self._at_work(rollout, on, alone=alone) as attempt:
                found = attempt.found = await work.carry_out(attempt.session, attempt.admit, change_expected=expected)
            if rollout.rollout.over:
                await self._passed.keep(on.target.instance.cluster, on.target.egress, on.leadership)
            reached = reached if found.waiting else on.target.egress
        if found.error is None and reached is not None:
            self.reached[key] = reached
        await work.judge(on, found, self.given.get(key))
        return replace(visit, found=found)

    def _may_read(self, rollout: OpenRollout, on: HostSession, reached: Egress | None) -> bool:
        """Whether a host may be looked at, and asked for again when it is its turn."""
        differs = reached is not None and change_of(reached) != change_of(on.target.egress)
        ask = self._turns.of(on.case, on.leadership).ask
        due = not self._schedule.is_fresh(on.case.cached)
        return rollout.may_read(on.target.instance.name, ask, differs=differs, due=due)

    def _earlier(self, on: HostSession, work: HostWork, rollout: OpenRollout) -> Egress | None:
        """What a host gets while newer settings are on their way or stopped, and it is not its turn; None: the newer.

        That is one that nothing was done to yet, or whose Node was emptied for something else: it takes pods again afterwards.
        """
        case, target = on.case, on.target
        untouched = not case.cached.live.state_hash and case.cached.key not in self.reached
        joins = untouched and not rollout.superseded
        emptied = work.emptied or (case.node is not None and case.node.cordoned_for is not None)
        beside = emptied and not rollout.rollout.knows(target.instance.name)
        if rollout.stage == "all" or not (joins or beside):
            return None
        if target.egress.missing:
            # nobody speaks of a host that joins now
            return None
        passed = self._passed.of(target.instance.cluster)
        return passed if passed is not None and change_of(passed) != change_of(target.egress) else None

    @contextmanager
    def _at_work(self, rollout: OpenRollout, on: HostSession, *, alone: bool) -> Iterator["_Attempt"]:
        """The time in which a host is worked on; its rollout is told of the end, whatever that is."""
        attempt = _Attempt(self._turns, rollout, on, alone)
        overlooked = asyncio.get_running_loop().call_later(PATIENCE, rollout.overlook, on.target.instance.name)
        try:
            yield attempt
        finally:
            overlooked.cancel()
            attempt.end()

    def wait(self, visit: Visit) -> Done:
        """It is not the host's turn: it is asked for when it is. What a rollout that was stopped leaves out is told so.

        Such a host is looked at from time to time as any other is.
        """
        case, target, found = visit.session.case, visit.session.target, visit.found
        rollout = self._rollouts.known(target)
        if rollout is None:
            # the settings were edited meanwhile
            return Done(Result(again=1.0))
        if (why := rollout.refusal(target.instance.name)) is None:
            return Done(self._schedule.next_check())
        said = status.left_out(why, found, self.reached.get(case.cached.key), target.egress)
        fields: Fields = {"last_checked": self._schedule.timestamp()} if found.before is not None else {}
        return Done(self._schedule.next_check(), case, said, fields, quiet=True)


class _Attempt:
    """A host that its rollout lets be looked at, until it is known what became of it."""

    def __init__(self, turns: HostTurns, rollout: OpenRollout, on: HostSession, alone: bool) -> None:
        self._turns, self._rollout, self._on, self._alone = turns, rollout, on, alone
        self._admitted = False
        self.found: PassResult | None = None
        begins = turns.begin(on.case)

        def permit() -> None:
            on.leadership.permit()
            begins()

        settings = msgspec.structs.replace(on.settings, permit=permit)
        self.session = replace(on, settings=settings, owed=on.target.instance.name in rollout.changed)

    async def admit(self) -> bool:
        """Whether it is the host's turn to be changed. Raises ApiError."""
        on = self._on
        self._admitted = self._alone or await self._turns.admit(self._rollout, on.case, on.target, on.leadership)
        return self._admitted

    def end(self) -> None:
        """Tell the rollout what became of the host; without anything found, nobody knows how far it came."""
        on, name, found = self._on, self._on.target.instance.name, self.found
        if self._alone:
            if found is not None and has_change(on.target.egress, found):
                # nobody had to wait for it: it says nothing of the change, and does not need it any more
                self._rollout.come_out(name, "right")
        elif found is not None:
            # what was done without being asked for says nothing of the settings
            changed = found if self._admitted else msgspec.structs.replace(found, begun=False)
            self._turns.judge(self._rollout, on.case, on.target, changed, on.leadership)
        else:
            if self._admitted:
                self._rollout.changed.add(name)
            self._rollout.read(name)


def _is_new(on: HostSession) -> bool:
    """Whether a host has nothing of Transom's yet, and gets all of it."""
    return not on.case.cached.live.state_hash and on.target.egress.configured
