"""The text of `transom status`: what is the same of many objects is one line, so that 1,000 hosts can be read."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from transom.cli.output import wrap_line
from transom.common.counting import format_first
from transom.common.timestamps import parse_timestamp
from transom.diagnosis.fields import format_age
from transom.diagnosis.overview import REMOVING, ClusterStatus, ObjectStatus, Overview
from transom.pods.outdated_pods import OutdatedWorkload
from transom.reasons.reason_table import find_remedy

_ALIKE: Final = 4
"""The number of objects from which objects with the same state share one line."""
_NAME_LINES: Final = 2
"""Lines of a group on a terminal if all its objects are healthy."""
_BAR: Final = 20
_LISTED: Final = 5
"""Owners of old pods, and groups of clusters, that are listed on a terminal; JSON has all."""
_STYLES: Final = {"failed": "red", "waiting": "yellow", "ready": ""}


class StyledLine(NamedTuple):
    """A line, and the style that a terminal gives it."""

    text: str
    style: str = ""


Hint = Callable[[str], str]
"""What becomes of a hint of what to do: the commands in it name the context that was asked."""


def iter_status_lines(
    status: Overview,
    now: datetime,
    columns: int | None = None,
    *,
    objects_only: bool = False,
    hint: Hint = str,
) -> Iterator[StyledLine]:
    """All of it; with `columns` broken between words. `objects_only`: the objects and nothing around them."""
    if objects_only:
        yield from iter_object_lines(group_objects(status.objects), now, columns, hint=hint)
        return
    yield from _wrap_lines(_iter_operator_lines(status, now), columns)
    yield from _wrap_lines(_iter_warnings(status), columns)
    yield from iter_object_lines(group_objects(status.objects), now, columns, hint=hint)
    yield from _wrap_lines(_iter_related_lines(status), columns)


def group_objects(objects: Iterable[ObjectStatus]) -> list[list[ObjectStatus]]:
    """Group many equal objects, in their order."""
    alike: dict[object, list[ObjectStatus]] = {}
    for obj in objects:
        alike.setdefault((obj.kind, obj.ready, obj.reason, obj.message), []).append(obj)
    split = ([group] if len(group) >= _ALIKE else [[item] for item in group] for group in alike.values())
    return list(itertools.chain.from_iterable(split))


def iter_object_lines(
    groups: Sequence[Sequence[ObjectStatus]],
    now: datetime,
    columns: int | None = None,
    clock: str = "",
    hint: Hint = str,
) -> Iterator[StyledLine]:
    """Yield a line for each object or group, and once for each reason the next step. Each begins with `clock`."""
    cells = [(_format_subject(group), group[0].ready, group[0].reason, _format_age(group, now)) for group in groups]
    widths = [max((len(row[column]) for row in cells), default=0) for column in range(4)]
    advised: set[str] = set()
    for group, row in zip(groups, cells, strict=True):
        first = group[0]
        padded = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        line = "  ".join([*padded, _format_detail(group)]).rstrip()
        shown = wrap_line(line, None if columns is None else columns - len(clock))
        # of hosts that are well or wait it is enough to know how many they are
        if columns is not None and first.state != "failed":
            shown = _shorten_list(shown)
        step = "" if first.reason in advised else _format_step(group)
        if step:
            advised.add(first.reason)
            shown += wrap_line(f"    next: {hint(step)}", None if columns is None else columns - len(clock))
        for number, item in enumerate(shown):
            yield StyledLine(f"{' ' * len(clock) if number else clock}{item}", _STYLES[first.state])


def _format_subject(group: Sequence[ObjectStatus]) -> str:
    first = group[0]
    return f"{first.kind}/{first.name}" if len(group) == 1 else f"{len(group):,} {first.kind}s"


def _format_age(group: Sequence[ObjectStatus], now: datetime) -> str:
    """Return the age; of a group the longest."""
    known = [then for item in group if (then := parse_timestamp(item.since)) is not None]
    return format_age(now, min(known)) if known else ""


def _format_step(group: Sequence[ObjectStatus]) -> str:
    first = group[0]
    if len(group) == 1 or not first.page or not first.next:
        return first.next
    if first.reason == REMOVING:
        return first.next.replace(f" {first.name} ", " NAME ", 1)
    return find_remedy(first.reason, "", first.namespace or "")


def _shorten_list(shown: list[str]) -> list[str]:
    if len(shown) <= _NAME_LINES + 1:
        return shown
    left = sum(line.count(",") + (not line.endswith(",")) for line in shown[_NAME_LINES:])
    return [*shown[:_NAME_LINES], f"    and {left:,} more"]


def _format_detail(group: Sequence[ObjectStatus]) -> str:
    """Return what the reason does not say: of a group the names, of a ready object its address or hosts."""
    first_object = group[0]
    parts = [first_object.message] if first_object.message and first_object.ready != "True" else []
    if len(group) > 1:
        parts.append(", ".join(each.name for each in group))
    if first_object.hosts:
        counts = ", ".join(f"{count} {name}" for name, count in first_object.hosts.items() if name != "total" and count)
        total = first_object.hosts.get("total", 0)
        parts.append(f"{total:,} host{'' if total == 1 else 's'}" + (f": {counts}" if counts else ""))
    if first_object.earliest_expiry:
        parts.append(f"the first CA expires {first_object.earliest_expiry}")
    if first_object.address and len(group) == 1:
        parts.append(first_object.address)
    return "; ".join(parts)


def _iter_operator_lines(status: Overview, now: datetime) -> Iterator[StyledLine]:
    """Iterate over lines about the operator, its version and its progress."""
    leader, deployments = status.leader, status.deployments or {}
    if leader is not None:
        heard = f"renewed {format_age(now, parse_timestamp(leader.renewed))} ago" if leader.renewed else ""
        if leader.working:
            yield StyledLine(
                f"OPERATOR  {leader.holder} leads, {heard}; this program is of version {status.version or 'unknown'}"
            )
        else:
            last = f": {leader.holder} was the last, {heard}" if leader.holder else ""
            if not leader.holder:
                last = f": the last leader stopped cleanly, {heard}" if leader.renewed else ": the lease never had a holder"
            yield StyledLine(f"OPERATOR  not running{last} (run transom doctor for details)", "red")
    for name, deployment in deployments.items():
        yield StyledLine(
            f"          {name}: {deployment.available} of {deployment.wanted} pods, {deployment.image}",
            "" if deployment.available else "red",
        )
    if status.webhook is not None and (status.webhook.registered or status.webhook.message):
        hook = status.webhook
        hook_state = f"{hook.reason}: {hook.message}" if hook.message else "registered"
        wrong = hook.reason not in ("", "Injected", "NotConfigured", "NoSettings")
        yield StyledLine(f"WEBHOOK   {hook_state}", "yellow" if wrong else "")
    rollout = status.rollout
    if rollout is not None and rollout.total:
        done = _BAR * rollout.updated // rollout.total
        parts = [f"{rollout.updated:,} of {rollout.total:,} hosts have the settings"]
        parts += [f"{count:,} {word}" for count, word in ((rollout.waiting, "waiting"), (rollout.failed, "failed")) if count]
        parts += [rollout.outdated] if rollout.outdated else []
        style = "red" if rollout.halted else "yellow" if rollout.outdated else ""
        yield StyledLine(f"ROLLOUT   [{'#' * done}{'.' * (_BAR - done)}] {', '.join(parts)}", style)
        if rollout.halted:
            yield StyledLine(f"          halted: {rollout.halted}", "red")


def _iter_warnings(status: Overview) -> Iterator[StyledLine]:
    """Iterate over lines that must be visible even without room for others."""
    for certificate in status.certificates:
        ends = f"ends in {certificate.days} days" if certificate.days >= 0 else "has ended"
        yield StyledLine(
            f"CA        {certificate.object}: the first certificate of its bundle {ends} ({certificate.not_after})", "red"
        )
    if status.terminating:
        yield StyledLine(f"NAMESPACE {status.terminating}", "red")
    if status.refused:
        yield StyledLine(f"REFUSED   the API server refuses writes of the operator: {status.refused}", "red")
    if status.other_operators:
        names = ", ".join(status.other_operators)
        yield StyledLine(
            f"OPERATOR  another one leads in namespace {names}: each overwrites the status of EgressProxies", "red"
        )
    if status.failed_reads:
        yield StyledLine(f"UNREAD    the operator cannot read, and works with older objects: {status.failed_reads}", "red")
    rights = status.rights
    for right in rights[:_LISTED]:
        yield StyledLine(f"RIGHTS    {right}", "red")
    if len(rights) > _LISTED:
        yield StyledLine(f"RIGHTS    and {len(rights) - _LISTED:,} more: transom doctor", "red")
    for missing in status.unread:
        yield StyledLine(f"NOT READ  {missing.what}: {missing.why}", "magenta")


def _iter_related_lines(status: Overview) -> Iterator[StyledLine]:
    """Iterate over lines about objects other than hosts that depend on the settings."""
    clusters = _format_clusters(status.clusters or ())
    for line in clusters[:_LISTED]:
        yield StyledLine(f"CLUSTERS  {line}")
    if len(clusters) > _LISTED:
        yield StyledLine(f"CLUSTERS  and {len(clusters) - _LISTED:,} more kinds: -o json")
    for line in _iter_pod_lines(status.pods or ()):
        yield StyledLine(f"OLD PODS  {line}", "yellow")


def _format_clusters(clusters: Sequence[ClusterStatus]) -> list[str]:
    """Those in the same phase with the same settings together."""
    names_by_state: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for cluster in clusters:
        names_by_state.setdefault((cluster.phase, cluster.settings), []).append(f"{cluster.namespace}/{cluster.name}")
    return [
        f"{phase}, {'settings of ' + ', '.join(settings) if settings else 'no settings'}: {format_first(names, _LISTED)}"
        for (phase, settings), names in names_by_state.items()
    ]


def _iter_pod_lines(pods: Sequence[OutdatedWorkload]) -> Iterator[str]:
    for pod in pods[:_LISTED]:
        owner = f"{pod.kind}/{pod.namespace}/{pod.name}"
        yield f"{owner}: {pod.outdated} of {pod.pods} pods; {pod.restart or 'replace them'}"
    if len(pods) > _LISTED:
        yield f"and {len(pods) - _LISTED:,} more owners: transom pods outdated"


def _wrap_lines(lines: Iterable[StyledLine], columns: int | None) -> Iterator[StyledLine]:
    for line in lines:
        first, *rest = wrap_line(line.text, columns)
        yield StyledLine(first, line.style)
        yield from (StyledLine(f"      {item}", line.style) for item in rest)
