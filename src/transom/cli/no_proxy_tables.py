"""What programs make of a NO_PROXY list, as tables of at most 100 columns."""

import os
import sys
from collections.abc import Iterable, Sequence

from rich.table import Table
from rich.text import Text

from transom.cli.terminal import Terminal
from transom.proxy.clients import CLIENTS
from transom.proxy.clients.decision import Decision
from transom.proxy.clients.lint import LintFinding

_WIDTH = 100
_WORD = {True: ("bypasses", "yellow"), False: ("proxy", "green"), None: ("fails", "red")}


def _console() -> Terminal:
    """Stdout, at most 100 columns wide."""
    width = min(_WIDTH, os.get_terminal_size().columns) if sys.stdout.isatty() else _WIDTH
    return Terminal(width=max(40, width))


def _table(*headings: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table


def print_families(decisions: Iterable[Decision]) -> None:
    """One table a URL: the families of clients below each other, who bypasses and who does not side by side."""
    out = _console()
    by_url: dict[str, dict[str, list[Decision]]] = {}
    for decision in decisions:
        by_url.setdefault(decision.url, {}).setdefault(CLIENTS[decision.client].family, []).append(decision)
    for url, families in by_url.items():
        out.print(Text(url, "bold"))
        table = _table("FAMILY", "BYPASS THE PROXY", "GO THROUGH IT", "FAIL", "BECAUSE OF")
        table.columns[0].no_wrap = True
        for family, members in families.items():
            cells = [
                Text(", ".join(one.client for one in members if one.bypass is result), _WORD[result][1]) for result in _WORD
            ]
            items = dict.fromkeys(one.item or "(no item)" for one in members if one.bypass is not False)
            table.add_row(family, *cells, ", ".join(items))
        out.print(table)


def print_decisions(decisions: Iterable[Decision]) -> None:
    """One line a decision."""
    table = _table("CLIENT", "URL", "DOES", "ITEM", "WHY")
    for one in decisions:
        table.add_row(one.client, one.url, Text(*_WORD[one.bypass]), "" if one.item is None else one.item, one.reason)
    _console().print(table)


def print_lint(findings: Sequence[LintFinding], clients: Sequence[str]) -> None:
    """The findings in the order of the list, then for whom the list was judged."""
    out = _console()
    if findings:
        table = _table("ITEM", "NO.", "CLIENTS", "PROBLEM", "INSTEAD")
        for one in findings:
            instead = Text("no safer form", "dim") if one.instead is None else Text(one.instead or "leave it out", "green")
            table.add_row(one.item, str(one.position), ", ".join(one.clients), one.problem, instead)
        out.print(table)
    problems = "nothing found" if not findings else f"{len(findings)} problem{'' if len(findings) == 1 else 's'}"
    out.print(f"{problems}; judged for {', '.join(clients)}")
