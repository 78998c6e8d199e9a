"""What is written on a WindowsInstance: its status, and its finalizer, which is put on before anything is written to the host.

It comes off when the host was given back. Where Transom's namespace or the definition of the kind is deleted, nobody has said
that hosts should go: they are left as they are. Every finalizer is taken off then, since the deletion would wait for ever once
the operator is gone.
"""

import contextlib
from collections.abc import Callable
from typing import Any, Final

import msgspec

from transom.controllers.runtime.cached import INSTANCES, CachedInstance
from transom.controllers.runtime.controller import Leadership
from transom.controllers.runtime.informers import Informers
from transom.kube import NotFound
from transom.kube.client import FIELD_MANAGER
from transom.kube.objects import Metadata
from transom.kube.resources import DEFINITIONS, NAMESPACES
from transom.kube.store import ObjectKey, Store
from transom.windows.nodes import WindowsInstanceStatus

FINALIZER: Final = "transom.dev/host"


def has_finalizer(cached: CachedInstance) -> bool:
    """Whether Transom has a word in the deletion of an instance."""
    return FINALIZER in (cached.metadata.finalizers or ())


class Finalizers:
    """Puts them on and takes them off, and knows when all of them have to go."""

    def __init__(self, informers: Informers) -> None:
        self._informers = informers
        # content of a namespace is deleted 5 s after the namespace (Kubernetes, pkg/controller/namespace): there is time
        self._taken = Uids(informers.windows_instances)
        """Instances that are without it now, and stand in the store as they were."""
        self._namespaces = informers.watch(NAMESPACES, fields=f"metadata.name={informers.namespace}")

    def subscribe(self, ask: Callable[[ObjectKey], None]) -> None:
        """Have every instance with a finalizer asked for when the namespace is deleted."""

        def changed(_: ObjectKey, before: Metadata | None, after: Metadata | None) -> None:
            if self.namespace_goes:
                for cached in self._informers.windows_instances.snapshot():
                    if has_finalizer(cached):
                        ask(cached.key)

        self._namespaces.subscribe(changed)

    @property
    def namespace_goes(self) -> bool:
        """Whether Transom's namespace is being deleted."""
        found = self._namespaces.snapshot().named(self._informers.namespace)
        return found is not None and found.metadata.deletion_timestamp is not None

    async def all_go(self, leadership: Leadership) -> str | None:
        """What is being deleted with every instance in it; None where one instance is. Raises ApiError."""
        if self.namespace_goes:
            return f"namespace {self._informers.namespace} is being deleted"
        name = f"{INSTANCES.plural}.{INSTANCES.group}"
        try:
            found = await leadership.client.get(DEFINITIONS, name)
        except NotFound:
            return f"the definition {name} is deleted"
        return f"the definition {name} is being deleted" if found.metadata.deletion_timestamp is not None else None

    async def put(self, cached: CachedInstance, leadership: Leadership) -> CachedInstance:
        """The instance with the finalizer. Raises ApiError: nothing may be written to its host then."""
        return await self._set(cached, [*(cached.metadata.finalizers or ()), FINALIZER], leadership)

    async def take(self, cached: CachedInstance, leadership: Leadership) -> None:
        """Take the finalizer off; others' stay. Raises ApiError: Conflict where `cached` is not the latest version."""
        left = [one for one in cached.metadata.finalizers or () if one != FINALIZER]
        with contextlib.suppress(NotFound):
            await self._set(cached, left, leadership)
        self._taken.add(cached)

    def was_taken(self, cached: CachedInstance) -> bool:
        """Whether this process took it off, even if the store does not say so yet."""
        return cached in self._taken

    @staticmethod
    async def _set(cached: CachedInstance, finalizers: list[str], leadership: Leadership) -> CachedInstance:
        meta = cached.metadata
        # the version keeps somebody else's finalizer that came meanwhile
        change = {"metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version, "finalizers": finalizers}}
        return await leadership.client.patch(INSTANCES, change, meta.name, meta.namespace)


class Uids:
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
        self._noted &= {one.metadata.uid for one in self._instances.snapshot()}
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

    `at_version`: upon the version that is known alone. Raises ApiError: NotFound where it is gone, Conflict where it is
    another.
    """
    meta = cached.metadata
    metadata: dict[str, Any] = {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid}
    if at_version:
        metadata["resourceVersion"] = meta.resource_version
    status = msgspec.to_builtins(wanted)
    value = {"apiVersion": INSTANCES.api_version, "kind": INSTANCES.kind, "metadata": metadata, "status": status}
    return await leadership.client.server_side_apply(
        INSTANCES, value, meta.name, meta.namespace, subresource="status", manager=manager
    )
