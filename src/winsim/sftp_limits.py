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
    """The limits of a server version; `announces` is True if the server reports them to clients."""

    announces: bool = True

    def compute_read_size(self, size: int) -> int:
        """Return how many bytes the server returns for a read of `size` bytes."""
        return min(size, READ, BUFFER)

    def require_writable(self, channel: "asyncssh.SSHServerChannel[bytes]", size: int) -> None:
        """Raise an error if a write is too long.

        A message over the maximum closes the channel and raises ConnectionLost; a write over the buffer size raises
        SFTPFailure.
        """
        if size > MESSAGE - _BESIDE:
            channel.abort()
            raise asyncssh.ConnectionLost("bad message")
        if size > BUFFER and not self.announces:
            raise asyncssh.SFTPFailure("Failure")


def get_limits(version: str) -> Limits:
    """Return the limits of an OpenSSH for Windows version, `8.1`."""
    return Limits(announces=tuple(map(int, version.split("."))) >= (8, 6))


class Limited(asyncssh.SFTPServer):
    """A server with such limits."""

    limits = Limits()


_EXTENSIONS: Final = [extension for extension in SFTPServerHandler._extensions if extension[0] != _FOREIGN]


def _list_extensions(handler: SFTPServerHandler) -> list[tuple[bytes, bytes]]:
    server = handler._server
    quiet = isinstance(server, Limited) and not server.limits.announces
    return [extension for extension in _EXTENSIONS if not (quiet and extension[0] == _LIMITS)]


async def _process_limits(_: SFTPServerHandler, packet: SSHPacket) -> SFTPLimits:
    packet.check_end()
    return SFTPLimits(MESSAGE, READ, WRITE, 0)


# asyncssh says of its own server 4 MiB, and nothing public sets it
SFTPServerHandler._extensions = property(_list_extensions)  # type: ignore[assignment]
SFTPServerHandler._packet_handlers[_LIMITS] = _process_limits
