"""How many nodes may be away at once: over all hosts, and of each machine set that says so."""

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Final

from transom.controllers.runtime.cached import ORIGIN, SOURCE, CachedInstance, HostNode
from transom.controllers.runtime.informers import Informers, machine_sets, machines
from transom.kube.store import ObjectKey

MAX_UNAVAILABLE: Final = "transom.dev/max-unavailable"
"""The annotation of a MachineSet: how many of its machines may be away at once."""
_SHOWN: Final = 3


class Slots:
    """A node is away that is not Ready, that Transom cordoned, or that was given a slot a moment ago.

    One that stays away longer than `hold` seconds is in nobody's way any more: a machine that is dead holds no upgrade up.
    """

    def __init__(
        self, informers: Informers, most: int, hold: float, now: Callable[[], datetime], ask: Callable[[ObjectKey], None]
    ) -> None:
        self._informers, self._most, self._hold, self._now, self._ask = informers, most, hold, now, ask
        self._machines = machines(informers)
        self._machine_sets = machine_sets(informers)
        self._taken: dict[ObjectKey, datetime] = {}
        self._away: dict[str, datetime] = {}
        """Names of nodes, and since when."""
        self._waiting: dict[ObjectKey, None] = {}

    def node_changed(self, name: str, node: HostNode | None) -> None:
        """A Node is there now, or changed."""
        since = _away_since(node) if node is not None else None
        if since is not None:
            self._away[name] = since
        elif self._away.pop(name, None) is not None:
            self._next()

    def refusal(self, cached: CachedInstance) -> str | None:
        """Why the node of an instance may not go away now; None where it may. Who is refused is asked for again."""
        key = cached.key
        others = {one for one in self._gone() if one != key}
        why = _full(others, self._most, "--max-unavailable")
        if why is None and (group := self._group(cached)) is not None:
            machine_set, members = group
            why = _full(others & members, self._most_of(machine_set), f"{MAX_UNAVAILABLE} of MachineSet {machine_set.name}")
        if why is not None:
            self._waiting[key] = None
        return why

    def has(self, key: ObjectKey) -> bool:
        """Whether a slot was taken and not given back."""
        return key in self._taken

    def take(self, cached: CachedInstance) -> None:
        """The node of an instance goes away, or is away already."""
        self._waiting.pop(cached.key, None)
        self._taken.setdefault(cached.key, self._now())

    def give_back(self, key: ObjectKey) -> None:
        """The node is back, or is not to go away any more, or is to go for good: that one is in nobody's way."""
        self._waiting.pop(key, None)
        if self._taken.pop(key, None) is not None:
            self._next()

    def _next(self) -> None:
        free = max(0, self._most - len(set(self._gone())))
        for key in list(self._waiting)[:free]:
            del self._waiting[key]
            self._ask(key)

    def _gone(self) -> Iterator[ObjectKey]:
        now = self._now()
        for key, since in self._taken.items():
            if (now - since).total_seconds() < self._hold:
                yield key
        instances = self._informers.windows_instances.snapshot()
        for name, since in self._away.items():
            if (now - since).total_seconds() < self._hold:
                for cached in instances.by("node", name):
                    if cached.fields.get("lifecycle") == "Node" and cached.metadata.deletion_timestamp is None:
                        yield cached.key

    def _group(self, cached: CachedInstance) -> tuple[ObjectKey, set[ObjectKey]] | None:
        """The machine set of an instance where it has a limit, and the instances of its machines."""
        owner = self._machine_set(cached)
        if owner is None or self._limit(owner) is None:
            return None
        listed = self._informers.windows_instances.snapshot()
        return owner, {one.key for one in listed if self._machine_set(one) == owner}

    def _machine_set(self, cached: CachedInstance) -> ObjectKey | None:
        if (cached.metadata.labels or {}).get(SOURCE) != "Machine":
            return None
        origin = (cached.metadata.annotations or {}).get(ORIGIN, "")
        for machine in self._machines.snapshot().by("origin", origin):
            for owner in machine.metadata.owner_references or ():
                if owner.kind == "MachineSet":
                    return ObjectKey(machine.metadata.namespace, owner.name)
        return None

    def _limit(self, machine_set: ObjectKey) -> str | None:
        cached = self._machine_sets.snapshot().get(machine_set)
        return (cached.metadata.annotations or {}).get(MAX_UNAVAILABLE) if cached is not None else None

    def _most_of(self, machine_set: ObjectKey) -> int:
        """What its annotation says; one that cannot be read lets one machine go at a time."""
        text = self._limit(machine_set) or ""
        return max(1, int(text)) if text.isascii() and text.isdigit() else 1


def _full(gone: set[ObjectKey], most: int, who_says: str) -> str | None:
    if len(gone) < most:
        return None
    names = ", ".join(sorted(name for _, name in gone)[:_SHOWN]) + (" …" if len(gone) > _SHOWN else "")
    return f"waits for {names}: {most} may be away at once ({who_says})"


def _away_since(node: HostNode) -> datetime | None:
    """Since when a Node is away; None where it takes pods, or a person cordoned it."""
    if node.cordoned_for is not None:
        return node.draining_since
    return node.ready.last_transition_time if node.ready is not None and not node.is_ready else None
