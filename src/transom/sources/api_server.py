"""Objects from an API server, read once: the same as from files."""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from transom.kube.api_versions import PREFERRED, resolve_api_version
from transom.kube.client import Client
from transom.kube.errors import ApiError, NotFound, StatusError
from transom.kube.objects import ObjectMeta, Projected, UnstructuredObject
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
from transom.pods.environment import HASH_KEY, PodEgress, build_pod_egress
from transom.pods.outdated_pods import OutdatedWorkload, find_outdated
from transom.pods.pod_types import Pod
from transom.proxy.layers import OPENSHIFT_BUNDLE, OPENSHIFT_CONFIG, OPENSHIFT_MANAGED
from transom.proxy.trust import INJECT_LABEL, OPENSHIFT_LABEL
from transom.sources import infrastructure
from transom.sources.examination import Examined, examine_objects
from transom.sources.objects import ObjectReader, Objects

_OWN: Final = (EGRESS_PROXIES, WINDOWS_INSTANCES)
_CLUSTER_API: Final = (
    Resource("cluster.x-k8s.io", PREFERRED, "Cluster", "clusters", True, UnstructuredObject),
    Resource("cluster.x-k8s.io", PREFERRED, "MachineDeployment", "machinedeployments", True, UnstructuredObject),
    Resource(
        "bootstrap.cluster.x-k8s.io", PREFERRED, "KubeadmConfigTemplate", "kubeadmconfigtemplates", True, UnstructuredObject
    ),
    *(
        Resource(group, PREFERRED, kind, plural, True, UnstructuredObject)
        for kind, (group, plural) in infrastructure.KINDS.items()
    ),
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
            f"Transom's CRDs do not exist ({', '.join(kinds)}): this is another cluster, or they must be "
            "installed first: transom manifests --part crds | kubectl apply -f -"
        )
        self.objects = objects
        """What the server has of the other kinds."""


async def load_objects(client: Client, namespace: str = "transom-system") -> Objects:
    """All objects of the settings. A missing API of others has no objects. Raises ApiError, DefinitionsMissing."""
    kinds = (EGRESS_PROXIES, WINDOWS_INSTANCES, OPENSHIFT_PROXIES, OPENSHIFT_NETWORKS, OPENSHIFT_INFRASTRUCTURES, SERVICE_CIDRS)
    absent: list[str] = []
    listings = await asyncio.gather(
        *(_list_values(client, kind, absent=absent if kind in _OWN else None) for kind in kinds),
        _list_values(client, SECRETS, namespace),
        _list_values(client, CONFIG_MAPS, namespace),
        _list_values(client, CONFIG_MAPS, OPENSHIFT_CONFIG),
        _list_values(client, CONFIG_MAPS, OPENSHIFT_MANAGED, fields=f"metadata.name={OPENSHIFT_BUNDLE}"),
        _list_values(client, CONFIG_MAPS, "kube-system", fields="metadata.name=kubeadm-config"),
        _list_values(client, CONFIG_MAPS, "kube-public", fields="metadata.name=cluster-info"),
        *(_list_values(client, CONFIG_MAPS, labels=label) for label in (INJECT_LABEL, OPENSHIFT_LABEL)),
        *(_list_preferred(client, kind) for kind in _CLUSTER_API),
    )
    # a labelled ConfigMap may be among those of a namespace too
    objects_by_kind = {
        (item["kind"], item["metadata"].get("namespace"), item["metadata"]["name"]): item for some in listings for item in some
    }
    for item in await _list_machines(client):
        objects_by_kind["Machine", item["metadata"]["namespace"], item["metadata"]["name"]] = item
    reader = ObjectReader(namespace)
    for item in objects_by_kind.values():
        reader.add(item, client.connection.server, lambda _: (0, 0))
    if absent:
        raise DefinitionsMissing(absent, reader.build_objects())
    return reader.build_objects()


