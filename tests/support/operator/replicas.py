"""Operators beside each other, and what each wrote on a host."""

import asyncio
from datetime import datetime
from typing import Any

from tests.support.operator.clusters import Cluster
from tests.support.operator.programs import Program
from tests.support.waiting import PATIENCE

from transom.kube.resources import LEASES
from winsim import Host
from winsim.filesystem import list_entries

BASE = r"C:\Windows\Transom"


async def replica(cluster: Cluster, name: str, **options: str) -> Program:
    """A process that is not yet started; its service account may do everything."""
    plane, account = cluster.control_plane, {"name": name, "namespace": cluster.namespace}
    subject = {"kind": "ServiceAccount", **account}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    objects: list[dict[str, Any]] = [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": f"{cluster.namespace}-{name}"},
            "roleRef": role,
            "subjects": [subject],
        },
    ]
    await asyncio.to_thread(plane.apply, objects)
    token = await asyncio.to_thread(plane.create_service_account_token, cluster.namespace, name)
    return Program(cluster, name, plane.write_kubeconfig(f"{cluster.namespace}-{name}", token), **options)


async def generation(cluster: Cluster) -> int:
    lease = await cluster.client.get(LEASES, "transom", cluster.namespace)
    assert lease.spec is not None
    return lease.spec.lease_transitions or 0


def writes(cluster: Cluster, name: str, since: datetime) -> list[str]:
    """What a replica wrote since then, as the server's audit log has it."""
    user = f"system:serviceaccount:{cluster.namespace}:{name}"
    found = (item for item in cluster.control_plane.read_audit(cluster.began) if item["user"]["username"] == user)
    written = (item for item in found if item["verb"] not in ("get", "list", "watch"))
    return [
        f"{item['verb']} {item['requestURI']}"
        for item in written
        if datetime.fromisoformat(item["requestReceivedTimestamp"]) > since
    ]


def changes(host: Host) -> int:
    return sum(request.startswith("exec") and "change.cmd" in request for request in host.traffic.requests)


def on_host(host: Host) -> int:
    (name,) = [node.name for node in list_entries(host.files.get_directory(BASE)) if node.name.startswith("generation-")]
    return int(host.files.read(rf"{BASE}\{name}"))


async def leads(cluster: Cluster, program: Program, seconds: float = PATIENCE) -> None:
    async with asyncio.timeout(seconds):
        while "transom_leader 1.0" not in (await program.get("/metrics"))[1]:
            await asyncio.sleep(0.1)
