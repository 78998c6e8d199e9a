"""Hosts brought to their settings as `apply` does it: the readiness endpoints first, then a canary, a tenth, and all."""

import asyncio
from collections.abc import Hashable, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Final

from transom.apply.host_pass import HostPass, PassObserver
from transom.apply.report import STOPPED, HostReport, Report, build_host_report
from transom.apply.roll_out import roll_out, run_concurrently
from transom.apply.target import Target
from transom.cli.host_records import Command, HostRecords
from transom.cli.hosts import HostOptions
from transom.cli.progress import Progress
from transom.cli.state import HealthySettingsStore, build_pass_settings, create_directory, open_host_keys
from transom.cli.stopping import register_stop_plan
from transom.controllers.egress.status import build_endpoints_condition
from transom.hosts.errors import Fault
from transom.hosts.passes.base_pass import PassResult
from transom.http.readiness import has_failures, probe
from transom.rollout.fingerprint import compute_settings_key
from transom.rollout.state import Stage
from transom.windows.ledger import Manager

_SAID: Final[dict[Stage, str]] = {
    "tenth": "the first host is healthy: a tenth of the hosts is next",
    "all": "all other hosts are next",
    "halted": "the rollout stopped: no further host is changed",
}
_AWAITED: Final[dict[Stage, str]] = {
    "canary": "the others wait for the first host",
    "tenth": "the others wait for a tenth of the hosts",
}


class SettingsRecorder(PassObserver):
    """Records the settings that hosts are healthy with, for `transom rollback`. A host does not fail if that fails."""

    def __init__(self, progress: Progress) -> None:
        self._progress, self._passed = progress, HealthySettingsStore(create_directory())

    def on_end(self, target: Target, result: PassResult | None) -> None:
        """Record what a pass has proved."""
        if result is None:
            return
        try:
            self._passed.record_settings(target, result)
        except OSError as error:
            place = error.filename or create_directory()
            self._progress.warn(f"{place}: {error.strerror}: `transom rollback` will not know these settings")


async def apply_settings(targets: list[Target], options: HostOptions, manager: Manager, *, all_at_once: bool) -> Report:
    """Change the hosts that differ, each when it is its turn."""
    host_pass = _build_pass(options, manager, migrate_keys=True)
    with Progress(len(targets), "done") as progress:
        changing = replace(host_pass, observers=(progress, SettingsRecorder(progress)))
        comparing = replace(host_pass, observers=(progress,), dry_run=True)
        collected = CollectedReports(targets, progress, "apply")
        async with collected:
            waits = await _find_gated_settings(targets)
            free = [target for target in targets if compute_settings_key(target.egress) not in waits]
            waiting = [target for target in targets if compute_settings_key(target.egress) in waits]

            def print_stage(stage: Stage) -> None:
                if len(free) > 1 and not all_at_once:
                    progress.set_wait_reason(_AWAITED.get(stage, ""))
                    if stage in _SAID:
                        progress.print_line(_SAID[stage])

            reports = roll_out(
                free, changing.run, max_concurrent=options.workers, all_at_once=all_at_once, report_stage=print_stage
            )
            async for target, report in reports:
                collected.add_report(target, report)
            comparisons = run_concurrently(
                waiting, comparing.run_and_report, options.workers, build_default=_build_fault_report
            )
            async for target, report in comparisons:
                skipped = (
                    report.as_skipped(waits[compute_settings_key(target.egress)]) if report.result == "changed" else report
                )
                collected.add_report(target, skipped)
    return collected.report


async def roll_back_settings(targets: list[Target], options: HostOptions, manager: Manager) -> Report:
    """Change the hosts, without one waiting for another: those that are not healthy must not."""
    host_pass = _build_pass(options, manager)
    with Progress(len(targets), "rolled back") as progress:
        observed = replace(host_pass, observers=(progress,))
        collected = CollectedReports(targets, progress, "rollback")
        async with collected:
            async for target, report in roll_out(targets, observed.run, max_concurrent=options.workers, all_at_once=True):
                collected.add_report(target, report)
    return collected.report


