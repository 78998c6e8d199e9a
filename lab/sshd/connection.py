"""One connection to the SSH server: who may log in, what was asked for, and what ends with it."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from base64 import b64encode
from collections.abc import Awaitable, Callable
from itertools import count
from typing import TypeVar

import asyncssh

from lab import wine
from lab.sshd import fault
from lab.sshd.drive import Drive
from lab.sshd.journal import Entry, Journal
from lab.sshd.scanner import Scanner
from lab.sshd.settings import Settings
from lab.sshd.sftp import Files
from lab.sshd.shell import Shell

_numbers = count(1)
_Result = TypeVar("_Result")
SESSIONS = 10  # MaxSessions of sshd_config, its default
_KEYS = "drive_c/ProgramData/ssh/administrators_authorized_keys"


class Connection(asyncssh.SSHServer):
    """A connection, with a number that is its own in the journal."""

    def __init__(self, settings: Settings, journal: Journal, scanner: Scanner) -> None:
        self.settings = settings
        self._scanner = scanner
        self.number = next(_numbers)
        self._journal = journal
        self._requests = count(1)
        self._channels = 0
        self._connection: asyncssh.SSHServerConnection | None = None
        self._socket = -1
        self._peer = ""

    # ---- life ----------------------------------------------------------------------------------------------------

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        """Note who came; keep the socket, which counts the bytes, beyond the connection's end."""
        self._connection = conn
        self._peer = "{} {}".format(*conn.get_extra_info("peername")[:2])
        self._socket = os.dup(conn.get_extra_info("socket").fileno())
        self._write("connect")

    def connection_lost(self, exc: Exception | None) -> None:
        """End what the connection had started, as Windows does with a session's job object."""
        if self._socket < 0:
            return
        received, sent = _bytes(self._socket)
        os.close(self._socket)
        self._socket = -1
        wine.kill(self.settings.prefix, self.marker)
        self._journal.write(Entry("disconnect", self.number, received=received, sent=sent))

    def end(self) -> None:
        """End the connection where it is not over yet."""
        if self._connection and self._socket >= 0:
            self._connection.abort()
            self.connection_lost(None)

    @property
    def marker(self) -> str:
        """The variable that all processes of this connection have in their Linux environment, and services have not."""
        return f"SSH_CONNECTION={self._peer} {self.settings.address} {self.settings.port}"

    # ---- login ---------------------------------------------------------------------------------------------------

    def begin_auth(self, username: str) -> bool:
        """Nobody comes in without proof."""
        return True

    def public_key_auth_supported(self) -> bool:
        """Public keys are the only proof."""
        return True

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        """The keys of the file that Windows' OpenSSH has for administrators, where a test has made it; for one user alone."""
        file = self.settings.prefix / _KEYS
        lines = file.read_text(errors="replace") if file.exists() else self.settings.authorized_keys
        known = {word for line in lines.splitlines() if not line.startswith("#") for word in line.split()}
        return username == self.settings.user and b64encode(key.public_data).decode() in known

    def auth_completed(self) -> None:
        """Note the login."""
        self._write("login")

    # ---- requests ------------------------------------------------------------------------------------------------

    async def request(self, kind: str, detail: str, act: Callable[[], Awaitable[_Result]]) -> _Result:
        """Write a request down, carry it out, and let the ordered fault happen before or after."""
        assert self._connection is not None
        number = next(self._requests)
        self._write("request", number, kind, detail)
        ordered = fault.take(self.settings.fault, number)
        if ordered:
            self._write("fault", number, ordered.action, ordered.when)
        if ordered and ordered.when == "before":
            await ordered.happen(self._connection)
        running = asyncio.ensure_future(act())
        if ordered and ordered.when == "during":
            await asyncio.wait([running], timeout=ordered.seconds)
            await ordered.happen(self._connection)
        result = await running
        if ordered:
            await ordered.happen(self._connection)
        return result

    def session_requested(self) -> Awaitable[asyncssh.SSHServerSession[bytes]]:
        """A channel is opened."""
        return self.request("channel", "", self._open_session)

    async def _open_session(self) -> asyncssh.SSHServerSession[bytes]:
        if self._channels == SESSIONS:
            raise asyncssh.ChannelOpenError(asyncssh.OPEN_RESOURCE_SHORTAGE, "too many sessions")
        self._channels += 1
        return Session(self)

    async def run(self, process: asyncssh.SSHServerProcess[bytes]) -> None:
        """Run a command; an interactive shell is not offered."""
        command = process.command
        if command is None:
            process.exit(1)
            return
        shell = Shell(self.settings, self.marker)

        def act() -> Awaitable[int]:
            return shell.run(command, process)

        code = await self.request("exec", command, act)
        self._journal.write(Entry("exit", self.number, detail=command, code=code))
        process.exit(code)

    async def files(self, channel: asyncssh.SSHServerChannel[bytes]) -> Files:
        """Start the SFTP subsystem."""

        async def act() -> Files:
            return Files(channel, Drive(self.settings.prefix, self._scanner), self._scanner, self)

        return await self.request("sftp", "", act)

    def channel_closed(self) -> None:
        """One of the allowed sessions is free again."""
        self._channels -= 1

    def _write(self, event: str, number: int = 0, kind: str = "", detail: str = "") -> None:
        self._journal.write(Entry(event, self.number, number, kind, detail))


class Session(asyncssh.SSHServerProcess[bytes]):
    """One channel: a command, or SFTP."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection.run, connection.files, 3, False)  # type: ignore[arg-type]
        self._owner = connection

    def connection_lost(self, exc: Exception | None) -> None:
        """The channel is closed."""
        self._owner.channel_closed()
        super().connection_lost(exc)


def _bytes(descriptor: int) -> tuple[int, int]:
    """Bytes received and sent (and acknowledged) on a TCP connection: tcpi_bytes_received and tcpi_bytes_acked of tcp_info."""
    with socket.socket(fileno=os.dup(descriptor)) as connection:
        information = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 136)
    acknowledged, received = struct.unpack_from("=QQ", information, 120)
    return received, acknowledged
