"""The way to a host: one SSH connection, with its keys, host keys and time-outs; every failure is a HostError.

Private keys are RSA, ECDSA or Ed25519, in PEM or OpenSSH form, without a passphrase. `transport` has what goes over a
connection, `directory` Transom's directory on the host.
"""

import asyncio
import functools
import hashlib
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import asyncssh
import msgspec

from transom.hosts.errors import HostError, HostKeyChanged, HostKeyNotKept, KeyUnusable
from transom.hosts.ssh import known_hosts
from transom.hosts.ssh.algorithms import HOST_KEYS
from transom.hosts.ssh.connections import build_connection_options, explain_failure, open_connection
from transom.hosts.ssh.incoming import IncomingLimits
from transom.hosts.ssh.jump_hosts import open_jump_hosts
from transom.hosts.ssh.known_hosts import HostKeys, KnownKey
from transom.hosts.ssh.login_phases import LoginPhases, PhaseLimits
from transom.hosts.ssh.outgoing import OutgoingCounter
from transom.hosts.ssh.ssh_config import read_ssh_config
from transom.proxy.secret import Secret
from transom.windows.nodes.private_keys import find_private_key_fault, normalize_key

_OUTPUT_LIMIT = 65536
"""Bytes of a script's standard output."""
SPOKEN_LIMIT = 2**20
"""The maximum output of a script in bytes; it reports progress on standard error."""


class Access(msgspec.Struct, frozen=True):
    """How a host is reached.

    `keys` are private keys in PEM or OpenSSH format. With `ssh_config` the options that `ssh_config.OPTIONS` names count of
    the person's `~/.ssh/config`, jump hosts among them; without `keys` their agent and default keys; and an empty `username`
    is left to them. `host_key` is a pinned line as in `ssh_host_ed25519_key.pub`; without it the key is trusted on first use.
    """

    address: str
    port: int = 22
    username: str = "Administrator"
    keys: tuple[Secret, ...] = ()
    host_key: str | None = None
    ssh_config: bool = False
    key_source: str = ""
    """Where the keys are from, for people: `Secret transom-system/cloud-private-key`."""


class Timeouts(msgspec.Struct, frozen=True):
    """In seconds: `PhaseLimits` for the host and for each jump host; a channel without progress; a whole pass.

    `service` is for a service to stop, and for it to start.
    """

    connect: float = 10
    progress: float = 60
    whole: float = 900
    login: float = 120
    service: float = 240

    @property
    def phases(self) -> PhaseLimits:
        """The limits until a connection is logged in."""
        return PhaseLimits(self.connect, self.login)


def read_configured_port(address: str) -> int:
    """Return the port that the person's `~/.ssh/config` names for a host, else 22. Raises Unreachable."""
    return read_ssh_config(address).port


@asynccontextmanager
async def connect(access: Access, host_keys: HostKeys, timeouts: Timeouts) -> AsyncIterator[asyncssh.SSHClientConnection]:
    """Open an authenticated connection, and close it at the end of the block. Raises HostError."""
    phases = LoginPhases(timeouts.phases)
    client = _Client(access, host_keys, phases)
    options = build_connection_options() | client.build_options()
    if access.username:
        options["username"] = access.username
    async with AsyncExitStack() as stack:
        if access.ssh_config:
            config = await asyncio.to_thread(read_ssh_config, access.address, access.port, access.username)
            options["options"] = config.options
            options["proxy_command"] = config.proxy_command
            if not access.keys:
                # beside a key they would be tried first, and a server takes six at most (sshd_config(5), MaxAuthTries)
                options |= {"client_keys": (), "agent_path": ()}
            if config.jump_hosts:
                options["tunnel"] = await stack.enter_async_context(open_jump_hosts(config.jump_hosts, timeouts.phases))
        opened = open_connection(access.address, access.port, phases, client_factory=lambda: client, **options)
        try:
            connection = await stack.enter_async_context(opened)
        except (OSError, ValueError, asyncssh.Error) as error:
            # asyncssh reads a server's greeting as ASCII, and some of its packets without a net: ValueError, UnicodeError
            raise client.refusal or explain_failure(error, access.port, phases, tried=_describe_keys(access)) from None
        if client.new is not None:
            try:
                await host_keys.record_key(access.address, access.port, client.new)
            except OSError as error:
                raise HostKeyNotKept(
                    f"the host's key cannot be kept in {error.filename or 'its file'}: {error.strerror}; nothing was done"
                ) from None
        yield connection


