"""Rollouts without hosts and without a server: statuses in a dict, and what a pass on a host would ask and tell."""

from collections.abc import Callable, Iterator
from typing import cast

from tests.support.hosts_world import ConfigMaps

from transom.apply.roll_out import judge_result
from transom.apply.target import Target
from transom.controllers.rollout.in_flight_hosts import InFlightHosts
from transom.controllers.rollout.rollouts import Group, OpenRollout, RolloutKind, RolloutMember, Rollouts
from transom.controllers.runtime.conditions import ConditionAggregator
from transom.controllers.runtime.informers import Informers
from transom.hosts.passes.base_pass import PassResult
from transom.proxy.finding import Place
from transom.proxy.objects import Meta
from transom.proxy.secret import Secret
from transom.proxy.settings import Egress
from transom.rollout.fingerprint import compute_rollout_fingerprint
from transom.rollout.markers import merge_markers, parse_markers
from transom.windows.nodes.windows_instance import WindowsInstance


def target(number: int, proxy: str = "http://one", *endpoints: str) -> Target:
    """A host with settings of which the proxy says everything."""
    instance = WindowsInstance(metadata=Meta(f"win-{number}"), place=Place("t", f"WindowsInstance/win-{number}"))
    return Target(instance, Egress(Secret(proxy), Secret(proxy), readiness_endpoints=endpoints), None)


class Statuses:
    """What outlives an operator: the marks of each host, and the settings that hold."""

    def __init__(self, hosts: int, kind: str = "settings") -> None:
        self.kind = kind
        self.marks = {f"win-{number}": "" for number in range(hosts)}
        self.kept = ConfigMaps()
        self.newest: Egress | None = None
        self.resumed = ""

    def operator(self, reports: ConditionAggregator | None = None) -> Rollouts:
        """Rollouts of a process that begins now."""
        subject = RolloutKind(
            self.kind,
            lambda target: compute_rollout_fingerprint(target.egress),
            lambda _: compute_rollout_fingerprint(self.newest) if self.newest is not None else None,
            lambda target: target.instance.cluster,
            lambda: "these settings",
            "edit the settings to go on",
            refutable=self.kind == "settings",
            prepared=self.kind == "upgrade",
        )
        return Rollouts(
            subject,
            self._members,
            reports or ConditionAggregator(),
            InFlightHosts(cast(Informers, self.kept)),
            lambda: self.resumed,
        )

    def _members(self, _: Group, __: str) -> Iterator[RolloutMember]:
        for name, text in self.marks.items():
            yield RolloutMember(name, parse_markers(text))

    def note(self, rollouts: Rollouts, target: Target) -> None:
        """As the controller writes a status."""
        name, mark = target.instance.name, rollouts.build_marker(target)
        self.marks[name] = merge_markers(self.marks[name], [mark] if mark is not None else [])


async def digest(text: str) -> str:
    """A name for a change."""
    return f"{hash(text) & 0xFFFFFFFF:08x}"


class Desk:
    """An operator of which each step is taken by a test."""

    def __init__(self, statuses: Statuses) -> None:
        self.statuses, self.reports = statuses, ConditionAggregator()
        self.rollouts = statuses.operator(self.reports)
        self.asked: list[str] = []

    def ask(self, target: Target) -> Callable[[], None]:
        return lambda: self.asked.append(target.instance.name)

    async def begin(self, target: Target, *, differs: bool = False) -> OpenRollout | None:
        """The pass up to the change; None where it is not the host's turn."""
        rollout = await self.rollouts.get_or_open(target, digest)
        name, ask = target.instance.name, self.ask(target)
        if not rollout.queue.request_read(name, ask, is_different=differs) or not rollout.queue.admit(name, ask):
            return None
        if rollout.queue.is_in_limited_stage:
            self.statuses.note(self.rollouts, target)
        return rollout

    def end(self, rollout: OpenRollout, target: Target, found: PassResult) -> None:
        """The pass from the change on."""
        rollout.record_result(target.instance.name, judge_result(target.egress, found))
        self.statuses.note(self.rollouts, target)
        self.rollouts.release_turn(target.instance.name)

    @property
    def halted(self) -> str:
        """Status and reason of the condition."""
        said = self.reports.get_conditions("cluster").get("RolloutHalted")
        return f"{said.status}/{said.reason}" if said is not None else ""


def marked(statuses: Statuses, state: str) -> list[str]:
    """The hosts whose statuses speak of this state."""
    return [name for name, text in statuses.marks.items() if any(marker.state == state for marker in parse_markers(text))]
