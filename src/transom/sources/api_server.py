"""Objects from an API server, read once: the same that would stand in files."""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from transom.kube import ApiError, NotFound
from transom.kube.client import Client
from transom.kube.objects import ObjectMeta, Projected, Whole
from transom.kube.resources import (
    CONFIG_MAPS,
    EGRESS_PROXIES,
    NAMESPACES,
    OPENSHIFT_INFRASTRUCTURES,
    OPENSHIFT_NETWORKS,
    OPENSHIFT_PROXIES,
    SECRETS,
    SERVICE_CIDRS,
    WINDOWS_INSTANCES,
    Resource,
)
from transom.kube.versions import PREFERRED, served
from transom.pods import Pod
from transom.pods.environment import HASH_KEY, PodEgress, of
from transom.pods.outdated import Outdated, outdated
from transom.proxy.layers import OPENSHIFT_BUNDLE, OPENSHIFT_CONFIG, OPENSHIFT_MANAGED
from transom.proxy.trust import INJECT_LABEL, OPENSHIFT_LABEL
from transom.sources import infrastructure
from transom.sources.examination import Examined, examine
from transom.sources.objects import ObjectReader, Objects

_OWN: Final = (EGRESS_PROXIES, WINDOWS_INSTANCES)
_CLUSTER_API: Final = (
    Resource("cluster.x-k8s.io", PREFERRED, "Cluster", "clusters", True, Whole),
    Resource("cluster.x-k8s.io", PREFERRED, "MachineDeployment", "machinedeployments", True, Whole),
    Resource("bootstrap.cluster.x-k8s.io", PREFERRED, "KubeadmConfigTemplate", "kubeadmconfigtemplates", True, Whole),
    *(Resource(group, PREFERRED, kind, plural, True, Whole) for kind, (group, plural) in infrastructure.KINDS.items()),
)
PODS: Final = Resource("", "v1", "Pod", "pods", True, Pod)
_HOLDER: Final = "transom-webhook"


UNKNOWN: Final = "***"
"""The digest of settings that pods cannot be compared with."""


class _MachineSpec(Projected, frozen=True):
    cluster_name: str = ""


class _MachineStatus(Projected, frozen=True):
    addresses: Any = None


class _Machine(Projected, frozen=True):
    """A Machine, of which there can be very many: where it can be reached, and no more."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _MachineSpec = _MachineSpec()
    status: _MachineStatus = _MachineStatus()


_MACHINES: Final = Resource("cluster.x-k8s.io", PREFERRED, "Machine", "machines", True, _Machine)


class DefinitionsMissing(ApiError):
    """The server does not know Transom's kinds: nothing is installed there, or it is another cluster than was meant."""

    def __init__(self, kinds: Sequence[str], objects: Objects) -> None:
        super().__init__(
            f"the definitions of Transom are not there ({', '.join(kinds)}): this is another cluster, or they have to be "
            "installed first: transom manifests --part crds | kubectl apply -f -"
        )
        self.objects = objects
        """What the server has of the other kinds."""


