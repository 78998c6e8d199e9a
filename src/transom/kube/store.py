"""Objects of one kind in memory: found by name and by index, read as snapshots that do not change."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Generic, NamedTuple
from weakref import ref

from transom.kube.decoding import MalformedObject
from transom.kube.memory_limits import MemoryLimit, estimate_memory_size
from transom.kube.objects import Metadata, ObjectMeta, StoredObject, T

IndexFunction = Callable[[T], Iterable[str]]
Listener = Callable[["ObjectKey", T | None, T | None], None]
"""Called with each change: the name, the old object, the new object."""


class ObjectKey(NamedTuple):
    """Where an object is kept: its namespace (None where the kind has none) and its name."""

    namespace: str | None
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def build_key(obj: StoredObject) -> ObjectKey:
    """Build the key under which an object is stored."""
    return ObjectKey(obj.metadata.namespace, obj.metadata.name)


class Snapshot(Generic[T]):
    """All objects at one moment. A snapshot costs nothing; a change copies the tables while a snapshot is in use."""

    __slots__ = ("__weakref__", "_indexes", "_objects", "malformed", "resource_version")

    def __init__(
        self,
        objects: Mapping[ObjectKey, T],
        indexes: Mapping[str, Mapping[str, tuple[ObjectKey, ...]]],
        malformed: Mapping[ObjectKey, MalformedObject],
        resource_version: str | None,
    ) -> None:
        self._objects = objects
        self._indexes = indexes
        self.malformed = malformed
        self.resource_version = resource_version

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[T]:
        # a generator keeps the snapshot as long as it is iterated
        yield from self._objects.values()

    def __contains__(self, name: ObjectKey) -> bool:
        return name in self._objects

    def get(self, key: ObjectKey) -> T | None:
        """Return the object with that key, or None."""
        return self._objects.get(key)

    def find_named(self, name: str, namespace: str | None = None) -> T | None:
        """Return the object with that name, or None."""
        return self._objects.get(ObjectKey(namespace, name))

    def iter_keys(self) -> Iterable[ObjectKey]:
        """Yield the keys of all objects."""
        yield from self._objects

    def list_by_index(self, index: str, value: str) -> list[T]:
        """List the objects for which `index` gives `value`, ordered by name. Raises KeyError for an unknown index."""
        return [self._objects[name] for name in self._indexes[index].get(value, ())]


class Store(Generic[T]):
    """What a reflector has read: it alone writes, anybody reads. No method waits, so an event loop needs no locks for it."""

    def __init__(self, indexes: Mapping[str, IndexFunction[T]] | None = None, memory_limit: MemoryLimit | None = None) -> None:
        """Hold nothing yet. What `memory_limit` leaves no room for is noted as malformed; its last version stays."""
        self.bound = memory_limit
        self.retained = 0
        """Bytes of all objects and notes, as `estimate_memory_size` counts them; 0 without a bound."""
        self.lacks_room = False
        """Whether an object was refused since the last list because the others leave no room."""
        self._functions = dict(indexes or {})
        self._objects: dict[ObjectKey, T] = {}
        self._indexes: dict[str, dict[str, tuple[ObjectKey, ...]]] = {index: {} for index in self._functions}
        """The names for each value, in order: a set of one takes four times the memory of a tuple, and most have one."""
        self._malformed: dict[ObjectKey, MalformedObject] = {}
        self._listeners: list[Listener[T]] = []
        self._taken: ref[Snapshot[T]] | None = None
        """The snapshot that shares the current tables, while it is referenced."""
        self.resource_version: str | None = None
        """The version up to which changes are in; None before the first list."""

    def __len__(self) -> int:
        return len(self._objects)

    @property
    def malformed(self) -> Mapping[ObjectKey, MalformedObject]:
        """Return the current invalid objects, and those of which only a part was read."""
        return MappingProxyType(self._malformed)

    def add_indexes(self, indexes: Mapping[str, IndexFunction[T]]) -> None:
        """Have objects found by more than so far: each index by its name, with the function that gives an object's values.

        Raises ValueError for another function of the same name, or once there are objects.
        """
        for index, function in indexes.items():
            if self._functions.get(index, function) is not function:
                raise ValueError(f"there is another index {index!r}")
            if index not in self._functions and self._objects:
                raise ValueError(f"index {index!r} comes after the objects")
            self._functions[index] = function
            self._copy_shared_tables()
            self._indexes.setdefault(index, {})

    def subscribe(self, listener: Listener[T]) -> None:
        """Call `listener` after each change, and at once for the existing objects."""
        self._listeners.append(listener)
        for name, obj in list(self._objects.items()):
            listener(name, None, obj)

    def take_snapshot(self) -> Snapshot[T]:
        """Return all current objects. Snapshots of several stores without an `await` between them belong together."""
        taken = self._get_shared_snapshot()
        if taken is None or taken.resource_version != self.resource_version:
            self._copy_shared_tables()
            taken = Snapshot(
                MappingProxyType(self._objects),
                MappingProxyType(self._indexes),
                MappingProxyType(self._malformed),
                self.resource_version,
            )
            self._taken = ref(taken)
        return taken

    def replace(self, items: Iterable[T], malformed: Iterable[MalformedObject], resource_version: str) -> None:
        """Put a whole list of `items` in place, as of `resource_version`.

        Missing objects are reported as deleted, unchanged ones are not reported. An object that no longer fits stays as it
        last was, and is named in `malformed`; so are those of which a part was read.
        """
        listed = {build_key(item): item for item in items}
        bad = {build_key(item.metadata): item for item in malformed}
        for name in [name for name in self._objects if name not in listed and name not in bad]:
            self.remove(name)
        self.lacks_room = False
        for name in [name for name in self._malformed if name not in bad]:
            self._forget_malformed(name)
        for name, entry in bad.items():
            if name not in listed:
                self.put_malformed(entry)
        for name, item in listed.items():
            self.put(item, bad.get(name))
        self.resource_version = resource_version

    def put(self, obj: T, malformed: MalformedObject | None = None) -> None:
        """Add an object or put it in the place of its last version; `malformed` says what of it was not read."""
        name = build_key(obj)
        before = self._objects.get(name)
        same = before is not None and before.metadata.resource_version == obj.metadata.resource_version
        # of one version, but read from another version of the API, it may differ
        if same and before == obj and self._malformed.get(name) == malformed:
            return
        if self.bound is not None:
            size = estimate_memory_size(obj)
            change = size - (estimate_memory_size(before) if before is not None else 0)
            refusal = self.bound.too_large_message if size > self.bound.object else ""
            if not refusal and change > 0 and self.retained + change > self.bound.store:
                self.lacks_room = True
                refusal = self.bound.no_room_message
            if refusal:
                meta = obj.metadata
                self.put_malformed(
                    MalformedObject(Metadata(ObjectMeta(meta.name, meta.namespace, meta.uid, meta.resource_version)), refusal)
                )
                return
            self.retained += change
        self._copy_shared_tables()
        self._forget_malformed(name)
        if malformed is not None:
            self._note_malformed(name, malformed)
        self._objects[name] = obj
        self._update_indexes(name, before, obj)
        self._notify_listeners(name, before, obj)

    def put_malformed(self, malformed: MalformedObject) -> None:
        """Note that the newest version of an object is invalid; the last one that did stays."""
        self._note_malformed(build_key(malformed.metadata), malformed)

    def remove(self, name: ObjectKey) -> None:
        """Remove an object, if it exists."""
        self._copy_shared_tables()
        self._forget_malformed(name)
        before = self._objects.pop(name, None)
        if before is not None:
            if self.bound is not None:
                self.retained -= estimate_memory_size(before)
            self._update_indexes(name, before, None)
            self._notify_listeners(name, before, None)

    def clear(self) -> None:
        """Take everything out: the kind itself is gone from the server."""
        self.replace((), (), "")
        self.resource_version = None

    def _note_malformed(self, name: ObjectKey, malformed: MalformedObject) -> None:
        self._forget_malformed(name)
        if self.bound is not None:
            size = estimate_memory_size(malformed)
            if self.retained + size > self.bound.store:
                self.lacks_room = True
                return
            self.retained += size
        self._copy_shared_tables()
        self._malformed[name] = malformed

    def _forget_malformed(self, name: ObjectKey) -> None:
        self._copy_shared_tables()
        before = self._malformed.pop(name, None)
        if before is not None and self.bound is not None:
            self.retained -= estimate_memory_size(before)

    def _notify_listeners(self, name: ObjectKey, before: T | None, after: T | None) -> None:
        for listener in self._listeners:
            listener(name, before, after)

    def _update_indexes(self, name: ObjectKey, before: T | None, after: T | None) -> None:
        for index, function in self._functions.items():
            old = frozenset(function(before)) if before is not None else frozenset()
            new = frozenset(function(after)) if after is not None else frozenset()
            values = self._indexes[index]
            for value in old - new:
                if left := _with_key_removed(values[value], name):
                    values[value] = left
                else:
                    del values[value]
            for value in new - old:
                values[value] = _with_key_inserted(values.get(value, ()), name)

    def _get_shared_snapshot(self) -> Snapshot[T] | None:
        return self._taken() if self._taken is not None else None

    def _copy_shared_tables(self) -> None:
        """Leave the tables to a snapshot that shares them."""
        if self._get_shared_snapshot() is not None:
            self._objects = self._objects.copy()
            self._indexes = {index: values.copy() for index, values in self._indexes.items()}
            self._malformed = self._malformed.copy()
            self._taken = None


def _get_sort_key(name: ObjectKey) -> tuple[str, str]:
    return name.namespace or "", name.name


def _with_key_inserted(names: tuple[ObjectKey, ...], name: ObjectKey) -> tuple[ObjectKey, ...]:
    place = bisect_left(names, _get_sort_key(name), key=_get_sort_key)
    # most come in order: then nothing but the end is new
    inserted = (name,)
    return names[:place] + inserted + names[place:]


def _with_key_removed(names: tuple[ObjectKey, ...], name: ObjectKey) -> tuple[ObjectKey, ...]:
    place = bisect_left(names, _get_sort_key(name), key=_get_sort_key)
    return names[:place] + names[place + 1 :]
