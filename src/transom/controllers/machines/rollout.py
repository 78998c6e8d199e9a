"""Which machines are older than their settings, and which cluster is rolled next: one at a time, decided from what is there.

Nothing is remembered between two looks: a rollout that was begun is known by `rollout.after` of the objects. It is the time of
the change: only machines that are older are replaced, and the next leader goes on with it. Pure. Times are RFC 3339 as the
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


class Group(msgspec.Struct, frozen=True):
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
    def unseen(self) -> bool:
        """Whether it has machines of which Cluster API knows no age: those of a MachinePool without Machines."""
        return self.of_pool and self.replicas > 0 and self.machines == 0

    @property
    def of_pool(self) -> bool:
        """Whether its machines are made and replaced by the infrastructure's own means."""
        return self.kind == "MachinePool"

    @property
    def begun(self) -> bool:
        """Whether the rollout of the newest change was asked for."""
        return not self.to_edit and self.requested is not None and (self.changed is None or self.requested >= self.changed)


class MachinesStanding(msgspec.Struct, frozen=True):
    """How a cluster stands. `automatic`: its settings ask for a rollout."""

    cluster: ClusterName
    groups: tuple[Group, ...] = ()
    automatic: bool = False
    paused: bool = False

    @property
    def rolled(self) -> tuple[Group, ...]:
        """The groups that may be rolled from here, the control plane first."""
        return tuple(sorted((group for group in self.groups if group.kept is None), key=lambda one: (one.kind, one.name)))

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
            and any(group.begun and (group.pending or not group.healthy) for group in self.rolled)
        )

    @property
    def waiting(self) -> bool:
        """Whether there is something to roll that was not begun."""
        return self.automatic and not self.paused and any(group.pending and not group.begun for group in self.rolled)

    @property
    def healthy(self) -> bool:
        """Whether nothing is broken already."""
        return all(group.healthy for group in self.groups)


class RolloutStep(msgspec.Struct, frozen=True):
    """Roll this group of this cluster."""

    cluster: ClusterName
    group: Group


class MachinesDecision(msgspec.Struct, frozen=True):
    """What to do now; `current` is the cluster that is being rolled, `halted` why nothing else is begun."""

    steps: tuple[RolloutStep, ...] = ()
    current: ClusterName | None = None
    halted: str = ""
    skipped: tuple[ClusterName, ...] = ()
    """Clusters that are left for later since their machines are not ready already."""


def decide(standings: Iterable[MachinesStanding], now: datetime) -> MachinesDecision:
    """The next steps. A cluster that was begun is brought to its end before another one is begun."""
    ordered = sorted(standings, key=lambda one: one.cluster)
    running = [one for one in ordered if one.in_progress]
    if running:
        left = any(one.waiting or any(group.pending for group in one.rolled) for one in ordered if one.automatic)
        stuck = [f"{'/'.join(one.cluster)}: {_stuck_group(one)}" for one in running if _stuck(one, now)]
        return MachinesDecision(() if stuck else _steps(running[0]), running[0].cluster, "; ".join(stuck) if left else "")
    waiting = [one for one in ordered if one.waiting]
    skipped = tuple(one.cluster for one in waiting if not one.healthy)
    for one in waiting:
        if one.healthy:
            return MachinesDecision(_steps(one), one.cluster, skipped=skipped)
    return MachinesDecision(skipped=skipped)


def next_look(standings: Iterable[MachinesStanding], now: datetime) -> float | None:
    """Seconds until a running rollout would count as stuck; None where none runs."""
    ends = [_last_progress(one) + timedelta(seconds=PATIENCE) for one in standings if one.in_progress and not _stuck(one, now)]
    return max((min(ends) - now).total_seconds(), 1.0) if ends else None


def _steps(standing: MachinesStanding) -> tuple[RolloutStep, ...]:
    """The control plane alone as long as it is not done; then all MachineDeployments, then all MachinePools."""
    for kind in ("KubeadmControlPlane", "MachineDeployment", "MachinePool"):
        groups = [group for group in standing.rolled if group.kind == kind]
        if any(group.pending or (group.begun and not group.healthy) for group in groups):
            return tuple(RolloutStep(standing.cluster, group) for group in groups if group.pending and not group.begun)
    return ()


def _stuck(standing: MachinesStanding, now: datetime) -> bool:
    return now - _last_progress(standing) > timedelta(seconds=PATIENCE)


def _last_progress(standing: MachinesStanding) -> datetime:
    times = [
        time for group in standing.rolled if group.begun for time in (group.asked or group.requested, group.newest) if time
    ]
    return datetime.fromisoformat(max(times))


def _stuck_group(standing: MachinesStanding) -> str:
    group = next(one for one in standing.rolled if one.begun and (one.pending or not one.healthy))
    return f"{group.kind} {group.name} has {group.ready} of {group.replicas} machines ready, {group.outdated} still old"


def counted(standings: Sequence[MachinesStanding]) -> str:
    """The counts in words."""
    behind = [one for one in standings if one.outdated]
    machines, clusters = sum(one.outdated for one in behind), len(behind)
    return f"{machines:,} machine{_s(machines)} of {clusters:,} cluster{_s(clusters)}"


def _s(number: int) -> str:
    return "" if number == 1 else "s"
