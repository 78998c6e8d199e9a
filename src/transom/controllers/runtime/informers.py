"""Everything of a cluster that the controllers read: one store for each kind, kept like the server by a reflector."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import msgspec

from transom.controllers.runtime.cached import CLUSTERS, INSTANCES, NODES, CachedCluster, CachedInstance, HostNode
from transom.controllers.runtime.watched_settings import SettingsInformers, complete, nowhere
from transom.kube.client import Client
from transom.kube.objects import BundleHolder, Metadata, ObjectMeta, Projected
from transom.kube.reflector import PACE, ReflectorPace
from transom.kube.resources import (
    BUNDLE_HOLDERS,
    SECRETS,
    Resource,
)
from transom.kube.store import IndexFunction, ObjectKey, Store
from transom.kube.versions import PREFERRED
from transom.proxy.objects import SettingsObjects
from transom.proxy.trust import INJECT_LABEL, OPENSHIFT_LABEL
from transom.sources.infrastructure import KINDS
from transom.sources.objects import ObjectReader, Objects
from transom.windows.nodes import WindowsInstance, address
from transom.windows.nodes.inventory import OS_ID, SSH


class Informers(SettingsInformers):
    """What `transom run` sees: the settings of every cluster, instances, Nodes, ConfigMaps that ask for the bundle."""

    def __init__(self, client: Client, namespace: str, pace: ReflectorPace = PACE) -> None:
        super().__init__(client, namespace, pace)
        self.windows_instances = self.watch(INSTANCES, namespace, indexes=INSTANCE_INDEXES)
        self.nodes = self.watch(NODES, indexes={"address": _node_addresses})
        self.clusters = self.watch(CLUSTERS)
        self._infrastructure = {resource.kind: self.watch(resource, optional=True) for resource in INFRASTRUCTURE}
        self.bundle_holders: list[Store[BundleHolder]] = [
            self.watch(BUNDLE_HOLDERS, labels=label) for label in (INJECT_LABEL, OPENSHIFT_LABEL)
        ]

    def on_settings(self, changed: Callable[[], None]) -> None:
        """Call `changed` after each change of an object that settings are made of."""
        super().on_settings(changed)

        def cluster_changed(_: ObjectKey, before: CachedCluster | None, after: CachedCluster | None) -> None:
            # the status of a thousand Clusters changes all the time
            if before is None or after is None or before.value != after.value:
                changed()

        self.clusters.subscribe(cluster_changed)

        def infrastructure_changed(
            _: ObjectKey, before: CachedInfrastructure | None, after: CachedInfrastructure | None
        ) -> None:
            if before is None or after is None or (before.spec, before.status) != (after.spec, after.status):
                changed()

        for store in self._infrastructure.values():
            store.subscribe(infrastructure_changed)

    def instance_objects(self, instance: WindowsInstance) -> SettingsObjects:
        """What an instance refers to, as far as it is there: its Secret and its Cluster."""
        reader = ObjectReader(self.namespace)
        secret = self.secrets.snapshot().named(instance.spec.key_secret.name, self.namespace)
        if secret is not None and instance.metadata.namespace == self.namespace:
            reader.add(complete(SECRETS, secret.value), "", nowhere)
        if instance.cluster is not None:
            cluster = self.clusters.snapshot().get(ObjectKey(*instance.cluster))
            if cluster is not None:
                reader.add(cluster.value, "", nowhere)
        return reader.objects()

    def _read(self) -> ObjectReader:
        reader = super()._read()
        for cluster in self.clusters.snapshot():
            reader.add(cluster.value, "", nowhere)
        for kind, store in self._infrastructure.items():
            for cached in store.snapshot():
                reader.add(cached.value(kind), "", nowhere)
        return reader


def read_instance(cached: CachedInstance, namespace: str) -> Objects:
    """One WindowsInstance as the settings' reader sees it, with the findings of its reading."""
    reader = ObjectReader(namespace)
    reader.add(cached.value, "", nowhere)
    return reader.objects()


