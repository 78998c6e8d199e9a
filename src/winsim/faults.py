"""What can be made to go wrong on a host, at a place that a test names."""

import asyncio
from typing import Literal

import msgspec

from transom.windows.registry.names import is_within


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
        """Registry keys, in full, that no account may read or change, with all below them."""
        self.refuses = False
        """Whether connections are closed as soon as they are made."""

    def schedule_fault(self, fault: Fault) -> None:
        """Schedule a fault."""
        self.ordered = fault

    def cancel_fault(self) -> None:
        """Cancel the scheduled fault."""
        self.ordered = None

    def take_fault(self, number: int) -> Fault | None:
        """Return and remove the scheduled fault if it is for this request, otherwise None."""
        fault = self.ordered
        if fault is None or fault.at != number:
            return None
        self.ordered = None
        return fault

    def is_denied(self, path: str) -> bool:
        """Return True if access to the key, or to a key above it, is denied."""
        return any(is_within(path, denied) for denied in self.denied)

    async def wait_for_disk(self) -> None:
        """Wait for as long as a file operation takes."""
        if self.disk_delay:
            await asyncio.sleep(self.disk_delay)
