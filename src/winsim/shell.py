"""The state of a cmd.exe process, which its commands, conditions and loops work with, and redirections.

Source: Microsoft, "Using command redirection operators".
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from winsim import batch, expansion
from winsim.batch import Redirection
from winsim.expansion import BatchVariables
from winsim.filesystem import READ, SimulatedDirectory, split_path
from winsim.machine import Machine
from winsim.processes import Job
from winsim.streams import NUL, FileSink, Sink, Streams


class ShellState(ABC):
    """A cmd.exe process: variables, current directory, error level."""

    def __init__(self, host: Machine, variables: BatchVariables, cwd: str, streams: Streams, job: Job) -> None:
        self.host, self.variables, self.streams, self.job = host, variables, streams, job
        self.errorlevel = 0
        self.delayed = False
        self.loops: dict[str, str] = {}
        self._directory: SimulatedDirectory | None = None
        self.cwd = cwd
        self.change_directory(cwd)

    def change_directory(self, path: str) -> None:
        """Change the current directory and prevent its removal. Raises FileError."""
        directory = self.host.files.get_directory(path)
        directory.holds += 1
        if self._directory is not None:
            self._directory.holds -= 1
        self._directory, self.cwd = directory, "C:\\" + "\\".join(split_path(path))

    def resolve_path(self, text: str) -> str:
        """Return the absolute path of a path on a command line, without its quotes."""
        return expansion.resolve_path(text.replace('"', ""), self.cwd)

    def lookup(self, name: str) -> str | None:
        """Return the value of a variable, including those that cmd.exe computes."""
        present = self.variables.get(name)
        if present is None:
            match name.upper():
                case "ERRORLEVEL":
                    return str(self.errorlevel)
                case "CD":
                    return self.cwd
                case "RANDOM":
                    return str(self.host.random.randrange(32768))
        return present

    def write(self, text: str) -> None:
        """Write to standard output, in the OEM code page."""
        self.streams.out.write(text.encode("cp437", "replace"))

    def write_error(self, text: str) -> None:
        """Write a line to standard error."""
        self.streams.err.write(self.host.edition.encode_message(text + "\r\n"))

    def expand_late(self, text: str) -> str:
        """Expand loop variables and, where enabled, `!x!` in a string of the parsed tree."""
        if self.loops and "%" in text:
            text = expansion.expand_loop_variables(text, self.loops, self.host.files, self.cwd)
        return expansion.expand_delayed(text, self.lookup) if self.delayed else text

    @property
    @abstractmethod
    def is_in_batch_file(self) -> bool:
        """Whether a batch file runs."""

    @abstractmethod
    async def run_child(self, node: batch.Node, streams: Streams) -> int:
        """Run a statement in a process of its own, as pipes and `for /f` do."""


@contextmanager
def open_redirections(shell: ShellState, redirections: Sequence[Redirection]) -> Iterator[None]:
    """Redirect the shell's handles until the block ends. Raises FileError if a file cannot be opened."""
    outer = shell.streams
    with ExitStack() as opened:
        shell.streams = _open_streams(shell, redirections, opened)
        try:
            yield
        finally:
            shell.streams = outer


def _open_streams(shell: ShellState, redirections: Sequence[Redirection], opened: ExitStack) -> Streams:
    sinks: dict[int, Sink] = {1: shell.streams.out, 2: shell.streams.err}
    data = shell.streams.input
    for redirection in redirections:
        target = shell.expand_late(redirection.target).replace('"', "")
        if redirection.mode == "&":
            sinks[redirection.handle] = sinks.get(int(target), NUL)
        elif redirection.mode == "<":
            data = b"" if target.casefold() == "nul" else shell.host.files.read(shell.resolve_path(target))
        elif target.casefold() == "nul":
            sinks[redirection.handle] = NUL
        else:
            handle = shell.host.files.open(shell.resolve_path(target), truncate=redirection.mode == ">", share=READ)
            opened.callback(handle.close)
            sinks[redirection.handle] = FileSink(handle)
    return Streams(sinks[1], sinks[2], data)
