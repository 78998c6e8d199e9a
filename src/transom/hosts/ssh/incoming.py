"""What may come in over an SSH connection: as much as was asked for, and a host key that costs little to look at.

No peer is verified before the key exchange ends, and a host may be hostile after it. asyncssh bounds a packet, and how much a
channel may hold; it does not bound how many unrequested packets come, or in how small parts an answer comes.
"""

import asyncio
import logging
import sys
from typing import Any, Final, cast

import asyncssh

from transom.hosts.errors import format_place
from transom.hosts.ssh.algorithms import HOST_KEYS
from transom.hosts.ssh.host_key_checks import UnusableHostKey, check_host_key
from transom.hosts.ssh.login_phases import LoginPhases
from transom.hosts.ssh.outgoing import OutgoingCounter

_log = logging.getLogger("transom.faults")
_KEXINIT: Final = 20
_NEWKEYS: Final = 21
_OPEN_CONFIRMATION: Final = 91
"""Numbers of messages (RFC 4253, section 12; RFC 4254, section 9)."""
_AT_ONCE: Final = 32 * 1024
"""Bytes that are handled before anything else has its turn: in the smallest packets some 1,000, or 50 ms."""
LOGIN_BYTES: Final = 256 * 1024
LOGIN_PACKETS: Final = 256
"""Until the login ends. A login takes some 4 kB in 10 packets, and 2 more for each key that is tried."""
SESSION_BYTES: Final = 16 * 2**20
BYTES_FOR_REQUEST: Final = 288 * 1024
"""After it; an answer to an SFTP request has up to 256 kB."""
SESSION_PACKETS: Final = 20_000
PACKETS_FOR_REQUEST: Final = 8
LARGE_PACKET: Final = 1024
"""Bytes of a packet of which there may be any number."""
EXCHANGES: Final = 16
BYTES_OF_EXCHANGE: Final = 128 * 1024
"""Bytes sent or received for each further one: OpenSSH begins it after 1 GiB, or as few as a person wrote (RekeyLimit)."""
LEAST_PACKET: Final = 4096
"""Bytes of data that a channel must take in one packet. OpenSSH takes 32,768, and RFC 4253, section 6.1, asks for as many."""
_TOO_MUCH: Final = "the host sends more data than Transom asked for"
_SIGNATURES: Final = {name.encode() for name in HOST_KEYS}


REFUSAL: Final = "transom_refusal"
"""The extra information of a connection that says why this side ended it."""


class UnsolicitedData(asyncssh.ProtocolError):
    """The server sends data that was not requested, or in too many parts."""


class IncomingLimits:
    """Ends a connection of asyncssh whose server sends more than was asked for, and looks at its key first."""

    def __init__(
        self,
        connection: asyncssh.SSHClientConnection,
        outgoing: OutgoingCounter,
        phases: LoginPhases,
        *,
        certificates: bool = False,
    ) -> None:
        """Watch a connection over which nothing has come yet; `certificates`: whether it may show a host certificate."""
        self._phases = phases
        phases.enter_phase("key exchange")
        self._connection = cast(Any, connection)
        self._outgoing = outgoing
        self._certificates = certificates
        self._bytes = self._packets = self._exchanges = 0
        self._logged_in = self._refused = False
        # nothing public sets them
        self._receive = connection.data_received
        self._finish = connection._finish_recv_packet
        self._validate = connection.validate_server_host_key
        self._fail = connection.internal_error
        self._connection.internal_error = self._report_unreadable
        self._connection.data_received = self._receive_data
        self._connection._finish_recv_packet = self._finish_packet
        self._connection.validate_server_host_key = self._validate_host_key
        limit_read_size(self._connection._transport)

    def start_session(self) -> None:
        """Apply the limits of a session: the login has ended."""
        self._logged_in = True

    def _receive_data(self, data: bytes, datatype: asyncssh.DataType = None) -> None:
        if self._refused:
            return
        self._bytes += len(data)
        if self._bytes > self._allow_bytes():
            self._refuse(_TOO_MUCH)
        else:
            self._receive(data, datatype)

    def _finish_packet(self, kind: int, number: int, task: Any = None, is_async: bool = False) -> None:
        if self._refused:
            return
        self._packets += 1
        if kind == _KEXINIT:
            self._exchanges += 1
        if not self._is_within_limits():
            self._refuse(_TOO_MUCH)
        elif kind == _OPEN_CONFIRMATION and not self._has_usable_channels():
            self._refuse(f"the host accepts less than {LEAST_PACKET:,} bytes in a packet")
        else:
            if kind == _NEWKEYS and self._phases.phase == "key exchange":
                self._phases.enter_phase("login")
            self._finish(kind, number, task, is_async)

    def _is_within_limits(self) -> bool:
        return self._packets <= self._allow_packets() and self._exchanges <= self._allow_exchanges()

    def _allow_bytes(self) -> int:
        return SESSION_BYTES + self._outgoing.requests * BYTES_FOR_REQUEST if self._logged_in else LOGIN_BYTES

    def _allow_packets(self) -> int:
        if not self._logged_in:
            return LOGIN_PACKETS
        return SESSION_PACKETS + self._outgoing.requests * PACKETS_FOR_REQUEST + self._bytes // LARGE_PACKET

    def _allow_exchanges(self) -> int:
        return EXCHANGES + (self._bytes + self._outgoing.bytes) // BYTES_OF_EXCHANGE

    def _has_usable_channels(self) -> bool:
        """Return False where a channel takes so little in a packet that what is sent would go in thousands of them."""
        channels = self._connection._channels.values()
        return all(channel._send_pktsize >= LEAST_PACKET for channel in channels if channel._send_state == "open")

    def _refuse(self, reason: str) -> None:
        self._refused = True
        # what has come and was not handled is not handled any more
        self._connection._inpbuf = b""
        self._connection.set_extra_info(**{REFUSAL: reason})
        self._connection.connection_lost(UnsolicitedData(reason))

    def _report_unreadable(self, exc_info: Any = None, error_logger: Any = None) -> None:
        """End the connection as for other packets that are not SSH: asyncssh fails on some (AttributeError, TypeError)."""
        error = (exc_info or sys.exc_info())[1]
        if isinstance(error, (OSError, ValueError, asyncssh.Error)):
            self._fail(exc_info, error_logger)
        else:
            _log.info("a packet of an SSH server cannot be read: %s", format_place(error) if error else "unknown")
            self._connection.connection_lost(asyncssh.ProtocolError("a packet that is not valid SSH"))

    def _validate_host_key(self, blob: bytes) -> asyncssh.SSHKey:
        try:
            check_host_key(blob, certificates=self._certificates)
        except UnusableHostKey as error:
            raise asyncssh.HostKeyNotVerifiable(str(error)) from error
        key = self._validate(blob)
        # a key of RSA would also verify a signature by SHA-1 that was not agreed on
        key.all_sig_algorithms = key.all_sig_algorithms & _SIGNATURES
        return key


def limit_read_size(transport: Any) -> None:
    """Have a transport of asyncio hand over `_AT_ONCE` bytes at most; it reads 256 kB.

    A channel of a jump host hands over no more than one packet.
    """
    process = getattr(transport, "_transport", None)
    source: Any = process.get_pipe_transport(1) if isinstance(process, asyncio.SubprocessTransport) else transport
    if hasattr(source, "max_size"):
        source.max_size = _AT_ONCE
