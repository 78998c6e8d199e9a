"""Which object concerns which key: a change in a store has the instances that it concerns asked for."""

from collections.abc import Callable
from typing import Any

from transom.controllers.hosts.services import HostServices
from transom.controllers.runtime.cached import CachedInstance, HostNode
from transom.controllers.runtime.informers import cluster_index, place_of
from transom.controllers.runtime.settings import Cluster
from transom.kube.objects import Whole
from transom.kube.queue import Priority
from transom.kube.store import ObjectKey


class Triggers:
    """Fills the queue of one controller of hosts; `gone` is told of instances that are gone."""

    def __init__(self, on: HostServices, gone: Callable[[ObjectKey], object]) -> None:
        self._informers, self._queue = on.informers, on.queue
        self._on, self._gone = on, gone

    def begin(self) -> None:
        """Follow the stores, which have been filled: every instance that is there is asked for at once."""
        self._informers.windows_instances.subscribe(self._instance_changed)
        self._informers.nodes.subscribe(self._node_changed)
        self._informers.secrets.subscribe(self._secret_changed)
        self._on.settings.subscribe(self._settings_changed)
        self._on.finalizers.subscribe(self._queue.add)
        self._on.resumption.subscribe(self._resumed)

    def _instance_changed(self, name: ObjectKey, before: CachedInstance | None, after: CachedInstance | None) -> None:
        self._on.cases.forget(name)
        if after is None:
            self._queue.forget(name)
            self._gone(name)
            if before is not None:
                self._ask_same_place(before)
        elif before is None:
            self._queue.add(name, Priority.CHECK if is_settled(after) else Priority.CHANGE)
        elif wanted(before) != wanted(after):
            self._queue.add(name)
            self._ask_same_place(before)

    def _ask_same_place(self, before: CachedInstance) -> None:
        """Who had the same address is no longer in the way of the others."""
        for cached in self._informers.windows_instances.snapshot().by("place", place_of(before)):
            self._queue.add(cached.key)

    def _node_changed(self, name: ObjectKey, before: HostNode | None, after: HostNode | None) -> None:
        self._on.heartbeats.seen(name.name, after)
        if of_node(before) == of_node(after):
            return
        instances = self._informers.windows_instances.snapshot()
        found = instances.by("node", name.name)
        for node in (before, after):
            for address in node.ips if node else ():
                found += instances.by("address", address)
        for cached in found:
            self._queue.add(cached.key, Priority.CHECK)

    def _secret_changed(self, name: ObjectKey, before: Whole | None, after: Whole | None) -> None:
        old, new = ((cached.value.get("data") if cached else None) for cached in (before, after))
        if old != new or (before is None) != (after is None):
            for cached in self._informers.windows_instances.snapshot().by("secret", name.name):
                self._queue.add(cached.key)

    def _settings_changed(self, clusters: frozenset[Cluster]) -> None:
        instances = self._informers.windows_instances.snapshot()
        for cluster in clusters:
            for cached in instances.by("cluster", cluster_index(cluster)):
                self._queue.add(cached.key)

    def _resumed(self) -> None:
        """A person has halted rollouts go on: for every host there is another one now."""
        for cached in self._informers.windows_instances.snapshot():
            self._queue.add(cached.key)


def wanted(cached: CachedInstance) -> tuple[Any, ...]:
    """What of an instance people write: its spec, its annotations, and the fields of its status that they clear."""
    meta = cached.metadata
    cleared = not cached.live.host_key_fingerprint and cached.reason("Reachable") == "HostKeyChanged"
    undecided = not cached.live.node_name and cached.reason("Configured") in ("NodeNameTaken", "NodeNameChanged")
    return meta.uid, meta.generation, meta.annotations or {}, meta.deletion_timestamp, cleared, undecided


def is_settled(cached: CachedInstance) -> bool:
    """Whether an instance was done, by whoever worked before: it is in no hurry."""
    configured = cached.live.condition("Configured")
    return configured.status == "True" and configured.observed_generation == cached.metadata.generation


def of_node(node: HostNode | None) -> tuple[Any, ...] | None:
    """What of a Node concerns its instance; a heartbeat changes nothing of it."""
    if node is None:
        return None
    ready = (node.ready.status, node.ready.reason) if node.ready is not None else None
    # what is done to it while it is first configured is nobody's news
    cordoned = node.cordoned and node.first_configuration != "Cordoned"
    whose = (node.managed_by_other, node.adopted, node.takes)
    return node.metadata.uid, ready, whose, node.addresses, cordoned, node.system, node.uninitialized
