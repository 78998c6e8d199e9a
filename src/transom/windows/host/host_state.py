"""A Windows host as a value: what is on it, what is asked of it, and the steps that change it.

The desired and the observed state have one base, and different types.
"""

import enum
from typing import Literal

import msgspec

from transom.windows.host.ledger_entries import compute_value_digest
from transom.windows.registry import reg
from transom.windows.registry.names import is_same
from transom.windows.registry.registry import Registry

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
"""The placeholder for the hash of an existing file that differs from the sent one."""
STAMP = 1_577_836_800
"""The earliest time that a file is given: 2020-01-01, in seconds since 1970."""


def compute_file_time(digest: str) -> int:
    """Return the modification time that a file with this digest gets when it is sent.

    Together with the size, the time identifies the content, so a pass without changes hashes no file on the host.
    """
    return STAMP + int(digest[:6], 16)


class Preparation(msgspec.Struct, frozen=True):
    """What has to be done to Windows itself before a worker's services can be there."""

    containers: bool = False
    """Whether the feature Containers has to be enabled."""
    name: str = ""
    """The required name of the computer; empty: unchanged."""
    ports: tuple[int, ...] = ()
    """TCP ports that the firewall allows."""
    directories: tuple[str, ...] = ()
    """Full paths. An existing one must be Transom's, or have no other owner."""


class HostState(msgspec.Struct, frozen=True):
    """What a wish and an observation both have: registry values, services, files, directories.

    `registry` has the desired keys, or those that were read. `services` has the desired ones, or the queried ones that
    exist. `files` maps paths (`C:\\…`); `directories` are paths.
    """

    registry: Registry
    services: tuple[Service, ...] = ()
    files: dict[str, str] = {}
    directories: tuple[str, ...] = ()

    def find_service(self, name: str) -> Service | None:
        """Return the service with that name, compared without case, or None."""
        return next((s for s in self.services if is_same(s.name, name)), None)


class DesiredState(HostState, frozen=True, kw_only=True):
    """The state that Transom owns on a host, and nothing else. `files` has SHA-256 digests.

    `sizes` has the files' sizes in bytes, `readers` the services that read them. `trusting` are the services that are
    restarted when the trust store changes; None means all managed services. Of `directories`, `owned` are removed with
    their content when the host is removed, and `closed` hold keys. `networks` are the HNS networks that services create, by
    service. `takes` are services of another operator that Transom takes over. `payload` is the version of what is
    installed; None leaves services, files and directories unchanged, and "" removes them. `preparation` is what is done to
    Windows itself.
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
    profile: str = ""
    """Transom's block in the profile of Windows PowerShell, lines that end with a line feed; empty: none."""

    def compute_digest(self, salt: bytes) -> str:
        """Return a salted hash of registry and files, 32 hex digits; the ledger records it as the applied state."""
        files = "".join(map(" ".join, sorted(self.files.items())))
        return compute_value_digest(salt, "StateHash", reg.render_registry(self.registry).hex() + files + self.profile)


class ObservedState(HostState, frozen=True, kw_only=True):
    """The state that was read from a host. `files` has the ledger's digests, or CHANGED.

    `boot` is a number that differs after every reboot: BootId of the prefetcher, or a number of Transom's that a reboot
    removes; None if it was not read. `dependencies` maps every service of the host to the services that it depends on
    (DependOnService), if that was read. `found` has the SHA-256 of files that existed when services of another operator
    were taken over. `outputs` are what scripts of the payload printed, and `complaints` the errors of those that failed.
    `computer_name`, `os_version` (`10.0.20348.2485`) and `ssh_server` (its own version string) are for people. `reached` is
    the IP address that SSH connected to, and `own_address` the one that the host reports; they differ behind NAT or a jump
    host. Both are empty if not known.
    """

    boot: int | None = None
    dependencies: dict[str, tuple[str, ...]] | None = None
    found: dict[str, str] = {}
    outputs: dict[str, str] = {}
    complaints: dict[str, str] = {}
    computer_name: str = ""
    dns_domain: str = ""
    metadata_name: str = ""
    metadata_complaint: str = ""
    os_version: str = ""
    reached: str = ""
    own_address: str = ""
    ssh_server: str = ""
    contents: dict[str, bytes | None] = {}
    """The files of `Queries.files` that exist, by path; None: the host could not copy it, or it is too large."""


class FileWrite(msgspec.Struct, frozen=True):
    """A file that is written in place, so that it keeps its access list: `content`, or None to delete it.

    `present_size` is the size of the file that was read, in bytes; None: it did not exist. A file that has changed since is
    left. `ledger_line` names the value of the ledger's own key that is deleted afterwards; empty: none.
    """

    path: str
    content: bytes | None
    present_size: int | None
    ledger_line: str = ""


class Step(msgspec.Struct, frozen=True):
    """One change, as shown to people and in JSON. It has no secrets: targets name objects, reasons explain why."""

    kind: Kind
    target: str
    action: Action
    reason: str
    before: str | None = None
    """A variable's value, or proxies and bypass list of WinHTTP or Windows PowerShell, userinfo as `***`; size and keyed digest
    of a file; None: not shown."""
    after: str | None = None
    """The same, after the change."""
