"""SFTP over an SSH connection, and what its errors mean to the one who has to correct the host's SSH server."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import cast

import asyncssh
from asyncssh.sftp import start_sftp_client

from transom.common.escaping import escape_unprintable
from transom.hosts.errors import (
    ConnectionLost,
    FileBusy,
    FileRefused,
    ForcedCommand,
    HostError,
    SftpUnavailable,
    TooFewSessions,
)
from transom.hosts.scripts.template import BASE

_PACKET = 256 * 1024
"""Bytes of an answer to one SFTP request; OpenSSH's client takes no more (sftp-common.h, SFTP_MAX_MSG_LENGTH)."""
_HANDLE_ANSWER = bytes((102,))
_HANDLE = 256
"""Bytes of a handle at most (draft-ietf-secsh-filexfer-02, 6.3). Each request for the file repeats it: with a handle as large
as an answer, 32 reads at once would be 8 MB."""
_HANDLE_HEAD = 9
"""Bytes of an answer before its handle: its type, the number of the request, and a length."""
_REASON = 200
"""Characters of a host's own words in an error."""
# a Windows server sends it when a file is in the way, has no room, or may not be touched (Win32-OpenSSH, sftp-server.c)
_FAILURE = (
    "the host's SFTP server gives no reason. Common ones are a full disk, and a virus scanner that has the file open: exclude "
    f"{BASE} from it"
)
_CONFIG = r"C:\ProgramData\ssh\sshd_config"
SFTP_REMEDY = (
    f"Check in {_CONFIG} that the line `Subsystem sftp sftp-server.exe` exists, that the program exists, and that no "
    "ForceCommand applies to the user; then restart sshd"
)
FORCED_REMEDY = (
    f"Remove ForceCommand for this user from {_CONFIG}, and `command=` from administrators_authorized_keys; then restart sshd"
)
_SESSIONS_REMEDY = f"Set MaxSessions to 2 or more in {_CONFIG}, or remove it (the default is 10); then restart sshd"
_CLOSING_SECONDS = 2.0
"""Seconds in which the exit code of a program may come after its last output."""


async def start_sftp(
    connection: asyncssh.SSHClientConnection, accepted: Callable[[], object] = lambda: None
) -> asyncssh.SFTPClient:
    """Start SFTP with a client that refuses an answer larger than any that it asks for: asyncssh takes 4 MiB.

    `accepted` is called when the server has started its SFTP server. Raises what asyncssh does, SftpUnavailable, and
    ForcedCommand.
    """
    try:
        writer, reader, _ = await connection.open_session(subsystem="sftp", encoding=None)
    except asyncssh.ChannelOpenError as error:
        if error.code != asyncssh.OPEN_REQUEST_SESSION_FAILED or connection.is_closed():
            raise
        raise SftpUnavailable(f"the SSH server of the host has no SFTP subsystem. {SFTP_REMEDY}") from None
    accepted()
    read = reader.readexactly
    first = b""

    async def readexactly(n: int) -> bytes:
        nonlocal first
        if n > _PACKET:
            raise asyncssh.SFTPBadMessage("an answer of more than 256 kB")
        try:
            data: bytes = await read(n)
        except asyncio.IncompleteReadError as error:
            first = first or error.partial
            raise
        first = first or data
        if data[:1] == _HANDLE_ANSWER and n > _HANDLE_HEAD + _HANDLE:
            raise asyncssh.SFTPBadMessage("a handle of more than 256 bytes")
        return data

    reader.readexactly = readexactly  # type: ignore[method-assign]
    # as `SSHClientConnection.start_sftp_client` does, which reads the first answer before anybody can bound it
    loop = asyncio.get_running_loop()
    try:
        return await start_sftp_client(connection, loop, "strict", reader, writer, "utf-8", "strict", 3)
    except (asyncssh.SFTPConnectionLost, asyncssh.SFTPBadMessage) as error:
        if connection.is_closed():
            raise
        if _is_text(first):
            raise ForcedCommand(f"the SSH server of the host answers SFTP with text. {FORCED_REMEDY}") from None
        if isinstance(error, asyncssh.SFTPBadMessage):
            raise
        with suppress(TimeoutError):
            await asyncio.wait_for(writer.channel.wait_closed(), _CLOSING_SECONDS)
        # its annotations do not tell the channel of a client from that of a server
        status = cast(asyncssh.SSHClientChannel[bytes], writer.channel).get_exit_status()
        code = "" if status is None else f" with code {status}"
        raise SftpUnavailable(f"the host's SFTP server ended{code} before it answered. {SFTP_REMEDY}") from None


def _is_text(data: bytes) -> bool:
    """Return True if an answer begins as no SFTP packet does: the first byte of its length is zero."""
    return bool(data) and data[0] != 0 and all(byte in b"\t\r\n\x1b\xef\xbb\xbf" or 32 <= byte < 127 for byte in data[:4])


def explain_refused_channel(error: asyncssh.ChannelOpenError) -> HostError:
    """Return why a channel was not opened, of a connection that is alive."""
    reason = escape_unprintable(error.reason[:_REASON])
    if error.code == asyncssh.OPEN_REQUEST_SESSION_FAILED:
        return ForcedCommand(f"the SSH server of the host runs no command for this user ({reason}). {FORCED_REMEDY}")
    return TooFewSessions(f"the SSH server of the host opens no further session ({reason}). {_SESSIONS_REMEDY}")


def convert_sftp_error(error: asyncssh.SFTPError, path: str) -> HostError:
    """Return what an SFTP server's error says of a file."""
    match error:
        case asyncssh.SFTPConnectionLost() | asyncssh.SFTPNoConnection():
            return ConnectionLost("the connection ended in the middle of a pass")
        case asyncssh.SFTPBadMessage():
            return FileRefused(f"{path}: the host's SFTP server sends an invalid answer, or more than requested")
        case asyncssh.SFTPNoSpaceOnFilesystem() | asyncssh.SFTPQuotaExceeded():
            return FileRefused(f"{path}: the disk of the host is full")
        case asyncssh.SFTPPermissionDenied() | asyncssh.SFTPWriteProtect():
            return FileRefused(f"{path}: the user may not do this; it must be an administrator of the host")
        case asyncssh.SFTPNoSuchFile() | asyncssh.SFTPNoSuchPath():
            return FileRefused(f"{path}: no such file or directory")
        case _:
            return FileBusy(f"{path}: {_FAILURE}")
