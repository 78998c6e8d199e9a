"""One change to many hosts, carried out: the canary first, then a tenth, then all.

Two failures stop it, or a canary without egress.

`judge_result` says what a pass means for the rollout; `apply` and the operator share it, and `transom.rollout.queue`.
"""

import asyncio
import heapq
from collections.abc import AsyncIterator, Awaitable, Callable, Container, Hashable, Iterable
from typing import Final, TypeVar

from transom.apply.report import STOPPED, HostReport, build_host_report
from transom.apply.target import Target
from transom.hosts.errors import Fault, Held, Overtaken, Stopped, Superseded, build_fault
from transom.hosts.passes.base_pass import STOP_SECONDS, Admit, PassResult
from transom.hosts.steps.change import LEAVING_SECONDS
from transom.proxy.settings import Egress
from transom.rollout.fingerprint import compute_settings_key
from transom.rollout.queue import READ_SECONDS, RolloutQueue, format_halt_message
from transom.rollout.state import HostResult, Rollout, Stage
from transom.windows.nodes import fetch
from transom.windows.planning.planner import Plan

RunPass = Callable[[Target, Admit], Awaitable[PassResult]]
"""Runs a pass over a host, with its errors in the result; `Admit` is called before the host is changed."""
_SETTINGS: Final = ("machine-environment", "service-environment", "certificate")
_Host = TypeVar("_Host")
_Result = TypeVar("_Result")

AT_ONCE = 32
_FINISHING_SECONDS: Final = 30.0
"""Seconds in which hosts whose change was begun are finished when a rollout is called off."""
CHANGE_STOP_SECONDS: Final = _FINISHING_SECONDS + LEAVING_SECONDS + STOP_SECONDS
"""Seconds in which a rollout that is called off has ended. It is `STOP_SECONDS` where no host is being changed."""


def has_settings_change(plan: Plan) -> bool:
    """Return True if a plan changes the settings of existing services; other changes are not part of a rollout."""
    made = {step.target for step in plan.steps if step.kind == "service" and step.action == "add"}
    return any(step.kind in _SETTINGS and step.target.partition(": ")[0] not in made for step in plan.steps)


def judge_result(egress: Egress, pass_result: PassResult, *, was_started: bool = False) -> HostResult:
    """Derive the host's result from a pass and the change that it made; with `was_started`, an earlier pass began it.

    A host that was not changed and matches the settings is `conforming`: a missing egress is reported separately.
    """
    was_started = was_started or pass_result.begun
    if isinstance(pass_result.error, Held | Overtaken | Superseded) or (pass_result.waiting and pass_result.error is None):
        return "untouched"
    if pass_result.error is not None:
        return "failed" if was_started else "untouched"
    fails = fetch.has_no_egress(egress, pass_result.fetched)
    if was_started:
        return "refuted" if fails else "passed"
    return "conforming" if pass_result.plan is not None and not pass_result.plan and not fails else "untouched"


def has_applied_settings(egress: Egress, pass_result: PassResult) -> bool:
    """Return True if a host has the settings after a pass and its fetch did not fail."""
    return pass_result.error is None and not pass_result.waiting and not fetch.has_no_egress(egress, pass_result.fetched)


class _RolloutGroup:
    """The hosts of one change: those that may be asked for, by their number."""

    def __init__(self, change: Hashable, targets: list[tuple[int, Target]], *, all_at_once: bool) -> None:
        self.change = change
        hosts = frozenset(target.instance.name for _, target in targets)
        self.turns = RolloutQueue(Rollout(hosts, all_at_once), first_alone=not all_at_once)
        self.pending = targets
        self.begun: set[str] = set()
        """Hosts that may have been changed."""

    def take_next(self) -> tuple[int, Target] | None:
        """Return the next host that may be connected."""
        while self.pending and not self.turns.halted:
            number, target = heapq.heappop(self.pending)
            if self.turns.request_read(target.instance.name, self._create_requeue_callback(number, target)):
                return number, target
        return None

    def create_admit_callback(self, number: int, target: Target) -> Admit:
        """Asked before a host is changed."""

        async def admit() -> bool:
            admitted = self.turns.admit(target.instance.name, self._create_requeue_callback(number, target))
            if admitted:
                self.begun.add(target.instance.name)
            return admitted

        return admit

    def _create_requeue_callback(self, number: int, target: Target) -> Callable[[], None]:
        return lambda: heapq.heappush(self.pending, (number, target))


