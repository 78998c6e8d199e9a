"""Objects from an API server, read once: the same that would stand in files."""

import asyncio
from typing import Any, Final

from transom.kube.client import Client
from transom.kube.errors import NotFound
from transom.kube.objects import Whole
from transom.kube.resources import (
    CONFIG_MAPS,
    EGRESS_PROXIES,
    OPENSHIFT_INFRASTRUCTURES,
    OPENSHIFT_NETWORKS,
    OPENSHIFT_PROXIES,
    SECRETS,
    SERVICE_CIDRS,
    WINDOWS_INSTANCES,
    Resource,
)
from transom.kube.versions import PREFERRED, served
from transom.proxy.injection import LABEL, OPENSHIFT_LABEL
from transom.proxy.layers import OPENSHIFT_BUNDLE, OPENSHIFT_CONFIG, OPENSHIFT_MANAGED
from transom.sources.objects import ObjectReader, Objects

_CLUSTER_API: Final = (
    Resource("cluster.x-k8s.io", PREFERRED, "Cluster", "clusters", True, Whole),
    Resource("cluster.x-k8s.io", PREFERRED, "MachineDeployment", "machinedeployments", True, Whole),
    Resource("bootstrap.cluster.x-k8s.io", PREFERRED, "KubeadmConfigTemplate", "kubeadmconfigtemplates", True, Whole),
)


async def load(client: Client, namespace: str = "transom-system") -> Objects:
    """All that settings are made of. An API that is not there has no objects. Raises ApiError."""
    kinds = (EGRESS_PROXIES, WINDOWS_INSTANCES, OPENSHIFT_PROXIES, OPENSHIFT_NETWORKS, OPENSHIFT_INFRASTRUCTURES, SERVICE_CIDRS)
    listings = await asyncio.gather(
        *(_list(client, kind) for kind in kinds),
        _list(client, SECRETS, namespace),
        _list(client, CONFIG_MAPS, namespace),
        _list(client, CONFIG_MAPS, OPENSHIFT_CONFIG),
        _list(client, CONFIG_MAPS, OPENSHIFT_MANAGED, fields=f"metadata.name={OPENSHIFT_BUNDLE}"),
        _list(client, CONFIG_MAPS, "kube-system", fields="metadata.name=kubeadm-config"),
        _list(client, CONFIG_MAPS, "kube-public", fields="metadata.name=cluster-info"),
        *(_list(client, CONFIG_MAPS, labels=label) for label in (LABEL, OPENSHIFT_LABEL)),
        *(_list_preferred(client, kind) for kind in _CLUSTER_API),
    )
    # a labelled ConfigMap may be among those of a namespace too
    found = {
        (item["kind"], item["metadata"].get("namespace"), item["metadata"]["name"]): item for some in listings for item in some
    }
    reader = ObjectReader(namespace)
    for item in found.values():
        reader.add(item, client.connection.server, lambda _: (0, 0))
    return reader.objects()


async def _list(
    client: Client, resource: Resource[Whole], namespace: str | None = None, *, labels: str = "", fields: str = ""
) -> list[dict[str, Any]]:
    try:
        listing = await client.list_objects(resource, namespace, labels=labels, fields=fields)
    except NotFound:
        return []
    # the items of a list leave their kind out
    head = {"apiVersion": resource.api_version, "kind": resource.kind}
    return [{**head, **held.value} for held in listing.items]


async def _list_preferred(client: Client, resource: Resource[Whole]) -> list[dict[str, Any]]:
    try:
        return await _list(client, await served(client, resource))
    except NotFound:
        return []
