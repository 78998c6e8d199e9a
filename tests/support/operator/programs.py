"""`transom run` or `transom webhook` as a process of its own."""

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol

import aiohttp
from lab.control_plane import ControlPlane
from lab.ports import reserve
from lab.releases import Wheel
from tests.support.process import TRANSOM
from tests.support.waiting import PATIENCE

_TOLD = 5000
"""Lines of its log that are told where the block failed; a story may wait for 480 s before it does."""


class Place(Protocol):
    """Where a replica works."""

    control_plane: ControlPlane
    namespace: str


class Program:
    """One replica. Ended by SIGTERM at the end of the block, where it still runs."""

    def __init__(
        self,
        cluster: Place,
        name: str = "one",
        kubeconfig: Path | None = None,
        *,
        command: str = "run",
        wheel: Wheel | None = None,
        **options: str,
    ) -> None:
        """Of this tree, or of another wheel."""
        self._directory = cluster.control_plane.directory
        self._log = self._directory / f"{cluster.namespace}-{name}.log"
        self.port = reserve()
        defaults = {"namespace": cluster.namespace, "bind-address": f"127.0.0.1:{self.port}", "log-level": "debug"}
        flags = {"kubeconfig": str(kubeconfig or cluster.control_plane.kubeconfig), **defaults, **options}
        arguments = (command, *(f"--{flag}={value}" for flag, value in flags.items()))
        self._command: Sequence[str] = (*(wheel.command if wheel else TRANSOM), *arguments)
        self._environment = {"PATH": os.defpath, "HOME": str(self._directory)} | dict(wheel.environment if wheel else {})
        self._process: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> "Program":
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._command, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log, env=self._environment
            )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            # it goes with the control plane, and a program that hangs does not end
            sys.stdout.write("".join(self.log().splitlines(keepends=True)[-_TOLD:]))
        if self.process.returncode is None:
            self.signal(signal.SIGCONT)
            await self.terminate()

    @property
    def process(self) -> asyncio.subprocess.Process:
        assert self._process is not None
        return self._process

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    async def terminate(self) -> int:
        """SIGTERM; the exit code."""
        self.signal(signal.SIGTERM)
        async with asyncio.timeout(PATIENCE):
            return await self.process.wait()

    def log(self) -> str:
        return self._log.read_text()

    async def get(self, path: str) -> tuple[int, str]:
        """Code and text of an HTTP answer; 0 while nobody listens."""
        async with aiohttp.ClientSession(trust_env=False) as session:
            try:
                async with session.get(f"http://127.0.0.1:{self.port}{path}") as response:
                    return response.status, await response.text()
            except aiohttp.ClientConnectionError:
                return 0, ""
