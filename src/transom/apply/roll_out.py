"""One change to many hosts, carried out: the canary first, then a tenth, then all.

Two failures stop it, or a canary without egress.

`result_of` says what a pass means for the rollout; `apply` and the operator share it, and `transom.apply.turns`.
"""

import asyncio
import heapq
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterable
from typing import Final, TypeVar

import msgspec

from transom.apply import STOPPED, STOPPED_WITHIN, HostReport
from transom.apply.target import Target, Work, report_of
from transom.apply.turns import PATIENCE, Turns, stopped
from transom.hosts.errors import Fault, Held, Overtaken, Superseded, fault
from transom.hosts.passes import Admit, PassResult
from transom.proxy.settings import Egress
from transom.windows.nodes import fetch
from transom.windows.nodes.rollout import HostResult, Rollout, Stage
from transom.windows.planning import Plan

_SETTINGS: Final = ("machine-environment", "service-environment", "certificate")
_Host = TypeVar("_Host")
_Result = TypeVar("_Result")

AT_ONCE = 32


def change_of(egress: Egress) -> Hashable:
    """What of the settings reaches a host: hosts with the same are one rollout."""
    return egress.http_proxy, egress.https_proxy, egress.no_proxy, egress.trust, egress.windows


def change_text(egress: Egress) -> str:
    """The same as a text, the same in each process. It holds credentials: for keyed hashes alone."""
    trust = [one.sha256 for one in egress.trust]
    return msgspec.json.encode((egress.variables, trust, egress.windows)).decode()


def decision_text(egress: Egress) -> str:
    """What makes a rollout another one, as text: what reaches a host, and by what that is judged. It holds credentials."""
    return f"{change_text(egress)} {msgspec.json.encode((egress.readiness_endpoints, egress.readiness_policy)).decode()}"


def changes_settings(plan: Plan) -> bool:
    """Whether a plan changes what services that are there have of the settings: the rest is no matter of a rollout of them."""
    made = {step.target for step in plan.steps if step.kind == "service" and step.action == "add"}
    return any(step.kind in _SETTINGS and step.target.partition(": ")[0] not in made for step in plan.steps)


def result_of(egress: Egress, found: PassResult, *, begun: bool = False) -> HostResult:
    """What a pass says of the change that it made, or, with `begun`, that an earlier pass has begun.

    A host that was not changed, and has what it should have, is `right`: where it has no egress, that is its own trouble.
    """
    begun = begun or found.begun
    if isinstance(found.error, Held | Overtaken | Superseded) or (found.waiting and found.error is None):
        return "left"
    if found.error is not None:
        return "failed" if begun else "left"
    fails = fetch.fails(egress, found.fetched)
    if begun:
        return "refuted" if fails else "passed"
    return "right" if found.plan is not None and not found.plan and not fails else "left"


def has_change(egress: Egress, found: PassResult) -> bool:
    """Whether a host is as the settings ask for after a pass, and nothing says that it has no egress with them."""
    return found.error is None and not found.waiting and not fetch.fails(egress, found.fetched)


class _Group:
    """The hosts of one change: those that may be asked for, by their number."""

    def __init__(self, change: Hashable, targets: list[tuple[int, Target]], *, all_at_once: bool) -> None:
        self.change = change
        hosts = frozenset(target.instance.name for _, target in targets)
        self.turns = Turns(Rollout(hosts, all_at_once), first_alone=not all_at_once)
        self.pending = targets
        self.begun: set[str] = set()
        """Hosts that may have been changed."""

    def next(self) -> tuple[int, Target] | None:
        """The next host that may be connected to."""
        while self.pending and not self.turns.halted:
            number, target = heapq.heappop(self.pending)
            if self.turns.may_read(target.instance.name, self._again(number, target)):
                return number, target
        return None

    def admission(self, number: int, target: Target) -> Admit:
        """Asked before a host is changed."""

        async def admit() -> bool:
            admitted = self.turns.admit(target.instance.name, self._again(number, target))
            if admitted:
                self.begun.add(target.instance.name)
            return admitted

        return admit

    def _again(self, number: int, target: Target) -> Callable[[], None]:
        return lambda: heapq.heappush(self.pending, (number, target))


