"""The turns of hosts on their way to another SSH key, without hosts and without a server."""

import asyncio
import base64
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import asyncssh
import msgspec
import pytest

from transom.apply.target import Target
from transom.controllers.keys.controller import KeysController
from transom.controllers.keys.key_rotation import KeyRotation, KeySelection
from transom.controllers.rollout import open_rollout
from transom.controllers.rollout.in_flight_hosts import InFlightHosts
from transom.controllers.rollout.kinds import ResumeAnnotation
from transom.controllers.rollout.open_rollout import OpenRollout
from transom.controllers.rollout.rollouts import Rollouts
from transom.controllers.runtime.cached_objects import CachedInstance
from transom.controllers.runtime.conditions import ConditionAggregator
from transom.controllers.runtime.controller import Leadership
from transom.controllers.runtime.informers import Informers
from transom.controllers.runtime.options import HostTimings
from transom.hosts.errors import Held, HostError, Unreachable
from transom.hosts.owner import Owner
from transom.hosts.passes import key_move
from transom.hosts.passes.base_pass import PassSettings
from transom.hosts.ssh.known_hosts import NoHostKeys
from transom.hosts.ssh.ssh_client import compute_public_hash
from transom.kube.client import Client
from transom.kube.objects import UnstructuredObject
from transom.kube.store import ObjectKey
from transom.proxy.finding import Place
from transom.proxy.objects import Meta, SettingsObjects
from transom.proxy.secret import Secret
from transom.proxy.settings import Egress
from transom.rollout.markers import FIELD, merge_markers
from transom.windows.nodes.windows_instance import WindowsInstance, WindowsInstanceSpec

HOSTS = 30


def new_key() -> Secret:
    return Secret(asyncssh.generate_private_key("ssh-ed25519").export_private_key().decode())


class Hosts:
    """Instances in stores, and a move to another key that goes as a test says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.informers = Informers(cast(Client, None), "transom")
        self.former, self.key = new_key(), new_key()
        self.status: dict[str, dict[str, Any]] = {}
        for number in range(HOSTS):
            self.tell(number, {"keyHash": compute_public_hash(self.former)})
        self.give(self.key)
        self.asked: list[int] = []
        self.moved: list[str] = []
        self.refuse: set[str] = set()
        self.gate: asyncio.Event | None = None
        self.leadership = cast(Leadership, SimpleNamespace(client=self))
        monkeypatch.setattr(key_move, "rotate_ssh_key", self.move)
        self.restart()

    def give(self, key: Secret) -> None:
        """The Secret of people's has another key."""
        data = {"private-key.pem": base64.b64encode(key.reveal().encode()).decode()}
        value = {"metadata": {"name": "cloud-private-key", "namespace": "transom"}, "data": data}
        self.key = key
        self.informers.secrets.put(UnstructuredObject.from_json(msgspec.json.encode(value)))

    def restart(self) -> None:
        """Another process leads."""
        self.reports = ConditionAggregator()
        self.keys = KeyRotation(self.informers, self.reports, ResumeAnnotation(self.informers), InFlightHosts(self.informers))

    def tell(self, number: int, status: dict[str, Any]) -> None:
        name = f"win-{number}"
        self.status[name] = self.status.get(name, {}) | status
        value = {
            "metadata": {"name": name, "namespace": "transom", "uid": name},
            "spec": {"address": name},
            "status": self.status[name],
        }
        self.informers.windows_instances.put(msgspec.convert(value, CachedInstance))

    async def create(self, _: object, value: dict[str, Any], __: str) -> UnstructuredObject:
        """As the API server does with a Secret."""
        made = UnstructuredObject.from_json(msgspec.json.encode(value))
        self.informers.secrets.put(made)
        return made

    async def patch(self, _: object, change: dict[str, Any], name: str, __: str) -> UnstructuredObject:
        """The same."""
        held = self.informers.secrets.take_snapshot().find_named(name, "transom")
        assert held is not None
        merged = {key: text for key, text in {**held.value["data"], **change["data"]}.items() if text is not None}
        return await self.create(None, {**held.value, "data": merged}, "")

    async def delete(self, _: object, name: str, *__: object) -> None:
        """The same."""
        self.informers.secrets.remove(ObjectKey("transom", name))

    async def move(self, access: Any, *_: object) -> None:
        if self.gate is not None:
            await self.gate.wait()
        if access.address in self.refuse:
            raise key_move.NewKeyRefused("the host does not take the key")
        self.moved.append(access.address)

    async def open(self, number: int, key: Secret | None = None) -> KeySelection:
        """A pass on a host up to its connection, with the key of the Secret or the one that it was read with."""
        name = f"win-{number}"
        spec = WindowsInstanceSpec(name, 22, "Administrator")
        instance = WindowsInstance(metadata=Meta(name), place=Place("t", f"WindowsInstance/{name}"), spec=spec)
        target = Target(instance, Egress(), key or self.key, previous=(self.former,))
        cached = next(item for item in self.informers.windows_instances.take_snapshot() if item.metadata.name == name)

        async def digest(text: str) -> str:
            return f"{hash(text) & 0xFFFFFFFF:08x}"

        async def note() -> None:
            mark = self.keys.rollouts.build_marker(target)
            self.tell(number, {FIELD: merge_markers(self.status[name].get(FIELD), [mark] if mark else [])})

        class HostRollout:
            """As the controller's, of this one host."""

            async def open_rollout(_, rollouts: Rollouts, target: Target, __: object) -> OpenRollout:
                return await rollouts.get_or_open(target, digest)

            def try_admit(_, rollout: OpenRollout, key: ObjectKey) -> bool:
                return rollout.queue.admit(key.name, lambda: self.asked.append(number))

            async def record_in_flight(_, rollout: OpenRollout, __: object) -> None:
                if rollout.queue.is_in_limited_stage:
                    await note()

        async def record(hashes: str) -> None:
            self.tell(number, {"keyHash": hashes})
            await note()

        settings = PassSettings(Owner("t", "t"))
        opened = await self.keys.select_keys(
            cached, target, NoHostKeys(), settings, cast(Any, HostRollout()), record, self.leadership
        )
        await note()
        return opened


