"""The Apps and HelmReleases of workload clusters: who reads the values objects, and references for those that ask.

An App that is asked of no cluster by its label belongs to the one whose id its name begins with, among those of its namespace.
"""

from collections.abc import Callable, Collection, Iterator
from typing import Any, Final

import msgspec

from transom.capi.identity import ID_LABEL, values_names
from transom.capi.values import fields_for, identity_for, in_spec
from transom.controllers.clusters.app_kinds import APPS, RELEASES, ValuesReader
from transom.controllers.runtime.informers import Informers
from transom.kube import Conflict, NotFound
from transom.kube.client import Client
from transom.kube.resources import Resource
from transom.kube.store import IndexFunction, ObjectKey, Store

Identities = Callable[[str], Collection[str]]
"""The ids of the clusters of a namespace."""
Listener = Callable[[ObjectKey], None]
"""Told of a cluster, as (namespace, id)."""


def place_of(namespace: str | None, identity: str) -> str:
    """The value of the indexes: a namespace, and an id or a name."""
    return f"{namespace or ''}/{identity}"


def _by_cluster(app: ValuesReader) -> Iterator[str]:
    if identity := (app.metadata.labels or {}).get(ID_LABEL):
        yield place_of(app.metadata.namespace, identity)


def _without_cluster(app: ValuesReader) -> Iterator[str]:
    """The namespace of one that asks, or was given something, and names no cluster: its name tells."""
    if (app.asks or app.applied) and not (app.metadata.labels or {}).get(ID_LABEL):
        yield app.metadata.namespace or ""


def _by_values(app: ValuesReader) -> Iterator[str]:
    for namespace, name in app.reads:
        yield place_of(namespace, name)


_INDEXES: Final[dict[str, IndexFunction[Any]]] = {"cluster": _by_cluster, "loose": _without_cluster, "values": _by_values}


class Injected(msgspec.Struct, frozen=True):
    """What came of a cluster's Apps. `done`: each is as it should be. `own`: those that ask, and have values of their own."""

    done: bool = True
    own: tuple[str, ...] = ()


class Apps:
    """Questions about the stores of both kinds, and the one edit that there is of them."""

    def __init__(self, informers: Informers, identities: Identities) -> None:
        self._informers = informers
        self._identities = identities
        self._stores: list[tuple[Resource[Any], Store[Any]]] = [
            (resource, informers.watch(resource, indexes=_INDEXES)) for resource in (APPS, RELEASES)
        ]

    def read(self, namespace: str, values: str) -> bool:
        """Whether anyone names a ConfigMap or Secret of that name."""
        return any(store.snapshot().by("values", place_of(namespace, values)) for _, store in self._stores)

    def subscribe(self, listener: Listener) -> None:
        """Call `listener` with each cluster whose answers may have changed."""

        def changed(_: ObjectKey, before: ValuesReader | None, after: ValuesReader | None) -> None:
            for app in filter(None, (before, after)):
                for cluster in self._clusters_of(app):
                    listener(cluster)

        for _, store in self._stores:
            store.subscribe(changed)

    def _clusters_of(self, app: ValuesReader) -> Iterator[ObjectKey]:
        namespace = app.metadata.namespace or ""
        if identity := (app.metadata.labels or {}).get(ID_LABEL):
            yield ObjectKey(namespace, identity)
        elif (app.asks or app.applied) and (owner := identity_for(app.metadata.name, self._identities(namespace))):
            yield ObjectKey(namespace, owner)
        for there, name in app.reads:
            for suffix in values_names(""):
                if name.endswith(suffix):
                    yield ObjectKey(there, name.removesuffix(suffix))

    async def inject(self, client: Client, place: ObjectKey, *, values: bool, own_names: bool = False) -> Injected:
        """Bring the references of a cluster's Apps to what is wanted. Raises ApiError.

        Only a field that is empty is written; one that Transom wrote is taken out when the App no longer asks. `values`: there
        are values objects to refer to, `own_names` as in `values_name`.
        """
        namespace, identity = place.namespace or "", place.name
        done, own = True, []
        for resource, store in self._stores:
            wanted = fields_for(resource.kind, identity, namespace, own=own_names)
            for app in self._of_cluster(store, namespace, identity):
                if not app.asks:
                    names: set[str] = set()
                elif values:
                    names = {name for name in wanted if name not in app.fields or name in app.applied}
                else:
                    continue
                if names != app.applied or any(app.fields.get(name) != wanted[name] for name in names):
                    done &= await self._apply(client, resource, app, {name: wanted[name] for name in sorted(names)})
                kept = [
                    name for name in wanted if app.asks and name not in names and not _holds(app.fields[name], wanted[name])
                ]
                own += [f"{resource.kind} {app.metadata.namespace}/{app.metadata.name} ({name})" for name in kept]
        return Injected(done, tuple(own))

    def _of_cluster(self, store: Store[Any], namespace: str, identity: str) -> list[ValuesReader]:
        snapshot = store.snapshot()
        found: list[ValuesReader] = snapshot.by("cluster", place_of(namespace, identity))
        if loose := snapshot.by("loose", namespace):
            identities = self._identities(namespace)
            found += [app for app in loose if identity_for(app.metadata.name, identities) == identity]
        return found

    async def _apply(self, client: Client, resource: Resource[Any], app: ValuesReader, fields: dict[str, Any]) -> bool:
        served = self._informers.served(resource)
        if served is None:
            return True
        meta = app.metadata
        value: dict[str, Any] = {
            "apiVersion": served.api_version,
            "kind": served.kind,
            "metadata": {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid},
        }
        if fields:
            value["spec"] = in_spec(served.kind, fields)
        try:
            await client.server_side_apply(served, value, meta.name, meta.namespace, force=False)
        except NotFound:
            return True
        except Conflict:
            # another owner took the field in the meantime: it is theirs
            return False
        return True


def _holds(field: Any, wanted: Any) -> bool:
    """Whether a field that somebody else wrote has what is wanted: of a list, among other items."""
    return all(one in field for one in wanted) if isinstance(wanted, list) else bool(field == wanted)
