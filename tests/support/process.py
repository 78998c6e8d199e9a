"""`transom` as a process of its own."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from typing import BinaryIO

TRANSOM = (sys.executable, "-m", "transom")


def run(*arguments: str, environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run `transom ARGUMENTS` to its end, with this process's environment unless another is given."""
    command = (*TRANSOM, *arguments)
    return subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)


class Process:
    """A running `transom`, whose output so far can be read at any time."""

    def __init__(self, process: asyncio.subprocess.Process, output: int, errors: int) -> None:
        self._process, self._output, self._errors = process, output, errors

    def __del__(self) -> None:
        os.close(self._output)
        os.close(self._errors)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit code, or minus the number of the signal; None while it runs."""
        return self._process.returncode

    def written(self) -> tuple[bytes, bytes]:
        """Return output and errors so far."""
        return _read_file(self._output), _read_file(self._errors)

    async def wait(self) -> int:
        return await self._process.wait()

    async def communicate(self) -> tuple[bytes, bytes]:
        """Wait for the end and return output and errors."""
        await self._process.wait()
        return self.written()

    def send_signal(self, number: signal.Signals) -> None:
        if self._process.returncode is None:
            self._process.send_signal(number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


async def start(*arguments: str, environment: Mapping[str, str] | None = None, log: BinaryIO | None = None) -> Process:
    """Start `transom ARGUMENTS`; output and errors go to `log`, if it is given."""
    output, errors = (os.dup(log.fileno()) if log else os.memfd_create(name) for name in ("output", "errors"))
    environ = dict(os.environ if environment is None else environment)
    process = await asyncio.create_subprocess_exec(
        *TRANSOM, *arguments, stdin=asyncio.subprocess.DEVNULL, stdout=output, stderr=errors, env=environ
    )
    return Process(process, output, errors)


def _read_file(file: int) -> bytes:
    return os.pread(file, os.fstat(file).st_size, 0)
