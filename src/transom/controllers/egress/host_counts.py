"""How far the hosts of this cluster are with the settings that hold."""

from collections import Counter
from typing import Final, Literal

import msgspec

from transom.controllers.runtime.cached import CachedInstance
from transom.controllers.runtime.conditions import PENDING, Condition
from transom.proxy.status import HostsStatus

WAITS: Final = frozenset((PENDING, "RolloutHalted", "PendingBoot", "PendingRestart", "NotChecked", "Waiting", "Removing"))
"""Reasons of a host that is not there yet, and with which nothing is wrong."""
_SHOWN: Final = 3
_Standing = tuple[Literal["waiting", "ready", "failed"], str] | None


class HostCounts(msgspec.Struct, frozen=True):
    """Hosts that are not paused, by how far they are; the names of those with which something is wrong."""

    updated: int = 0
    waiting: int = 0
    failed: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        """All of them."""
        return self.updated + self.waiting + len(self.failed)

    @property
    def status(self) -> HostsStatus:
        """As `status.hosts` has them."""
        return HostsStatus(self.total, self.updated, self.waiting, len(self.failed))

    @property
    def condition(self) -> Condition:
        """What they say of Ready."""
        have = f"{self.updated:,} of {self.total:,} hosts have these settings"
        if self.failed:
            more = f" and {len(self.failed) - _SHOWN:,} more" if len(self.failed) > _SHOWN else ""
            return Condition("False", "HostsFailed", f"{have}; see {', '.join(self.failed[:_SHOWN])}{more}")
        return Condition("False", PENDING, have) if self.waiting else Condition("True", "Ready", have)


class HostTally:
    """Counts the hosts of this cluster, told of each change of an instance: to look at ten thousand each second takes time."""

    def __init__(self) -> None:
        self._waiting = 0
        self._ready: Counter[str] = Counter()
        """By the keyed hash of the settings that they are ready with."""
        self._failed: set[str] = set()

    def change(self, before: CachedInstance | None, after: CachedInstance | None) -> bool:
        """An instance was `before`, as was told here, and is `after` now. Gives whether that counts."""
        was, now = _standing(before), _standing(after)
        if was == now:
            return False
        self._add(was, before, -1)
        self._add(now, after, 1)
        return True

    def counts(self, settings: str | None) -> HostCounts:
        """As they are now; `settings` is the keyed hash of what holds."""
        updated = self._ready[settings] if settings is not None else 0
        return HostCounts(updated, self._waiting + self._ready.total() - updated, tuple(sorted(self._failed)))

    def _add(self, standing: _Standing, one: CachedInstance | None, count: int) -> None:
        match standing:
            case "waiting", _:
                self._waiting += count
            case "ready", settings:
                self._ready[settings] += count
                if not self._ready[settings]:
                    del self._ready[settings]
            case "failed", _ if one is not None:
                (self._failed.add if count > 0 else self._failed.discard)(one.metadata.name)


def _standing(one: CachedInstance | None) -> _Standing:
    """How far a host is; a host that is ready, with which settings. None for one that does not count."""
    if one is None or one.fields.get("paused") or isinstance(one.fields.get("clusterRef"), dict):
        return None
    ready = one.live.condition("Ready")
    known = ready.observed_generation == one.metadata.generation
    if known and ready.status == "True":
        return "ready", one.live.settings
    return ("failed" if known and ready.status == "False" and ready.reason not in WAITS else "waiting"), ""
