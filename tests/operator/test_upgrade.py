"""Another payload: each Node is drained, its host changed, and the Node given back; not too many at once, and not for ever."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.life.payloads import TEXT, write
from tests.operator.clusters import PROXY, Cluster, environment, until
from tests.operator.kubelets import Kubelets
from tests.operator.limited import limited
from tests.operator.test_nodes import SUBNET, bare, published, reasons

from transom.controllers.options import Pace
from transom.hosts.connection import Timeouts
from transom.simulator import Host

pytestmark = pytest.mark.lab
NETWORKS = {"serviceNetwork": ["10.96.0.0/16"], "podNetwork": ["10.244.0.0/16"]}
OTHER = "http://other.corp.example:3128"
QUICK = Pace(unready=0.4, ready=3600, drain_step=0.1, timeouts=Timeouts(connect=5, progress=2, whole=20))
MARKS = ("transom.dev/cordoned", "transom.dev/drain", "transom.dev/drained")
PROGRAM = r"C:\k\kubelet.exe"


@pytest.fixture
async def payload(cluster: Cluster, tmp_path: Path) -> Path:
    await published(cluster)
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY, networks=NETWORKS)
    return write(tmp_path / "payload")


@pytest.fixture
def newer(tmp_path: Path) -> Path:
    return write(tmp_path / "newer", TEXT.replace("1.36.3-1", "1.36.3-2"), sizes=4000)


@pytest.fixture
async def kubelets(cluster: Cluster) -> AsyncIterator[Kubelets]:
    made = Kubelets(cluster)
    async with made.running():
        yield made


async def nodes(cluster: Cluster, kubelets: Kubelets, payload: Path, count: int) -> list[Host]:
    """Hosts that are Ready nodes with the payload."""
    hosts = [await bare(cluster, f"win-{number}") for number in range(count)]
    async with cluster.operator(payload=payload, pace=QUICK):
        for number, host in enumerate(hosts):
            await cluster.instance(f"win-{number}", host, lifecycle="Node")
        for number, host in enumerate(hosts):
            await cluster.until(f"win-{number}", NodeReady="False/Registering")
            await kubelets.join(host, **SUBNET)
        for number in range(count):
            await cluster.until(f"win-{number}", NodeReady="True", Configured="True/UpToDate")
    return hosts


async def upgraded(cluster: Cluster, name: str, seconds: float = 40) -> None:
    """Until an instance has the newer payload, and its Node takes pods."""
    async with asyncio.timeout(seconds):
        while (status := await cluster.status(name)).get("payloadVersion") != "1.36.3-2":
            await asyncio.sleep(0.05)
    await cluster.until(name, Configured="True/UpToDate", NodeReady="True")
    node = await Kubelets(cluster).node(status["nodeName"])
    assert not node["spec"].get("unschedulable")
    assert not set(MARKS) & node["metadata"]["annotations"].keys()
    assert node["metadata"]["annotations"]["transom.dev/payload-version"] == "1.36.3-2"


async def message(cluster: Cluster, name: str) -> str:
    return next(str(one["message"]) for one in (await cluster.status(name))["conditions"] if one["type"] == "Configured")


async def test_one_node_after_the_other_and_a_proxy_change_in_between(
    cluster: Cluster, kubelets: Kubelets, payload: Path, newer: Path
) -> None:
    """A budget holds the first one up; the proxy that is changed meanwhile comes with the upgrade, by the same restart."""
    hosts = await nodes(cluster, kubelets, payload, 3)
    for number, host in enumerate(hosts):
        name = host.name.lower()
        await kubelets.pod(f"web-{number}", name, app="web")
        await kubelets.pod(f"other-{number}", name)
        await kubelets.pod(f"everywhere-{number}", name, "DaemonSet")
    await kubelets.budget(0)
    only = ("hosts", "certificates", "nodes")
    before = [len(host.starts("kubelet")) for host in hosts]
    async with limited(cluster, *only) as client, cluster.operator(client, controllers=only, payload=newer, pace=QUICK):
        await until(lambda: len(kubelets.order) == 1)
        first = next(number for number, host in enumerate(hosts) if host.name.lower() == kubelets.order[0])
        await cluster.until(f"win-{first}", Configured="False/Draining")
        async with asyncio.timeout(20):
            while "disruption budget" not in (said := await message(cluster, f"win-{first}")):
                await asyncio.sleep(0.05)
        assert f"{cluster.namespace}/web-{first}" in said
        assert "budget web needs 1 healthy pods and has 1 currently" in said
        for number in set(range(3)) - {first}:
            await cluster.until(f"win-{number}", Configured="False/UpgradePending")
        await cluster.proxy(httpProxy=OTHER, httpsProxy=OTHER, networks=NETWORKS)
        for number in set(range(3)) - {first}:
            # who waits for a slot does not wait for the proxy
            await until(lambda number=number: f"HTTP_PROXY={OTHER}" in environment(hosts[number], "kubelet"))
        assert f"HTTP_PROXY={PROXY}" in environment(hosts[first], "kubelet")
        await kubelets.budget(9)
        for number in range(3):
            await upgraded(cluster, f"win-{number}")
    assert kubelets.most_away == 1
    assert len(hosts[first].starts("kubelet")) == before[first] + 1
    assert all(f"HTTP_PROXY={OTHER}" in environment(host, "kubelet") for host in hosts)
    assert await kubelets.pods() == {f"everywhere-{number}" for number in range(3)}
    told = await reasons(cluster, f"win-{first}")
    assert [one for one in told if one in ("Cordoned", "Drained", "Uncordoned")] == ["Cordoned", "Drained", "Uncordoned"]
