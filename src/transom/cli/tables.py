"""Reports for people: hosts with the same changes as one group, those that failed last and by name."""

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from rich.text import Text

from transom.apply.report import HostReport, Report, Result
from transom.cli.output import sanitize, sanitize_struct
from transom.cli.stopping import get_signal_name
from transom.cli.terminal import Terminal
from transom.common.counting import format_count, format_first
from transom.proxy.secret import REDACTED
from transom.windows.host.host_state import Step
from transom.windows.parts import powershell_block, winhttp

STYLES: Final[dict[Result, str]] = {"unchanged": "green", "changed": "yellow", "skipped": "magenta", "failed": "red"}
"""In the order of a report: what a person has to look at comes last."""
_WHAT: Final = {
    "machine-environment": "env",
    "service-environment": "env",
    "certificate": "cert",
    "service": "svc",
    "file": "file",
    "directory": "dir",
    "windows": "os",
    "ledger": "note",
}
_TOKEN: Final = re.compile(r"\b[0-9a-f]{8}\b")
"""What makes a name of a file on a host the only one of its kind: hosts that differ in it alone are alike."""
_DETAILED: Final = 20
"""Groups whose changes are listed; of more there is a line each."""
_NAME_LINES: Final[dict[Result, int]] = {"unchanged": 2, "changed": 2, "skipped": 2, "failed": 10}
"""Lines of names of a group of hosts; JSON has them all."""
_RECAPPED: Final = 10
"""Names of hosts in the last line."""
_INDENT: Final = "  "


def print_report(report: Report, *, planned: bool) -> None:
    """Print the hosts by result; `planned` for `diff`, which reports what `apply` would do."""
    out = Terminal()
    known: set[tuple[Step, ...]] = set()
    groups = _group_hosts(sanitize_struct(report).hosts)
    for number, group in enumerate(groups):
        first = group[0]
        head = _format_headline(group, planned=planned)
        out.print(head if head.cell_len <= out.width else "\n".join(_wrap_lines(head.plain, out.width, "")), soft_wrap=True)
        if len(group) > 1:
            _print_names(out, group)
        if first.changes and number < _DETAILED:
            if first.result == "failed" and first.changes in known:
                out.print(f"{_INDENT}(the changes that are listed above)", style="dim", soft_wrap=True)
            else:
                for line in _iter_changes(first.changes, out.width, values=planned):
                    out.print(line, soft_wrap=True)
            known.add(first.changes)
        for warning in first.warnings:
            out.print(_wrap_text(f"warning: {warning}", out.width), style="yellow", soft_wrap=True)
        if first.error:
            out.print(_wrap_text(first.error, out.width), style=STYLES[first.result], soft_wrap=True)
    out.print(_format_totals(report, planned=planned), style="bold", soft_wrap=not out.is_terminal)


def format_host_line(host: HostReport, *, planned: bool, short: bool = False) -> str:
    """Return one host in one line, as it ends; `short`: only how it ended."""
    if short:
        return f"{host.name}: {_format_result(host.result, planned=planned)}  {host.seconds:.1f} s"
    done = f", {format_count(len(host.changes), 'change')}" if host.result == "changed" else ""
    restarted = f", restarted {', '.join(host.restarted)}" if host.restarted else ""
    error = f": {host.error}" if host.error else ""
    return f"{host.name}: {_format_result(host.result, planned=planned)}{done}{restarted}{error}  {host.seconds:.1f} s"


def _group_hosts(hosts: Sequence[HostReport]) -> list[list[HostReport]]:
    """Group hosts with the same result: successful ones first, and large groups before small ones."""
    groups: dict[object, list[HostReport]] = {}
    for host in hosts:
        error = _TOKEN.sub("", host.error or "")
        groups.setdefault((host.result, host.changes, host.restarted, error, host.warnings), []).append(host)
    order = list(STYLES)
    return sorted(groups.values(), key=lambda group: (order.index(group[0].result), -len(group)))


def _format_result(result: Result, *, planned: bool) -> str:
    return "would change" if planned and result == "changed" else result


def _format_headline(group: Sequence[HostReport], *, planned: bool) -> Text:
    first = group[0]
    who = f"{first.name}" if len(group) == 1 else f"{len(group):,} hosts"
    line = Text.assemble((who, "bold"), f" ({first.address})" if len(group) == 1 else "", "  ")
    line.append(_format_result(first.result, planned=planned), STYLES[first.result])
    if len(group) > 1 and first.changes:
        line.append(f", the same {format_count(len(first.changes), 'change')} on each")
    if first.restarted:
        line.append(f", restarted {', '.join(first.restarted)}")
    if len(group) == 1 and first.channels:
        line.append(f"  {first.seconds:.1f} s, {format_count(first.channels, 'channel')}", "dim")
    return line


def _print_names(out: Terminal, group: Sequence[HostReport]) -> None:
    """As many of the names as fit, more of those that failed."""
    names = _wrap_lines(", ".join(host.name for host in group), out.width)
    most = _NAME_LINES[group[0].result]
    for line in names[:most]:
        out.print(line, style="dim", soft_wrap=True)
    if len(names) > most:
        left = sum(line.count(",") + (not line.endswith(",")) for line in names[most:])
        out.print(f"{_INDENT}and {left:,} more", style="dim", soft_wrap=True)


