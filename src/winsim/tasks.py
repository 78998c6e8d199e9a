"""The Task Scheduler: tasks that run on demand, as SYSTEM, apart from who asked for them.

A task is described as XML (Microsoft Learn, "Task Scheduler Schema"); of it the program, its arguments, whom it runs as and its
triggers are read. Deleting a task does not end what it runs (Microsoft Learn, "schtasks delete").
"""

from collections.abc import Iterable
from contextlib import nullcontext
from xml.etree import ElementTree

import msgspec

from transom.windows.registry.names import FoldedDict
from winsim.interpreter import Shell
from winsim.machine import Machine
from winsim.streams import NUL, Streams

_SPACE = "{http://schemas.microsoft.com/windows/2004/02/mit/task}"
_SYSTEM = "S-1-5-18"


class Task(msgspec.Struct, frozen=True):
    """What a task runs."""

    name: str
    program: str
    arguments: str
    user: str = _SYSTEM


class TaskError(Exception):
    """A task that is not taken."""


class TaskScheduler:
    """The tasks of a host, by name without case. `runs` is whether the service Schedule runs; without it all is refused."""

    def __init__(self, host: Machine) -> None:
        self._host = host
        self._tasks = FoldedDict[Task]()
        self.runs = True
        self.delays: float | None = 0
        """Seconds of the host's time before what was asked to run begins; None: it never does."""

    def replace(self, tasks: Iterable[Task]) -> None:
        """Knows these tasks instead."""
        self._tasks = FoldedDict((task.name, task) for task in tasks)

    def list_names(self) -> tuple[str, ...]:
        """Return the names of the tasks."""
        return tuple(task.name for task in self._tasks.values())

    def find(self, name: str) -> Task | None:
        """Return a task, or None."""
        return self._tasks.get(name)

    def create(self, name: str, document: bytes) -> None:
        """Enter a task of SYSTEM's, in the place of one of that name. Raises TaskError for what is none, or not simulated."""
        try:
            root = ElementTree.fromstring(document.decode("utf-16"))  # noqa: S314  # what a test of this process sent
        except (UnicodeError, ElementTree.ParseError):
            raise TaskError("The task XML is malformed.") from None
        triggers = root.find(f"{_SPACE}Triggers")
        program, arguments = (root.findtext(f"{_SPACE}Actions/{_SPACE}Exec/{_SPACE}{n}") for n in ("Command", "Arguments"))
        whom = root.findtext(f"{_SPACE}Principals/{_SPACE}Principal/{_SPACE}UserId")
        if root.tag != f"{_SPACE}Task" or program is None or whom != _SYSTEM or triggers is None or len(triggers):
            raise TaskError("The task XML contains a value which is incorrectly formatted or out of range.")
        self.register(Task(name, program, arguments or ""))

    def register(self, task: Task) -> None:
        """Register a task, replacing one with the same name."""
        self._tasks[task.name] = task

    def delete(self, name: str) -> None:
        """Delete a task; what it runs continues."""
        del self._tasks[name]

    def run(self, task: Task) -> None:
        """Start the program of a task, with the machine's environment of the last boot."""

        async def work() -> None:
            if self.delays is None:
                return
            await self._host.sleep(self.delays)
            shell = Shell(
                self._host, self._host.build_variables(), r"C:\Windows\System32", Streams(NUL, NUL), self._host.background
            )
            with self._host.files.act_as(task.user) if task.user != _SYSTEM else nullcontext():
                await shell.run(f'"{task.program}" {task.arguments}')

        self._host.background.start(work())
