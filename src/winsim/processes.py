"""Processes of a host: what ends with whom, and what a program is given."""

import asyncio
import re
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from winsim.expansion import BatchVariables, absolute
from winsim.streams import Streams

if TYPE_CHECKING:
    from winsim.host import Host


class Job:
    """Processes that end together, as in a Windows job object."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        """Starts a process in the job."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def end(self) -> None:
        """Ends all of them."""
        for task in list(self._tasks):
            task.cancel()

    async def finished(self) -> None:
        """Waits until none runs."""
        while self._tasks:
            await asyncio.wait(self._tasks)


class Invocation:
    """A program that is started: its path, the rest of its command line, its handles, environment and directory."""

    __slots__ = ("arguments", "cwd", "host", "job", "path", "rest", "streams", "variables")

    def __init__(
        self, host: "Host", path: str, rest: str, streams: Streams, variables: BatchVariables, cwd: str, job: Job
    ) -> None:
        self.host, self.path, self.rest, self.streams = host, path, rest, streams
        self.variables, self.cwd, self.job = variables, cwd, job
        self.arguments = split_arguments(rest)

    def out(self, text: str) -> None:
        """Writes lines to standard output, in the host's language and code page."""
        self.streams.out.write(self.host.edition.said(text.replace("\n", "\r\n")))

    def error(self, text: str) -> None:
        """Writes lines to standard error."""
        self.streams.err.write(self.host.edition.said(text.replace("\n", "\r\n")))

    def absolute(self, path: str) -> str:
        """A path in full."""
        return absolute(path, self.cwd)


_ARGUMENT = re.compile(r'(?:"(?:\\"|[^"])*"?|\\"|[^\s"])+')


def split_arguments(text: str) -> list[str]:
    r"""Arguments as a C program gets them (Microsoft: "Parsing C command-line arguments"); `\"` is a quote."""
    found = []
    for word in _ARGUMENT.findall(text):
        plain = word.replace('\\"', "\0").replace('"', "").replace("\0", '"')
        found.append(plain)
    return found