async def load_networks(client: Client) -> tuple[Objects, list[str]]:
    """Return the objects that say what a cluster's networks are, and the kinds that may not be read. Raises ApiError."""
    unread: list[str] = []

    async def list_if_allowed(
        what: str, resource: Resource[UnstructuredObject], place: str | None = None, named: str = ""
    ) -> list[dict[str, Any]]:
        try:
            return await _list_values(client, resource, place, fields=f"metadata.name={named}" if named else "")
        except StatusError as error:
            if error.code != 403:
                raise
            unread.append(what)
            return []

    listings = await asyncio.gather(
        list_if_allowed("Networks of OpenShift", OPENSHIFT_NETWORKS),
        list_if_allowed("Infrastructures of OpenShift", OPENSHIFT_INFRASTRUCTURES),
        list_if_allowed("ServiceCIDRs", SERVICE_CIDRS),
        list_if_allowed("ConfigMap kube-system/kubeadm-config", CONFIG_MAPS, "kube-system", "kubeadm-config"),
        list_if_allowed("ConfigMap kube-public/cluster-info", CONFIG_MAPS, "kube-public", "cluster-info"),
    )
    reader = ObjectReader()
    for item in (item for some in listings for item in some):
        reader.add(item, client.connection.server, lambda _: (0, 0))
    return reader.build_objects(), unread


async def _list_values(
    client: Client,
    resource: Resource[UnstructuredObject],
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
    return [{**head, **item.value} for item in listing.items]


async def _list_preferred(client: Client, resource: Resource[UnstructuredObject]) -> list[dict[str, Any]]:
    try:
        return await _list_values(client, await resolve_api_version(client.get_json, resource))
    except NotFound:
        return []


async def _list_machines(client: Client) -> list[dict[str, Any]]:
    try:
        resource = await resolve_api_version(client.get_json, _MACHINES)
        listing = await client.list_objects(resource)
    except NotFound:
        return []
    return [
        {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": item.metadata.name, "namespace": item.metadata.namespace},
            "spec": {"clusterName": item.spec.cluster_name},
            "status": {"addresses": item.status.addresses},
        }
        for item in listing.items
    ]


class HashKeyUnread(Exception):
    """Without the webhook's key, the digest of settings would let a reader test guesses of the credentials."""

    def __init__(self, namespace: str) -> None:
        super().__init__(
            f"Secret {namespace}/{_HOLDER} cannot be read: without its key, pods with these settings cannot be recognized"
        )


def compute_pod_egress(objects: Objects, examined: Examined, address: str | None) -> PodEgress:
    """Compute what pods get; its digest is UNKNOWN without the webhook's key.

    `address` is that of the Service default/kubernetes.
    """
    present = objects.find_secret(objects.namespace, _HOLDER)
    key = present.data.get(HASH_KEY) if present else None
    made = build_pod_egress(examined.settings.own, objects.namespace, address, key.reveal().encode() if key else b"")
    return msgspec.structs.replace(made, digest=UNKNOWN) if made.in_secret and key is None else made


async def list_outdated_pods(client: Client, namespace: str, now: datetime) -> list[OutdatedWorkload]:
    """Find the pods that are older than the settings, by owner. Raises ApiError, HashKeyUnread."""
    objects = await load_objects(client, namespace)
    examined = examine_objects(objects, now, client.connection.server)
    own = examined.settings.own
    if own is None or own.missing:
        # the desired settings of pods are unknown
        return []
    service = await client.get_json("/api/v1/namespaces/default/services/kubernetes")
    egress = compute_pod_egress(objects, examined, service["spec"].get("clusterIP"))
    if egress.digest == UNKNOWN:
        raise HashKeyUnread(namespace)
    running = (await client.list_objects(PODS)).items
    labels = {item.metadata.name: item.metadata.labels or {} for item in (await client.list_objects(NAMESPACES)).items}
    return find_outdated(running, labels, egress, own.variables)
