"""The report of `apply`, `diff` and `rollback` on each host: JSON, and text for people."""

from collections.abc import Mapping, Sequence
from typing import Final, Literal

import msgspec

from transom.apply.target import Target
from transom.hosts.errors import ManagedByOther, Stopped
from transom.hosts.passes.base_pass import PassResult
from transom.windows.host.host_state import Step
from transom.windows.nodes import fetch
from transom.windows.parts import environment_items, trust

Result = Literal["unchanged", "changed", "failed", "skipped"]
"""`skipped`: nothing was done to the host, which is nothing that went wrong on it; `error` says why."""
STOPPED: Final = "stopped before its turn; nothing was changed"
STOPPED_AT_ONCE: Final = "stopped at once while Transom connected to the host or read it; nothing was changed"
CHANGE_CUT: Final = (
    "stopped at once while the host was changed: the change may be incomplete; `transom diff` shows what is left, and the same "
    "command again completes it"
)


class HostReport(msgspec.Struct, frozen=True):
    """One host: what was done (`apply`) or would be (`diff`), and what went wrong, or why nothing was done (`skipped`)."""

    name: str
    address: str
    result: Result
    changes: tuple[Step, ...] = ()
    restarted: tuple[str, ...] = ()
    channels: int = 0
    seconds: float = 0.0
    error: str | None = None
    warnings: tuple[str, ...] = ()
    reason: str = ""
    """The kind of the error, from `transom.reasons`; empty without an error."""

    @property
    def is_stopped(self) -> bool:
        """Whether nothing was done, or read, since the command was stopped."""
        return self.result == "skipped" and (self.error or "").startswith("stopped ")

    def as_skipped(self, why: str) -> "HostReport":
        """Return a report on the same host, to which nothing was done."""
        return msgspec.structs.replace(self, result="skipped", error=why)


class Report(msgspec.Struct, frozen=True):
    """All hosts of a command; `stopped`: a signal ended it before all were done."""

    hosts: tuple[HostReport, ...]
    stopped: bool = False

    def has(self, *results: Result) -> bool:
        """Return True if a host has one of these results."""
        return any(host.result in results for host in self.hosts)


ROLLBACK_REASONS: Final = {
    environment_items.CHANGED: "the former settings differ",
    environment_items.REMOVED: "not in the former settings",
    trust.REMOVED: "not in the former trust bundle",
    trust.ADDED: "in the former trust bundle",
}
"""The reason of a change by `transom rollback`, for the reason of the same change by `transom apply`."""
REMOVAL_REASONS: Final = {
    environment_items.REMOVED: "removed by --remove",
    trust.REMOVED: "removed by --remove",
}
"""The reason of a change by `transom apply --remove`, likewise."""


def replace_change_reasons(report: HostReport, reasons: Mapping[str, str]) -> HostReport:
    """Return a report in which reasons that begin with a key of `reasons` begin with its value."""

    def replace(step: Step) -> Step:
        old = next((reason for reason in reasons if step.reason.startswith(reason)), None)
        if old is None:
            return step
        return msgspec.structs.replace(step, reason=reasons[old] + step.reason.removeprefix(old))

    return msgspec.structs.replace(report, changes=tuple(map(replace, report.changes)))


def merge_reports(targets: Sequence[Target], skipped: Mapping[str, HostReport], finished: Report) -> Report:
    """Return one report on all targets, in their order.

    `skipped` are reports by the object of the instance; `finished` has the other targets' reports, in their order.
    """
    rest = iter(finished.hosts)
    hosts = tuple(skipped.get(target.instance.place.object) or next(rest) for target in targets)
    return Report(hosts, finished.stopped)


def build_host_report(target: Target, result: PassResult, *, dry_run: bool = False) -> HostReport:
    """Return the report of a pass over a host; with `dry_run` the report says what a real pass would do.

    A host without egress with its new settings has failed, even if the pass has no error.
    """
    error = result.error
    word: Result
    if isinstance(error, Stopped) and error.stage != "changing":
        result = PassResult(error=error, channels=result.channels, seconds=result.seconds)
        word = "skipped"
    else:
        word = "skipped" if isinstance(error, ManagedByOther) else result.result
    message = str(error) if error else None
    egress_state = fetch.build_fetch_result(target.egress, result.fetched)
    if error is None and result.begun and egress_state.works == "False":
        word, message = "failed", f"the change was carried out, and the host has no egress: {egress_state.message}"
    if target.instance.spec.paused:
        word, message = "skipped", "spec.paused is set: not connected to"
    return HostReport(
        name=target.instance.name,
        address=target.instance.spec.address,
        result=word,
        changes=(*result.first, *(result.plan.steps if result.plan else ())),
        restarted=() if dry_run else result.restarted,
        channels=result.channels,
        seconds=round(result.seconds, 3),
        error=message,
        warnings=result.plan.warnings if result.plan is not None else (),
        reason=type(error).__name__ if error is not None and not target.instance.spec.paused else "",
    )
