"""Checkpoints of a host, as virtual machines have them: what it is at one moment, and the way back there."""

import asyncio
from collections.abc import Awaitable, Iterator
from copy import copy
from typing import TypeVar

from winsim.entries import Entry, Junction, SimulatedDirectory, SimulatedFile, list_entries
from winsim.host import Host

_Entry = TypeVar("_Entry", bound=Entry)
_OWN = (
    "_boots", "booted_environment", "disabled_users", "exclusions", "features", "features_at_boot", "firewall", "name",
    "name_at_boot", "networks", "up", "users",
)  # fmt: skip
"""What a machine is besides registry, files, services and tasks: values, or sets and dictionaries of values."""


class Checkpoint:
    """The state of an idle host: no connections, and only services run.

    It does not include what was counted and recorded (`traffic`, `processes`, `unknown`), scheduled faults, and watchers.
    """

    def __init__(self, host: Host) -> None:
        """Copy the state of an idle host; `take` waits until it is idle."""
        self._host = host
        self._registry, self._keys = host.registry, host.keys.copy()
        self._root, self._free = _copy_entry(host.files.root), host.files.free
        self._services = [host.services.get(name).copy() for name in host.services.list_names()]
        self._tasks = [task for name in host.tasks.list_names() if (task := host.tasks.find(name)) is not None]
        self._own = {name: copy(getattr(host, name)) for name in _OWN}
        self._random = host.random.getstate()

    @classmethod
    async def take(cls, host: Host) -> "Checkpoint":
        """Wait until the host is idle and return a checkpoint of it."""
        while host.connections:  # noqa: ASYNC110  # their end has no event
            await asyncio.sleep(0.001)
        # what a connection had started learns of its end right after it
        await asyncio.sleep(0)
        await host.background.wait_until_idle()
        return cls(host)

    def take_again(self) -> "Awaitable[Checkpoint]":
        """Take another checkpoint of the same host as soon as it is idle."""
        return Checkpoint.take(self._host)

    def restore(self) -> None:
        """Restore the host to this state; the host must be idle."""
        host = self._host
        for name, value in self._own.items():
            setattr(host, name, copy(value))
        host.registry, host.keys = self._registry, self._keys.copy()
        host.files.root, host.files.free = _copy_entry(self._root), self._free
        host.services.replace(service.copy() for service in self._services)
        host.tasks.replace(self._tasks)
        host.random.setstate(self._random)

    @property
    def contents(self) -> tuple[object, ...]:
        """What comes after depends on nothing else: hosts with equal contents, treated alike, stay equal.

        When files changed, and what `%RANDOM%` gives next, is left out.
        """
        services = [
            (
                service.name,
                service.image,
                service.depends,
                service.start_type,
                service.state,
                service.deleted,
                service.exit_code,
                service.starts,
            )
            for service in self._services
        ]
        return self._registry, self._keys, list(_iter_contents(self._root)), self._free, services, self._tasks, self._own


def _copy_entry(entry: _Entry, parent: SimulatedDirectory | None = None) -> _Entry:
    made = copy(entry)
    # no client has it open: the host is idle
    made.parent, made.holds = parent, 0
    if isinstance(made, SimulatedDirectory):
        made.entries = {name: _copy_entry(below, made) for name, below in made.entries.items()}
    elif isinstance(made, SimulatedFile):
        made.data, made.opens = made.data[:], []
    return made


def _iter_contents(entry: Entry) -> Iterator[tuple[object, ...]]:
    content = bytes(entry.data) if isinstance(entry, SimulatedFile) else entry.target if isinstance(entry, Junction) else None
    yield entry.name, entry.owner, entry.acl, entry.protected, content
    if isinstance(entry, SimulatedDirectory):
        for below in list_entries(entry):
            yield from _iter_contents(below)
        yield ()
