"""A simulated Windows host: registry, files, services, programs, and what a boot does to them."""

import asyncio
import random
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from transom.windows.host.queries import BOOT, BOOT_MARK, ENVIRONMENT, SERVICES, STORES, SYSTEM
from transom.windows.registry import Key, Registry
from transom.windows.registry.edits import CreateKey, DeleteValue, Edit, SetValue
from transom.windows.registry.values import Value, ValueType, dword, expand_sz, sz
from winsim import access
from winsim.access import KeyAccess
from winsim.editions import SERVER_2022, Edition
from winsim.expansion import BatchVariables
from winsim.faults import Faults
from winsim.filesystem import READ, WRITE, FileSystem, Handle, SimulatedFile
from winsim.processes import Invocation, Job
from winsim.programs import PROGRAMS
from winsim.services import ServiceManager, SimulatedService, Start, SystemLog
from winsim.tasks import TaskScheduler

ORDINARY = "S-1-5-21-1004336348-1177238915-682003330-1001"
"""The SID of an account that is no administrator's."""
SYSTEM32 = r"C:\Windows\System32"
KEYS = r"C:\ProgramData\ssh\administrators_authorized_keys"
KEYS_ACL = (access.grant(f"*{access.ADMINISTRATORS}:F"), access.grant(f"*{access.SYSTEM}:F"))
"""Of that file, as sshd wants it: administrators and SYSTEM alone (Win32-OpenSSH, `check_secure_file_permission`)."""
_PROGRAM_MARK = b"MZ"
_ROOT = re.compile("%SystemRoot%", re.IGNORECASE)

_VERSION = r"HKEY_LOCAL_MACHINE\SOFTWARE\Microsoft\Windows NT\CurrentVersion"
_EVERY_HOST: tuple[Key, ...] = tuple(
    Registry().apply(
        [
            SetValue(BOOT, "BootId", dword(0)),
            CreateKey(BOOT_MARK),
            SetValue(ENVIRONMENT, "ComSpec", expand_sz(r"%SystemRoot%\system32\cmd.exe")),
            SetValue(ENVIRONMENT, "OS", sz("Windows_NT")),
            SetValue(ENVIRONMENT, "Path", expand_sz(r"%SystemRoot%\system32;%SystemRoot%")),
            SetValue(ENVIRONMENT, "PROCESSOR_ARCHITECTURE", sz("AMD64")),
            SetValue(ENVIRONMENT, "TEMP", expand_sz(r"%SystemRoot%\TEMP")),
            SetValue(ENVIRONMENT, "windir", expand_sz("%SystemRoot%")),
            SetValue(_VERSION, "CurrentMajorVersionNumber", dword(10)),
            SetValue(_VERSION, "CurrentMinorVersionNumber", dword(0)),
            CreateKey(rf"{STORES}\ROOT\Certificates"),
            CreateKey(rf"{STORES}\CA\Certificates"),
            CreateKey(rf"{STORES}\Disallowed\Certificates"),
            CreateKey(SERVICES),
        ]
    )
)
_DIRECTORIES = {
    r"C:\Windows": (access.TRUSTED_INSTALLER, access.PROTECTED),
    r"C:\Program Files": (access.TRUSTED_INSTALLER, access.PROTECTED),
    r"C:\Windows\TEMP": (access.SYSTEM, access.PROGRAM_DATA),
    r"C:\ProgramData": (access.SYSTEM, access.PROGRAM_DATA),
    r"C:\ProgramData\ssh": (access.SYSTEM, access.PERSONAL),
}
"""The owners and lists that Windows gives them, no entry of them inherited."""
ALWAYS = {
    "SystemDrive": "C:",
    "SystemRoot": r"C:\Windows",
    "ProgramData": r"C:\ProgramData",
    "PATHEXT": ".COM;.EXE;.BAT;.CMD",
    "PROMPT": "$P$G",
}


class HostConnection(Protocol):
    """An SSH connection to the host, as far as the host ends it."""

    def abort(self) -> None:
        """Ends it without a word."""


class Traffic:
    """What came over SSH, counted since the host was made or `clear`.

    `commands` are the command lines, in order. `requests` is everything that was asked: `channel`, `sftp`, `exec …`, or an SFTP
    request with its path.

    `received` and `sent` are bytes of file content, commands and output, without what SSH adds.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Counts from 0."""
        self.connections = self.channels = self.execs = self.sftp_sessions = self.sftp_requests = 0
        self.received = self.sent = 0
        self.commands: list[str] = []
        self.requests: list[str] = []


