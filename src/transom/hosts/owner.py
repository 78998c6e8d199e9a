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

from transom.common.regular_files import read_regular_text
from transom.hosts.errors import Held
from transom.windows import ledger

_WORD = re.compile(r"[A-Za-z0-9@._-]+")
_OTHER = re.compile(r"[^A-Za-z0-9@._-]+")


class Owner(msgspec.Struct, frozen=True):
    """The holder of hosts. `identity` and `process` are made of letters, digits, `@`, `.`, `_` and `-`."""

    identity: str
    """Its name across restarts. Two passes of one identity never work on one host: its own lock is from an earlier process."""
    process: str
    """The process, for people; it may contain spaces."""
    generation: int | None = None
    """The number of the lease; None for a command line, which is not fenced."""
    manager: str = ""
    """The name of the owner in the ledger of a host; empty: none."""

    def __post_init__(self) -> None:
        if not _WORD.fullmatch(self.identity) or not all(map(_WORD.fullmatch, self.process.split(" "))):
            raise ValueError("an owner is made of letters, digits, '@', '.', '_' and '-'")

    @property
    def tag(self) -> str:
        """Return the eight hex digits in the names of this owner's files on a host."""
        return hashlib.sha256(self.identity.encode()).hexdigest()[:8]

    @property
    def lock_text(self) -> str:
        """What the lock says."""
        return f"{self.identity} {self.process}"


def build_user_owner(state: Path) -> Owner:
    """Build the owner for this person's commands on this machine; `state` is Transom's state directory.

    The directory is created if it is missing. The identity has a random part that is kept in `state`: all commands with
    this identity share the directory, and so the `claim` files. Raises OSError.
    """
    state.mkdir(parents=True, exist_ok=True, mode=0o700)
    kept = state / "identity"
    try:
        with kept.open("x", encoding="ascii") as new:
            new.write(secrets.token_hex(4))
    except FileExistsError:
        pass
    number = _OTHER.sub("-", read_regular_text(kept, "ascii").strip()) or "0"
    user = _OTHER.sub("-", get_user())
    machine = _OTHER.sub("-", socket.gethostname())
    return Owner(f"{user}@{machine}-{number}", f"pid {os.getpid()}", manager=ledger.FILES)


def build_operator_owner(namespace: str, uid: str, process: str = "transom") -> Owner:
    """Build the owner of an operator, stable across restarts; `uid` is its namespace's.

    A replica may therefore delete what another one left behind.
    """
    cluster = hashlib.sha256(uid.encode()).hexdigest()[:8]
    return Owner(f"transom-operator@{cluster}", process, manager=ledger.format_operator_name(namespace, cluster))


@contextmanager
def lock_host(state: Path, address: str, port: int) -> Iterator[None]:
    """Hold one host against other commands that share `state`, until the block or process ends. Raises Held, OSError."""
    directory = state / "hosts"
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    name = hashlib.sha256(f"{address.casefold()} {port}".encode()).hexdigest()[:16]
    with (directory / f"{name}.lock").open("a+", encoding="ascii") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise Held(file.read().strip() or "another command on this machine", None) from None
        file.truncate(0)
        file.write(f"{get_user()}@{socket.gethostname()} pid {os.getpid()}\n")
        file.flush()
        yield


def get_user() -> str:
    """Return the name of the user that runs this process; its number if it has no name."""
    try:
        return getpass.getuser()
    except KeyError:
        # in a container that runs as a number
        return str(os.getuid())
