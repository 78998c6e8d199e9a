"""The objects of `transom status` as lines: those of which the same is to be said are one, so that 1,000 hosts can be read."""

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from transom.cli.output import broken

_ALIKE: Final = 4
"""Objects from which on those of which the same is to be said are one line."""
_NAME_LINES: Final = 2
"""Lines of a group on a terminal, where nothing is wrong with its objects."""
_WAITING: Final = "Pending"


class ObjectStatus(msgspec.Struct, frozen=True, rename="camel"):
    """One EgressProxy or WindowsInstance. `ready`: `True`, `False` or `Unknown`; of a host `address`, of settings the rest."""

    kind: str
    namespace: str | None
    name: str
    ready: str
    reason: str
    message: str
    address: str | None = None
    settings: str | None = None
    hosts: dict[str, int] = {}
    earliest_expiry: str | None = None


def as_counted(name: str) -> list[tuple[int, str]]:
    """What names are sorted by, so that `win-10` comes after `win-2`."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"([0-9]+)", name)]


def group(objects: Iterable[ObjectStatus]) -> list[list[ObjectStatus]]:
    """The objects in their order, those alike together where they are many."""
    alike: dict[object, list[ObjectStatus]] = {}
    for one in objects:
        alike.setdefault((one.kind, one.ready, one.reason, one.message), []).append(one)
    split = ([group] if len(group) >= _ALIKE else [[one] for one in group] for group in alike.values())
    return list(itertools.chain.from_iterable(split))


def lines(groups: Sequence[Sequence[ObjectStatus]], columns: int | None = None, clock: str = "") -> Iterator[str]:
    """A line for each object or group; with `columns` it is broken between words. Each begins with `clock`."""
    rows = [(_who(group), group[0].ready, group[0].reason) for group in groups]
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(3)]
    for group, row in zip(groups, rows, strict=True):
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        line = "  ".join([*cells, _detail(group)]).rstrip()
        shown = broken(line, None if columns is None else columns - len(clock))
        # of hosts that are well or wait it is enough to know how many they are
        if group[0].ready == "True" or group[0].reason == _WAITING:
            shown = _shortened(shown)
        yield from (f"{' ' * len(clock) if number else clock}{one}" for number, one in enumerate(shown))


def _who(group: Sequence[ObjectStatus]) -> str:
    first = group[0]
    return f"{first.kind}/{first.name}" if len(group) == 1 else f"{len(group):,} {first.kind}s"


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
