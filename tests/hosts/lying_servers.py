"""SSH servers that attack their client below SFTP: in the greeting, the key exchange, the login and the channels.

`SERVERS` names them. `run_servers` starts some in a process of their own, so that what they spend is not the client's:

    with run_servers("slow group", "rekeying without end") as ports:
        ...  # ports["slow group"] listens on 127.0.0.1

`tests.hosts.hostile` has the lies from SFTP upwards.
"""

import asyncio
import contextlib
import json
import logging
import random
import socket
import struct
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import asyncssh
from asyncssh import kex_dh
from asyncssh.packet import Boolean, Byte, MPInt, NameList, String, UInt32, UInt64
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

_ROOT = Path(__file__).parents[2]
HOST_KEY: Final = asyncssh.import_private_key(
    Ed25519PrivateKey.from_private_bytes(bytes(range(32))).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
)
"""The key of each server that has one: a client may know it."""
_VERSION = b"SSH-2.0-OpenSSH_for_Windows_9.5"
_SEED = 20261129
# RFC 4250, section 4.1.2; RFC 4253, RFC 4419, RFC 5656, RFC 8308
DISCONNECT, IGNORE, UNIMPLEMENTED, DEBUG, EXT_INFO, KEXINIT, NEWKEYS = 1, 2, 3, 4, 7, 20, 21
KEX_INIT, KEX_REPLY, GEX_GROUP, GEX_INIT, GEX_REQUEST = 30, 31, 31, 32, 34
USERAUTH_FAILURE, USERAUTH_SUCCESS, USERAUTH_BANNER, USERAUTH_PK_OK = 51, 52, 53, 60
REQUEST_SUCCESS, REQUEST_FAILURE, OPEN_FAILURE, CHANNEL_SUCCESS, CHANNEL_FAILURE = 81, 82, 92, 99, 100
GLOBAL_REQUEST, CHANNEL_OPEN, WINDOW_ADJUST, CHANNEL_DATA, EXTENDED_DATA, CHANNEL_REQUEST = 80, 90, 93, 94, 95, 98
CHANNEL_EOF, CHANNEL_CLOSE, OPEN_CONFIRMATION = 96, 97, 91
FXP_VERSION, FXP_STATUS, FXP_HANDLE, FXP_DATA, FXP_NAME, FXP_ATTRS = 2, 101, 102, 103, 104, 105
FXP_INIT, FXP_OPEN, FXP_READ, FXP_OPENDIR, FXP_READDIR, FXP_STAT = 1, 3, 5, 11, 12, 17
# draft-ietf-sshm-ssh-agent, section 6
_REQUEST_IDENTITIES, _SIGN_REQUEST = 11, 13
FXP_EXTENDED, FXP_EXTENDED_REPLY = 200, 201


@dataclass(frozen=True)
class LyingServer:
    """One lie: `listen` starts a server for it on a free port of 127.0.0.1."""

    name: str
    listen: Callable[[], Awaitable[Any]]
    lets_in: bool
    """Whether the client is logged in; else it fails to connect."""


@contextlib.contextmanager
def run_servers(*names: str) -> Iterator[Mapping[str, int]]:
    """Run the servers of these names in one process; the ports on which they listen."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.hosts.lying_servers", *names]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=_ROOT) as process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())
        finally:
            process.kill()


# --- before encryption: packets made by hand


class Peer:
    """The server's end of a connection whose packets are not encrypted yet."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def write(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def send(self, *payloads: bytes) -> None:
        await self.write(b"".join(map(frame, payloads)))

    async def receive(self) -> bytes:
        """Return the payload of the next packet."""
        size, padding = struct.unpack(">IB", await self.reader.readexactly(5))
        return (await self.reader.readexactly(size - 1))[: size - 1 - padding]

    async def greet(self) -> None:
        """Exchange versions."""
        await self.write(_VERSION + b"\r\n")
        await self.reader.readline()

    async def begin_exchange(self, kex: bytes = b"curve25519-sha256", host_key: bytes = b"ssh-ed25519") -> bytes:
        """Greet, and exchange KEXINITs; the client's."""
        await self.greet()
        await self.send(kexinit((kex,), (host_key,)))
        return await self.receive()

    async def reply(self, host_key: bytes, *, public: bytes = bytes(range(32)), signature: bytes = b"") -> None:
        """Answer the client's public key of an ECDH exchange."""
        assert (await self.receive())[0] == KEX_INIT
        await self.send(Byte(KEX_REPLY) + String(host_key) + String(public) + String(signature))
        await self.reader.read()


Lie = Callable[[Peer], Awaitable[None]]


def frame(payload: bytes) -> bytes:
    """Return a packet without encryption (RFC 4253, section 6)."""
    padding = -(len(payload) + 5) % 8
    padding += 8 if padding < 4 else 0
    return struct.pack(">IB", len(payload) + padding + 1, padding) + payload + bytes(padding)


def kexinit(
    kex: tuple[bytes, ...],
    host_keys: tuple[bytes, ...],
    *,
    guesses: bool = False,
    cipher: bytes = b"aes256-gcm@openssh.com",
    mac: bytes = b"hmac-sha2-256",
) -> bytes:
    """Return a KEXINIT (RFC 4253, section 7.1); `guesses`: a packet of the exchange follows without waiting."""
    lists = (kex, host_keys, (cipher,), (cipher,), (mac,), (mac,), (b"none",), (b"none",))
    return Byte(KEXINIT) + bytes(16) + b"".join(map(NameList, lists)) + NameList(()) * 2 + Boolean(guesses) + UInt32(0)


