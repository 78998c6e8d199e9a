"""The rollouts of the operator: one for each change to a group of hosts, and the condition that reports those that halted.

One piece of code serves settings, payloads and SSH keys: a `RolloutKind` describes how changes of a kind are distinguished.
What must survive this process is in the status of the hosts (`transom.rollout.markers`).
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Final

from transom.apply.target import Target
from transom.controllers.rollout.in_flight_hosts import InFlightHosts
from transom.controllers.rollout.open_rollout import OpenRollout, build_change_id
from transom.controllers.rollout.rollout_kind import Group, RolloutKind
from transom.controllers.runtime.conditions import Condition, ConditionAggregator
from transom.proxy.layers import BASE
from transom.rollout.markers import InFlight, ProgressMarker, RolloutMember, restore_rollout
from transom.rollout.state import Rollout

CONDITION: Final = "RolloutHalted"
Digest = Callable[[str], Awaitable[str | None]]
"""Returns the keyed hash of a string that may hold credentials. Raises ApiError."""
ListMembers = Callable[[Group, str], Iterable[RolloutMember]]
"""Returns the hosts of a group; the text is the fingerprint of the change."""


class Rollouts:
    """The rollouts of one kind, by group."""

    def __init__(
        self,
        kind: RolloutKind,
        list_members: ListMembers,
        reports: ConditionAggregator,
        in_flight_hosts: InFlightHosts,
        resume_value: Callable[[], str] = lambda: "",
    ) -> None:
        """`resume_value` returns the value by which a person last resumed halted rollouts."""
        self.kind, self.in_flight_hosts = kind, in_flight_hosts
        self._list_members, self._reports, self._resume_value = list_members, reports, resume_value
        self._open: dict[Group, OpenRollout] = {}
        self._superseded: list[OpenRollout] = []
        """Those with hosts in progress whose results are not known yet."""
        in_flight_hosts.register(self)

    async def get_or_open(self, target: Target, digest: Digest) -> OpenRollout:
        """Return the rollout of a target's change, with what earlier processes learned of it. Raises ApiError.

        A target that was edited since it was read gets a rollout that admits no host.
        """
        kind, group = self.kind, self.kind.group(target)
        while True:
            fingerprint = self._with_resume_value(kind.fingerprint(target))
            latest = kind.latest_fingerprint(target)
            current = self._open.get(group)
            if latest is not None and self._with_resume_value(latest) != fingerprint:
                return self._create_superseded_rollout(fingerprint)
            if current is not None and current.fingerprint == fingerprint:
                return current
            name = await digest(f"{kind.name} {fingerprint}")
            if self._open.get(group) is current and kind.latest_fingerprint(target) in (None, kind.fingerprint(target)):
                return self._open_rollout(group, fingerprint, name)

    def find(self, target: Target) -> OpenRollout | None:
        """Return the open rollout of a target's change; None if its group has another one or none."""
        current = self._open.get(self.kind.group(target))
        fingerprint = self._with_resume_value(self.kind.fingerprint(target))
        return current if current is not None and current.fingerprint == fingerprint else None

    def build_marker(self, target: Target) -> tuple[str, ProgressMarker | None] | None:
        """Return the marker of the open rollout for a host's status; None if no rollout is open: the marker stays."""
        current = self._open.get(self.kind.group(target))
        return (self.kind.name, current.build_marker(target.instance.name)) if current is not None else None

    def release_host(self, host: str) -> None:
        """Release a host that is not worked on any more: no other host waits for its result."""
        for rollout in self._open.values():
            if host in rollout.state.in_progress:
                rollout.record_result(host, "untouched")

    def add_host(self, group: Group, host: str) -> None:
        """Add a host to a group."""
        if (rollout := self._open.get(group)) is not None:
            rollout.queue.add_host(host)

    def remove_host(self, group: Group, host: str) -> None:
        """Remove a host from a group."""
        if (rollout := self._open.get(group)) is not None:
            rollout.queue.remove_host(host)
            self._report()

    def release_turn(self, host: str) -> None:
        """Give the turn of a host that was worked on, or is gone, to the next one."""
        for rollout in self._open.values():
            rollout.queue.release_turn(host)

    def iter_in_flight(self) -> Iterator[tuple[str, InFlight]]:
        """Yield each change, superseded ones included, with the hosts that the next leader must know."""
        for rollout in (*self._superseded, *self._open.values()):
            yield rollout.change_id, rollout.list_in_flight(self.in_flight_hosts.get_hosts_for_change(rollout.change_id))

    def reset(self) -> None:
        """Forget everything: another process may have led meanwhile, and the objects have what it learned."""
        rollouts, self._open, self._superseded = self._open, {}, []
        for rollout in rollouts.values():
            rollout.queue.supersede()

    def finish_status_write(self, host: str) -> bool:
        """Note that the status of a host was written. Return True if it is recorded as in flight and was left untouched."""
        rollouts = (*self._superseded, *self._open.values())
        finished = [
            rollout.finish_status_write(host, self.in_flight_hosts.get_hosts_for_change(rollout.change_id))
            for rollout in rollouts
        ]
        return any(finished)

    @property
    def halted(self) -> Mapping[Group, OpenRollout]:
        """The rollouts that are halted."""
        return {group: rollout for group, rollout in self._open.items() if rollout.queue.halted}

    @property
    def is_active(self) -> bool:
        """Whether a host is being changed or waits for its turn."""
        return any(rollout.queue.is_active for rollout in self._open.values())

    def _with_resume_value(self, fingerprint: str) -> str:
        resume_value = self._resume_value()
        return f"{resume_value}\n{fingerprint}" if resume_value else fingerprint

    def _create_superseded_rollout(self, fingerprint: str) -> OpenRollout:
        rollout = OpenRollout(self.kind, fingerprint, None, Rollout(frozenset()), lambda: None)
        rollout.queue.supersede()
        return rollout

    def _open_rollout(self, group: Group, fingerprint: str, name: str | None) -> OpenRollout:
        former = self._open.get(group)
        members = tuple(self._list_members(group, fingerprint))
        kind = self.kind.name
        state, heartbeats = restore_rollout(
            kind, name, members, self.in_flight_hosts.get_hosts_for_change(build_change_id(kind, name))
        )
        rollout = OpenRollout(self.kind, fingerprint, name, state, self._report)
        rollout.heartbeats.update(heartbeats)
        self._open[group] = rollout
        self._superseded = [
            item
            for item in self._superseded
            if item.has_unrecorded_hosts or self.in_flight_hosts.get_hosts_for_change(item.change_id)
        ]
        if former is not None:
            former.queue.supersede()
            self._superseded.append(former)
        open_changes = {item.change_id for item in (*self._superseded, *self._open.values())}
        self.in_flight_hosts.forget_hosts(
            lambda change: change.startswith(f"{kind}.") and change not in open_changes, {member.name for member in members}
        )
        self._report()
        return rollout

    def _report(self) -> None:
        """Report the condition, also while nothing is halted: an earlier process may have reported otherwise."""
        halted = self.halted
        if not halted:
            condition = Condition("False", "NotHalted", "no rollout is halted")
        else:
            reason = "EgressFails" if any(rollout.state.refuted for rollout in halted.values()) else "TwoFailures"
            texts = (self._describe_halt(group, rollout) for group, rollout in halted.items())
            condition = Condition("True", reason, "; ".join(texts))
        self._reports.set_conditions(f"rollout-{self.kind.name}", {BASE: {CONDITION: condition}})

    def _describe_halt(self, group: Group, rollout: OpenRollout) -> str:
        state, change, where = rollout.state, self.kind.describe_change(), _describe_group(group)
        hosts = ", ".join(state.halted_by)
        if state.refuted:
            text = f"the first host{where} has no egress with {change} ({hosts})"
        else:
            text = f"{len(state.halted_by)} hosts{where} failed with {change} ({hosts}); {len(state.passed)} are healthy"
        return f"{text}. No further host is changed: {self.kind.remedy}, or run `transom resume --rollout`"


def _describe_group(group: Group) -> str:
    if group is None:
        return ""
    return f" of Cluster {'/'.join(group)}" if isinstance(group, tuple) else f" of Secret {group}"
