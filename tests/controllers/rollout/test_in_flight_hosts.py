"""The object that says which hosts were begun, on a real API server; the fake of the random histories is held against it."""

import asyncio
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.support.hosts_world import NAMESPACE, ConfigMaps
from tests.support.operator.clusters import Cluster

from transom.controllers.rollout.in_flight_hosts import InFlight, InFlightHosts
from transom.controllers.runtime.controller import Leadership
from transom.controllers.runtime.informers import Informers
from transom.kube.errors import ApiError, Conflict, NotFound
from transom.kube.resources import CONFIG_MAPS
from transom.kube.store import Store
from transom.rollout.state import CONFIG_MAP_NAME

BEAT = datetime(2026, 11, 22, 10, 0, 5, tzinfo=UTC)


class Process:
    """One that has hosts begun."""

    def __init__(self, server: "Server") -> None:
        self.requests = 0
        self._server = server
        self.under_way: dict[str, InFlight] = {}
        informers = SimpleNamespace(config_maps=server.store, namespace=server.namespace)
        self.hosts = InFlightHosts(cast(Informers, informers))
        self.hosts.register(self)
        self._leadership = cast(Leadership, SimpleNamespace(client=self))

    def iter_in_flight(self) -> list[tuple[str, InFlight]]:
        return list(self.under_way.items())

    def reset(self) -> None:
        self.under_way = {}

    async def note(self) -> None:
        await self.hosts.record_hosts(self._leadership)

    async def begin(self, change: str, host: str) -> None:
        self.under_way[change] = {**self.under_way.get(change, {}), host: BEAT}
        await self.note()

    async def replace(self, *of: Any) -> object:
        self.requests += 1
        # a request takes its time
        await asyncio.sleep(0)
        return await self._server.client.replace(*of)

    async def list_objects(self, *of: Any, fields: str) -> object:
        """What the server has now, of one name."""
        assert fields == f"metadata.name={CONFIG_MAP_NAME}"
        try:
            found = [await self._server.client.get(CONFIG_MAPS, CONFIG_MAP_NAME, self._server.namespace)]
        except NotFound:
            found = []
        return SimpleNamespace(items=found)

    async def create(self, *of: Any) -> object:
        self.requests += 1
        await asyncio.sleep(0)
        return await self._server.client.create(*of)


class Server:
    """An API server, and what an informer has seen of it."""

    def __init__(self, client: Any, namespace: str) -> None:
        self.client, self.namespace = client, namespace
        self.store: Store[Any] = Store()

    async def see(self) -> None:
        """The watch brings what stands now."""
        self.store.put(await self.client.get(CONFIG_MAPS, CONFIG_MAP_NAME, self.namespace))

    async def data(self) -> dict[str, str]:
        return dict((await self.client.get(CONFIG_MAPS, CONFIG_MAP_NAME, self.namespace)).value.get("data") or {})


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.lab)])
def server(request: pytest.FixtureRequest) -> Server:
    if request.param == "fake":
        return Server(ConfigMaps(), NAMESPACE)
    cluster: Cluster = request.getfixturevalue("cluster")
    return Server(cluster.client, cluster.namespace)


async def test_those_that_begin_together_share_a_request(server: Server) -> None:
    process = Process(server)
    await asyncio.gather(*(process.begin("settings.3f", f"win-{number:02}") for number in range(12)))
    assert process.requests <= 2
    said = (await server.data())["settings.3f"].split()
    assert said == [f"win-{number:02}@{BEAT.isoformat()}" for number in range(12)]
    await process.note()
    assert process.requests <= 2


async def test_the_next_process_knows_them_until_it_has_gone_on(server: Server) -> None:
    await Process(server).begin("settings.3f", "win-1")
    await server.see()
    following = Process(server)
    assert following.hosts.get_hosts_for_change("settings.3f") == {"win-1": BEAT}
    await following.begin("keys.77", "win-2")
    assert set(await server.data()) == {"settings.3f", "keys.77"}
    following.under_way = {"settings.3f": {}, "keys.77": {"win-2": None}}
    await following.note()
    assert await server.data() == {"keys.77": "win-2"}


async def test_what_another_change_has_replaced_goes(server: Server) -> None:
    before = Process(server)
    await before.begin("settings.3f", "win-1")
    await before.begin("settings.3f", "win-2")
    await server.see()
    following = Process(server)
    following.hosts.forget_hosts(lambda change: change.startswith("settings."), {"win-1"})
    await following.begin("settings.4a", "win-1")
    beat = BEAT.isoformat()
    assert await server.data() == {"settings.3f": f"win-2@{beat}", "settings.4a": f"win-1@{beat}"}


async def test_who_leads_no_longer_replaces_nothing_of_the_next_one(server: Server) -> None:
    former = Process(server)
    await former.begin("settings.3f", "win-1")
    await server.see()
    following = Process(server)
    following.under_way = {"settings.3f": following.hosts.get_hosts_for_change("settings.3f")}
    await following.begin("settings.3f", "win-2")
    stands = await server.data()
    with pytest.raises(Conflict):
        await former.begin("settings.3f", "win-3")
    assert await server.data() == stands
    await server.see()
    former.hosts.reset()
    assert set(former.hosts.get_hosts_for_change("settings.3f")) == {"win-1", "win-2"}


async def test_of_two_that_make_it_one_does(server: Server) -> None:
    former, following = Process(server), Process(server)
    await following.begin("settings.3f", "win-2")
    with pytest.raises(Conflict):
        await former.begin("settings.3f", "win-1")
    assert (await server.data())["settings.3f"].startswith("win-2@")


async def test_one_that_was_deleted_is_made_again(server: Server) -> None:
    process = Process(server)
    await process.begin("settings.3f", "win-1")
    await server.client.delete(CONFIG_MAPS, CONFIG_MAP_NAME, server.namespace)
    with pytest.raises(NotFound):
        await server.data()
    with pytest.raises(ApiError):
        await process.begin("settings.3f", "win-2")
    await process.note()
    assert len((await server.data())["settings.3f"].split()) == 2
