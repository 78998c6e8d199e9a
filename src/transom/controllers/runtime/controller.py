"""What a controller is."""

from typing import Protocol

import msgspec

from transom.controllers.runtime.leadership import Leadership
from transom.kube.queue import KeyQueue
from transom.kube.store import ObjectKey


class Result(msgspec.Struct, frozen=True):
    """How a key was done: `failed` is tried again after a while, else it is looked at again after `again` seconds."""

    failed: bool = False
    again: float | None = None


class Controller(Protocol):
    """What has keys to be worked on: each is (namespace or None, name)."""

    queue: KeyQueue[ObjectKey]

    def begin(self) -> None:
        """Follow the stores, which have been filled, and ask for what is there."""
        ...

    async def reconcile(self, key: ObjectKey, leadership: Leadership) -> Result:
        """Work on one key. What it raises costs this key alone, but for LeaseLost, which ends the term."""
        ...
