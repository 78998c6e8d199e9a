"""Nodes of simulated hosts, and the payload that makes them."""

import asyncio
import base64
from collections.abc import Sequence

import yaml
from tests.support.operator.clusters import Cluster

from transom.controllers.runtime.options import HostTimings
from transom.hosts.ssh.ssh_client import Timeouts
from transom.kube.objects import UnstructuredObject
from transom.kube.resources import NODES, SECRETS, Resource
from winsim import Host
from winsim.computer import Invocation

WHOLE_NODES = Resource("", "v1", "Node", "nodes", False, UnstructuredObject)
QUICK = HostTimings(unready=0.5, ready=3600, timeouts=Timeouts(connect=20, progress=5, whole=300))


async def published(cluster: Cluster) -> None:
    """What kubeadm publishes of a cluster for those that join."""
    plane = cluster.control_plane
    authority = base64.b64encode(plane.authority_file.read_bytes()).decode()
    entry = {"name": "", "cluster": {"server": plane.url, "certificate-authority-data": authority}}
    config = yaml.safe_dump({"apiVersion": "v1", "kind": "Config", "clusters": [entry]})
    value = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "cluster-info", "namespace": "kube-public"},
        "data": {"kubeconfig": config},
    }
    await asyncio.to_thread(plane.apply, [value])


async def bare(cluster: Cluster, name: str, address: str = "") -> Host:
    where = address or cluster.free_address()
    host = await cluster.simulator.add_host(f"{name}-{cluster.namespace}", services={}, address=where)

    def source_vip(call: Invocation) -> int:
        call.write_output("10.9.9.9\n")
        return 0

    host.powershell = source_vip
    return host


def node_of(host: Host) -> str:
    return host.name.lower()


async def registered(
    cluster: Cluster, host: Host, ready: str = "True", *, addresses: Sequence[str] = (), **annotations: str
) -> None:
    """What the kubelet does once it has its certificate."""
    name = node_of(host)
    await cluster.put(NODES, name, metadata={"name": name, "annotations": annotations})
    condition = {"type": "Ready", "status": ready, "reason": "KubeletReady", "lastHeartbeatTime": "2026-11-21T10:00:00Z"}
    info = {"operatingSystem": "windows", "kubeletVersion": "v1.36.3"}
    listed = [{"type": "InternalIP", "address": address} for address in addresses or (host.address,)]
    status = {"conditions": [condition], "nodeInfo": info, "addresses": [*listed, {"type": "Hostname", "address": name}]}
    await cluster.merge(NODES, name, {"status": status}, "status")


async def reasons(cluster: Cluster, name: str) -> list[str]:
    return [reason for _, reason, _ in await cluster.events(name)]


SUBNET = {"k8s.ovn.org/hybrid-overlay-node-subnet": "10.132.0.0/24"}


async def tokens_of(cluster: Cluster, name: str) -> int:
    """How many bootstrap tokens the API server knows that were made for an instance."""
    held = (await cluster.client.list_objects(SECRETS, "kube-system")).items
    texts = [base64.b64decode(item.value["data"].get("description", "")).decode() for item in held]
    return sum(text.endswith(f" {cluster.namespace}/{name}") for text in texts)
