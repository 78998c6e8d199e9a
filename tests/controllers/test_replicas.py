"""Two replicas, each a process with an identity of its own at the API server: one works, whatever happens to it."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
from tests.support.operator.clusters import PROXY, Cluster, environment
from tests.support.operator.programs import Program
from tests.support.operator.replicas import changes, generation, leads, on_host, replica, writes
from tests.support.waiting import PATIENCE, until

pytestmark = pytest.mark.lab
OTHER = "http://other.corp.example:3128"


@contextlib.asynccontextmanager
async def replicas(cluster: Cluster) -> AsyncIterator[tuple[Program, Program]]:
    """The one that works, and the one that waits."""
    made = [await replica(cluster, name) for name in ("one", "two")]
    async with made[0]:
        await leads(cluster, made[0])
        async with made[1]:
            await ready(made[1])
            yield made[0], made[1]


async def ready(program: Program) -> None:
    async with asyncio.timeout(PATIENCE):
        while (await program.get("/readyz"))[0] != 200:
            await asyncio.sleep(0.1)


def told(cluster: Cluster, name: str, since: datetime) -> list[str]:
    """What a replica wrote since then, but for the lease."""
    return [write for write in writes(cluster, name, since) if "/leases/" not in write]


async def test_one_works_and_the_other_takes_over(cluster: Cluster) -> None:
    """The one that is told to stop gives the lease back: the other need not wait for its end."""
    host = await cluster.simulator.add_host()
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY)
    await cluster.instance("win-1", host)
    async with replicas(cluster) as (first, second):
        await cluster.until("win-1", ProxyApplied="True/Applied")
        assert on_host(host) == await generation(cluster)
        await until(lambda: not told(cluster, "one", datetime.now(UTC) - timedelta(seconds=2)))
        begun = datetime.now(UTC)
        assert await first.terminate() == 0
        await leads(cluster, second, 10)
        await cluster.proxy(httpProxy=OTHER, httpsProxy=OTHER)
        await until(lambda: f"HTTPS_PROXY={OTHER}" in environment(host, "kubelet"))
        await cluster.until("win-1", Configured="True", ProxyApplied="True/Applied")
        assert on_host(host) == await generation(cluster)
        assert changes(host) == 2
        # it gave the lease back, and wrote nothing else
        assert told(cluster, "one", begun) == []


async def test_the_one_that_works_is_frozen_in_the_middle_of_a_pass(cluster: Cluster) -> None:
    """Thawed after its lease has gone to the other, it neither changes the host nor writes anything."""
    host = await cluster.simulator.add_host()
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY)
    async with replicas(cluster) as (first, second):
        host.faults.disk_delay = 0.3
        await cluster.instance("win-1", host)
        await until(lambda: any("gather-" in request for request in host.traffic.requests))
        first.signal(signal.SIGSTOP)
        frozen = await generation(cluster)
        assert changes(host) == 0
        host.faults.disk_delay = 0.0
        await leads(cluster, second)
        await cluster.until("win-1", ProxyApplied="True/Applied")
        await cluster.proxy(httpProxy=OTHER, httpsProxy=OTHER)
        await until(lambda: f"HTTPS_PROXY={OTHER}" in environment(host, "kubelet"))
        await cluster.until("win-1", ProxyApplied="True/Applied")
        done, thawed, newer = changes(host), datetime.now(UTC), await generation(cluster)
        assert newer > frozen
        assert on_host(host) == newer
        first.signal(signal.SIGCONT)
        await until(lambda: "lease lost" in first.log())
        await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY)
        await until(lambda: f"HTTPS_PROXY={PROXY}" in environment(host, "kubelet"))
        await cluster.until("win-1", ProxyApplied="True/Applied")
        assert changes(host) == done + 1
        assert on_host(host) == newer
        assert writes(cluster, "one", thawed) == []
