"""Checkpoints of a host, as virtual machines have them: what it is at one moment, and the way back there."""

import asyncio
from collections.abc import Awaitable, Iterator
from copy import copy
from typing import TypeVar

from winsim.entries import Entry, Junction, SimulatedDirectory, SimulatedFile, listed
from winsim.host import Host

_Entry = TypeVar("_Entry", bound=Entry)
_OWN = (
    "_boots", "booted_environment", "disabled_users", "exclusions", "features", "features_at_boot", "firewall", "name",
    "name_at_boot", "networks", "up", "users",
)  # fmt: skip
"""What a machine is besides registry, files, services and tasks: values, or sets and dictionaries of values."""


class Checkpoint:
    """What a host is that is at rest: nobody is connected, and nothing runs but services.

    What was counted and written down of it (`traffic`, `processes`, `unknown`), the faults that were ordered, and who looks on
    are no part of it.
    """

    def __init__(self, host: Host) -> None:
        """`taken` waits until the host is at rest."""
        self._host = host
        self._registry, self._keys = host.registry, host.keys.copy()
        self._root, self._free = _copied(host.files.root), host.files.free
        self._services = [host.services.get(name).copy() for name in host.services.names()]
        self._tasks = [task for name in host.tasks.names() if (task := host.tasks.find(name)) is not None]
        self._own = {name: copy(getattr(host, name)) for name in _OWN}
        self._random = host.random.getstate()

    @classmethod
    async def taken(cls, host: Host) -> "Checkpoint":
        """A checkpoint as soon as the host is at rest."""
        while host.connections:  # noqa: ASYNC110  # nobody is told of their end
            await asyncio.sleep(0.001)
        # what a connection had started learns of its end right after it
        await asyncio.sleep(0)
        await host.background.finished()
        return cls(host)

    def later(self) -> "Awaitable[Checkpoint]":
        """Another one of the same host, as soon as it is at rest."""
        return Checkpoint.taken(self._host)

    def restore(self) -> None:
        """Makes the host what it was; it has to be at rest."""
        host = self._host
        for name, value in self._own.items():
            setattr(host, name, copy(value))
        host.registry, host.keys = self._registry, self._keys.copy()
        host.files.root, host.files.free = _copied(self._root), self._free
        host.services.replace(service.copy() for service in self._services)
        host.tasks.replace(self._tasks)
        host.random.setstate(self._random)

    @property
    def contents(self) -> tuple[object, ...]:
        """What comes after depends on nothing else: hosts with equal contents, treated alike, stay equal.

        When files changed, and what `%RANDOM%` gives next, is left out.
        """
        services = [
            (one.name, one.image, one.depends, one.start_type, one.state, one.deleted, one.exit_code, one.starts)
            for one in self._services
        ]
        return self._registry, self._keys, list(_below(self._root)), self._free, services, self._tasks, self._own


def _copied(entry: _Entry, parent: SimulatedDirectory | None = None) -> _Entry:
    made = copy(entry)
    # nobody has it open: the host is at rest
    made.parent, made.holds = parent, 0
    if isinstance(made, SimulatedDirectory):
        made.entries = {name: _copied(below, made) for name, below in made.entries.items()}
    elif isinstance(made, SimulatedFile):
        made.data, made.opens = made.data[:], []
    return made


def _below(entry: Entry) -> Iterator[tuple[object, ...]]:
    content = bytes(entry.data) if isinstance(entry, SimulatedFile) else entry.target if isinstance(entry, Junction) else None
    yield entry.name, entry.owner, entry.acl, entry.protected, content
    if isinstance(entry, SimulatedDirectory):
        for below in listed(entry):
            yield from _below(below)
        yield ()
