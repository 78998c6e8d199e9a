"""Settings, versions and SSH keys on their way to the same nodes, from one operator: each step of each pass is a test's.

As `rollout_world`, where one change is under way at a time. What is real besides: that a host has marks of three changes in one
field, slots (`--max-unavailable`), drains, and what decides that a Node is drained, left alone, and given back. What is played:
an API server of Nodes without pods, and the order in which a node's controller asks (`NodeLifecycle`).
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any, Literal, cast

import msgspec
from tests.support.hosts_world import BAD, BREAKS, NAMESPACE, START, HostsWorld

from transom.apply.roll_out import has_applied_settings
from transom.apply.target import Target
from transom.controllers.instance_state.view import InstanceView
from transom.controllers.rollout.heartbeats import Heartbeats
from transom.controllers.rollout.host_rollout import HostRollout, PassRecord
from transom.controllers.rollout.interruptions import Interruptions
from transom.controllers.rollout.rollouts import Group, OpenRollout, RolloutKind, RolloutMember, Rollouts, build_change_id
from transom.controllers.rollout.slots import UnavailabilitySlots
from transom.controllers.runtime.cached_objects import CachedInstance, HostNode
from transom.controllers.runtime.conditions import ConditionAggregator
from transom.controllers.runtime.controller import Leadership
from transom.controllers.runtime.hash_key import HashKey
from transom.controllers.runtime.informers import INSTANCE_INDEXES, Informers
from transom.controllers.runtime.options import HostTimings
from transom.hosts.errors import Held, HostError, PutBack, RestartsFailed, Unreachable
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

Kind = Literal["settings", "upgrade", "keys"]
KINDS: tuple[Kind, ...] = ("settings", "upgrade", "keys")


class Change:
    """One of the things that are rolled out: what is asked for, what each host has, and whom it reached."""

    def __init__(self, kind: Kind, names: list[str]) -> None:
        self.kind = kind
        self.want = "good-0"
        self.has = dict.fromkeys(names, self.want)
        self.reached: dict[str, list[str]] = {}
        """By what was asked for, the hosts that were changed to it, in order."""
        self.rollouts: Rollouts

    def reach(self, what: str, rollout: OpenRollout | None, name: str) -> None:
        """The host is being changed to this, by a rollout: each word of a person's makes another one."""
        word = rollout.fingerprint.rpartition("\n")[0] if rollout is not None else ""
        self.reached.setdefault(f"{what} {word}", []).append(name)


class Pass(msgspec.Struct):
    """A pass on its way, and what comes next in it."""

    target: Target
    stage: Literal["key", "moving", "prepare", "connect", "look", "changing"] = "key"
    keys: OpenRollout | None = None
    owed: bool = False
    """Whether its key was begun before."""
    settings: OpenRollout | None = None
    drained: bool = False
    alone: bool = False
    given: str = ""
    """The proxy that it gets instead of the one that holds."""
    version: str = ""
    """That its process installs, and by which rollout."""
    upgrade: OpenRollout | None = None
    record: PassRecord = msgspec.field(default_factory=PassRecord)


