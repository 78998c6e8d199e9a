"""Cluster API's objects (v1beta1 and v1beta2: the same places in both): Clusters, and whose templates are for Windows."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec

from transom.proxy.finding import Finding, Path, Place
from transom.proxy.no_proxy import select_kubelet_addresses, split
from transom.proxy.objects import Cluster, MachineObject, Meta
from transom.sources.core_objects import get_value_at, read_number, read_string, read_strings
from transom.sources.decoding import Decoder

CLUSTER_NAME: Final = "cluster.x-k8s.io/cluster-name"


class KubeadmTemplate(msgspec.Struct, frozen=True):
    """A KubeadmConfigTemplate: the cluster that its label names, and whether its machines run Windows."""

    metadata: Meta
    place: Place
    cluster: str | None
    windows: bool


class MachineDeployment(msgspec.Struct, frozen=True):
    """A MachineDeployment: its cluster, and the template that its machines are configured by."""

    metadata: Meta
    place: Place
    cluster: str | None
    template: str | None


class Machine(msgspec.Struct, frozen=True):
    """A Machine: its cluster, and the IP addresses by which others of the cluster reach it."""

    metadata: Meta
    place: Place
    cluster: str | None
    addresses: tuple[str, ...]


def read_cluster(value: dict[str, Any], meta: Meta, place: Place, decoder: Decoder, findings: list[Finding]) -> Cluster:
    """Read the networks and the endpoint, if the object has them."""
    return Cluster(
        meta,
        place,
        str(value["apiVersion"]),
        read_strings(value, ("spec", "clusterNetwork", "services", "cidrBlocks"), decoder),
        read_strings(value, ("spec", "clusterNetwork", "pods", "cidrBlocks"), decoder),
        read_string(value, ("spec", "clusterNetwork", "serviceDomain"), decoder),
        read_string(value, ("spec", "controlPlaneEndpoint", "host"), decoder),
        read_number(value, ("spec", "controlPlaneEndpoint", "port"), decoder),
        read_string(value, ("spec", "infrastructureRef", "kind"), decoder),
        read_string(value, ("spec", "infrastructureRef", "name"), decoder),
        read_string(value, ("spec", "controlPlaneRef", "kind"), decoder),
        read_string(value, ("spec", "controlPlaneRef", "name"), decoder),
    )


_NETWORKING: Final = ("clusterConfiguration", "networking")
_NETWORKS: Final = {"services": "serviceSubnet", "pods": "podSubnet", "service_domain": "dnsDomain"}


def with_networking(
    clusters: Iterable[Cluster], objects: Sequence[MachineObject], findings: list[Finding]
) -> tuple[Cluster, ...]:
    """Return the clusters with the networks and the domain that their kubeadm control planes of v1beta1 set.

    kubernetes-sigs/cluster-api, bootstrap/kubeadm/internal/controllers/kubeadmconfig_controller.go. v1.10.4,
    `reconcileTopLevelObjectSettings`: the Cluster's count only where the ClusterConfiguration has none. v1.11.4,
    `computeClusterConfigurationAndAdditionalData`: the Cluster's alone, since v1beta2 has no such fields. Files do not say
    which version reads them, so that the networks of both are in the list.
    """
    if not any(item.version == "v1beta1" and item.kind in _KUBEADM for item in objects):
        return tuple(clusters)
    # not for those who have no control planes: it knows of settings
    from transom.capi.bootstrap.machine_index import MachineIndex

    index = MachineIndex(objects)
    return tuple(_with_networking(cluster, index.find_kubeadm_control_plane(cluster), findings) for cluster in clusters)


_KUBEADM: Final = {
    "KubeadmControlPlane": ("kubeadmConfigSpec",),
    "KubeadmControlPlaneTemplate": ("template", "spec", "kubeadmConfigSpec"),
}


def _with_networking(cluster: Cluster, control_plane: MachineObject | None, findings: list[Finding]) -> Cluster:
    if control_plane is None or control_plane.version != "v1beta1":
        return cluster
    below = (*_KUBEADM[control_plane.kind], *_NETWORKING)
    networking = get_value_at(control_plane.spec, below)
    changed: dict[str, Any] = {}
    overrides: dict[str, tuple[Place, Path]] = {}
    for field, name in _NETWORKS.items():
        network = networking.get(name) if isinstance(networking, dict) else None
        if not isinstance(network, str) or not network.strip():
            continue
        before = getattr(cluster, field)
        value: str | tuple[str, ...] = network.strip()
        if field != "service_domain":
            value = tuple(dict.fromkeys((*split(network), *before)))
        if before == value:
            continue
        path: Path = ("spec", *below, name)
        message = "Cluster API up to v1.10 uses this value, newer versions use spec.clusterNetwork of"
        findings.append(
            control_plane.place.build_warning(path, f"{message} {cluster.place.object}, which differs: set the same there")
        )
        changed[field], overrides[field] = value, (control_plane.place, path)
    return msgspec.structs.replace(cluster, **changed, overrides=overrides) if changed else cluster


def read_kubeadm_template(
    value: dict[str, Any], meta: Meta, place: Place, decoder: Decoder, findings: list[Finding]
) -> KubeadmTemplate:
    """Read a KubeadmConfigTemplate; its configuration is not examined: that is Cluster API's."""
    spec = get_value_at(value, ("spec", "template", "spec"))
    # not for those who read no templates: it knows of hosts and payloads
    from transom.capi.bootstrap.injection import is_for_windows

    return KubeadmTemplate(meta, place, meta.labels.get(CLUSTER_NAME), isinstance(spec, dict) and is_for_windows(spec))


