"""What `apply`, `diff` and `rollback` share: their options, which hosts they work on, and how they end."""

import fnmatch
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from transom.cli.completion import instances
from transom.cli.findings import Source
from transom.cli.options import OptionGroup, RequireHostKeys, log_to_stderr
from transom.cli.output import ExitCode, Format, fail, print_data, saying_on_ctrl_c, tell
from transom.cli.timeouts import CHANNEL, CONNECT, WHOLE, ChannelTimeout, ConnectTimeout, PassTimeout, timeouts

if TYPE_CHECKING:
    from transom.apply import Report
    from transom.apply.target import Target
    from transom.hosts.ssh import Timeouts

UNTOUCHED = "stopped by Ctrl-C before anything was done on a host"
_NAMED = 5
"""Hosts that a message names, of many."""


class HostOptions(OptionGroup, frozen=True):
    """Which of the hosts, and how they are worked on."""

    limit: Annotated[
        list[str] | None,
        typer.Option(
            "--limit",
            metavar="NAME",
            help="Only these hosts, by the names of their WindowsInstances: win-1,win-2 or 'win-*'; can be given again.",
            autocompletion=instances,
        ),
    ] = None
    selector: Annotated[
        str,
        typer.Option("--selector", "-l", metavar="LABELS", help="Only hosts whose WindowsInstance has these labels: env=prod."),
    ] = ""
    workers: Annotated[int, typer.Option("--workers", min=1, max=1024, help="Hosts worked on at once.")] = 32
    connect_timeout: ConnectTimeout = CONNECT
    channel_timeout: ChannelTimeout = CHANNEL
    pass_timeout: PassTimeout = WHOLE
    require_host_keys: RequireHostKeys = False

    @property
    def timeouts(self) -> "Timeouts":
        """How long things may take; ends the command where one is no duration."""
        return timeouts(self.connect_timeout, self.channel_timeout, self.pass_timeout)

    def chosen(self, targets: "Sequence[Target]") -> "list[Target]":
        """The targets that `--limit` and `-l` leave; ends the command where a name is nobody's."""
        from transom.proxy.labels import InvalidSelector, selector

        try:
            wanted = selector(self.selector)
        except InvalidSelector as error:
            fail(f"--selector: {error}")
        found = [target for target in targets if wanted.matches(target.instance.metadata.labels)]
        if self.selector and not found:
            fail(f"--selector: no WindowsInstance has the labels {self.selector}")
        if not self.limit:
            return found
        patterns = [name for text in self.limit for name in text.split(",") if name]
        names = [target.instance.name for target in found]
        for pattern in patterns:
            if not fnmatch.filter(names, pattern):
                fail(f"--limit: there is no WindowsInstance {pattern}; there {named(names)}")
        return [target for target in found if any(fnmatch.fnmatchcase(target.instance.name, one) for one in patterns)]


def named(names: Sequence[str]) -> str:
    """`is win-1`, `are win-1, win-2 and 3 more`, `is none`."""
    more = len(names) - _NAMED
    told = ", ".join(names[:_NAMED]) + (f" and {more:,} more" if more > 0 else "")
    return f"{'are' if len(names) > 1 else 'is'} {told or 'none'}"


def finished(work: "Coroutine[Any, Any, Report]", *, verbose: bool) -> "Report":
    """The report of work on hosts, which the first Ctrl-C ends in order and the second at once."""
    import asyncio

    log_to_stderr(verbose=verbose)
    with saying_on_ctrl_c(
        "stopped at once; what was begun on a host goes on there by itself: `transom diff` tells what is left"
    ):
        return asyncio.run(work)


def print_hosts(report: "Report", source: Source, output: Format, *, planned: bool) -> None:
    """A report on hosts; `planned`: what would be done. Where there are none, where they were looked for."""
    if output is not Format.TEXT:
        print_data(report, output)
    else:
        from transom.cli.tables import print_report

        print_report(report, planned=planned)
    if not report.hosts:
        place = " ".join(source.filename) if source.filename else f"namespace {source.own} of the cluster"
        tell(f"transom: there is no WindowsInstance in {place}")


def end(report: "Report", *, planned: bool) -> None:
    """End a command with the code that says how it came out."""
    if report.stopped:
        raise SystemExit(ExitCode.INTERRUPTED)
    if planned:
        if report.has("failed"):
            raise SystemExit(ExitCode.NOT_READ)
        if report.has("changed", "skipped"):
            raise SystemExit(ExitCode.NOT_DONE)
    elif report.has("failed", "skipped"):
        raise SystemExit(ExitCode.NOT_DONE)