async def roll_out(
    targets: Iterable[Target],
    run_pass: RunPass,
    *,
    max_concurrent: int,
    all_at_once: bool = False,
    report_stage: Callable[[Stage], None] = lambda _: None,
) -> AsyncIterator[tuple[Target, HostReport]]:
    """Each host with its report, once it is available; at most `max_concurrent` are connected to at a time.

    `report_stage` is called for each stage that begins. Cancellation ends the work on hosts that are not being changed, and
    gives the others `_FINISHING_SECONDS`. Hosts without a report by then are still yielded, before CancelledError is raised.
    """
    listed = list(enumerate(targets))
    unfinished = dict(listed)
    groups = _group_targets(listed, all_at_once=all_at_once)
    running: dict[asyncio.Future[PassResult], tuple[_RolloutGroup, int, Target]] = {}
    stages: set[Stage] = set()
    try:
        while True:
            for group in groups:
                while len(running) < max_concurrent and (chosen := group.take_next()) is not None:
                    number, target = chosen
                    running[asyncio.ensure_future(run_pass(target, group.create_admit_callback(number, target)))] = (
                        group,
                        number,
                        target,
                    )
            if not running:
                break
            done, _ = await asyncio.wait(running, timeout=READ_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if not done:
                for group, _, target in running.values():
                    group.turns.stop_waiting_for(target.instance.name)
            for task in done:
                group, number, target = running.pop(task)
                pass_result = get_result_or_default(task, lambda error: PassResult(error=error, begun=True))
                name = target.instance.name
                group.turns.record_result(name, judge_result(target.egress, pass_result))
                group.turns.release_turn(name)
                if not pass_result.waiting or pass_result.error is not None:
                    del unfinished[number]
                    yield target, build_host_report(target, pass_result)
            for stage in {group.turns.stage for group in groups if group.turns.has_differences} - stages:
                stages.add(stage)
                report_stage(stage)
        for group in groups:
            for _, target in sorted(unfinished.items(), key=lambda item: item[0]):
                if compute_settings_key(target.egress) == group.change:
                    yield target, build_host_report(target, PassResult()).as_skipped(format_halt_message(group.turns.state))
    except asyncio.CancelledError:
        being_changed = {task for task, (group, _, target) in running.items() if target.instance.name in group.begun}
        async for task in _cancel_all(running, being_changed):
            _, number, target = running[task]
            del unfinished[number]
            yield target, _build_stopped_report(target, task, was_started=task in being_changed)
        for target in unfinished.values():
            yield target, build_host_report(target, PassResult()).as_skipped(STOPPED)
        raise
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def _cancel_all(
    running: Iterable[asyncio.Future[_Result]], finishing: Container[asyncio.Future[_Result]]
) -> AsyncIterator[asyncio.Future[_Result]]:
    """Cancel what is running, and give each as it ends; those that are `finishing` have their time before."""
    left, clock = set(running), asyncio.get_running_loop().time
    for task in left:
        if task not in finishing:
            task.cancel()
    end, over = clock() + _FINISHING_SECONDS, False
    while left:
        seconds = None if over else max(end - clock(), 0.0)
        done, left = await asyncio.wait(left, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            yield task
        if not done:
            over = True
            for task in left:
                # the others were called off before: they clear up
                if task in finishing:
                    task.cancel()


def _build_stopped_report(target: Target, task: "asyncio.Future[PassResult]", *, was_started: bool) -> HostReport:
    """Return what is reported of a host whose work has ended after the rollout was called off."""
    if task.cancelled():
        return build_host_report(target, PassResult(error=Stopped("changing" if was_started else "reading"), begun=was_started))
    pass_result = get_result_or_default(task, lambda error: PassResult(error=error, begun=True))
    return (
        build_host_report(target, PassResult()).as_skipped(STOPPED)
        if pass_result.waiting
        else build_host_report(target, pass_result)
    )


def _group_targets(targets: Iterable[tuple[int, Target]], *, all_at_once: bool) -> list[_RolloutGroup]:
    groups: dict[Hashable, list[tuple[int, Target]]] = {}
    for number, target in targets:
        groups.setdefault(compute_settings_key(target.egress), []).append((number, target))
    return [_RolloutGroup(change, listed, all_at_once=all_at_once) for change, listed in groups.items()]


def get_result_or_default(done: asyncio.Future[_Result], build_default: Callable[[Fault], _Result]) -> _Result:
    """Return the result of a host's work; if it raised, the result of `build_default`."""
    try:
        return done.result()
    except Exception as error:  # noqa: BLE001  # one host's trouble is its own
        return build_default(build_fault(error))


async def run_concurrently(
    hosts: Iterable[_Host],
    work: Callable[[_Host], Awaitable[_Result]],
    max_concurrent: int = AT_ONCE,
    *,
    build_default: Callable[[_Host, Fault], _Result],
) -> AsyncIterator[tuple[_Host, _Result]]:
    """`work` for each host, at most `max_concurrent` at a time, each with its result once it is available.

    `work` turns a host's trouble into a result (as `HostPass.report` does); `build_default` says what the result is of a host
    for which it raised something all the same. Calling this off calls every host's work off; those that give a result all the
    same (`PassSettings.clears_when_stopped`) are still given, before CancelledError is raised.
    """
    waiting = iter(hosts)
    running: dict[asyncio.Future[_Result], _Host] = {}
    try:
        while True:
            while len(running) < max_concurrent and (host := next(waiting, None)) is not None:
                running[asyncio.ensure_future(work(host))] = host
            if not running:
                return
            done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                host = running.pop(task)
                yield host, get_result_or_default(task, lambda error, host=host: build_default(host, error))  # type: ignore[misc]
    except asyncio.CancelledError:
        async for task in _cancel_all(running, ()):
            if not task.cancelled():
                host = running[task]
                yield host, get_result_or_default(task, lambda error, host=host: build_default(host, error))  # type: ignore[misc]
        raise
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
