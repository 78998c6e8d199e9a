"""Everything that the settings of the own cluster are made of: one store for each kind, kept like the server by a reflector."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from transom.kube.client import Client
from transom.kube.errors import NotFound
from transom.kube.objects import T, Whole
from transom.kube.reflector import PACE, Pace, Reflector
from transom.kube.resources import (
    CONFIG_MAPS,
    DEFINITIONS,
    EGRESS_PROXIES,
    OPENSHIFT_INFRASTRUCTURES,
    OPENSHIFT_NETWORKS,
    OPENSHIFT_PROXIES,
    SECRETS,
    SERVICE_CIDRS,
    Resource,
)
from transom.kube.store import IndexFunction, Name, Store
from transom.proxy.layers import OPENSHIFT_BUNDLE, OPENSHIFT_CONFIG, OPENSHIFT_MANAGED
from transom.sources.objects import ObjectReader, Objects


class WatchedSettings:
    """What the settings of the own cluster are made of: stores, filled by `run`.

    `synced` once each of them has been filled for the first time. What else is to be seen is asked for by `watch` before `run`.
    """

    def __init__(self, client: Client, namespace: str, pace: Pace = PACE) -> None:
        self._client = client
        self._pace = pace
        self.namespace = namespace
        self.reflectors: list[Reflector[Any]] = []
        self.kinds: list[str] = []
        """What each of the reflectors follows."""
        self._stores: dict[tuple[Resource[Any], str | None, str, str], Store[Any]] = {}
        self._settings: list[tuple[Resource[Whole], Store[Whole]]] = []
        self.secrets = self._watch_settings(SECRETS, namespace)
        self.config_maps = self._watch_settings(CONFIG_MAPS, namespace)
        self._egress_proxies_reflector = len(self.reflectors)
        self.egress_proxies = self._watch_settings(EGRESS_PROXIES)
        self._watch_settings(CONFIG_MAPS, OPENSHIFT_CONFIG)
        self._watch_settings(CONFIG_MAPS, OPENSHIFT_MANAGED, f"metadata.name={OPENSHIFT_BUNDLE}")
        self._watch_settings(CONFIG_MAPS, "kube-system", "metadata.name=kubeadm-config")
        self._watch_settings(CONFIG_MAPS, "kube-public", "metadata.name=cluster-info")
        self._openshift_proxies = self._watch_settings(OPENSHIFT_PROXIES)
        for resource in (OPENSHIFT_NETWORKS, OPENSHIFT_INFRASTRUCTURES, SERVICE_CIDRS):
            self._watch_settings(resource)

    def watch(
        self,
        resource: Resource[T],
        namespace: str | None = None,
        fields: str = "",
        *,
        labels: str = "",
        indexes: Mapping[str, IndexFunction[T]] | None = None,
    ) -> Store[T]:
        """A store that `run` will keep like the server; empty while the server does not have the kind.

        Who asks for the same gets the same store, with the indexes of both. Of a kind that there are many of, `resource.type`
        declares only what is read. `fields` and `labels` are selectors as in the API.
        """
        wanted = (resource, namespace, fields, labels)
        store: Store[T] | None = self._stores.get(wanted)
        if store is not None:
            store.add_indexes(indexes or {})
            return store
        store = self._stores[wanted] = Store(indexes)
        pace = self._pace
        reflector = Reflector(self._client, resource, store, namespace=namespace, labels=labels, fields=fields, pace=pace)
        self.reflectors.append(reflector)
        self.kinds.append(resource.kind)
        return store

    async def run(self) -> None:
        """Follow the server until cancelled."""
        async with asyncio.TaskGroup() as group:
            for reflector in self.reflectors:
                group.create_task(reflector.run())

    async def wait_synced(self) -> None:
        """Wait until every store has been filled."""
        for reflector in self.reflectors:
            await reflector.synced.wait()

    @property
    def synced(self) -> bool:
        """Whether every store has been filled."""
        return all(reflector.synced.is_set() for reflector in self.reflectors)

    @property
    def settings_known(self) -> bool:
        """Whether the server has the kind EgressProxy: without it nobody can say that there is no proxy."""
        return self.reflectors[self._egress_proxies_reflector].present

    @property
    def openshift_proxy(self) -> Whole | None:
        """OpenShift's `Proxy/cluster`, where it is there: it is the base of the settings then."""
        return self._openshift_proxies.snapshot().get("cluster")

    async def settings_definition_stands(self) -> bool:
        """Whether the kind EgressProxy is there to stay, as the server says now. Raises ApiError."""
        try:
            found = await self._client.get(DEFINITIONS, f"{EGRESS_PROXIES.plural}.{EGRESS_PROXIES.group}")
        except NotFound:
            return False
        return found.metadata.deletion_timestamp is None

    def on_settings(self, changed: Callable[[], None]) -> None:
        """Call `changed` after each change of an object that settings are made of."""

        def object_changed(_: Name, before: Whole | None, after: Whole | None) -> None:
            # our own word in the status of an EgressProxy is no setting
            if (
                before is None
                or after is None
                or _spec_version(before) is None
                or _spec_version(before) != _spec_version(after)
            ):
                changed()

        for _, store in self._settings:
            store.subscribe(object_changed)

    def objects(self) -> Objects:
        """What the settings are made of, as it is now; without instances."""
        return self._read().objects()

    def served(self, resource: Resource[T]) -> Resource[T] | None:
        """A kind that is followed, in the version that it is followed in; None while the server does not have it."""
        for (asked, *_), reflector in zip(self._stores, self.reflectors, strict=True):
            if asked is resource:
                return reflector.resource if reflector.present else None
        raise ValueError(f"{resource.plural} are not followed")

    def _read(self) -> ObjectReader:
        reader = ObjectReader(self.namespace)
        for resource, store in self._settings:
            for held in store.snapshot():
                reader.add(complete(resource, held.value), "", nowhere)
        return reader

    def _watch_settings(self, resource: Resource[Whole], namespace: str | None = None, fields: str = "") -> Store[Whole]:
        store = self.watch(resource, namespace, fields)
        self._settings.append((resource, store))
        return store


def complete(resource: Resource[Any], value: dict[str, Any]) -> dict[str, Any]:
    """The items of a list leave their kind out."""
    return {"apiVersion": resource.api_version, "kind": resource.kind, **value}


def nowhere(_: object) -> tuple[int, int]:
    """The line and column of what stands in no file."""
    return 0, 0


def _spec_version(held: Whole) -> tuple[str | None, int] | None:
    """What stands for all but the status of an object; None where the server does not count its generations."""
    ours = held.value.get("apiVersion") == EGRESS_PROXIES.api_version
    return (held.metadata.uid, held.metadata.generation) if ours and held.metadata.generation is not None else None
