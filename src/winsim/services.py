"""The service control manager: states, dependencies, a record of every start with its environment, and the System log.

Errors are those of Microsoft's "System Error Codes" (1000-1299), which `sc` gives as its exit code. What is written to the log:
Microsoft Learn, "Event IDs" of Service Control Manager.
"""

import asyncio
import re
from collections.abc import Iterable
from copy import copy
from typing import TYPE_CHECKING, Literal

import msgspec

from transom.windows.host import ServiceState
from transom.windows.host.queries import SERVICES
from transom.windows.registry.edits import DeleteKey, DeleteValue, Edit, SetValue
from transom.windows.registry.names import FoldedDict, listed
from transom.windows.registry.values import ValueType, dword, expand_sz, multi_sz, sz
from winsim.filesystem import SimulatedFile
from winsim.interpreter import Shell
from winsim.streams import NUL, Streams

if TYPE_CHECKING:
    from winsim.host import Host

_DISABLED, _AUTOMATIC, _DEMAND = 4, 2, 3
_CONNECT_SECONDS = 30.0
_ENDS = re.compile(rb"MZends (\d+) after (\d+)")
"""How a file says that a program of it ends by itself: with this exit code, after as many seconds."""
_TOOL = re.compile(rb"MZ[\w.\\]+\.exe")
"""What a program of the console is, that is no service."""
_COMMAND = re.compile(r'\s*(?:"([^"]*)"|(\S+?(?:\.exe)(?=\s|$)|\S+))(.*)', re.IGNORECASE | re.DOTALL)
_ERRORS = {
    7000: "The {} service failed to start due to error {}.",
    7001: "The {} service depends on a service which failed to start, error {}.",
    7009: "A timeout was reached (30000 milliseconds) while waiting for the {} service to connect.",
    7023: "The {} service terminated with error {}.",
    7034: "The {} service terminated unexpectedly, exit code {}.",
}
_INFORMATION = {
    7036: "The {} service entered the {} state.",
    7040: "The start type of the {} service was changed.",
    7045: "A service was installed in the system. Service Name: {} Service File Name: {}",
}


class Event(msgspec.Struct, frozen=True):
    """One event: its number, how bad it is, and what it says."""

    id: int
    level: Literal["Error", "Information"]
    text: str


class SystemLog:
    """The events since the host was made, the oldest first."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def write(self, number: int, *about: object) -> None:
        """Adds an event of the service control manager."""
        level: Literal["Error", "Information"] = "Error" if number in _ERRORS else "Information"
        self.events.append(Event(number, level, (_ERRORS | _INFORMATION)[number].format(*about)))

    def errors(self) -> list[Event]:
        """What an operator of hosts would be asked about."""
        return [event for event in self.events if event.level == "Error"]


class ServiceError(Exception):
    """A request that the service control manager refuses, with its number."""

    def __init__(self, code: int) -> None:
        super().__init__(f"service error {code}")
        self.code = code


class Start(msgspec.Struct, frozen=True):
    """A start of a service's process: in which boot, and with what environment (it may hold a credential: no `repr`)."""

    boot: int
    environment: dict[str, str]

    def __repr__(self) -> str:
        return f"Start(boot {self.boot}, {len(self.environment)} variables)"


