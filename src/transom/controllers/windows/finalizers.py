"""The finalizer of a WindowsInstance: put on before anything is written to the host, off when the host was given back.

Where Transom's namespace or the definition of the kind is deleted, nobody has said that hosts should go: they are left as they
are, and every finalizer is taken off, for else the deletion would wait for ever once the operator is gone.
"""

import contextlib
from collections.abc import Callable
from typing import Final

from transom.controllers.kept import INSTANCES, HeldInstance
from transom.controllers.term import Term
from transom.controllers.watched import Watched
from transom.kube.errors import NotFound
from transom.kube.objects import Metadata
from transom.kube.resources import DEFINITIONS, NAMESPACES
from transom.kube.store import Name

FINALIZER: Final = "transom.dev/host"


def has_finalizer(held: HeldInstance) -> bool:
    """Whether Transom has a word in the deletion of an instance."""
    return FINALIZER in (held.metadata.finalizers or ())


class Finalizers:
    """Puts them on and takes them off, and knows when all of them have to go."""

    def __init__(self, watched: Watched) -> None:
        self._watched = watched
        # content of a namespace is deleted 5 s after the namespace (Kubernetes, pkg/controller/namespace): there is time
        self._taken: set[str | None] = set()
        """UIDs of instances that are without it now, and stand in the store as they were."""
        self._namespaces = watched.watch(NAMESPACES, fields=f"metadata.name={watched.namespace}")

    def subscribe(self, ask: Callable[[Name], None]) -> None:
        """Have every instance with a finalizer asked for when the namespace is deleted."""

        def changed(_: Name, before: Metadata | None, after: Metadata | None) -> None:
            if self.namespace_goes:
                for held in self._watched.windows_instances.snapshot():
                    if has_finalizer(held):
                        ask(held.key)

        self._namespaces.subscribe(changed)

    @property
    def namespace_goes(self) -> bool:
        """Whether Transom's namespace is being deleted."""
        found = self._namespaces.snapshot().get(self._watched.namespace)
        return found is not None and found.metadata.deletion_timestamp is not None

    async def all_go(self, term: Term) -> str | None:
        """What is being deleted with every instance in it; None where one instance is. Raises ApiError."""
        if self.namespace_goes:
            return f"namespace {self._watched.namespace} is being deleted"
        name = f"{INSTANCES.plural}.{INSTANCES.group}"
        try:
            found = await term.client.get(DEFINITIONS, name)
        except NotFound:
            return f"the definition {name} is deleted"
        return f"the definition {name} is being deleted" if found.metadata.deletion_timestamp is not None else None

    async def put(self, held: HeldInstance, term: Term) -> HeldInstance:
        """The instance with the finalizer. Raises ApiError: nothing may be written to its host then."""
        return await self._set(held, [*(held.metadata.finalizers or ()), FINALIZER], term)

    async def take(self, held: HeldInstance, term: Term) -> None:
        """Take the finalizer off; others' stay. Raises ApiError: Conflict where `held` is not the latest version."""
        left = [one for one in held.metadata.finalizers or () if one != FINALIZER]
        with contextlib.suppress(NotFound):
            await self._set(held, left, term)
        self._taken &= {one.metadata.uid for one in self._watched.windows_instances.snapshot()}
        self._taken.add(held.metadata.uid)

    def was_taken(self, held: HeldInstance) -> bool:
        """Whether this process took it off, be it that the store does not say so yet."""
        return held.metadata.uid in self._taken

    @staticmethod
    async def _set(held: HeldInstance, finalizers: list[str], term: Term) -> HeldInstance:
        meta = held.metadata
        # the version keeps somebody else's finalizer that came meanwhile
        change = {"metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version, "finalizers": finalizers}}
        return await term.client.patch(INSTANCES, change, meta.name, meta.namespace)
