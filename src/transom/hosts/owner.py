"""Who works on a host: what the lock on it says, and what keeps two commands of one person apart."""

import fcntl
import getpass
import hashlib
import os
import re
import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from transom.hosts.errors import Held
from transom.windows import ledger

_WORD = re.compile(r"[A-Za-z0-9@._-]+")
_OTHER = re.compile(r"[^A-Za-z0-9@._-]+")


class Owner(msgspec.Struct, frozen=True):
    """The holder of hosts. `identity` and `process` are made of letters, digits, `@`, `.`, `_` and `-`."""

    identity: str
    """Its name over all its lives. Two passes of one identity never work on one host: a lock of ours is of an earlier life."""
    process: str
    """Which life it is, for people; it may have blanks."""
    generation: int | None = None
    """The number of the lease; None for a command line, which is not fenced."""
    manager: str = ""
    """What the ledger of a host calls whoever works on it; empty: nothing."""

    def __post_init__(self) -> None:
        if not _WORD.fullmatch(self.identity) or not all(map(_WORD.fullmatch, self.process.split(" "))):
            raise ValueError("an owner is made of letters, digits, '@', '.', '_' and '-'")

    @property
    def tag(self) -> str:
        """Eight hex digits that stand in the names of this owner's files on a host."""
        return hashlib.sha256(self.identity.encode()).hexdigest()[:8]

    @property
    def line(self) -> str:
        """What the lock says."""
        return f"{self.identity} {self.process}"


def person(state: Path) -> Owner:
    """The owner for commands of this person on this machine; `state` is Transom's state directory, made where it is missing.

    The identity holds a random part that is kept in `state`: whoever has the same identity shares the directory, and so the
    `claim` files. Raises OSError.
    """
    state.mkdir(parents=True, exist_ok=True, mode=0o700)
    kept = state / "identity"
    try:
        with kept.open("x", encoding="ascii") as new:
            new.write(secrets.token_hex(4))
    except FileExistsError:
        pass
    number = _OTHER.sub("-", kept.read_text("ascii").strip()) or "0"
    user = _OTHER.sub("-", _user())
    machine = _OTHER.sub("-", socket.gethostname())
    return Owner(f"{user}@{machine}-{number}", f"pid {os.getpid()}", manager=ledger.FILES)


def operator(namespace: str, uid: str, process: str = "transom") -> Owner:
    """An operator, over all its lives; `uid` is that of its namespace: what one replica left, the next one may tidy up."""
    cluster = hashlib.sha256(uid.encode()).hexdigest()[:8]
    return Owner(f"transom-operator@{cluster}", process, manager=ledger.operator(namespace, cluster))


@contextmanager
def claim(state: Path, address: str, port: int) -> Iterator[None]:
    """Hold one host against other commands that share `state`, until the block or process ends. Raises Held, OSError."""
    directory = state / "hosts"
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    name = hashlib.sha256(f"{address.casefold()} {port}".encode()).hexdigest()[:16]
    with (directory / f"{name}.lock").open("a+", encoding="ascii") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise Held(file.read().strip() or "another command of yours on this machine", None) from None
        file.truncate(0)
        file.write(f"{_user()}@{socket.gethostname()} pid {os.getpid()}\n")
        file.flush()
        yield


def _user() -> str:
    try:
        return getpass.getuser()
    except KeyError:
        # in a container that runs as a number
        return str(os.getuid())
