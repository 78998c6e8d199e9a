"""The service control manager: states, dependencies, a record of every start with its environment, and the System log.

Errors are those of Microsoft's "System Error Codes" (1000-1299), which `sc` gives as its exit code. What is written to the log:
Microsoft Learn, "Event IDs" of Service Control Manager.
"""

import asyncio
import re
from collections.abc import Iterable
from copy import copy

import msgspec

from transom.windows.host.host_state import ServiceState
from transom.windows.host.queries import SERVICES
from transom.windows.registry.edits import DeleteKey, DeleteValue, Edit, SetValue
from transom.windows.registry.names import FoldedDict, is_listed
from transom.windows.registry.values import ValueType, build_dword, build_expand_sz, build_multi_sz, build_sz
from winsim.filesystem import SimulatedFile
from winsim.interpreter import Shell
from winsim.machine import Machine
from winsim.streams import NUL, Streams
from winsim.system_log import SystemLog

_DISABLED, _AUTOMATIC, _DEMAND = 4, 2, 3
_CONNECT_SECONDS = 30.0
_ENDS = re.compile(rb"MZends (\d+) after (\d+)")
"""How a file declares that its program exits: with this exit code, after as many seconds."""
_TOOL = re.compile(rb"MZ[\w.\\]+\.exe")
"""What a program of the console is, that is no service."""
_COMMAND = re.compile(r'\s*(?:"([^"]*)"|(\S+?(?:\.exe)(?=\s|$)|\S+))(.*)', re.IGNORECASE | re.DOTALL)


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
        "_log", "_since", "_until", "checkpoint_seconds", "deleted", "depends", "ends", "exit_code", "hint_seconds", "image",
        "name", "start_seconds", "start_type", "starts", "starts_well", "state", "stop_seconds", "stops",
    )  # fmt: skip

    def __init__(self, name: str, image: str, depends: tuple[str, ...], start_type: int, log: SystemLog) -> None:
        self.name, self.image, self.depends, self.start_type, self._log = name, image, depends, start_type, log
        self.state = ServiceState.STOPPED
        self.starts: list[Start] = []
        self.start_seconds = self.stop_seconds = 0.0
        self.starts_well = self.stops = True
        self.checkpoint_seconds = self.hint_seconds = 0.0
        """After how many seconds a pending service counts up its checkpoint (0: never), and its wait hint."""
        self.deleted = False
        self.exit_code = 0
        self._since = self._until = 0.0
        self.ends: tuple[float, int] | None = None
        """When its process exits, and with which code."""

    def copy(self) -> "SimulatedService":
        """Return a copy with its own record of starts."""
        made = copy(self)
        made.starts = list(self.starts)
        return made

    def enter(self, state: ServiceState, now: float, seconds: float) -> None:
        """Enter a pending state that ends `seconds` after `now`."""
        self.state, self._since, self._until = state, now, now + seconds

    def behave_as(self, other: "SimulatedService") -> None:
        """Take over the durations and faults of another service, and its record of starts."""
        self.starts, self.starts_well, self.stops = other.starts, other.starts_well, other.stops
        self.start_seconds, self.stop_seconds = other.start_seconds, other.stop_seconds
        self.checkpoint_seconds, self.hint_seconds = other.checkpoint_seconds, other.hint_seconds

    def get_checkpoint(self, now: float) -> tuple[int, int]:
        """Return dwCheckPoint and dwWaitHint, in milliseconds: 0 where the service is not pending (SERVICE_STATUS)."""
        if self.state not in (ServiceState.START_PENDING, ServiceState.STOP_PENDING):
            return 0, 0
        count = int((now - self._since) / self.checkpoint_seconds) if self.checkpoint_seconds else 0
        return count, int(self.hint_seconds * 1000)

    def settle(self, now: float) -> None:
        """Leave a state whose time is over."""
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

    def __init__(self, host: Machine) -> None:
        self._host = host
        self._services = FoldedDict[SimulatedService]()
        self.refused: set[str] = set()
        """Services, in lower case, that cannot be made: software against intruders does so."""

    def load(self) -> None:
        """Read the services from the registry, as a boot does.

        The records of starts and the configured behavior are kept.
        """
        known, self._services = self._services, FoldedDict()
        for name in self._host.registry.list_children(SERVICES):
            key = self._host.registry.find_key(rf"{SERVICES}\{name}")
            image, depends, start = (key.get(n) for n in ("ImagePath", "DependOnService", "Start")) if key else (None,) * 3
            if image is None:
                continue
            made = SimulatedService(
                name,
                image.decode_text(),
                depends.to_texts() if depends and depends.type == ValueType.MULTI_SZ else (),
                start.to_number() if start else _DEMAND,
                self._host.system_log,
            )
            if present := known.get(name):
                made.behave_as(present)
            self._services[name] = made

    def replace(self, services: Iterable[SimulatedService]) -> None:
        """Knows these services instead, which the registry speaks of."""
        self._services = FoldedDict((service.name, service) for service in services)

    def list_names(self) -> tuple[str, ...]:
        """Return the names of the existing services."""
        return tuple(service.name for service in list(self._services.values()) if self.find(service.name))

    def find(self, name: str) -> SimulatedService | None:
        """Return a service in its current state, or None."""
        service = self._services.get(name)
        if service is None:
            return None
        service.settle(self._host.get_time())
        if service.deleted and service.state == ServiceState.STOPPED:
            self._forget(service)
            return None
        return service

    def get(self, name: str) -> SimulatedService:
        """Return a service in its current state. Raises ServiceError(1060)."""
        service = self.find(name)
        if service is None:
            raise ServiceError(1060)
        return service

    def create(
        self, name: str, image: str, *, depends: tuple[str, ...] = (), start_type: int = _DEMAND, display: str | None = None
    ) -> SimulatedService:
        """Create a service and its registry key.

        Raises ServiceError(1073) if it exists, (1072) if it is being deleted, (5).
        """
        if present := self.find(name):
            raise ServiceError(1072 if present.deleted else 1073)
        if name.casefold() in self.refused:
            raise ServiceError(5)
        path = rf"{SERVICES}\{name}"
        edits: list[Edit] = [
            SetValue(path, "Type", build_dword(0x10)),
            SetValue(path, "Start", build_dword(start_type)),
            SetValue(path, "ErrorControl", build_dword(1)),
            SetValue(path, "ImagePath", build_expand_sz(image)),
            SetValue(path, "DisplayName", build_sz(display or name)),
            SetValue(path, "ObjectName", build_sz("LocalSystem")),
        ]
        if depends:
            edits.append(SetValue(path, "DependOnService", build_multi_sz(depends)))
        self._host.registry = self._host.registry.apply_edits(edits)
        made = self._services[name] = SimulatedService(name, image, depends, start_type, self._host.system_log)
        self._host.system_log.write(7045, name, image)
        return made

    def configure(self, service: SimulatedService, image: str, depends: tuple[str, ...], start_type: int) -> None:
        """Change a service, for its next start."""
        path = rf"{SERVICES}\{service.name}"
        if start_type != service.start_type:
            self._host.system_log.write(7040, service.name)
        service.image, service.depends, service.start_type = image, depends, start_type
        edits: list[Edit] = [
            SetValue(path, "ImagePath", build_expand_sz(image)),
            SetValue(path, "Start", build_dword(start_type)),
        ]
        edits.append(
            SetValue(path, "DependOnService", build_multi_sz(depends)) if depends else DeleteValue(path, "DependOnService")
        )
        self._host.registry = self._host.registry.apply_edits(edits)

    def disable(self, name: str) -> None:
        """Disable a service, as `sc config NAME start= disabled` does; a running service keeps running."""
        service = self.get(name)
        self.configure(service, service.image, service.depends, _DISABLED)

    async def start(self, name: str) -> None:
        """Start a service after its dependencies; it may be pending afterwards.

        Raises ServiceError: 1056 already running, 1058 disabled, 1060 unknown, 1072 being deleted, 1075 a dependency is
        unknown, 1068 a dependency did not start, 2 the program does not exist, 193 the file is not a program, 1053 the program
        does not answer the service manager.
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
            if await self.wait_for_state(needed, ServiceState.RUNNING, _CONNECT_SECONDS) is False:
                self._host.system_log.write(7001, service.name, 1068)
                raise ServiceError(1068)
        if service.state != ServiceState.STOPPED:
            raise ServiceError(1056)
        try:
            program, arguments, file = self._find_program(service)
        except ServiceError as failure:
            self._host.system_log.write(7000, service.name, failure.code)
            raise
        service.starts.append(Start(self._host.boot_id, self.build_environment(service.name)))
        service.enter(ServiceState.START_PENDING, self._host.get_time(), service.start_seconds)
        service.exit_code = 0
        ends = _ENDS.match(file.data)
        service.ends = (self._host.get_time() + int(ends[2]), int(ends[1])) if ends else None
        if program.casefold().endswith("\\cmd.exe"):
            await self._run_command(service, program, arguments)
        elif _TOOL.fullmatch(file.data):
            raise self._record_timeout(service)
        service.settle(self._host.get_time())

    async def _run_command(self, service: SimulatedService, program: str, arguments: str) -> None:
        """Run cmd.exe as a service.

        It never answers the service manager, which fails the start when cmd.exe ends or after a timeout.
        """
        variables = self._host.build_variables(self.build_environment(service.name))
        shell = Shell(self._host, variables, r"C:\Windows\System32", Streams(NUL, NUL), self._host.background)
        service.enter(ServiceState.START_PENDING, self._host.get_time(), float("inf"))
        work = self._host.background.start(shell.run(f'"{program}"{arguments}'))
        try:
            done, _ = await asyncio.wait([work], timeout=_CONNECT_SECONDS * self._host.time_scale)
        except asyncio.CancelledError:
            # who asked for it is gone, which the manager does not care about
            self._record_timeout(service)
            raise
        if not done:
            work.cancel()
        raise self._record_timeout(service)

    def _record_timeout(self, service: SimulatedService) -> ServiceError:
        """Stop and log a service whose program does not answer the service manager; return the error."""
        service.state = ServiceState.STOPPED
        self._host.system_log.write(7009, service.name)
        self._host.system_log.write(7000, service.name, 1053)
        return ServiceError(1053)

    def stop(self, name: str) -> None:
        """Ask a service to stop; it may be pending afterwards.

        Raises ServiceError: 1051 a service that depends on it runs, 1060 unknown, 1061 pending, 1062 not running.
        """
        service = self.get(name)
        if service.state == ServiceState.STOPPED:
            raise ServiceError(1062)
        if service.state in (ServiceState.START_PENDING, ServiceState.STOP_PENDING):
            raise ServiceError(1061)
        if self.list_dependants(name):
            raise ServiceError(1051)
        service.enter(ServiceState.STOP_PENDING, self._host.get_time(), service.stop_seconds)
        service.settle(self._host.get_time())

    def delete(self, name: str) -> None:
        """Delete a service; a running service is deleted when it has stopped. Raises ServiceError(1060), (1072)."""
        service = self.get(name)
        if service.deleted:
            raise ServiceError(1072)
        service.deleted = True
        if service.state == ServiceState.STOPPED:
            self._forget(service)

    def kill(self, name: str) -> None:
        """Kill the process of a service, as a crash does."""
        service = self.get(name)
        service.state, service.exit_code = ServiceState.STOPPED, 1067
        self._host.system_log.write(7034, service.name, 1067)

    def list_dependants(self, name: str) -> tuple[str, ...]:
        """Return the running or starting services that depend on this one."""
        return tuple(
            present.name
            for present in list(self._services.values())
            if is_listed(name, present.depends)
            and (service := self.find(present.name)) is not None
            and service.state != ServiceState.STOPPED
        )

    async def wait_for_state(self, name: str, state: ServiceState, seconds: float) -> bool:
        """Wait until a service is not pending any more, at most `seconds`; return True if it has this state."""
        end = self._host.get_time() + seconds
        pending = (ServiceState.START_PENDING, ServiceState.STOP_PENDING)
        while (service := self.find(name)) is not None and service.state in pending and self._host.get_time() < end:
            await self._host.sleep(0.05)
        service = self.find(name)
        return (service.state if service else ServiceState.STOPPED) == state

    def kill_all(self) -> None:
        """End the process of every service, as a power cut does."""
        for service in self._services.values():
            service.state = ServiceState.STOPPED

    async def start_automatic(self) -> None:
        """Start the services with automatic start, as a boot does."""
        for service in list(self._services.values()):
            if service.start_type == _AUTOMATIC and service.state == ServiceState.STOPPED:
                try:
                    await self.start(service.name)
                except ServiceError as failure:
                    service.exit_code = failure.code

    def build_environment(self, name: str) -> dict[str, str]:
        """Build the environment of a service that starts now: the machine's variables at boot, overridden by its own.

        An own item `NAME=` is an empty variable: Windows passes the block unchanged.
        """
        variables = {present.upper(): (present, value) for present, value in self._host.booted_environment.items()}
        own = self._host.registry.find_value(rf"{SERVICES}\{name}", "Environment")
        for item in own.to_texts() if own is not None and own.type == ValueType.MULTI_SZ else ():
            variable, _, value = item.partition("=")
            variables[variable.upper()] = (variable, value)
        return dict(variables.values())

    def _find_program(self, service: SimulatedService) -> tuple[str, str, SimulatedFile]:
        match = _COMMAND.fullmatch(service.image)
        path = (match[1] or match[2]) if match else service.image
        path = re.sub("%SystemRoot%", lambda _: r"C:\Windows", path, flags=re.IGNORECASE)
        file = self._host.files.find(path)
        if not isinstance(file, SimulatedFile):
            raise ServiceError(2)
        if not file.data.startswith(b"MZ"):
            raise ServiceError(193)
        return path, match[3] if match else "", file

    def _forget(self, service: SimulatedService) -> None:
        self._services.pop(service.name, None)
        self._host.registry = self._host.registry.apply_edits([DeleteKey(rf"{SERVICES}\{service.name}")])
