"""A Windows host as a value: what was read from it, and what it should be, are one type."""

import enum

import msgspec

from transom.windows.registry import Registry


class ServiceState(enum.IntEnum):
    """SERVICE_STATUS.dwCurrentState (winsvc.h), the number that `sc query` prints."""

    STOPPED = 1
    START_PENDING = 2
    STOP_PENDING = 3
    RUNNING = 4
    CONTINUE_PENDING = 5
    PAUSE_PENDING = 6
    PAUSED = 7


class Service(msgspec.Struct, frozen=True):
    """A service that exists: its name in the host's spelling and its state; its configuration is in the registry."""

    name: str
    state: ServiceState


class HostState(msgspec.Struct, frozen=True):
    """Registry values, services, files.

    `registry` holds the keys that were read or listed. `services` holds those of the services asked for that exist.
    `boot` is BootId of the prefetcher, which Windows counts up at every boot; None where it was not read.
    `dependencies` maps every service of the host to the services that it depends on (DependOnService), where that was read.
    `computer_name` and `os_version` (`10.0.20348.2485`) are for people.
    `files` maps paths (`C:\\…`) of files that are of interest to their SHA-256.
    """

    registry: Registry
    services: tuple[Service, ...] = ()
    boot: int | None = None
    dependencies: dict[str, tuple[str, ...]] | None = None
    files: dict[str, str] = {}
    computer_name: str = ""
    os_version: str = ""

    def service(self, name: str) -> Service | None:
        """The service of that name, compared without case."""
        return next((s for s in self.services if s.name.casefold() == name.casefold()), None)
