"""A real API server with Windows nodes. Their kubelets and the namespace controller are played: there are no containers."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from transom.kube.client import Client
from transom.kube.errors import ApiError, NotFound
from transom.kube.resources import NAMESPACES, NODES, PODS, SERVICES
from transom.verification.cluster_verification import PREFIX, VerificationTimeouts, create_namespace_name
from transom.verification.objects import AGNHOST_IMAGE, LABEL, VerificationRequest

QUICK = VerificationTimeouts(starting=120, every=0.05, beat=3600, silent=0.2, ending=0.2, gone=120)
NODES_OF = {"verify-win-1": "windows", "verify-win-2": "windows", "verify-linux": "linux"}


def wanted(**more: Any) -> VerificationRequest:
    return VerificationRequest(create_namespace_name(), AGNHOST_IMAGE, AGNHOST_IMAGE, **more)


@contextlib.asynccontextmanager
async def nodes(client: Client) -> AsyncIterator[None]:
    """Two Windows nodes and one of Linux, Ready, and no others: a verification asks every node that there is."""
    await client.request("DELETE", NODES.build_path())
    ready = {
        "conditions": [{"type": "Ready", "status": "True"}],
        "nodeInfo": {"kernelVersion": "10.0.20348.2485", "bootID": "7"},
    }
    for name, os in NODES_OF.items():
        await client.create(NODES, {"metadata": {"name": name, "labels": {"kubernetes.io/os": os}}})
        path, kind = NODES.build_path(None, name, "status"), "application/merge-patch+json"
        await client.request("PATCH", path, None, {"status": ready}, content_type=kind)
    try:
        yield
    finally:
        for name in NODES_OF:
            await client.delete(NODES, name)


@contextlib.asynccontextmanager
async def going_on(*work: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Each again and again until the end of the block; what goes away meanwhile is no trouble."""

    async def again(one: Callable[[], Awaitable[None]]) -> None:
        while True:
            with contextlib.suppress(ApiError):
                await one()
            await asyncio.sleep(0.05)

    tasks = [asyncio.create_task(again(item)) for item in work]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        for ended in await asyncio.gather(*tasks, return_exceptions=True):
            assert isinstance(ended, asyncio.CancelledError), ended


def playing(client: Client) -> "contextlib.AbstractAsyncContextManager[None]":
    return going_on(lambda: namespaces_end(client), lambda: pods_start(client))


async def ours(client: Client) -> list[str]:
    found = await client.list_objects(NAMESPACES, labels=f"{LABEL}=cluster")
    return [item.metadata.name for item in found.items]


async def namespaces_end(client: Client) -> None:
    """What the namespace controller does, with no wait of its own: tests/stories/nodes has the real one."""
    for item in (await client.list_objects(NAMESPACES, labels=f"{LABEL}=cluster")).items:
        if item.metadata.deletion_timestamp is None:
            continue
        name = item.metadata.name
        for service in (await client.list_objects(SERVICES, name)).items:
            with contextlib.suppress(NotFound):
                await client.delete(SERVICES, service.metadata.name, name)
        # kubelets end pods: here nobody does, and the verification takes them away itself
        if not (await client.list_objects(PODS, name)).items:
            value = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}, "spec": {"finalizers": []}}
            await client.request("PUT", NAMESPACES.build_path(None, name, "finalize"), None, value)


async def pods_start(client: Client) -> None:
    """What kubelets say of pods that run."""
    for name in await ours(client):
        for pod in (await client.list_objects(PODS, name)).items:
            if not (pod.value.get("status") or {}).get("podIP"):
                path = PODS.build_path(name, pod.metadata.name, "status")
                await client.request("PATCH", path, None, {"status": _RUNNING}, content_type="application/merge-patch+json")


_RUNNING = {
    "phase": "Running",
    "podIP": "10.132.0.10",
    "podIPs": [{"ip": "10.132.0.10"}],
    "conditions": [{"type": "Ready", "status": "True"}],
    "containerStatuses": [
        {
            "name": "web",
            "image": AGNHOST_IMAGE,
            "imageID": AGNHOST_IMAGE,
            "ready": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": "2026-11-23T10:00:00Z"}},
        }
    ],
}


async def left(client: Client) -> list[str]:
    """What verifications have left in the cluster."""
    pods = (await client.list_objects(PODS)).items
    return [*await ours(client), *(pod.metadata.name for pod in pods if (pod.metadata.namespace or "").startswith(PREFIX))]
