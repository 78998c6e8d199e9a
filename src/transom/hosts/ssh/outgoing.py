"""What goes out over an SSH connection: with no packet that says nothing, and one system call for what is sent together."""

import asyncio
import logging
from typing import Final

import asyncssh
from asyncssh.logging import SSHLogger

_DISCONNECT: Final = 1
_IGNORE: Final = 2
"""Numbers of messages (RFC 4253, section 12)."""
_REQUESTS: Final = frozenset((90, 94, 98))
"""CHANNEL_OPEN, CHANNEL_DATA and CHANNEL_REQUEST (RFC 4254, section 9): what a server may have something to say to."""


class _QuietLogger(SSHLogger):
    """A logger that first checks whether a message is enabled: asyncssh formats each message before that."""

    def get_child(self, *_: object, **__: object) -> "_QuietLogger":
        return self

    def log(self, level: int, msg: object, *args: object, **kwargs: object) -> None:
        """As asyncssh says."""
        if self.isEnabledFor(level):
            super().log(level, msg, *args, **kwargs)


class OutgoingCounter:
    """Sends for a connection of asyncssh, which makes a system call for each packet, and a second packet before each.

    That one (SSH_MSG_IGNORE) hides the IV of the next where a cipher is in CBC mode (RFC 4251, section 9.3.1). None that a host
    is spoken to with is.
    """

    def __init__(self, connection: asyncssh.SSHClientConnection) -> None:
        """Nothing was sent over the connection yet."""
        # nothing public sets them
        self._write, self._send_packet = connection._send, connection.send_packet
        connection._send = self._queue_write  # type: ignore[method-assign]
        connection.send_packet = self._send_packet_counted  # type: ignore[method-assign]
        if not connection.logger.isEnabledFor(logging.INFO):
            # only what it says at that level needs to name the connection
            connection._logger = _QuietLogger()
        self._pending: list[bytes] = []
        self.requests = 0
        """Packets that a server may answer."""
        self.bytes = 0
        """Bytes that were sent."""

    def _send_packet_counted(self, pkttype: int, *args: bytes, handler: object = None) -> None:
        if pkttype == _IGNORE:
            return
        if pkttype in _REQUESTS:
            self.requests += 1
        self._send_packet(pkttype, *args, handler=handler)  # type: ignore[arg-type]
        if pkttype == _DISCONNECT:
            # the socket is closed next
            self._flush_writes()

    def _queue_write(self, data: bytes) -> None:
        if not self._pending:
            asyncio.get_running_loop().call_soon(self._flush_writes)
        self._pending.append(data)
        self.bytes += len(data)

    def _flush_writes(self) -> None:
        if self._pending:
            pending, self._pending = self._pending, []
            self._write(b"".join(pending))
