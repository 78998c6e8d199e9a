"""What a peer keeps for workload clusters, and what of it Transom would take over.

cluster-apps-operator labels its objects `giantswarm.io/managed-by=cluster-apps-operator` (github.com/giantswarm/
cluster-apps-operator, pkg/label); they have the same names as Transom's.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Literal

import msgspec

from transom.capi.values.cluster_identity import (
    ADOPT,
    ID_LABEL,
    InvalidIdentity,
    build_systemd_name,
    build_values_name,
    get_cluster_id,
)
from transom.capi.values.cluster_objects import FleetObject, build_fleet_objects, get_namespaced_name
from transom.capi.values.values_objects import KEY as VALUES
from transom.common.escaping import escape_key
from transom.kube.client import Client
from transom.kube.objects import UnstructuredObject
from transom.kube.resources import CONFIG_MAPS, SECRETS, Resource
from transom.proxy.objects import Cluster, LabelSelector
from transom.proxy.secret import Secret
from transom.proxy.settings import ResolvedSettings
from transom.sources.core_objects import decode_string
from transom.sources.objects import Objects
from transom.sources.yaml_text import InvalidText, parse_value

CLUSTER_APPS_OPERATOR: Final = "giantswarm.io/managed-by=cluster-apps-operator"
Result = Literal[
    "to hand over",
    "handed over",
    "kept: it would lose values",
    "kept: the settings do not require this object",
    "kept: the settings give a proxy to this cluster, which has none from the peer",
]
_PUBLIC: Final[Result] = "kept: the settings give a proxy to this cluster, which has none from the peer"
OFFERED_LABEL: Final = ("egress-proxy", "true")
"""What identifies clusters with a proxy if they have no label for it."""


class PeerObject(msgspec.Struct, frozen=True):
    """An object of the peer that has the name of one of Transom's. `loses`: keys of its values that Transom does not write.

    Or a Cluster that the peer gave no proxy, and the settings do.
    """

    kind: str
    namespace: str
    name: str
    result: Result
    loses: tuple[str, ...] = ()


async def find_peer_objects(
    client: Client,
    objects: Objects,
    settings: ResolvedSettings,
    *,
    hand_over: bool,
    drop_values: bool,
    report: Callable[[PeerObject], object] = lambda _: None,
) -> list[PeerObject]:
    """Return the peer's objects. With `hand_over`, annotate those that lose no value; with `drop_values`, the others as well.

     The annotation hands an object over: the operator writes it from then on. Each object is passed to `report` once it is
    known. Raises ApiError.
    """
    ours: dict[tuple[str, str, str], FleetObject] = {
        (made.kind, made.namespace, made.name): made for made in _iter_own_objects(objects, settings)
    }
    peer_objects = []
    for resource in (CONFIG_MAPS, SECRETS):
        for cached in (await client.list_objects(resource, labels=CLUSTER_APPS_OPERATOR)).items:
            candidate = _build_peer_object(resource, cached, ours, drop_values=drop_values)
            if candidate is None:
                continue
            if hand_over and candidate.result == "to hand over":
                await client.patch(
                    resource, {"metadata": {"annotations": {ADOPT: "true"}}}, candidate.name, candidate.namespace
                )
                candidate = msgspec.structs.replace(candidate, result="handed over")
            peer_objects.append(candidate)
            report(candidate)
    return peer_objects


async def find_public_clusters(client: Client, objects: Objects, settings: ResolvedSettings) -> "ClustersByProxyUse":
    """Find the clusters that the peer serves without a proxy and to which the settings would give one. Raises ApiError.

    The peer writes `<id>-systemd-proxy` only for clusters with a proxy (service/controller/resource/clustersecret/desired.go).
    """
    served, proxied = set(), set()
    for cached in (await client.list_objects(SECRETS, labels=CLUSTER_APPS_OPERATOR)).items:
        meta = cached.metadata
        identity = (meta.labels or {}).get(ID_LABEL, "")
        if meta.name == build_systemd_name(identity):
            proxied.add((meta.namespace, identity))
        elif meta.name == build_values_name(identity):
            served.add((meta.namespace, identity))
    public, others = [], []
    for cluster in objects.clusters:
        egress = settings.get_with_withheld(get_namespaced_name(cluster))
        try:
            place = (cluster.metadata.namespace, get_cluster_id(cluster))
        except InvalidIdentity:
            continue
        if place in proxied:
            others.append(cluster)
        elif place in served and egress is not None and (egress.http_proxy or egress.https_proxy):
            public.append(cluster)
    return ClustersByProxyUse(tuple(public), tuple(others))


class ClustersByProxyUse(msgspec.Struct, frozen=True):
    """Clusters without a proxy of the peer's, and those with one."""

    clusters: tuple[Cluster, ...]
    others: tuple[Cluster, ...]

    @property
    def objects(self) -> list[PeerObject]:
        """The public clusters as objects of the report."""
        return [
            PeerObject("Cluster", cluster.metadata.namespace or "", cluster.metadata.name, _PUBLIC) for cluster in self.clusters
        ]

    @property
    def selector(self) -> LabelSelector:
        """A `clusterSelector` for the base that changes no cluster: by a label of the others, or by a label to add."""
        shared = set.intersection(*(set(other.metadata.labels.items()) for other in self.others)) if self.others else set()
        shared -= {item for cluster in self.clusters for item in cluster.metadata.labels.items()}
        return LabelSelector(dict([min(shared, default=OFFERED_LABEL)]))

    @property
    def to_label(self) -> tuple[Cluster, ...]:
        """The clusters that the selector does not select yet, and should."""
        return tuple(other for other in self.others if not self.selector.matches(other.metadata.labels))


