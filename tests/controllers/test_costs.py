"""What a change costs at the API server, and how work ends."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime

import pytest
from tests.support.operator.clusters import PROXY, Cluster, environment
from tests.support.operator.stories import ABSENT, OTHER, changes, story
from tests.support.waiting import until

from transom.kube.resources import NODES
from winsim import Host

pytestmark = pytest.mark.lab


async def test_a_change_is_two_requests_for_each_host(cluster: Cluster) -> None:
    """Its status as it begins to wait, and as it is done; reading is what the watches do, also of the Nodes of a rollout."""
    async with story(cluster) as told:
        hosts = [told.host, *[await cluster.simulator.add_host() for _ in range(4)]]
        for number, host in enumerate(hosts, 1):
            await beat(cluster, number, "2026-01-01T00:00:00Z")
            await cluster.instance(f"win-{number}", host, nodeName=node(cluster, number))
        for number in range(1, 6):
            await cluster.until(f"win-{number}", ProxyApplied="True/Applied", NodeReady="True/KubeletReady")
        await until(lambda: not told.operator.controllers["hosts"].queue.working)
        await asyncio.sleep(0.3)
        begun, since = len(told.gate.requests), time.monotonic()
        async with kubelets(cluster, hosts):
            await told.edit()
            await until(lambda: all(f"HTTPS_PROXY={OTHER}" in environment(host, "kubelet") for host in hosts))
            await until(lambda: not told.operator.controllers["hosts"].queue.working)
            await cluster.wait_ready()
            await until(lambda: any(request.endswith("/events") for request in told.gate.requests[begun:]))
        seconds = time.monotonic() - since
        asked = [request for request in told.gate.requests[begun:] if not request.startswith("WATCH")]
        # kinds that are not there are asked for now and then, all at once, and the lease is renewed
        asked = [item for item in asked if item != "GET /apis" and not any(group in item for group in (*ABSENT, "/leases/"))]
        instances = [item for item in asked if "/windowsinstances/" in item]
        assert [instance for instance in instances if not instance.endswith("/status")] == []
        # of the first host also that it was begun, and that it was heard of; of the last one that the rollout is over
        assert len(instances) <= 2 * 5 + 3
        others = [item for item in asked if item not in instances]
        # EgressProxy/cluster: its event, and its status as it begins and ends, and between at most once a second
        assert len([other for other in others if other.endswith("/events")]) == 1
        assert len([other for other in others if other.endswith("/egressproxies/cluster/status")]) <= 2 + seconds, asked
        # who leads next goes on by it: as it begins and ends, and between at most twice a second
        assert len([other for other in others if "/configmaps" in other]) <= 2 + 2 * seconds, asked
        assert [
            other for other in others if not other.endswith(("/events", "/cluster/status")) and "/configmaps" not in other
        ] == []


def node(cluster: Cluster, number: int) -> str:
    return f"{cluster.namespace}-{number}"


async def beat(cluster: Cluster, number: int, when: str) -> None:
    """The heartbeat of a kubelet."""
    await cluster.put(NODES, node(cluster, number))
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": when}
    await cluster.merge(NODES, node(cluster, number), {"status": {"conditions": [ready]}}, "status")


@contextlib.asynccontextmanager
async def kubelets(cluster: Cluster, hosts: Sequence[Host]) -> AsyncIterator[None]:
    """The kubelet of each host is heard of once it was restarted, and not before."""
    before = [len(host.starts("kubelet")) for host in hosts]

    async def go_on() -> None:
        while True:
            for number, host in enumerate(hosts, 1):
                if len(host.starts("kubelet")) > before[number - 1]:
                    await beat(cluster, number, datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
            await asyncio.sleep(0.1)

    beating = asyncio.create_task(go_on())
    try:
        yield
    finally:
        beating.cancel()
        await asyncio.wait((beating,))


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