class _Client(asyncssh.SSHClient):
    """Judges the host's key."""

    def __init__(self, access: Access, host_keys: HostKeys, phases: LoginPhases) -> None:
        self._access, self._host_keys, self._phases = access, host_keys, phases
        self._pinned = known_hosts.parse_pinned_key(access.host_key) if access.host_key else None
        self._known: tuple[KnownKey, ...] = (
            (self._pinned,) if self._pinned else tuple(host_keys.list_known_keys(access.address, access.port))
        )
        self._incoming: IncomingLimits | None = None
        self.new: asyncssh.SSHKey | None = None
        self.refusal: HostError | None = None

    def build_options(self) -> dict[str, Any]:
        """Return the options that say which keys open the host, and which key it has."""
        return {
            "client_keys": [parse_private_key(key) for key in self._access.keys] or None,
            "known_hosts": ([], [], []),
            "server_host_key_algs": self._order_algorithms(),
        }

    def connection_made(self, conn: asyncssh.SSHClientConnection) -> None:
        """Handle asyncssh's event: the connection exists, without data yet."""
        self._incoming = IncomingLimits(conn, OutgoingCounter(conn), self._phases)

    def auth_completed(self) -> None:
        """Handle asyncssh's event: the login succeeded."""
        if self._incoming is not None:
            self._incoming.start_session()

    def _order_algorithms(self) -> list[str]:
        """Those of the known keys first: else a host with several keys would seem to have changed."""
        known = [name.decode() for key in self._known for name in key.sig_algorithms]
        return list(dict.fromkeys([name for name in known if name in HOST_KEYS] + list(HOST_KEYS)))

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        """Return True if the key is a known one, or the first one of a new host."""
        if not self._known:
            self.new = key
            return True
        if any(item.get_fingerprint() == key.get_fingerprint() for item in self._known):
            return True
        expected = ", ".join(item.get_fingerprint() for item in self._known)
        remedy = (
            "correct spec.hostKey of its WindowsInstance"
            if self._pinned
            else self._host_keys.describe_remedy(self._access.address, self._access.port)
        )
        self.refusal = HostKeyChanged(
            f"the host key is not the expected one: expected {expected}, the host shows {key.get_fingerprint()}. "
            f"If the machine was replaced, {remedy}; otherwise an attacker may intercept the connection"
        )
        return False


def _describe_keys(access: Access) -> str:
    """Return which keys were tried, so that a person can compare them with those on the host."""
    user = f" as {access.username}" if access.username else ""
    source = f" of {access.key_source}" if access.key_source else ""
    fingerprints = ", ".join(parse_private_key(key).get_fingerprint() for key in access.keys)
    keys = f"({fingerprints}{source})" if fingerprints else "(the SSH agent's and those in ~/.ssh)"
    return f"{user} {keys}"


@functools.lru_cache(maxsize=64)
def parse_private_key(key: Secret) -> asyncssh.SSHKey:
    """Parse a private key. Raises KeyUnusable, whose message quotes nothing of the key."""
    if (fault := find_private_key_fault(key)) is not None:
        raise KeyUnusable(f"the SSH key {fault}")
    try:
        return asyncssh.import_private_key(normalize_key(key.reveal()))
    except (asyncssh.KeyImportError, asyncssh.KeyEncryptionError, ValueError):
        raise KeyUnusable("the SSH key cannot be read: it must be a private key in PEM or OpenSSH form") from None


@functools.lru_cache(maxsize=64)
def format_public_key(key: Secret) -> str:
    """Type and base64 of the public key, as in `authorized_keys`, without a comment. Raises KeyUnusable."""
    parts = parse_private_key(key).export_public_key().decode().split()
    return " ".join(parts[:2])


def compute_public_hash(key: Secret) -> str:
    """Return the SHA-256 of the public key in lower-case hex, as recorded for the key of a host. Raises KeyUnusable."""
    return hashlib.sha256(format_public_key(key).encode()).hexdigest()


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
        """Handle asyncssh's event: output arrived."""
        self.spoken += len(data)
        if datatype is None and self._size < _OUTPUT_LIMIT:
            self.output.append(data)
            self._size += len(data)
        self.progress.set()

    def exit_status_received(self, status: int) -> None:
        """As asyncssh says: the command ended."""
        self.status = status

    def connection_lost(self, exc: Exception | None) -> None:
        """Handle asyncssh's event: the channel closed, no more output follows."""
        self.ended.set()
        self.progress.set()


class ProgressTimer:
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

    def start_wait(self, what: object) -> None:
        """Something is waited for from now on, or has made progress."""
        self._since.pop(what, None)
        self._since[what] = self._loop.time()
        if self._timer is None:
            self._timer = self._loop.call_later(self._seconds, self._check_deadline)

    def end_wait(self, what: object) -> None:
        """End the wait for something that came or is not expected any more."""
        del self._since[what]

    def stop(self) -> None:
        """Stop the timer because the connection ends."""
        if self._timer is not None:
            self._timer.cancel()

    def _check_deadline(self) -> None:
        since = next(iter(self._since.values()), None)
        if since is None:
            self._timer = None
        elif (left := since + self._seconds - self._loop.time()) > 0:
            self._timer = self._loop.call_later(left, self._check_deadline)
        else:
            self.told = True
            self._broken()