def listen_raw(lie: Lie) -> Callable[[], Awaitable[Any]]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await lie(Peer(reader, writer))
        writer.close()

    return lambda: asyncio.start_server(serve, "127.0.0.1", 0, limit=2**20)


def odd(bits: int) -> int:
    """Return an odd number of as many bits, the same each time."""
    return random.Random(_SEED).getrandbits(bits) | 1 | 1 << bits - 1


def rsa(bits: int, exponent: int = 65537) -> bytes:
    return String(b"ssh-rsa") + MPInt(exponent) + MPInt(odd(bits))


def signed(algorithm: bytes, signature: bytes) -> bytes:
    return String(algorithm) + String(signature)


def certificate(signing_key: bytes, signature: bytes) -> bytes:
    """Return an OpenSSH host certificate (PROTOCOL.certkeys)."""
    fields = String(bytes(32)) + String(bytes(range(32))) + UInt64(1) + UInt32(2) + String("host") + String(String("host"))
    validity = UInt64(0) + UInt64(2**64 - 1) + String(b"") * 3
    return String(b"ssh-ed25519-cert-v01@openssh.com") + fields + validity + String(signing_key) + String(signature)


def dsa(bits: int) -> bytes:
    return String(b"ssh-dss") + MPInt(odd(bits)) + MPInt(odd(160)) + MPInt(5) + MPInt(odd(bits) - 4)


def show_key(blob: bytes, signature: bytes = b"", algorithm: bytes = b"ssh-ed25519") -> Lie:
    """Return a lie that shows a host key that is none."""

    async def lie(peer: Peer) -> None:
        await peer.begin_exchange(host_key=algorithm)
        await peer.reply(blob, signature=signature)

    return lie


def offer_group(prime: int, generator: int) -> Lie:
    """Return a lie that offers group exchange alone, and a group that is dear to test (RFC 4419)."""

    async def lie(peer: Peer) -> None:
        await peer.begin_exchange(b"diffie-hellman-group-exchange-sha256")
        while True:
            match (await peer.receive())[0]:
                case kind if kind == GEX_REQUEST:
                    await peer.send(Byte(GEX_GROUP) + MPInt(prime) + MPInt(generator))
                case kind if kind == GEX_INIT:
                    return

    return lie


async def _guess_slow_group(peer: Peer) -> None:
    """Send a slow group before anything is agreed, as if it were a right guess."""
    await peer.greet()
    kex = (b"diffie-hellman-group-exchange-sha256", b"curve25519-sha256")
    await peer.send(kexinit(kex, (b"ssh-ed25519",), guesses=True))
    while True:
        await peer.send(Byte(GEX_GROUP) + MPInt(kex_dh._group18_p) + MPInt(5))


async def _reply_with_slow_group(peer: Peer) -> None:
    """Answer the client's public key of an ECDH exchange with a slow group: the two messages have the same number."""
    await peer.begin_exchange()
    await peer.receive()
    await peer.send(Byte(GEX_GROUP) + MPInt(kex_dh._group18_p) + MPInt(5))
    await peer.reader.read()


def offer_alone(
    kex: bytes = b"curve25519-sha256",
    host_key: bytes = b"ssh-ed25519",
    cipher: bytes = b"aes256-ctr",
    mac: bytes = b"hmac-sha2-256",
) -> Lie:
    """Return a lie that offers one algorithm of each kind."""

    async def lie(peer: Peer) -> None:
        await peer.greet()
        await peer.send(kexinit((kex,), (host_key,), cipher=cipher, mac=mac))
        await peer.reader.read()

    return lie


def show_point(kex: bytes, public: bytes) -> Lie:
    """Return a lie whose public key of the exchange is no point of the curve."""

    async def lie(peer: Peer) -> None:
        await peer.begin_exchange(kex)
        await peer.reply(String(b"ssh-ed25519") + String(bytes(range(32))), public=public)

    return lie


