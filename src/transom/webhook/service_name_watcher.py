"""The names of the Services of each namespace, followed only while the settings give them to pods."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from transom.kube.client import Client
from transom.kube.memory_limits import get_memory_limit
from transom.kube.objects import Projected
from transom.kube.reflector import PACE, Reflector, ReflectorTimings
from transom.kube.resources import Resource
from transom.kube.store import ObjectKey, Store
from transom.pods.namespace_services import EXTERNAL_NAME


class _ServiceMeta(Projected, frozen=True):
    name: str = ""
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None


class _ServiceType(Projected, frozen=True):
    type: str | None = None


class NamedService(Projected, frozen=True):
    """A Service, of which there can be thousands: its name and type."""

    metadata: _ServiceMeta = _ServiceMeta()
    spec: _ServiceType | None = None

    @property
    def is_external_name(self) -> bool:
        """Whether its name leads to a foreign host."""
        return self.spec is not None and self.spec.type == EXTERNAL_NAME


NAMED_SERVICES: Final = Resource("", "v1", "Service", "services", True, NamedService)


class ServiceNameWatcher:
    """Reads and watches the Services of all namespaces while they are needed. `run` works until it is cancelled."""

    def __init__(
        self, client: Client, changed: Callable[[str], None], decided: Callable[[], None], timings: ReflectorTimings = PACE
    ) -> None:
        """Follow nothing yet.

        `changed` is called with a namespace whose names changed, `decided` once all are read, or reading them is refused.
        """
        self._client = client
        self._changed = changed
        self._on_decided = decided
        self._pace = timings
        self._needed = False
        self._wake = asyncio.Event()
        self._names: dict[str, set[str]] = {}
        self._store, self.reflector = self._build_store_and_reflector()

    @property
    def decided(self) -> bool:
        """Whether the Services are read, or may not be read."""
        return self.reflector.decided.is_set()

    @property
    def fault(self) -> str:
        """Why names are missing: they could not be read even once, or there are too many; empty where all are known."""
        if not self.reflector.synced.is_set():
            return self.reflector.refusal
        return "the cluster has more Services than the admission server keeps" if self._store.lacks_room else ""

    def list_unread_kinds(self) -> list[str]:
        """Return the kind while it is needed and not read yet."""
        return ["Service"] if self._needed and not self.decided else []

    def list_names(self, namespace: str) -> frozenset[str]:
        """Return the names of a namespace's Services, without those that lead to a foreign host."""
        return frozenset(self._names.get(namespace, ()))

    def set_watch_needed(self, *, needed: bool) -> None:
        """Begin or end to follow them."""
        if needed != self._needed:
            self._needed = needed
            self._wake.set()

    def restart_listing(self) -> None:
        """List everything again: the server's objects are those of another time."""
        self._wake.set()

    async def run(self) -> None:
        """Follow while they are needed."""
        while True:
            self._wake.clear()
            if not self._needed:
                self._names.clear()
                self._store, self.reflector = self._build_store_and_reflector()
                await self._wake.wait()
                continue
            self.reflector.forget_resource_version()
            async with asyncio.TaskGroup() as group:
                following = group.create_task(self.reflector.run())
                waiting = group.create_task(self._notify_when_decided())
                await self._wake.wait()
                following.cancel()
                waiting.cancel()

    async def _notify_when_decided(self) -> None:
        await self.reflector.decided.wait()
        self._on_decided()

    def _build_store_and_reflector(self) -> tuple[Store[NamedService], Reflector[Any]]:
        store: Store[NamedService] = Store(memory_limit=get_memory_limit(NAMED_SERVICES))
        store.subscribe(self._on_change)
        return store, Reflector(self._client, NAMED_SERVICES, store, timings=self._pace)

    def _on_change(self, key: ObjectKey, before: NamedService | None, after: NamedService | None) -> None:
        namespace = key.namespace or ""
        names = self._names.setdefault(namespace, set())
        count = len(names)
        if after is None or after.is_external_name:
            names.discard(key.name)
        else:
            names.add(key.name)
        if not names:
            del self._names[namespace]
        if len(names) != count:
            self._changed(namespace)
