"""What a change costs at the API server, and how work ends."""

import asyncio

import pytest
from tests.operator.clusters import PROXY, Cluster, environment, until
from tests.operator.stories import OTHER, changes, story

pytestmark = pytest.mark.lab


async def test_a_change_is_two_requests_for_each_host(cluster: Cluster) -> None:
    """A status and an event; reading is what the watches do."""
    async with story(cluster) as told:
        hosts = [told.host, *[await cluster.simulator.add_host() for _ in range(4)]]
        for number, host in enumerate(hosts[1:], 2):
            await cluster.instance(f"win-{number}", host)
        for number in range(2, 6):
            await cluster.until(f"win-{number}", ProxyApplied="True/Applied")
        await until(lambda: not told.operator.controllers["hosts"].queue.working)
        await asyncio.sleep(0.3)
        begun = len(told.gate.requests)
        await told.edit()
        await until(lambda: all(f"HTTPS_PROXY={OTHER}" in environment(host, "kubelet") for host in hosts))
        await until(lambda: not told.operator.controllers["hosts"].queue.working)
        await asyncio.sleep(0.5)
        made = [one for one in told.gate.requests[begun:] if "/leases/" not in one and not one.startswith(("WATCH", "GET"))]
        instances = [one for one in told.gate.requests[begun:] if "/windowsinstances/" in one]
        assert instances == [one for one in instances if one.endswith("/status")]
        assert len(instances) == 5
        assert len([one for one in made if one.endswith("/events")]) <= 6
        # the status of EgressProxy/cluster, and its event
        assert len(made) <= 2 * 5 + 2


async def test_what_was_begun_is_finished_when_the_operator_is_told_to_stop(cluster: Cluster) -> None:
    host, waiting = await cluster.simulator.add_host(), await cluster.simulator.add_host()
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY)
    await cluster.instance("win-1", host)
    host.faults.disk_delay = 0.02
    async with cluster.operator() as operator:
        await until(lambda: operator.controllers["hosts"].queue.working == 1)
        await until(lambda: host.traffic.connections == 1)
        stopping = asyncio.create_task(cluster.instance("win-2", waiting))
    await stopping
    assert f"HTTPS_PROXY={PROXY}" in environment(host, "containerd")
    assert await cluster.conditions("win-1")
    assert (changes(host), waiting.traffic.connections) == (1, 0)
