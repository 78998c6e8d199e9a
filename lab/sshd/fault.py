"""A fault that a test has ordered: at one request of a connection, once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Literal, NoReturn

import asyncssh
import msgspec


class Fault(msgspec.Struct, frozen=True):
    """What goes wrong at one request of a connection; requests count from 1, channel opens included.

    ``cut`` ends the connection, ``hang`` never answers this request. ``before``: the request has no effect; ``after``: it
    has had its effect, and the answer is lost; ``during`` (a command alone): it was started ``seconds`` ago. The first
    connection that reaches the request suffers it.
    """

    at: int
    when: Literal["before", "during", "after"] = "before"
    action: Literal["cut", "hang"] = "cut"
    seconds: float = 0.05

    async def apply(self, connection: asyncssh.SSHServerConnection) -> NoReturn:
        """Cut the connection, or hang until it ends; never returns."""
        if self.action == "cut":
            connection.abort()
        await asyncio.Event().wait()
        raise AssertionError


def write(file: Path, fault: Fault) -> None:
    """Order a fault."""
    unfinished = file.with_suffix(".new")
    unfinished.write_bytes(msgspec.json.encode(fault))
    unfinished.rename(file)


def take(file: Path, number: int) -> Fault | None:
    """Return and remove the scheduled fault if it is for this request, otherwise None."""
    try:
        fault = msgspec.json.decode(file.read_bytes(), type=Fault)
    except FileNotFoundError:
        return None
    if fault.at != number:
        return None
    file.unlink(missing_ok=True)
    return fault