def repeat(data: bytes) -> Lie:
    """Return a lie that sends the same after the greeting for as long as somebody reads it."""
    many = data * max(1, 2**18 // len(data))

    async def lie(peer: Peer) -> None:
        await peer.greet()
        while True:
            await peer.write(many)

    return lie


def drip(data: bytes, greeted: bool) -> Lie:
    """Return a lie that sends a byte a quarter of a second."""

    async def lie(peer: Peer) -> None:
        if greeted:
            await peer.greet()
        for byte in data:
            await peer.write(bytes((byte,)))
            await asyncio.sleep(0.25)

    return lie


async def _lines_without_end(peer: Peer) -> None:
    while True:
        await peer.write((b"w" * 8000 + b"\r\n") * 32)


async def _short_lines_without_end(peer: Peer) -> None:
    while True:
        await peer.write(b"\r\n" * 2**17)


async def _bytes_one_by_one(peer: Peer) -> None:
    """Send one large packet in as many segments as it has bytes."""
    peer.writer.transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    await peer.greet()
    for byte in frame(Byte(IGNORE) + String(bytes(250_000))):
        peer.writer.write(bytes((byte,)))
        await asyncio.sleep(0)


async def _names_without_end(peer: Peer) -> None:
    await peer.greet()
    await peer.send(kexinit((b"," * 250_000,), (b"ssh-ed25519",)))
    await peer.reader.read()


async def _wrong_guess(peer: Peer) -> None:
    """Say that a guess of another exchange follows, and send a large one."""
    await peer.greet()
    await peer.send(kexinit((b"ecdh-sha2-nistp521", b"curve25519-sha256"), (b"ssh-ed25519",), guesses=True))
    while True:
        await peer.send(Byte(KEX_REPLY) + String(bytes(200_000)))


async def _goodbye(peer: Peer) -> None:
    await peer.greet()
    await peer.send(Byte(DISCONNECT) + UInt32(2**32 - 1) + String("\x1b[2J\u202e" + "why " * 50_000) + String(""))
    await peer.reader.read()


async def _new_keys_first(peer: Peer) -> None:
    """Claim that the exchange has ended before it began."""
    await peer.greet()
    await peer.send(Byte(NEWKEYS))
    while True:
        await peer.write(bytes(2**18))


def frame_badly(size: int, padding: int) -> Lie:
    """Return a lie that sends packets whose lengths do not fit together."""
    return repeat(struct.pack(">IB", size, padding) + bytes(11))


async def _packet_of_4_gb(peer: Peer) -> None:
    await peer.greet()
    while True:
        await peer.write(b"\xff" * 2**18)


_BIG_SIGNATURE = signed(b"rsa-sha2-512", odd(16384).to_bytes(2048, "big"))
_P521 = b"\4" + bytes(range(66)) * 2
RAW: Mapping[str, Lie] = {
    "slow group": offer_group(kex_dh._group18_p, 5),
    "slow group of 4096 bits": offer_group(kex_dh._group16_p, 7),
    "group of 100,000 bits": offer_group(odd(100_000), 2),
    "slow group as a guess": _guess_slow_group,
    "slow group in the place of a reply": _reply_with_slow_group,
    "exchange by SHA-1 alone": offer_alone(kex=b"diffie-hellman-group14-sha1", mac=b"hmac-sha1"),
    "MACs of 64 bits alone": offer_alone(mac=b"umac-64-etm@openssh.com"),
    "DSA alone": offer_alone(host_key=b"ssh-dss"),
    "CBC and MD5 alone": offer_alone(cipher=b"3des-cbc", mac=b"hmac-md5"),
    "RSA host key of 16,384 bits": show_key(rsa(16384, odd(16383)), _BIG_SIGNATURE, b"rsa-sha2-512"),
    "RSA host key of 8,192 bits and an exponent of as many": show_key(
        rsa(8192, odd(8191)), signed(b"rsa-sha2-512", bytes(1024)), b"rsa-sha2-512"
    ),
    "RSA host key of 1,600,000 bits": show_key(rsa(1_600_000), _BIG_SIGNATURE, b"rsa-sha2-512"),
    "RSA host key of no bits": show_key(
        String(b"ssh-rsa") + MPInt(0) + MPInt(0), signed(b"rsa-sha2-512", b""), b"rsa-sha2-512"
    ),
    "DSA host key of 10,000 bits": show_key(dsa(10_000), signed(b"ssh-dss", bytes(40))),
    "host certificate by a key of 16,384 bits": show_key(certificate(rsa(16384, odd(16383)), _BIG_SIGNATURE)),
    "host certificate by a DSA key": show_key(certificate(dsa(4096), signed(b"ssh-dss", bytes(40)))),
    "X.509 certificates without end": show_key(
        String(b"x509v3-ssh-rsa") + UInt32(2**32 - 1) + String(b"0\x82\xff\xff") * 30_000
    ),
    "host key of an unknown type": show_key(String(b"ssh-ed448") + String(bytes(57))),
    "host key that is no point": show_key(
        String(b"ecdsa-sha2-nistp521") + String(b"nistp521") + String(_P521), algorithm=b"ecdsa-sha2-nistp521"
    ),
    "host key of another curve": show_key(
        String(b"ecdsa-sha2-nistp256") + String(b"nistp521") + String(_P521), algorithm=b"ecdsa-sha2-nistp256"
    ),
    "host key of nothing": show_key(b""),
    "signature of 200 kB": show_key(String(b"ssh-ed25519") + String(bytes(range(32))), signed(b"ssh-ed25519", bytes(200_000))),
    "public key of zeros": show_point(b"curve25519-sha256", bytes(32)),
    "public key that is no point": show_point(b"ecdh-sha2-nistp521", _P521),
    "public key of 200 kB": show_point(b"ecdh-sha2-nistp256", b"\2" + bytes(200_000)),
    "ciphertext of zeros": show_point(b"mlkem768x25519-sha256", bytes(1088 + 32)),
    "ciphertext of 200 kB": show_point(b"mlkem768x25519-sha256", bytes(200_000)),
    "half a ciphertext": show_point(b"mlkem768x25519-sha256", bytes(500)),
    "bytes one by one": _bytes_one_by_one,
    "KEXINIT of 250,000 names": _names_without_end,
    "KEXINIT without end": repeat(frame(kexinit((b"curve25519-sha256",), (b"ssh-ed25519",)))),
    "small packets before the exchange": repeat(frame(Byte(IGNORE) + String(b""))),
    "large packets before the exchange": repeat(frame(Byte(DEBUG) + Boolean(True) + String(b"\x1b" * 250_000) + String(b""))),
    "lines without end": _lines_without_end,
    "short lines without end": _short_lines_without_end,
    "packet of 4 GB": _packet_of_4_gb,
    "packets of no bytes": frame_badly(0, 0),
    "packets that are padding": frame_badly(12, 255),
    "wrong guess of 200 kB": _wrong_guess,
    "goodbye of 200 kB": _goodbye,
    "new keys before the exchange": _new_keys_first,
    "unimplemented without end": repeat(frame(Byte(UNIMPLEMENTED) + UInt32(2**32 - 1))),
    "version of escapes": repeat(b"\x1b[2J\x07\xe2\x80\xae" * 25 + b"\r\n"),
    "greeting of a byte a quarter of a second": drip(_VERSION * 20, greeted=False),
    "exchange of a byte a quarter of a second": drip(frame(kexinit((b"curve25519-sha256",), (b"ssh-ed25519",))), greeted=True),
}
"""Each ends before the client has logged in; no key and no login is needed for them."""


# --- behind encryption: a server of asyncssh that misbehaves

Attack = Callable[[Any], Awaitable[None]]
"""What is done to a client, by its connection."""
Conversation = Callable[[Any, str], Awaitable[None]]
"""What is done on a channel, by the channel and what was asked for: `exec` or `subsystem`."""
_TASKS: set[asyncio.Future[None]] = set()


def start(work: Awaitable[None]) -> None:
    async def quietly() -> None:
        with contextlib.suppress(OSError, asyncssh.Error, AttributeError, AssertionError):
            await work

    task = asyncio.ensure_future(quietly())
    _TASKS.add(task)
    task.add_done_callback(_TASKS.discard)


async def flood(connection: Any, send: Callable[[], object]) -> None:
    """Send for as long as the client takes it."""
    while not connection.is_closed():
        for _ in range(50):
            send()
        while connection._transport and connection._transport.get_write_buffer_size() > 2**20:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0)


