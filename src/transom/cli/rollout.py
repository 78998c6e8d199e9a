"""Hosts brought to their settings as `apply` does it: the readiness endpoints first, then a canary, a tenth, and all."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from types import TracebackType
from typing import Final

from transom.apply import STOPPED, HostReport, Report
from transom.apply.roll_out import change_of, roll_out, side_by_side
from transom.apply.target import Target, Work, moving, passing, report_of, reporting
from transom.cli.hosts import HostOptions
from transom.cli.last_known import Command, LastKnown
from transom.cli.progress import Progress
from transom.cli.state import PassedFiles, directory, host_keys, settings
from transom.controllers.egress.status import readiness
from transom.hosts.errors import Fault
from transom.hosts.passes import Admit, PassResult
from transom.readiness import failures, probe
from transom.windows.ledger import Manager
from transom.windows.nodes.rollout import Stage

_SAID: Final[dict[Stage, str]] = {
    "tenth": "the first host is healthy: a tenth of the hosts follows",
    "all": "all the others follow",
    "halted": "the rollout stopped: no further host is changed",
}
_AWAITED: Final[dict[Stage, str]] = {
    "canary": "the others wait for the first host",
    "tenth": "the others wait for a tenth of the hosts",
}


async def carry_out(targets: list[Target], options: HostOptions, manager: Manager, *, all_at_once: bool) -> Report:
    """Change the hosts that differ, each when it is its turn."""
    made, known = settings(options.timeouts, manager), host_keys(required=options.require_host_keys)
    work = moving(passing(known, made), known, made)
    with Progress(len(targets), "done") as progress:
        collected = CollectedReports(targets, progress, "apply")
        async with collected:
            waits = await _held_back(targets)
            free = [target for target in targets if change_of(target.egress) not in waits]
            waiting = [target for target in targets if change_of(target.egress) in waits]

            def told(stage: Stage) -> None:
                if len(free) > 1 and not all_at_once:
                    progress.wait_for(_AWAITED.get(stage, ""))
                    if stage in _SAID:
                        progress.say(_SAID[stage])

            watched = progress.watching(_remembering(work, progress))
            async for target, report in roll_out(free, watched, at_once=options.workers, all_at_once=all_at_once, told=told):
                collected.add(target, report)
            async for target, report in side_by_side(
                waiting, _comparing(options, manager, progress), options.workers, otherwise=_faulty
            ):
                said = report.skip(waits[change_of(target.egress)]) if report.result == "changed" else report
                collected.add(target, said)
    return collected.report


async def put_back(targets: list[Target], options: HostOptions, manager: Manager) -> Report:
    """Change the hosts, without one waiting for another: those that are not healthy must not."""
    work = passing(host_keys(required=options.require_host_keys), settings(options.timeouts, manager))
    with Progress(len(targets), "rolled back") as progress:
        collected = CollectedReports(targets, progress, "rollback")
        async with collected:
            async for target, report in roll_out(targets, progress.watching(work), at_once=options.workers, all_at_once=True):
                collected.add(target, report)
    return collected.report


async def compare(targets: list[Target], options: HostOptions, manager: Manager) -> Report:
    """What would be changed."""
    with Progress(len(targets), "compared") as progress:
        collected = CollectedReports(targets, progress, "diff")
        async with collected:
            async for target, report in side_by_side(
                targets, _comparing(options, manager, progress), options.workers, otherwise=_faulty
            ):
                collected.add(target, report)
    return collected.report


class CollectedReports:
    """The reports of hosts as they come. A Ctrl-C in the block ends it; hosts without a report by then were not reached."""

    def __init__(self, targets: Sequence[Target], progress: Progress, command: Command) -> None:
        self._targets, self._progress, self._command = targets, progress, command
        self._kept = LastKnown(directory())
        self._found: dict[str, HostReport] = {}
        self._stopped = False

    async def __aenter__(self) -> None:
        return

    async def __aexit__(self, kind: type[BaseException] | None, _e: BaseException | None, _tb: TracebackType | None) -> bool:
        self._stopped = kind is not None and issubclass(kind, asyncio.CancelledError)
        return self._stopped

    def add(self, target: Target, report: HostReport) -> None:
        """One host more."""
        self._found[target.instance.place.object] = report
        self._progress.done(report)
        if report.error == STOPPED:
            return
        try:
            self._kept.note(target, report, self._command)
        except OSError as error:
            self._progress.warn(f"{error.filename or directory()}: {error.strerror}: `transom status -f` will not know of it")

    @property
    def report(self) -> Report:
        """All hosts, in the order of the targets."""
        hosts = (
            self._found.get(target.instance.place.object) or report_of(target, PassResult()).skip(STOPPED)
            for target in self._targets
        )
        return Report(tuple(hosts), self._stopped)


def _remembering(work: Work, progress: Progress) -> Work:
    """The same passes; what hosts are healthy with is kept for `transom rollback`. No host fails for want of that."""
    passed = PassedFiles(directory())

    async def remembered(target: Target, admit: Admit) -> PassResult:
        found = await work(target, admit)
        try:
            passed.note(target, found)
        except OSError as error:
            progress.warn(f"{error.filename or directory()}: {error.strerror}: `transom rollback` will not know these settings")
        return found

    return remembered


def _comparing(options: HostOptions, manager: Manager, progress: Progress) -> Callable[[Target], Awaitable[HostReport]]:
    made, known = settings(options.timeouts, manager), host_keys(required=options.require_host_keys)
    work = moving(passing(known, made, dry_run=True), known, made, dry_run=True)
    return reporting(progress.watching(work), dry_run=True)


def _faulty(target: Target, error: Fault) -> HostReport:
    return report_of(target, PassResult(error=error), dry_run=True)


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
