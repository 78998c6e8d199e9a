"""Reports for people: one line for each host, and a table of what changed where and why."""

import sys

from rich.console import Console
from rich.table import Table
from rich.text import Text

from transom.cli.report import HostReport, Report

_STYLE = {"unchanged": "green", "changed": "yellow", "failed": "red"}


def console() -> Console:
    """Where tables go: stdout; colours only on a terminal, and never with NO_COLOR; full lines into a file or a pipe."""
    width = None if sys.stdout.isatty() else 160
    return Console(width=width, highlight=False, emoji=False, markup=False)


def print_report(report: Report, *, planned: bool) -> None:
    """The hosts in order; `planned` for `diff`, which only says what would be done."""
    out = console()
    for host in report.hosts:
        out.print(_headline(host, planned=planned))
        if host.changes:
            out.print(_changes(host))
        for warning in host.warnings:
            out.print(Text(f"  warning: {warning}", "yellow"))
        if host.error:
            out.print(Text(f"  {host.error}", "red"))
    out.print(_totals(report, planned=planned))


def _headline(host: HostReport, *, planned: bool) -> Text:
    words = {"unchanged": "unchanged", "changed": "would change" if planned else "changed", "failed": "failed"}
    line = Text.assemble((host.name, "bold"), f" ({host.address})  ", (words[host.result], _STYLE[host.result]))
    if host.restarted:
        line.append(f", restarted {', '.join(host.restarted)}")
    line.append(f"  {host.seconds:.1f} s, {host.channels} channels", "dim")
    return line


def _changes(host: HostReport) -> Table:
    table = Table(box=None, padding=(0, 2), pad_edge=True, header_style="dim")
    for heading in ("WHAT", "WHERE", "CHANGE", "WHY"):
        table.add_column(heading, overflow="fold")
    for change in host.changes:
        table.add_row(change.kind, change.target, change.action, change.reason)
    return table


def _totals(report: Report, *, planned: bool) -> Text:
    counts = {result: sum(host.result == result for host in report.hosts) for result in _STYLE}
    words = {"unchanged": "unchanged", "changed": "would change" if planned else "changed", "failed": "failed"}
    parts = [f"{count} {words[result]}" for result, count in counts.items() if count]
    hosts = "1 host" if len(report.hosts) == 1 else f"{len(report.hosts)} hosts"
    return Text(f"{hosts}: {', '.join(parts)}" if parts else "no hosts in these manifests: nothing to do", "bold")