class _Login(asyncssh.SSHServer):
    """Lets everybody in, unless there is something to do to the client `before`: then its login is never answered."""

    def __init__(self, before: Attack | None, after: Attack | None, talk: Conversation | None) -> None:
        self._before, self._after, self._talk = before, after, talk

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._connection = conn

    def begin_auth(self, username: str) -> bool:
        if self._before is not None:
            start(self._before(self._connection))
        return self._before is not None

    def public_key_auth_supported(self) -> bool:
        return True

    async def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:  # type: ignore[override]
        await asyncio.sleep(3600)
        return False

    def auth_completed(self) -> None:
        if self._after is not None:
            start(self._after(self._connection))

    def session_requested(self) -> Any:
        return _Session(self._talk)


class _Session(asyncssh.SSHServerSession[bytes]):
    def __init__(self, talk: Conversation | None) -> None:
        self._talk = talk

    def connection_made(self, chan: Any) -> None:
        self._channel = chan
        chan.taken = bytearray()

    def exec_requested(self, command: str) -> bool:
        return self._begin("exec")

    def subsystem_requested(self, subsystem: str) -> bool:
        return self._begin("subsystem")

    def data_received(self, data: bytes, datatype: asyncssh.DataType) -> None:
        self._channel.taken += data

    def _begin(self, kind: str) -> bool:
        if self._talk is not None:
            start(self._talk(self._channel, kind))
        return True


def listen_encrypted(
    *,
    before: Attack | None = None,
    after: Attack | None = None,
    talk: Conversation | None = None,
    login: type[_Login] = _Login,
    key: str = "ssh-ed25519",
    **options: Any,
) -> Callable[[], Awaitable[Any]]:
    """Return what starts a server that does this before the login, after it, or on each channel."""

    def listen() -> Awaitable[Any]:
        keys = [HOST_KEY if key == "ssh-ed25519" else asyncssh.generate_private_key(key)]
        server = partial(login, before, after, talk)
        return asyncssh.create_server(
            server, "127.0.0.1", 0, server_host_keys=keys, encoding=None, line_editor=False, **options
        )

    return listen


def ignore(handler: Any, *kinds: int) -> None:
    """Have a connection or a channel take no notice of messages that asyncssh would end it for."""
    handler._packet_handlers = {**handler._packet_handlers, **dict.fromkeys(kinds, lambda *_: True)}


def always(send: Callable[[Any], object]) -> Attack:
    """Return an attack that does the same again and again, whatever the client answers."""

    def attack(connection: Any) -> Awaitable[None]:
        ignore(connection, REQUEST_SUCCESS, REQUEST_FAILURE, OPEN_FAILURE)
        return flood(connection, lambda: send(connection))

    return attack


def always_on_channel(send: Callable[[Any], object]) -> Conversation:
    """Return a conversation that does the same again and again, whatever the client answers."""

    def talk(channel: Any, _: str) -> Awaitable[None]:
        ignore(channel, CHANNEL_SUCCESS, CHANNEL_FAILURE)
        return flood(channel.get_connection(), lambda: send(channel))

    return talk


async def _rekey(connection: Any) -> None:
    while not connection.is_closed():
        if connection._kex_complete:
            connection._send_kexinit()
            connection._kexinit_sent = True
        await asyncio.sleep(0)


