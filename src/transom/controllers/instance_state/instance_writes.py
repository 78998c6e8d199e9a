"""What is written on a WindowsInstance: its status, and its finalizer, which is put on before anything is written to the host.

It is removed when the host was restored. If Transom's namespace or the CRD is deleted, this is not a request to restore
hosts: they stay unchanged. Every finalizer is removed then, since the deletion would never end once
the operator is gone.
"""

import contextlib
from collections.abc import Callable
from typing import Any, Final

import msgspec

from transom.controllers.runtime.cached_objects import INSTANCES, CachedInstance
from transom.controllers.runtime.controller import Leadership
from transom.controllers.runtime.informers import Informers
from transom.kube.client import FIELD_MANAGER
from transom.kube.errors import NotFound
from transom.kube.objects import Metadata
from transom.kube.resources import DEFINITIONS, NAMESPACES
from transom.kube.store import ObjectKey, Store
from transom.windows.nodes.windows_instance import WindowsInstanceStatus

FINALIZER: Final = "transom.dev/host"


def has_finalizer(cached: CachedInstance) -> bool:
    """Return True if Transom's finalizer is on an instance."""
    return FINALIZER in (cached.metadata.finalizers or ())


class Finalizers:
    """Adds and removes them, and knows when all of them must be removed."""

    def __init__(self, informers: Informers) -> None:
        self._informers = informers
        # content of a namespace is deleted 5 s after the namespace (Kubernetes, pkg/controller/namespace): there is time
        self._taken = InstanceUids(informers.windows_instances)
        """Instances without it, of which the store still has the previous version."""
        self._namespaces = informers.watch(NAMESPACES, fields=f"metadata.name={informers.namespace}")

    def subscribe(self, enqueue: Callable[[ObjectKey], None]) -> None:
        """Have every instance with a finalizer asked for when the namespace is deleted."""

        def on_change(_: ObjectKey, before: Metadata | None, after: Metadata | None) -> None:
            if self.is_namespace_deleted:
                for cached in self._informers.windows_instances.take_snapshot():
                    if has_finalizer(cached):
                        enqueue(cached.key)

        self._namespaces.subscribe(on_change)

    @property
    def is_namespace_deleted(self) -> bool:
        """Whether Transom's namespace is being deleted."""
        namespace = self._namespaces.take_snapshot().find_named(self._informers.namespace)
        return namespace is not None and namespace.metadata.deletion_timestamp is not None

    async def find_deleted_parent(self, leadership: Leadership) -> str | None:
        """Return what is being deleted with all instances in it; None if only an instance is. Raises ApiError."""
        if self.is_namespace_deleted:
            return f"namespace {self._informers.namespace} is being deleted"
        name = f"{INSTANCES.plural}.{INSTANCES.group}"
        try:
            definition = await leadership.client.get(DEFINITIONS, name)
        except NotFound:
            return f"the definition {name} is deleted"
        return f"the definition {name} is being deleted" if definition.metadata.deletion_timestamp is not None else None

    async def add(self, cached: CachedInstance, leadership: Leadership) -> CachedInstance:
        """Return the instance with the finalizer. Raises ApiError: then nothing may be written to its host."""
        return await self._set(cached, [*(cached.metadata.finalizers or ()), FINALIZER], leadership)

    async def remove_finalizer(self, cached: CachedInstance, leadership: Leadership) -> None:
        """Take the finalizer off; others' stay. Raises ApiError: Conflict where `cached` is not the latest version."""
        left = [finalizer for finalizer in cached.metadata.finalizers or () if finalizer != FINALIZER]
        with contextlib.suppress(NotFound):
            await self._set(cached, left, leadership)
        self._taken.add(cached)

    def was_removed(self, cached: CachedInstance) -> bool:
        """Return True if this process removed the finalizer, even if the store does not have that yet."""
        return cached in self._taken

    @staticmethod
    async def _set(cached: CachedInstance, finalizers: list[str], leadership: Leadership) -> CachedInstance:
        meta = cached.metadata
        # the version keeps a finalizer that another client added meanwhile
        change = {"metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version, "finalizers": finalizers}}
        return await leadership.client.patch(INSTANCES, change, meta.name, meta.namespace)


class InstanceUids:
    """Forgets those that the store has no longer whenever one is added: a process lives longer than any instance."""

    def __init__(self, instances: Store[CachedInstance]) -> None:
        self._instances = instances
        self._noted = set[str | None]()

    def __contains__(self, cached: CachedInstance) -> bool:
        return cached.metadata.uid in self._noted

    def __len__(self) -> int:
        return len(self._noted)

    def add(self, cached: CachedInstance) -> None:
        """Note an instance."""
        self._noted &= {item.metadata.uid for item in self._instances.take_snapshot()}
        self._noted.add(cached.metadata.uid)


async def apply_status(
    cached: CachedInstance,
    wanted: WindowsInstanceStatus,
    leadership: Leadership,
    *,
    at_version: bool = False,
    manager: str = FIELD_MANAGER,
) -> CachedInstance:
    """Apply all that a field manager says; the instance as the server has it then.

    `at_version`: only if the version is the known one. Raises ApiError: NotFound where it is gone, Conflict where it is
    another.
    """
    meta = cached.metadata
    metadata: dict[str, Any] = {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid}
    if at_version:
        metadata["resourceVersion"] = meta.resource_version
    status = msgspec.to_builtins(wanted)
    value = {"apiVersion": INSTANCES.api_version, "kind": INSTANCES.kind, "metadata": metadata, "status": status}
    return await leadership.client.apply(INSTANCES, value, meta.name, meta.namespace, subresource="status", manager=manager)