class SimulatedService:
    """A service as the manager knows it since the last boot. Times are seconds of the host's time."""

    __slots__ = (
        "_log", "_until", "deleted", "depends", "ends", "exit_code", "image", "name", "start_seconds", "start_type", "starts",
        "starts_well", "state", "stop_seconds", "stops",
    )  # fmt: skip

    def __init__(self, name: str, image: str, depends: tuple[str, ...], start_type: int, log: SystemLog) -> None:
        self.name, self.image, self.depends, self.start_type, self._log = name, image, depends, start_type, log
        self.state = ServiceState.STOPPED
        self.starts: list[Start] = []
        self.start_seconds = self.stop_seconds = 0.0
        self.starts_well = self.stops = True
        self.deleted = False
        self.exit_code = 0
        self._until = 0.0
        self.ends: tuple[float, int] | None = None
        """When its process ends by itself, and with which code."""

    def copy(self) -> "SimulatedService":
        """The same, with a record of starts of its own."""
        made = copy(self)
        made.starts = list(self.starts)
        return made

    def enter(self, state: ServiceState, until: float) -> None:
        """Enters a pending state that ends at `until`."""
        self.state, self._until = state, until

    def settle(self, now: float) -> None:
        """Leaves a state whose time is over."""
        if self.ends is not None and now >= self.ends[0] and self.state != ServiceState.STOPPED:
            self.state, self.exit_code, self.ends = ServiceState.STOPPED, self.ends[1], None
            self._log.write(7034, self.name, self.exit_code)
            return
        if now < self._until:
            return
        if self.state == ServiceState.START_PENDING:
            self.state = ServiceState.RUNNING if self.starts_well else ServiceState.STOPPED
            self.exit_code = 0 if self.starts_well else 1067
            if self.starts_well:
                self._log.write(7036, self.name, "running")
            else:
                self._log.write(7034, self.name, self.exit_code)
        elif self.state == ServiceState.STOP_PENDING and self.stops:
            self.state = ServiceState.STOPPED
            self._log.write(7036, self.name, "stopped")