def _iter_changes(steps: Sequence[Step], width: int, *, values: bool) -> Iterator[Text]:
    """Iterate over changes, one line each, with the reason at the end if it fits, else below."""
    heads = [f"{_INDENT}{_WHAT[step.kind]:<5}{step.action:<8}{step.target}" for step in steps]
    most = width - 2 - max(len(step.reason) for step in steps)
    column = max((len(head) for head in heads if len(head) <= most), default=0) + 2
    for step, head in zip(steps, heads, strict=True):
        if len(head) <= most:
            yield Text.assemble(head.ljust(column), (step.reason, "dim"))
        else:
            yield Text("\n".join(_wrap_lines(head.strip(), width, indent=_INDENT)))
            yield Text("\n".join(_wrap_lines(step.reason, width, indent=_INDENT * 4)), "dim")
        if values:
            yield from _iter_values(step)


def _iter_values(step: Step) -> Iterator[Text]:
    """Iterate over lines with the old and the new value; NO_PROXY is compared item by item."""
    if step.before == step.after:
        if step.before is not None:
            differing = "another user name or password" if REDACTED in step.before else "otherwise written"
            yield Text(f"{_INDENT * 4}~ {step.before}  ({differing})", "yellow")
        return
    before, after = ([] if item is None else [item] for item in (step.before, step.after))
    if separator := _get_separator(step.target):
        was, wanted = ([item for entry in text for item in re.split(separator, entry)] for text in (before, after))
        kept = set(was) & set(wanted)
        if kept and (set(was) ^ set(wanted)):
            before, after = ([item for item in items if item not in kept] for items in (was, wanted))
    yield from (Text(f"{_INDENT * 4}- {item}", "red") for item in before)
    yield from (Text(f"{_INDENT * 4}+ {item}", "green") for item in after)


def _get_separator(target: str) -> str:
    """Return the separator of a value that is a list; empty if it is not one."""
    if target.upper().endswith("NO_PROXY"):
        return ","
    return "[; ]" if target in (winhttp.TARGET, powershell_block.TARGET) else ""


def _format_totals(report: Report, *, planned: bool) -> str:
    parts = []
    for result in STYLES:
        names = [host.name for host in report.hosts if host.result == result]
        if names:
            totals = f"{len(names):,} {_format_result(result, planned=planned)}"
            parts.append(f"{totals}: {format_names(names)}" if result == "failed" else totals)
    hosts = format_count(len(report.hosts), "host")
    stopped = f"stopped by {get_signal_name()}: " if report.stopped else ""
    return stopped + (f"{hosts}: {', '.join(parts)}" if parts else "no hosts: nothing to do")


def format_names(names: Sequence[str], most: int = _RECAPPED) -> str:
    """Return the first names and the number of the others."""
    return format_first(names, most)


def _wrap_text(text: str, width: int) -> str:
    return "\n".join(_wrap_lines(text, width))


def _wrap_lines(text: str, width: int, indent: str = _INDENT) -> list[str]:
    """Lines that break between words: a word that is wider than a line stays whole."""
    return textwrap.wrap(
        text,
        max(width - 1, 20),
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def print_facts(hosts: Iterable[dict[str, Any]]) -> None:
    """Print the states of hosts, as `facts.build_host_view` returns them: one variable per line, unbroken."""
    out = Terminal()
    for host in sanitize(list(hosts)):
        place = f"{host['name']} ({host['address']})" if "name" in host else host["address"]
        head = Text.assemble((place, "bold"), f"  {host['computerName']}  Windows {host['osVersion']}".rstrip())
        out.print(head, soft_wrap=True)
        for name, service in host["services"].items():
            state = "  ".join(part for part in (service["state"], service["start"]) if part) or "not there"
            out.print(Text.assemble(f"{_INDENT}{name}  ", (state, "dim")), soft_wrap=True)
            for variable, value in service["environment"].items():
                out.print(f"{_INDENT * 2}{variable}={value}", soft_wrap=True)
        proxies = {name: value for name, value in host["environment"].items() if name.upper().endswith("_PROXY")}
        if proxies:
            out.print(f"{_INDENT}machine environment", soft_wrap=True)
        for name, value in proxies.items():
            out.print(f"{_INDENT * 2}{name}={value}", soft_wrap=True)
        for store, present in host["certificates"].items():
            ours = {sha1 for sha1, how in host["ledger"].get("certificates", {}).get(store, {}).items() if how == "added"}
            out.print(f"{_INDENT}{store}: {format_count(len(present), 'certificate')}, {len(ours)} of them Transom's")
            for sha1 in sorted(ours):
                out.print(f"{_INDENT * 2}{sha1}")
        if not host["ledger"]:
            out.print(f"{_INDENT}nothing on this host is Transom's")
        elif host["ledger"]["restarts"]:
            out.print(f"{_INDENT}restarts owed: {', '.join(host['ledger']['restarts'])}", soft_wrap=True)
