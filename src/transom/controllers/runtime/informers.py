"""Everything of a cluster that the controllers read: one store for each kind, kept like the server by a reflector."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import msgspec

from transom.controllers.runtime.cached_objects import CLUSTERS, INSTANCES, NODES, CachedCluster, CachedInstance, HostNode
from transom.controllers.runtime.watched_settings import SettingsInformers, add_kind, get_no_position
from transom.kube.api_versions import PREFERRED
from transom.kube.client import Client
from transom.kube.objects import BundleConfigMap, Metadata, ObjectMeta, Projected
from transom.kube.reflector import PACE, ReflectorTimings
from transom.kube.resources import (
    BUNDLE_HOLDERS,
    SECRETS,
    Resource,
)
from transom.kube.store import IndexFunction, ObjectKey, Store
from transom.proxy.objects import SettingsObjects
from transom.proxy.trust import INJECT_LABEL, OPENSHIFT_LABEL
from transom.sources.infrastructure import KINDS
from transom.sources.objects import ObjectReader, Objects
from transom.windows.nodes.inventory import OS_ID, SSH
from transom.windows.nodes.windows_instance import WindowsInstance, parse_ip_address


class Informers(SettingsInformers):
    """What `transom run` sees: the settings of every cluster, instances, Nodes, ConfigMaps that ask for the bundle."""

    def __init__(self, client: Client, namespace: str, pace: ReflectorTimings = PACE) -> None:
        super().__init__(client, namespace, pace)
        self.windows_instances = self.watch(INSTANCES, namespace, indexes=INSTANCE_INDEXES)
        self.nodes = self.watch(NODES, indexes={"address": _index_node_addresses})
        self.clusters = self.watch(CLUSTERS)
        self._infrastructure = {resource.kind: self.watch(resource, optional=True) for resource in INFRASTRUCTURE}
        self._kubeadm = self.watch(KUBEADM_NETWORKS, optional=True)
        self.bundle_holders: list[Store[BundleConfigMap]] = [
            self.watch(BUNDLE_HOLDERS, labels=label) for label in (INJECT_LABEL, OPENSHIFT_LABEL)
        ]

    def subscribe_to_settings(self, on_change: Callable[[], None]) -> None:
        """Call `on_change` after each change of an object that settings are made of."""
        super().subscribe_to_settings(on_change)

        def on_cluster_change(_: ObjectKey, before: CachedCluster | None, after: CachedCluster | None) -> None:
            # the status of a thousand Clusters changes all the time
            if before is None or after is None or before.value != after.value:
                on_change()

        self.clusters.subscribe(on_cluster_change)

        def on_infrastructure_change(
            _: ObjectKey, before: CachedInfrastructure | None, after: CachedInfrastructure | None
        ) -> None:
            if before is None or after is None or (before.spec, before.status) != (after.spec, after.status):
                on_change()

        for store in self._infrastructure.values():
            store.subscribe(on_infrastructure_change)

        def on_kubeadm_change(_: ObjectKey, before: CachedKubeadm | None, after: CachedKubeadm | None) -> None:
            if _get_networking(before) != _get_networking(after):
                on_change()

        self._kubeadm.subscribe(on_kubeadm_change)

    def get_instance_objects(self, instance: WindowsInstance) -> SettingsObjects:
        """Return the existing objects to which an instance refers: its Secret and its Cluster."""
        reader = ObjectReader(self.namespace)
        secret = self.secrets.take_snapshot().find_named(instance.spec.key_secret.name, self.namespace)
        if secret is not None and instance.metadata.namespace == self.namespace:
            reader.add(add_kind(SECRETS, secret.value), "", get_no_position)
        if instance.cluster is not None:
            cluster = self.clusters.take_snapshot().get(ObjectKey(*instance.cluster))
            if cluster is not None:
                reader.add(cluster.value, "", get_no_position)
        return reader.build_objects()

    def _create_reader(self) -> ObjectReader:
        reader = super()._create_reader()
        for cluster in self.clusters.take_snapshot():
            reader.add(cluster.value, "", get_no_position)
        for kind, store in self._infrastructure.items():
            for cached in store.take_snapshot():
                reader.add(cached.to_value(kind), "", get_no_position)
        for control_plane in self._kubeadm.take_snapshot():
            if _get_networking(control_plane):
                reader.add(control_plane.value, "", get_no_position)
        return reader


def parse_instance(cached: CachedInstance, namespace: str) -> Objects:
    """One WindowsInstance as the settings' reader sees it, with the findings of its reading."""
    reader = ObjectReader(namespace)
    reader.add(cached.value, "", get_no_position)
    return reader.build_objects()


def _index_secret(cached: CachedInstance) -> Iterator[str]:
    reference = cached.spec_fields.get("keySecret")
    name = reference.get("name") if isinstance(reference, dict) else reference
    yield name if isinstance(name, str) and name else "cloud-private-key"


def get_address_index(cached: CachedInstance) -> str:
    """Return the value of the index `place`: address and port."""
    return f"{normalize_host(str(cached.spec_fields.get('address', '')))} {cached.spec_fields.get('port', 22)}"


def _index_address_and_port(cached: CachedInstance) -> Iterator[str]:
    yield get_address_index(cached)


def list_addresses(cached: CachedInstance) -> frozenset[str]:
    """Return the IP addresses that an instance's Node may have: the address of SSH and the configured ones."""
    texts = (cached.spec_fields.get("address"), cached.live.host_address, cached.spec_fields.get("nodeIP"))
    return frozenset(ip_address for text in texts if text and (ip_address := parse_ip_address(str(text))) is not None)