async def _rekey_by_slow_group(connection: Any) -> None:
    kex_dh._dh_gex_groups = ((8192, 5, kex_dh._group18_p),)  # type: ignore[assignment]
    connection._kex_algs = [b"diffie-hellman-group-exchange-sha256"]
    connection._send_kexinit()
    connection._kexinit_sent = True


async def _rekey_as_another(connection: Any) -> None:
    """Exchange keys again as a host with another key."""
    other = asyncssh.generate_private_key("ssh-ed25519")
    connection._server_host_keys = {b"ssh-ed25519": asyncssh.public_key.load_keypairs(other)[0]}
    connection._send_kexinit()
    connection._kexinit_sent = True


async def _use_agent(connection: Any) -> None:
    """Open channels to the client's agent, and ask for its keys and a signature on each as if it were there."""
    window = UInt32(7) + UInt32(2**21) + UInt32(2**15)
    key = String("ssh-ed25519") + String(bytes(range(32)))
    sign = Byte(_SIGN_REQUEST) + String(key) + String(b"login") + UInt32(0)

    def send() -> None:
        connection.send_packet(CHANNEL_OPEN, String("auth-agent@openssh.com"), window)
        for number in range(3):
            for request in (Byte(_REQUEST_IDENTITIES), sign):
                connection.send_packet(CHANNEL_DATA, UInt32(number), String(String(request)))

    ignore(connection, REQUEST_SUCCESS, REQUEST_FAILURE, OPEN_FAILURE)
    await flood(connection, send)


class _Nothing:
    """What becomes of the packets of a key exchange that the server does not go on with."""

    def log_received_packet(self, *_: object) -> None: ...

    def process_packet(self, *_: object) -> bool:
        return True


async def _rekey_half(connection: Any) -> None:
    """Begin an exchange, and never go on."""
    ignore(connection, KEXINIT)
    connection._send_kexinit()
    connection._kex = _Nothing()


def _open_display_and_agent(connection: Any) -> None:
    for number, kind in enumerate(("x11", "auth-agent", "auth-agent@openssh.com", "x11")):
        rest = String("::1") + UInt32(6000) if kind == "x11" else b""
        connection.send_packet(CHANNEL_OPEN, String(kind), UInt32(number), UInt32(0), UInt32(2**32 - 1), rest)


def _open_channels(connection: Any) -> None:
    window = UInt32(7) + UInt32(2**21) + UInt32(2**15)
    address = String("127.0.0.1") + UInt32(22) + String("127.0.0.1") + UInt32(40000)
    for kind, rest in (
        ("forwarded-tcpip", address),
        ("auth-agent@openssh.com", b""),
        ("x11", String("127.0.0.1") + UInt32(6000)),
        ("session", b""),
    ):
        connection.send_packet(CHANNEL_OPEN, String(kind), window, rest)


async def _ask_and_never_read(connection: Any) -> None:
    connection._transport.pause_reading()
    await flood(connection, lambda: connection.send_packet(GLOBAL_REQUEST, String("a"), Boolean(True)))


def _accept_key(connection: Any, key: Callable[[Any], tuple[bytes, bytes]]) -> None:
    algorithm, blob = key(connection)
    connection.send_packet(USERAUTH_PK_OK, String(algorithm), String(blob))


async def _accept_keys(connection: Any) -> None:
    """Say again and again that the key that was offered would do."""
    received: list[tuple[bytes, bytes]] = []
    process = connection._packet_handlers[50]

    def watch(connection: Any, kind: int, number: int, packet: Any) -> Any:
        whole = packet.get_remaining_payload()
        if b"publickey" in whole:
            # the last two strings are algorithm and key
            fields, rest = [], whole
            for _ in range(3):
                size = struct.unpack(">I", rest[:4])[0]
                fields.append(rest[4 : 4 + size])
                rest = rest[4 + size :]
            rest = rest[1:]
            for _ in range(2):
                size = struct.unpack(">I", rest[:4])[0]
                fields.append(rest[4 : 4 + size])
                rest = rest[4 + size :]
            received.append((fields[3], fields[4]))
            return True
        return process(connection, kind, number, packet)

    connection._packet_handlers = {**connection._packet_handlers, 50: watch}
    while not received:
        await asyncio.sleep(0.001)
    await flood(connection, lambda: _accept_key(connection, lambda _: received[0]))


async def _say_in_single_bytes(channel: Any, _: str) -> None:
    await flood(channel.get_connection(), lambda: channel.send_packet(CHANNEL_DATA, String(b"x")))


class _Unstarted(_Login):
    """Sends in single bytes before it says whether it runs what was asked for, which it never does."""

    def session_requested(self) -> Any:
        return _UnstartedSession(None)


class _UnstartedSession(_Session):
    def _begin(self, kind: str) -> bool:
        start(_say_in_single_bytes(self._channel, kind))
        self._channel._report_response = lambda _: None
        return True


async def _rekey_without_algorithms(connection: Any) -> None:
    """Begin exchanges that have no algorithm in common with the client's, as large as a packet may be."""
    connection._kex_algs = [b"a" * 60] * 3_000
    connection._send_kexinit()
    connection._kexinit_sent = True


async def _succeed(connection: Any) -> None:
    """Say that the login has succeeded before it was asked for, again and again."""
    await flood(connection, lambda: connection.send_packet(USERAUTH_SUCCESS))


