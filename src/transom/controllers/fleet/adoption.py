"""What a peer keeps for workload clusters, and what of it Transom would take over.

cluster-apps-operator labels its objects `giantswarm.io/managed-by=cluster-apps-operator` (github.com/giantswarm/
cluster-apps-operator, pkg/label); their names are those of ours.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

import msgspec
import yaml

from transom.capi.identity import ADOPT, ID_LABEL, InvalidIdentity, cluster_id
from transom.capi.objects import FleetObject, key_of, wanted
from transom.capi.values import KEY as VALUES
from transom.kube.client import Client
from transom.kube.objects import Whole
from transom.kube.resources import CONFIG_MAPS, SECRETS, Resource
from transom.proxy.secret import Secret
from transom.proxy.settings import Effective
from transom.sources.core_objects import decoded_text
from transom.sources.objects import Objects

CLUSTER_APPS_OPERATOR: Final = "giantswarm.io/managed-by=cluster-apps-operator"
Result = Literal["to hand over", "handed over", "kept: it would lose values", "kept: the settings ask for no such object"]


class Candidate(msgspec.Struct, frozen=True):
    """An object of the peer that has the name of one of ours. `loses`: keys of its values that Transom does not write."""

    kind: str
    namespace: str
    name: str
    result: Result
    loses: tuple[str, ...] = ()


async def candidates(
    client: Client, objects: Objects, settings: Effective, *, hand_over: bool, drop_values: bool
) -> list[Candidate]:
    """The peer's objects; with `hand_over` those that lose nothing are handed over, with `drop_values` the others, too.

    Handed over is by annotation; the operator writes the object then. Raises ApiError.
    """
    ours: dict[tuple[str, str, str], FleetObject] = {
        (made.kind, made.namespace, made.name): made for made in _ours(objects, settings)
    }
    found = []
    for resource in (CONFIG_MAPS, SECRETS):
        for held in (await client.list_objects(resource, labels=CLUSTER_APPS_OPERATOR)).items:
            candidate = _candidate(resource, held, ours, drop_values=drop_values)
            if candidate is None:
                continue
            if hand_over and candidate.result == "to hand over":
                await client.patch(
                    resource, {"metadata": {"annotations": {ADOPT: "true"}}}, candidate.name, candidate.namespace
                )
                candidate = msgspec.structs.replace(candidate, result="handed over")
            found.append(candidate)
    return found


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
    resource: Resource[Whole], held: Whole, ours: Mapping[tuple[str, str, str], FleetObject], *, drop_values: bool
) -> Candidate | None:
    meta = held.metadata
    namespace, identity = meta.namespace or "", (meta.labels or {}).get(ID_LABEL, "")
    if meta.name not in (f"{identity}-cluster-values", f"{identity}-systemd-proxy"):
        return None
    made = ours.get((resource.kind, namespace, meta.name))
    if made is None:
        return Candidate(resource.kind, namespace, meta.name, "kept: the settings ask for no such object")
    loses = tuple(sorted(_paths(_values(resource, held.value)) - _paths(_own_values(made))))
    result: Result = "kept: it would lose values" if loses and not drop_values else "to hand over"
    return Candidate(resource.kind, namespace, meta.name, result, loses)


def _values(resource: Resource[Whole], value: Mapping[str, Any]) -> Any:
    text = (value.get("data") or {}).get(VALUES)
    if text is not None and resource is SECRETS:
        text = decoded_text(text)
    return _read(text)


def _own_values(made: FleetObject) -> Any:
    held = made.data.get(VALUES)
    return _read(held.reveal() if isinstance(held, Secret) else held)


def _read(text: str | None) -> Any:
    try:
        return yaml.load(text or "", yaml.CSafeLoader)
    except yaml.YAMLError:
        return None


def _paths(value: Any, path: str = "") -> set[str]:
    """The leaves of a document, as dotted names; values are not looked at."""
    if not isinstance(value, Mapping) or not value:
        return {path} if path else set()
    return {found for key, below in value.items() for found in _paths(below, f"{path}.{key}" if path else str(key))}
