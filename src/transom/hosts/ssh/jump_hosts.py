"""The jump hosts that a person's `~/.ssh/config` names, each opened with the options that hosts are opened with.

asyncssh would open them itself, with whatever the file has for them: it would lend them the person's agent.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import asyncssh
import msgspec

from transom.common.regular_files import read_regular_text
from transom.hosts.errors import HostError, Unreachable
from transom.hosts.ssh.algorithms import HOST_CERTIFICATES, HOST_KEYS
from transom.hosts.ssh.connections import build_connection_options, explain_failure, open_connection
from transom.hosts.ssh.incoming import IncomingLimits
from transom.hosts.ssh.login_phases import LoginPhases, PhaseLimits
from transom.hosts.ssh.outgoing import OutgoingCounter
from transom.hosts.ssh.ssh_config import SshConfig, read_ssh_config

MOST_IN_A_ROW: Final = 8
"""Jump hosts in a row; ssh ends a jump host that leads to itself, and nothing ends two that lead to each other."""


class JumpHost(msgspec.Struct, frozen=True):
    """A jump host as ProxyJump names it; what is empty or None is for the file to say."""

    host: str
    port: int | None = None
    username: str = ""

    def __str__(self) -> str:
        return f"jump host {self.host}" + (f":{self.port}" if self.port else "")


def parse_jump_hosts(value: str) -> tuple[JumpHost, ...]:
    """Return the hosts of a ProxyJump, the first to connect to first. Raises Unreachable.

    Each is `[user@]host[:port]` or `ssh://[user@]host[:port]`, an IPv6 address before a port in brackets (ssh_config(5)).
    """
    return tuple(_parse_jump_host(part.strip()) for part in value.split(","))


def _parse_jump_host(text: str) -> JumpHost:
    is_uri = text.startswith("ssh://")
    user, _, address = text.removeprefix("ssh://").removesuffix("/" if is_uri else "").rpartition("@")
    host, colon, port = address.rpartition(":")
    if not colon or (":" in host and not host.endswith("]")):
        host, port = address, ""
    host = host.removeprefix("[").removesuffix("]")
    if not host or (colon and port and not (port.isascii() and port.isdigit() and 0 < int(port) < 65536)):
        raise Unreachable(f"~/.ssh/config cannot be used: ProxyJump {text!r} is not [user@]host[:port]")
    return JumpHost(host, int(port) if port else None, unquote(user) if is_uri else user)


@asynccontextmanager
async def open_jump_hosts(value: str, limits: PhaseLimits) -> AsyncIterator[asyncssh.SSHClientConnection]:
    """Connect to the jump hosts of a ProxyJump, one through the other, and yield the last connection. Raises HostError."""
    async with AsyncExitStack() as stack:
        yield await _open_each(parse_jump_hosts(value), limits, stack, MOST_IN_A_ROW)


async def _open_each(
    jump_hosts: Sequence[JumpHost], limits: PhaseLimits, stack: AsyncExitStack, left: int
) -> asyncssh.SSHClientConnection:
    """Open jump hosts in their order; the first may have jump hosts of its own. `left` more may be opened."""
    first, *others = jump_hosts
    connection = await _open_first(first, limits, stack, left - len(others) - 1)
    for jump_host in others:
        config = await asyncio.to_thread(read_ssh_config, jump_host.host, jump_host.port, jump_host.username)
        connection = await _open(jump_host, config, connection, limits, stack)
    return connection


async def _open_first(
    jump_host: JumpHost, limits: PhaseLimits, stack: AsyncExitStack, left: int
) -> asyncssh.SSHClientConnection:
    if left < 0:
        raise Unreachable(f"~/.ssh/config has more than {MOST_IN_A_ROW} jump hosts in a row: {jump_host} may lead to itself")
    config = await asyncio.to_thread(read_ssh_config, jump_host.host, jump_host.port, jump_host.username)
    before = config.jump_hosts
    tunnel = await _open_each(parse_jump_hosts(before), limits, stack, left) if before else None
    return await _open(jump_host, config, tunnel, limits, stack)


async def _open(
    jump_host: JumpHost,
    config: SshConfig,
    tunnel: asyncssh.SSHClientConnection | None,
    limits: PhaseLimits,
    stack: AsyncExitStack,
) -> asyncssh.SSHClientConnection:
    phases = LoginPhases(limits)
    client = _Client(jump_host, phases)
    try:
        options = await asyncio.to_thread(_build_options, jump_host, config)
        opened = open_connection(
            jump_host.host,
            options.pop("port"),
            phases,
            proxy_command=config.proxy_command if tunnel is None else None,
            tunnel=tunnel,
            client_factory=lambda: client,
            **options,
        )
        return await stack.enter_async_context(opened)
    except HostError as error:
        raise Unreachable(f"{jump_host}: {error}") from None
    except (OSError, ValueError, asyncssh.Error) as error:
        reason = client.refusal or explain_failure(
            error, jump_host.port or config.port, phases, tried=f" as {jump_host.username}" if jump_host.username else ""
        )
        raise Unreachable(f"{jump_host}: {reason}") from None


def _build_options(jump_host: JumpHost, config: SshConfig) -> dict[str, Any]:
    """Return the options of a connection to a jump host; it reads files. Raises Unreachable."""
    options = build_connection_options()
    if jump_host.username:
        options["username"] = jump_host.username
    return options | {
        "options": config.options,
        "port": jump_host.port or config.port,
        # the person's keys and agent, as the file names them
        "client_keys": (),
        "agent_path": (),
        "known_hosts": _read_known_hosts(config.find_known_hosts()),
        "host_key_alias": config.host_key_alias,
    }


def _read_known_hosts(paths: Sequence[Path]) -> asyncssh.SSHKnownHosts:
    """Return what files have in the known_hosts format. Raises Unreachable."""
    known = asyncssh.SSHKnownHosts()
    for path in paths:
        try:
            known.load(read_regular_text(path))
        except (OSError, ValueError):
            raise Unreachable(f"{path} cannot be read, or is not in the known_hosts format") from None
    return known


class _Client(asyncssh.SSHClient):
    """Takes the key of a jump host where the person's known_hosts has it, and else says what to do."""

    def __init__(self, jump_host: JumpHost, phases: LoginPhases) -> None:
        self._jump_host, self._phases = jump_host, phases
        self._incoming: IncomingLimits | None = None
        self._is_known = False
        self.refusal: HostError | None = None

    def connection_made(self, conn: asyncssh.SSHClientConnection) -> None:
        """Choose the host key algorithms: those of the keys in known_hosts first, certificates where it has an authority."""
        # nothing public has them: they depend on the address that was connected to
        trusted: Any = conn
        self._is_known = bool(trusted._trusted_host_keys or trusted._trusted_ca_keys)
        known = [name.decode() for key in trusted._trusted_host_keys for name in key.sig_algorithms]
        certificates = HOST_CERTIFICATES if trusted._trusted_ca_keys else ()
        first = [name for name in known if name in HOST_KEYS]
        trusted._server_host_key_algs = [name.encode() for name in dict.fromkeys((*certificates, *first, *HOST_KEYS))]
        self._incoming = IncomingLimits(conn, OutgoingCounter(conn), self._phases, certificates=bool(certificates))

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        """Refuse a key that known_hosts does not have."""
        problem = "is not the one in known_hosts" if self._is_known else "is not in known_hosts"
        self.refusal = Unreachable(
            f"its host key {key.get_fingerprint()} {problem}. Compare the fingerprint with the jump host's own key, then "
            f"record it with `ssh {self._jump_host.host}`"
        )
        return False

    def auth_completed(self) -> None:
        """Apply the limits of a session."""
        if self._incoming is not None:
            self._incoming.start_session()
