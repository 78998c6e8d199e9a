"""An SSH server that is forked from one that has imported it (`lab.sshd.forking`); it starts with the first machine."""

from __future__ import annotations

import os
import select
import socket
import subprocess
from functools import cache
from pathlib import Path
from threading import Lock
from typing import IO

import lab
from lab.forking import forking

ROOT = Path(lab.__file__).parent.parent
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)}
"""The whole environment of a server."""
_LOCK = Lock()


class Forked:
    """A process, as far as `subprocess.Popen` has the same; it may have ended by itself."""

    def __init__(self, settings: Path, log: IO[bytes]) -> None:
        operator, own = os.pipe()
        self.stdin: IO[bytes] | None = os.fdopen(own, "wb")
        with _LOCK:
            control = _forking()
            socket.send_fds(control, [os.fsencode(settings)], [operator, log.fileno()])
            answer, descriptors, _, _ = socket.recv_fds(control, 64, 1)
        os.close(operator)
        if not answer:
            raise RuntimeError("who forks SSH servers has ended")
        self.pid = int(answer)
        self._process = descriptors[0]
        self._ended = False

    def __del__(self) -> None:
        if hasattr(self, "_process"):
            os.close(self._process)

    def poll(self) -> int | None:
        """Not None once the process has ended; its exit code is not known."""
        return 0 if self._over(0) else None

    def wait(self, timeout: float) -> int:
        """Wait for the end. Raises subprocess.TimeoutExpired."""
        if not self._over(timeout):
            raise subprocess.TimeoutExpired(f"SSH server {self.pid}", timeout)
        return 0

    def _over(self, seconds: float) -> bool:
        # pidfd_open(2): readable once the process has ended
        waiting = select.poll()
        waiting.register(self._process, select.POLLIN)
        self._ended = self._ended or bool(waiting.poll(seconds * 1000))
        return self._ended


@cache
def _forking() -> socket.socket:
    return forking("lab.sshd.forking", ROOT, ENVIRONMENT)
