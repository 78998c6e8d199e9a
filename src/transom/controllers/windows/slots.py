"""How many nodes may be away at once: over all hosts, and of each machine set that says so."""

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Final

from transom.controllers.kept import HeldInstance, HostNode
from transom.controllers.watched import Watched
from transom.controllers.windows.machines import machine_sets, machines
from transom.controllers.windows.marks import ORIGIN, SOURCE
from transom.kube.store import Name

MAX_UNAVAILABLE: Final = "transom.dev/max-unavailable"
"""The annotation of a MachineSet: how many of its machines may be away at once."""
_SHOWN: Final = 3


class Slots:
    """A node is away that is not Ready, that Transom cordoned, or that was given a slot a moment ago.

    One that stays away longer than `hold` seconds is in nobody's way any more: a machine that is dead holds no upgrade up.
    """

    def __init__(
        self, watched: Watched, most: int, hold: float, now: Callable[[], datetime], ask: Callable[[Name], None]
    ) -> None:
        self._watched, self._most, self._hold, self._now, self._ask = watched, most, hold, now, ask
        self._machines = machines(watched)
        self._machine_sets = machine_sets(watched)
        self._taken: dict[Name, datetime] = {}
        self._away: dict[str, datetime] = {}
        """Names of nodes, and since when."""
        self._waiting: dict[Name, None] = {}

    def node_changed(self, name: str, node: HostNode | None) -> None:
        """A Node is there now, or changed."""
        since = _away_since(node) if node is not None else None
        if since is not None:
            self._away[name] = since
        elif self._away.pop(name, None) is not None:
            self._next()

    def refusal(self, held: HeldInstance) -> str | None:
        """Why the node of an instance may not go away now; None where it may. Who is refused is asked for again."""
        key = held.key
        others = {one for one in self._gone() if one != key}
        why = _full(others, self._most, "--max-unavailable")
        if why is None and (group := self._group(held)) is not None:
            machine_set, members = group
            why = _full(others & members, self._most_of(machine_set), f"{MAX_UNAVAILABLE} of MachineSet {machine_set[1]}")
        if why is not None:
            self._waiting[key] = None
        return why

    def has(self, key: Name) -> bool:
        """Whether a slot was taken and not given back."""
        return key in self._taken

    def take(self, held: HeldInstance) -> None:
        """The node of an instance goes away, or is away already."""
        self._waiting.pop(held.key, None)
        self._taken.setdefault(held.key, self._now())

    def give_back(self, key: Name) -> None:
        """The node is back, or is not to go away any more, or is to go for good: that one is in nobody's way."""
        self._waiting.pop(key, None)
        if self._taken.pop(key, None) is not None:
            self._next()

    def _next(self) -> None:
        free = max(0, self._most - len(set(self._gone())))
        for key in list(self._waiting)[:free]:
            del self._waiting[key]
            self._ask(key)

    def _gone(self) -> Iterator[Name]:
        now = self._now()
        for key, since in self._taken.items():
            if (now - since).total_seconds() < self._hold:
                yield key
        instances = self._watched.windows_instances.snapshot()
        for name, since in self._away.items():
            if (now - since).total_seconds() < self._hold:
                for held in instances.by("node", name):
                    if held.fields.get("lifecycle") == "Node" and held.metadata.deletion_timestamp is None:
                        yield held.key

    def _group(self, held: HeldInstance) -> tuple[Name, set[Name]] | None:
        """The machine set of an instance where it has a limit, and the instances of its machines."""
        owner = self._machine_set(held)
        if owner is None or self._limit(owner) is None:
            return None
        listed = self._watched.windows_instances.snapshot()
        return owner, {one.key for one in listed if self._machine_set(one) == owner}

    def _machine_set(self, held: HeldInstance) -> Name | None:
        if (held.metadata.labels or {}).get(SOURCE) != "Machine":
            return None
        origin = (held.metadata.annotations or {}).get(ORIGIN, "")
        for machine in self._machines.snapshot().by("origin", origin):
            for owner in machine.metadata.owner_references or ():
                if owner.kind == "MachineSet":
                    return machine.metadata.namespace, owner.name
        return None

    def _limit(self, machine_set: Name) -> str | None:
        held = self._machine_sets.snapshot().get(machine_set[1], machine_set[0])
        return (held.metadata.annotations or {}).get(MAX_UNAVAILABLE) if held is not None else None

    def _most_of(self, machine_set: Name) -> int:
        """What its annotation says; one that cannot be read lets one machine go at a time."""
        text = self._limit(machine_set) or ""
        return max(1, int(text)) if text.isascii() and text.isdigit() else 1


def _full(gone: set[Name], most: int, who_says: str) -> str | None:
    if len(gone) < most:
        return None
    names = ", ".join(sorted(name for _, name in gone)[:_SHOWN]) + (" …" if len(gone) > _SHOWN else "")
    return f"waits for {names}: {most} may be away at once ({who_says})"


def _away_since(node: HostNode) -> datetime | None:
    """Since when a Node is away; None where it takes pods, or a person cordoned it."""
    if node.cordoned_for is not None:
        return node.draining_since
    return node.ready.last_transition_time if node.ready is not None and not node.is_ready else None
