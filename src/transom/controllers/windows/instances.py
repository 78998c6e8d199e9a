"""ConfigMap entries and machines to WindowsInstances: Transom makes them, owns them, and removes them with care."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import structlog

from transom.controllers.controller import Outcome
from transom.controllers.kept import INSTANCES, HeldInstance
from transom.controllers.term import Term
from transom.controllers.watched import Watched
from transom.controllers.windows.machines import cluster_machines, machines
from transom.controllers.windows.marks import CONFIRM, HOST_NAME, ORIGIN, ORIGIN_UID, SOURCE
from transom.kube.errors import Conflict, NotFound
from transom.kube.events import Regarding
from transom.kube.queue import KeyQueue
from transom.kube.resources import CONFIG_MAPS, NAMESPACES
from transom.kube.store import Name
from transom.windows.inventory import (
    CONFIG_MAP,
    Entry,
    Rejected,
    from_cluster_machine,
    from_config_map,
    from_machine,
    vanishing,
)

_log: Final = structlog.get_logger("transom.instances")
_CHECK: Final = 600.0


class InstancesController:
    """There is one key: whether too many vanish at once can only be told of all of them."""

    def __init__(self, watched: Watched) -> None:
        self._watched = watched
        self._machines = machines(watched)
        self._cluster_machines = cluster_machines(watched)
        self._leaving: set[str] = set()
        """UIDs of machines that were seen to be deleted by somebody: they did not vanish."""
        self._told: dict[str, str] = {}
        self.queue: KeyQueue[Name] = KeyQueue()

    def begin(self) -> None:
        """Follow the stores, which have been filled."""
        self._watched.config_maps.subscribe(lambda name, _, __: self._ask() if name[1] == CONFIG_MAP else None)
        self._watched.windows_instances.subscribe(self._instance_changed)
        for store in (self._machines, self._cluster_machines):
            store.subscribe(self._machine_changed)
        self._ask()

    def _ask(self) -> None:
        self.queue.add((self._watched.namespace, CONFIG_MAP))

    def _instance_changed(self, _: Name, before: HeldInstance | None, after: HeldInstance | None) -> None:
        # a status changes nothing of what there should be
        if before is None or after is None or before.metadata.generation != after.metadata.generation:
            self._ask()

    def _machine_changed(self, _: Name, __: Any, after: Any) -> None:
        if after is not None and after.metadata.deletion_timestamp is not None and after.metadata.uid:
            self._leaving.add(after.metadata.uid)
        self._ask()

    async def reconcile(self, key: Name, term: Term) -> Outcome:
        """Make the WindowsInstances what the objects ask for. Raises ApiError."""
        made = list(self._made())
        wanted = {one.name: one for one in made if isinstance(one, Entry)}
        rejected = [one for one in made if isinstance(one, Rejected)]
        self._tell_rejected(rejected, term)
        snapshot = self._watched.windows_instances.snapshot()
        owned = [held for held in snapshot if _source(held)]
        others = {held.metadata.name: held for held in snapshot if not _source(held)}
        replaced = False
        for entry in wanted.values():
            if (problem := _in_the_way(entry, others.values())) is not None:
                self._tell(f"{entry.source}/{entry.origin}", "NotMade", problem, term)
                continue
            held = snapshot.get(entry.name, self._watched.namespace)
            if held is not None and _uid(held) != entry.uid:
                await self._remove(held, f"{entry.source} {entry.origin} was replaced by another of its name", term)
                replaced = True
            elif held is None or (held.metadata.deletion_timestamp is None and _differs(entry, held)):
                await self._make(entry, new=held is None, term=term)
        waits = await self._remove_gone(owned, wanted, rejected, term)
        return Outcome(again=2.0 if replaced else _CHECK if waits else None)

    def _made(self) -> Iterator[Entry | Rejected]:
        config_map = self._watched.config_maps.snapshot().get(CONFIG_MAP, self._watched.namespace)
        if config_map is not None and config_map.metadata.deletion_timestamp is None:
            data = config_map.value.get("data") or {}
            yield from from_config_map({str(name): value for name, value in data.items() if isinstance(value, str)})
        for machine in self._machines.snapshot():
            if (one := from_machine(machine.value)) is not None:
                yield one
        for machine in self._cluster_machines.snapshot():
            if (one := from_cluster_machine(machine.value)) is not None:
                yield one

    async def _make(self, entry: Entry, *, new: bool, term: Term) -> None:
        namespace = self._watched.namespace
        metadata = {"name": entry.name, "namespace": namespace, **_marks(entry)}
        value = {"apiVersion": INSTANCES.api_version, "kind": INSTANCES.kind, "metadata": metadata, "spec": entry.spec}
        answer = await term.client.server_side_apply(INSTANCES, value, entry.name, namespace)
        _log.info("instance made", instance=entry.name, source=entry.source, origin=entry.origin)
        if new:
            regarding = Regarding(INSTANCES.api_version, INSTANCES.kind, entry.name, namespace, answer.metadata.uid)
            term.recorder.normal(regarding, "Made", f"{entry.source} {entry.origin} asks for it")

    async def _remove_gone(
        self, owned: list[HeldInstance], wanted: dict[str, Entry], rejected: list[Rejected], term: Term
    ) -> bool:
        """Delete the instances that nothing asks for any more; whether that waits for a person."""
        kept = {(one.source, one.origin) for one in rejected}
        gone = [
            held
            for held in owned
            if held.metadata.name not in wanted
            and (_source(held), _annotation(held, ORIGIN)) not in kept
            and held.metadata.deletion_timestamp is None
        ]
        unexpected = [held for held in gone if _uid(held) not in self._leaving or not _uid(held)]
        if vanishing(len(owned), len(unexpected)) and not await self._confirmed(term):
            names = ", ".join(sorted(held.metadata.name for held in unexpected)[:5])
            self._tell(
                "vanished",
                "RemovalWaits",
                f"{len(unexpected)} of {len(owned)} instances have vanished at once ({names} …): nothing is removed until the "
                f'ConfigMap {CONFIG_MAP} or the namespace has the annotation {CONFIRM}: "true"',
                term,
            )
            gone = [held for held in gone if held not in unexpected]
            waits = True
        else:
            self._told.pop("vanished", None)
            waits = False
        for held in gone:
            await self._remove(held, f"{_source(held)} {_annotation(held, ORIGIN)} is gone", term)
            self._leaving.discard(_uid(held))
        return waits

    async def _confirmed(self, term: Term) -> bool:
        """Whether a person has said that so many may go: on the ConfigMap, or on the namespace."""
        config_map = self._watched.config_maps.snapshot().get(CONFIG_MAP, self._watched.namespace)
        if config_map is not None and (config_map.metadata.annotations or {}).get(CONFIRM) == "true":
            return True
        namespace = await term.client.get(NAMESPACES, self._watched.namespace)
        return (namespace.metadata.annotations or {}).get(CONFIRM) == "true"

    async def _remove(self, held: HeldInstance, why: str, term: Term) -> None:
        """Delete an instance; what becomes of its host and its Node is its controller's work."""
        meta = held.metadata
        if meta.deletion_timestamp is not None:
            return
        try:
            await term.client.delete(INSTANCES, meta.name, meta.namespace, meta.uid)
        except (NotFound, Conflict):
            return
        _log.info("instance removed", instance=meta.name, reason=why)
        term.recorder.normal(_regarding(held), "Deleted", why)

    def _tell_rejected(self, rejected: Iterable[Rejected], term: Term) -> None:
        wrong = {f"{one.source}/{one.origin}": one for one in rejected if not one.waiting}
        for subject in [subject for subject in self._told if subject.startswith("ConfigMap/") and subject not in wrong]:
            del self._told[subject]
        for subject, one in wrong.items():
            self._tell(subject, "InvalidEntry", f"{one.origin}: {one.reason}; the other entries hold", term)

    def _tell(self, subject: str, reason: str, message: str, term: Term) -> None:
        """A warning on the ConfigMap, once for each new trouble."""
        if self._told.get(subject) == message:
            return
        self._told[subject] = message
        config_map = self._watched.config_maps.snapshot().get(CONFIG_MAP, self._watched.namespace)
        uid = config_map.metadata.uid if config_map is not None else None
        regarding = Regarding(CONFIG_MAPS.api_version, CONFIG_MAPS.kind, CONFIG_MAP, self._watched.namespace, uid)
        term.recorder.warning(regarding, reason, message)
        _log.warning("instances", reason=reason, message=message)


