"""What the SSH server saw, as lines of JSON that tests read and count."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One event.

    ``event``: ``connect``, ``login``, ``request``, ``exit`` (of a command), ``fault``, ``disconnect``.
    ``kind`` of a request: ``channel`` (a channel was opened), ``exec``, ``sftp`` (the subsystem), or an SFTP request by its
    name (``open``, ``read``, ``write``, ``rename``, …). ``number`` counts the requests of a connection from 1. ``detail`` is
    the command line or the path. ``received`` and ``sent`` are the connection's bytes, on ``disconnect``.
    """

    event: str
    connection: int
    number: int = 0
    kind: str = ""
    detail: str = ""
    code: int = 0
    received: int = 0
    sent: int = 0


class Traffic(msgspec.Struct, frozen=True):
    """Totals over some entries. ``channels`` is the number opened; ``commands`` are the command lines, in order."""

    connections: int
    channels: int
    execs: int
    sftp_sessions: int
    sftp_requests: int
    received: int
    sent: int
    commands: tuple[str, ...]


class Journal:
    """Appends entries to a file; each is there as soon as it happened."""

    def __init__(self, file: Path) -> None:
        self._file = file.open("ab", buffering=0)

    def write(self, entry: Entry) -> None:
        """Append one entry."""
        self._file.write(msgspec.json.encode(entry) + b"\n")


def read(file: Path) -> list[Entry]:
    """Read all entries of a journal, oldest first; an empty list if the file does not exist.

    The server may be writing the last line: it counts once it ends.
    """
    lines = file.read_bytes().split(b"\n")[:-1] if file.exists() else []
    return [msgspec.json.decode(line, type=Entry) for line in lines]


def sum_traffic(entries: Iterable[Entry]) -> Traffic:
    """Sum up the traffic of journal entries."""
    seen = list(entries)
    requests = [entry for entry in seen if entry.event == "request"]
    kinds = [entry.kind for entry in requests]
    return Traffic(
        connections=sum(entry.event == "login" for entry in seen),
        channels=kinds.count("channel"),
        execs=kinds.count("exec"),
        sftp_sessions=kinds.count("sftp"),
        sftp_requests=sum(kind not in {"channel", "exec", "sftp"} for kind in kinds),
        received=sum(entry.received for entry in seen),
        sent=sum(entry.sent for entry in seen),
        commands=tuple(entry.detail for entry in requests if entry.kind == "exec"),
    )