async def roll_out(
    targets: Iterable[Target],
    work: Work,
    *,
    at_once: int,
    all_at_once: bool = False,
    told: Callable[[Stage], None] = lambda _: None,
) -> AsyncIterator[tuple[Target, HostReport]]:
    """Each host with its report, as soon as it is there; at most `at_once` are connected to at a time.

    `told` hears of each stage that begins. Calling this off calls every host's work off, and waits until each is in order;
    every host that was not done by then is still given, before CancelledError is raised.
    """
    listed = list(enumerate(targets))
    unfinished = dict(listed)
    groups = _grouped(listed, all_at_once=all_at_once)
    running: dict[asyncio.Future[PassResult], tuple[_Group, int, Target]] = {}
    stages: set[Stage] = set()
    try:
        while True:
            for group in groups:
                while len(running) < at_once and (chosen := group.next()) is not None:
                    number, target = chosen
                    running[asyncio.ensure_future(work(target, group.admission(number, target)))] = group, number, target
            if not running:
                break
            done, _ = await asyncio.wait(running, timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
            if not done:
                for group, _, target in running.values():
                    group.turns.overlook(target.instance.name)
            for task in done:
                group, number, target = running.pop(task)
                found = outcome(task, lambda error: PassResult(error=error, begun=True))
                name = target.instance.name
                group.turns.come_out(name, result_of(target.egress, found))
                group.turns.done(name)
                if not found.waiting or found.error is not None:
                    del unfinished[number]
                    yield target, report_of(target, found)
            for stage in {group.turns.stage for group in groups if group.turns.differs} - stages:
                stages.add(stage)
                told(stage)
        for group in groups:
            for _, target in sorted(unfinished.items(), key=lambda one: one[0]):
                if change_of(target.egress) == group.change:
                    yield target, report_of(target, PassResult()).skip(stopped(group.turns.rollout))
    except asyncio.CancelledError:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        for task, (group, number, target) in running.items():
            del unfinished[number]
            if not task.cancelled():
                found = outcome(task, lambda error: PassResult(error=error, begun=True))
                yield target, report_of(target, found) if not found.waiting else report_of(target, PassResult()).skip(STOPPED)
            elif target.instance.name in group.begun:
                report = report_of(target, PassResult())
                yield target, msgspec.structs.replace(report, result="failed", error=STOPPED_WITHIN)
            else:
                yield target, report_of(target, PassResult()).skip(STOPPED)
        for target in unfinished.values():
            yield target, report_of(target, PassResult()).skip(STOPPED)
        raise
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


def _grouped(targets: Iterable[tuple[int, Target]], *, all_at_once: bool) -> list[_Group]:
    found: dict[Hashable, list[tuple[int, Target]]] = {}
    for number, target in targets:
        found.setdefault(change_of(target.egress), []).append((number, target))
    return [_Group(change, listed, all_at_once=all_at_once) for change, listed in found.items()]


def outcome(done: asyncio.Future[_Result], otherwise: Callable[[Fault], _Result]) -> _Result:
    """The result of a host's work; where that raised, what `otherwise` makes of it."""
    try:
        return done.result()
    except Exception as error:  # noqa: BLE001  # one host's trouble is its own
        return otherwise(fault(error))


async def side_by_side(
    hosts: Iterable[_Host],
    work: Callable[[_Host], Awaitable[_Result]],
    at_once: int = AT_ONCE,
    *,
    otherwise: Callable[[_Host, Fault], _Result],
) -> AsyncIterator[tuple[_Host, _Result]]:
    """`work` for each host, at most `at_once` at a time, each with its result as soon as it is there.

    `work` turns a host's trouble into a result (as `passes.converge` does); `otherwise` says what the result is of a host
    for which it raised something all the same. Calling this off calls every host's work off, and waits until each has left
    its host in order.
    """
    waiting = iter(hosts)
    running: dict[asyncio.Future[_Result], _Host] = {}
    try:
        while True:
            while len(running) < at_once and (host := next(waiting, None)) is not None:
                running[asyncio.ensure_future(work(host))] = host
            if not running:
                return
            done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                host = running.pop(task)
                yield host, outcome(task, lambda error, host=host: otherwise(host, error))  # type: ignore[misc]
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