def _iter_own_objects(objects: Objects, settings: ResolvedSettings) -> Iterator[FleetObject]:
    for cluster in objects.clusters:
        egress = settings.clusters[get_namespaced_name(cluster)]
        try:
            get_cluster_id(cluster)
        except InvalidIdentity:
            # it gets no objects of ours, and `transom diff` says why
            continue
        if egress is not None:
            yield from build_fleet_objects(cluster, egress)


def _build_peer_object(
    resource: Resource[UnstructuredObject],
    cached: UnstructuredObject,
    ours: Mapping[tuple[str, str, str], FleetObject],
    *,
    drop_values: bool,
) -> PeerObject | None:
    meta = cached.metadata
    namespace, identity = meta.namespace or "", (meta.labels or {}).get(ID_LABEL, "")
    if meta.name not in (f"{identity}-cluster-values", f"{identity}-systemd-proxy"):
        return None
    made = ours.get((resource.kind, namespace, meta.name))
    if made is None:
        return PeerObject(resource.kind, namespace, meta.name, "kept: the settings do not require this object")
    loses = list_lost_values(_get_values(resource, cached.value), _get_own_values(made))
    result: Result = "kept: it would lose values" if loses and not drop_values else "to hand over"
    return PeerObject(resource.kind, namespace, meta.name, result, loses)


def list_lost_values(peer_values: str | None, own_values: str | None) -> tuple[str, ...]:
    """Return the names of the values that are theirs alone; all names may be lost if a document cannot be parsed."""
    try:
        lost = _list_leaf_paths(parse_value(peer_values or "")) - _list_leaf_paths(parse_value(own_values or ""))
    except InvalidText as error:
        return (f"what cannot be read: {error.reason}",)
    return tuple(sorted(".".join(map(escape_key, path)) for path in lost))


def _get_values(resource: Resource[UnstructuredObject], value: Mapping[str, Any]) -> str | None:
    text = (value.get("data") or {}).get(VALUES)
    if text is not None and resource is SECRETS:
        text = decode_string(text)
    return text if isinstance(text, str) else None


def _get_own_values(made: FleetObject) -> str | None:
    cached = made.data.get(VALUES)
    return cached.reveal() if isinstance(cached, Secret) else cached


def _list_leaf_paths(value: Any, path: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    """Return the keys that lead to each leaf of a document, without its values."""
    if not isinstance(value, Mapping) or not value:
        return {path} if path else set()
    return {item for key, below in value.items() for item in _list_leaf_paths(below, (*path, key))}
