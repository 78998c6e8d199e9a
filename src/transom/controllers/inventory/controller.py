"""Where WindowsInstances come from: ConfigMap entries and machines. Transom makes, owns, and removes them with care."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec
import structlog

from transom.common.mappings import get_nested_value
from transom.controllers.runtime.cached_objects import (
    CONFIRM,
    HOST_NAME,
    INSTANCES,
    ORIGIN,
    ORIGIN_FIELDS,
    ORIGIN_UID,
    SOURCE,
    UNINSTALL,
    CachedInstance,
)
from transom.controllers.runtime.controller import Leadership, Result
from transom.controllers.runtime.current_settings import CurrentSettings
from transom.controllers.runtime.informers import Informers, normalize_host, watch_cluster_machines, watch_machines
from transom.kube.errors import Conflict, NotFound
from transom.kube.events import Regarding
from transom.kube.queue import KeyQueue
from transom.kube.resources import CONFIG_MAPS, NAMESPACES
from transom.kube.store import ObjectKey
from transom.windows.nodes.host_addresses import NO_NETWORKS, HostNetworks
from transom.windows.nodes.inventory import (
    CONFIG_MAP,
    InventoryEntry,
    RejectedEntry,
    from_cluster_machine,
    from_config_map,
    from_machine,
    should_confirm_removal,
)

_log: Final = structlog.get_logger("transom.instances")
_CHECK: Final = 600.0
_PAUSE: Final = 1e-4
"""Seconds for each machine that there is, until they are looked through: several times as long as that takes."""
_OPTIONAL: Final = frozenset(("addresses", "hostKey", "nodeIP", "nodeName"))
"""Fields that users may also add to an instance that Transom created."""


class InstancesController:
    """There is one key: only all of them together show whether too many vanish at once."""

    def __init__(self, informers: Informers, settings: CurrentSettings) -> None:
        self._informers = informers
        self._settings = settings
        self._networks = NO_NETWORKS
        self._machines = watch_machines(informers)
        self._cluster_machines = watch_cluster_machines(informers)
        self._namespaces = informers.watch(NAMESPACES, fields=f"metadata.name={informers.namespace}")
        self._leaving: set[str] = set()
        """UIDs of machines with an observed deletion: they did not vanish."""
        self._told: dict[str, str] = {}
        self.queue: KeyQueue[ObjectKey] = KeyQueue()

    def subscribe(self) -> None:
        """Follow the stores, which have been filled."""
        self._informers.config_maps.subscribe(
            lambda name, _, __: self._enqueue_inventory() if name.name == CONFIG_MAP else None
        )
        self._informers.windows_instances.subscribe(self._on_instance_change)
        self._namespaces.subscribe(lambda _, __, ___: self._enqueue_inventory())
        for store in (self._machines, self._cluster_machines):
            store.subscribe(self._on_machine_change)
        self._settings.subscribe_to_updates(self._update_networks)
        self._update_networks()
        self._enqueue_inventory()

    def _update_networks(self) -> None:
        newest = self._settings.newest
        if newest is None:
            return
        known = newest.networks
        networks = HostNetworks(known.machine_network, (*known.pod_network, *known.service_network))
        if networks != self._networks:
            self._networks = networks
            self._enqueue_inventory()

    def _enqueue_inventory(self, after: float = 0.0) -> None:
        self.queue.add(ObjectKey(self._informers.namespace, CONFIG_MAP), after=after)

    def _on_instance_change(self, _: ObjectKey, before: CachedInstance | None, after: CachedInstance | None) -> None:
        # a status changes nothing of what there should be
        if before is None or after is None or before.metadata.generation != after.metadata.generation:
            self._enqueue_inventory()

    def _on_machine_change(self, _: ObjectKey, __: Any, after: Any) -> None:
        if after is not None and after.metadata.deletion_timestamp is not None and after.metadata.uid:
            self._leaving.add(after.metadata.uid)
        # thousands of them are not looked through for each change of one
        self._enqueue_inventory(_PAUSE * (len(self._machines) + len(self._cluster_machines)))

    async def reconcile(self, key: ObjectKey, leadership: Leadership) -> Result:
        """Make the WindowsInstances what the objects ask for. Raises ApiError."""
        made = list(self._iter_entries())
        wanted = {item.name: item for item in made if isinstance(item, InventoryEntry)}
        rejected = [item for item in made if isinstance(item, RejectedEntry)]
        self._report_rejected_entries(rejected, leadership)
        snapshot = self._informers.windows_instances.take_snapshot()
        owned = [cached for cached in snapshot if _get_source(cached)]
        others = {cached.metadata.name: cached for cached in snapshot if not _get_source(cached)}
        replaced = False
        for entry in wanted.values():
            if (problem := _find_obstacle(entry, others.values())) is not None:
                self._warn(f"{entry.source}/{entry.origin}", "NotMade", problem, leadership)
                continue
            cached = snapshot.find_named(entry.name, self._informers.namespace)
            if cached is not None and _get_origin_uid(cached) != entry.uid:
                await self._remove(cached, f"{entry.source} {entry.origin} was replaced by another of its name", leadership)
                replaced = True
            elif cached is None or (cached.metadata.deletion_timestamp is None and _has_changed(entry, cached)):
                await self._apply_instance(entry, new=cached is None, leadership=leadership)
        waits = await self._delete_obsolete_instances(owned, wanted, rejected, leadership)
        return Result(again=2.0 if replaced else _CHECK if waits else None)

    @property
    def _is_being_uninstalled(self) -> bool:
        """Whether Transom is being removed from the cluster."""
        namespace = self._namespaces.take_snapshot().find_named(self._informers.namespace)
        return namespace is not None and (namespace.metadata.annotations or {}).get(UNINSTALL) == "true"

    def _iter_entries(self) -> Iterator[InventoryEntry | RejectedEntry]:
        if self._is_being_uninstalled:
            return
        config_map = self._informers.config_maps.take_snapshot().find_named(CONFIG_MAP, self._informers.namespace)
        if config_map is not None and config_map.metadata.deletion_timestamp is None:
            data = config_map.value.get("data") or {}
            yield from from_config_map({str(name): value for name, value in data.items() if isinstance(value, str)})
        for machine in self._machines.take_snapshot():
            if (machine_entry := from_machine(machine.value, self._get_machine_networks(machine.value))) is not None:
                yield machine_entry
        for machine in self._cluster_machines.take_snapshot():
            if (
                machine_entry := from_cluster_machine(machine.value, self._get_cluster_machine_networks(machine.value))
            ) is not None:
                yield machine_entry

    def _get_machine_networks(self, machine: Mapping[str, Any]) -> HostNetworks:
        """Return the networks of the own cluster, with the addresses of the machine's Node."""
        name = get_nested_value(machine, "status", "nodeRef", "name")
        node = self._informers.nodes.take_snapshot().find_named(name) if isinstance(name, str) else None
        return self._networks if node is None else msgspec.structs.replace(self._networks, node=node.ips)

    def _get_cluster_machine_networks(self, machine: Mapping[str, Any]) -> HostNetworks:
        """Return the networks that its Cluster names."""
        name, namespace = get_nested_value(machine, "spec", "clusterName"), get_nested_value(machine, "metadata", "namespace")
        cached = self._informers.clusters.take_snapshot().find_named(str(name), str(namespace))
        overlay: list[str] = []
        for item in ("pods", "services"):
            blocks = (
                get_nested_value(cached.value, "spec", "clusterNetwork", item, "cidrBlocks") if cached is not None else None
            )
            overlay += map(str, blocks) if isinstance(blocks, list) else ()
        return HostNetworks(overlay=tuple(overlay))

    async def _apply_instance(self, entry: InventoryEntry, *, new: bool, leadership: Leadership) -> None:
        namespace = self._informers.namespace
        metadata = {"name": entry.name, "namespace": namespace, **_build_metadata(entry)}
        value = {"apiVersion": INSTANCES.api_version, "kind": INSTANCES.kind, "metadata": metadata, "spec": entry.spec}
        answer = await leadership.client.apply(INSTANCES, value, entry.name, namespace)
        _log.info("instance made", instance=entry.name, source=entry.source, origin=entry.origin)
        if new:
            regarding = Regarding(INSTANCES.api_version, INSTANCES.kind, entry.name, namespace, answer.metadata.uid)
            leadership.recorder.record_normal(regarding, "Made", f"{entry.source} {entry.origin} requires it")

    async def _delete_obsolete_instances(
        self,
        owned: list[CachedInstance],
        wanted: dict[str, InventoryEntry],
        rejected: list[RejectedEntry],
        leadership: Leadership,
    ) -> bool:
        """Delete the instances that nothing asks for any more; whether that waits for a person."""
        kept = {(item.source, item.origin) for item in rejected}
        obsolete = [
            cached
            for cached in owned
            if cached.metadata.name not in wanted
            and (_get_source(cached), _get_annotation(cached, ORIGIN)) not in kept
            and cached.metadata.deletion_timestamp is None
        ]
        unexpected = [
            cached for cached in obsolete if _get_origin_uid(cached) not in self._leaving or not _get_origin_uid(cached)
        ]
        if should_confirm_removal(len(owned), len(unexpected)) and not await self._is_removal_confirmed(leadership):
            names = ", ".join(sorted(cached.metadata.name for cached in unexpected)[:5])
            self._warn(
                "vanished",
                "RemovalWaits",
                f"{len(unexpected)} of {len(owned)} instances disappeared at once ({names} …): Transom removes none until the "
                f'ConfigMap {CONFIG_MAP} or the namespace has the annotation {CONFIRM}: "true"',
                leadership,
            )
            obsolete = [cached for cached in obsolete if cached not in unexpected]
            waits = True
        else:
            self._told.pop("vanished", None)
            waits = False
        for cached in obsolete:
            await self._remove(cached, f"{_get_source(cached)} {_get_annotation(cached, ORIGIN)} is gone", leadership)
            self._leaving.discard(_get_origin_uid(cached))
        return waits

    async def _is_removal_confirmed(self, leadership: Leadership) -> bool:
        """Return True if a person confirmed that so many instances may be deleted, on the ConfigMap or the namespace."""
        if self._is_being_uninstalled:
            return True
        config_map = self._informers.config_maps.take_snapshot().find_named(CONFIG_MAP, self._informers.namespace)
        if config_map is not None and (config_map.metadata.annotations or {}).get(CONFIRM) == "true":
            return True
        namespace = await leadership.client.get(NAMESPACES, self._informers.namespace)
        return (namespace.metadata.annotations or {}).get(CONFIRM) == "true"

    async def _remove(self, cached: CachedInstance, why: str, leadership: Leadership) -> None:
        """Delete an instance; what becomes of its host and its Node is its controller's work."""
        meta = cached.metadata
        if meta.deletion_timestamp is not None:
            return
        try:
            await leadership.client.delete(INSTANCES, meta.name, meta.namespace, meta.uid)
        except (NotFound, Conflict):
            return
        _log.info("instance removed", instance=meta.name, reason=why)
        leadership.recorder.record_normal(_to_regarding(cached), "Deleted", why)

    def _report_rejected_entries(self, rejected: Iterable[RejectedEntry], leadership: Leadership) -> None:
        wrong = {f"{item.source}/{item.origin}": item for item in rejected if not item.waiting}
        for subject in [subject for subject in self._told if subject.startswith("ConfigMap/") and subject not in wrong]:
            del self._told[subject]
        for subject, entry in wrong.items():
            self._warn(subject, "InvalidEntry", f"{entry.origin}: {entry.reason}; the other entries hold", leadership)

    def _warn(self, subject: str, reason: str, message: str, leadership: Leadership) -> None:
        """Write a warning event on the ConfigMap, once per new problem."""
        if self._told.get(subject) == message:
            return
        self._told[subject] = message
        config_map = self._informers.config_maps.take_snapshot().find_named(CONFIG_MAP, self._informers.namespace)
        uid = config_map.metadata.uid if config_map is not None else None
        regarding = Regarding(CONFIG_MAPS.api_version, CONFIG_MAPS.kind, CONFIG_MAP, self._informers.namespace, uid)
        leadership.recorder.record_warning(regarding, reason, message)
        _log.warning("instances", reason=reason, message=message)


