"""Which machines are older than their settings, and which cluster is rolled next: one at a time, from observed state.

Nothing is remembered between two looks: a rollout that was begun is known by `rollout.after` of the objects. It is the time of
the change: only machines that are older are replaced, and the next leader continues it. Pure. Times are RFC 3339 as the
server writes them.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final, Literal

import msgspec

PATIENCE: Final = 1800.0
"""Seconds after the last new machine of a cluster until its rollout counts as stuck."""

Kind = Literal["KubeadmControlPlane", "MachineDeployment", "MachinePool"]
ClusterName = tuple[str, str]


class MachineGroup(msgspec.Struct, frozen=True):
    """The machines of one control plane, MachineDeployment or MachinePool whose template refers to the settings.

    `changed` is when what its machines boot with last changed, `requested` its `rollout.after`, `asked` when we wrote that.
    `to_edit`: its entries are missing or old, and an edit of them is a rollout. `kept`: why it is not rolled from here.
    """

    kind: Kind
    name: str
    machines: int = 0
    outdated: int = 0
    replicas: int = 0
    ready: int = 0
    changed: str | None = None
    requested: str | None = None
    asked: str | None = None
    newest: str | None = None
    to_edit: bool = False
    kept: str | None = None

    @property
    def healthy(self) -> bool:
        """Whether every machine that there should be is ready."""
        return self.ready >= self.replicas

    @property
    def pending(self) -> bool:
        """Whether there is something to roll."""
        return self.outdated > 0 or self.to_edit

    @property
    def has_unknown_ages(self) -> bool:
        """Whether it has machines of which Cluster API knows no age: those of a MachinePool without Machines."""
        return self.is_machine_pool and self.replicas > 0 and self.machines == 0

    @property
    def is_machine_pool(self) -> bool:
        """Whether its machines are made and replaced by the infrastructure's own means."""
        return self.kind == "MachinePool"

    @property
    def is_rollout_requested(self) -> bool:
        """Whether the rollout of the newest change was asked for."""
        return not self.to_edit and self.requested is not None and (self.changed is None or self.requested >= self.changed)


class MachinesRolloutState(msgspec.Struct, frozen=True):
    """How a cluster stands. `automatic`: its settings ask for a rollout."""

    cluster: ClusterName
    groups: tuple[MachineGroup, ...] = ()
    automatic: bool = False
    paused: bool = False

    @property
    def rollout_groups(self) -> tuple[MachineGroup, ...]:
        """The groups that may be rolled from here, the control plane first."""
        return tuple(sorted((group for group in self.groups if group.kept is None), key=lambda group: (group.kind, group.name)))

    @property
    def outdated(self) -> int:
        """How many machines are older than their settings."""
        return sum(group.outdated for group in self.groups)

    @property
    def in_progress(self) -> bool:
        """Whether its rollout was begun, and is not over: machines are old, or what is new is not ready."""
        return (
            self.automatic
            and not self.paused
            and any(group.is_rollout_requested and (group.pending or not group.healthy) for group in self.rollout_groups)
        )

    @property
    def waiting(self) -> bool:
        """Whether there is something to roll that was not begun."""
        return (
            self.automatic
            and not self.paused
            and any(group.pending and not group.is_rollout_requested for group in self.rollout_groups)
        )

    @property
    def healthy(self) -> bool:
        """Whether nothing is broken already."""
        return all(group.healthy for group in self.groups)


class RolloutStep(msgspec.Struct, frozen=True):
    """Roll this group of this cluster."""

    cluster: ClusterName
    group: MachineGroup


class MachinesDecision(msgspec.Struct, frozen=True):
    """What to do now; `current` is the cluster that is being rolled, `halted` why nothing else is begun."""

    steps: tuple[RolloutStep, ...] = ()
    current: ClusterName | None = None
    halted: str = ""
    skipped: tuple[ClusterName, ...] = ()
    """Clusters that are left for later since their machines are not ready already."""


def decide_next_steps(standings: Iterable[MachinesRolloutState], now: datetime) -> MachinesDecision:
    """Return the next steps. A cluster that was started is finished before the next one starts."""
    ordered = sorted(standings, key=lambda standing: standing.cluster)
    running = [item for item in ordered if item.in_progress]
    if running:
        left = any(item.waiting or any(group.pending for group in item.rollout_groups) for item in ordered if item.automatic)
        stuck = [f"{'/'.join(item.cluster)}: {_describe_stuck_group(item)}" for item in running if _is_stuck(item, now)]
        return MachinesDecision(() if stuck else _list_steps(running[0]), running[0].cluster, "; ".join(stuck) if left else "")
    waiting = [item for item in ordered if item.waiting]
    skipped = tuple(item.cluster for item in waiting if not item.healthy)
    for entry in waiting:
        if entry.healthy:
            return MachinesDecision(_list_steps(entry), entry.cluster, skipped=skipped)
    return MachinesDecision(skipped=skipped)


def compute_next_check(standings: Iterable[MachinesRolloutState], now: datetime) -> float | None:
    """Seconds until a running rollout would count as stuck; None if none runs."""
    ends = [
        _find_last_progress(standing) + timedelta(seconds=PATIENCE)
        for standing in standings
        if standing.in_progress and not _is_stuck(standing, now)
    ]
    return max((min(ends) - now).total_seconds(), 1.0) if ends else None


def _list_steps(standing: MachinesRolloutState) -> tuple[RolloutStep, ...]:
    """Return the next steps of a cluster: the control plane first, then all MachineDeployments, then all MachinePools."""
    for kind in ("KubeadmControlPlane", "MachineDeployment", "MachinePool"):
        groups = [group for group in standing.rollout_groups if group.kind == kind]
        if any(group.pending or (group.is_rollout_requested and not group.healthy) for group in groups):
            return tuple(
                RolloutStep(standing.cluster, group) for group in groups if group.pending and not group.is_rollout_requested
            )
    return ()


def _is_stuck(standing: MachinesRolloutState, now: datetime) -> bool:
    return now - _find_last_progress(standing) > timedelta(seconds=PATIENCE)


def _find_last_progress(standing: MachinesRolloutState) -> datetime:
    times = [
        time
        for group in standing.rollout_groups
        if group.is_rollout_requested
        for time in (group.asked or group.requested, group.newest)
        if time
    ]
    return datetime.fromisoformat(max(times))


def _describe_stuck_group(standing: MachinesRolloutState) -> str:
    group = next(item for item in standing.rollout_groups if item.is_rollout_requested and (item.pending or not item.healthy))
    return f"{group.kind} {group.name} has {group.ready} of {group.replicas} machines ready, {group.outdated} still old"


def format_counts(standings: Sequence[MachinesRolloutState]) -> str:
    """Return the counts in words."""
    behind = [standing for standing in standings if standing.outdated]
    machines, clusters = sum(item.outdated for item in behind), len(behind)
    return f"{machines:,} machine{_format_plural(machines)} of {clusters:,} cluster{_format_plural(clusters)}"


def _format_plural(number: int) -> str:
    return "" if number == 1 else "s"
