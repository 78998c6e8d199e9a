"""How far the hosts of this cluster are with the settings that hold. Pure."""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from transom.controllers.runtime.cached import CachedInstance
from transom.controllers.runtime.conditions import PENDING, Condition
from transom.proxy.status import HostsStatus

WAITS: Final = frozenset((PENDING, "RolloutHalted", "PendingBoot", "PendingRestart", "NotChecked", "Waiting", "Removing"))
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


def counted(instances: Iterable[CachedInstance], settings: str | None) -> HostCounts:
    """Those among the hosts of one cluster; `settings` is the keyed hash of what holds."""
    updated, waiting, failed = 0, 0, []
    for one in instances:
        if one.fields.get("paused"):
            continue
        ready = one.live.condition("Ready")
        known = ready.observed_generation == one.metadata.generation
        if known and ready.status == "True" and settings is not None and one.live.settings == settings:
            updated += 1
        elif known and ready.status == "False" and ready.reason not in WAITS:
            failed.append(one.metadata.name)
        else:
            waiting += 1
    return HostCounts(updated, waiting, tuple(sorted(failed)))


def said(one: CachedInstance) -> tuple[Any, ...]:
    """What of an instance counts here."""
    ready = one.live.condition("Ready")
    return one.metadata.generation, bool(one.fields.get("paused")), one.live.settings, ready.status, ready.reason
