"""etcd is restored from an earlier copy while operators run: they follow the restored objects and forget the newer ones."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from lab.control_plane import ControlPlane
from tests.support.operator.clusters import PROXY, Cluster, environment, open_cluster
from tests.support.waiting import until

from transom.kube.client import Client
from transom.kube.resources import CONFIG_MAPS, LEASES, WINDOWS_INSTANCES
from transom.manifests.definitions import build_crds
from winsim import Host, Simulator

pytestmark = pytest.mark.lab
OTHER = "http://after.corp.example:3128"
NEWER = 60
"""Revisions after the copy, which a watch of the newer ones waits for in silence."""


@pytest.fixture(scope="module")
def own_control_plane() -> Iterator[ControlPlane]:
    """One of this file alone: others count on revisions that only grow."""
    with ControlPlane(definitions=build_crds()) as running:
        yield running


@pytest.fixture
async def restorable(own_control_plane: ControlPlane, simulator: Simulator) -> AsyncIterator[Cluster]:
    async with open_cluster(own_control_plane, simulator) as made:
        yield made


async def has_proxy(host: Host, proxy: str) -> None:
    await until(lambda: f"HTTPS_PROXY={proxy}" in environment(host, "kubelet"))


async def prepare_hosts(cluster: Cluster, *names: str) -> dict[str, Host]:
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY)
    hosts = {}
    for name in names:
        hosts[name] = await cluster.simulator.add_host()
        await cluster.instance(name, hosts[name])
    return hosts


async def restore(cluster: Cluster, copy: Path) -> None:
    await asyncio.to_thread(cluster.control_plane.restore_etcd, copy)


async def copy_now(cluster: Cluster, target: Path) -> Path:
    await asyncio.to_thread(cluster.control_plane.copy_etcd, target)
    return target


async def write_revisions(cluster: Cluster) -> None:
    await asyncio.gather(*(cluster.put(CONFIG_MAPS, f"later-{number}") for number in range(NEWER)))


@pytest.mark.parametrize("leader_elect", [True, False])
async def test_hosts_follow_the_restored_objects(restorable: Cluster, tmp_path: Path, *, leader_elect: bool) -> None:
    cluster = restorable
    hosts = await prepare_hosts(cluster, "win-1", "win-2", "win-3")
    options = {"controllers": ("egress", "hosts"), "leader_elect": leader_elect}
    async with cluster.operator(**options) as operator:
        for name in hosts:
            await cluster.until(name, ProxyApplied="True/Applied")
        copy = await copy_now(cluster, tmp_path / "etcd")
        await cluster.proxy(httpProxy=OTHER, httpsProxy=OTHER)
        await cluster.delete(WINDOWS_INSTANCES, "win-3")
        await cluster.gone("win-3")
        for name in ("win-1", "win-2"):
            await has_proxy(hosts[name], OTHER)
        assert not environment(hosts["win-3"], "kubelet")
        await write_revisions(cluster)
        await restore(cluster, copy)
        for host in hosts.values():
            await has_proxy(host, PROXY)
        for name in hosts:
            await cluster.until(name, Configured="True", ProxyApplied="True/Applied")
        assert operator.restores == 1
        assert await cluster.told("transom", "ClusterRestored")
        # and from then on as ever
        await cluster.proxy(httpProxy=OTHER, httpsProxy=OTHER)
        for host in hosts.values():
            await has_proxy(host, OTHER)
        assert operator.restores == 1


async def test_a_host_that_has_seen_a_later_leader_is_changed_again(restorable: Cluster, tmp_path: Path) -> None:
    """The number of the restored lease is lower than the one that hosts have seen, and refuse to go below."""
    cluster = restorable
    hosts = await prepare_hosts(cluster, "win-1")
    options = {"controllers": ("egress", "hosts")}
    async with cluster.operator(**options):
        await cluster.until("win-1", ProxyApplied="True/Applied")
    copy = await copy_now(cluster, tmp_path / "etcd")
    async with cluster.operator(**options):
        await cluster.proxy(httpProxy=OTHER, httpsProxy=OTHER)
        await has_proxy(hosts["win-1"], OTHER)
        await cluster.until("win-1", ProxyApplied="True/Applied")
        before = (await cluster.client.get(LEASES, "transom", cluster.namespace)).spec
        await write_revisions(cluster)
        await restore(cluster, copy)
        await has_proxy(hosts["win-1"], PROXY)
        await cluster.until("win-1", Configured="True", ProxyApplied="True/Applied")
        after = (await cluster.client.get(LEASES, "transom", cluster.namespace)).spec
    assert before is not None
    assert after is not None
    assert (after.lease_transitions or 0) >= (before.lease_transitions or 0)


async def test_a_standby_reads_everything_again_too(restorable: Cluster, tmp_path: Path) -> None:
    cluster = restorable
    hosts = await prepare_hosts(cluster, "win-1")
    options = {"controllers": ("egress", "hosts")}
    # each process has a client of its own, which knows what it was answered
    async with cluster.operator(Client(cluster.client.connection), **options) as leader:
        await cluster.until("win-1", ProxyApplied="True/Applied")
        async with cluster.operator(Client(cluster.client.connection), **options) as standby:
            await until(lambda: standby.ready and leader.working)
            copy = await copy_now(cluster, tmp_path / "etcd")
            await cluster.proxy(httpProxy=OTHER, httpsProxy=OTHER)
            await has_proxy(hosts["win-1"], OTHER)
            await write_revisions(cluster)
            await restore(cluster, copy)
            await until(lambda: standby.restores == 1 and leader.restores == 1)
            await has_proxy(hosts["win-1"], PROXY)
            await until(lambda: standby.ready)
            assert standby.settings.own is not None
            assert standby.settings.own.https_proxy is not None
            assert standby.settings.own.https_proxy.reveal() == PROXY


async def test_a_server_that_only_restarts_is_the_same_one(restorable: Cluster) -> None:
    cluster = restorable
    hosts = await prepare_hosts(cluster, "win-1")
    async with cluster.operator(controllers=("egress", "hosts")) as operator:
        await cluster.until("win-1", ProxyApplied="True/Applied")
        await asyncio.to_thread(cluster.control_plane.restart_apiserver)
        await asyncio.to_thread(cluster.control_plane.compact)
        await cluster.proxy(httpProxy=OTHER, httpsProxy=OTHER)
        await has_proxy(hosts["win-1"], OTHER)
        assert operator.restores == 0
