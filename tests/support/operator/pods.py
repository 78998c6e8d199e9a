"""Removal: what several tests use."""

from tests.support.operator.clusters import Cluster

from transom.kube.objects import UnstructuredObject
from transom.kube.resources import Resource

PODS = Resource("", "v1", "Pod", "pods", True, UnstructuredObject)


async def pod(cluster: Cluster, node: str) -> None:
    """A pod that no kubelet will ever end."""
    container = {"name": "c", "image": "pause"}
    spec = {"nodeName": node, "containers": [container], "serviceAccountName": "", "automountServiceAccountToken": False}
    await cluster.put(PODS, "busy", spec=spec)


async def ended(cluster: Cluster) -> None:
    """What the kubelet does when a pod's containers have stopped."""
    body = {"gracePeriodSeconds": 0}
    await cluster.client.request("DELETE", PODS.build_path(cluster.namespace, "busy"), None, body)
