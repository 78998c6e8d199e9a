"""An SSH connection, opened and closed: to a host, and to the jump hosts on the way to it."""

import asyncio
import os
import shlex
import signal
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from typing import Any, Final

import aiohappyeyeballs
import asyncssh

from transom.hosts.errors import (
    AuthenticationRefused,
    HostError,
    KeyExchangeTimedOut,
    KeyUnusable,
    LoginTimedOut,
    Unreachable,
)
from transom.hosts.ssh.algorithms import build_algorithm_options
from transom.hosts.ssh.incoming import UnsolicitedData
from transom.hosts.ssh.login_phases import LoginPhases
from transom.windows.nodes.windows_instance import parse_ip_address

NOT_RESOLVED: Final = "the name cannot be resolved"
"""The message of an `Unreachable` for an address that does not resolve."""
_NEXT_SECONDS: Final = 0.25
"""Seconds after which the next address of a name is tried as well (RFC 8305, Connection Attempt Delay)."""
_MOST_ADDRESSES: Final = 8
_CLOSED: Final = (
    "the SSH server has too many connections (MaxStartups), refuses this address for some minutes after failed logins "
    "(PerSourcePenalties, OpenSSH 9.8 and later), or cannot read its host keys: see the OpenSSH log of the host"
)
"""Sources: sshd_config(5); PowerShell/openssh-portable, sshd.c, `drop_connection`; PowerShell/Win32-OpenSSH#1027."""
GOODBYE_SECONDS: Final = 2.0
"""Seconds in which a host may confirm the end of a connection."""


def build_connection_options() -> dict[str, Any]:
    """Return the options of each connection; `LoginPhases` has its limits.

    Nothing of the person is lent to the server, and nothing is taken from files or the environment but by who adds it here.
    """
    return build_algorithm_options() | {
        "config": None,
        "agent_path": None,
        "agent_forwarding": False,
        "x11_forwarding": False,
        "x509_trusted_certs": None,
        "x509_trusted_cert_paths": [],
        "pkcs11_provider": None,
        "gss_host": None,
        "gss_kex": False,
        "gss_auth": False,
        "password_auth": False,
        "kbdint_auth": False,
        "host_based_auth": False,
        "preferred_auth": ["publickey"],
        "connect_timeout": None,
        "login_timeout": 0,
    }


@asynccontextmanager
async def open_connection(
    host: str, port: int, phases: LoginPhases, *, proxy_command: str | None = None, **options: Any
) -> AsyncIterator[asyncssh.SSHClientConnection]:
    """Open a connection that is logged in, and close it at the end of the block.

    Raises what asyncssh does, and TimeoutError in a phase that takes longer than its limit.
    """
    with ExitStack() as stack:
        if proxy_command is not None:
            options["sock"] = stack.enter_context(run_proxy_command(proxy_command))
        async with phases.enforce_limits():
            if options.get("sock") is None and options.get("tunnel") is None:
                options["sock"] = await _connect_to_any(_find_hostname(host, options.get("options")), port, stack)
            connection = await asyncssh.connect(host, port, **options)
        try:
            yield connection
        finally:
            connection.close()
            # a server that is gone confirms nothing
            await asyncio.wait([asyncio.ensure_future(connection.wait_closed())], timeout=GOODBYE_SECONDS)
            connection.abort()


def _find_hostname(host: str, config: asyncssh.SSHClientConnectionOptions | None) -> str:
    """Return the name that `~/.ssh/config` has for a host (ssh_config(5), Hostname), or the one that was given."""
    name = config.config.get("Hostname") if config is not None else None
    return name if isinstance(name, str) else host


async def _connect_to_any(host: str, port: int, stack: ExitStack) -> socket.socket | None:
    """Connect to the first address of a name that answers; None for an IP address, which asyncssh connects to.

    Windows registers the addresses of each card in DNS by default, also unreachable ones (Microsoft Learn,
    "EnableAdapterDomainNameRegistration"). asyncio would wait for one address after the other, and the first could take the
    whole limit (RFC 8305).
    Raises OSError.
    """
    if parse_ip_address(host) is not None:
        return None
    infos = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    connected = await aiohappyeyeballs.start_connection(infos[:_MOST_ADDRESSES], happy_eyeballs_delay=_NEXT_SECONDS)
    return stack.enter_context(connected)


@contextmanager
def run_proxy_command(command: str) -> Iterator[socket.socket]:
    """Run a ProxyCommand until the end of the block, and yield a socket to its standard input and output.

    asyncssh runs it by asyncio's subprocesses, and a connection that times out while one starts never ends there: in Python
    3.11, `BaseSubprocessTransport._wait` waits for pipes that are not connected any more. Raises OSError and ValueError.
    """
    with ExitStack() as stack:
        near, far = socket.socketpair()
        stack.enter_context(near)
        with far:
            # the command is the person's own, from their ~/.ssh/config
            process = subprocess.Popen(shlex.split(command), stdin=far.fileno(), stdout=far.fileno(), start_new_session=True)  # noqa: S603
        stack.callback(_kill_group, process)
        yield near


def _kill_group(process: "subprocess.Popen[bytes]") -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def explain_failure(error: Exception, port: int, phases: LoginPhases, *, tried: str = "") -> HostError:
    """Return why a connection failed; the message does not quote asyncssh's exception."""
    match error:
        case asyncssh.PermissionDenied():
            return AuthenticationRefused(
                f"the host accepts none of the keys{tried}; add the public key to its administrators_authorized_keys, "
                "or correct the user name"
            )
        case asyncssh.KeyExchangeFailed() if error.reason.startswith("No matching"):
            return Unreachable("the SSH server there has no algorithm in common with this client")
        case asyncssh.HostKeyNotVerifiable():
            return Unreachable(f"the SSH server presents a host key that Transom does not accept: {error.reason}")
        case asyncssh.ChannelOpenError():
            return Unreachable(f"the jump host refuses the connection to port {port}")
        case asyncssh.KeyImportError() | asyncssh.KeyEncryptionError():
            return KeyUnusable(f"a private key in ~/.ssh cannot be read: {error}")
        case UnsolicitedData():
            return Unreachable(f"the SSH server on port {port} sends more data than a login needs")
        case TimeoutError() if not error.errno:
            return explain_timeout(port, phases)
        case socket.gaierror():
            return Unreachable(NOT_RESOLVED)
        case OSError() if error.filename:
            return Unreachable(f"{error.filename}: {os.strerror(error.errno).lower() if error.errno else 'cannot be used'}")
        case OSError() | asyncssh.ConnectionLost() if phases.phase == "key exchange":
            return Unreachable(f"port {port} accepts connections, and closes them before the SSH key exchange; {_CLOSED}")
        case OSError() if phases.phase == "login":
            return Unreachable("the connection ended during login")
        case OSError():
            why = f": {os.strerror(error.errno).lower()}" if error.errno else ""
            return Unreachable(f"no connection to port {port}{why}")
        case asyncssh.ConnectionLost():
            return Unreachable("the connection ended during login")
        case _:
            return Unreachable(f"no usable SSH server answers on port {port}")


def explain_timeout(port: int, phases: LoginPhases) -> Unreachable:
    """Return what took longer than its limit."""
    limit = f"within {phases.seconds:g} s ({phases.option})"
    match phases.phase:
        case "TCP":
            return Unreachable(f"no TCP connection to port {port} {limit}")
        case "key exchange":
            return KeyExchangeTimedOut(f"port {port} accepts connections, and no SSH key exchange ended {limit}")
        case "login":
            return LoginTimedOut(f"the SSH server on port {port} answers, and neither accepts nor refuses the login {limit}")
