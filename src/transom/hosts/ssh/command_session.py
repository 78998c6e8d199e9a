"""What one command on a host prints, within limits, and how it ended."""

import asyncio

import asyncssh

_OUTPUT_LIMIT = 65536
"""Bytes of a script's standard output."""
SPOKEN_LIMIT = 2**20
"""Bytes of all that a script says; on standard error it tells that it goes on."""


class CommandSession(asyncssh.SSHClientSession[bytes]):
    """Collects what a script prints, and its exit code; what it says on standard error is progress alone."""

    def __init__(self) -> None:
        self.output: list[bytes] = []
        self.spoken = 0
        """Bytes that came, whether or not they were kept."""
        self.status: int | None = None
        self.progress = asyncio.Event()
        self.ended = asyncio.Event()
        self._size = 0

    def data_received(self, data: bytes, datatype: asyncssh.DataType) -> None:
        """As asyncssh says: something came."""
        self.spoken += len(data)
        if datatype is None and self._size < _OUTPUT_LIMIT:
            self.output.append(data)
            self._size += len(data)
        self.progress.set()

    def exit_status_received(self, status: int) -> None:
        """As asyncssh says: the command ended."""
        self.status = status

    def connection_lost(self, exc: Exception | None) -> None:
        """As asyncssh says: nothing more comes."""
        self.ended.set()
        self.progress.set()