async def _talk_beyond_window(channel: Any, _: str) -> None:
    """Send without looking at how much the client takes."""
    await flood(channel.get_connection(), lambda: channel.send_packet(CHANNEL_DATA, String(b"x" * 32_000)))


async def _die_of_signal(channel: Any, _: str) -> None:
    text = "\x1b[2J\u202e" + "why " * 50_000
    channel.send_packet(
        CHANNEL_REQUEST, String("exit-signal"), Boolean(False), String(text), Boolean(True), String(text), String("")
    )
    channel.send_packet(CHANNEL_CLOSE)


async def _die_of_junk(channel: Any, _: str) -> None:
    """As `_die_of_signal`, in bytes that are no text."""
    text = String(b"\xff\xfe" * 50_000)
    channel.send_packet(CHANNEL_REQUEST, String("exit-signal"), Boolean(False), text, Boolean(True), text, text)
    channel.send_packet(CHANNEL_CLOSE)


Answer = Callable[[int, int], bytes]
"""The payload of an SFTP answer, by the type and the number of the request."""


def speak_sftp(answer: Answer, extensions: bytes = b"") -> Conversation:
    """Return a conversation with an SFTP client, each of whose requests gets an answer."""

    async def talk(channel: Any, kind: str) -> None:
        if kind != "subsystem":
            return
        while not channel.is_closing():
            taken = channel.taken
            while len(taken) >= 9 and len(taken) >= 4 + (size := int.from_bytes(taken[:4], "big")):
                request, number = taken[4], int.from_bytes(taken[5:9], "big")
                del taken[: 4 + size]
                payload = Byte(FXP_VERSION) + UInt32(3) + extensions if request == FXP_INIT else answer(request, number)
                channel.write(UInt32(len(payload)) + payload)
            await asyncio.sleep(0.002)

    return talk


def _answer_well(request: int, number: int) -> bytes:
    answers = {
        FXP_OPEN: Byte(FXP_HANDLE) + UInt32(number) + String(b"h"),
        FXP_OPENDIR: Byte(FXP_HANDLE) + UInt32(number) + String(b"h"),
        FXP_READ: Byte(FXP_DATA) + UInt32(number) + String(b"x" * 32768),
        FXP_STAT: Byte(FXP_ATTRS) + UInt32(number) + UInt32(0),
        # the end of a directory
        FXP_READDIR: Byte(FXP_STATUS) + UInt32(number) + UInt32(1) + String(b"") + String(b""),
    }
    return answers.get(request, Byte(FXP_STATUS) + UInt32(number) + UInt32(0) + String(b"") + String(b""))


def _answer_with_names(request: int, number: int) -> bytes:
    if request != FXP_READDIR:
        return _answer_well(request, number)
    return Byte(FXP_NAME) + UInt32(number) + UInt32(21_000) + (String(b"") + String(b"") + UInt32(0)) * 21_000


def _answer_with_count(request: int, number: int) -> bytes:
    if request != FXP_READDIR:
        return _answer_well(request, number)
    return Byte(FXP_NAME) + UInt32(number) + UInt32(2**32 - 1) + (String(b"x") + String(b"") + UInt32(0)) * 15_000


def _answer_with_attributes(request: int, number: int) -> bytes:
    if request != FXP_STAT:
        return _answer_well(request, number)
    return Byte(FXP_ATTRS) + UInt32(number) + UInt32(0x80000000) + UInt32(2**32 - 1) + (String(b"") + String(b"")) * 30_000


def _answer_with_handles(request: int, number: int) -> bytes:
    """Give handles that each further request has to repeat."""
    if request not in (FXP_OPEN, FXP_OPENDIR):
        return _answer_well(request, number)
    return Byte(FXP_HANDLE) + UInt32(number) + String(b"h" * 200_000)


def _answer_with_bytes(count: int) -> Answer:
    """Return an answer that reads so many bytes, however many were asked for."""

    def answer(request: int, number: int) -> bytes:
        return Byte(FXP_DATA) + UInt32(number) + String(b"x" * count) if request == FXP_READ else _answer_well(request, number)

    return answer


async def _transfer_and_rekey(channel: Any, kind: str) -> None:
    """Answer as slowly as a byte at a time, and change to a slow group meanwhile."""

    async def rekey() -> None:
        await asyncio.sleep(0.2)
        await _rekey_by_slow_group(channel.get_connection())

    await asyncio.gather(speak_sftp(_answer_with_bytes(1))(channel, kind), rekey())


def _answer_with_long_names(request: int, number: int) -> bytes:
    if request != FXP_READDIR:
        return _answer_well(request, number)
    name = String(b"..\\" * 20_000 + b"\xff\x1b[2J\xe2\x80\xae")
    return Byte(FXP_NAME) + UInt32(number) + UInt32(1) + name * 2 + UInt32(0)


def _answer_with_reasons(request: int, number: int) -> bytes:
    return Byte(FXP_STATUS) + UInt32(number) + UInt32(4) + String("\x1b[2J\u202e" + "why " * 50_000) + String("\x1b")


def _answer_with_all_attributes(request: int, number: int) -> bytes:
    """Tell size, owner, permissions and times, each as large as it can be."""
    if request != FXP_STAT:
        return _answer_well(request, number)
    return Byte(FXP_ATTRS) + UInt32(number) + UInt32(0xF) + b"\xff" * 28