async def load(client: Client, namespace: str = "transom-system") -> Objects:
    """All that settings are made of. An API of others that is not there has no objects. Raises ApiError, DefinitionsMissing."""
    kinds = (EGRESS_PROXIES, WINDOWS_INSTANCES, OPENSHIFT_PROXIES, OPENSHIFT_NETWORKS, OPENSHIFT_INFRASTRUCTURES, SERVICE_CIDRS)
    absent: list[str] = []
    listings = await asyncio.gather(
        *(_list(client, kind, absent=absent if kind in _OWN else None) for kind in kinds),
        _list(client, SECRETS, namespace),
        _list(client, CONFIG_MAPS, namespace),
        _list(client, CONFIG_MAPS, OPENSHIFT_CONFIG),
        _list(client, CONFIG_MAPS, OPENSHIFT_MANAGED, fields=f"metadata.name={OPENSHIFT_BUNDLE}"),
        _list(client, CONFIG_MAPS, "kube-system", fields="metadata.name=kubeadm-config"),
        _list(client, CONFIG_MAPS, "kube-public", fields="metadata.name=cluster-info"),
        *(_list(client, CONFIG_MAPS, labels=label) for label in (INJECT_LABEL, OPENSHIFT_LABEL)),
        *(_list_preferred(client, kind) for kind in _CLUSTER_API),
    )
    # a labelled ConfigMap may be among those of a namespace too
    found = {
        (item["kind"], item["metadata"].get("namespace"), item["metadata"]["name"]): item for some in listings for item in some
    }
    for item in await _machines(client):
        found["Machine", item["metadata"]["namespace"], item["metadata"]["name"]] = item
    reader = ObjectReader(namespace)
    for item in found.values():
        reader.add(item, client.connection.server, lambda _: (0, 0))
    if absent:
        raise DefinitionsMissing(absent, reader.objects())
    return reader.objects()


async def _list(
    client: Client,
    resource: Resource[Whole],
    namespace: str | None = None,
    *,
    labels: str = "",
    fields: str = "",
    absent: list[str] | None = None,
) -> list[dict[str, Any]]:
    try:
        listing = await client.list_objects(resource, namespace, labels=labels, fields=fields)
    except NotFound:
        if absent is not None:
            absent.append(resource.kind)
        return []
    # the items of a list leave their kind out
    head = {"apiVersion": resource.api_version, "kind": resource.kind}
    return [{**head, **given.value} for given in listing.items]


async def _list_preferred(client: Client, resource: Resource[Whole]) -> list[dict[str, Any]]:
    try:
        return await _list(client, await served(client.get_json, resource))
    except NotFound:
        return []


async def _machines(client: Client) -> list[dict[str, Any]]:
    try:
        resource = await served(client.get_json, _MACHINES)
        listing = await client.list_objects(resource)
    except NotFound:
        return []
    return [
        {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": one.metadata.name, "namespace": one.metadata.namespace},
            "spec": {"clusterName": one.spec.cluster_name},
            "status": {"addresses": one.status.addresses},
        }
        for one in listing.items
    ]


class HashKeyUnread(Exception):
    """Without the webhook's key the digest of settings with credentials would give these away to whoever guesses."""

    def __init__(self, namespace: str) -> None:
        super().__init__(
            f"Secret {namespace}/{_HOLDER} cannot be read: without its key pods of these settings cannot be told apart"
        )


def pod_egress(objects: Objects, examined: Examined, address: str | None) -> PodEgress:
    """What pods get; its digest is UNKNOWN without the webhook's key. `address` is that of the Service default/kubernetes."""
    present = objects.secret(objects.namespace, _HOLDER)
    key = present.data.get(HASH_KEY) if present else None
    made = of(examined.settings.own, objects.namespace, address, key.reveal().encode() if key else b"")
    return msgspec.structs.replace(made, digest=UNKNOWN) if made.in_secret and key is None else made


async def older_pods(client: Client, namespace: str, now: datetime) -> list[Outdated]:
    """The pods of a cluster that are older than its settings, by owner. Raises ApiError, HashKeyUnread."""
    objects = await load(client, namespace)
    examined = examine(objects, now, client.connection.server)
    own = examined.settings.own
    if own is None or own.missing:
        # nobody knows what pods are to have
        return []
    service = await client.get_json("/api/v1/namespaces/default/services/kubernetes")
    egress = pod_egress(objects, examined, service["spec"].get("clusterIP"))
    if egress.digest == UNKNOWN:
        raise HashKeyUnread(namespace)
    running = (await client.list_objects(PODS)).items
    labels = {one.metadata.name: one.metadata.labels or {} for one in (await client.list_objects(NAMESPACES)).items}
    return outdated(running, labels, egress, own.variables)
