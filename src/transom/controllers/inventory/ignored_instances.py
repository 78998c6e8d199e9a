"""Instances outside Transom's namespace, which are ignored: each reports this in a condition and an event."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from transom.controllers.instance_state import status
from transom.controllers.instance_state.instance_writes import apply_status
from transom.controllers.runtime.cached_objects import INSTANCES, CachedInstance
from transom.controllers.runtime.controller import Leadership, Result
from transom.controllers.runtime.informers import Informers
from transom.kube.errors import Conflict, NotFound
from transom.kube.events import Regarding
from transom.kube.queue import KeyQueue, Priority
from transom.kube.store import ObjectKey
from transom.windows.nodes.windows_instance import WindowsInstanceStatus

GRACE: Final = 30.0
"""Seconds in which an operator of that namespace, if any, sets the status of an instance."""


class IgnoredInstancesController:
    """Keys are instances of other namespaces."""

    def __init__(self, informers: Informers, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._namespace, self._now = informers.namespace, now
        self._strays = informers.watch(INSTANCES, fields=f"metadata.namespace!={informers.namespace}")
        self.queue: KeyQueue[ObjectKey] = KeyQueue()

    def subscribe(self) -> None:
        """Follow the store, which has been filled."""
        self._strays.subscribe(self._on_change)
        for cached in self._strays.take_snapshot():
            self._on_change(cached.key, None, cached)

    def _on_change(self, key: ObjectKey, _: CachedInstance | None, after: CachedInstance | None) -> None:
        if after is None:
            self.queue.forget(key)
        elif _has_no_conditions(after):
            self.queue.add(key, Priority.CHECK, GRACE)

    async def reconcile(self, key: ObjectKey, leadership: Leadership) -> Result:
        """Say it of one instance that has no status at all. Raises ApiError."""
        cached = self._strays.take_snapshot().get(key)
        if cached is None or not _has_no_conditions(cached) or cached.metadata.deletion_timestamp is not None:
            return Result()
        meta = cached.metadata
        message = f"the operator of this cluster works on instances in namespace {self._namespace}: move it there"
        conditions = status.build_not_connected_conditions("OutsideNamespace", message)
        wanted = status.merge_status(WindowsInstanceStatus(), conditions, {}, meta.generation, self._now())
        try:
            await apply_status(cached, wanted, leadership, at_version=True)
        except (NotFound, Conflict):
            # deleted, or another object describes it now
            return Result()
        regarding = Regarding(INSTANCES.api_version, INSTANCES.kind, meta.name, meta.namespace, meta.uid)
        leadership.recorder.record_warning(regarding, "OutsideNamespace", message)
        return Result()


def _has_no_conditions(cached: CachedInstance) -> bool:
    """Return True if an instance has no conditions."""
    return cached.live == WindowsInstanceStatus()
