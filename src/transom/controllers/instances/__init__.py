"""Where WindowsInstances come from: ConfigMap entries and machines. Transom makes, owns, and removes them with care."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import structlog

from transom.controllers.runtime.cached import (
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
from transom.controllers.runtime.informers import Informers, cluster_machines, machines, spelled
from transom.kube import Conflict, NotFound
from transom.kube.events import Regarding
from transom.kube.queue import KeyQueue
from transom.kube.resources import CONFIG_MAPS, NAMESPACES
from transom.kube.store import ObjectKey
from transom.windows.nodes.inventory import (
    CONFIG_MAP,
    InventoryEntry,
    Rejected,
    from_cluster_machine,
    from_config_map,
    from_machine,
    vanishing,
)

_log: Final = structlog.get_logger("transom.instances")
_CHECK: Final = 600.0
_PAUSE: Final = 1e-4
"""Seconds for each machine that there is, until they are looked through: several times as long as that takes."""
_OPTIONAL: Final = frozenset(("hostKey", "nodeIP", "nodeName"))
"""Fields that people may also add to an instance of ours."""


class InstancesController:
    """There is one key: whether too many vanish at once can only be told of all of them."""

    def __init__(self, informers: Informers) -> None:
        self._informers = informers
        self._machines = machines(informers)
        self._cluster_machines = cluster_machines(informers)
        self._namespaces = informers.watch(NAMESPACES, fields=f"metadata.name={informers.namespace}")
        self._leaving: set[str] = set()
        """UIDs of machines that were seen to be deleted by somebody: they did not vanish."""
        self._told: dict[str, str] = {}
        self.queue: KeyQueue[ObjectKey] = KeyQueue()

    def begin(self) -> None:
        """Follow the stores, which have been filled."""
        self._informers.config_maps.subscribe(lambda name, _, __: self._ask() if name.name == CONFIG_MAP else None)
        self._informers.windows_instances.subscribe(self._instance_changed)
        self._namespaces.subscribe(lambda _, __, ___: self._ask())
        for store in (self._machines, self._cluster_machines):
            store.subscribe(self._machine_changed)
        self._ask()

    def _ask(self, after: float = 0.0) -> None:
        self.queue.add(ObjectKey(self._informers.namespace, CONFIG_MAP), after=after)

    def _instance_changed(self, _: ObjectKey, before: CachedInstance | None, after: CachedInstance | None) -> None:
        # a status changes nothing of what there should be
        if before is None or after is None or before.metadata.generation != after.metadata.generation:
            self._ask()

    def _machine_changed(self, _: ObjectKey, __: Any, after: Any) -> None:
        if after is not None and after.metadata.deletion_timestamp is not None and after.metadata.uid:
            self._leaving.add(after.metadata.uid)
        # thousands of them are not looked through for each change of one
        self._ask(_PAUSE * (len(self._machines) + len(self._cluster_machines)))

    async def reconcile(self, key: ObjectKey, leadership: Leadership) -> Result:
        """Make the WindowsInstances what the objects ask for. Raises ApiError."""
        made = list(self._made())
        wanted = {one.name: one for one in made if isinstance(one, InventoryEntry)}
        rejected = [one for one in made if isinstance(one, Rejected)]
        self._tell_rejected(rejected, leadership)
        snapshot = self._informers.windows_instances.snapshot()
        owned = [cached for cached in snapshot if _source(cached)]
        others = {cached.metadata.name: cached for cached in snapshot if not _source(cached)}
        replaced = False
        for entry in wanted.values():
            if (problem := _in_the_way(entry, others.values())) is not None:
                self._tell(f"{entry.source}/{entry.origin}", "NotMade", problem, leadership)
                continue
            cached = snapshot.named(entry.name, self._informers.namespace)
            if cached is not None and _uid(cached) != entry.uid:
                await self._remove(cached, f"{entry.source} {entry.origin} was replaced by another of its name", leadership)
                replaced = True
            elif cached is None or (cached.metadata.deletion_timestamp is None and _differs(entry, cached)):
                await self._make(entry, new=cached is None, leadership=leadership)
        waits = await self._remove_gone(owned, wanted, rejected, leadership)
        return Result(again=2.0 if replaced else _CHECK if waits else None)

    @property
    def _uninstalled(self) -> bool:
        """Whether somebody takes Transom off the cluster."""
        found = self._namespaces.snapshot().named(self._informers.namespace)
        return found is not None and (found.metadata.annotations or {}).get(UNINSTALL) == "true"

    def _made(self) -> Iterator[InventoryEntry | Rejected]:
        if self._uninstalled:
            return
        config_map = self._informers.config_maps.snapshot().named(CONFIG_MAP, self._informers.namespace)
        if config_map is not None and config_map.metadata.deletion_timestamp is None:
            data = config_map.value.get("data") or {}
            yield from from_config_map({str(name): value for name, value in data.items() if isinstance(value, str)})
        for machine in self._machines.snapshot():
            if (one := from_machine(machine.value)) is not None:
                yield one
        for machine in self._cluster_machines.snapshot():
            if (one := from_cluster_machine(machine.value)) is not None:
                yield one

    async def _make(self, entry: InventoryEntry, *, new: bool, leadership: Leadership) -> None:
        namespace = self._informers.namespace
        metadata = {"name": entry.name, "namespace": namespace, **_marks(entry)}
        value = {"apiVersion": INSTANCES.api_version, "kind": INSTANCES.kind, "metadata": metadata, "spec": entry.spec}
        answer = await leadership.client.server_side_apply(INSTANCES, value, entry.name, namespace)
        _log.info("instance made", instance=entry.name, source=entry.source, origin=entry.origin)
        if new:
            regarding = Regarding(INSTANCES.api_version, INSTANCES.kind, entry.name, namespace, answer.metadata.uid)
            leadership.recorder.normal(regarding, "Made", f"{entry.source} {entry.origin} asks for it")

    async def _remove_gone(
        self, owned: list[CachedInstance], wanted: dict[str, InventoryEntry], rejected: list[Rejected], leadership: Leadership
    ) -> bool:
        """Delete the instances that nothing asks for any more; whether that waits for a person."""
        kept = {(one.source, one.origin) for one in rejected}
        gone = [
            cached
            for cached in owned
            if cached.metadata.name not in wanted
            and (_source(cached), _annotation(cached, ORIGIN)) not in kept
            and cached.metadata.deletion_timestamp is None
        ]
        unexpected = [cached for cached in gone if _uid(cached) not in self._leaving or not _uid(cached)]
        if vanishing(len(owned), len(unexpected)) and not await self._confirmed(leadership):
            names = ", ".join(sorted(cached.metadata.name for cached in unexpected)[:5])
            self._tell(
                "vanished",
                "RemovalWaits",
                f"{len(unexpected)} of {len(owned)} instances have vanished at once ({names} …): nothing is removed until the "
                f'ConfigMap {CONFIG_MAP} or the namespace has the annotation {CONFIRM}: "true"',
                leadership,
            )
            gone = [cached for cached in gone if cached not in unexpected]
            waits = True
        else:
            self._told.pop("vanished", None)
            waits = False
        for cached in gone:
            await self._remove(cached, f"{_source(cached)} {_annotation(cached, ORIGIN)} is gone", leadership)
            self._leaving.discard(_uid(cached))
        return waits

    async def _confirmed(self, leadership: Leadership) -> bool:
        """Whether a person has said that so many may go: on the ConfigMap, or on the namespace."""
        if self._uninstalled:
            return True
        config_map = self._informers.config_maps.snapshot().named(CONFIG_MAP, self._informers.namespace)
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
        leadership.recorder.normal(_regarding(cached), "Deleted", why)

    def _tell_rejected(self, rejected: Iterable[Rejected], leadership: Leadership) -> None:
        wrong = {f"{one.source}/{one.origin}": one for one in rejected if not one.waiting}
        for subject in [subject for subject in self._told if subject.startswith("ConfigMap/") and subject not in wrong]:
            del self._told[subject]
        for subject, one in wrong.items():
            self._tell(subject, "InvalidEntry", f"{one.origin}: {one.reason}; the other entries hold", leadership)

    def _tell(self, subject: str, reason: str, message: str, leadership: Leadership) -> None:
        """A warning on the ConfigMap, once for each new trouble."""
        if self._told.get(subject) == message:
            return
        self._told[subject] = message
        config_map = self._informers.config_maps.snapshot().named(CONFIG_MAP, self._informers.namespace)
        uid = config_map.metadata.uid if config_map is not None else None
        regarding = Regarding(CONFIG_MAPS.api_version, CONFIG_MAPS.kind, CONFIG_MAP, self._informers.namespace, uid)
        leadership.recorder.warning(regarding, reason, message)
        _log.warning("instances", reason=reason, message=message)


def _regarding(cached: CachedInstance) -> Regarding:
    meta = cached.metadata
    return Regarding(INSTANCES.api_version, INSTANCES.kind, meta.name, meta.namespace, meta.uid)


def _marks(entry: InventoryEntry) -> dict[str, dict[str, str]]:
    """The labels and annotations of an instance of ours."""
    annotations = {ORIGIN: entry.origin}
    if entry.uid:
        annotations[ORIGIN_UID] = entry.uid
    if entry.host_name:
        annotations[HOST_NAME] = entry.host_name
    if entry.source == "ConfigMap" and (optional := sorted(entry.spec.keys() & _OPTIONAL)):
        annotations[ORIGIN_FIELDS] = " ".join(optional)
    return {"labels": {SOURCE: entry.source}, "annotations": annotations}


def _differs(entry: InventoryEntry, cached: CachedInstance) -> bool:
    marks = _marks(entry)
    have = {"labels": cached.metadata.labels or {}, "annotations": cached.metadata.annotations or {}}
    marked = all(have[part].get(name) == value for part, items in marks.items() for name, value in items.items())
    marked &= _annotation(cached, ORIGIN_FIELDS) == marks["annotations"].get(ORIGIN_FIELDS, "")
    return not marked or any(cached.fields.get(field) != value for field, value in entry.spec.items())


def _in_the_way(entry: InventoryEntry, others: Iterable[CachedInstance]) -> str | None:
    """Why the instance is not made: a person made one of its name, or for its address."""
    for cached in others:
        if cached.metadata.name == entry.name:
            return f"WindowsInstance {entry.name} is there, and is not Transom's: rename or delete it"
        address = spelled(str(cached.fields.get("address", "")))
        if address == spelled(str(entry.spec["address"])) and cached.fields.get("port", 22) == 22:
            return f"WindowsInstance {cached.metadata.name} has the address {address}: delete it, or take the other entry out"
    return None


def _source(cached: CachedInstance) -> str:
    return (cached.metadata.labels or {}).get(SOURCE, "")


def _annotation(cached: CachedInstance, name: str) -> str:
    return (cached.metadata.annotations or {}).get(name, "")


def _uid(cached: CachedInstance) -> str:
    return _annotation(cached, ORIGIN_UID)