@pytest.fixture
def hosts(monkeypatch: pytest.MonkeyPatch) -> Hosts:
    return Hosts(monkeypatch)


async def halt(hosts: Hosts) -> None:
    assert (await hosts.open(0)).condition is None
    hosts.refuse = {"win-1", "win-2"}
    for number in (1, 2):
        said = (await hosts.open(number)).condition
        assert said is not None
        assert said.reason == "NewKeyRefused"


async def refused(hosts: Hosts, number: int) -> bool:
    said = (await hosts.open(number)).condition
    return said is not None and said.reason == "RolloutHalted"


async def test_another_leader_knows_a_halt(hosts: Hosts) -> None:
    await halt(hosts)
    assert await refused(hosts, 3)
    hosts.restart()
    assert await refused(hosts, 4)
    assert hosts.moved == ["win-0"]
    said = hosts.reports.get_conditions("cluster")["RolloutHalted"]
    assert (said.status, "2 hosts of Secret cloud-private-key failed with the new key" in said.message) == ("True", True)


async def test_a_late_pass_with_the_key_before_moves_nobody(hosts: Hosts) -> None:
    await halt(hosts)
    hosts.tell(5, {"keyHash": compute_public_hash(new_key())})
    late = await hosts.open(5, hosts.former)
    assert late.condition is None
    assert await refused(hosts, 6)
    assert hosts.moved == ["win-0"]


async def test_hosts_that_wait_are_not_lost_by_a_late_pass(hosts: Hosts) -> None:
    hosts.gate = asyncio.Event()
    moving = asyncio.create_task(hosts.open(0))
    await asyncio.sleep(0)
    for number in range(1, 6):
        await hosts.open(number)
    hosts.tell(7, {"keyHash": compute_public_hash(new_key())})
    await hosts.open(7, hosts.former)
    hosts.gate.set()
    await moving
    for number in range(1, 6):
        assert number in hosts.asked
        await hosts.open(number)
    assert sorted(hosts.moved) == [f"win-{number}" for number in range(6)]


async def test_a_leader_that_ends_in_a_move_leaves_it_to_the_next(hosts: Hosts) -> None:
    await begun_by_another(hosts)
    await hosts.open(1)
    assert hosts.moved == []
    await hosts.open(0)
    assert hosts.asked == [1]
    await hosts.open(1)
    assert hosts.moved == ["win-0", "win-1"]


async def begun_by_another(hosts: Hosts) -> None:
    """A process that ended in the move of the first host."""
    hosts.gate = asyncio.Event()
    moving = asyncio.create_task(hosts.open(0))
    await asyncio.sleep(0)
    moving.cancel()
    await asyncio.gather(moving, return_exceptions=True)
    hosts.gate = None
    hosts.restart()


def fails(error: HostError) -> Any:
    """A move that does not get so far."""

    async def move(*_: object) -> None:
        raise error

    return move


