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


def start_forking(module: str, directory: Path, environment: Mapping[str, str]) -> socket.socket:
    """Start `python -m MODULE SOCKET`, which calls `wait_for_request`, and return its socket.

    The process ends when the socket is closed or this process ends.
    """
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


def wait_for_request(
    control: socket.socket, largest: int, descriptors: int, on_fork: Callable[[int], object] | None = None
) -> tuple[bytes, list[int]]:
    """Fork for each request until the socket is closed; in each child, return the request and its descriptors.

    A request has at most `largest` bytes. The forking process calls `on_fork` with the id of each child.
    """
    while True:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                continue
        request, received, _, _ = socket.recv_fds(control, largest, descriptors)
        if not request:
            sys.exit()
        child = os.fork()
        if child == 0:
            control.close()
            return request, received
        if on_fork is not None:
            on_fork(child)
        for item in received:
            os.close(item)
