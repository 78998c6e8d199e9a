"""Hosts brought to their settings as `apply` does it: the readiness endpoints first, then a canary, a tenth, and all."""

from collections.abc import Awaitable, Callable, Hashable
from typing import Final

import msgspec

from transom.cli.passed import PassedSettings
from transom.cli.progress import Progress
from transom.cli.state import directory, host_keys, settings
from transom.controllers.egress.status import readiness
from transom.controllers.windows.earlier_keys import moving
from transom.controllers.windows.hosts import Target, Work, passing, reporting
from transom.controllers.windows.report import HostReport, Report
from transom.controllers.windows.rollout import change_of, roll_out
from transom.hosts.connection import Timeouts
from transom.hosts.fleet import side_by_side
from transom.hosts.passes import PassResult
from transom.readiness import failures, probe
from transom.windows.rollout import Stage

_SAID: Final[dict[Stage, str]] = {
    "tenth": "the first host is well: a tenth of the hosts follows",
    "all": "all the others follow",
    "halted": "the rollout stopped: no further host is changed",
}


async def carry_out(targets: list[Target], *, workers: int, timeouts: Timeouts, all_at_once: bool) -> Report:
    """Change the hosts that differ, each when it is its turn."""
    made, known = settings(timeouts), host_keys()
    work = moving(passing(known, made), known, made)
    waits = await _held_back(targets)
    free = [target for target in targets if change_of(target.egress) not in waits]
    held = [target for target in targets if change_of(target.egress) in waits]
    found: dict[str, HostReport] = {}
    with Progress(len(targets), "done") as progress:

        def told(stage: Stage) -> None:
            if stage in _SAID and len(free) > 1 and not all_at_once:
                progress.say(_SAID[stage])

        async for target, report in roll_out(
            free, _remembering(work, progress), at_once=workers, all_at_once=all_at_once, told=told
        ):
            found[target.instance.place.object] = report
            progress.done(report)
        async for target, compared in side_by_side(held, _comparing(timeouts), workers):
            report = compared
            if report.result == "changed":
                report = msgspec.structs.replace(report, result="failed", error=waits[change_of(target.egress)])
            found[target.instance.place.object] = report
            progress.done(report)
    return Report(tuple(found[target.instance.place.object] for target in targets))


def _remembering(work: Work, progress: Progress) -> Work:
    """The same passes; what hosts are well with is kept for `transom rollback`. That it cannot be is no trouble of a host."""
    passed = PassedSettings(directory())

    async def remembered(target: Target, admit: Callable[[], bool]) -> PassResult:
        found = await work(target, admit)
        try:
            passed.note(target, found)
        except OSError as error:
            progress.warn(f"{error.filename or directory()}: {error.strerror}: `transom rollback` will not know these settings")
        return found

    return remembered


async def compare(targets: list[Target], *, workers: int, timeouts: Timeouts) -> Report:
    """What would be changed."""
    found: dict[str, HostReport] = {}
    with Progress(len(targets), "compared") as progress:
        async for target, report in side_by_side(targets, _comparing(timeouts), workers):
            found[target.instance.place.object] = report
            progress.done(report)
    return Report(tuple(found[target.instance.place.object] for target in targets))


def _comparing(timeouts: Timeouts) -> Callable[[Target], Awaitable[HostReport]]:
    made, known = settings(timeouts), host_keys()
    return reporting(moving(passing(known, made, dry_run=True), known, made, dry_run=True), dry_run=True)


async def _held_back(targets: list[Target]) -> dict[Hashable, str]:
    """Why the change of some settings must wait: their endpoints do not answer through them."""
    found: dict[Hashable, str] = {}
    gated = {
        change_of(one.egress): one.egress
        for one in targets
        if one.egress.readiness_endpoints and one.egress.readiness_policy == "Gate"
    }
    for change, egress in gated.items():
        answers = await probe(egress)
        if failures(answers):
            found[change] = f"not changed: {readiness(answers).message} (readinessPolicy: Report changes it all the same)"
    return found
