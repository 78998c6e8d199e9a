"""The progress of the hosts of this cluster with the current settings."""

from collections import Counter
from typing import Final, Literal

import msgspec

from transom.common.counting import format_first
from transom.controllers.runtime.cached_objects import CachedInstance
from transom.controllers.runtime.conditions import PENDING, Condition
from transom.proxy.status import HostsStatus

WAITS: Final = frozenset((PENDING, "RolloutHalted", "PendingBoot", "PendingRestart", "NotChecked", "Waiting", "Removing"))
"""Reasons of a host that is in progress and healthy."""
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
            return Condition("False", "HostsFailed", f"{have}; see {format_first(self.failed, _SHOWN)}")
        return Condition("False", PENDING, have) if self.waiting else Condition("True", "Ready", have)


class HostTally:
    """Counts the hosts of this cluster from each change of an instance: to read ten thousand each second takes time."""

    def __init__(self) -> None:
        self._waiting = 0
        self._ready: Counter[str] = Counter()
        """By the keyed hash of the settings that they are ready with."""
        self._failed: set[str] = set()

    def record_change(self, before: CachedInstance | None, after: CachedInstance | None) -> bool:
        """Record that an instance changed from `before`, as recorded earlier, to `after`. Return True if a count changed."""
        was, now = _get_host_state(before), _get_host_state(after)
        if was == now:
            return False
        self._add(was, before, -1)
        self._add(now, after, 1)
        return True

    def get_counts(self, settings: str | None) -> HostCounts:
        """Return the current counts; `settings` is the keyed hash of the effective settings."""
        updated = self._ready[settings] if settings is not None else 0
        return HostCounts(updated, self._waiting + self._ready.total() - updated, tuple(sorted(self._failed)))

    def _add(self, standing: _Standing, instance: CachedInstance | None, count: int) -> None:
        match standing:
            case "waiting", _:
                self._waiting += count
            case "ready", settings:
                self._ready[settings] += count
                if not self._ready[settings]:
                    del self._ready[settings]
            case "failed", _ if instance is not None:
                (self._failed.add if count > 0 else self._failed.discard)(instance.metadata.name)


def _get_host_state(instance: CachedInstance | None) -> _Standing:
    """Return the state of a host and, if it is ready, its settings. None for a host that does not count."""
    if instance is None or instance.spec_fields.get("paused") or isinstance(instance.spec_fields.get("clusterRef"), dict):
        return None
    ready = instance.live.get_condition("Ready")
    known = ready.observed_generation == instance.metadata.generation
    if known and ready.status == "True":
        return "ready", instance.live.settings
    return ("failed" if known and ready.status == "False" and ready.reason not in WAITS else "waiting"), ""