def normalize_host(text: str) -> str:
    """Normalize an address for comparison: IPs in one notation, names in lower case without a final dot."""
    return parse_ip_address(text) or text.casefold().removesuffix(".")


def _index_address(cached: CachedInstance) -> Iterator[str]:
    yield from list_addresses(cached)


def _index_node(cached: CachedInstance) -> Iterator[str]:
    yield from {str(name) for name in (cached.spec_fields.get("nodeName"), cached.live.node_name) if name}


def _index_node_uid(cached: CachedInstance) -> Iterator[str]:
    if cached.live.node_name and cached.live.node_uid:
        yield cached.live.node_uid


def _index_instance_cluster(cached: CachedInstance) -> Iterator[str]:
    reference = cached.spec_fields.get("clusterRef")
    if isinstance(reference, dict):
        yield get_cluster_index((str(reference.get("namespace") or cached.metadata.namespace), str(reference.get("name"))))
    else:
        yield get_cluster_index(None)


def get_cluster_index(cluster: tuple[str, str] | None) -> str:
    """Return the value of the index `cluster`: the cluster whose settings an instance has."""
    return "/".join(cluster) if cluster else ""


def _index_node_addresses(node: HostNode) -> Iterable[str]:
    return node.ips


INSTANCE_INDEXES: Final[dict[str, IndexFunction[CachedInstance]]] = {
    "secret": _index_secret,
    "place": _index_address_and_port,
    "address": _index_address,
    "node": _index_node,
    "node-uid": _index_node_uid,
    "cluster": _index_instance_cluster,
}


class _InfrastructureStatus(Projected, frozen=True):
    network: Any = None


class CachedInfrastructure(Projected, frozen=True):
    """An AWSCluster, say: its spec, and the networks that its controller found."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Any = None
    status: _InfrastructureStatus | None = None

    def to_value(self, kind: str) -> dict[str, Any]:
        """Return the object as plain values for the reader of settings."""
        metadata = {"name": self.metadata.name, "namespace": self.metadata.namespace}
        network = self.status.network if self.status else None
        made = {"apiVersion": f"{KINDS[kind][0]}/v1", "kind": kind, "metadata": metadata}
        return made | {"spec": self.spec, "status": {"network": network}}


class _ClusterConfiguration(Projected, frozen=True):
    networking: Any = None


class _KubeadmConfigSpec(Projected, frozen=True):
    cluster_configuration: _ClusterConfiguration | None = None


class _KubeadmSpec(Projected, frozen=True):
    kubeadm_config_spec: _KubeadmConfigSpec | None = None


class CachedKubeadm(Projected, frozen=True):
    """A KubeadmControlPlane: the networks that it sets, which v1beta1 alone has."""

    api_version: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: _KubeadmSpec = _KubeadmSpec()

    @property
    def value(self) -> dict[str, Any]:
        """The object in plain values, as the settings' reader takes it."""
        metadata = {"name": self.metadata.name, "namespace": self.metadata.namespace}
        made = {"apiVersion": self.api_version or "controlplane.cluster.x-k8s.io/v1beta1", "kind": KUBEADM_NETWORKS.kind}
        configuration = {"clusterConfiguration": {"networking": _get_networking(self)}}
        return made | {"metadata": metadata, "spec": {"kubeadmConfigSpec": configuration}}


def _get_networking(cached: CachedKubeadm | None) -> Any:
    configuration = cached.spec.kubeadm_config_spec if cached is not None else None
    below = configuration.cluster_configuration if configuration is not None else None
    return below.networking if below is not None else None


KUBEADM_NETWORKS: Final = Resource(
    "controlplane.cluster.x-k8s.io", PREFERRED, "KubeadmControlPlane", "kubeadmcontrolplanes", True, CachedKubeadm
)
INFRASTRUCTURE: Final = tuple(
    Resource(group, PREFERRED, kind, plural, True, CachedInfrastructure) for kind, (group, plural) in KINDS.items()
)


class CachedApiMachine(Projected, frozen=True):
    """A Machine of either API, without what the server notes of its fields."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Any = None
    status: Any = None

    @property
    def value(self) -> dict[str, Any]:
        """The object in plain values."""
        return {"metadata": msgspec.to_builtins(self.metadata), "spec": self.spec, "status": self.status}

    @property
    def origin(self) -> str:
        """Namespace and name."""
        return f"{self.metadata.namespace}/{self.metadata.name}"


MACHINES: Final = Resource("machine.openshift.io", "v1beta1", "Machine", "machines", True, CachedApiMachine)
MACHINE_SETS: Final = Resource("machine.openshift.io", "v1beta1", "MachineSet", "machinesets", True, Metadata)
CLUSTER_MACHINES: Final = Resource("cluster.x-k8s.io", PREFERRED, "Machine", "machines", True, CachedApiMachine)


def watch_machines(informers: Informers) -> Store[CachedApiMachine]:
    """Those of the Machine API whose system is Windows, of all namespaces."""
    return informers.watch(MACHINES, labels=f"{OS_ID}=Windows", indexes={"origin": _index_machine_origin})


def watch_machine_sets(informers: Informers) -> Store[Metadata]:
    """Those of the Machine API, of all namespaces."""
    return informers.watch(MACHINE_SETS)


def watch_cluster_machines(informers: Informers) -> Store[CachedApiMachine]:
    """Watch the Machines of Cluster API that a person opened to SSH."""
    return informers.watch(CLUSTER_MACHINES, labels=f"{SSH}=true", indexes={"origin": _index_machine_origin})


def _index_machine_origin(machine: CachedApiMachine) -> Iterator[str]:
    yield machine.origin
