"""The text of `transom status`: what is the same of many objects is one line, so that 1,000 hosts can be read."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from transom.cli.output import broken
from transom.diagnosis.fields import age, moment
from transom.diagnosis.overview import ClusterStatus, ObjectStatus, Overview
from transom.pods.outdated import Outdated
from transom.reasons import next_step

_ALIKE: Final = 4
"""Objects from which on those of which the same is to be said are one line."""
_NAME_LINES: Final = 2
"""Lines of a group on a terminal, where nothing is wrong with its objects."""
_BAR: Final = 20
_LISTED: Final = 5
"""Owners of old pods, and groups of clusters, that are listed on a terminal; JSON has all."""
_STYLES: Final = {"failed": "red", "waiting": "yellow", "ready": ""}


class Line(NamedTuple):
    """A line, and the style that a terminal gives it."""

    text: str
    style: str = ""


def screen(status: Overview, now: datetime, columns: int | None = None, *, changes_alone: bool = False) -> Iterator[Line]:
    """All of it; with `columns` broken between words. `changes_alone`: the objects and nothing around them."""
    if changes_alone:
        yield from rows(group(status.objects), now, columns)
        return
    yield from _broken(_operator(status, now), columns)
    yield from _broken(_warnings(status), columns)
    yield from rows(group(status.objects), now, columns)
    yield from _broken(_around(status), columns)


def group(objects: Iterable[ObjectStatus]) -> list[list[ObjectStatus]]:
    """The objects in their order, those alike together where they are many."""
    alike: dict[object, list[ObjectStatus]] = {}
    for one in objects:
        alike.setdefault((one.kind, one.ready, one.reason, one.message), []).append(one)
    split = ([group] if len(group) >= _ALIKE else [[one] for one in group] for group in alike.values())
    return list(itertools.chain.from_iterable(split))


def rows(
    groups: Sequence[Sequence[ObjectStatus]], now: datetime, columns: int | None = None, clock: str = ""
) -> Iterator[Line]:
    """A line for each object or group, and once for each reason what there is to do. Each begins with `clock`."""
    cells = [(_who(group), group[0].ready, group[0].reason, _since(group, now)) for group in groups]
    widths = [max((len(row[column]) for row in cells), default=0) for column in range(4)]
    advised: set[str] = set()
    for group, row in zip(groups, cells, strict=True):
        first = group[0]
        padded = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        line = "  ".join([*padded, _detail(group)]).rstrip()
        shown = broken(line, None if columns is None else columns - len(clock))
        # of hosts that are well or wait it is enough to know how many they are
        if columns is not None and first.state != "failed":
            shown = _shortened(shown)
        step = "" if first.reason in advised else _step(group)
        if step:
            advised.add(first.reason)
            shown += broken(f"    next: {step}", None if columns is None else columns - len(clock))
        for number, one in enumerate(shown):
            yield Line(f"{' ' * len(clock) if number else clock}{one}", _STYLES[first.state])


def _who(group: Sequence[ObjectStatus]) -> str:
    first = group[0]
    return f"{first.kind}/{first.name}" if len(group) == 1 else f"{len(group):,} {first.kind}s"


def _since(group: Sequence[ObjectStatus], now: datetime) -> str:
    """Of a group the longest."""
    known = [then for one in group if (then := moment(one.since)) is not None]
    return age(now, min(known)) if known else ""


def _step(group: Sequence[ObjectStatus]) -> str:
    first = group[0]
    if len(group) == 1 or not first.page:
        return first.next
    return next_step(first.reason, "", first.namespace or "")


def _shortened(shown: list[str]) -> list[str]:
    if len(shown) <= _NAME_LINES + 1:
        return shown
    left = sum(line.count(",") + (not line.endswith(",")) for line in shown[_NAME_LINES:])
    return [*shown[:_NAME_LINES], f"    and {left:,} more"]


def _detail(group: Sequence[ObjectStatus]) -> str:
    """What there is to know beside the reason: of a group the names, of what is ready its address, or its hosts."""
    one = group[0]
    parts = [one.message] if one.message and one.ready != "True" else []
    if len(group) > 1:
        parts.append(", ".join(each.name for each in group))
    if one.hosts:
        counts = ", ".join(f"{count} {name}" for name, count in one.hosts.items() if name != "total" and count)
        total = one.hosts.get("total", 0)
        parts.append(f"{total:,} host{'' if total == 1 else 's'}" + (f": {counts}" if counts else ""))
    if one.earliest_expiry:
        parts.append(f"the first CA expires {one.earliest_expiry}")
    if one.address and len(group) == 1:
        parts.append(one.address)
    return "; ".join(parts)


def _operator(status: Overview, now: datetime) -> Iterator[Line]:
    """Who works, of which version, and how far it is."""
    leader, deployments = status.leader, status.deployments or {}
    if leader is not None:
        heard = f"renewed {age(now, moment(leader.renewed))} ago" if leader.renewed else ""
        if leader.working:
            yield Line(f"OPERATOR  {leader.holder} leads, {heard}; this program is of version {status.version or 'unknown'}")
        else:
            last = f": {leader.holder} was the last, {heard}" if leader.holder else ": nobody ever did"
            yield Line(f"OPERATOR  nobody works{last} (transom doctor says more)", "red")
    for name, one in deployments.items():
        yield Line(f"          {name}: {one.available} of {one.wanted} pods, {one.image}", "" if one.available else "red")
    if status.webhook is not None and (status.webhook.registered or status.webhook.message):
        hook = status.webhook
        told = f"{hook.reason}: {hook.message}" if hook.message else "registered"
        wrong = hook.reason not in ("", "Injected", "NotConfigured", "NoSettings")
        yield Line(f"WEBHOOK   {told}", "yellow" if wrong else "")
    rollout = status.rollout
    if rollout is not None and rollout.total:
        done = _BAR * rollout.updated // rollout.total
        parts = [f"{rollout.updated:,} of {rollout.total:,} hosts have the settings"]
        parts += [f"{count:,} {word}" for count, word in ((rollout.waiting, "waiting"), (rollout.failed, "failed")) if count]
        yield Line(f"ROLLOUT   [{'#' * done}{'.' * (_BAR - done)}] {', '.join(parts)}", "red" if rollout.halted else "")
        if rollout.halted:
            yield Line(f"          halted: {rollout.halted}", "red")


def _warnings(status: Overview) -> Iterator[Line]:
    """What has to be seen also where the rest has no room."""
    for one in status.certificates:
        ends = f"ends in {one.days} days" if one.days >= 0 else "has ended"
        yield Line(f"CA        {one.object}: the first certificate of its bundle {ends} ({one.not_after})", "red")
    for missing in status.unread:
        yield Line(f"NOT READ  {missing.what}: {missing.why}", "magenta")


def _around(status: Overview) -> Iterator[Line]:
    """What hangs on the settings besides hosts."""
    clusters = _clusters(status.clusters or ())
    for line in clusters[:_LISTED]:
        yield Line(f"CLUSTERS  {line}")
    if len(clusters) > _LISTED:
        yield Line(f"CLUSTERS  and {len(clusters) - _LISTED:,} more kinds: -o json")
    for line in _pods(status.pods or ()):
        yield Line(f"OLD PODS  {line}", "yellow")


def _clusters(clusters: Sequence[ClusterStatus]) -> list[str]:
    """Those in the same phase with the same settings together."""
    found: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for one in clusters:
        found.setdefault((one.phase, one.settings), []).append(f"{one.namespace}/{one.name}")
    return [
        f"{phase}, {'settings of ' + ', '.join(settings) if settings else 'no settings'}: {_names(names)}"
        for (phase, settings), names in found.items()
    ]


def _names(names: Sequence[str]) -> str:
    more = len(names) - _LISTED
    return ", ".join(names[:_LISTED]) + (f" and {more:,} more" if more > 0 else "")


def _pods(pods: Sequence[Outdated]) -> Iterator[str]:
    for one in pods[:_LISTED]:
        owner = f"{one.kind}/{one.namespace}/{one.name}"
        yield f"{owner}: {one.outdated} of {one.pods} pods; {one.restart or 'replace them'}"
    if len(pods) > _LISTED:
        yield f"and {len(pods) - _LISTED:,} more owners: transom pods outdated"


def _broken(lines: Iterable[Line], columns: int | None) -> Iterator[Line]:
    for line in lines:
        first, *rest = broken(line.text, columns)
        yield Line(first, line.style)
        yield from (Line(f"      {one}", line.style) for one in rest)
