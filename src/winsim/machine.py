"""What a host is made of without its services, tasks and programs: registry, files, users, environment, time."""

import asyncio
import random
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping

from transom.windows.host.queries import BOOT, BOOT_MARK, ENVIRONMENT, SERVICES, STORES, SYSTEM
from transom.windows.registry.edits import CreateKey, Edit, SetValue
from transom.windows.registry.registry import Key, Registry
from transom.windows.registry.values import ValueType, build_dword, build_expand_sz, build_sz
from winsim import access
from winsim.access import KeyAccess
from winsim.editions import SERVER_2022, Edition
from winsim.expansion import BatchVariables
from winsim.faults import Faults
from winsim.filesystem import READ, WRITE, FileSystem, Handle, SimulatedFile
from winsim.processes import Job, ProcessStart
from winsim.system_log import SystemLog

ORDINARY = "S-1-5-21-1004336348-1177238915-682003330-1001"
"""The SID of an account that is no administrator's."""
SYSTEM32 = r"C:\Windows\System32"
_ROOT = re.compile("%SystemRoot%", re.IGNORECASE)

_VERSION = r"HKEY_LOCAL_MACHINE\SOFTWARE\Microsoft\Windows NT\CurrentVersion"
_EVERY_HOST: tuple[Key, ...] = tuple(
    Registry().apply_edits(
        [
            SetValue(BOOT, "BootId", build_dword(0)),
            CreateKey(BOOT_MARK),
            SetValue(ENVIRONMENT, "ComSpec", build_expand_sz(r"%SystemRoot%\system32\cmd.exe")),
            SetValue(ENVIRONMENT, "OS", build_sz("Windows_NT")),
            SetValue(ENVIRONMENT, "Path", build_expand_sz(r"%SystemRoot%\system32;%SystemRoot%")),
            SetValue(ENVIRONMENT, "PROCESSOR_ARCHITECTURE", build_sz("AMD64")),
            SetValue(ENVIRONMENT, "TEMP", build_expand_sz(r"%SystemRoot%\TEMP")),
            SetValue(ENVIRONMENT, "windir", build_expand_sz("%SystemRoot%")),
            SetValue(_VERSION, "CurrentMajorVersionNumber", build_dword(10)),
            SetValue(_VERSION, "CurrentMinorVersionNumber", build_dword(0)),
            CreateKey(rf"{STORES}\ROOT\Certificates"),
            CreateKey(rf"{STORES}\CA\Certificates"),
            CreateKey(rf"{STORES}\Disallowed\Certificates"),
            CreateKey(SERVICES),
        ]
    )
)
_DIRECTORIES = {
    r"C:\Windows": (access.TRUSTED_INSTALLER, access.PROTECTED),
    r"C:\Windows\System32\WindowsPowerShell\v1.0": (access.TRUSTED_INSTALLER, access.PROTECTED),
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


class Machine(ABC):
    """The part of a host that its shells, services and tasks work with. `winsim.host.Host` has the rest."""

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
                SetValue(_VERSION, "ProductName", build_sz(edition.product)),
                SetValue(_VERSION, "EditionID", build_sz("ServerDatacenter")),
                SetValue(rf"{SYSTEM}\Control\Nls\Language", "InstallLanguage", build_sz(edition.language_id)),
                SetValue(_VERSION, "CurrentBuildNumber", build_sz(build)),
                SetValue(_VERSION, "UBR", build_dword(int(revision))),
            ]
        )
        self.edit([SetValue(rf"{SYSTEM}\Control\ComputerName\ActiveComputerName", "ComputerName", build_sz(name))])
        self.files = FileSystem()
        self.system_log = SystemLog()
        self.faults = Faults()
        self.background = Job()
        self.random = random.Random(name)  # noqa: S311  # %RANDOM%, which is no secret
        self.processes: list[str] = []
        self.unknown: list[str] = []
        self.watchers: set[Callable[[str], None]] = set()
        """Called with the command line of each program that is started."""
        self.booted_environment: Mapping[str, str] = {}
        self.up = False
        self._boots = 0
        self.counts_boots = True
        """Whether the prefetcher does."""
        self.process_seconds = 0.0
        """How long each program takes at least, in seconds of the host's time: a scanner looks at it, the disk is slow."""
        self.interlopers: set[Callable[[], None]] = set()
        """Called before each SFTP request and each command, and before each line of a script: changes by other programs."""
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
        self.name_at_boot = name
        self.booting: asyncio.Future[None] | None = None
        home = {rf"C:\Users\{username}": (access.ADMINISTRATORS, access.PERSONAL)}
        for path, (owner, acl) in (_DIRECTORIES | home).items():
            self.files.make_directories(path)
            self.files.set_access(self.files.get_directory(path), owner=owner, acl=acl, protected=True)

    def edit(self, edits: Iterable[Edit]) -> None:
        """Apply edits to the registry, as a user at the console could."""
        self.registry = self.registry.apply_edits(edits)

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
        """Simulate a virus scanner that opens each written file as soon as it is closed, for `seconds`.

        Other programs can read and write the file, but not remove or rename it, as with the scanners that make retries
        necessary (libuv/libuv#1981, golang/go#16882). `seconds` 0 turns it off.
        """

        def look(file: SimulatedFile) -> None:
            scanning = Handle(self.files, file, READ, READ | WRITE)
            asyncio.get_running_loop().call_later(seconds * self.time_scale, scanning.close)

        self.files.scanner = look if seconds else lambda _: None

    def run_interlopers(self) -> None:
        """Run the interlopers before the next request, command or script line."""
        for interloper in tuple(self.interlopers):
            interloper()

    @property
    def boot_id(self) -> int:
        """The number of boots; the prefetcher's BootId has it too, if `counts_boots`."""
        return self._boots

    def build_variables(self, environment: Mapping[str, str] | None = None) -> BatchVariables:
        """Build the environment of a process from `environment` (default: that of the last boot) and the standard variables."""
        variables = BatchVariables(ALWAYS | {"COMPUTERNAME": self.name, "USERNAME": self.username})
        for name, value in (self.booted_environment if environment is None else environment).items():
            variables.set(name, value)
        return variables

    def get_time(self) -> float:
        """Return the host's time in seconds."""
        return asyncio.get_running_loop().time() / self.time_scale

    async def sleep(self, seconds: float) -> None:
        """Sleep for seconds of the host's time."""
        await asyncio.sleep(seconds * self.time_scale)

    def _read_machine_environment(self) -> dict[str, str]:
        key = self.registry.find_key(ENVIRONMENT)
        environment = {}
        for named in (key.values or {}).values() if key else ():
            if named.value.type == ValueType.SZ:
                environment[named.name] = named.value.decode_text()
            elif named.value.type == ValueType.EXPAND_SZ:
                environment[named.name] = _ROOT.sub(lambda _: ALWAYS["SystemRoot"], named.value.decode_text())
        return environment

    @abstractmethod
    async def run(self, start: ProcessStart, file: SimulatedFile) -> int:
        """Run a program to its end and return its exit code."""

    @abstractmethod
    async def boot(self) -> None:
        """End everything and start again."""
