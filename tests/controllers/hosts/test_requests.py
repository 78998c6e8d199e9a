"""What a person asks for by an annotation: each new value once, and the status holds what was handled."""

from typing import Any

import pytest
from tests.support.operator.clusters import PROXY, Cluster, environment
from tests.support.operator.rollouts import breaks_tls, halted
from tests.support.waiting import until

from transom.kube.resources import WINDOWS_INSTANCES

pytestmark = pytest.mark.lab
OTHER = "http://other.corp.example:3128"
RECONCILE, RESTART = "transom.dev/reconcile", "transom.dev/restart"


async def ask(cluster: Cluster, name: str, annotation: str, value: str | None) -> None:
    await cluster.merge(WINDOWS_INSTANCES, name, {"metadata": {"annotations": {annotation: value}}})


async def handled(cluster: Cluster, name: str, field: str, value: str) -> dict[str, Any]:
    """Wait until the status holds this request; return the status."""

    async def status() -> dict[str, Any] | None:
        found = await cluster.status(name)
        return found if found.get(field) == value else None

    found: dict[str, Any] = await until(status)
    return found


async def test_a_host_is_looked_at_once_for_each_new_value(cluster: Cluster) -> None:
    host = await cluster.simulator.add_host()
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY)
    await cluster.instance("win-1", host)
    async with cluster.operator():
        await cluster.until("win-1", Ready="True")
        connections = host.traffic.connections
        await ask(cluster, "win-1", RECONCILE, "1")
        await handled(cluster, "win-1", "lastHandledReconcile", "1")
        assert host.traffic.connections == connections + 1
        # of a host that fails it is handled, too: the conditions say how
        host.faults.refuses = True
        await ask(cluster, "win-1", RECONCILE, "2")
        await handled(cluster, "win-1", "lastHandledReconcile", "2")
        await cluster.until("win-1", Ready="False/Unreachable")
        host.faults.refuses = False
        # at once, and not after the pause that grows with each failure
        await ask(cluster, "win-1", RECONCILE, "\x1b[31m" + "x" * 300)
        status = await handled(cluster, "win-1", "lastHandledReconcile", "\\x1b[31m" + "x" * 251)
        assert len(status["lastHandledReconcile"]) <= 264
        await cluster.until("win-1", Ready="True")


async def test_a_host_that_waits_for_its_turn_has_handled_the_request(cluster: Cluster) -> None:
    hosts = [await cluster.simulator.add_host() for _ in range(3)]
    for number, host in enumerate(hosts):
        host.fetch = breaks_tls
        await cluster.instance(f"win-{number}", host)
    endpoints = {"readinessEndpoints": ["https://registry.corp.example/v2/"], "readinessPolicy": "Report"}
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY, **endpoints)
    async with cluster.operator():
        await halted(cluster, "True")
        for number in range(3):
            await ask(cluster, f"win-{number}", RECONCILE, "now")
            await handled(cluster, f"win-{number}", "lastHandledReconcile", "now")
        assert sum(f"HTTP_PROXY={PROXY}" in environment(host, "containerd") for host in hosts) == 1


async def test_a_restart_is_done_once_for_each_new_value(cluster: Cluster) -> None:
    host = await cluster.simulator.add_host()
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY, windows={"restart": "Manual"})
    await cluster.instance("win-1", host)
    async with cluster.operator():
        await cluster.until("win-1", Configured="True", ProxyApplied="False/PendingRestart")
        await ask(cluster, "win-1", RESTART, "first")
        await handled(cluster, "win-1", "lastHandledRestart", "first")
        await cluster.until("win-1", ProxyApplied="True/Applied")
        assert len(host.starts("kubelet")) == 2
        # the annotation stays, and later changes wait for a person again
        await cluster.proxy(httpProxy=OTHER, httpsProxy=OTHER, windows={"restart": "Manual"})
        await until(lambda: f"HTTPS_PROXY={OTHER}" in environment(host, "kubelet"))
        await cluster.until("win-1", Configured="True", ProxyApplied="False/PendingRestart")
        assert len(host.starts("kubelet")) == 2
    # another process knows what was handled
    async with cluster.operator():
        await ask(cluster, "win-1", RECONCILE, "now")
        await handled(cluster, "win-1", "lastHandledReconcile", "now")
        assert len(host.starts("kubelet")) == 2
        await ask(cluster, "win-1", RESTART, "second")
        await handled(cluster, "win-1", "lastHandledRestart", "second")
        await cluster.until("win-1", ProxyApplied="True/Applied")
    assert len(host.starts("kubelet")) == 3


async def test_a_restart_of_a_host_that_fails_is_not_handled(cluster: Cluster) -> None:
    host = await cluster.simulator.add_host()
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY, windows={"restart": "Manual"})
    await cluster.instance("win-1", host)
    async with cluster.operator():
        await cluster.until("win-1", Configured="True", ProxyApplied="False/PendingRestart")
        host.faults.refuses = True
        await ask(cluster, "win-1", RESTART, "now")
        await cluster.until("win-1", Configured="False/Unreachable")
        assert "lastHandledRestart" not in await cluster.status("win-1")
        host.faults.refuses = False
        await ask(cluster, "win-1", RECONCILE, "now")
        await handled(cluster, "win-1", "lastHandledRestart", "now")
        await cluster.until("win-1", ProxyApplied="True/Applied")
    assert len(host.starts("kubelet")) == 2


async def test_a_host_that_is_not_paused_any_more_does_not_say_that_it_is(cluster: Cluster) -> None:
    """Not even while it waits for its turn, and is not connected to."""
    hosts = [await cluster.simulator.add_host() for _ in range(2)]
    hosts[0].fetch = breaks_tls
    endpoints = {"readinessEndpoints": ["https://registry.corp.example/v2/"], "readinessPolicy": "Report"}
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY, **endpoints)
    await cluster.instance("win-0", hosts[0])
    await cluster.instance("win-1", hosts[1], paused=True)
    async with cluster.operator():
        await halted(cluster, "True")
        await cluster.until("win-1", Configured="Unknown/Paused", Reachable="Unknown/Paused")
        await cluster.merge(WINDOWS_INSTANCES, "win-1", {"spec": {"paused": None}})
        await cluster.until("win-1", Configured="False/RolloutHalted")
        assert [reason for _, reason in (await cluster.conditions("win-1")).values() if reason == "Paused"] == []
