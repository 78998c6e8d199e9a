"""The handles of a redirected statement (Microsoft: "Using command redirection operators")."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from winsim.batch import Redirection
from winsim.filesystem import READ
from winsim.streams import NUL, Appended, Sink, Streams

if TYPE_CHECKING:
    from winsim.interpreter import Shell


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
