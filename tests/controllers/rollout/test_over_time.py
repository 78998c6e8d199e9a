"""What becomes of many hosts over time, from the operator: edits, failures and clocks, on a real API server."""

import asyncio
import contextlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from tests.support.operator.clusters import PROXY, Cluster, environment
from tests.support.operator.rollouts import breaks_tls, halted
from tests.support.waiting import until

from transom.controllers.rollout import heartbeats
from transom.controllers.runtime.options import HostTimings
from transom.hosts.scripts.host_scripts import ServiceTimeouts
from transom.kube.client import Client
from transom.kube.resources import EGRESS_PROXIES, NAMESPACES, NODES
from transom.windows.host.queries import SERVICES
from transom.windows.registry.edits import DeleteValue
from winsim import Host
from winsim.computer import Invocation

ENDPOINT = "https://registry.corp.example/v2/"
BAD = "http://bad.corp.example:3128"
REPORT = {"readinessEndpoints": [ENDPOINT], "readinessPolicy": "Report"}
IMPATIENT = HostTimings(check_interval=1.5, patience=ServiceTimeouts(stop=2, start=2))


async def hosts_of(cluster: Cluster, count: int) -> list[Host]:
    hosts = [await cluster.simulator.add_host() for _ in range(count)]
    for number, host in enumerate(hosts):
        await cluster.instance(f"win-{number}", host)
    return hosts


def fetches(host: Host) -> Callable[[Invocation], int]:
    """curl.exe of a host that has egress unless it has the bad proxy."""
    return lambda _: 60 if has(host, BAD) else 0


def has(host: Host, proxy: str) -> bool:
    return f"HTTP_PROXY={proxy}" in environment(host, "containerd")


async def all_have(cluster: Cluster, count: int, **wanted: str) -> None:
    for number in range(count):
        await cluster.until(f"win-{number}", **wanted)


async def test_an_edit_in_the_middle_of_a_rollout_reaches_one_host(cluster: Cluster) -> None:
    hosts = await hosts_of(cluster, 12)
    for host in hosts:
        host.fetch = fetches(host)
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY, **REPORT)
    async with cluster.operator():
        await all_have(cluster, 12, Configured="True", EgressWorks="True/Fetched")
        for number, host in enumerate(hosts):
            # many of them are under way for a while, and end one after the other
            host.services.get("containerd").start_seconds = 0.5 * number
            host.time_scale = 1.0
        good = "http://good.corp.example:3128"
        await cluster.proxy(httpProxy=good, httpsProxy=good, **REPORT)
        await until(lambda: sum(has(host, good) for host in hosts) >= 6)
        await cluster.proxy(httpProxy=BAD, httpsProxy=BAD, **REPORT)
        assert "the first host has no egress" in await halted(cluster, "True")
        # whoever was under way has come to its end by now, and was asked for once more
        for number, host in enumerate(hosts):
            if not has(host, BAD):
                await cluster.until(f"win-{number}", Configured="False/RolloutHalted")
        assert sum(has(host, BAD) for host in hosts) == 1


async def test_every_host_that_failed_is_tried_again(cluster: Cluster) -> None:
    hosts = await hosts_of(cluster, 6)
    for number in (1, 4):
        hosts[number].services.get("containerd").starts_well = False
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY)
    async with cluster.operator(pace=IMPATIENT):
        await halted(cluster, "True")
        before = [host.traffic.connections for host in hosts]
        await until(lambda: all(host.traffic.connections > before[number] + 1 for number, host in enumerate(hosts)))
        for number in (1, 4):
            hosts[number].services.get("containerd").starts_well = True
            await cluster.until(f"win-{number}", Configured="True/UpToDate", ProxyApplied="True/Applied")


async def test_failures_of_different_weeks_freeze_nobody(cluster: Cluster) -> None:
    hosts = await hosts_of(cluster, 6)
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY)
    async with cluster.operator(pace=IMPATIENT):
        await all_have(cluster, 6, Configured="True", ProxyApplied="True/Applied")
        for number in (1, 4):
            hosts[number].services.get("containerd").starts_well = False
            hosts[number].edit([DeleteValue(rf"{SERVICES}\containerd", "Environment")])
            await cluster.until(f"win-{number}", Configured="False")
            hosts[number].services.get("containerd").starts_well = True
            await cluster.until(f"win-{number}", Configured="True")
        new = await cluster.simulator.add_host()
        await cluster.instance("win-new", new)
        await cluster.until("win-new", Configured="True/UpToDate", ProxyApplied="True/Applied")
        await halted(cluster, "False")


