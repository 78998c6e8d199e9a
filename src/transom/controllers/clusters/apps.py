"""The Apps and HelmReleases of workload clusters: who reads the values objects, and references for those that ask.

An App that is asked of no cluster by its label belongs to the one whose id its name begins with, among those of its namespace.
"""

from collections.abc import Callable, Collection, Iterator
from typing import Any, Final

import msgspec

from transom.capi.values.cluster_identity import ID_LABEL, list_values_names
from transom.capi.values.values_objects import build_reference_fields, build_spec, find_identity
from transom.controllers.clusters.values_readers import APPS, RELEASES, ValuesReader
from transom.controllers.runtime.informers import Informers
from transom.kube.client import Client
from transom.kube.errors import Conflict, NotFound
from transom.kube.resources import Resource
from transom.kube.store import IndexFunction, ObjectKey, Store

Identities = Callable[[str], Collection[str]]
"""The ids of the clusters of a namespace."""
Listener = Callable[[ObjectKey], None]
"""Called with a cluster, as (namespace, id)."""


def build_cluster_index_value(namespace: str | None, cluster_id: str) -> str:
    """Return the value of the indexes: a namespace and an ID or a name."""
    return f"{namespace or ''}/{cluster_id}"


def _index_by_cluster(app: ValuesReader) -> Iterator[str]:
    if identity := (app.metadata.labels or {}).get(ID_LABEL):
        yield build_cluster_index_value(app.metadata.namespace, identity)


def _index_without_cluster(app: ValuesReader) -> Iterator[str]:
    """Return the namespace of an App that asks for values or has them and names no cluster: its own name decides."""
    if (app.requests_references or app.applied) and not (app.metadata.labels or {}).get(ID_LABEL):
        yield app.metadata.namespace or ""


def _index_by_values(app: ValuesReader) -> Iterator[str]:
    for namespace, name in app.reads:
        yield build_cluster_index_value(namespace, name)


_INDEXES: Final[dict[str, IndexFunction[Any]]] = {
    "cluster": _index_by_cluster,
    "loose": _index_without_cluster,
    "values": _index_by_values,
}


class InjectionResult(msgspec.Struct, frozen=True):
    """What came of a cluster's Apps. `done`: each is as it should be. `own`: those that ask, and have values of their own."""

    done: bool = True
    own: tuple[str, ...] = ()


class ClusterApps:
    """Questions about the stores of both kinds, and the one edit that there is of them."""

    def __init__(self, informers: Informers, identities: Identities) -> None:
        self._informers = informers
        self._identities = identities
        self._stores: list[tuple[Resource[Any], Store[Any]]] = [
            (resource, informers.watch(resource, indexes=_INDEXES)) for resource in (APPS, RELEASES)
        ]

    def is_referenced(self, namespace: str, values: str) -> bool:
        """Return True if an App names a ConfigMap or Secret of this name."""
        return any(
            store.take_snapshot().list_by_index("values", build_cluster_index_value(namespace, values))
            for _, store in self._stores
        )

    def subscribe(self, listener: Listener) -> None:
        """Call `listener` with each cluster whose answers may have changed."""

        def enqueue_clusters(_: ObjectKey, before: ValuesReader | None, after: ValuesReader | None) -> None:
            for app in filter(None, (before, after)):
                for cluster in self._iter_clusters(app):
                    listener(cluster)

        for _, store in self._stores:
            store.subscribe(enqueue_clusters)

    def _iter_clusters(self, app: ValuesReader) -> Iterator[ObjectKey]:
        namespace = app.metadata.namespace or ""
        if identity := (app.metadata.labels or {}).get(ID_LABEL):
            yield ObjectKey(namespace, identity)
        elif (app.requests_references or app.applied) and (
            owner := find_identity(app.metadata.name, self._identities(namespace))
        ):
            yield ObjectKey(namespace, owner)
        for item, name in app.reads:
            for suffix in list_values_names(""):
                if name.endswith(suffix):
                    yield ObjectKey(item, name.removesuffix(suffix))

    async def update_references(
        self, client: Client, cluster_key: ObjectKey, *, values: bool, own_names: bool = False
    ) -> InjectionResult:
        """Bring the references of a cluster's Apps to what is wanted. Raises ApiError.

        Only a field that is empty is written; one that Transom wrote is taken out when the App no longer asks. `values`: there
        are values objects to refer to, `own_names` as in `build_values_name`.
        """
        namespace, identity = cluster_key.namespace or "", cluster_key.name
        done, own = True, []
        for resource, store in self._stores:
            wanted = build_reference_fields(resource.kind, identity, namespace, own_name=own_names)
            for app in self._list_apps(store, namespace, identity):
                if not app.requests_references:
                    names: set[str] = set()
                elif values:
                    names = {name for name in wanted if name not in app.fields or name in app.applied}
                else:
                    continue
                if names != app.applied or any(app.fields.get(name) != wanted[name] for name in names):
                    done &= await self._apply(client, resource, app, {name: wanted[name] for name in sorted(names)})
                kept = [
                    name
                    for name in wanted
                    if app.requests_references and name not in names and not _contains_value(app.fields[name], wanted[name])
                ]
                own += [f"{resource.kind} {app.metadata.namespace}/{app.metadata.name} ({name})" for name in kept]
        return InjectionResult(done, tuple(own))

    def _list_apps(self, store: Store[Any], namespace: str, cluster_id: str) -> list[ValuesReader]:
        snapshot = store.take_snapshot()
        apps: list[ValuesReader] = snapshot.list_by_index("cluster", build_cluster_index_value(namespace, cluster_id))
        if loose := snapshot.list_by_index("loose", namespace):
            identities = self._identities(namespace)
            apps += [app for app in loose if find_identity(app.metadata.name, identities) == cluster_id]
        return apps

    async def _apply(self, client: Client, resource: Resource[Any], app: ValuesReader, fields: dict[str, Any]) -> bool:
        served = self._informers.get_served_resource(resource)
        if served is None:
            return True
        meta = app.metadata
        value: dict[str, Any] = {
            "apiVersion": served.api_version,
            "kind": served.kind,
            "metadata": {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid},
        }
        if fields:
            value["spec"] = build_spec(served.kind, fields)
        try:
            await client.apply(served, value, meta.name, meta.namespace, force=False)
        except NotFound:
            return True
        except Conflict:
            # another owner took the field in the meantime: it is theirs
            return False
        return True


def _contains_value(field: Any, wanted: Any) -> bool:
    """Return True if a field that has other owners has the desired value; of a list, among other items."""
    return all(item in field for item in wanted) if isinstance(wanted, list) else bool(field == wanted)
