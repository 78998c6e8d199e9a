"""Everything that the settings of the own cluster are made of: one store for each kind, kept like the server by a reflector."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from transom.kube import NotFound, resources
from transom.kube.client import Client
from transom.kube.objects import T, Whole
from transom.kube.reading import Malformed
from transom.kube.reflector import PACE, Reflector, ReflectorPace
from transom.kube.store import IndexFunction, ObjectKey, Store
from transom.proxy.layers import OPENSHIFT_BUNDLE, OPENSHIFT_CONFIG, OPENSHIFT_MANAGED
from transom.sources.objects import ObjectReader, Objects


class SettingsInformers:
    """What the settings of the own cluster are made of: stores, filled by `run`.

    `synced` once each of them has been filled for the first time. What else is to be seen is asked for by `watch` before `run`.
    """

    def __init__(self, client: Client, namespace: str, pace: ReflectorPace = PACE) -> None:
        self._client = client
        self._pace = pace
        self.namespace = namespace
        self.reflectors: list[Reflector[Any]] = []
        self._first: dict[int, Reflector[Any]] = {}
        """By the identity of a kind, the first of those that follow it."""
        self.kinds: list[str] = []
        """What each of the reflectors follows."""
        self.on_malformed: Callable[[str, Malformed], None] = lambda _, __: None
        """Called with the kind and what does not fit of an object of it, each time that one comes."""
        self._stores: dict[tuple[resources.Resource[Any], str | None, str, str], Store[Any]] = {}
        self._settings: list[tuple[resources.Resource[Whole], Store[Whole]]] = []
        self.secrets = self._watch_settings(resources.SECRETS, namespace)
        self.config_maps = self._watch_settings(resources.CONFIG_MAPS, namespace)
        self._egress_proxies_reflector = len(self.reflectors)
        self.egress_proxies = self._watch_settings(resources.EGRESS_PROXIES)
        self._watch_settings(resources.CONFIG_MAPS, OPENSHIFT_CONFIG)
        self._watch_settings(resources.CONFIG_MAPS, OPENSHIFT_MANAGED, f"metadata.name={OPENSHIFT_BUNDLE}")
        self._watch_settings(resources.CONFIG_MAPS, "kube-system", "metadata.name=kubeadm-config")
        self._watch_settings(resources.CONFIG_MAPS, "kube-public", "metadata.name=cluster-info")
        self._openshift_proxies = self._watch_settings(resources.OPENSHIFT_PROXIES)
        for resource in (resources.OPENSHIFT_NETWORKS, resources.OPENSHIFT_INFRASTRUCTURES, resources.SERVICE_CIDRS):
            self._watch_settings(resource)

    def watch(
        self,
        resource: resources.Resource[T],
        namespace: str | None = None,
        fields: str = "",
        *,
        labels: str = "",
        indexes: Mapping[str, IndexFunction[T]] | None = None,
        optional: bool = False,
    ) -> Store[T]:
        """A store that `run` will keep like the server; empty while the server does not have the kind.

        Who asks for the same gets the same store, with the indexes of both. Of a kind that there are many of, `resource.type`
        declares only what is read. `fields` and `labels` are selectors as in the API. `optional`: perhaps nobody gave the
        right to see it; it is empty then, and the rest goes on.
        """
        wanted = (resource, namespace, fields, labels)
        store: Store[T] | None = self._stores.get(wanted)
        if store is not None:
            store.add_indexes(indexes or {})
            return store
        store = self._stores[wanted] = Store(indexes)
        reflector = Reflector(
            self._client,
            resource,
            store,
            namespace=namespace,
            labels=labels,
            fields=fields,
            pace=self._pace,
            on_malformed=lambda malformed: self.on_malformed(resource.kind, malformed),
            optional=optional,
        )
        self.reflectors.append(reflector)
        self._first.setdefault(id(resource), reflector)
        self.kinds.append(resource.kind)
        return store

    def malformed(self) -> Iterator[tuple[str, Malformed]]:
        """By kind, what does not fit of each object of which not everything was read."""
        for kind, store in zip(self.kinds, self._stores.values(), strict=True):
            for one in store.malformed.values():
                yield kind, one

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
    def openshift_proxies(self) -> Store[Whole]:
        """OpenShift's proxies: there is one, `cluster`."""
        return self._openshift_proxies

    @property
    def openshift_proxy(self) -> Whole | None:
        """OpenShift's `Proxy/cluster`, where it is there: it is the base of the settings then."""
        return self._openshift_proxies.snapshot().named("cluster")

    async def settings_definition_stands(self) -> bool:
        """Whether the kind EgressProxy is there to stay, as the server says now. Raises ApiError."""
        try:
            found = await self._client.get(
                resources.DEFINITIONS, f"{resources.EGRESS_PROXIES.plural}.{resources.EGRESS_PROXIES.group}"
            )
        except NotFound:
            return False
        return found.metadata.deletion_timestamp is None

    async def namespace_stands(self) -> bool:
        """Whether Transom's namespace is there to stay, as the server says now. Raises ApiError."""
        try:
            found = await self._client.get(resources.NAMESPACES, self.namespace)
        except NotFound:
            return False
        return found.metadata.deletion_timestamp is None

    def on_settings(self, changed: Callable[[], None]) -> None:
        """Call `changed` after each change of an object that settings are made of."""

        def object_changed(_: ObjectKey, before: Whole | None, after: Whole | None) -> None:
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

    def served(self, resource: resources.Resource[T]) -> resources.Resource[T] | None:
        """A kind that is followed, in the version that it is followed in; None while the server does not have it."""
        # asked in each pass, of dozens of kinds
        reflector = self._first.get(id(resource))
        if reflector is None:
            raise ValueError(f"{resource.plural} are not followed")
        return reflector.resource if reflector.present else None

    def _read(self) -> ObjectReader:
        reader = ObjectReader(self.namespace)
        for resource, store in self._settings:
            for cached in store.snapshot():
                reader.add(complete(resource, cached.value), "", nowhere)
        return reader

    def _watch_settings(
        self, resource: resources.Resource[Whole], namespace: str | None = None, fields: str = ""
    ) -> Store[Whole]:
        store = self.watch(resource, namespace, fields)
        self._settings.append((resource, store))
        return store


def complete(resource: resources.Resource[Any], value: dict[str, Any]) -> dict[str, Any]:
    """The items of a list leave their kind out."""
    return {"apiVersion": resource.api_version, "kind": resource.kind, **value}


def nowhere(_: object) -> tuple[int, int]:
    """The line and column of what stands in no file."""
    return 0, 0


def _spec_version(cached: Whole) -> tuple[str | None, int] | None:
    """What stands for all but the status of an object; None where the server does not count its generations."""
    ours = cached.value.get("apiVersion") == resources.EGRESS_PROXIES.api_version
    return (cached.metadata.uid, cached.metadata.generation) if ours and cached.metadata.generation is not None else None
