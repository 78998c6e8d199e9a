"""What a process writes to and reads from."""

from collections.abc import Callable
from typing import Protocol

from winsim.filesystem import Handle


class Sink(Protocol):
    """Where output goes."""

    def write(self, data: bytes) -> None:
        """Write output. Raises FileError if the disk is full."""


class Nul:
    """The NUL device."""

    def write(self, data: bytes) -> None:
        """Discard output."""


class Buffer:
    """Output that is kept."""

    __slots__ = ("data",)

    def __init__(self) -> None:
        self.data = bytearray()

    def write(self, data: bytes) -> None:
        """Append output to the buffer."""
        self.data += data


class Forward:
    """Output that is passed on immediately, for example to an SSH channel."""

    __slots__ = ("_take",)

    def __init__(self, take: Callable[[bytes], None]) -> None:
        self._take = take

    def write(self, data: bytes) -> None:
        """Pass output on."""
        self._take(data)


class FileSink:
    """Output into a file, at its end."""

    __slots__ = ("handle",)

    def __init__(self, handle: Handle) -> None:
        self.handle = handle

    def write(self, data: bytes) -> None:
        """Append output to the file."""
        self.handle.write(data)


class Streams:
    """The three standard handles; input is all there from the start."""

    __slots__ = ("err", "input", "out")

    def __init__(self, out: Sink, err: Sink, data: bytes = b"") -> None:
        self.out, self.err, self.input = out, err, data


NUL = Nul()
