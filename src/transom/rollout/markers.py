"""Progress markers: what the status of an instance records of rollouts, so that the next leader resumes them.

The status field `changes` has one word for each kind of change: `settings/3f6c…:passed`. The name is a keyed hash of the
change. A `!` marks a host that halted the rollout; a time is the last heartbeat of the host's kubelet before it was restarted:
`settings/3f6c…:begun@2026-11-22T10:00:05+00:00`.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Final, Literal, get_args

import msgspec

from transom.common.timestamps import parse_timestamp
from transom.rollout.state import Rollout

FIELD: Final = "changes"
"""The field of the status."""
State = Literal["begun", "passed", "failed", "refuted", "over"]
_STATES: Final[dict[str, State]] = {state: state for state in get_args(State)}
_WORD: Final = re.compile(rf"([a-z]+)/([0-9a-f]+):({'|'.join(_STATES)})(!?)(?:@(\S+))?")
InFlight = Mapping[str, datetime | None]
"""Hosts in progress, each with the last heartbeat of its kubelet before the change."""


class ProgressMarker(msgspec.Struct, frozen=True):
    """How far one change has come on one host.

    `over`: the change had reached every host when this was written. `halted`: this host halted the rollout. `heartbeat` is that
    of the host's kubelet before the change, while no later one has been observed.
    """

    kind: str
    change: str
    state: State
    halted: bool = False
    heartbeat: datetime | None = None

    def __str__(self) -> str:
        heartbeat = f"@{self.heartbeat.isoformat()}" if self.heartbeat is not None else ""
        return f"{self.kind}/{self.change}:{self.state}{'!' * self.halted}{heartbeat}"


class RolloutMember(msgspec.Struct, frozen=True):
    """A host of a rollout, as its status describes it. `conforming`: it has the change without having been changed."""

    name: str
    markers: tuple[ProgressMarker, ...] = ()
    conforming: bool = False


def parse_markers(text: object) -> tuple[ProgressMarker, ...]:
    """Return the markers of a status field; words that are not markers are ignored."""
    matches = (_WORD.fullmatch(word) for word in str(text or "").split())
    return tuple(
        ProgressMarker(match[1], match[2], _STATES[match[3]], bool(match[4]), parse_timestamp(match[5]))
        for match in matches
        if match
    )


def merge_markers(text: object, markers: Iterable[tuple[str, ProgressMarker | None]]) -> str:
    """Return the status field with other markers, or none, for these kinds of change."""
    merged = {marker.kind: marker for marker in parse_markers(text)}
    for kind, marker in markers:
        merged.pop(kind, None)
        if marker is not None:
            merged[kind] = marker
    return " ".join(str(merged[kind]) for kind in sorted(merged))


def restore_rollout(
    kind: str, name: str | None, members: Iterable[RolloutMember], in_flight: InFlight = MappingProxyType({})
) -> tuple[Rollout, dict[str, datetime]]:
    """Return a rollout as the statuses of its hosts and the record of hosts in progress describe it.

    The second value has the heartbeats that later ones are compared with, by host.
    """
    listed = tuple(members)
    markers = {
        member.name: marker for member in listed for marker in member.markers if (marker.kind, marker.change) == (kind, name)
    }
    for host, heartbeat in in_flight.items():
        marker = markers.get(host, ProgressMarker(kind, name or "", "begun"))
        if marker.state != "over":
            marker = msgspec.structs.replace(marker, heartbeat=heartbeat or marker.heartbeat)
        markers[host] = marker
    passed = frozenset(host for host, marker in markers.items() if marker.state in ("passed", "over"))
    hosts = frozenset(member.name for member in listed)
    rollout = Rollout(
        hosts,
        in_progress=frozenset(host for host, marker in markers.items() if marker.state == "begun"),
        passed=passed,
        conforming=frozenset(member.name for member in listed if member.conforming) - passed,
        failed=tuple(sorted(host for host, marker in markers.items() if marker.state in ("failed", "refuted"))),
        halted_by=tuple(sorted(host for host, marker in markers.items() if marker.halted)),
        refuted=any(marker.state == "refuted" for marker in markers.values()),
        completed=any(marker.state == "over" for marker in markers.values()),
    )
    heartbeats = {host: marker.heartbeat for host, marker in markers.items() if marker.heartbeat is not None}
    return rollout.with_hosts(hosts), heartbeats
