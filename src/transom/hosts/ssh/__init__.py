"""The way to a host: one SSH connection, with its keys, host keys and time-outs; every failure is a HostError.

Private keys are RSA, ECDSA or Ed25519, in PEM or OpenSSH form, without a passphrase. `transport` has what goes over a
connection, `directory` Transom's directory on the host.
"""

import asyncio
import functools
import hashlib
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import asyncssh
import msgspec

from transom.hosts.errors import AuthenticationRefused, HostError, HostKeyChanged, HostKeyNotKept, KeyUnusable, Unreachable
from transom.hosts.ssh import known_hosts
from transom.hosts.ssh.known_hosts import HostKeys, KnownKey
from transom.hosts.ssh.outgoing import Outgoing
from transom.proxy.secret import Secret

# The key types of Windows' OpenSSH, the best first; no host certificates.
_HOST_KEY_ALGORITHMS = (
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "rsa-sha2-512",
    "rsa-sha2-256",
)
# All of them are in Windows' OpenSSH; AES-GCM costs Python half of what ChaCha20 costs, a packet.
CIPHERS: Final = (
    "aes256-gcm@openssh.com",
    "aes128-gcm@openssh.com",
    "chacha20-poly1305@openssh.com",
    "aes256-ctr",
    "aes192-ctr",
    "aes128-ctr",
)
_GOODBYE = 2
NOT_RESOLVED: Final = "the name cannot be resolved"
"""What an `Unreachable` says of an address that is no name of the network."""
_OUTPUT_LIMIT = 65536
"""Bytes of a script's standard output."""
SPOKEN_LIMIT = 2**20
"""Bytes of all that a script says; on standard error it tells that it goes on."""


class Access(msgspec.Struct, frozen=True):
    """How a host is reached.

    `keys` are private keys in PEM or OpenSSH format. With `ssh_config` the person's `~/.ssh/config` and jump hosts count as
    well; without `keys` their agent and default keys; and an empty `username` is left to them. `host_key` is a pinned line as
    in `ssh_host_ed25519_key.pub`; without it the key is trusted on first use.
    """

    address: str
    port: int = 22
    username: str = "Administrator"
    keys: tuple[Secret, ...] = ()
    host_key: str | None = None
    ssh_config: bool = False


class Timeouts(msgspec.Struct, frozen=True):
    """In seconds: to connect and log in; a channel without progress; a whole pass."""

    connect: float = 10
    progress: float = 60
    whole: float = 900


def configured_port(address: str) -> int:
    """The port that the person's `~/.ssh/config` names for a host, else 22. Raises Unreachable."""
    try:
        # `()` is the person's own file; keys are for whoever connects
        given = {"config": (), "client_keys": None, "agent_path": None, "known_hosts": None}
        return asyncssh.SSHClientConnectionOptions(host=address, **given).port
    except asyncssh.ConfigParseError as error:
        raise Unreachable(f"~/.ssh/config cannot be used: {error}") from None


@asynccontextmanager
async def connect(access: Access, host_keys: HostKeys, timeouts: Timeouts) -> AsyncIterator[asyncssh.SSHClientConnection]:
    """An authenticated connection, closed at the end of the block. Raises HostError."""
    client = _Client(access, host_keys)
    try:
        connection = await asyncssh.connect(
            access.address, access.port, client_factory=lambda: client, **_options(access, client, timeouts)
        )
    except asyncssh.ConfigParseError as error:
        raise Unreachable(f"~/.ssh/config cannot be used: {error}") from None
    except (OSError, ValueError, asyncssh.Error) as error:
        # asyncssh reads a server's greeting as ASCII, and some of its packets without a net: ValueError, UnicodeError
        raise client.refusal or _reason(error, access, timeouts) from None
    try:
        if client.new is not None:
            try:
                await host_keys.record(access.address, access.port, client.new)
            except OSError as error:
                raise HostKeyNotKept(
                    f"the host's key cannot be kept in {error.filename or 'its file'}: {error.strerror}; nothing was done"
                ) from None
        yield connection
    finally:
        connection.close()
        # a server that is gone confirms nothing
        await asyncio.wait([asyncio.ensure_future(connection.wait_closed())], timeout=_GOODBYE)
        connection.abort()


def _options(access: Access, client: "_Client", timeouts: Timeouts) -> dict[str, Any]:
    options: dict[str, Any] = {
        "client_keys": [private_key(key) for key in access.keys] or None,
        "known_hosts": ([], [], []),
        "server_host_key_algs": client.algorithms(),
        "x509_trusted_certs": None,
        "gss_kex": False,
        "gss_auth": False,
        "password_auth": False,
        "kbdint_auth": False,
        "host_based_auth": False,
        "compression_algs": None,
        "encryption_algs": list(CIPHERS),
        "connect_timeout": timeouts.connect,
        "login_timeout": timeouts.connect,
    }
    if access.username:
        options["username"] = access.username
    if not access.ssh_config:
        return options | {"config": None, "agent_path": None}
    if access.keys:
        # the agent's keys would be tried before, and a server takes no more than six (sshd_config(5), MaxAuthTries)
        return options | {"agent_path": None}
    del options["client_keys"]
    return options


