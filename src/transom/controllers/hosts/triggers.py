"""Which object concerns which key: a change in a store has the instances that it concerns asked for."""

from typing import Any

from transom.controllers.hosts.services import HostServices
from transom.controllers.runtime.cached_objects import CachedInstance, HostNode
from transom.controllers.runtime.current_settings import Cluster
from transom.controllers.runtime.informers import get_address_index, get_cluster_index
from transom.kube.objects import UnstructuredObject
from transom.kube.queue import Priority
from transom.kube.store import ObjectKey


class Triggers:
    """Fills the queue of one controller of hosts."""

    def __init__(self, services: HostServices) -> None:
        self._informers, self._queue = services.informers, services.queue
        self._services = services

    def subscribe(self) -> None:
        """Follow the stores, which have been filled: every existing instance is enqueued at once."""
        self._informers.windows_instances.subscribe(self._on_instance_change)
        self._informers.nodes.subscribe(self._on_node_change)
        self._informers.secrets.subscribe(self._on_secret_change)
        self._services.settings.subscribe(self._on_settings_change)
        self._services.finalizers.subscribe(self._queue.add)
        self._services.resume_annotation.subscribe(self._on_resume)

    def _on_instance_change(self, name: ObjectKey, before: CachedInstance | None, after: CachedInstance | None) -> None:
        self._services.reader.forget(name)
        if after is None:
            self._queue.forget(name)
            self._services.host_rollout.forget(name)
            if before is not None:
                self._enqueue_same_address(before)
        elif before is None:
            self._queue.add(name, Priority.CHECK if is_configured(after) else Priority.CHANGE)
        elif get_user_fields(before) != get_user_fields(after):
            self._queue.add(name)
            self._enqueue_same_address(before)

    def _enqueue_same_address(self, before: CachedInstance) -> None:
        """Enqueue the instances with the address of an instance that no longer has it."""
        for cached in self._informers.windows_instances.take_snapshot().list_by_index("place", get_address_index(before)):
            self._queue.add(cached.key)

    def _on_node_change(self, name: ObjectKey, before: HostNode | None, after: HostNode | None) -> None:
        self._services.heartbeats.update(name.name, after)
        if get_relevant_fields(before) == get_relevant_fields(after):
            return
        instances = self._informers.windows_instances.take_snapshot()
        related_instances = instances.list_by_index("node", name.name)
        for node in (before, after):
            for address in node.ips if node else ():
                related_instances += instances.list_by_index("address", address)
        for cached in related_instances:
            self._queue.add(cached.key, Priority.CHECK)

    def _on_secret_change(self, name: ObjectKey, before: UnstructuredObject | None, after: UnstructuredObject | None) -> None:
        old, new = ((cached.value.get("data") if cached else None) for cached in (before, after))
        if old != new or (before is None) != (after is None):
            for cached in self._informers.windows_instances.take_snapshot().list_by_index("secret", name.name):
                self._queue.add(cached.key)

    def _on_settings_change(self, clusters: frozenset[Cluster]) -> None:
        instances = self._informers.windows_instances.take_snapshot()
        for cluster in clusters:
            for cached in instances.list_by_index("cluster", get_cluster_index(cluster)):
                self._queue.add(cached.key)

    def _on_resume(self) -> None:
        """Enqueue every host after a person resumed halted rollouts: each has a new rollout now."""
        for cached in self._informers.windows_instances.take_snapshot():
            self._queue.add(cached.key)


def get_user_fields(cached: CachedInstance) -> tuple[Any, ...]:
    """Return what people write on an instance: its spec, its annotations and the status fields that they clear."""
    meta = cached.metadata
    cleared = not cached.live.host_key_fingerprint and cached.get_reason("Reachable") == "HostKeyChanged"
    undecided = not cached.live.node_name and cached.get_reason("Configured") in ("NodeNameTaken", "NodeNameChanged")
    return meta.uid, meta.generation, meta.annotations or {}, meta.deletion_timestamp, cleared, undecided


def is_configured(cached: CachedInstance) -> bool:
    """Return True if an instance was configured, by this process or an earlier one, so that it is not urgent."""
    configured = cached.live.get_condition("Configured")
    return configured.status == "True" and configured.observed_generation == cached.metadata.generation


def get_relevant_fields(node: HostNode | None) -> tuple[Any, ...] | None:
    """Return the fields of a Node that concern its instance; a heartbeat changes none of them."""
    if node is None:
        return None
    ready = (node.ready.status, node.ready.reason) if node.ready is not None else None
    # changes during the first configuration are not reported
    cordoned = node.cordoned and node.first_configuration != "Cordoned"
    whose = (node.is_managed_by_other, node.is_adopted, node.services_to_take_over)
    return node.metadata.uid, ready, whose, node.addresses, cordoned, node.system, node.uninitialized