def read_machine_deployment(
    value: dict[str, Any], meta: Meta, place: Place, decoder: Decoder, findings: list[Finding]
) -> MachineDeployment:
    """Read a MachineDeployment: the fields that connect a cluster with a template."""
    cluster_name = get_value_at(value, ("spec", "clusterName"))
    name = get_value_at(value, ("spec", "template", "spec", "bootstrap", "configRef", "name"))
    return MachineDeployment(
        meta, place, cluster_name if isinstance(cluster_name, str) else None, name if isinstance(name, str) else None
    )


def read_machine(value: dict[str, Any], meta: Meta, place: Place, decoder: Decoder, findings: list[Finding]) -> Machine:
    """Read a Machine, of which Cluster API alone writes the status: invalid fields in it are ignored."""
    name, addresses = get_value_at(value, ("spec", "clusterName")), get_value_at(value, ("status", "addresses"))
    return Machine(meta, place, name if isinstance(name, str) else None, select_kubelet_addresses(_iter_addresses(addresses)))


def _iter_addresses(entries: Any) -> Iterator[tuple[str, str]]:
    for item in entries if isinstance(entries, list) else ():
        kind, address = (item.get("type"), item.get("address")) if isinstance(item, dict) else (None, None)
        if isinstance(kind, str) and isinstance(address, str):
            yield kind, address


def group_machine_addresses(machines: Iterable[Machine]) -> dict[tuple[str, str], tuple[str, ...]]:
    """Return the addresses by namespace and name of the Cluster."""
    addresses_by_cluster: dict[tuple[str, str], list[str]] = {}
    for item in machines:
        if item.cluster and item.addresses:
            addresses_by_cluster.setdefault((item.metadata.namespace or "", item.cluster), []).extend(item.addresses)
    return {cluster: tuple(dict.fromkeys(addresses)) for cluster, addresses in addresses_by_cluster.items()}


def iter_windows_clusters(
    templates: Iterable[KubeadmTemplate], deployments: Iterable[MachineDeployment]
) -> Iterator[tuple[str, str]]:
    """Iterate over clusters with a template for Windows machines, as (namespace, name)."""
    windows = {(item.metadata.namespace or "", item.metadata.name): item for item in templates if item.windows}
    for (namespace, _), window in windows.items():
        if window.cluster:
            yield namespace, window.cluster
    for using in deployments:
        namespace = using.metadata.namespace or ""
        if using.cluster and (namespace, using.template or "") in windows:
            yield namespace, using.cluster
