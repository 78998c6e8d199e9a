"""EgressProxy/cluster deleted: a wish, or the end of something larger. No base is not "no proxy"."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
from lab.control_plane import ControlPlane
from tests.support.operator.clusters import PROXY, Cluster, environment, open_cluster
from tests.support.waiting import until

from transom.controllers.runtime.base_removal import FINALIZER
from transom.controllers.runtime.options import HostTimings
from transom.kube.errors import NotFound
from transom.kube.resources import EGRESS_PROXIES, NAMESPACES
from transom.manifests.definitions import build_crds
from transom.windows.host.queries import LEDGER
from winsim import Host, Simulator

pytestmark = pytest.mark.lab
QUICK = HostTimings(check_interval=1.0)


async def applied(cluster: Cluster, number: int = 2) -> list[Host]:
    """Hosts with settings, under an operator that has ended."""
    hosts = [await cluster.simulator.add_host() for _ in range(number)]
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY)
    for index, host in enumerate(hosts):
        await cluster.instance(f"win-{index}", host)
    async with cluster.operator():
        await cluster.wait_ready()
        assert (await cluster.client.get(EGRESS_PROXIES, "cluster")).metadata.finalizers == [FINALIZER]
    return hosts


def starts(hosts: list[Host]) -> list[int]:
    return [len(host.starts("kubelet")) for host in hosts]


async def base_gone(cluster: Cluster) -> None:
    async def gone() -> bool:
        try:
            await cluster.client.get(EGRESS_PROXIES, "cluster")
        except NotFound:
            return True
        return False

    await until(gone)


async def kept(cluster: Cluster, hosts: list[Host], before: list[int]) -> None:
    """Nothing was changed on any host, and each says why."""
    for number, host in enumerate(hosts):
        await cluster.until(f"win-{number}", Ready="False/SettingsMissing", ProxyApplied="False/SettingsMissing")
        assert f"HTTPS_PROXY={PROXY}" in environment(host, "kubelet")
        assert len(await cluster.told(f"win-{number}", "SettingsMissing")) == 1
    assert starts(hosts) == before


async def test_a_deletion_that_nobody_saw_is_carried_out(cluster: Cluster) -> None:
    """The operator was away; until all is given back the object is there, and says so."""
    hosts = await applied(cluster)
    await cluster.delete(EGRESS_PROXIES, "cluster")
    hosts[1].faults.refuses = True

    async def said() -> bool:
        held = (await cluster.client.get(EGRESS_PROXIES, "cluster")).value["status"]["conditions"]
        return "Removing" in [item["reason"] for item in held if item["type"] == "Ready"]

    async with cluster.operator():
        await until(said)
        hosts[1].faults.refuses = False
        await base_gone(cluster)
        assert [host.registry.find_key(LEDGER) for host in hosts] == [None, None]
        for number in range(2):
            await cluster.until(f"win-{number}", Ready="True", ProxyApplied="True/NotConfigured")


async def test_a_base_that_is_not_there_takes_nothing_away(cluster: Cluster) -> None:
    hosts = await applied(cluster)
    before = starts(hosts)
    await cluster.merge(EGRESS_PROXIES, "cluster", {"metadata": {"finalizers": None}})
    await cluster.delete(EGRESS_PROXIES, "cluster")
    fresh = await cluster.simulator.add_host()
    await cluster.instance("win-9", fresh)
    async with cluster.operator(pace=QUICK):
        # a host that has nothing of ours is as with empty settings
        await cluster.until("win-9", Ready="True", ProxyApplied="True/NotConfigured")
        await kept(cluster, hosts, before)
        await cluster.proxy()
        await cluster.wait_ready()
        assert [host.registry.find_key(LEDGER) for host in hosts] == [None, None]


@pytest.mark.parametrize("how", ["renamed", "annotated"])
async def test_a_rename_and_a_persons_word_change_no_host(cluster: Cluster, how: str) -> None:
    hosts = await applied(cluster)
    before = starts(hosts)
    async with cluster.operator(pace=QUICK):
        await cluster.wait_ready()
        uid = (await cluster.client.get(EGRESS_PROXIES, "cluster")).metadata.uid
        if how == "renamed":
            await cluster.put(EGRESS_PROXIES, "proxy", spec={"httpProxy": PROXY, "httpsProxy": PROXY})
        else:
            await cluster.merge(EGRESS_PROXIES, "cluster", {"metadata": {"annotations": {"transom.dev/leave-host": "true"}}})
        await cluster.delete(EGRESS_PROXIES, "cluster")
        await base_gone(cluster)
        await kept(cluster, hosts, before)
        assert await cluster.told("cluster", "HostsLeft", "default", uid)
        await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY)
        await cluster.wait_ready()
    assert starts(hosts) == before
    await cluster.delete(EGRESS_PROXIES, "proxy")


@pytest.fixture(scope="module")
def own_plane() -> Iterator[ControlPlane]:
    with ControlPlane(definitions=build_crds()) as running:
        yield running


@pytest.fixture
async def alone(own_plane: ControlPlane, simulator: Simulator) -> AsyncIterator[Cluster]:
    """On an API server whose definitions may be deleted."""
    async with open_cluster(own_plane, simulator) as made:
        yield made


async def test_a_definition_deleted_and_made_anew_changes_no_host(alone: Cluster, own_plane: ControlPlane) -> None:
    hosts = await applied(alone)
    before = starts(hosts)
    async with alone.operator(pace=QUICK) as operator:
        # the status is still that of the process before it
        await until(lambda: operator.working)
        # the server looks for what is left of a kind every five seconds
        await asyncio.to_thread(own_plane.run_kubectl, "delete", "crd", "egressproxies.transom.dev", "--timeout=120s")
        await asyncio.sleep(2)
        own_plane.define(build_crds())
        # by the process that knows them the last settings are kept; the next one says that they are missing
        assert starts(hosts) == before
        assert all(f"HTTPS_PROXY={PROXY}" in environment(host, "kubelet") for host in hosts)
    async with alone.operator(pace=QUICK):
        await kept(alone, hosts, before)
        await alone.proxy(httpProxy=PROXY, httpsProxy=PROXY)
        await alone.wait_ready()
    assert starts(hosts) == before


async def test_a_namespace_that_goes_changes_no_host(alone: Cluster) -> None:
    hosts = await applied(alone)
    before = starts(hosts)
    async with alone.operator(pace=QUICK) as operator:
        await until(lambda: operator.working)
        await alone.client.delete(NAMESPACES, alone.namespace)
        await alone.delete(EGRESS_PROXIES, "cluster")
        await base_gone(alone)
        await asyncio.sleep(2)
    assert starts(hosts) == before
    assert all(f"HTTPS_PROXY={PROXY}" in environment(host, "kubelet") for host in hosts)
