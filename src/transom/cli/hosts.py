"""What `apply`, `diff` and `rollback` share: their options, which hosts they work on, and how they end."""

from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from transom.cli.completion import complete_instance
from transom.cli.findings import Source
from transom.cli.host_names import describe_unknown, select_names
from transom.cli.messages import print_to_stderr
from transom.cli.options import HostSelector, OptionGroup, RequireHostKeys, log_to_stderr
from transom.cli.output import ExitCode, Format, fail, print_data
from transom.cli.stopping import StoppedAtOnce, mark_stop_reported, protect_output, run_until_stopped
from transom.cli.timeouts import (
    CHANNEL,
    CONNECT,
    LOGIN,
    SERVICE,
    WHOLE,
    ChannelTimeout,
    ConnectTimeout,
    LoginTimeout,
    PassTimeout,
    ServiceTimeout,
    parse_timeouts,
)

if TYPE_CHECKING:
    from transom.apply.report import Report
    from transom.apply.target import Target
    from transom.hosts.ssh.ssh_client import Timeouts

UNTOUCHED = "before anything was done on a host"
"""When a command was stopped, for `exit_when_stopped`."""


class HostOptions(OptionGroup, frozen=True):
    """Which of the hosts, and how they are worked on."""

    limit: Annotated[
        list[str] | None,
        typer.Option(
            "--limit",
            metavar="NAME",
            help="Select hosts by name of the WindowsInstance: win-1,win-2 or 'win-*'. Repeatable.",
            autocompletion=complete_instance,
        ),
    ] = None
    selector: HostSelector = ""
    workers: Annotated[int, typer.Option("--workers", min=1, max=1024, help="Maximum number of hosts at a time.")] = 32
    connect_timeout: ConnectTimeout = CONNECT
    login_timeout: LoginTimeout = LOGIN
    channel_timeout: ChannelTimeout = CHANNEL
    pass_timeout: PassTimeout = WHOLE
    service_timeout: ServiceTimeout = SERVICE
    require_host_keys: RequireHostKeys = False

    @property
    def timeouts(self) -> "Timeouts":
        """The limits of time; an invalid duration ends the command."""
        return parse_timeouts(
            self.connect_timeout, self.login_timeout, self.channel_timeout, self.pass_timeout, self.service_timeout
        )

    def select_targets(self, targets: "Sequence[Target]") -> "list[Target]":
        """Return the targets that `--limit` and `-l` select; end the command if a name matches no host."""
        from transom.proxy.labels import InvalidSelector, parse_selector

        try:
            wanted = parse_selector(self.selector)
        except InvalidSelector as error:
            fail(f"--selector: {error}")
        selected = [target for target in targets if wanted.matches(target.instance.metadata.labels)]
        if self.selector and not selected:
            fail(f"--selector: no WindowsInstance has the labels {self.selector}")
        if self.limit is None:
            return selected
        names = [target.instance.name for target in selected]
        selection = select_names(names, self.limit)
        if selection.unknown:
            fail(f"--limit: {describe_unknown(selection.unknown, names)}")
        return [target for target in selected if target.instance.name in selection.names]


def run_host_command(work: "Coroutine[Any, Any, Report]", *, verbose: bool) -> "Report":
    """Run work on hosts and return its report. The first signal ends it in order, the second at once."""
    from transom.apply.report import Report

    log_to_stderr(verbose=verbose)
    try:
        return run_until_stopped(work, reports=True)
    except StoppedAtOnce as cut:
        if isinstance(cut.result, Report):
            return cut.result
        raise


def print_hosts(report: "Report", source: Source, output: Format, *, planned: bool) -> None:
    """Print a report on hosts, or where they were searched. `planned`: the report is of a dry run."""
    with protect_output():
        if output is not Format.TEXT:
            print_data(report, output)
        else:
            from transom.cli.tables import print_report

            print_report(report, planned=planned)
    if not report.hosts:
        place = " ".join(source.filename) if source.filename else f"namespace {source.effective_namespace} of the cluster"
        print_to_stderr(f"transom: no WindowsInstance exists in {place}")


def exit_with_result(report: "Report", *, planned: bool) -> None:
    """End a command with the code that says how it came out."""
    if report.stopped:
        mark_stop_reported()
        raise SystemExit(ExitCode.INTERRUPTED)
    if planned:
        # a host that was skipped was not compared: that nothing differs is not known of it
        if report.has("failed", "skipped"):
            raise SystemExit(ExitCode.NOT_READ)
        if report.has("changed"):
            raise SystemExit(ExitCode.NOT_DONE)
    elif report.has("failed", "skipped"):
        raise SystemExit(ExitCode.NOT_DONE)