async def compare_hosts(
    targets: list[Target], options: HostOptions, manager: Manager, *, recorded_as: Command | None = "diff"
) -> Report:
    """Return a report of what would be changed. `recorded_as` is the command in the records of hosts; None records nothing."""
    host_pass = _build_pass(options, manager, dry_run=True, migrate_keys=True)
    with Progress(len(targets), "compared") as progress:
        observed = replace(host_pass, observers=(progress,))
        collected = CollectedReports(targets, progress, recorded_as)
        async with collected:
            comparisons = run_concurrently(targets, observed.run_and_report, options.workers, build_default=_build_fault_report)
            async for target, report in comparisons:
                collected.add_report(target, report)
    return collected.report


def _build_pass(options: HostOptions, manager: Manager, *, dry_run: bool = False, migrate_keys: bool = False) -> HostPass:
    """Return the passes of this person's command."""
    pass_settings, known_hosts = (
        build_pass_settings(options.timeouts, manager),
        open_host_keys(required=options.require_host_keys),
    )
    return HostPass(known_hosts, pass_settings, dry_run=dry_run, migrate_keys=migrate_keys)


class CollectedReports:
    """The reports of hosts as they come. A signal in the block ends it; hosts without a report by then were not reached."""

    def __init__(self, targets: Sequence[Target], progress: Progress, command: Command | None) -> None:
        self._targets, self._progress, self._command = targets, progress, command
        self._kept = HostRecords(create_directory())
        self._found: dict[str, HostReport] = {}
        self._stopped = False
        self._described = register_stop_plan(progress.build_stop_plan, self._build_interrupted_report)

    async def __aenter__(self) -> None:
        self._described.__enter__()

    async def __aexit__(self, kind: type[BaseException] | None, _e: BaseException | None, _tb: TracebackType | None) -> bool:
        self._described.__exit__(None, None, None)
        self._stopped = kind is not None and issubclass(kind, asyncio.CancelledError)
        return self._stopped

    def _build_interrupted_report(self) -> Report:
        """All hosts at this moment, in which everything is left."""
        self._progress.hide_bar()
        for target in self._targets:
            if target.instance.place.object not in self._found:
                self.add_report(target, self._progress.build_interrupted_report(build_host_report(target, PassResult())))
        self._stopped = True
        return self.report

    def add_report(self, target: Target, report: HostReport) -> None:
        """One host more."""
        self._found[target.instance.place.object] = report
        self._progress.print_host_result(report)
        if report.is_stopped or self._command is None:
            # what is known of it is from before
            return
        try:
            self._kept.record_result(target, report, self._command)
        except OSError as error:
            self._progress.warn(
                f"{error.filename or create_directory()}: {error.strerror}: `transom status -f` will not know of it"
            )

    @property
    def report(self) -> Report:
        """All hosts, in the order of the targets."""
        hosts = (
            self._found.get(target.instance.place.object) or build_host_report(target, PassResult()).as_skipped(STOPPED)
            for target in self._targets
        )
        return Report(tuple(hosts), self._stopped)


def _build_fault_report(target: Target, error: Fault) -> HostReport:
    return build_host_report(target, PassResult(error=error), dry_run=True)


async def _find_gated_settings(targets: list[Target]) -> dict[Hashable, str]:
    """Return why the change of some settings must wait: their endpoints do not answer through them."""
    reasons: dict[Hashable, str] = {}
    gated = {
        compute_settings_key(target.egress): target.egress
        for target in targets
        if target.egress.readiness_endpoints and target.egress.readiness_policy == "Gate"
    }
    for change, egress in gated.items():
        answers = await probe(egress)
        if has_failures(answers):
            reasons[change] = (
                f"not changed: {build_endpoints_condition(answers).message}; "
                "to apply anyway, set spec.readinessPolicy to Report"
            )
    return reasons
