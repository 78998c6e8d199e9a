"""What programs make of a NO_PROXY list, as tables of at most 100 columns."""

import os
import sys
from collections.abc import Iterable, Mapping, Sequence

from rich.segment import Segment, Segments
from rich.table import Table
from rich.text import Text

from transom.cli.terminal import Terminal
from transom.proxy.clients.decision import Decision
from transom.proxy.clients.lint import LintFinding
from transom.proxy.clients.profile import ClientProfile

_WIDTH = 100
_WORD = {True: ("bypasses", "yellow"), False: ("proxy", "green"), None: ("fails", "red")}


def _create_console() -> Terminal:
    """Create a console on stdout, at most 100 columns wide."""
    width = min(_WIDTH, os.get_terminal_size().columns) if sys.stdout.isatty() else _WIDTH
    return Terminal(width=max(40, width))


def _create_table(*headings: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table


def print_decisions_by_family(decisions: Iterable[Decision], rows: Iterable[ClientProfile]) -> None:
    """One table a URL: the families of clients below each other, who bypasses and who does not side by side."""
    out = _create_console()
    family_of = {row.name: row.family for row in rows}
    by_url: dict[str, dict[str, list[Decision]]] = {}
    for decision in decisions:
        by_url.setdefault(decision.url, {}).setdefault(family_of[decision.client], []).append(decision)
    for url, families in by_url.items():
        out.print(Text(url, "bold"))
        table = _create_table("FAMILY", "BYPASS THE PROXY", "GO THROUGH IT", "FAIL", "BECAUSE OF")
        table.columns[0].no_wrap = True
        for family, members in families.items():
            for number, (cause, alike) in enumerate(_group_by_cause(members).items()):
                cells = [
                    Text(", ".join(item.client for item in alike if item.bypass is result), _WORD[result][1])
                    for result in _WORD
                ]
                table.add_row("" if number else family, *cells, cause)
        _print_table(out, table)


def _group_by_cause(members: Iterable[Decision]) -> dict[str, list[Decision]]:
    """Return the clients of a family by the item that decides, or, without one, by the reason; proxied ones need none."""
    proxied = [member for member in members if member.bypass is False]
    causes: dict[str, list[Decision]] = {}
    for item in members:
        if item.bypass is not False:
            causes.setdefault(item.item or item.reason, []).append(item)
    if not causes:
        return {"": proxied}
    first = next(iter(causes))
    return {cause: [*alike, *(proxied if cause == first else ())] for cause, alike in causes.items()}


def _print_table(out: Terminal, table: Table) -> None:
    """Print a table without trailing spaces."""
    for line in out.render_lines(table, pad=False):
        while line and not line[-1].text.strip():
            line.pop()
        if line:
            line[-1] = Segment(line[-1].text.rstrip(), line[-1].style)
        out.print(Segments([*line, Segment.line()]), end="", soft_wrap=True)


def print_decisions(decisions: Iterable[Decision], rows: Iterable[ClientProfile]) -> None:
    """One line per decision, with the versions to which it applies."""
    titles = {row.name: row.full_title for row in rows}
    table = _create_table("CLIENT", "VERSIONS", "URL", "DOES", "ITEM", "WHY")
    for decision in decisions:
        item = "" if decision.item is None else decision.item
        table.add_row(
            decision.client, titles[decision.client], decision.url, Text(*_WORD[decision.bypass]), item, decision.reason
        )
    _print_table(_create_console(), table)


_LEVEL = {"error": "red", "warning": "yellow", "note": "dim"}


def print_lint(findings: Sequence[LintFinding], clients: Sequence[str], titles: Mapping[str, str]) -> None:
    """Print the findings, the worst first, then the checked clients; equal notes of several items are merged."""
    out = _create_console()
    if findings:
        table = _create_table("LEVEL", "ITEM", "NO.", "CLIENTS", "PROBLEM", "INSTEAD")
        for members in _group_findings(findings):
            finding = members[0]
            if finding.instead is None:
                instead = Text("no safer form" if finding.position else "", "dim")
            else:
                instead = Text(finding.instead or "leave it out", "green")
            items = ", ".join(member.item for member in members)
            places = ", ".join(str(member.position) for member in members if member.position)
            table.add_row(
                Text(finding.level, _LEVEL[finding.level]), items, places, ", ".join(finding.clients), finding.problem, instead
            )
        _print_table(out, table)
    counts = {level: sum(finding.level == level for finding in findings) for level in _LEVEL}
    summary = ", ".join(f"{count} {level}{'' if count == 1 else 's'}" for level, count in counts.items() if count)
    out.print(f"{summary or 'nothing found'}; checked for {', '.join(clients)}")
    if titles:
        out.print(Text("; ".join(f"{name}: {title}" for name, title in titles.items()), "dim"))


def _group_findings(findings: Sequence[LintFinding]) -> list[list[LintFinding]]:
    groups: dict[tuple[object, ...], list[LintFinding]] = {}
    for index, finding in enumerate(findings):
        same = (
            (finding.level, finding.clients, finding.problem)
            if finding.level == "note" and finding.instead is None
            else (index,)
        )
        groups.setdefault(same, []).append(finding)
    return sorted(groups.values(), key=lambda members: list(_LEVEL).index(members[0].level))
