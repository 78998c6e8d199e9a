"""`transom` as a process of its own, forked from one that has imported its commands (`tests.support.forking`).

To start Python and import them is 0.4 s of CPU, and a run of all tests has some three hundred such processes. Arguments,
environment, output, signals and exit code are the process's own. What is about the start itself, terminals for instance, starts
Python.
"""

import asyncio
import json
import os
import signal
import socket
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import BinaryIO

from lab.forking import forking
from tests.support.forking import WORD

_ROOT = Path(__file__).parents[2]


class Forked:
    """A process, as `asyncio.subprocess.Process` is."""

    def __init__(self, *arguments: str, environment: Mapping[str, str], log: BinaryIO | None = None) -> None:
        """Output and errors go into `log`, where it is given."""
        self._output, self._errors = (os.dup(log.fileno()) if log else os.memfd_create(name) for name in ("output", "errors"))
        self._told, told = os.pipe()
        request = {"arguments": arguments, "environment": dict(environment), "directory": str(Path.cwd())}
        socket.send_fds(_forking(), [json.dumps(request).encode()], (self._output, self._errors, told))
        os.close(told)
        self.pid = self._word()
        os.set_blocking(self._told, False)
        self._code: int | None = None

    def __del__(self) -> None:
        for one in (self._output, self._errors, self._told):
            os.close(one)

    @property
    def returncode(self) -> int | None:
        """The exit code, or minus the number of the signal; None while the process runs."""
        if self._code is None:
            try:
                self._code = self._word()
            except BlockingIOError:
                return None
        return self._code

    async def wait(self) -> int:
        """Wait for the end; the exit code."""
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        while (code := self.returncode) is None:
            loop.add_reader(self._told, ended.set)
            try:
                await ended.wait()
            finally:
                loop.remove_reader(self._told)
        return code

    async def communicate(self) -> tuple[bytes, bytes]:
        """Wait for the end; output and errors."""
        await self.wait()
        return self.written()

    def written(self) -> tuple[bytes, bytes]:
        """Output and errors so far."""
        return _whole(self._output), _whole(self._errors)

    def send_signal(self, number: signal.Signals) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _word(self) -> int:
        told = os.read(self._told, WORD.size)
        if not told:
            raise RuntimeError("who watches over forked processes has ended")
        number: int = WORD.unpack(told)[0]
        return number


def run(*arguments: str, environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """`transom ARGUMENTS` to its end."""
    forked = Forked(*arguments, environment=os.environ if environment is None else environment)
    os.set_blocking(forked._told, True)
    code = forked.returncode
    assert code is not None
    output, errors = forked.written()
    return subprocess.CompletedProcess(arguments, code, output.decode(), errors.decode())


@cache
def _forking() -> socket.socket:
    return forking("tests.support.forking", _ROOT, {"PATH": os.defpath})


def _whole(file: int) -> bytes:
    return os.pread(file, os.fstat(file).st_size, 0)
