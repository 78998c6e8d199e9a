"""Processes of a host: jobs that end them together, and how a program is started."""

import asyncio
import re
from collections.abc import Coroutine
from typing import Any, NamedTuple

from winsim.expansion import BatchVariables
from winsim.streams import Streams


class Job:
    """Processes that end together, as in a Windows job object."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        """Start a process in the job."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def end(self) -> None:
        """End all processes of the job."""
        for task in list(self._tasks):
            task.cancel()

    async def wait_until_idle(self) -> None:
        """Wait until no process of the job runs."""
        while self._tasks:
            await asyncio.wait(self._tasks)


class ProcessStart(NamedTuple):
    """How a program is started: its path, the rest of its command line, its handles, environment, directory and job."""

    path: str
    rest: str
    streams: Streams
    variables: BatchVariables
    cwd: str
    job: Job


_ARGUMENT = re.compile(r'(?:"(?:\\"|[^"])*"?|\\"|[^\s"])+')


def split_arguments(text: str) -> list[str]:
    r"""Arguments as a C program gets them (Microsoft: "Parsing C command-line arguments"); `\"` is a quote."""
    arguments = []
    for word in _ARGUMENT.findall(text):
        plain = word.replace('\\"', "\0").replace('"', "").replace("\0", '"')
        arguments.append(plain)
    return arguments
