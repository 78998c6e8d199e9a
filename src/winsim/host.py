"""A simulated Windows host: registry, files, services, programs, and what a boot does to them."""

from collections.abc import Iterable
from typing import Protocol

from transom.windows.host.queries import BOOT, BOOT_MARK, SERVICES
from transom.windows.registry.edits import DeleteValue, SetValue
from transom.windows.registry.values import Value, build_dword
from winsim import access
from winsim.computer import Computer, Invocation
from winsim.editions import SERVER_2022, Edition
from winsim.filesystem import SimulatedFile
from winsim.machine import SYSTEM32
from winsim.processes import ProcessStart
from winsim.programs.program_table import PROGRAMS
from winsim.services import SimulatedService, Start

KEYS = r"C:\ProgramData\ssh\administrators_authorized_keys"
KEYS_ACL = (access.parse_grant(f"*{access.ADMINISTRATORS}:F"), access.parse_grant(f"*{access.SYSTEM}:F"))
"""Of that file, as sshd wants it: administrators and SYSTEM alone (Win32-OpenSSH, `check_secure_file_permission`)."""
_PROGRAM_MARK = b"MZ"


class HostConnection(Protocol):
    """An SSH connection to the host, as far as the host ends it."""

    def abort(self) -> None:
        """Close the connection without a message."""


class Traffic:
    """What came over SSH, counted since the host was made or `clear`.

    `commands` are the command lines, in order. `requests` is everything that was asked: `channel`, `sftp`, `exec …`, or an SFTP
    request with its path.

    `received` and `sent` are bytes of file content, commands and output, without what SSH adds.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Reset all counters to 0."""
        self.connections = self.channels = self.execs = self.sftp_sessions = self.sftp_requests = 0
        self.received = self.sent = 0
        self.commands: list[str] = []
        self.requests: list[str] = []


class Host(Computer):
    """A simulated host. `address`, `port` and `username` are those of its SSH server.

    `registry` can be replaced at any time. `processes` has the command line of every program that was started, `unknown` the
    programs that were requested but are not simulated (a script that adds to it is wrong).
    """

    def __init__(
        self,
        name: str,
        *,
        shell: str = "cmd",
        username: str = "Administrator",
        time_scale: float = 0.01,
        edition: Edition = SERVER_2022,
    ) -> None:
        super().__init__(name, shell=shell, username=username, time_scale=time_scale, edition=edition)
        self.traffic = Traffic()
        self.connections: set[HostConnection] = set()
        self.authorized_keys = KEYS
        """Where the SSH server looks who may log in; somewhere else without `Match Group administrators` in its settings."""
        self.key_types: tuple[str, ...] | None = None
        """The types of keys that it takes (PubkeyAcceptedAlgorithms); None: all."""
        self.files.write(rf"{SYSTEM32}\Locator.exe", _PROGRAM_MARK + b"service")
        # what no Windows has: `transom verify host --record` knows the simulated host by it
        self.files.write(rf"{SYSTEM32}\winsim.exe", _PROGRAM_MARK)
        for program in PROGRAMS:
            self.files.write(rf"{SYSTEM32}\{program}", _PROGRAM_MARK + program.encode())

    # --- setting it up

    def add_service(
        self, name: str, depends: Iterable[str] = (), *, environment: Value | None = None, automatic: bool = True
    ) -> SimulatedService:
        """Add a service with a program of its own; it starts at the next boot, or with `services.start`."""
        path = rf"C:\Program Files\{name}\{name}.exe"
        self.files.write(path, _PROGRAM_MARK + b"service")
        made = self.services.create(name, f'"{path}"', depends=tuple(depends), start_type=2 if automatic else 3)
        if environment is not None:
            self.edit([SetValue(rf"{SERVICES}\{name}", "Environment", environment)])
        return made

    def put_keys(self, lines: bytes) -> None:
        """Write the authorized_keys file of the administrators, with the access list that sshd requires."""
        self.files.set_access(self.files.write(KEYS, lines), acl=KEYS_ACL, protected=True)

    def starts(self, service: str) -> tuple[Start, ...]:
        """Every start of a service's process, the first one first."""
        return tuple(self.services.get(service).starts)

    # --- power

    async def boot(self) -> None:
        """End everything and boot: read the machine's environment and start the automatic services."""
        self.cut_power()
        await self.background.wait_until_idle()
        self._boots += 1
        # what is below HARDWARE is in memory alone
        count = SetValue(BOOT, "BootId", build_dword(self._boots)) if self.counts_boots else DeleteValue(BOOT, "BootId")
        self.edit([DeleteValue(BOOT_MARK, "TransomBoot"), count])
        self.features |= self.features_at_boot
        self.name = self.name_at_boot
        self.booted_environment = self._read_machine_environment()
        self.services.load()
        self.up = True
        await self.services.start_automatic()

    def cut_power(self) -> None:
        """End everything at once and refuse connections until `boot`."""
        self.up = False
        for connection in list(self.connections):
            connection.abort()
        self.background.end()
        self.services.kill_all()

    async def run(self, start: ProcessStart, file: SimulatedFile) -> int:
        """Run a program to its end and return its exit code."""
        call = Invocation(self, start)
        line = f"{call.path}{call.rest}"
        self.processes.append(line)
        for watcher in list(self.watchers):
            watcher(line)
        # a process takes a moment, in which others get on and a connection may drop
        await self.sleep(self.process_seconds)
        if call.path.rpartition("\\")[2].casefold() in self.blocked:
            call.write_error(
                "This program is blocked by group policy. For more information, contact your system administrator.\n"
            )
            return 1
        program = PROGRAMS.get(file.data[2:].decode("ascii", "replace")) if file.data.startswith(_PROGRAM_MARK) else None
        if program is None:
            self.unknown.append(call.path)
            call.write_error(f"{call.path} is not simulated.\n")
            return 216
        return await program(call)