class Host:
    """One host. `address`, `port` and `username` are where its SSH server answers.

    `registry` may be set to another value at any time. `processes` holds the command line of every program that was started,
    `unknown` what somebody wanted to run and is not simulated (a script that makes this list longer is wrong).
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
        self.name, self.shell, self.username, self.time_scale = name, shell, username, time_scale
        self.address, self.port = "127.0.0.1", 0
        self.own_address: str | None = None
        """At which address the host sees itself reached, where something is in between; None: at `address`."""
        self.keys = KeyAccess()
        """Who may read which registry key."""
        self.registry = Registry(_EVERY_HOST)
        self.edition = edition
        build, _, revision = edition.build.partition(".")
        self.edit(
            [
                SetValue(_VERSION, "ProductName", sz(edition.product)),
                SetValue(_VERSION, "CurrentBuildNumber", sz(build)),
                SetValue(_VERSION, "UBR", dword(int(revision))),
            ]
        )
        self.edit([SetValue(rf"{SYSTEM}\Control\ComputerName\ActiveComputerName", "ComputerName", sz(name))])
        self.files = FileSystem()
        self.system_log = SystemLog()
        self.services = ServiceManager(self)
        self.tasks = TaskScheduler(self)
        self.faults = Faults()
        self.traffic = Traffic()
        self.background = Job()
        self.random = random.Random(name)  # noqa: S311  # %RANDOM%, which is no secret
        self.processes: list[str] = []
        self.unknown: list[str] = []
        self.connections: set[HostConnection] = set()
        self.watchers: set[Callable[[str], None]] = set()
        """Called with the command line of each program that is started."""
        self.booted_environment: Mapping[str, str] = {}
        self.up = False
        self._boots = 0
        self.counts_boots = True
        """Whether the prefetcher does."""
        self.interlopers: set[Callable[[], None]] = set()
        """Called before each SFTP request and each command, and before each line of a script: what somebody else does then."""
        self.blocked: set[str] = set()
        """Programs (`certutil.exe`) and cmdlets that a policy does not let run."""
        self.unhashed = False
        """Whether Get-FileHash cannot read what it is asked for: such an error ends no command (about_Error_Handling)."""
        self.constrained = False
        """Whether PowerShell runs in Constrained Language Mode."""
        self.features, self.features_at_boot = {"containers"}, set[str]()
        """Features of Windows that are enabled, and those that the next boot enables."""
        self.users: dict[str, str] = {}
        """SIDs of ordinary local users, by name; None can be made where `makes_users` is not."""
        self.disabled_users: set[str] = set()
        """Names of accounts that may not log in, in lower case."""
        self.makes_users = True
        """Whether local users can be made and run tasks: a domain controller has none, a policy may forbid the other."""
        self.firewall: dict[str, str] = {}
        """Ports that are let in, by the name of their rule."""
        self.exclusions: set[str] | None = set()
        """Programs that Defender leaves out; None: it does not run."""
        self.networks: set[str] = set()
        """Networks of the Host Networking Service."""
        self.authorized_keys = KEYS
        """Where the SSH server looks who may log in; somewhere else without `Match Group administrators` in its settings."""
        self.key_types: tuple[str, ...] | None = None
        """The types of keys that it takes (PubkeyAcceptedAlgorithms); None: all."""
        self.name_at_boot = name
        self.booting: asyncio.Future[None] | None = None
        self.powershell: Callable[[Invocation], int] | None = None
        """What powershell.exe does with a script, or a command that is not one of Transom's."""
        self.fetch: Callable[[Invocation], int] | None = None
        """What curl.exe does; without it no name can be resolved."""
        home = {rf"C:\Users\{username}": (access.ADMINISTRATORS, access.PERSONAL)}
        for path, (owner, acl) in (_DIRECTORIES | home).items():
            self.files.make_directories(path)
            self.files.set_access(self.files.directory(path), owner=owner, acl=acl, protected=True)
        self.files.write(rf"{SYSTEM32}\Locator.exe", _PROGRAM_MARK + b"service")
        for program in PROGRAMS:
            self.files.write(rf"{SYSTEM32}\{program}", _PROGRAM_MARK + program.encode())

    # --- setting it up

    def add_service(
        self, name: str, depends: Iterable[str] = (), *, environment: Value | None = None, automatic: bool = True
    ) -> SimulatedService:
        """Adds a service with a program of its own; it starts at the next boot, or with `services.start`."""
        path = rf"C:\Program Files\{name}\{name}.exe"
        self.files.write(path, _PROGRAM_MARK + b"service")
        made = self.services.create(name, f'"{path}"', depends=tuple(depends), start_type=2 if automatic else 3)
        if environment is not None:
            self.edit([SetValue(rf"{SERVICES}\{name}", "Environment", environment)])
        return made

    def put_keys(self, lines: bytes) -> None:
        """Writes the file of keys that open the host, with the access list that it has to have."""
        self.files.set_access(self.files.write(KEYS, lines), acl=KEYS_ACL, protected=True)

    def edit(self, edits: Iterable[Edit]) -> None:
        """Changes the registry, as somebody at the console might."""
        self.registry = self.registry.apply(edits)

    @property
    def registry(self) -> Registry:
        """What it holds now."""
        return self._registry

    @registry.setter
    def registry(self, registry: Registry) -> None:
        self._registry = registry
        self.keys.forget(registry)

    @property
    def administrator(self) -> bool:
        """Whether the user who logs in by SSH is one; else he may do what an ordinary user may."""
        return self.files.actor == access.ADMINISTRATORS

    @administrator.setter
    def administrator(self, administrator: bool) -> None:
        self.files.user = access.ADMINISTRATORS if administrator else ORDINARY

    def scan(self, seconds: float) -> None:
        """Lets a virus scanner open each file that was written, as soon as it is closed, and read it for so long.

        It lets others read and write, but neither remove nor rename, as those do that make the retries of others needed
        (libuv/libuv#1981, golang/go#16882). With `seconds` 0 it is gone.
        """

        def look(file: SimulatedFile) -> None:
            scanning = Handle(self.files, file, READ, READ | WRITE)
            asyncio.get_running_loop().call_later(seconds * self.time_scale, scanning.close)

        self.files.scanner = look if seconds else lambda _: None

    def step(self) -> None:
        """The moment before somebody's next step."""
        for interloper in tuple(self.interlopers):
            interloper()

    # --- looking at it

    def starts(self, service: str) -> tuple[Start, ...]:
        """Every start of a service's process, the first one first."""
        return tuple(self.services.get(service).starts)

    @property
    def boot_id(self) -> int:
        """How often it has booted; BootId of the prefetcher says so too, where `counts_boots`."""
        return self._boots

    # --- power

    async def boot(self) -> None:
        """Ends everything and starts anew: the machine's environment is read, services start by themselves."""
        self.cut_power()
        await self.background.finished()
        self._boots += 1
        # what is below HARDWARE is in memory alone
        count = SetValue(BOOT, "BootId", dword(self._boots)) if self.counts_boots else DeleteValue(BOOT, "BootId")
        self.edit([DeleteValue(BOOT_MARK, "TransomBoot"), count])
        self.features |= self.features_at_boot
        self.name = self.name_at_boot
        self.booted_environment = self._machine_environment()
        self.services.load()
        self.up = True
        await self.services.start_automatic()

    def cut_power(self) -> None:
        """Ends everything at once; connections are refused until `boot`."""
        self.up = False
        for connection in list(self.connections):
            connection.abort()
        self.background.end()
        self.services.down()

    # --- processes

    def variables(self, environment: Mapping[str, str] | None = None) -> BatchVariables:
        """The environment of a process: that of the boot, or the one given, and what every process has."""
        found = BatchVariables(ALWAYS | {"COMPUTERNAME": self.name, "USERNAME": self.username})
        for name, value in (self.booted_environment if environment is None else environment).items():
            found.set(name, value)
        return found

    async def run(self, call: Invocation, file: SimulatedFile) -> int:
        """Runs a program to its end, and gives its exit code."""
        line = f"{call.path}{call.rest}"
        self.processes.append(line)
        for watcher in list(self.watchers):
            watcher(line)
        # a process takes a moment, in which others get on and a connection may drop
        await asyncio.sleep(0)
        if call.path.rpartition("\\")[2].casefold() in self.blocked:
            call.error("This program is blocked by group policy. For more information, contact your system administrator.\n")
            return 1
        program = PROGRAMS.get(file.data[2:].decode("ascii", "replace")) if file.data.startswith(_PROGRAM_MARK) else None
        if program is None:
            self.unknown.append(call.path)
            call.error(f"{call.path} is not simulated.\n")
            return 216
        return await program(call)

    def now(self) -> float:
        """Seconds of the host's time."""
        return asyncio.get_running_loop().time() / self.time_scale

    async def sleep(self, seconds: float) -> None:
        """Waits for seconds of the host's time."""
        await asyncio.sleep(seconds * self.time_scale)

    def _machine_environment(self) -> dict[str, str]:
        key = self.registry.key(ENVIRONMENT)
        found = {}
        for named in (key.values or {}).values() if key else ():
            if named.value.type == ValueType.SZ:
                found[named.name] = named.value.text()
            elif named.value.type == ValueType.EXPAND_SZ:
                found[named.name] = _ROOT.sub(lambda _: ALWAYS["SystemRoot"], named.value.text())
        return found