async def test_a_host_that_joins_a_halted_rollout_gets_what_last_passed(cluster: Cluster) -> None:
    hosts = await hosts_of(cluster, 3)
    for host in hosts:
        host.fetch = fetches(host)
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY, **REPORT)

    async def joins(number: int) -> None:
        new = await cluster.simulator.add_host()
        new.fetch = fetches(new)
        hosts.append(new)
        await cluster.instance(f"win-{number}", new)
        await until(lambda: has(new, PROXY))
        await cluster.until(f"win-{number}", Configured="False/RolloutHalted", ProxyApplied="False/RolloutHalted")

    async with cluster.operator():
        await all_have(cluster, 3, Configured="True", EgressWorks="True/Fetched")
        await cluster.proxy(httpProxy=BAD, httpsProxy=BAD, **REPORT)
        await halted(cluster, "True")
        await joins(3)
    # another process knows what passed, too
    async with cluster.operator():
        await joins(4)
        assert sum(has(host, BAD) for host in hosts) == 1
        good = "http://good.corp.example:3128"
        await cluster.proxy(httpProxy=good, httpsProxy=good, **REPORT)
        await all_have(cluster, 5, Configured="True", ProxyApplied="True/Applied")
        assert all(has(host, good) for host in hosts)


async def test_a_host_that_joins_where_what_last_passed_is_nothing_waits_for_its_turn_as_others_do(cluster: Cluster) -> None:
    for host in await hosts_of(cluster, 2):
        host.fetch = fetches(host)
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY, **REPORT)
    async with cluster.operator():
        await all_have(cluster, 2, Configured="True", ProxyApplied="True/Applied")
        await cluster.proxy()
        await all_have(cluster, 2, Configured="True", ProxyApplied="True/NotConfigured")
        await cluster.proxy(httpProxy=BAD, httpsProxy=BAD, **REPORT)
        await halted(cluster, "True")
        new = await cluster.simulator.add_host()
        new.fetch = fetches(new)
        await cluster.instance("win-2", new)
        await cluster.until("win-2", Configured="False/RolloutHalted")
        good = "http://good.corp.example:3128"
        await cluster.proxy(httpProxy=good, httpsProxy=good, **REPORT)
        await until(lambda: has(new, good))


@pytest.mark.parametrize("way_out", ["endpoint", "proxy", "namespace"])
async def test_a_halt_that_the_settings_are_not_to_blame_for(cluster: Cluster, way_out: str) -> None:
    hosts = await hosts_of(cluster, 3)
    wrong = {"readinessEndpoints": ["https://wrong.corp.example/"], "readinessPolicy": "Report"}
    for host in hosts:
        host.fetch = breaks_tls
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY, **wrong)
    async with cluster.operator():
        await halted(cluster, "True")
        (canary,) = [host for host in hosts if has(host, PROXY)]
        starts = len(canary.starts("containerd"))
        for host in hosts:
            host.fetch = fetches(host)
        word = {"metadata": {"annotations": {"transom.dev/resume": "now"}}}
        if way_out == "endpoint":
            await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY, **REPORT)
        elif way_out == "proxy":
            await cluster.merge(EGRESS_PROXIES, "cluster", word)
        else:
            await cluster.merge(NAMESPACES, cluster.namespace, word)
        await all_have(cluster, 3, Configured="True", EgressWorks="True/Fetched")
        await halted(cluster, "False")
        assert len(canary.starts("containerd")) == starts


@pytest.mark.parametrize("skew", [-600, -300, -45, 200, 300])
async def test_a_kubelet_is_heard_of_by_its_own_clock(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, skew: int) -> None:
    """Of six hosts whose clocks go wrong the kubelets of two do not come back: these two have failed, and no other."""
    hosts = [await cluster.simulator.add_host() for _ in range(6)]
    names = [f"{cluster.namespace}-{number}" for number in range(6)]
    heard_of = heartbeats.Heartbeats.wait_for_newer

    async def heard(self: heartbeats.Heartbeats, name: str, before: datetime, client: Client) -> bool:
        # only who does not come back is not waited for: the others may take their time
        if name not in names[4:]:
            return await heard_of(self, name, before, client)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1):
                return await heard_of(self, name, before, client)
        return False

    monkeypatch.setattr(heartbeats.Heartbeats, "wait_for_newer", heard)

    async def beat(number: int) -> None:
        now = (datetime.now(UTC) + timedelta(seconds=skew)).isoformat(timespec="seconds")
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": now}
        await cluster.merge(NODES, names[number], {"status": {"conditions": [ready]}}, "status")

    for number, host in enumerate(hosts):
        await cluster.put(NODES, names[number])
        await beat(number)
        await cluster.instance(f"win-{number}", host, nodeName=names[number])
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY)
    # a kubelet reports whole seconds, and takes more than one to start
    await asyncio.sleep(1.1)
    beaten = [len(host.starts("kubelet")) for host in hosts]

    async def kubelets() -> None:
        while True:
            for number in range(4):
                if (starts := len(hosts[number].starts("kubelet"))) != beaten[number]:
                    beaten[number] = starts
                    await beat(number)
            await asyncio.sleep(0.05)

    running = asyncio.create_task(kubelets())
    try:
        async with cluster.operator():
            said = await halted(cluster, "True")
    finally:
        running.cancel()
    assert sorted(said.partition("(")[2].partition(")")[0].split(", ")) == ["win-4", "win-5"], said