class _Client(asyncssh.SSHClient):
    """Judges the host's key."""

    def __init__(self, access: Access, host_keys: HostKeys) -> None:
        self._access, self._host_keys = access, host_keys
        self._pinned = known_hosts.pinned(access.host_key) if access.host_key else None
        self._known: tuple[KnownKey, ...] = (
            (self._pinned,) if self._pinned else tuple(host_keys.known(access.address, access.port))
        )
        self.new: asyncssh.SSHKey | None = None
        self.refusal: HostError | None = None

    def connection_made(self, conn: asyncssh.SSHClientConnection) -> None:
        """As asyncssh says: the host is there, and nothing was said yet."""
        Outgoing(conn)

    def algorithms(self) -> list[str]:
        """Those of the known keys first: else a host with several keys would seem to have changed."""
        known = [name.decode() for key in self._known for name in key.sig_algorithms]
        return list(dict.fromkeys([name for name in known if name in _HOST_KEY_ALGORITHMS] + list(_HOST_KEY_ALGORITHMS)))

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        """Whether this is a key that we know, or the first that we meet."""
        if not self._known:
            self.new = key
            return True
        if any(known.get_fingerprint() == key.get_fingerprint() for known in self._known):
            return True
        expected = ", ".join(known.get_fingerprint() for known in self._known)
        remedy = (
            "change the pinned host key" if self._pinned else self._host_keys.remedy(self._access.address, self._access.port)
        )
        self.refusal = HostKeyChanged(
            f"the host key is not the expected one: expected {expected}, the host shows {key.get_fingerprint()}. "
            f"If the machine was replaced, {remedy}; else somebody may be in between"
        )
        return False


def _reason(error: Exception, access: Access, timeouts: Timeouts) -> HostError:
    match error:
        case asyncssh.PermissionDenied():
            user = f" as {access.username}" if access.username else ""
            return AuthenticationRefused(f"the host takes none of the keys{user}; check user name and authorized keys")
        case asyncssh.KeyExchangeFailed():
            return Unreachable("the SSH server there has no algorithm in common with this client")
        case TimeoutError():
            return Unreachable(f"no SSH answer within {timeouts.connect:g} s on port {access.port}")
        case socket.gaierror():
            return Unreachable(NOT_RESOLVED)
        case OSError():
            why = f": {os.strerror(error.errno).lower()}" if error.errno else ""
            return Unreachable(f"no connection to port {access.port}{why}")
        case asyncssh.ConnectionLost():
            return Unreachable("the connection ended during login")
        case _:
            return Unreachable(f"what answers on port {access.port} is no usable SSH server")


@functools.lru_cache(maxsize=64)
def private_key(key: Secret) -> asyncssh.SSHKey:
    """The key of a text. Raises KeyUnusable; nothing of the text is in its message."""
    try:
        return asyncssh.import_private_key(key.reveal())
    except (asyncssh.KeyImportError, asyncssh.KeyEncryptionError, ValueError) as error:
        # asyncssh has an error of its own for a wrong passphrase, and none for a missing one
        if isinstance(error, asyncssh.KeyEncryptionError) or "passphrase" in str(error).lower():
            raise KeyUnusable("the private key is encrypted; give one without a passphrase") from None
        raise KeyUnusable("the private key cannot be read; it must be a PEM or OpenSSH private key") from None


@functools.lru_cache(maxsize=64)
def public_line(key: Secret) -> str:
    """Type and base64 of the public key, as in `authorized_keys`, without a comment. Raises KeyUnusable."""
    parts = private_key(key).export_public_key().decode().split()
    return " ".join(parts[:2])


def public_hash(key: Secret) -> str:
    """SHA-256 of `public_line` in lower-case hex: what is recorded of the key that a host was given. Raises KeyUnusable."""
    return hashlib.sha256(public_line(key).encode()).hexdigest()


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


class Silence:
    """The limit of one connection. One timer watches all that is waited for: a pass waits for dozens of answers.

    `broken` is called when one of them has not come for `seconds`: it has to end the connection, by which who waits learns it.
    """

    def __init__(self, seconds: float, broken: Callable[[], object]) -> None:
        self.told = False
        """Whether something did not come in time."""
        self._seconds, self._broken = seconds, broken
        self._loop = asyncio.get_running_loop()
        self._since: dict[object, float] = {}
        """When the last progress was of each thing, the earliest first."""
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, what: object) -> None:
        """Something is waited for from now on, or has made progress."""
        self._since.pop(what, None)
        self._since[what] = self._loop.time()
        if self._timer is None:
            self._timer = self._loop.call_later(self._seconds, self._look)

    def end(self, what: object) -> None:
        """It has come, or is not waited for any more."""
        del self._since[what]

    def stop(self) -> None:
        """The connection ends."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        since = next(iter(self._since.values()), None)
        if since is None:
            self._timer = None
        elif (left := since + self._seconds - self._loop.time()) > 0:
            self._timer = self._loop.call_later(left, self._look)
        else:
            self.told = True
            self._broken()
