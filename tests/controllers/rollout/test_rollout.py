"""A change from the operator to many hosts: a canary, and no further where it has no egress, or two hosts fail."""

import asyncio

import pytest
from tests.support.operator.clusters import PROXY, Cluster, environment
from tests.support.operator.rollouts import breaks_tls, halted
from tests.support.waiting import PATIENCE, until

from transom.controllers.rollout import heartbeats
from transom.controllers.runtime.options import HostTimings
from transom.kube.resources import EGRESS_PROXIES, NODES, WINDOWS_INSTANCES
from winsim.computer import Invocation

ENDPOINT = "https://registry.corp.example/v2/"


def works(_: Invocation) -> int:
    return 0


async def test_a_proxy_that_breaks_tls_reaches_one_host_and_an_edit_goes_on(cluster: Cluster) -> None:
    hosts = [await cluster.simulator.add_host() for _ in range(5)]
    for host in hosts:
        host.fetch = breaks_tls
    policy = {"readinessEndpoints": [ENDPOINT], "readinessPolicy": "Report"}
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY, **policy)
    for number, host in enumerate(hosts):
        await cluster.instance(f"win-{number}", host)
    async with cluster.operator():
        await halted(cluster, "True")
    connections = [host.traffic.connections for host in hosts]
    # another process knows it by the host without egress
    async with cluster.operator(pace=HostTimings(check_interval=1.0)):
        said = await halted(cluster, "True")
        changed = [number for number, host in enumerate(hosts) if host.starts("kubelet")[1:]]
        assert len(changed) == 1
        for number in range(5):
            if number in changed:
                await cluster.until(f"win-{number}", EgressWorks="False/TLSFailed")
            else:
                await cluster.until(f"win-{number}", Configured="False/RolloutHalted", ProxyApplied="False/RolloutHalted")
        assert all(f"win-{number}" in said for number in changed)
        # those that it leaves out are read, again and again; people see without an edit how they are
        left = [number for number in range(5) if number not in changed]
        await until(lambda: all(hosts[number].traffic.connections > connections[number] + 1 for number in left))
        hosts[left[0]].faults.refuses = True
        await cluster.until(f"win-{left[0]}", Reachable="False/Unreachable", Configured="False/Unreachable")
        hosts[left[0]].faults.refuses = False
        await cluster.until(f"win-{left[0]}", Reachable="True/Connected", Configured="False/RolloutHalted")
        assert [number for number, host in enumerate(hosts) if host.starts("kubelet")[1:]] == changed

        for host in hosts:
            host.fetch = works
        await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY, noProxy="mended.example", **policy)
        for number in range(5):
            await cluster.until(f"win-{number}", Configured="True", EgressWorks="True/Fetched")
        assert [host for host in hosts if len(host.starts("kubelet")) < 2] == []
        await halted(cluster, "False")


async def test_a_kubelet_that_is_not_heard_of_again_counts_as_a_failure(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeats, "HEARTBEAT_SECONDS", 1.0)
    hosts = [await cluster.simulator.add_host() for _ in range(3)]
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY)
    beat = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}
    for number, host in enumerate(hosts):
        name = f"{cluster.namespace}-{number}"
        await cluster.put(NODES, name)
        await cluster.merge(NODES, name, {"status": {"conditions": [beat]}}, "status")
        await cluster.instance(f"win-{number}", host, nodeName=name)
    async with cluster.operator():
        assert "2 hosts failed" in await halted(cluster, "True")
        assert sorted(len(host.starts("kubelet")) for host in hosts) == [1, 2, 2]
        (left,) = [number for number, host in enumerate(hosts) if len(host.starts("kubelet")) == 1]
        async with asyncio.timeout(PATIENCE):
            while [":failed" in (await cluster.status(f"win-{number}")).get("changes", "") for number in range(3)].count(
                True
            ) < 2:
                await asyncio.sleep(0.05)
    connections = hosts[left].traffic.connections
    # another process knows both; the third host is read, and stays as it is
    async with cluster.operator():
        await until(lambda: hosts[left].traffic.connections > connections)
        await cluster.until(f"win-{left}", Configured="False/RolloutHalted", Reachable="True/Connected")
        assert "2 hosts failed" in await halted(cluster, "True")
        await asyncio.sleep(0.5)
        assert sorted(len(host.starts("kubelet")) for host in hosts) == [1, 2, 2]


@pytest.mark.parametrize("restart", ["OnNextBoot", "Manual"])
async def test_where_restarts_wait_a_wrong_proxy_reaches_one_host(cluster: Cluster, restart: str) -> None:
    """The host has fetched with what is written, before any service has it."""
    hosts = [await cluster.simulator.add_host() for _ in range(4)]
    for number, host in enumerate(hosts):
        host.fetch = breaks_tls
        await cluster.instance(f"win-{number}", host)
    policy = {"readinessEndpoints": [ENDPOINT], "readinessPolicy": "Report", "windows": {"restart": restart}}
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY, **policy)
    async with cluster.operator():
        assert "the first host has no egress" in await halted(cluster, "True")
        assert sum(f"HTTP_PROXY={PROXY}" in environment(host, "containerd") for host in hosts) == 1
        uid = (await cluster.client.get(EGRESS_PROXIES, "cluster")).metadata.uid
        assert await cluster.told("cluster", "RolloutHalted", "default", uid)
        for host in hosts:
            host.fetch = works
        await cluster.merge(EGRESS_PROXIES, "cluster", {"metadata": {"annotations": {"transom.dev/resume": "1"}}})
        for number in range(4):
            await cluster.until(f"win-{number}", EgressWorks="True/Fetched", Configured="True")
    assert [len(host.starts("containerd")) for host in hosts] == [1, 1, 1, 1]


async def test_restarts_wait_for_an_annotation(cluster: Cluster) -> None:
    host = await cluster.simulator.add_host()
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY, windows={"restart": "Manual"})
    await cluster.instance("win-1", host)
    async with cluster.operator():
        await cluster.until("win-1", Configured="True", ProxyApplied="False/PendingRestart")
        assert len(host.starts("kubelet")) == 1
        await cluster.merge(WINDOWS_INSTANCES, "win-1", {"metadata": {"annotations": {"transom.dev/restart": "yes"}}})
        await cluster.until("win-1", Configured="True", ProxyApplied="True/Applied")
        assert len(host.starts("kubelet")) == 2
