"""Hosts of a world of rollouts, people, and workers: what the worlds of one change and of several share."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, cast

import msgspec

from transom.controllers.instance_state.view import InstanceView
from transom.controllers.rollout.host_rollout import HostRollout
from transom.controllers.rollout.in_flight_hosts import InFlightHosts
from transom.controllers.runtime.conditions import ConditionAggregator
from transom.controllers.runtime.informers import Informers
from transom.kube.errors import Conflict, NotFound
from transom.kube.objects import UnstructuredObject
from transom.kube.queue import KeyQueue
from transom.kube.resources import CONFIG_MAPS
from transom.kube.store import ObjectKey, Store
from transom.rollout.markers import FIELD

NAMESPACE = "transom"
Trouble = Literal["", "unreachable", "restarts", "dead"]
"""What goes wrong on a host: it is not reached, a service does not start, its kubelet does not come back."""
BAD = "bad"
"""Part of a proxy through which nothing gets."""
BREAKS = "breaks"
"""Part of settings with which services do not start."""
START = datetime(2026, 11, 22, 10, tzinfo=UTC)


class ConfigMaps:
    """The ConfigMaps of an API server, as far as rollouts ask for them; what is written is seen at once."""

    def __init__(self) -> None:
        self.config_maps: Store[UnstructuredObject] = Store()
        self.namespace = NAMESPACE
        self.writes = 0

    async def create(self, resource: object, value: dict[str, Any], _: str) -> UnstructuredObject:
        """As the API server does it."""
        assert resource is CONFIG_MAPS
        if self.config_maps.take_snapshot().find_named(value["metadata"]["name"], NAMESPACE) is not None:
            raise Conflict(409, "AlreadyExists", "the object exists")
        return self._put(value)

    async def replace(self, resource: object, value: dict[str, Any], name: str, _: str) -> UnstructuredObject:
        """The same: an older version is not replaced."""
        assert resource is CONFIG_MAPS
        before = self.config_maps.take_snapshot().find_named(name, NAMESPACE)
        if before is None or before.metadata.resource_version != value["metadata"]["resourceVersion"]:
            raise Conflict(409, "Conflict", "the object has been modified")
        return self._put(value)

    def _put(self, value: dict[str, Any]) -> UnstructuredObject:
        self.writes += 1
        metadata = value["metadata"] | {"resourceVersion": str(self.writes)}
        made = UnstructuredObject.from_json(msgspec.json.encode(value | {"metadata": metadata}))
        self.config_maps.put(made)
        return made

    async def get(self, resource: object, name: str, _: str) -> UnstructuredObject:
        """The same."""
        assert resource is CONFIG_MAPS
        found = self.config_maps.take_snapshot().find_named(name, NAMESPACE)
        if found is None:
            raise NotFound(404, "NotFound", f"there is no ConfigMap {name}")
        return found

    async def delete(self, _: object, name: str, __: str) -> None:
        """The same."""
        self.config_maps.remove(ObjectKey(NAMESPACE, name))


class HostsWorld(ABC):
    """`hosts` hosts that one operator looks after, with so many workers."""

    queue: KeyQueue[ObjectKey]
    turns: HostRollout
    reports: ConditionAggregator
    passes: Mapping[str, Any]
    """What is under way, by host."""

    def __init__(self, hosts: int, workers: int) -> None:
        self.workers = workers
        self.names = [f"win-{number}" for number in range(hosts)]
        self.marks = dict.fromkeys(self.names, "")
        self.trouble: dict[str, Trouble] = dict.fromkeys(self.names, "")
        # each clock is its own
        self.beats = {name: START + timedelta(seconds=97 * number - 600) for number, name in enumerate(self.names)}
        self.silent: set[str] = set()
        """Hosts whose kubelets have said nothing since they were restarted."""
        self.flawed: set[str] = set()
        """Hosts that were ever in trouble."""
        self.resumed = ""
        self.kept = ConfigMaps()
        """What outlives a process beside the statuses."""
        self.running: dict[str, Any] = {}
        """Passes of processes that ended while the script ran: it refuses one pass at most that comes meanwhile, and ends."""

    def begun_hosts(self) -> InFlightHosts:
        """Those of a process that begins now."""
        return InFlightHosts(cast(Informers, self.kept), pause=0.0)

    @property
    @abstractmethod
    def changing(self) -> list[str]:
        """The hosts that scripts are changing now."""

    @abstractmethod
    def show(self, name: str) -> None:
        """The watch brings the Node as it is now."""

    @abstractmethod
    async def begin(self) -> object:
        """A worker takes the next host, and reads what holds for it."""

    @abstractmethod
    async def step(self, name: str) -> None:
        """The next step of a pass."""

    @abstractmethod
    def _change(self, name: str, one: Any) -> None:
        """The script of a pass ends."""

    def run_out(self, name: str) -> None:
        """The script that a process before has left running ends."""
        self._change(name, self.running.pop(name))
        self.queue.add(ObjectKey(NAMESPACE, name))

    def resume(self, word: str) -> None:
        """A person has halted rollouts go on."""
        self.resumed = word
        self.ask_all()

    def afflict(self, name: str, trouble: Trouble) -> None:
        """Something goes wrong on a host from now on, or not any more."""
        self.trouble[name] = trouble
        self.flawed |= {name} if trouble else set()
        if not trouble and name in self.silent:
            self.revive(name)
        self.queue.add(ObjectKey(NAMESPACE, name))

    def revive(self, name: str) -> None:
        """A kubelet says something."""
        self.beats[name] += timedelta(seconds=20)
        self.silent.discard(name)
        self.show(name)

    def ask_all(self) -> None:
        """Every host is asked for."""
        for name in self.names:
            self.queue.add(ObjectKey(NAMESPACE, name))

    @property
    def startable(self) -> bool:
        """Whether a worker is free, and a host is asked for."""
        return len(self.queue) > 0 and len(self.passes) < self.workers

    async def quiet(self, limit: int = 20_000) -> None:
        """Until nobody is asked for, but by a clock: who failed is tried again by one."""
        for _ in range(limit):
            if self.startable:
                await self.begin()
            elif self.passes:
                await self.step(next(iter(self.passes)))
            elif self.turns.pending_heartbeats:
                await asyncio.wait(self.turns.pending_heartbeats)
            elif self.running:
                self.run_out(next(iter(self.running)))
            else:
                return
        raise AssertionError("it does not end")

    @property
    def told(self) -> bool:
        """Whether people are told that a rollout is stopped."""
        said = self.reports.get_conditions("cluster").get("RolloutHalted")
        return said is not None and said.status == "True"

    async def compute_hash(self, text: str, _: object = None) -> str:
        """As HashKey does."""
        return f"{hash(text) & 0xFFFFFFFFFFFF:012x}"

    async def _write(self, case: InstanceView, _: object, fields: dict[str, str | None], __: object) -> None:
        self.marks[case.cached.metadata.name] = fields[FIELD] or ""
