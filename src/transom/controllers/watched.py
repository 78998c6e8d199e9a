"""Everything of a cluster that the controllers read: one store for each kind, kept like the server by a reflector."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from transom.controllers.kept import CLUSTERS, INSTANCES, NODES, HeldCluster, HeldInstance, HostNode
from transom.controllers.watched_settings import WatchedSettings, complete, nowhere
from transom.kube.client import Client
from transom.kube.objects import BundleHolder
from transom.kube.reflector import PACE, Pace
from transom.kube.resources import (
    BUNDLE_HOLDERS,
    SECRETS,
)
from transom.kube.store import IndexFunction, Name, Store
from transom.proxy.injection import LABEL, OPENSHIFT_LABEL
from transom.proxy.objects import SettingsObjects
from transom.sources.objects import ObjectReader, Objects
from transom.windows.instance import WindowsInstance


class Watched(WatchedSettings):
    """What `transom run` sees: the settings of every cluster, instances, Nodes, ConfigMaps that ask for the bundle."""

    def __init__(self, client: Client, namespace: str, pace: Pace = PACE) -> None:
        super().__init__(client, namespace, pace)
        self.windows_instances = self.watch(INSTANCES, namespace, indexes=INSTANCE_INDEXES)
        self.nodes = self.watch(NODES, indexes={"address": _node_addresses})
        self.clusters = self.watch(CLUSTERS)
        self.bundle_holders: list[Store[BundleHolder]] = [
            self.watch(BUNDLE_HOLDERS, labels=label) for label in (LABEL, OPENSHIFT_LABEL)
        ]

    def on_settings(self, changed: Callable[[], None]) -> None:
        """Call `changed` after each change of an object that settings are made of."""
        super().on_settings(changed)

        def cluster_changed(_: Name, before: HeldCluster | None, after: HeldCluster | None) -> None:
            # the status of a thousand Clusters changes all the time
            if before is None or after is None or before.value != after.value:
                changed()

        self.clusters.subscribe(cluster_changed)

    def instance_objects(self, instance: WindowsInstance) -> SettingsObjects:
        """What an instance refers to, as far as it is there: its Secret and its Cluster."""
        reader = ObjectReader(self.namespace)
        secret = self.secrets.snapshot().get(instance.spec.key_secret.name, self.namespace)
        if secret is not None and instance.metadata.namespace == self.namespace:
            reader.add(complete(SECRETS, secret.value), "", nowhere)
        if instance.cluster is not None:
            cluster = self.clusters.snapshot().get(instance.cluster[1], instance.cluster[0])
            if cluster is not None:
                reader.add(cluster.value, "", nowhere)
        return reader.objects()

    def _read(self) -> ObjectReader:
        reader = super()._read()
        for cluster in self.clusters.snapshot():
            reader.add(cluster.value, "", nowhere)
        return reader


def read_instance(held: HeldInstance, namespace: str) -> Objects:
    """One WindowsInstance as the settings' reader sees it, with the findings of its reading."""
    reader = ObjectReader(namespace)
    reader.add(held.value, "", nowhere)
    return reader.objects()


def _instance_secret(held: HeldInstance) -> Iterator[str]:
    reference = held.fields.get("keySecret")
    name = reference.get("name") if isinstance(reference, dict) else reference
    yield name if isinstance(name, str) and name else "cloud-private-key"


def place_of(held: HeldInstance) -> str:
    """The value of the index `place`: address and port."""
    return f"{held.fields.get('address', '')} {held.fields.get('port', 22)}".casefold()


def _instance_place(held: HeldInstance) -> Iterator[str]:
    yield place_of(held)


def _instance_address(held: HeldInstance) -> Iterator[str]:
    yield str(held.fields.get("address", "")).casefold()


def _instance_node(held: HeldInstance) -> Iterator[str]:
    if name := held.fields.get("nodeName") or held.live.get("nodeName"):
        yield str(name)


def _instance_cluster(held: HeldInstance) -> Iterator[str]:
    reference = held.fields.get("clusterRef")
    if isinstance(reference, dict):
        yield cluster_index((str(reference.get("namespace") or held.metadata.namespace), str(reference.get("name"))))
    else:
        yield cluster_index(None)


def cluster_index(cluster: tuple[str, str] | None) -> str:
    """The value of the index `cluster`: whose settings an instance has."""
    return "/".join(cluster) if cluster else ""


def _node_addresses(node: HostNode) -> Iterable[str]:
    return node.addresses


INSTANCE_INDEXES: Final[dict[str, IndexFunction[HeldInstance]]] = {
    "secret": _instance_secret,
    "place": _instance_place,
    "address": _instance_address,
    "node": _instance_node,
    "cluster": _instance_cluster,
}