def _instance_secret(cached: CachedInstance) -> Iterator[str]:
    reference = cached.fields.get("keySecret")
    name = reference.get("name") if isinstance(reference, dict) else reference
    yield name if isinstance(name, str) and name else "cloud-private-key"


def place_of(cached: CachedInstance) -> str:
    """The value of the index `place`: address and port."""
    return f"{spelled(str(cached.fields.get('address', '')))} {cached.fields.get('port', 22)}"


def _instance_place(cached: CachedInstance) -> Iterator[str]:
    yield place_of(cached)


def addresses_of(cached: CachedInstance) -> frozenset[str]:
    """The IP addresses that an instance's Node may have: where SSH goes to, and what a person says."""
    texts = (cached.fields.get("address"), cached.live.host_address, cached.fields.get("nodeIP"))
    return frozenset(found for text in texts if text and (found := address(str(text))) is not None)


def spelled(text: str) -> str:
    """An address as it is compared: an IP in one spelling, a name without case and the dot at its end."""
    return address(text) or text.casefold().removesuffix(".")


def _instance_address(cached: CachedInstance) -> Iterator[str]:
    yield from addresses_of(cached)


def _instance_node(cached: CachedInstance) -> Iterator[str]:
    yield from {str(name) for name in (cached.fields.get("nodeName"), cached.live.node_name) if name}


def _instance_node_uid(cached: CachedInstance) -> Iterator[str]:
    if cached.live.node_name and cached.live.node_uid:
        yield cached.live.node_uid


def _instance_cluster(cached: CachedInstance) -> Iterator[str]:
    reference = cached.fields.get("clusterRef")
    if isinstance(reference, dict):
        yield cluster_index((str(reference.get("namespace") or cached.metadata.namespace), str(reference.get("name"))))
    else:
        yield cluster_index(None)


def cluster_index(cluster: tuple[str, str] | None) -> str:
    """The value of the index `cluster`: whose settings an instance has."""
    return "/".join(cluster) if cluster else ""


def _node_addresses(node: HostNode) -> Iterable[str]:
    return node.ips


INSTANCE_INDEXES: Final[dict[str, IndexFunction[CachedInstance]]] = {
    "secret": _instance_secret,
    "place": _instance_place,
    "address": _instance_address,
    "node": _instance_node,
    "node-uid": _instance_node_uid,
    "cluster": _instance_cluster,
}


class _InfrastructureStatus(Projected, frozen=True):
    network: Any = None


class CachedInfrastructure(Projected, frozen=True):
    """An AWSCluster, say: its spec, and the networks that its controller found."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Any = None
    status: _InfrastructureStatus | None = None

    def value(self, kind: str) -> dict[str, Any]:
        """The object in plain values, as the settings' reader takes it."""
        metadata = {"name": self.metadata.name, "namespace": self.metadata.namespace}
        network = self.status.network if self.status else None
        made = {"apiVersion": f"{KINDS[kind][0]}/v1", "kind": kind, "metadata": metadata}
        return made | {"spec": self.spec, "status": {"network": network}}


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


def machines(informers: Informers) -> Store[CachedApiMachine]:
    """Those of the Machine API whose system is Windows, of all namespaces."""
    return informers.watch(MACHINES, labels=f"{OS_ID}=Windows", indexes={"origin": _machine_origin})


def machine_sets(informers: Informers) -> Store[Metadata]:
    """Those of the Machine API, of all namespaces."""
    return informers.watch(MACHINE_SETS)


def cluster_machines(informers: Informers) -> Store[CachedApiMachine]:
    """Those of Cluster API that somebody opened to SSH."""
    return informers.watch(CLUSTER_MACHINES, labels=f"{SSH}=true", indexes={"origin": _machine_origin})


def _machine_origin(machine: CachedApiMachine) -> Iterator[str]:
    yield machine.origin
