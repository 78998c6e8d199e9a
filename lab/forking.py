"""Processes forked from one that has imported what they run: to start Python and to import is most of what they cost."""

from __future__ import annotations

import atexit
import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path


def forking(module: str, directory: Path, environment: Mapping[str, str]) -> socket.socket:
    """Start `python -m MODULE SOCKET`, which calls `requested`; its socket, with whose end it ends, as with this process."""
    own, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    running = subprocess.Popen(
        [sys.executable, "-m", module, str(theirs.fileno())],
        cwd=directory,
        env=dict(environment),
        pass_fds=[theirs.fileno()],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    theirs.close()

    def end() -> None:
        own.close()
        running.wait()

    atexit.register(end)
    return own


def requested(
    control: socket.socket, largest: int, descriptors: int, told: Callable[[int], object] | None = None
) -> tuple[bytes, list[int]]:
    """Fork for each request until the socket is closed; in each process returns what was asked for, with its descriptors.

    A request has at most `largest` bytes. `told` is called with the id of each process, in the one that forks.
    """
    while True:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                continue
        request, given, _, _ = socket.recv_fds(control, largest, descriptors)
        if not request:
            sys.exit()
        child = os.fork()
        if child == 0:
            control.close()
            return request, given
        if told is not None:
            told(child)
        for one in given:
            os.close(one)