def _answer_others(request: int, number: int) -> bytes:
    """Answer requests that nobody has made before the one that was."""
    return Byte(FXP_STATUS) + UInt32(number ^ 2**31) + UInt32(0) + String(b"") + String(b"")


_LIMITS = String("limits@openssh.com") + String("1")


def _limit(size: int) -> Answer:
    def answer(request: int, number: int) -> bytes:
        if request != FXP_EXTENDED:
            return _answer_well(request, number)
        return Byte(FXP_EXTENDED_REPLY) + UInt32(number) + UInt64(size) * 4

    return answer


def _answer_twice(request: int, number: int) -> bytes:
    one = _answer_well(request, number)
    return one + b"".join(UInt32(9) + Byte(FXP_HANDLE) + UInt32(number) + UInt32(0) for _ in range(20_000))


class _Refusing(_Login):
    """Opens no channel, and says at length why."""

    def session_requested(self) -> Any:
        raise asyncssh.ChannelOpenError(2, "\x1b[2J" + "why " * 50_000)


class _SignsWithSha1(_Login):
    """Agrees on rsa-sha2-512 for its host key, and signs with SHA-1."""

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        super().connection_made(conn)
        connection: Any = conn
        choose = connection.choose_server_host_key

        def choose_and_sign_with_sha1(algorithms: Any) -> bool:
            chosen: bool = choose(algorithms)
            connection._server_host_key.sig_algorithm = b"ssh-rsa"
            return chosen

        connection.choose_server_host_key = choose_and_sign_with_sha1


