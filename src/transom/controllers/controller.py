"""What a controller is, and what it is made of."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Protocol

import msgspec

from transom.controllers.options import Options
from transom.controllers.reports import Reports
from transom.controllers.settings import CurrentSettings
from transom.controllers.term import Term
from transom.controllers.watched import Watched
from transom.controllers.windows.key_rotation import KeyRotation
from transom.controllers.windows.members import Members
from transom.controllers.windows.rollouts import Rollouts, rollouts_of
from transom.hosts.passes import PassResult
from transom.kube.queue import KeyQueue
from transom.kube.store import Name


class Outcome(msgspec.Struct, frozen=True):
    """How a key was done: `failed` is tried again after a while, else it is looked at again after `again` seconds."""

    failed: bool = False
    again: float | None = None


class Controller(Protocol):
    """What has keys to be worked on: each is (namespace or None, name)."""

    queue: KeyQueue[Name]

    def begin(self) -> None:
        """Follow the stores, which have been filled, and ask for what is there."""
        ...

    async def reconcile(self, key: Name, term: Term) -> Outcome:
        """Work on one key. What it raises costs this key alone, but for LeaseLost, which ends the term."""
        ...


@dataclass(frozen=True)
class Surroundings:
    """What a controller is made from. It says what else it has to see by `watched.watch`, when it is made."""

    watched: Watched
    settings: CurrentSettings
    options: Options
    observe: Callable[[PassResult], None]
    """Told of each pass on a host, for the metrics."""
    now: Callable[[], datetime]
    reports: Reports
    """What each controller says of an EgressProxy."""

    @cached_property
    def members(self) -> Members:
        """The hosts that Transom joins; several controllers know them."""
        return Members(self.watched, self.now)

    @cached_property
    def rollouts(self) -> Rollouts:
        """Whose turn it is to get other settings, of all Windows hosts."""
        return rollouts_of(self.watched, self.reports)

    @cached_property
    def keys(self) -> KeyRotation:
        """Which SSH keys open which Windows host."""
        return KeyRotation(self.watched)


Maker = Callable[[Surroundings], Controller]
