"""Ports for servers that have to be told theirs.

A port that the kernel has just given away as free is anybody's again until the server binds it: a connection of another test
takes it as its own end. These are below the ports that Linux gives away (from 32768 on, ip(7)), and each is one process's until
that ends.
"""

from __future__ import annotations

import fcntl
import functools
import itertools
import os
import random
import socket
from collections.abc import Iterator
from pathlib import Path

from lab import cache

PORTS = range(12_000, 30_000)
_TAKEN = set[int]()


def reserve(address: str = "127.0.0.1", wanted: int | None = None) -> int:
    """Reserve a port of that address that is not in use, until this process ends.

    Args:
       address: one of this machine.
       wanted: is used if it is free.
    """
    return next(port for port in itertools.chain([wanted] if wanted else [], _cycle_ports()) if _try_reserve(address, port))


@functools.cache
def _cycle_ports() -> Iterator[int]:
    """Cycle through all ports from a random start, so that a port that was just used comes last."""
    first = random.randrange(len(PORTS))
    return itertools.cycle([*PORTS[first:], *PORTS[:first]])


@functools.cache
def _open_locks() -> int:
    """Open a file in which the process that has port N locks byte N; such locks end with the process."""
    file: Path = cache.get_directory() / "ports.lock"
    return os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)


def _try_reserve(address: str, port: int) -> bool:
    # a process's own lock is no obstacle to it
    if port in _TAKEN:
        return False
    try:
        fcntl.lockf(_open_locks(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    with socket.socket() as probe:
        try:
            probe.bind((address, port))
        except OSError:
            fcntl.lockf(_open_locks(), fcntl.LOCK_UN, 1, port)
            return False
    _TAKEN.add(port)
    return True
