"""An operator that starts again where nothing has changed writes no status but when it last checked a host."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.support.operator.clusters import PROXY, Cluster
from tests.support.operator.gate import Gate, gate_to
from tests.support.waiting import until

from transom.controllers.operator import Operator
from transom.kube.client import Client
from transom.kube.connection import connect

pytestmark = pytest.mark.lab
WRITES = ("POST", "PUT", "PATCH", "DELETE")


@contextlib.asynccontextmanager
async def gated(cluster: Cluster) -> AsyncIterator[tuple[Client, Gate]]:
    """A client behind a gate, which notes what is asked."""
    plane = cluster.control_plane
    async with gate_to(plane.url, plane.directory) as gate:
        connection = connect(str(plane.write_kubeconfig("gated", plane.admin_token, server=gate.url)))
        try:
            yield Client(connection), gate
        finally:
            await connection.close()


async def settled(operator: Operator) -> None:
    """Wait until the operator leads, has looked at the registration, and nothing waits."""
    queues = [controller.queue for controller in operator.controllers.values()]
    await until(lambda: operator.working)
    # the registration is looked at 2 s after the start, and what is written comes back
    for _ in range(2):
        await asyncio.sleep(2.0)
        await until(lambda: not any(queue.working or len(queue) for queue in queues))


@pytest.mark.parametrize("hosts", [1, 3])
async def test_a_restart_with_nothing_changed_writes_nothing(cluster: Cluster, hosts: int) -> None:
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY)
    for number in range(1, hosts + 1):
        await cluster.instance(f"win-{number}", await cluster.simulator.add_host())
    async with cluster.operator() as operator:
        for number in range(1, hosts + 1):
            await cluster.until(f"win-{number}", ProxyApplied="True/Applied", Ready="True")
        await cluster.wait_ready()
        await settled(operator)
    before = await conditions(cluster, hosts)
    async with gated(cluster) as (client, gate):
        async with cluster.operator(client) as operator:
            await settled(operator)
        written = [request for request in gate.requests if request.startswith(WRITES) and "/leases" not in request]
    of_hosts = f"PATCH /apis/transom.dev/v1alpha1/namespaces/{cluster.namespace}/windowsinstances/"
    assert [item for item in written if not item.startswith(of_hosts)] == []
    assert len(written) <= hosts
    assert await conditions(cluster, hosts) == before


async def conditions(cluster: Cluster, hosts: int) -> list[Any]:
    """Return the conditions of each host."""
    return [(await cluster.status(f"win-{number}"))["conditions"] for number in range(1, hosts + 1)]
