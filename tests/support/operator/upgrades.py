"""Nodes in Kubernetes versions, and an operator that brings them to another."""

import asyncio
from pathlib import Path

from tests.support.operator.clusters import Cluster
from tests.support.operator.kubelets import Kubelets
from tests.support.operator.nodes import SUBNET, bare
from tests.support.waiting import PATIENCE

from transom.controllers.runtime.options import HostTimings
from transom.hosts.ssh.ssh_client import Timeouts
from winsim import Host

NETWORKS = {"serviceNetwork": ["10.96.0.0/16"], "podNetwork": ["10.244.0.0/16"]}
QUICK = HostTimings(unready=0.4, ready=3600, drain_step=0.1, timeouts=Timeouts(connect=20, progress=5, whole=300))
MARKS = ("transom.dev/cordoned", "transom.dev/drain", "transom.dev/drained")
PROGRAM = r"C:\k\kubelet.exe"


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


async def upgraded(cluster: Cluster, name: str, seconds: float = PATIENCE) -> None:
    """Until an instance has the newer payload, and its Node takes pods."""
    async with asyncio.timeout(seconds):
        while (status := await cluster.status(name)).get("payloadVersion") != "1.36.3-2":
            await asyncio.sleep(0.05)
    await cluster.until(name, Configured="True/UpToDate", NodeReady="True")
    node = await Kubelets(cluster).node(status["nodeName"])
    assert not node["spec"].get("unschedulable")
    assert not set(MARKS) & node["metadata"]["annotations"].keys()
    assert node["metadata"]["annotations"]["transom.dev/payload-version"] == "1.36.3-2"