def _to_regarding(cached: CachedInstance) -> Regarding:
    meta = cached.metadata
    return Regarding(INSTANCES.api_version, INSTANCES.kind, meta.name, meta.namespace, meta.uid)


def _build_metadata(entry: InventoryEntry) -> dict[str, dict[str, str]]:
    """Return the labels and annotations of an instance that Transom creates."""
    annotations = {ORIGIN: entry.origin}
    if entry.uid:
        annotations[ORIGIN_UID] = entry.uid
    if entry.host_name:
        annotations[HOST_NAME] = entry.host_name
    if entry.source == "ConfigMap" and (optional := sorted(entry.spec.keys() & _OPTIONAL)):
        annotations[ORIGIN_FIELDS] = " ".join(optional)
    return {"labels": {SOURCE: entry.source}, "annotations": annotations}


def _has_changed(entry: InventoryEntry, cached: CachedInstance) -> bool:
    marks = _build_metadata(entry)
    have = {"labels": cached.metadata.labels or {}, "annotations": cached.metadata.annotations or {}}
    marked = all(have[part].get(name) == value for part, items in marks.items() for name, value in items.items())
    marked &= _get_annotation(cached, ORIGIN_FIELDS) == marks["annotations"].get(ORIGIN_FIELDS, "")
    return not marked or any(cached.spec_fields.get(field) != value for field, value in entry.spec.items())


def _find_obstacle(entry: InventoryEntry, others: Iterable[CachedInstance]) -> str | None:
    """Why the instance is not made: a person made one of its name, or for its address."""
    for cached in others:
        if cached.metadata.name == entry.name:
            return f"WindowsInstance {entry.name} exists, and is not managed by Transom: rename or delete it"
        address = normalize_host(str(cached.spec_fields.get("address", "")))
        if address == normalize_host(str(entry.spec["address"])) and cached.spec_fields.get("port", 22) == 22:
            return f"WindowsInstance {cached.metadata.name} has the address {address}: delete it, or take the other entry out"
    return None


def _get_source(cached: CachedInstance) -> str:
    return (cached.metadata.labels or {}).get(SOURCE, "")


def _get_annotation(cached: CachedInstance, name: str) -> str:
    return (cached.metadata.annotations or {}).get(name, "")


def _get_origin_uid(cached: CachedInstance) -> str:
    return _get_annotation(cached, ORIGIN_UID)