def _regarding(held: HeldInstance) -> Regarding:
    meta = held.metadata
    return Regarding(INSTANCES.api_version, INSTANCES.kind, meta.name, meta.namespace, meta.uid)


def _marks(entry: Entry) -> dict[str, dict[str, str]]:
    """The labels and annotations of an instance of ours."""
    annotations = {ORIGIN: entry.origin}
    if entry.uid:
        annotations[ORIGIN_UID] = entry.uid
    if entry.host_name:
        annotations[HOST_NAME] = entry.host_name
    return {"labels": {SOURCE: entry.source}, "annotations": annotations}


def _differs(entry: Entry, held: HeldInstance) -> bool:
    marks = _marks(entry)
    have = {"labels": held.metadata.labels or {}, "annotations": held.metadata.annotations or {}}
    marked = all(have[part].get(name) == value for part, items in marks.items() for name, value in items.items())
    return not marked or any(held.fields.get(field) != value for field, value in entry.spec.items())


def _in_the_way(entry: Entry, others: Iterable[HeldInstance]) -> str | None:
    """Why the instance is not made: a person made one of its name, or for its address."""
    for held in others:
        if held.metadata.name == entry.name:
            return f"WindowsInstance {entry.name} is there, and is not Transom's: rename or delete it"
        address = str(held.fields.get("address", "")).casefold()
        if address == str(entry.spec["address"]).casefold() and held.fields.get("port", 22) == 22:
            return f"WindowsInstance {held.metadata.name} has the address {address}: delete it, or take the other entry out"
    return None


def _source(held: HeldInstance) -> str:
    return (held.metadata.labels or {}).get(SOURCE, "")


def _annotation(held: HeldInstance, name: str) -> str:
    return (held.metadata.annotations or {}).get(name, "")


def _uid(held: HeldInstance) -> str:
    return _annotation(held, ORIGIN_UID)
