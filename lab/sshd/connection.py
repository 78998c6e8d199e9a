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
        """Record the peer; keep the socket, which counts the bytes, after the connection's end."""
        self._connection = conn
        self._peer = "{} {}".format(*conn.get_extra_info("peername")[:2])
        self._socket = os.dup(conn.get_extra_info("socket").fileno())
        self._write("connect")

    def connection_lost(self, exc: Exception | None) -> None:
        """End the processes that the connection started, as Windows does with a session's job object."""
        if self._socket < 0:
            return
        received, sent = _read_byte_counts(self._socket)
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
        """Require authentication for every user."""
        return True

    def public_key_auth_supported(self) -> bool:
        """Return True: public keys are the only authentication method."""
        return True

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        """Return True for the configured user with a key of the authorized_keys file.

        It is the file that Windows' OpenSSH reads for administrators, or the settings' keys if a test has not created it.
        """
        file = self.settings.prefix / _KEYS
        lines = file.read_text(errors="replace") if file.exists() else self.settings.authorized_keys
        known = {word for line in lines.splitlines() if not line.startswith("#") for word in line.split()}
        return username == self.settings.user and b64encode(key.public_data).decode() in known

    def auth_completed(self) -> None:
        """Record the login."""
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
            await ordered.apply(self._connection)
        running = asyncio.ensure_future(act())
        if ordered and ordered.when == "during":
            await asyncio.wait([running], timeout=ordered.seconds)
            await ordered.apply(self._connection)
        result = await running
        if ordered:
            await ordered.apply(self._connection)
        return result

    def session_requested(self) -> Awaitable[asyncssh.SSHServerSession[bytes]]:
        """Open a channel."""
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

        def run_shell() -> Awaitable[int]:
            return shell.run(command, process)

        code = await self.request("exec", command, run_shell)
        self._journal.write(Entry("exit", self.number, detail=command, code=code))
        process.exit(code)

    async def start_sftp(self, channel: asyncssh.SSHServerChannel[bytes]) -> Files:
        """Start the SFTP subsystem."""

        async def open_session() -> Files:
            return Files(channel, Drive(self.settings.prefix, self._scanner), self._scanner, self)

        return await self.request("sftp", "", open_session)

    def release_session(self) -> None:
        """Release one of the allowed sessions."""
        self._channels -= 1

    def _write(self, event: str, number: int = 0, kind: str = "", detail: str = "") -> None:
        self._journal.write(Entry(event, self.number, number, kind, detail))


class Session(asyncssh.SSHServerProcess[bytes]):
    """One channel: a command, or SFTP."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection.run, connection.start_sftp, 3, False)  # type: ignore[arg-type]
        self._owner = connection

    def connection_lost(self, exc: Exception | None) -> None:
        """Release the session when the channel closes."""
        self._owner.release_session()
        super().connection_lost(exc)


def _read_byte_counts(descriptor: int) -> tuple[int, int]:
    """Return the bytes received and sent (and acknowledged) on a TCP connection.

    They are tcpi_bytes_received and tcpi_bytes_acked of tcp_info.
    """
    with socket.socket(fileno=os.dup(descriptor)) as connection:
        information = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 136)
    acknowledged, received = struct.unpack_from("=QQ", information, 120)
    return received, acknowledged
