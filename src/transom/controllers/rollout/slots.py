"""How many nodes may be away at once: over all hosts, and of each machine set with a limit."""

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Final

from transom.controllers.runtime.cached_objects import ORIGIN, SOURCE, CachedInstance, HostNode
from transom.controllers.runtime.informers import Informers, watch_machine_sets, watch_machines
from transom.kube.store import ObjectKey

MAX_UNAVAILABLE: Final = "transom.dev/max-unavailable"
"""The annotation of a MachineSet: how many of its machines may be away at once."""
_SHOWN: Final = 3


class UnavailabilitySlots:
    """Limits how many nodes are away: not Ready, cordoned by Transom, or given a slot a moment ago.

    A node that is away longer than `hold` seconds no longer counts: a dead machine does not block upgrades.
    """

    def __init__(
        self,
        informers: Informers,
        max_unavailable: int,
        hold: float,
        now: Callable[[], datetime],
        enqueue: Callable[[ObjectKey], None],
    ) -> None:
        self._informers, self._most, self._hold, self._now, self._ask = informers, max_unavailable, hold, now, enqueue
        self._machines = watch_machines(informers)
        self._machine_sets = watch_machine_sets(informers)
        self._taken: dict[ObjectKey, datetime] = {}
        self._away: dict[str, datetime] = {}
        """Names of nodes, and since when."""
        self._waiting: dict[ObjectKey, None] = {}

    def update_node(self, name: str, node: HostNode | None) -> None:
        """Record a new or changed Node."""
        since = _get_away_since(node) if node is not None else None
        if since is not None:
            self._away[name] = since
        elif self._away.pop(name, None) is not None:
            self._enqueue_next()

    def find_wait_reason(self, cached: CachedInstance) -> str | None:
        """Return why the node of an instance must not go away now.

        None if it may. A refused instance is enqueued again later.
        """
        key = cached.key
        others = {item for item in self._iter_away() if item != key}
        why = _explain_limit(others, self._most, "--max-unavailable")
        if why is None and (group := self._find_machine_set_members(cached)) is not None:
            machine_set, members = group
            why = _explain_limit(
                others & members, self._read_limit(machine_set), f"{MAX_UNAVAILABLE} of MachineSet {machine_set.name}"
            )
        if why is not None:
            self._waiting[key] = None
        return why

    def has(self, key: ObjectKey) -> bool:
        """Return True if an instance holds a slot."""
        return key in self._taken

    def take(self, cached: CachedInstance) -> None:
        """Take a slot for a node that goes away or is away already."""
        self._waiting.pop(cached.key, None)
        self._taken.setdefault(cached.key, self._now())

    def release(self, key: ObjectKey) -> None:
        """Release the slot of a node that is back, stays, or is deleted."""
        self._waiting.pop(key, None)
        if self._taken.pop(key, None) is not None:
            self._enqueue_next()

    def _enqueue_next(self) -> None:
        free = max(0, self._most - len(set(self._iter_away())))
        for key in list(self._waiting)[:free]:
            del self._waiting[key]
            self._ask(key)

    def _iter_away(self) -> Iterator[ObjectKey]:
        now = self._now()
        for key, since in self._taken.items():
            if (now - since).total_seconds() < self._hold:
                yield key
        instances = self._informers.windows_instances.take_snapshot()
        for name, since in self._away.items():
            if (now - since).total_seconds() < self._hold:
                for cached in instances.list_by_index("node", name):
                    if cached.spec_fields.get("lifecycle") == "Node" and cached.metadata.deletion_timestamp is None:
                        yield cached.key

    def _find_machine_set_members(self, cached: CachedInstance) -> tuple[ObjectKey, set[ObjectKey]] | None:
        """Return the machine set of an instance if it has a limit, and the instances of its machines."""
        owner = self._find_machine_set(cached)
        if owner is None or self._get_limit_annotation(owner) is None:
            return None
        listed = self._informers.windows_instances.take_snapshot()
        return owner, {item.key for item in listed if self._find_machine_set(item) == owner}

    def _find_machine_set(self, cached: CachedInstance) -> ObjectKey | None:
        if (cached.metadata.labels or {}).get(SOURCE) != "Machine":
            return None
        origin = (cached.metadata.annotations or {}).get(ORIGIN, "")
        for machine in self._machines.take_snapshot().list_by_index("origin", origin):
            for owner in machine.metadata.owner_references or ():
                if owner.kind == "MachineSet":
                    return ObjectKey(machine.metadata.namespace, owner.name)
        return None

    def _get_limit_annotation(self, machine_set: ObjectKey) -> str | None:
        cached = self._machine_sets.take_snapshot().get(machine_set)
        return (cached.metadata.annotations or {}).get(MAX_UNAVAILABLE) if cached is not None else None

    def _read_limit(self, machine_set: ObjectKey) -> int:
        """Return the limit in a machine set's annotation; 1 if it cannot be parsed."""
        text = self._get_limit_annotation(machine_set) or ""
        return max(1, int(text)) if text.isascii() and text.isdigit() else 1


def _explain_limit(unavailable: set[ObjectKey], max_unavailable: int, source: str) -> str | None:
    if len(unavailable) < max_unavailable:
        return None
    names = ", ".join(sorted(name for _, name in unavailable)[:_SHOWN]) + (" …" if len(unavailable) > _SHOWN else "")
    return f"waits for {names}: {max_unavailable} may be away at once ({source})"


def _get_away_since(node: HostNode) -> datetime | None:
    """Since when a Node is away; None where it takes pods, or a person cordoned it."""
    if node.cordoned_for is not None:
        return node.draining_since
    return node.ready.last_transition_time if node.ready is not None and not node.is_ready else None
