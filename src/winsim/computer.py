"""A machine with services and tasks, and a program that runs on it."""

from collections.abc import Callable

from winsim.editions import SERVER_2022, Edition
from winsim.expansion import resolve_path
from winsim.machine import Machine
from winsim.processes import ProcessStart, split_arguments
from winsim.services import ServiceManager
from winsim.tasks import TaskScheduler


class Computer(Machine):
    """What the programs of `winsim.programs` work with."""

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
        self.services = ServiceManager(self)
        self.tasks = TaskScheduler(self)
        self.powershell: Callable[[Invocation], int] | None = None
        """What powershell.exe does with a script, or a command that is not one of Transom's."""
        self.fetch: Callable[[Invocation], int] | None = None
        """What curl.exe does; without it no name can be resolved."""


class Invocation:
    """A program that is started: its path, the rest of its command line, its handles, environment and directory."""

    __slots__ = ("arguments", "cwd", "host", "job", "path", "rest", "streams", "variables")

    def __init__(self, host: "Computer", start: ProcessStart) -> None:
        self.host = host
        self.path, self.rest, self.streams, self.variables, self.cwd, self.job = start
        self.arguments = split_arguments(start.rest)

    def write_output(self, text: str) -> None:
        """Write text to standard output, in the host's language and code page."""
        self.streams.out.write(self.host.edition.encode_message(text.replace("\n", "\r\n")))

    def write_error(self, text: str) -> None:
        """Write text to standard error, in the host's language and code page."""
        self.streams.err.write(self.host.edition.encode_message(text.replace("\n", "\r\n")))

    def resolve_path(self, path: str) -> str:
        """Return the absolute path of a path relative to the program's current directory."""
        return resolve_path(path, self.cwd)
