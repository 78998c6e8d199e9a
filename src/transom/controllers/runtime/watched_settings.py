"""Everything that the settings of the own cluster are made of: one store for each kind, kept like the server by a reflector."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from transom.kube import resources
from transom.kube.client import Client
from transom.kube.decoding import MalformedObject
from transom.kube.errors import NotFound
from transom.kube.memory_limits import get_memory_limit
from transom.kube.objects import T, UnstructuredObject
from transom.kube.reflector import PACE, Reflector, ReflectorTimings
from transom.kube.store import IndexFunction, ObjectKey, Store
from transom.proxy.layers import OPENSHIFT_BUNDLE, OPENSHIFT_CONFIG, OPENSHIFT_MANAGED
from transom.sources.objects import ObjectReader, Objects


class SettingsInformers:
    """What the settings of the own cluster are made of: stores, filled by `run`.

    `synced` once each of them has been filled for the first time. Request other kinds with `watch` before `run`.
    """

    def __init__(self, client: Client, namespace: str, pace: ReflectorTimings = PACE) -> None:
        self._client = client
        self._pace = pace
        self.namespace = namespace
        self._list_again = asyncio.Event()
        self._recordings: list[set[int]] = []
        self.required: int | None = None
        """How many of the first kinds the settings wait for; None: all. Others are waited for by who uses them."""
        self.reflectors: list[Reflector[Any]] = []
        self._first: dict[int, Reflector[Any]] = {}
        """By the identity of a kind, the first of those that follow it."""
        self.kinds: list[str] = []
        """What each of the reflectors follows."""
        self.on_malformed: Callable[[str, MalformedObject], None] = lambda _, __: None
        """Called with the kind and the errors of each invalid object of it."""
        self._stores: dict[tuple[resources.Resource[Any], str | None, str, str], Store[Any]] = {}
        self._settings: list[tuple[resources.Resource[UnstructuredObject], Store[UnstructuredObject]]] = []
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
        granted_with: str = "",
    ) -> Store[T]:
        """Return a store that `run` will keep like the server; empty while the server does not have the kind.

        Callers with the same arguments share a store, with the indexes of all. Of a kind with many objects, `resource.type`
        declares only what is read. `fields` and `labels` are selectors as in the API. `optional`: Transom may lack the
        right to read it; it is empty then, and the rest continues. `granted_with`: the API group without which the roles
        do not grant that right.
        """
        wanted = (resource, namespace, fields, labels)
        store: Store[T] | None = self._stores.get(wanted)
        if store is not None:
            self.record_use((list(self._stores).index(wanted),))
            store.add_indexes(indexes or {})
            return store
        store = self._stores[wanted] = Store(indexes, get_memory_limit(resource))
        reflector = Reflector(
            self._client,
            resource,
            store,
            namespace=namespace,
            labels=labels,
            fields=fields,
            timings=self._pace,
            on_malformed=lambda malformed: self.on_malformed(resource.kind, malformed),
            optional=optional,
            granted_with=granted_with,
        )
        self.record_use((len(self.reflectors),))
        self.reflectors.append(reflector)
        self._first.setdefault(id(resource), reflector)
        self.kinds.append(resource.kind)
        return store

    @contextmanager
    def record_kinds(self) -> Iterator[set[int]]:
        """Yield a set that gets the place in `reflectors` of each kind that is requested until the end of the block."""
        used: set[int] = set()
        self._recordings.append(used)
        try:
            yield used
        finally:
            # blocks end in the order in which they are nested; equal sets are not the same
            self._recordings.pop()

    def record_use(self, kinds: Iterable[int]) -> None:
        """Note that what is being made uses these kinds."""
        for used in self._recordings:
            used.update(kinds)

    def iter_malformed(self) -> Iterator[tuple[str, MalformedObject]]:
        """By kind, the errors of each object that was only partly read."""
        for kind, store in zip(self.kinds, self._stores.values(), strict=True):
            for item in store.malformed.values():
                yield kind, item

    async def run(self) -> None:
        """Follow the server until cancelled."""
        while True:
            self._list_again.clear()
            async with asyncio.TaskGroup() as group:
                following = [group.create_task(reflector.run()) for reflector in self.reflectors]
                await self._list_again.wait()
                for task in following:
                    task.cancel()
            for reflector in self.reflectors:
                reflector.forget_resource_version()

    def restart_listing(self) -> None:
        """List everything again, whatever was seen: the server's objects are those of another time."""
        self._list_again.set()

    def retry_refused(self) -> None:
        """Ask again at once for each kind that the server refused."""
        for reflector in self.reflectors:
            if reflector.refusal:
                reflector.retry()

    async def wait_synced(self) -> None:
        """Wait until every store that the settings require has been filled."""
        for reflector in self.reflectors[: self.required]:
            await reflector.synced.wait()

    @property
    def synced(self) -> bool:
        """Whether every store has been filled."""
        return all(reflector.synced.is_set() for reflector in self.reflectors)

    def list_unread_kinds(self) -> list[str]:
        """Return each kind that was not read yet, with the reason."""
        unread = []
        for kind, wanted, reflector in zip(self.kinds, self._stores, self.reflectors, strict=True):
            if not reflector.synced.is_set():
                place = f" in {wanted[1]}" if wanted[1] else ""
                unread.append(f"{kind}{place}" + (f": {reflector.error}" if reflector.error else ""))
        return list(dict.fromkeys(unread))

    @property
    def is_settings_kind_served(self) -> bool:
        """Whether the server has the kind EgressProxy: without it, "no proxy" cannot be concluded."""
        return self.reflectors[self._egress_proxies_reflector].present

    @property
    def openshift_proxies(self) -> Store[UnstructuredObject]:
        """OpenShift's proxies: there is one, `cluster`."""
        return self._openshift_proxies

    @property
    def openshift_proxy(self) -> UnstructuredObject | None:
        """OpenShift's `Proxy/cluster`, if it exists: it is the base of the settings then."""
        return self._openshift_proxies.take_snapshot().find_named("cluster")

    async def is_settings_kind_permanent(self) -> bool:
        """Return True if the server has the kind EgressProxy and does not delete it now. Raises ApiError."""
        try:
            definition = await self._client.get(
                resources.DEFINITIONS, f"{resources.EGRESS_PROXIES.plural}.{resources.EGRESS_PROXIES.group}"
            )
        except NotFound:
            return False
        return definition.metadata.deletion_timestamp is None

    async def is_namespace_permanent(self) -> bool:
        """Return True if Transom's namespace exists and is not being deleted. Raises ApiError."""
        try:
            live_namespace = await self._client.get(resources.NAMESPACES, self.namespace)
        except NotFound:
            return False
        return live_namespace.metadata.deletion_timestamp is None

    def subscribe_to_settings(self, on_change: Callable[[], None]) -> None:
        """Call `on_change` after each change of an object that settings are made of."""

        def on_object_change(_: ObjectKey, before: UnstructuredObject | None, after: UnstructuredObject | None) -> None:
            # our own word in the status of an EgressProxy is no setting
            if (
                before is None
                or after is None
                or _get_spec_version(before) is None
                or _get_spec_version(before) != _get_spec_version(after)
            ):
                on_change()

        for _, store in self._settings:
            store.subscribe(on_object_change)

    def get_objects(self) -> Objects:
        """Return the current objects that make up the settings, without instances."""
        return self._create_reader().build_objects()

    def get_served_resource(self, resource: resources.Resource[T]) -> resources.Resource[T] | None:
        """Return a watched kind in the version that is watched; None while the server does not serve it."""
        # asked in each pass, of dozens of kinds
        reflector = self._first.get(id(resource))
        if reflector is None:
            raise ValueError(f"{resource.plural} are not followed")
        return reflector.resource if reflector.present else None

    def _create_reader(self) -> ObjectReader:
        reader = ObjectReader(self.namespace)
        for resource, store in self._settings:
            for cached in store.take_snapshot():
                reader.add(add_kind(resource, cached.value), "", get_no_position)
        return reader

    def _watch_settings(
        self, resource: resources.Resource[UnstructuredObject], namespace: str | None = None, fields: str = ""
    ) -> Store[UnstructuredObject]:
        store = self.watch(resource, namespace, fields)
        self._settings.append((resource, store))
        return store


def add_kind(resource: resources.Resource[Any], value: dict[str, Any]) -> dict[str, Any]:
    """Add the kind that items of a list omit."""
    return {"apiVersion": resource.api_version, "kind": resource.kind, **value}


def get_no_position(_: object) -> tuple[int, int]:
    """Return the line and column of an object that is not from a file."""
    return 0, 0


def _get_spec_version(cached: UnstructuredObject) -> tuple[str | None, int] | None:
    """Return a version of everything but an object's status; None if the server does not count its generations."""
    ours = cached.value.get("apiVersion") == resources.EGRESS_PROXIES.api_version
    return (cached.metadata.uid, cached.metadata.generation) if ours and cached.metadata.generation is not None else None
