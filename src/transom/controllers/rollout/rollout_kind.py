"""What is rolled out: settings, payloads or SSH keys."""

from collections.abc import Callable, Hashable

import msgspec

from transom.apply.target import Target

Group = Hashable
"""Hosts that get a change together: those of one cluster, or of one Secret with an SSH key."""


class RolloutKind(msgspec.Struct, frozen=True):
    """A kind of rollout: how its changes are distinguished and how a halt is reported."""

    name: str
    """In progress markers; lower-case letters."""
    fingerprint: Callable[[Target], str]
    """All that makes a change another one; it may hold credentials."""
    latest_fingerprint: Callable[[Target], str | None]
    """The same by the current objects, which may be newer than the target; None if that is not known."""
    group: Callable[[Target], Group]
    describe_change: Callable[[], str]
    remedy: str
    refutable: bool = False
    """Whether a host without egress refutes the change rather than that host."""
    prepared: bool = False
    """Whether a host that has started is first drained."""
