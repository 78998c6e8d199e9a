"""A Windows host as a value: what is on it, what is asked of it, and the steps that change it.

What it should be and what was read from it have one base, and are told apart by their types.
"""

import enum
from typing import Literal

import msgspec

from transom.windows.host.entries import digest
from transom.windows.registry import Registry, reg
from transom.windows.registry.names import same

Action = Literal["add", "replace", "remove", "restart"]
Kind = Literal["machine-environment", "service-environment", "certificate", "service", "file", "directory", "windows", "ledger"]


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


CHANGED = "changed"
"""What stands for a hash where a file is there and is not as it was sent."""
STAMP = 1_577_836_800
"""The earliest time that a file is given: 2020-01-01, in seconds since 1970."""


def stamp(digest: str) -> int:
    """The time that a file of this digest is given when it is sent: part of how an unchanged one is known again.

    With the size it stands for the content, so that nothing has to be hashed on the host in a pass that finds all as it was.
    """
    return STAMP + int(digest[:6], 16)


class Preparation(msgspec.Struct, frozen=True):
    """What has to be done to Windows itself before a worker's services can be there."""

    containers: bool = False
    """Whether the feature Containers has to be enabled."""
    name: str = ""
    """The name that the computer has to get; empty: as it is."""
    ports: tuple[int, ...] = ()
    """TCP ports that the firewall lets in."""
    directories: tuple[str, ...] = ()
    """Full paths. One that is there already has to be Transom's own, or nobody's."""


class HostState(msgspec.Struct, frozen=True):
    """What a wish and an observation both have: registry values, services, files, directories.

    `registry` has the keys that are wished for, or were read. `services` has those that are wished for, or those asked for that
    exist. `files` maps paths (`C:\\…`); `directories` are paths.
    """

    registry: Registry
    services: tuple[Service, ...] = ()
    files: dict[str, str] = {}
    directories: tuple[str, ...] = ()

    def service(self, name: str) -> Service | None:
        """The service of that name, compared without case."""
        return next((s for s in self.services if same(s.name, name)), None)


class DesiredState(HostState, frozen=True, kw_only=True):
    """What is ours on a host, and nothing else. `files` has SHA-256.

    `sizes` has the files' sizes in bytes, `readers` the services that read them.
    `trusting` are the services that are restarted with the trust store, None: all that are managed.
    Of `directories`, `owned` go with all that is in them when the host is given back, and `closed` hold keys.
    `networks` are the HNS networks that services make, by service. `takes` are services of another operator that become ours.
    `payload` is the version of what is installed; None leaves services, files and directories as they are, and "" removes them.
    `preparation` is what is done to Windows itself.
    """

    sizes: dict[str, int] = {}
    readers: dict[str, tuple[str, ...]] = {}
    trusting: tuple[str, ...] | None = None
    owned: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()
    networks: dict[str, tuple[str, ...]] = {}
    takes: tuple[str, ...] = ()
    payload: str | None = None
    preparation: Preparation | None = None

    def digest(self, salt: bytes) -> str:
        """A salted hash of registry and files, in 32 hex digits: the ledger says by it what a host was brought to."""
        files = "".join(map(" ".join, sorted(self.files.items())))
        return digest(salt, "StateHash", reg.rendered(self.registry).hex() + files)


class ObservedState(HostState, frozen=True, kw_only=True):
    """What was read from a host. `files` has the ledger's digests, or CHANGED.

    `boot` is another number after every boot: BootId of the prefetcher, or one of ours that a boot takes away; None where it
    was not read.
    `dependencies` maps every service of the host to the services that it depends on (DependOnService), where that was read.
    `found` has the SHA-256 of files that lay there when services of another operator become ours.
    `outputs` are what scripts of the payload printed, and `complaints` what those said that failed.
    `computer_name`, `os_version` (`10.0.20348.2485`) and `ssh_server` (what that calls itself) are for people.
    `reached` is the IP address that SSH went to, and `own_address` the one that the host says it was reached at: another one
    behind NAT or a jump host. Empty where not known.
    """

    boot: int | None = None
    dependencies: dict[str, tuple[str, ...]] | None = None
    found: dict[str, str] = {}
    outputs: dict[str, str] = {}
    complaints: dict[str, str] = {}
    computer_name: str = ""
    os_version: str = ""
    reached: str = ""
    own_address: str = ""
    ssh_server: str = ""


class Step(msgspec.Struct, frozen=True):
    """One change as people and JSON see it. No secret stands in it: targets name the thing, reasons say why."""

    kind: Kind
    target: str
    action: Action
    reason: str
    before: str | None = None
    """A variable's value, or WinHTTP's proxies and bypass list, userinfo as `***`; size and keyed digest of a file; None: no
    text."""
    after: str | None = None
    """The same, as it is then."""
