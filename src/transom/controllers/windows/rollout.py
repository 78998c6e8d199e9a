"""One change to many hosts, carried out: the canary first, then a tenth, then all.

Two failures stop it, or a canary that does not get out.

`verdict` says what a pass means for the rollout; `apply` and the operator share it, and `transom.windows.rollout`.
"""

import asyncio
import heapq
from collections.abc import AsyncIterator, Callable, Hashable, Iterable
from typing import Final

import msgspec

from transom.controllers.windows.hosts import Target, Work, report_of
from transom.controllers.windows.report import HostReport
from transom.hosts.errors import Held, Superseded
from transom.hosts.passes import PassResult
from transom.proxy.settings import Egress
from transom.windows import fetch
from transom.windows.plan import Plan
from transom.windows.rollout import FAILURES, Rollout, Stage, Verdict

_SETTINGS: Final = ("machine-environment", "service-environment", "certificate")


def change_of(egress: Egress) -> Hashable:
    """What of the settings reaches a host: hosts with the same are one rollout."""
    return egress.http_proxy, egress.https_proxy, egress.no_proxy, egress.trust, egress.windows


def change_text(egress: Egress) -> str:
    """The same as a text, the same in each process. It holds credentials: for keyed hashes alone."""
    trust = [one.sha256 for one in egress.trust]
    return msgspec.json.encode((egress.variables, trust, egress.windows)).decode()


def changes_settings(plan: Plan) -> bool:
    """Whether a plan changes what services that are there have of the settings: the rest is no matter of a rollout of them."""
    made = {step.target for step in plan.steps if step.kind == "service" and step.action == "add"}
    return any(step.kind in _SETTINGS and step.target.partition(": ")[0] not in made for step in plan.steps)


def verdict(egress: Egress, found: PassResult) -> Verdict:
    """What a pass says of the change that it made. A host that was not changed says nothing."""
    if not found.begun or isinstance(found.error, Held | Superseded):
        return "left"
    if found.error is not None:
        return "failed"
    return "refuted" if fetch.verdict(egress, found.fetched).works == "False" else "passed"


def stopped(rollout: Rollout) -> str:
    """Why a host is not changed any more, in a sentence."""
    failed = ", ".join(rollout.failed)
    if rollout.refuted:
        return f"not changed: the rollout stopped at its first host, which does not get out with these settings ({failed})"
    return f"not changed: the rollout stopped after {FAILURES} failures ({failed})"


class _Group:
    """The hosts of one change."""

    def __init__(self, targets: list[tuple[int, Target]], *, all_at_once: bool) -> None:
        self.rollout = Rollout(len(targets), all_at_once)
        self.pending = targets
        self.running = 0
        self.looked = all_at_once
        """Whether a host has been looked at: the first goes alone, so that it is the canary where it differs."""
        self.differs = False
        """Whether a host was found that has to be changed: the others will have to, too."""

    def may_start(self) -> bool:
        """Whether the next host may be connected to."""
        if not self.pending or self.rollout.stage == "halted":
            return False
        if not self.looked:
            return self.running == 0
        reading = self.running - len(self.rollout.working)
        return not self.differs or reading < self.rollout.slots

    def admit(self, name: str) -> bool:
        """Before a change."""
        self.differs = True
        if not self.rollout.admits(name):
            return False
        self.rollout = self.rollout.begin(name)
        return True


async def roll_out(
    targets: Iterable[Target],
    work: Work,
    *,
    at_once: int,
    all_at_once: bool = False,
    told: Callable[[Stage], None] = lambda _: None,
) -> AsyncIterator[tuple[Target, HostReport]]:
    """Each host with its report, as soon as it is there; at most `at_once` are connected to at a time.

    `told` hears of each stage that begins. Calling this off calls every host's work off, and waits until each is in order.
    """
    groups = _grouped(targets, all_at_once=all_at_once)
    running: dict[asyncio.Future[PassResult], tuple[_Group, int, Target]] = {}
    stages: set[Stage] = set()
    try:
        while True:
            for group in groups:
                while len(running) < at_once and group.may_start():
                    number, target = heapq.heappop(group.pending)
                    group.running += 1
                    admit = _admission(group, target)
                    running[asyncio.ensure_future(work(target, admit))] = group, number, target
            if not running:
                break
            done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                group, number, target = running.pop(task)
                group.running -= 1
                group.looked = True
                found = task.result()
                if found.waiting and found.error is None:
                    heapq.heappush(group.pending, (number, target))
                    continue
                group.rollout = group.rollout.come_out(target.instance.name, verdict(target.egress, found))
                yield target, report_of(target, found)
            for stage in {group.rollout.stage for group in groups if group.differs} - stages:
                stages.add(stage)
                told(stage)
        for group in groups:
            for _, target in sorted(group.pending, key=lambda one: one[0]):
                report = report_of(target, PassResult())
                yield target, msgspec.structs.replace(report, result="failed", error=stopped(group.rollout))
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


def _grouped(targets: Iterable[Target], *, all_at_once: bool) -> list[_Group]:
    found: dict[Hashable, list[tuple[int, Target]]] = {}
    for number, target in enumerate(targets):
        found.setdefault(change_of(target.egress), []).append((number, target))
    return [_Group(listed, all_at_once=all_at_once) for listed in found.values()]


def _admission(group: _Group, target: Target) -> Callable[[], bool]:
    return lambda: group.admit(target.instance.name)
