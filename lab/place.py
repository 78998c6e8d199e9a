"""Where a machine stands: the address that others reach it by, and how a process is started there."""

from __future__ import annotations

from dataclasses import dataclass

from lab.ports import reserve


@dataclass(frozen=True)
class Place:
    """An address, and the Linux command that runs the rest of its arguments there (empty: here).

    ``namespace`` is the file of its network namespace, for who has a file system of its own.
    """

    address: str
    port: int
    inside: tuple[str, ...] = ()
    namespace: str = ""


def reserve_loopback() -> Place:
    """Return a place on this machine's loopback, with a port of its own."""
    return Place("127.0.0.1", reserve())
