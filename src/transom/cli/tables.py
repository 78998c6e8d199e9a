"""Reports for people: hosts with the same changes as one group, those that failed last and by name."""

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from rich.text import Text

from transom.apply import HostReport, Report, Result
from transom.cli.output import for_people, struct_for_people
from transom.cli.terminal import Terminal
from transom.proxy.secret import REDACTED
from transom.windows.host import Step
from transom.windows.parts import winhttp

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
    """The hosts by what became of them; `planned` for `diff`, which only says what would be done."""
    out = Terminal()
    known: set[tuple[Step, ...]] = set()
    groups = _groups(struct_for_people(report).hosts)
    for number, group in enumerate(groups):
        first = group[0]
        head = _headline(group, planned=planned)
        out.print(head if head.cell_len <= out.width else "\n".join(_lines(head.plain, out.width, "")), soft_wrap=True)
        if len(group) > 1:
            _print_names(out, group)
        if first.changes and number < _DETAILED:
            if first.result == "failed" and first.changes in known:
                out.print(f"{_INDENT}(the changes that are listed above)", style="dim", soft_wrap=True)
            else:
                for line in _changes(first.changes, out.width, values=planned):
                    out.print(line, soft_wrap=True)
            known.add(first.changes)
        for warning in first.warnings:
            out.print(_wrapped(f"warning: {warning}", out.width), style="yellow", soft_wrap=True)
        if first.error:
            out.print(_wrapped(first.error, out.width), style=STYLES[first.result], soft_wrap=True)
    out.print(_totals(report, planned=planned), style="bold", soft_wrap=not out.is_terminal)


def line_of(host: HostReport, *, planned: bool) -> str:
    """One host in one line, as it ends."""
    done = f", {_counted(len(host.changes), 'change')}" if host.result == "changed" else ""
    restarted = f", restarted {', '.join(host.restarted)}" if host.restarted else ""
    error = f": {host.error}" if host.error else ""
    return f"{host.name}: {_word(host.result, planned=planned)}{done}{restarted}{error}  {host.seconds:.1f} s"


def _groups(hosts: Sequence[HostReport]) -> list[list[HostReport]]:
    """Hosts of which the same is to be said: the well ones first, of each kind the many before the few."""
    found: dict[object, list[HostReport]] = {}
    for host in hosts:
        error = _TOKEN.sub("", host.error or "")
        found.setdefault((host.result, host.changes, host.restarted, error, host.warnings), []).append(host)
    order = list(STYLES)
    return sorted(found.values(), key=lambda group: (order.index(group[0].result), -len(group)))


def _word(result: Result, *, planned: bool) -> str:
    return "would change" if planned and result == "changed" else result


def _headline(group: Sequence[HostReport], *, planned: bool) -> Text:
    first = group[0]
    who = f"{first.name}" if len(group) == 1 else f"{len(group):,} hosts"
    line = Text.assemble((who, "bold"), f" ({first.address})" if len(group) == 1 else "", "  ")
    line.append(_word(first.result, planned=planned), STYLES[first.result])
    if len(group) > 1 and first.changes:
        line.append(f", the same {_counted(len(first.changes), 'change')} on each")
    if first.restarted:
        line.append(f", restarted {', '.join(first.restarted)}")
    if len(group) == 1 and first.channels:
        line.append(f"  {first.seconds:.1f} s, {_counted(first.channels, 'channel')}", "dim")
    return line


def _print_names(out: Terminal, group: Sequence[HostReport]) -> None:
    """As many of the names as fit, more of those that failed."""
    names = _lines(", ".join(host.name for host in group), out.width)
    most = _NAME_LINES[group[0].result]
    for line in names[:most]:
        out.print(line, style="dim", soft_wrap=True)
    if len(names) > most:
        left = sum(line.count(",") + (not line.endswith(",")) for line in names[most:])
        out.print(f"{_INDENT}and {left:,} more", style="dim", soft_wrap=True)


def _changes(steps: Sequence[Step], width: int, *, values: bool) -> Iterator[Text]:
    """A change in a line, with its reason behind it where there is room, else below it."""
    heads = [f"{_INDENT}{_WHAT[step.kind]:<5}{step.action:<8}{step.target}" for step in steps]
    most = width - 2 - max(len(step.reason) for step in steps)
    column = max((len(head) for head in heads if len(head) <= most), default=0) + 2
    for step, head in zip(steps, heads, strict=True):
        if len(head) <= most:
            yield Text.assemble(head.ljust(column), (step.reason, "dim"))
        else:
            yield Text("\n".join(_lines(head.strip(), width, indent=_INDENT)))
            yield Text("\n".join(_lines(step.reason, width, indent=_INDENT * 4)), "dim")
        if values:
            yield from _values(step)


def _values(step: Step) -> Iterator[Text]:
    """What a value was and will be; of NO_PROXY item by item."""
    if step.before == step.after:
        if step.before is not None:
            differing = "another user name or password" if REDACTED in step.before else "otherwise written"
            yield Text(f"{_INDENT * 4}~ {step.before}  ({differing})", "yellow")
        return
    before, after = ([] if one is None else [one] for one in (step.before, step.after))
    if separator := _separator(step.target):
        was, wanted = ([item for one in text for item in re.split(separator, one)] for text in (before, after))
        kept = set(was) & set(wanted)
        if kept and (set(was) ^ set(wanted)):
            before, after = ([item for item in items if item not in kept] for items in (was, wanted))
    yield from (Text(f"{_INDENT * 4}- {one}", "red") for one in before)
    yield from (Text(f"{_INDENT * 4}+ {one}", "green") for one in after)


def _separator(target: str) -> str:
    """What stands between the items of a value that is a list; empty where it is none."""
    if target.upper().endswith("NO_PROXY"):
        return ","
    return "[; ]" if target == winhttp.TARGET else ""


def _totals(report: Report, *, planned: bool) -> str:
    parts = []
    for result in STYLES:
        names = [host.name for host in report.hosts if host.result == result]
        if names:
            told = f"{len(names):,} {_word(result, planned=planned)}"
            parts.append(f"{told}: {named(names)}" if result == "failed" else told)
    hosts = _counted(len(report.hosts), "host")
    stopped = "stopped by Ctrl-C: " if report.stopped else ""
    return stopped + (f"{hosts}: {', '.join(parts)}" if parts else "no hosts: nothing to do")


def named(names: Sequence[str], most: int = _RECAPPED) -> str:
    """The first of the names, and how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more:,} more" if more > 0 else "")


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _wrapped(text: str, width: int) -> str:
    return "\n".join(_lines(text, width))


def _lines(text: str, width: int, indent: str = _INDENT) -> list[str]:
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
    """What hosts look like, in the shape of `transom.cli.facts.view`: a variable in a line, however long it is."""
    out = Terminal()
    for host in for_people(list(hosts)):
        head = Text.assemble((host["address"], "bold"), f"  {host['computerName']}  Windows {host['osVersion']}".rstrip())
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
            out.print(f"{_INDENT}{store}: {_counted(len(present), 'certificate')}, {len(ours)} of them Transom's")
            for sha1 in sorted(ours):
                out.print(f"{_INDENT * 2}{sha1}")
        if not host["ledger"]:
            out.print(f"{_INDENT}nothing on this host is Transom's")
        elif host["ledger"]["restarts"]:
            out.print(f"{_INDENT}restarts owed: {', '.join(host['ledger']['restarts'])}", soft_wrap=True)
