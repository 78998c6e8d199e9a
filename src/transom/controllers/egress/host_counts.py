"""How far the hosts of this cluster are with the settings that hold. Pure."""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from transom.controllers.runtime.cached import CachedInstance
from transom.controllers.runtime.conditions import PENDING, Condition

_WAITS: Final = frozenset((PENDING, "RolloutHalted", "PendingBoot", "PendingRestart", "NotChecked", "Waiting", "Removing"))
"""Reasons of a host that is not there yet, and with which nothing is wrong."""
_SHOWN: Final = 3


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
    def fields(self) -> dict[str, int]:
        """As `status.hosts` has them."""
        return {"total": self.total, "updated": self.updated, "waiting": self.waiting, "failed": len(self.failed)}

    @property
    def condition(self) -> Condition:
        """What they say of Ready."""
        have = f"{self.updated:,} of {self.total:,} hosts have these settings"
        if self.failed:
            more = f" and {len(self.failed) - _SHOWN:,} more" if len(self.failed) > _SHOWN else ""
            return Condition("False", "HostsFailed", f"{have}; see {', '.join(self.failed[:_SHOWN])}{more}")
        return Condition("False", PENDING, have) if self.waiting else Condition("True", "Ready", have)


def counted(instances: Iterable[CachedInstance], settings: str | None) -> HostCounts:
    """Those among the hosts of one cluster; `settings` is the keyed hash of what holds."""
    updated, waiting, failed = 0, 0, []
    for one in instances:
        if one.fields.get("paused"):
            continue
        ready = _ready(one)
        known = ready.get("observedGeneration") == one.metadata.generation
        if known and ready.get("status") == "True" and settings is not None and one.live.get("settings") == settings:
            updated += 1
        elif known and ready.get("status") == "False" and ready.get("reason") not in _WAITS:
            failed.append(one.metadata.name)
        else:
            waiting += 1
    return HostCounts(updated, waiting, tuple(sorted(failed)))


def said(one: CachedInstance) -> tuple[Any, ...]:
    """What of an instance counts here."""
    ready = _ready(one)
    paused = bool(one.fields.get("paused"))
    return one.metadata.generation, paused, one.live.get("settings"), *(ready.get(key) for key in ("status", "reason"))


def _ready(one: CachedInstance) -> dict[str, Any]:
    return next((each for each in one.live.get("conditions") or () if each.get("type") == "Ready"), {})
