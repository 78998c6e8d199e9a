"""A host that has its settings, an operator behind a gate, and what is asked of both from then on."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from tests.support.operator.clusters import PROXY, Cluster, environment
from tests.support.operator.gate import Gate, gate_to
from tests.support.waiting import until

from transom.controllers.operator import Operator
from transom.kube.client import Client
from transom.kube.connection import connect
from transom.kube.store import ObjectKey
from winsim import Host

OTHER = "http://other.corp.example:3128"
ABSENT = ("config.openshift.io", "cluster.x-k8s.io", "/leases/")


class Story:
    """A host that has its settings, an operator behind a gate, and what is asked of both from then on."""

    def __init__(self, cluster: Cluster, host: Host, operator: Operator, gate: Gate) -> None:
        self.cluster, self.host, self.operator, self.gate = cluster, host, operator, gate

    async def edit(self) -> None:
        """Another proxy, written past the gate."""
        await self.cluster.proxy(httpProxy=OTHER, httpsProxy=OTHER)

    async def followed(self) -> None:
        """The host has it, by one change; the status says so; nothing goes on being done."""
        await until(lambda: f"HTTPS_PROXY={OTHER}" in environment(self.host, "kubelet"))
        await until(self.idle)
        await self.cluster.until("win-1", ProxyApplied="True/Applied", Configured="True")
        assert changes(self.host) == 2
        begun = len(self.gate.requests)
        await asyncio.sleep(0.5)
        # kinds that are not there are asked for now and then
        asked = [request for request in self.gate.requests[begun:] if not any(group in request for group in ABSENT)]
        assert len(asked) < 10

    def idle(self) -> bool:
        queue = self.operator.controllers["hosts"].queue
        return not queue.working and not len(queue) and not queue.count_failures(ObjectKey(self.cluster.namespace, "win-1"))


@contextlib.asynccontextmanager
async def story(cluster: Cluster, **made: Any) -> AsyncIterator[Story]:
    host = await cluster.simulator.add_host()
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY)
    await cluster.instance("win-1", host)
    plane = cluster.control_plane
    async with gate_to(plane.url, plane.directory) as gate:
        connection = connect(str(plane.write_kubeconfig("gated", plane.admin_token, server=gate.url)))
        controllers = ("egress", "hosts")
        async with cluster.operator(Client(connection), **{"controllers": controllers, **made}) as operator:
            told = Story(cluster, host, operator, gate)
            await cluster.until("win-1", ProxyApplied="True/Applied")
            await until(told.idle)
            yield told
        await connection.close()


def changes(host: Host) -> int:
    return sum(request.startswith("exec") and "change.cmd" in request for request in host.traffic.requests)
