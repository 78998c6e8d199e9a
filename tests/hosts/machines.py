"""The hosts that the tests of this directory work on; what a test does to a host past SSH goes through `Host`."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Protocol

from lab.machine import Machine
from lab.sshd.fault import Fault
from lab.sshd.journal import sum_traffic

from transom.hosts.ssh.ssh_client import Access
from transom.proxy.secret import Secret
from transom.windows.host.queries import RESTARTS

FIRST, SECOND = "recorder-a", "recorder-b"
"""Two services that run; the second depends on the first."""
BASE = r"C:\Windows\Transom"
WRITES = ("write", "rename", "mkdir", "posix_rename", "setstat")
"""Requests of SFTP that change something."""


class Host(Protocol):
    """A Windows host."""

    access: Access

    async def export(self, key: str) -> str:
        """The text of a key with all below it; empty where it is not there."""

    async def restore(self) -> None:
        """As it was when it was new: services run, no key and no file of Transom's, no fault ordered."""

    def files(self) -> Sequence[str]:
        """What lies in the base directory."""

    def has_base(self) -> bool:
        """Whether the base directory is there."""

    def put(self, name: str, content: str) -> None:
        """Make a file of that name in the base directory."""

    async def state(self, service: str) -> str:
        """`RUNNING` and so on."""

    async def starts(self, service: str) -> int:
        """How often it was started."""

    async def stop(self, service: str) -> None:
        """Stop it, as a person does."""

    async def note(self, service: str, note: str) -> None:
        """Write a note into the ledger."""

    async def boot_id(self) -> int:
        """BootId."""

    def fail(self, at: int, when: Literal["before", "after"] = "before", action: Literal["cut", "hang"] = "cut") -> None:
        """Let request `at` of the next connection go wrong; requests count from 1, channel opens and execs included."""

    async def cut_in_restarts(self, at: int) -> None:
        """Cut the connection of the next pass while the restarts that request `at`, a script, begins are going on."""

    def sample(self, requests: Sequence[str]) -> Sequence[int]:
        """Numbers of requests of a pass: all of them, or as many as there is time for on this host."""

    def came(self) -> bool:
        """Whether the fault has happened; it is taken back otherwise."""

    def mark(self) -> None:
        """Count from here."""

    def requests(self) -> list[str]:
        """Since `mark`: `channel`, `exec …`, or an SFTP request with its path."""


class Bench(Host, Protocol):
    """One that the tests themselves do not run on."""

    async def reboot(self) -> None:
        """Off and on again."""


class WineHost:
    """`lab.machine.Machine`."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        ssh, place = machine.ssh, machine.place
        self.access = Access(place.address, place.port, ssh.user, (Secret(ssh.key.read_text()),), ssh.host_key)
        self._seen = 0

    async def export(self, key: str) -> str:
        return self._machine.export(key)

    async def restore(self) -> None:
        self._machine.ssh.cancel_fault()
        self._machine.run("reg", "delete", r"HKLM\SOFTWARE\Transom", "/f")
        self._machine.run("cmd", "/d", "/c", f"rmdir /s /q {BASE}")
        self._machine.set_service_environment(FIRST, [])
        for service in (FIRST, SECOND):
            if self._machine.read_state(service) != "RUNNING":
                self._machine.start(service)

    def _base(self) -> Path:
        return self._machine.find_path(BASE)

    def files(self) -> Sequence[str]:
        return sorted(file.name for file in self._base().iterdir())

    def has_base(self) -> bool:
        return self._base().exists()

    def put(self, name: str, content: str) -> None:
        file = self._base() / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)

    async def state(self, service: str) -> str:
        return self._machine.read_state(service)

    async def starts(self, service: str) -> int:
        return len(self._machine.list_starts(service))

    async def stop(self, service: str) -> None:
        self._machine.stop(service)

    async def note(self, service: str, note: str) -> None:
        self._machine.import_text(f'[{RESTARTS}]\n"{service}"="{note}"')

    async def reboot(self) -> None:
        self._machine.restart_machine()

    async def boot_id(self) -> int:
        return self._machine.read_boot_count()

    def fail(self, at: int, when: Literal["before", "after"] = "before", action: Literal["cut", "hang"] = "cut") -> None:
        self._machine.ssh.schedule_fault(Fault(at, when, action))

    async def cut_in_restarts(self, at: int) -> None:
        while not (self._base() / "lock" / "job").exists():
            await asyncio.sleep(0.02)
        await asyncio.to_thread(self._machine.ssh.restart)

    def sample(self, requests: Sequence[str]) -> Sequence[int]:
        # a pass takes seconds here; the simulated host stands for the others
        scripts = {number for number, request in enumerate(requests, 1) if request.startswith("exec")}
        return sorted(scripts)

    def came(self) -> bool:
        came = not self._machine.ssh.armed
        self._machine.ssh.cancel_fault()
        return came

    def mark(self) -> None:
        self._seen = len(self._machine.ssh.read_entries())

    def requests(self) -> list[str]:
        entries = self._machine.ssh.read_entries()[self._seen :]
        assert sum_traffic(entries).connections == 1
        return [f"{entry.kind} {entry.detail}".strip() for entry in entries if entry.event == "request"]