class ChangesWorld(HostsWorld):
    """`hosts` nodes, and one operator; `most` of them may be away at once."""

    def __init__(self, hosts: int, *, workers: int = 8, most: int = 1) -> None:
        super().__init__(hosts, workers)
        self.most, self.now = most, START
        self.settings, self.upgrade, self.keys = self.changes = tuple(Change(kind, self.names) for kind in KINDS)
        self.set_back: set[str] = set()
        """Hosts that got what last passed while their Nodes were empty: what they had may be newer."""
        self.annotations: dict[str, dict[str, str | None]] = {name: {} for name in self.names}
        self.passed = "good-0"
        self.most_away = 0
        self.start()

    # --- processes

    def start(self) -> None:
        """A process begins: it knows what statuses and Nodes say, and every host is asked for."""
        self.reports = ConditionAggregator()
        self.nodes: Store[HostNode] = Store()
        self.instances: Store[CachedInstance] = Store(INSTANCE_INDEXES)
        self.queue: KeyQueue[ObjectKey] = KeyQueue()
        self.heartbeats = Heartbeats(self.nodes)
        begun = self.begun_hosts()
        self.turns = HostRollout(
            self.heartbeats,
            self.queue,
            cast(HashKey, self),
            lambda case: self._node(case.cached.metadata.name),
            lambda case: self._case(case.cached.metadata.name),
            self._write,
            begun,
        )
        for change in self.changes:
            change.rollouts = Rollouts(self._subject(change), self._members, self.reports, begun, lambda: self.resumed)
            self.turns.rollouts.append(change.rollouts)
        pace = HostTimings()
        self.hold = pace.drain + pace.ready
        informers = cast(Informers, SimpleNamespace(windows_instances=self.instances, watch=lambda *_, **__: Store()))
        self.slots = UnavailabilitySlots(informers, self.most, self.hold, lambda: self.now, self.queue.add)
        self.interruptions = Interruptions(
            self.slots, self.settings.rollouts, self.upgrade.rollouts, self.turns, pace, self.hold, lambda: self.now
        )
        self.leadership = cast(Leadership, _Leadership(self))
        self.passes: dict[str, Pass] = {}
        told = ((name, mark) for name, text in self.marks.items() for mark in parse_markers(text))
        before = {(build_change_id(mark.kind, mark.change), name) for name, mark in told if mark.state in ("begun", "passed")}
        for listed in self.kept.config_maps.take_snapshot():
            before |= {(change, name) for change in listed.value["data"] for name in begun.get_hosts_for_change(change)}
        self.begun_before = Counter(change for change, _ in before)
        """How many hosts had begun with each change when this process began, as far as was written by then."""
        for name in self.names:
            self.instances.put(self._cached(name))
            self.show(name)
        self.ask_all()

    def _subject(self, change: Change) -> RolloutKind:
        def text(target: Target) -> str:
            if change.kind == "settings":
                return compute_rollout_fingerprint(target.egress)
            return change.want if change.kind == "upgrade" else _key(target)

        return RolloutKind(
            change.kind,
            text,
            lambda target: text(self.target(target.instance.name)),
            lambda target: target.instance.cluster,
            lambda: "this change",
            "edit it to go on",
            refutable=change.kind == "settings",
            prepared=change.kind == "upgrade",
        )

    async def crash(self, *, after_the_change: bool, runs_on: bool = False) -> None:
        """The process ends: hosts that were being changed have, or have not, become others, or are at it yet."""
        listening = self.turns.pending_heartbeats
        for task in listening:
            task.cancel()
        await asyncio.gather(*listening, return_exceptions=True)
        for name, item in self.passes.items():
            if item.stage == "moving" and after_the_change:
                self._move(name, item)
            if item.stage == "changing" and runs_on:
                self.running.setdefault(name, item)
            elif item.stage == "changing" and after_the_change and name not in self.running:
                self._change(name, item)
        self.start()

    # --- people, hosts and time

    async def edit(self, kind: Kind, what: str) -> None:
        """Something else is asked for. A process reads its payload once: another version is another process."""
        if kind == "upgrade":
            await self.crash(after_the_change=True)
        next(change for change in self.changes if change.kind == kind).want = what
        if kind == "upgrade":
            self.start()
        self.ask_all()

    def tick(self, seconds: float) -> None:
        """Time goes by: what waits for a clock comes again."""
        self.now += timedelta(seconds=seconds)
        self.ask_all()

    @property
    def changing(self) -> list[str]:
        """The hosts that scripts are changing now."""
        return [name for name, item in self.passes.items() if item.stage in ("moving", "changing")]

    # --- passes

    async def begin(self) -> None:
        """A worker takes the next host, and reads what holds for it."""
        key = await self.queue.take()
        self.passes[key.name] = Pass(self.target(key.name), version=self.upgrade.want)

    async def step(self, name: str) -> None:
        """The next step of a pass."""
        one = self.passes[name]
        match one.stage:
            case "key":
                await self._open(name, one)
            case "moving":
                self._moved(name, one)
            case "prepare":
                await self._prepare(name, one)
            case "connect":
                await self._connect(name, one)
            case "look":
                await self._look(name, one)
            case "changing" if name in self.running:
                held = Held("the process before", None)
                await self._end(name, one, PassResult(plan=Plan(forget=True), begun=True, error=held))
                self.run_out(name)
            case "changing":
                self._change(name, one)
                await self._end(name, one, self._found(name, one, begun=True))
        self._count()

    async def _open(self, name: str, one: Pass) -> None:
        """As KeyRotation.select_keys."""
        rollouts, text = self.keys.rollouts, _key(one.target)
        one.stage = "prepare"
        if self.keys.has[name] == text:
            if (known := rollouts.find(one.target)) is not None and known.has_no_result(name):
                known.record_result(name, "conforming")
            return
        rollout = await self.turns.open_rollout(rollouts, one.target, self.leadership)
        one.owed = name in rollout.unresolved
        if self.turns.try_admit(rollout, ObjectKey(NAMESPACE, name)):
            await self.turns.record_in_flight(rollout, self.leadership)
            one.stage, one.keys = "moving", rollout

    def _moved(self, name: str, one: Pass) -> None:
        assert one.keys is not None
        one.stage = "prepare"
        if self.trouble[name] == "unreachable":
            one.keys.record_result(name, "failed" if one.owed else "untouched")
        else:
            self._move(name, one)
            one.keys.record_result(name, "failed" if BREAKS in _key(one.target) else "passed")

    def _move(self, name: str, one: Pass) -> None:
        self.keys.reach(_key(one.target), one.keys, name)
        if BREAKS not in _key(one.target):
            self.keys.has[name] = _key(one.target)

    async def _prepare(self, name: str, one: Pass) -> None:
        """As NodeLifecycle.choose_work."""
        case, node = self._case(name), self._node(name)
        key, purpose = case.cached.key, "upgrade" if self.upgrade.has[name] != self.upgrade.want else None
        if node.cordoned_for is not None:
            put_back = self.interruptions.get_rollback_condition(case.cached)
            if put_back is not None or (purpose is None and self.interruptions.is_heartbeat_awaited(key)):
                await self.interruptions.uncordon_when_ready(case.cached, node, self.leadership)
                await self._leave(name, one)
                return
        elif purpose is None:
            self.interruptions.release_node_slot(key)
        one.stage = "connect"
        if purpose is None:
            one.alone = node.cordoned_for is not None
            return
        pending = await self.interruptions.prepare(
            case.cached, one.target, node, "upgrade", "another version is to be", self.leadership
        )
        if pending is None:
            one.drained = one.alone = True
            one.upgrade = self.interruptions.get_rollout(key)
        elif pending.draining:
            if pending.condition.reason == "Draining":
                # it comes again in a few seconds
                self.queue.add(key)
            await self._leave(name, one)
        else:
            one.alone = self._node(name).cordoned_for is not None

    async def _connect(self, name: str, one: Pass) -> None:
        """As SettingsStage.run."""
        key = ObjectKey(NAMESPACE, name)
        requeue = partial(self.turns.requeue, key)
        one.settings = await self.settings.rollouts.get_or_open(one.target, self.compute_hash)
        rollout = one.settings
        emptied = one.drained or self._node(name).cordoned_for is not None
        beside = emptied and not rollout.state.is_started(name)
        if beside and rollout.state.stage != "all" and self.passed != _proxy(one.target):
            one.given = self.passed
            self.set_back.add(name)
        elif not one.alone and not rollout.queue.request_read(name, requeue, is_different=self._differs(name, one)):
            if self.settings.rollouts.find(one.target) is None:
                self.queue.add(key)
            await self._leave(name, one)
            return
        one.stage = "look"

    async def _look(self, name: str, one: Pass) -> None:
        rollout, case = one.settings, self._case(name)
        assert rollout is not None
        if self.trouble[name] == "unreachable":
            await self._end(name, one, PassResult(error=Unreachable("no answer")))
            return
        broken = self.trouble[name] == "restarts" or BREAKS in self.settings.has[name]
        owed = name in rollout.unresolved or name in rollout.state.in_progress
        version = one.drained and self.upgrade.has[name] != self.upgrade.want
        if not version and not self._differs(name, one) and not (broken and owed):
            await self._end(name, one, self._found(name, one, begun=False))
            return
        if not one.alone and not await self.turns.admit(rollout, case, one.target, one.record, self.leadership):
            await self._end(name, one, PassResult(plan=Plan(forget=True), waiting=True))
            return
        self.turns.record_change(one.record, case)
        one.stage = "changing"

    def _differs(self, name: str, one: Pass) -> bool:
        return self.settings.has[name] != (one.given or _proxy(one.target))

    def _change(self, name: str, one: Pass) -> None:
        proxy = one.given or _proxy(one.target)
        if one.drained and self.upgrade.has[name] != one.version:
            self.upgrade.reach(one.version, one.upgrade, name)
            if BREAKS in one.version:
                # all is put back
                self._restarted(name)
                return
            self.upgrade.has[name] = one.version
        if self.settings.has[name] != proxy:
            self.settings.reach(proxy, one.settings, name)
        self.settings.has[name] = proxy
        self._restarted(name)

    def _restarted(self, name: str) -> None:
        if self.trouble[name] == "dead":
            self.silent.add(name)
        else:
            self.revive(name)

    def _found(self, name: str, one: Pass, *, begun: bool) -> PassResult:
        proxy, error = one.given or _proxy(one.target), None
        if one.drained and begun and BREAKS in self.upgrade.want and self.upgrade.has[name] != self.upgrade.want:
            error: HostError | None = PutBack("the version does not run", ("kubelet",), "2", "1")
        elif self.trouble[name] == "restarts" or BREAKS in proxy:
            error = RestartsFailed("containerd does not run")
        rollout = one.settings
        asked = begun or (rollout is not None and (name in rollout.unresolved or name in rollout.state.in_progress))
        fetched = (FetchAttempt(0, 60 if BAD in proxy else 0),) if asked and error is None else ()
        plan = Plan(forget=begun or error is not None)
        return PassResult(plan=plan, begun=begun, fetched=fetched, error=error, restarted=("kubelet",) if begun else ())

    async def _end(self, name: str, one: Pass, found: PassResult) -> None:
        case, rollout = self._case(name), one.settings
        assert rollout is not None
        key = case.cached.key
        if one.alone and not one.given and has_applied_settings(one.target.egress, found):
            rollout.record_result(name, "conforming")
        elif not one.alone:
            self.turns.report_pass(rollout, case, one.target, found, one.record, self.leadership)
        if one.drained:
            self.interruptions.record_pass(case.cached, found, one.record.heartbeat_before_change)
            if (upgrade := self.interruptions.get_rollout(key)) is not None:
                egress = _egress(one.given) if one.given else one.target.egress
                got = msgspec.structs.replace(one.target, egress=egress)
                self.turns.report_pass(upgrade, case, got, found, one.record, self.leadership)
        elif found.error is None and not found.plan and self.upgrade.has[name] == self.upgrade.want:
            upgrade = await self.upgrade.rollouts.get_or_open(one.target, self.compute_hash)
            self.turns.report_conforming(upgrade, case, one.target, found, one.record, self.leadership)
        if rollout.state.completed:
            self.passed = _proxy(one.target)
        node = self._node(name)
        interrupted = one.drained or node.cordoned_for is not None
        up_to_date = self.upgrade.has[name] == self.upgrade.want
        if found.error is None and not found.waiting and up_to_date and interrupted:
            await self.interruptions.uncordon_when_ready(case.cached, node, self.leadership)
        if one.given and self._node(name).cordoned_for is None:
            self.queue.add(key)
        await self._leave(name, one)

    async def _leave(self, name: str, one: Pass) -> None:
        self.marks[name] = self.turns.build_markers(self._case(name), one.target)
        await self.turns.finish_status_write(ObjectKey(NAMESPACE, name), self.leadership)
        del self.passes[name]
        for change in self.changes:
            change.rollouts.release_turn(name)
        self.queue.finish(ObjectKey(NAMESPACE, name))

    # --- what is known

    def target(self, name: str) -> Target:
        """A host with the settings and the key that hold."""
        instance = WindowsInstance(metadata=Meta(name), place=Place("t", f"WindowsInstance/{name}"))
        return Target(instance, _egress(self.settings.want), Secret(self.keys.want))

    @property
    def halted(self) -> set[str]:
        """Of which kinds a rollout is stopped."""
        return {change.kind for change in self.changes if change.rollouts.halted}

    def _members(self, _: Group, __: str) -> Iterator[RolloutMember]:
        for name, text in self.marks.items():
            yield RolloutMember(name, parse_markers(text), conforming=self.keys.has[name] == __.rpartition("\n")[2])

    def _cached(self, name: str) -> CachedInstance:
        value = {
            "metadata": {"name": name, "namespace": NAMESPACE, "uid": name},
            "spec": {"address": name, "lifecycle": "Node"},
            "status": {FIELD: self.marks[name], "nodeName": name, "stateHash": "00"},
        }
        return msgspec.convert(value, CachedInstance)

    def _case(self, name: str) -> InstanceView:
        return InstanceView(self._cached(name), None, (), None, None, self._node(name))

    def _node(self, name: str) -> HostNode:
        found = self.nodes.take_snapshot().find_named(name)
        assert found is not None
        return found

    def show(self, name: str) -> None:
        """The watch brings the Node as it is now."""
        ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": self.beats[name].isoformat()}
        annotations = {key: value for key, value in self.annotations[name].items() if value is not None}
        value = {
            "metadata": {"name": name, "uid": name, "resourceVersion": "1", "annotations": annotations},
            "spec": {"unschedulable": bool(annotations.get("transom.dev/cordoned"))},
            "status": {"conditions": [ready]},
        }
        node = msgspec.convert(value, HostNode)
        self.nodes.put(node)
        self.heartbeats.update(name, node)
        self.slots.update_node(name, node)
        if self.interruptions.is_heartbeat_awaited(ObjectKey(NAMESPACE, name)):
            self.queue.add(ObjectKey(NAMESPACE, name))

    def _count(self) -> None:
        """How many Nodes are away, of those that are waited for."""
        cordoned = (name for name in self.names if self.annotations[name].get("transom.dev/cordoned"))
        since = (self._node(name).draining_since for name in cordoned)
        away = sum(item is not None and (self.now - item).total_seconds() < self.hold for item in since)
        self.most_away = max(self.most_away, away)


