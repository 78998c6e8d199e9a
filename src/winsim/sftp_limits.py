"""How much one SFTP request carries to and from OpenSSH for Windows.

Source: PowerShell/openssh-portable a915f06c7.

- sftp-common.h and sftp-server.c: a message of more than 256 KiB ends the server (`process`). At most 255 KiB are read or
  written, which `limits@openssh.com` says (`process_extended_limits`).
- contrib/win32/win32compat/fileio.c: one read of a file gives 100 KiB (READ_BUFFER_SIZE), and so much one write takes
  (WRITE_BUFFER_SIZE). Larger ones are divided since 8.6 (`fileio_write_wrapper`); before, a short write was a failure.

A client that hears nothing of the limits takes 16 KiB (asyncssh, SAFE_SFTP_READ_LEN and SAFE_SFTP_WRITE_LEN).
"""

from typing import Final

import asyncssh
import msgspec
from asyncssh.packet import SSHPacket
from asyncssh.sftp import SFTPLimits, SFTPServerHandler

MESSAGE: Final = 256 * 1024
READ: Final = MESSAGE - 1024
WRITE: Final = MESSAGE - 1024
BUFFER: Final = 100 * 1024
_BESIDE: Final = 64
"""Bytes of a write request beside its content: type, id, handle, offset and lengths."""
_LIMITS: Final = b"limits@openssh.com"
# what Windows' server does not know; with it, a client of asyncssh would ask other questions than it does there
_FOREIGN: Final = b"ranges@asyncssh.com"


class Limits(msgspec.Struct, frozen=True):
    """What a version of the server takes; `told` is whether it says so."""

    told: bool = True

    def readable(self, size: int) -> int:
        """How many bytes the answer to one read has."""
        return min(size, READ, BUFFER)

    def require_writable(self, channel: "asyncssh.SSHServerChannel[bytes]", size: int) -> None:
        """Ends the channel for a message that is too long. Raises ConnectionLost then, SFTPFailure for too long a write."""
        if size > MESSAGE - _BESIDE:
            channel.abort()
            raise asyncssh.ConnectionLost("bad message")
        if size > BUFFER and not self.told:
            raise asyncssh.SFTPFailure("Failure")


def limits(version: str) -> Limits:
    """Those of OpenSSH for Windows of a version, `8.1`."""
    return Limits(told=tuple(map(int, version.split("."))) >= (8, 6))


class Limited(asyncssh.SFTPServer):
    """A server with such limits."""

    limits = Limits()


_EXTENSIONS: Final = [one for one in SFTPServerHandler._extensions if one[0] != _FOREIGN]


def _told(handler: SFTPServerHandler) -> list[tuple[bytes, bytes]]:
    server = handler._server
    quiet = isinstance(server, Limited) and not server.limits.told
    return [one for one in _EXTENSIONS if not (quiet and one[0] == _LIMITS)]


async def _process_limits(_: SFTPServerHandler, packet: SSHPacket) -> SFTPLimits:
    packet.check_end()
    return SFTPLimits(MESSAGE, READ, WRITE, 0)


# asyncssh says of its own server 4 MiB, and nothing public sets it
SFTPServerHandler._extensions = property(_told)  # type: ignore[assignment]
SFTPServerHandler._packet_handlers[_LIMITS] = _process_limits