class ServiceManager:
    """The services that exist since the host booted, by name without case."""

    def __init__(self, host: "Host") -> None:
        self._host = host
        self._services = FoldedDict[SimulatedService]()
        self.refused: set[str] = set()
        """Services, in lower case, that cannot be made: software against intruders does so."""

    def load(self) -> None:
        """Reads the services from the registry, as a boot does; the records of starts and the set behaviour are kept."""
        known, self._services = self._services, FoldedDict()
        for name in self._host.registry.children(SERVICES):
            key = self._host.registry.key(rf"{SERVICES}\{name}")
            image, depends, start = (key.get(n) for n in ("ImagePath", "DependOnService", "Start")) if key else (None,) * 3
            if image is None:
                continue
            made = SimulatedService(
                name,
                image.text(),
                depends.texts() if depends and depends.type == ValueType.MULTI_SZ else (),
                start.number() if start else _DEMAND,
                self._host.system_log,
            )
            if present := known.get(name):
                made.starts, made.start_seconds, made.stop_seconds = present.starts, present.start_seconds, present.stop_seconds
                made.starts_well, made.stops = present.starts_well, present.stops
            self._services[name] = made

    def replace(self, services: Iterable[SimulatedService]) -> None:
        """Knows these services instead, which the registry speaks of."""
        self._services = FoldedDict((service.name, service) for service in services)

    def names(self) -> tuple[str, ...]:
        """The services that exist."""
        return tuple(service.name for service in list(self._services.values()) if self.find(service.name))

    def find(self, name: str) -> SimulatedService | None:
        """A service in its present state, or None."""
        service = self._services.get(name)
        if service is None:
            return None
        service.settle(self._host.now())
        if service.deleted and service.state == ServiceState.STOPPED:
            self._forget(service)
            return None
        return service

    def get(self, name: str) -> SimulatedService:
        """A service in its present state. Raises ServiceError(1060)."""
        service = self.find(name)
        if service is None:
            raise ServiceError(1060)
        return service

    def create(
        self, name: str, image: str, *, depends: tuple[str, ...] = (), start_type: int = _DEMAND, display: str | None = None
    ) -> SimulatedService:
        """Makes a service and its registry key. Raises ServiceError(1073) when it exists, (1072) when it is going, (5)."""
        if present := self.find(name):
            raise ServiceError(1072 if present.deleted else 1073)
        if name.casefold() in self.refused:
            raise ServiceError(5)
        path = rf"{SERVICES}\{name}"
        edits: list[Edit] = [
            SetValue(path, "Type", dword(0x10)),
            SetValue(path, "Start", dword(start_type)),
            SetValue(path, "ErrorControl", dword(1)),
            SetValue(path, "ImagePath", expand_sz(image)),
            SetValue(path, "DisplayName", sz(display or name)),
            SetValue(path, "ObjectName", sz("LocalSystem")),
        ]
        if depends:
            edits.append(SetValue(path, "DependOnService", multi_sz(depends)))
        self._host.registry = self._host.registry.apply(edits)
        made = self._services[name] = SimulatedService(name, image, depends, start_type, self._host.system_log)
        self._host.system_log.write(7045, name, image)
        return made

    def configure(self, service: SimulatedService, image: str, depends: tuple[str, ...], start_type: int) -> None:
        """Changes a service, for its next start."""
        path = rf"{SERVICES}\{service.name}"
        if start_type != service.start_type:
            self._host.system_log.write(7040, service.name)
        service.image, service.depends, service.start_type = image, depends, start_type
        edits: list[Edit] = [SetValue(path, "ImagePath", expand_sz(image)), SetValue(path, "Start", dword(start_type))]
        edits.append(SetValue(path, "DependOnService", multi_sz(depends)) if depends else DeleteValue(path, "DependOnService"))
        self._host.registry = self._host.registry.apply(edits)

    async def start(self, name: str) -> None:
        """Starts a service, those that it depends on first; it may be pending afterwards.

        Raises ServiceError: 1056 runs already, 1058 disabled, 1060 unknown, 1072 going, 1075 a dependency is unknown,
        1068 a dependency did not start, 2 no such program, 193 it is none, 1053 it does not speak to the manager.
        """
        service = self.get(name)
        if service.deleted:
            raise ServiceError(1072)
        if service.state != ServiceState.STOPPED:
            raise ServiceError(1056)
        if service.start_type == _DISABLED:
            raise ServiceError(1058)
        for needed in service.depends:
            if self.find(needed) is None:
                raise ServiceError(1075)
            if self.get(needed).state == ServiceState.STOPPED:
                await self.start(needed)
            if await self.reached(needed, ServiceState.RUNNING, _CONNECT_SECONDS) is False:
                self._host.system_log.write(7001, service.name, 1068)
                raise ServiceError(1068)
        if service.state != ServiceState.STOPPED:
            raise ServiceError(1056)
        try:
            program, arguments, found = self._program(service)
        except ServiceError as failure:
            self._host.system_log.write(7000, service.name, failure.code)
            raise
        service.starts.append(Start(self._host.boot_id, self.environment(service.name)))
        service.enter(ServiceState.START_PENDING, self._host.now() + service.start_seconds)
        service.exit_code = 0
        ends = _ENDS.match(found.data)
        service.ends = (self._host.now() + int(ends[2]), int(ends[1])) if ends else None
        if program.casefold().endswith("\\cmd.exe"):
            await self._run_command(service, program, arguments)
        elif _TOOL.fullmatch(found.data):
            raise self._unanswered(service)
        service.settle(self._host.now())

    async def _run_command(self, service: SimulatedService, program: str, arguments: str) -> None:
        """Runs cmd.exe as a service: it never answers the manager, which gives it up when it ends, or after a time."""
        variables = self._host.variables(self.environment(service.name))
        shell = Shell(self._host, variables, r"C:\Windows\System32", Streams(NUL, NUL), self._host.background)
        service.enter(ServiceState.START_PENDING, float("inf"))
        work = self._host.background.start(shell.run(f'"{program}"{arguments}'))
        try:
            done, _ = await asyncio.wait([work], timeout=_CONNECT_SECONDS * self._host.time_scale)
        except asyncio.CancelledError:
            # who asked for it is gone, which the manager does not care about
            self._unanswered(service)
            raise
        if not done:
            work.cancel()
        raise self._unanswered(service)

    def _unanswered(self, service: SimulatedService) -> ServiceError:
        """A program that does not speak to the manager is given up."""
        service.state = ServiceState.STOPPED
        self._host.system_log.write(7009, service.name)
        self._host.system_log.write(7000, service.name, 1053)
        return ServiceError(1053)

    def stop(self, name: str) -> None:
        """Asks a service to stop; it may be pending afterwards.

        Raises ServiceError: 1051 a service that depends on it runs, 1060 unknown, 1061 pending, 1062 not running.
        """
        service = self.get(name)
        if service.state == ServiceState.STOPPED:
            raise ServiceError(1062)
        if service.state in (ServiceState.START_PENDING, ServiceState.STOP_PENDING):
            raise ServiceError(1061)
        if self.dependants(name):
            raise ServiceError(1051)
        service.enter(ServiceState.STOP_PENDING, self._host.now() + service.stop_seconds)
        service.settle(self._host.now())

    def delete(self, name: str) -> None:
        """Deletes a service, one that runs as soon as it has stopped. Raises ServiceError(1060), (1072)."""
        service = self.get(name)
        if service.deleted:
            raise ServiceError(1072)
        service.deleted = True
        if service.state == ServiceState.STOPPED:
            self._forget(service)

    def kill(self, name: str) -> None:
        """A service's process ends without being asked."""
        service = self.get(name)
        service.state, service.exit_code = ServiceState.STOPPED, 1067
        self._host.system_log.write(7034, service.name, 1067)

    def dependants(self, name: str) -> tuple[str, ...]:
        """The services that run, or are about to, and need this one."""
        return tuple(
            present.name
            for present in list(self._services.values())
            if listed(name, present.depends)
            and (found := self.find(present.name)) is not None
            and found.state != ServiceState.STOPPED
        )

    async def reached(self, name: str, state: ServiceState, seconds: float) -> bool:
        """Waits until a service is in a state; False when it comes to rest in another, or after `seconds`."""
        end = self._host.now() + seconds
        pending = (ServiceState.START_PENDING, ServiceState.STOP_PENDING)
        while (service := self.find(name)) is not None and service.state in pending and self._host.now() < end:
            await self._host.sleep(0.05)
        service = self.find(name)
        return (service.state if service else ServiceState.STOPPED) == state

    def down(self) -> None:
        """Ends every service's process, as a power cut does."""
        for service in self._services.values():
            service.state = ServiceState.STOPPED

    async def start_automatic(self) -> None:
        """Starts what starts with the host, as a boot does."""
        for service in list(self._services.values()):
            if service.start_type == _AUTOMATIC and service.state == ServiceState.STOPPED:
                try:
                    await self.start(service.name)
                except ServiceError as failure:
                    service.exit_code = failure.code

    def environment(self, name: str) -> dict[str, str]:
        """What a start of the service now would see: the machine's variables as of the boot, its own over them.

        An own item `NAME=` is an empty variable: Windows passes the block on as it is.
        """
        found = {present.upper(): (present, value) for present, value in self._host.booted_environment.items()}
        own = self._host.registry.value(rf"{SERVICES}\{name}", "Environment")
        for item in own.texts() if own is not None and own.type == ValueType.MULTI_SZ else ():
            variable, _, value = item.partition("=")
            found[variable.upper()] = (variable, value)
        return dict(found.values())

    def _program(self, service: SimulatedService) -> tuple[str, str, SimulatedFile]:
        found = _COMMAND.fullmatch(service.image)
        path = (found[1] or found[2]) if found else service.image
        path = re.sub("%SystemRoot%", lambda _: r"C:\Windows", path, flags=re.IGNORECASE)
        file = self._host.files.find(path)
        if not isinstance(file, SimulatedFile):
            raise ServiceError(2)
        if not file.data.startswith(b"MZ"):
            raise ServiceError(193)
        return path, found[3] if found else "", file

    def _forget(self, service: SimulatedService) -> None:
        self._services.pop(service.name, None)
        self._host.registry = self._host.registry.apply([DeleteKey(rf"{SERVICES}\{service.name}")])