class _Leadership:
    """A lease that is held, and an API server that has Nodes and no pods; nobody reads its events."""

    def __init__(self, world: ChangesWorld) -> None:
        self.client = self.recorder = self
        self.create, self.replace = world.kept.create, world.kept.replace
        self._world = world

    def permit(self) -> None:
        """It is held."""

    def record_normal(self, *_: object) -> None:
        """An event."""

    record_warning = record_normal

    async def get(self, _: object, name: str) -> HostNode:
        return self._world._node(name)

    async def patch(self, _: object, value: dict[str, Any], name: str) -> HostNode:
        self._world.annotations[name] |= value["metadata"]["annotations"]
        self._world.show(name)
        return self._world._node(name)

    async def list_objects(self, _: object, fields: str, **options: object) -> Listing[HostNode]:
        kind, _, name = fields.partition("=")
        return Listing([self._world._node(name)] if kind == "metadata.name" else [], [], "1")


def _egress(proxy: str) -> Egress:
    url = Secret(f"http://{proxy}")
    return Egress(url, url, readiness_endpoints=("https://x",))


def _proxy(target: Target) -> str:
    assert target.egress.http_proxy is not None
    return target.egress.http_proxy.reveal().removeprefix("http://")


def _key(target: Target) -> str:
    assert target.key is not None
    return target.key.reveal()
