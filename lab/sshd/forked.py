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
from lab.forking import start_forking

ROOT = Path(lab.__file__).parent.parent
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)}
"""The whole environment of a server."""
_LOCK = Lock()


class ForkedServer:
    """A forked process with the part of `subprocess.Popen` that the lab uses; it can end on its own."""

    def __init__(self, settings: Path, log: IO[bytes]) -> None:
        operator, own = os.pipe()
        self.stdin: IO[bytes] | None = os.fdopen(own, "wb")
        with _LOCK:
            control = _get_control_socket()
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
        return 0 if self._wait_for_end(0) else None

    def wait(self, timeout: float) -> int:
        """Wait for the end. Raises subprocess.TimeoutExpired."""
        if not self._wait_for_end(timeout):
            raise subprocess.TimeoutExpired(f"SSH server {self.pid}", timeout)
        return 0

    def _wait_for_end(self, seconds: float) -> bool:
        # pidfd_open(2): readable once the process has ended
        waiting = select.poll()
        waiting.register(self._process, select.POLLIN)
        self._ended = self._ended or bool(waiting.poll(seconds * 1000))
        return self._ended


@cache
def _get_control_socket() -> socket.socket:
    return start_forking("lab.sshd.forking", ROOT, ENVIRONMENT)