async def test_a_host_that_was_begun_and_goes_out_of_reach_has_failed(hosts: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have been harmed, nobody knows: it keeps nobody waiting, and no third one follows two of them."""
    await begun_by_another(hosts)
    for _ in range(2):
        with monkeypatch.context() as patched:
            patched.setattr(key_move, "rotate_ssh_key", fails(Unreachable("no answer")))
            assert (await hosts.open(0)).error is not None
    hosts.refuse = {"win-1"}
    said = (await hosts.open(1)).condition
    assert said is not None
    assert said.reason == "NewKeyRefused"
    assert await refused(hosts, 2)
    assert hosts.moved == []
    # both are well again
    hosts.refuse = set()
    await hosts.open(0)
    await hosts.open(1)
    assert hosts.moved == ["win-0", "win-1"]


async def test_a_host_that_was_begun_and_is_held_keeps_its_turn(hosts: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    await begun_by_another(hosts)
    with monkeypatch.context() as patched:
        patched.setattr(key_move, "rotate_ssh_key", fails(Held("the process before", None)))
        assert (await hosts.open(0)).error is not None
        await hosts.open(1)
        assert hosts.moved == []
        # a hold that lasts for ever is somebody's who died
        patched.setattr(open_rollout, "LOCK_PATIENCE", 0.0)
        assert (await hosts.open(0)).error is not None
    await hosts.open(1)
    assert hosts.moved == ["win-1"]
    await hosts.open(0)
    assert hosts.moved == ["win-1", "win-0"]


async def test_a_host_that_another_process_has_moved_takes_nobodys_turn(hosts: Hosts) -> None:
    await begun_by_another(hosts)
    assert ":begun" in hosts.status["win-0"][FIELD]
    # its key was recorded, and what became of the move was not
    hosts.tell(0, {"keyHash": compute_public_hash(hosts.key)})
    hosts.restart()
    await hosts.open(1)
    assert hosts.moved == []
    await hosts.open(0)
    assert hosts.asked == [1]
    await hosts.open(1)
    assert hosts.moved == ["win-1"]


async def test_a_word_of_a_person_has_it_go_on(hosts: Hosts) -> None:
    await halt(hosts)
    hosts.refuse = set()
    base = {"metadata": {"name": "cluster", "annotations": {"transom.dev/resume": "now"}}, "spec": {}}
    hosts.informers.egress_proxies.put(UnstructuredObject.from_json(msgspec.json.encode(base)))
    for number in (1, 2, 3):
        await hosts.open(number)
    assert hosts.moved == ["win-0", "win-1", "win-2", "win-3"]
    assert hosts.reports.get_conditions("cluster")["RolloutHalted"].status == "False"


@pytest.mark.parametrize("back", [False, True], ids=["to a third key", "back to the first"])
async def test_wherever_a_move_is_cut_a_key_that_opens_the_host_is_kept(hosts: Hosts, back: bool) -> None:
    """The host may have the second key by then, and no pass has seen that."""
    first, second = hosts.former, hosts.key
    await hosts.keys.kept.keep("cloud-private-key", first, hosts.leadership)
    hosts.gate = asyncio.Event()
    moving = asyncio.create_task(hosts.open(0))
    await asyncio.sleep(0)
    moving.cancel()
    await asyncio.gather(moving, return_exceptions=True)
    hosts.give(first if back else new_key())
    hosts.restart()
    await KeysController(hosts.informers, hosts.keys, pace=HostTimings(), now=lambda: datetime.now(UTC))._delete_unused_keys(
        hosts.leadership
    )
    cached = hosts.informers.windows_instances.take_snapshot().list_by_index("secret", "cloud-private-key")[0]
    objects = SettingsObjects("transom")
    found = {
        compute_public_hash(previous_key)
        for previous_key in hosts.keys.find_previous_keys(cached, "cloud-private-key", hosts.key, objects)
    }
    assert found == {compute_public_hash(item) for item in (first, second)} - {compute_public_hash(hosts.key)}


async def test_a_key_is_kept_until_a_status_was_seen_to_name_it(hosts: Hosts) -> None:
    """The Secret may be edited between the two."""
    first = hosts.former
    for number in range(HOSTS):
        hosts.tell(number, {"keyHash": ""})
    await hosts.keys.kept.keep("cloud-private-key", first, hosts.leadership)
    controller = KeysController(hosts.informers, hosts.keys, pace=HostTimings(), now=lambda: datetime.now(UTC))
    await controller._delete_unused_keys(hosts.leadership)
    assert hosts.keys.kept.list_keys("cloud-private-key") == (first,)
    hosts.tell(0, {"keyHash": compute_public_hash(first)})
    await controller._delete_unused_keys(hosts.leadership)
    hosts.tell(0, {"keyHash": compute_public_hash(hosts.key)})
    await controller._delete_unused_keys(hosts.leadership)
    assert hosts.keys.kept.list_keys("cloud-private-key") == ()
