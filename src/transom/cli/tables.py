"""Reports for people: one line for each host, and a table of what changed where and why."""

import sys
from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from transom.controllers.windows.report import HostReport, Report

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
    return Text(f"{hosts}: {', '.join(parts)}" if parts else "no hosts: nothing to do", "bold")


def print_facts(hosts: Iterable[dict[str, Any]]) -> None:
    """What hosts look like, in the shape of `transom.cli.facts.view`."""
    out = console()
    for host in hosts:
        out.print(Text.assemble((host["address"], "bold"), f"  {host['computerName']}  Windows {host['osVersion']}".rstrip()))
        table = Table(box=None, padding=(0, 2), pad_edge=True, header_style="dim")
        for heading in ("SERVICE", "STATE", "START", "VARIABLE", "VALUE"):
            table.add_column(heading, overflow="fold")
        for name, service in host["services"].items():
            variables = list(service["environment"].items()) or [("", "")]
            for at, (variable, value) in enumerate(variables):
                head = (name, service["state"], service["start"]) if at == 0 else ("", "", "")
                table.add_row(*head, variable, value)
        proxies = {name: value for name, value in host["environment"].items() if name.upper().endswith("_PROXY")}
        for name, value in proxies.items():
            table.add_row("(machine)", "", "", name, value)
        out.print(table)
        for store, held in host["certificates"].items():
            ours = {sha1 for sha1, how in host["ledger"].get("certificates", {}).get(store, {}).items() if how == "added"}
            out.print(f"  {store}: {len(held)} certificates, {len(ours)} of them Transom's")
            for sha1 in sorted(ours):
                out.print(f"    {sha1}")
        if not host["ledger"]:
            out.print("  nothing on this host is Transom's")
        elif host["ledger"]["restarts"]:
            out.print(f"  restarts owed: {', '.join(host['ledger']['restarts'])}")
