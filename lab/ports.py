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
    """A port of that address that nobody listens on, kept from all who ask here until this process ends.

    Args:
        address: one of this machine.
        wanted: is taken where it is free.
    """
    return next(port for port in itertools.chain([wanted] if wanted else [], _in_turn()) if _reserved(address, port))


@functools.cache
def _in_turn() -> Iterator[int]:
    """All ports, again and again, from anywhere: a port that has just been used comes last."""
    first = random.randrange(len(PORTS))
    return itertools.cycle([*PORTS[first:], *PORTS[:first]])


@functools.cache
def _locks() -> int:
    """A file of which byte N is locked by the process that has port N; such locks end with the process."""
    file: Path = cache.directory() / "ports.lock"
    return os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)


def _reserved(address: str, port: int) -> bool:
    # a process's own lock is no obstacle to it
    if port in _TAKEN:
        return False
    try:
        fcntl.lockf(_locks(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    with socket.socket() as probe:
        try:
            probe.bind((address, port))
        except OSError:
            fcntl.lockf(_locks(), fcntl.LOCK_UN, 1, port)
            return False
    _TAKEN.add(port)
    return True