_BEFORE_LOGIN: Mapping[str, Callable[[], Awaitable[Any]]] = {
    "banners without end": listen_encrypted(
        before=always(lambda item: item.send_packet(USERAUTH_BANNER, String("\x1b[2J" + "A" * 30000), String("")))
    ),
    "small banners without end": listen_encrypted(
        before=always(lambda item: item.send_packet(USERAUTH_BANNER, String(""), String("")))
    ),
    "debug messages without end": listen_encrypted(before=always(lambda item: item.send_debug("B" * 30000))),
    "ignored messages without end": listen_encrypted(before=always(lambda item: item.send_packet(IGNORE, String(b"")))),
    "extensions without end": listen_encrypted(
        before=always(lambda item: item.send_packet(EXT_INFO, UInt32(20_000), (String(b"") + String(b"")) * 20_000))
    ),
    "signature algorithms without end": listen_encrypted(
        before=always(
            lambda item: item.send_packet(EXT_INFO, UInt32(1), String("server-sig-algs"), String(b",".join([b"a"] * 100_000)))
        )
    ),
    "rekeying without end before login": listen_encrypted(before=_rekey),
    "rekeying by a slow group before login": listen_encrypted(before=_rekey_by_slow_group),
    "keys accepted without end": listen_encrypted(before=_accept_keys),
    "another key accepted": listen_encrypted(
        before=always(lambda item: _accept_key(item, lambda _: (b"ssh-ed25519", String("ssh-ed25519") + String(bytes(32)))))
    ),
    "failures without end": listen_encrypted(
        before=always(lambda item: item.send_packet(USERAUTH_FAILURE, NameList((b"publickey",) * 20_000), Boolean(True)))
    ),
    "prompts without end": listen_encrypted(
        before=always(
            lambda item: item.send_packet(
                60, String("Password:"), String(""), String(""), UInt32(2**32 - 1), (String(b"p") + b"\1") * 5000
            )
        )
    ),
    "login that is never answered": listen_encrypted(before=lambda _: asyncio.sleep(3600)),
    "host key signed with SHA-1": listen_encrypted(login=_SignsWithSha1, key="ssh-rsa"),
    "goodbye of 30 kB after the exchange": listen_encrypted(
        before=always(lambda item: item.send_packet(DISCONNECT, UInt32(14), String("\x1b[2J" + "why " * 8_000), String("")))
    ),
    "compression alone": listen_encrypted(compression_algs=["zlib", "zlib@openssh.com"]),
}
_AFTER_LOGIN: Mapping[str, Callable[[], Awaitable[Any]]] = {
    "rekeying without end": listen_encrypted(after=_rekey),
    "rekeying by a slow group": listen_encrypted(after=_rekey_by_slow_group),
    "rekeying without an algorithm in common": listen_encrypted(after=_rekey_without_algorithms),
    "rekeying that never ends": listen_encrypted(after=_rekey_half),
    "rekeying as another host": listen_encrypted(after=_rekey_as_another),
    "rekeying by a slow group during a transfer": listen_encrypted(talk=_transfer_and_rekey, window=2**21),
    "agent used as if it were lent": listen_encrypted(after=_use_agent),
    "display and agent in turn": listen_encrypted(after=always(_open_display_and_agent)),
    "channels opened without end": listen_encrypted(after=always(_open_channels)),
    "channel of an odd type": listen_encrypted(
        # asyncssh has a method of that name, which takes something else
        after=always(lambda item: item.send_packet(CHANNEL_OPEN, String("channel"), UInt32(7), UInt32(2**21), UInt32(2**15)))
    ),
    "channels refused with 200 kB": listen_encrypted(login=_Refusing),
    "requests whose answers are never read": listen_encrypted(after=_ask_and_never_read),
    "host keys announced without end": listen_encrypted(
        after=always(
            lambda item: item.send_packet(
                GLOBAL_REQUEST, String("hostkeys-00@openssh.com"), Boolean(True), String(rsa(16384, odd(16383))) * 10
            )
        )
    ),
    "small messages without end": listen_encrypted(after=always(lambda item: item.send_packet(IGNORE, String(b"")))),
    "unknown messages without end": listen_encrypted(after=always(lambda item: item.send_packet(200, b""))),
    "packets of one byte at most": listen_encrypted(talk=speak_sftp(_answer_well), max_pktsize=1, window=2**21),
    "window of one byte": listen_encrypted(talk=speak_sftp(_answer_well), window=2),
    "output in single bytes": listen_encrypted(talk=_say_in_single_bytes),
    "output before the command runs": listen_encrypted(login=_Unstarted),
    "errors without end": listen_encrypted(
        talk=always_on_channel(lambda item: item.send_packet(EXTENDED_DATA, UInt32(1), String(b"e" * 20)))
    ),
    "exit codes without end": listen_encrypted(
        talk=always_on_channel(lambda item: item.send_packet(CHANNEL_REQUEST, String("exit-status"), Boolean(True), UInt32(0)))
    ),
    "questions on a channel without end": listen_encrypted(
        talk=always_on_channel(lambda item: item.send_packet(CHANNEL_REQUEST, String("keepalive@openssh.com"), Boolean(True)))
    ),
    "windows without end": listen_encrypted(
        talk=always_on_channel(lambda item: item.send_packet(WINDOW_ADJUST, UInt32(2**32 - 1)))
    ),
    "SFTP with 400,000 extensions": listen_encrypted(
        talk=speak_sftp(_answer_well, (String(b"") + String(b"")) * 400_000), window=2**21
    ),
    # it lets in before it is asked to
    "success without end": listen_encrypted(before=_succeed),
    "success after the login": listen_encrypted(after=_succeed),
    "forwardings asked for without end": listen_encrypted(
        after=always(
            lambda item: item.send_packet(
                GLOBAL_REQUEST, String("tcpip-forward"), Boolean(True), String("0.0.0.0" * 4_000), UInt32(22)
            )
        )
    ),
    "answers to global requests nobody made": listen_encrypted(after=always(lambda item: item.send_packet(REQUEST_SUCCESS))),
    "output beyond the window": listen_encrypted(talk=_talk_beyond_window),
    "ends of output without end": listen_encrypted(talk=always_on_channel(lambda item: item.send_packet(CHANNEL_EOF))),
    "answers on a channel nobody asked for": listen_encrypted(
        talk=always_on_channel(lambda item: item.send_packet(CHANNEL_SUCCESS))
    ),
    "channel confirmed without end": listen_encrypted(
        talk=always_on_channel(
            lambda item: item.send_packet(OPEN_CONFIRMATION, UInt32(7), UInt32(2**32 - 1), UInt32(2**32 - 1))
        )
    ),
    "end by a signal of 200 kB": listen_encrypted(talk=_die_of_signal),
    "end by a signal of junk": listen_encrypted(talk=_die_of_junk),
    "handles of 200 kB": listen_encrypted(talk=speak_sftp(_answer_with_handles), window=2**21),
    "reads of one byte": listen_encrypted(talk=speak_sftp(_answer_with_bytes(1))),
    "reads of nothing": listen_encrypted(talk=speak_sftp(_answer_with_bytes(0))),
    "names of 80 kB": listen_encrypted(talk=speak_sftp(_answer_with_long_names)),
    "reasons of 200 kB": listen_encrypted(talk=speak_sftp(_answer_with_reasons)),
    "attributes as large as they can be": listen_encrypted(talk=speak_sftp(_answer_with_all_attributes)),
    "answers to other requests": listen_encrypted(talk=speak_sftp(_answer_others)),
    "limits beyond a disk": listen_encrypted(talk=speak_sftp(_limit(2**64 - 1), _LIMITS)),
    "limits of one byte": listen_encrypted(talk=speak_sftp(_limit(1), _LIMITS)),
    "21,000 names at once": listen_encrypted(talk=speak_sftp(_answer_with_names)),
    "names by a wrong count": listen_encrypted(talk=speak_sftp(_answer_with_count)),
    "attributes by a wrong count": listen_encrypted(talk=speak_sftp(_answer_with_attributes)),
    "answers nobody asked for": listen_encrypted(talk=speak_sftp(_answer_twice)),
    "commands that never end": listen_encrypted(),
}
SERVERS: Final[Mapping[str, LyingServer]] = {
    **{name: LyingServer(name, listen_raw(lie), lets_in=False) for name, lie in RAW.items()},
    **{name: LyingServer(name, listen, lets_in=False) for name, listen in _BEFORE_LOGIN.items()},
    **{name: LyingServer(name, listen, lets_in=True) for name, listen in _AFTER_LOGIN.items()},
}


async def _main(names: list[str]) -> None:
    # a client that ended the connection is what most of them are after
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    ports = {}
    for name in names:
        listening = await SERVERS[name].listen()
        ports[name] = listening.sockets[0].getsockname()[1]
    print(json.dumps(ports), flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1:]))
