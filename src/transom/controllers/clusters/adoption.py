"""What a peer keeps for workload clusters, and what of it Transom would take over.

cluster-apps-operator labels its objects `giantswarm.io/managed-by=cluster-apps-operator` (github.com/giantswarm/
cluster-apps-operator, pkg/label); their names are those of ours.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

import msgspec

from transom.capi.identity import ADOPT, ID_LABEL, InvalidIdentity, cluster_id, systemd_name, values_name
from transom.capi.objects import FleetObject, key_of, wanted
from transom.capi.values import KEY as VALUES
from transom.kube.client import Client
from transom.kube.objects import Whole
from transom.kube.resources import CONFIG_MAPS, SECRETS, Resource
from transom.proxy.objects import Cluster, LabelSelector
from transom.proxy.secret import Secret
from transom.proxy.settings import Effective
from transom.shown import shown_key
from transom.sources.core_objects import decoded_text
from transom.sources.objects import Objects
from transom.sources.yaml_text import InvalidText, read_value

CLUSTER_APPS_OPERATOR: Final = "giantswarm.io/managed-by=cluster-apps-operator"
Result = Literal[
    "to hand over",
    "handed over",
    "kept: it would lose values",
    "kept: the settings ask for no such object",
    "kept: the settings give a proxy to this cluster, which has none from the peer",
]
_PUBLIC: Final[Result] = "kept: the settings give a proxy to this cluster, which has none from the peer"
OFFERED_LABEL: Final = ("egress-proxy", "true")
"""What tells clusters with a proxy from others, where no label of theirs does."""


class PeerObject(msgspec.Struct, frozen=True):
    """An object of the peer that has the name of one of ours. `loses`: keys of its values that Transom does not write.

    Or a Cluster that the peer gave no proxy, and the settings do.
    """

    kind: str
    namespace: str
    name: str
    result: Result
    loses: tuple[str, ...] = ()


async def candidates(
    client: Client, objects: Objects, settings: Effective, *, hand_over: bool, drop_values: bool
) -> list[PeerObject]:
    """The peer's objects; with `hand_over` those that lose nothing are handed over, with `drop_values` the others, too.

    Handed over is by annotation; the operator writes the object then. Raises ApiError.
    """
    ours: dict[tuple[str, str, str], FleetObject] = {
        (made.kind, made.namespace, made.name): made for made in _ours(objects, settings)
    }
    found = []
    for resource in (CONFIG_MAPS, SECRETS):
        for cached in (await client.list_objects(resource, labels=CLUSTER_APPS_OPERATOR)).items:
            candidate = _candidate(resource, cached, ours, drop_values=drop_values)
            if candidate is None:
                continue
            if hand_over and candidate.result == "to hand over":
                await client.patch(
                    resource, {"metadata": {"annotations": {ADOPT: "true"}}}, candidate.name, candidate.namespace
                )
                candidate = msgspec.structs.replace(candidate, result="handed over")
            found.append(candidate)
    return found


async def public_clusters(client: Client, objects: Objects, settings: Effective) -> "Public":
    """The clusters that the peer serves without a proxy, and the settings would give one. Raises ApiError.

    The peer writes `<id>-systemd-proxy` for those alone that have one (service/controller/resource/clustersecret/desired.go).
    """
    served, proxied = set(), set()
    for cached in (await client.list_objects(SECRETS, labels=CLUSTER_APPS_OPERATOR)).items:
        meta = cached.metadata
        identity = (meta.labels or {}).get(ID_LABEL, "")
        if meta.name == systemd_name(identity):
            proxied.add((meta.namespace, identity))
        elif meta.name == values_name(identity):
            served.add((meta.namespace, identity))
    public, others = [], []
    for cluster in objects.clusters:
        egress = settings.asked_for(key_of(cluster))
        try:
            place = (cluster.metadata.namespace, cluster_id(cluster))
        except InvalidIdentity:
            continue
        if place in proxied:
            others.append(cluster)
        elif place in served and egress is not None and (egress.http_proxy or egress.https_proxy):
            public.append(cluster)
    return Public(tuple(public), tuple(others))


class Public(msgspec.Struct, frozen=True):
    """Clusters without a proxy of the peer's, and those with one."""

    clusters: tuple[Cluster, ...]
    others: tuple[Cluster, ...]

    @property
    def found(self) -> list[PeerObject]:
        """The first as they are told."""
        return [PeerObject("Cluster", one.metadata.namespace or "", one.metadata.name, _PUBLIC) for one in self.clusters]

    @property
    def selector(self) -> LabelSelector:
        """A `clusterSelector` of the base that keeps everything as it was: by a label of the others, else by one to be set."""
        shared = set.intersection(*(set(one.metadata.labels.items()) for one in self.others)) if self.others else set()
        shared -= {item for one in self.clusters for item in one.metadata.labels.items()}
        return LabelSelector(dict([min(shared, default=OFFERED_LABEL)]))

    @property
    def to_label(self) -> tuple[Cluster, ...]:
        """The clusters that the selector does not select yet, and should."""
        return tuple(one for one in self.others if not self.selector.matches(one.metadata.labels))


def _ours(objects: Objects, settings: Effective) -> Iterator[FleetObject]:
    for cluster in objects.clusters:
        egress = settings.clusters[key_of(cluster)]
        try:
            cluster_id(cluster)
        except InvalidIdentity:
            # it gets no objects of ours, and `transom diff` says why
            continue
        if egress is not None:
            yield from wanted(cluster, egress)


def _candidate(
    resource: Resource[Whole], cached: Whole, ours: Mapping[tuple[str, str, str], FleetObject], *, drop_values: bool
) -> PeerObject | None:
    meta = cached.metadata
    namespace, identity = meta.namespace or "", (meta.labels or {}).get(ID_LABEL, "")
    if meta.name not in (f"{identity}-cluster-values", f"{identity}-systemd-proxy"):
        return None
    made = ours.get((resource.kind, namespace, meta.name))
    if made is None:
        return PeerObject(resource.kind, namespace, meta.name, "kept: the settings ask for no such object")
    loses = _losses(_values(resource, cached.value), _own_values(made))
    result: Result = "kept: it would lose values" if loses and not drop_values else "to hand over"
    return PeerObject(resource.kind, namespace, meta.name, result, loses)


def _losses(theirs: str | None, own: str | None) -> tuple[str, ...]:
    """The names of the values that are theirs alone; of a text that is not read all may be."""
    try:
        lost = _paths(read_value(theirs or "")) - _paths(read_value(own or ""))
    except InvalidText as error:
        return (f"what cannot be read: {error.reason}",)
    return tuple(sorted(".".join(map(shown_key, path)) for path in lost))


def _values(resource: Resource[Whole], value: Mapping[str, Any]) -> str | None:
    text = (value.get("data") or {}).get(VALUES)
    if text is not None and resource is SECRETS:
        text = decoded_text(text)
    return text if isinstance(text, str) else None


def _own_values(made: FleetObject) -> str | None:
    cached = made.data.get(VALUES)
    return cached.reveal() if isinstance(cached, Secret) else cached


def _paths(value: Any, path: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    """The keys that lead to each leaf of a document; values are not looked at."""
    if not isinstance(value, Mapping) or not value:
        return {path} if path else set()
    return {found for key, below in value.items() for found in _paths(below, (*path, key))}
