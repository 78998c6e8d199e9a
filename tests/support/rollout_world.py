"""An operator's rollouts over time, without hosts and without a server: each step of each pass is taken by a test.

What is real: the state machine, its driver, marks, heartbeats and what judges a pass. What is played: hosts that take a change
or fail, kubelets with clocks of their own, the statuses that outlive a process, edits, and the end of a process at any step.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any, cast

import msgspec
from tests.support.hosts_world import BAD, BREAKS, NAMESPACE, HostsWorld

from transom.apply.target import Target
from transom.controllers.instance_state.view import InstanceView
from transom.controllers.rollout.heartbeats import Heartbeats
from transom.controllers.rollout.host_rollout import HostRollout, PassRecord
from transom.controllers.rollout.rollouts import Group, OpenRollout, RolloutKind, RolloutMember, Rollouts
from transom.controllers.runtime.cached_objects import CachedInstance, HostNode
from transom.controllers.runtime.conditions import ConditionAggregator
from transom.controllers.runtime.controller import Leadership
from transom.controllers.runtime.hash_key import HashKey
from transom.hosts.errors import Held, RestartsFailed, Unreachable
from transom.hosts.passes.base_pass import PassResult
from transom.kube.client import Listing
from transom.kube.queue import KeyQueue
from transom.kube.store import ObjectKey, Store
from transom.proxy.finding import Place
from transom.proxy.objects import Meta
from transom.proxy.secret import Secret
from transom.proxy.settings import Egress
from transom.rollout.fingerprint import compute_rollout_fingerprint
from transom.rollout.markers import FIELD, parse_markers
from transom.windows.nodes.fetch import FetchAttempt
from transom.windows.nodes.windows_instance import WindowsInstance
from transom.windows.planning.planner import Plan

_PROCESS = ("reports", "nodes", "queue", "rollouts", "heartbeats", "turns", "leadership", "begun")
"""What a process has for itself."""


class Pass(msgspec.Struct):
    """A pass on its way: it knows what the host is to have; it may connect, by a rollout; it changes the host."""

    target: Target
    rollout: OpenRollout | None = None
    changing: bool = False
    record: PassRecord = msgspec.field(default_factory=PassRecord)


class _Leadership:
    """A lease that is held, and an API server that knows of Nodes what the watch has brought."""

    def __init__(self, world: "World") -> None:
        self.client = self
        self.create, self.replace = world.kept.create, world.kept.replace
        self._world = world

    def permit(self) -> None:
        """It is held."""

    async def list_objects(self, _: object, fields: str, **options: object) -> Listing[HostNode]:
        node = self._world.nodes.take_snapshot().find_named(fields.partition("=")[2])
        return Listing([node] if node is not None else [], [], "1")


class World(HostsWorld):
    """`hosts` hosts with settings `good-0`, and one operator."""

    def __init__(self, hosts: int, *, workers: int = 32, kind: str = "settings", nodes: bool = False) -> None:
        super().__init__(hosts, workers)
        self.kind = kind
        self.has = dict.fromkeys(self.names, "http://good-0")
        self.beats = self.beats if nodes else {}
        self.want, self.endpoint = "http://good-0", "https://x"
        self.changed: dict[str, list[str]] = {}
        """By what was asked for, the hosts that were changed to it, in order."""
        self.halts: dict[str, set[str]] = {}
        """By what was asked for, the hosts that it had reached, or was about to, when it was halted."""
        self.known = ""
        """What is asked for, as far as a pass has come with it to its rollout."""
        self.outdated: list[str] = []
        """Hosts that were begun with what was not asked for any more, though it was known by then."""
        self.down: set[str] = set()
        """Nodes that say that they are not Ready."""
        self.former: dict[str, Any] = {}
        """The process that led before this one, and waits for the lease."""
        self.start()

    # --- processes

    def start(self) -> None:
        """A process begins: it knows what the statuses say, and every host is asked for."""
        self.reports = ConditionAggregator()
        self.nodes: Store[HostNode] = Store()
        for name in self.beats:
            self.show(name)
        subject = RolloutKind(
            self.kind,
            lambda target: _text(target.egress),
            lambda target: _text(self.target(target.instance.name).egress),
            lambda target: target.instance.cluster,
            lambda: "these settings",
            "edit the settings to go on",
            refutable=self.kind == "settings",
            prepared=self.kind == "upgrade",
        )
        self.queue: KeyQueue[ObjectKey] = KeyQueue()
        begun = self.begun_hosts()
        self.begun = begun
        self.rollouts = Rollouts(subject, self._members, self.reports, begun, lambda: self.resumed)
        self.heartbeats = Heartbeats(self.nodes)
        self.turns = HostRollout(
            self.heartbeats,
            self.queue,
            cast(HashKey, self),
            lambda case: self.nodes.take_snapshot().find_named(case.cached.metadata.name),
            lambda case: self._case(case.cached.metadata.name),
            self._write,
            begun,
        )
        self.turns.rollouts.append(self.rollouts)
        self.leadership = cast(Leadership, _Leadership(self))
        self.passes: dict[str, Pass] = {}
        for name in self.names:
            self.queue.add(ObjectKey(NAMESPACE, name))

    def crash(self, *, after_the_change: bool, runs_on: bool = False) -> None:
        """The process ends: hosts that were being changed have, or have not, become others, or are at it yet."""
        self._end_passes(after_the_change=after_the_change, runs_on=runs_on)
        self.start()

    def lose_lease(self, *, after_the_change: bool, runs_on: bool = False) -> None:
        """Another process works, the same two by turns; what each remembers is of its last turn."""
        self._end_passes(after_the_change=after_the_change, runs_on=runs_on)
        process = {name: getattr(self, name) for name in _PROCESS}
        if self.former:
            vars(self).update(self.former)
            self.begun.reset()
            for name in self.beats:
                self.show(name)
            self.ask_all()
        else:
            self.start()
        self.former = process

    def _end_passes(self, *, after_the_change: bool, runs_on: bool) -> None:
        for name, item in self.passes.items():
            if item.changing and runs_on:
                self.running.setdefault(name, item)
            elif item.changing and after_the_change and name not in self.running:
                self._change(name, item)
            self.queue.finish(ObjectKey(NAMESPACE, name))
        self.passes = {}

    # --- people

    def edit(self, proxy: str, endpoint: str = "https://x") -> None:
        """Other settings hold."""
        self.want, self.endpoint = proxy, endpoint
        self.ask_all()

    @property
    def changing(self) -> list[str]:
        """The hosts that scripts are changing now."""
        return [name for name, item in self.passes.items() if item.changing]

    def fell(self, name: str) -> None:
        """A Node says that it is not Ready, now and later."""
        self.down.add(name)
        self.revive(name)

    # --- passes

    async def begin(self) -> str:
        """A worker takes the next host, and reads what holds for it. Gives the host."""
        key = await self.queue.take()
        self.passes[key.name] = Pass(self.target(key.name))
        return key.name

    async def _connect(self, name: str, one: Pass) -> None:
        key = ObjectKey(NAMESPACE, name)
        one.rollout = await self.rollouts.get_or_open(one.target, self.compute_hash)
        if one.target.egress == self.target(name).egress:
            self.known = one.rollout.fingerprint
        differs = self.has[name] != _proxy(one.target) and len(self.passes) % 2 == 0
        if not one.rollout.queue.request_read(name, lambda: self.turns.requeue(key), is_different=differs):
            del self.passes[name]
            self._done(name)
            if self.rollouts.find(one.target) is None:
                self.queue.add(key)

    async def step(self, name: str) -> None:
        """The next step of a pass: it connects; it looks, and asks whether it may change; it has changed the host."""
        one = self.passes[name]
        case, rollout, target = self._case(name), one.rollout, one.target
        if rollout is None:
            await self._connect(name, one)
            return
        if one.changing and name in self.running:
            await self._end(name, PassResult(plan=Plan(forget=True), begun=True, error=Held("the process before", None)))
            self.run_out(name)
            return
        if one.changing:
            self._change(name, one)
            await self._end(name, self._found(name, target, begun=True))
            return
        if self.trouble[name] == "unreachable":
            await self._end(name, PassResult(error=Unreachable("no answer")))
            return
        broken = self.trouble[name] == "restarts" or BREAKS in self.has[name]
        if self.has[name] == _proxy(target) and not (broken and _is_begun(rollout, name)):
            await self._end(name, self._found(name, target, begun=False))
            return
        owed = name in rollout.unresolved
        if not await self.turns.admit(rollout, case, target, one.record, self.leadership):
            await self._end(name, PassResult(plan=Plan(forget=True), waiting=True))
            return
        if rollout.fingerprint != self.known and not owed:
            self.outdated.append(name)
        self.turns.record_change(one.record, case)
        one.changing = True

    def _change(self, name: str, one: Pass) -> None:
        self.has[name] = _proxy(one.target)
        assert one.rollout is not None
        self.changed.setdefault(one.rollout.fingerprint, []).append(name)
        if name in self.beats and self.trouble[name] != "dead":
            self.revive(name)
        elif name in self.beats:
            self.silent.add(name)

    def _found(self, name: str, target: Target, *, begun: bool) -> PassResult:
        error = RestartsFailed("containerd does not run") if self._fails(name, target) else None
        rollout = self.passes[name].rollout
        asked = begun or (rollout is not None and _is_begun(rollout, name))
        fetched = (FetchAttempt(0, 60 if BAD in _proxy(target) else 0),) if asked and error is None else ()
        plan = Plan(forget=begun or error is not None)
        return PassResult(plan=plan, begun=begun, fetched=fetched, error=error, restarted=("kubelet",) if begun else ())

    def _fails(self, name: str, target: Target) -> bool:
        return self.trouble[name] == "restarts" or BREAKS in _proxy(target)

    async def _end(self, name: str, found: PassResult) -> None:
        one = self.passes[name]
        assert one.rollout is not None
        self.turns.report_pass(one.rollout, self._case(name), one.target, found, one.record, self.leadership)
        self.marks[name] = self.turns.build_markers(self._case(name), one.target)
        await self.turns.finish_status_write(ObjectKey(NAMESPACE, name), self.leadership)
        del self.passes[name]
        self._done(name)
        for rollout in self.rollouts.halted.values():
            under_way = {host for host, item in self.passes.items() if item.changing and item.rollout is rollout}
            # a script of a process before this one, too
            under_way |= {host for host, item in self.running.items() if item.rollout.fingerprint == rollout.fingerprint}
            self.halts.setdefault(
                rollout.fingerprint, {*self.changed.get(rollout.fingerprint, ()), *under_way, *rollout.state.in_progress}
            )

    def _done(self, name: str) -> None:
        self.rollouts.release_turn(name)
        self.queue.finish(ObjectKey(NAMESPACE, name))

    # --- what is known

    def target(self, name: str) -> Target:
        """A host with the settings that hold."""
        return _target(name, self.want, self.endpoint)

    @property
    def halted(self) -> bool:
        """Whether people are told that a rollout is stopped."""
        return self.told

    def _members(self, _: Group, __: str) -> Iterator[RolloutMember]:
        for name, text in self.marks.items():
            yield RolloutMember(name, parse_markers(text))

    def _case(self, name: str) -> InstanceView:
        return _view(name, self.marks[name])

    def show(self, name: str) -> None:
        """The watch brings the Node as it is now."""
        status = "False" if name in self.down else "True"
        ready = {"type": "Ready", "status": status, "lastHeartbeatTime": self.beats[name].isoformat()}
        node = msgspec.convert({"metadata": {"name": name}, "status": {"conditions": [ready]}}, HostNode)
        self.nodes.put(node)
        if hasattr(self, "heartbeats"):
            self.heartbeats.update(name, node)


# a history asks for the same few of them some ten thousand times
@cache
def _target(name: str, proxy: str, endpoint: str) -> Target:
    instance = WindowsInstance(metadata=Meta(name), place=Place("t", f"WindowsInstance/{name}"))
    return Target(instance, Egress(Secret(proxy), Secret(proxy), readiness_endpoints=(endpoint,)), None)


@cache
def _view(name: str, marks: str) -> InstanceView:
    value = {"metadata": {"name": name, "namespace": NAMESPACE}, "status": {FIELD: marks}}
    return InstanceView(msgspec.convert(value, CachedInstance), None, (), None, None, None)


@cache
def _text(egress: Egress) -> str:
    return compute_rollout_fingerprint(egress)


def _is_begun(rollout: OpenRollout, host: str) -> bool:
    return host in rollout.unresolved or host in rollout.state.in_progress


def _proxy(target: Target) -> str:
    assert target.egress.http_proxy is not None
    return target.egress.http_proxy.reveal()
