"""What can be made to go wrong on a host, at a place that a test names."""

import asyncio
from typing import Literal

import msgspec

from transom.windows.registry.names import within


class Fault(msgspec.Struct, frozen=True):
    """What goes wrong at one request of a connection; requests count from 1, channel opens included.

    The first connection that reaches the request suffers it, once.
    """

    at: int
    when: Literal["before", "during", "after"] = "before"
    """`before` the request has an effect; `after` it, so that the answer is lost; `during` a command, at `program`."""
    action: Literal["cut", "hang"] = "cut"
    """`cut` ends the connection; `hang` answers neither this request nor any other of the connection."""
    program: int | str = 1
    """Counted from 1 since the command began, or a text: the first whose command line holds it. Those of services count too."""


class Faults:
    """What is wrong with one host. A full disk is `host.files.free = 0`."""

    __slots__ = ("denied", "disk_delay", "ordered", "refuses")

    def __init__(self) -> None:
        self.ordered: Fault | None = None
        """A fault that has not happened yet."""
        self.disk_delay = 0.0
        """Seconds that every file operation takes."""
        self.denied: set[str] = set()
        """Registry keys, in full, that nobody may read or change, with all below them."""
        self.refuses = False
        """Whether connections are closed as soon as they are made."""

    def arm(self, fault: Fault) -> None:
        """Orders a fault."""
        self.ordered = fault

    def disarm(self) -> None:
        """Takes back what was ordered."""
        self.ordered = None

    def take(self, number: int) -> Fault | None:
        """The ordered fault if it is for this request; it is then no longer ordered."""
        fault = self.ordered
        if fault is None or fault.at != number:
            return None
        self.ordered = None
        return fault

    def denies(self, path: str) -> bool:
        """Whether a key is one that nobody may touch, or below one."""
        return any(within(path, denied) for denied in self.denied)

    async def disk(self) -> None:
        """Waits as long as a file operation takes."""
        if self.disk_delay:
            await asyncio.sleep(self.disk_delay)
