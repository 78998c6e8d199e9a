"""What a process writes to and reads from, and what a redirection makes of it.

Source: Microsoft, "Using command redirection operators".
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Protocol

from winsim.batch import Redirection
from winsim.filesystem import READ, Handle

if TYPE_CHECKING:
    from winsim.interpreter import Shell


class Sink(Protocol):
    """Where output goes."""

    def write(self, data: bytes) -> None:
        """Takes some output. Raises FileError when a disk is full."""


class Nul:
    """The NUL device."""

    def write(self, data: bytes) -> None:
        """Forgets it."""


class Buffer:
    """Output that is kept."""

    __slots__ = ("data",)

    def __init__(self) -> None:
        self.data = bytearray()

    def write(self, data: bytes) -> None:
        """Keeps it."""
        self.data += data


class Forward:
    """Output that somebody takes at once, such as an SSH channel."""

    __slots__ = ("_take",)

    def __init__(self, take: Callable[[bytes], None]) -> None:
        self._take = take

    def write(self, data: bytes) -> None:
        """Hands it on."""
        self._take(data)


class Appended:
    """Output into a file, at its end."""

    __slots__ = ("handle",)

    def __init__(self, handle: Handle) -> None:
        self.handle = handle

    def write(self, data: bytes) -> None:
        """Appends it."""
        self.handle.write(data)


class Streams:
    """The three standard handles; input is all there from the start."""

    __slots__ = ("err", "input", "out")

    def __init__(self, out: Sink, err: Sink, data: bytes = b"") -> None:
        self.out, self.err, self.input = out, err, data


NUL = Nul()


@contextmanager
def redirected(shell: "Shell", redirections: Sequence[Redirection]) -> Iterator[None]:
    """Gives the shell other handles until the block ends. Raises FileError where a file cannot be opened."""
    outer = shell.streams
    with ExitStack() as opened:
        shell.streams = _streams(shell, redirections, opened)
        try:
            yield
        finally:
            shell.streams = outer


def _streams(shell: "Shell", redirections: Sequence[Redirection], opened: ExitStack) -> Streams:
    sinks: dict[int, Sink] = {1: shell.streams.out, 2: shell.streams.err}
    data = shell.streams.input
    for redirection in redirections:
        target = shell.late(redirection.target).replace('"', "")
        if redirection.mode == "&":
            sinks[redirection.handle] = sinks.get(int(target), NUL)
        elif redirection.mode == "<":
            data = b"" if target.casefold() == "nul" else shell.host.files.read(shell.path(target))
        elif target.casefold() == "nul":
            sinks[redirection.handle] = NUL
        else:
            handle = shell.host.files.open(shell.path(target), truncate=redirection.mode == ">", share=READ)
            opened.callback(handle.close)
            sinks[redirection.handle] = Appended(handle)
    return Streams(sinks[1], sinks[2], data)
