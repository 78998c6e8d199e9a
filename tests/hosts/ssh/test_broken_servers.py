"""SSH servers as people configure them by mistake: each has a reason of its own, with what to do."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import asyncssh
import pytest
from tests.hosts.egress import ALICE, QUESTIONS, wants

from transom.hosts.errors import (
    ForcedCommand,
    HostError,
    KeyExchangeTimedOut,
    LoginTimedOut,
    SftpUnavailable,
    TooFewSessions,
    Unreachable,
)
from transom.hosts.passes.base_pass import PassSettings
from transom.hosts.passes.converge import Convergence
from transom.hosts.ssh.known_hosts import NoHostKeys
from transom.hosts.ssh.ssh_client import Access, Timeouts, connect
from transom.hosts.ssh.transport import Transport, open_ssh
from transom.proxy.secret import Secret
from transom.reasons.reason_table import REASONS

HOST_KEY = asyncssh.generate_private_key("ssh-ed25519")
KEY = asyncssh.generate_private_key("ssh-ed25519")
BRIEF = Timeouts(connect=2, progress=2, whole=20, login=2)
Listen = Callable[[], AbstractAsyncContextManager[int]]


class Server(asyncssh.SSHServer):
    """One that accepts every key, `slow` seconds after it came, and `sessions` sessions at most."""

    slow = 0.0
    sessions = 99

    def begin_auth(self, username: str) -> bool:
        return True

    def public_key_auth_supported(self) -> bool:
        return True

    async def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:  # type: ignore[override]
        await asyncio.sleep(self.slow)
        return True

    def session_requested(self) -> Any:
        self.sessions -= 1
        if self.sessions < 0:
            raise asyncssh.ChannelOpenError(asyncssh.OPEN_CONNECT_FAILED, "open failed")
        return self.session()

    def session(self) -> asyncssh.SSHServerSession[bytes]:
        return Session()


class Session(asyncssh.SSHServerSession[bytes]):
    """A session that writes `text` and ends with `status`, whatever is started in it; None never ends."""

    text = b""
    status: int | None = 0
    subsystems = True
    commands = True

    def connection_made(self, chan: Any) -> None:
        self.channel = chan

    def subsystem_requested(self, subsystem: str) -> bool:
        return self.subsystems

    def exec_requested(self, command: str) -> bool:
        return self.commands

    def session_started(self) -> None:
        self.channel.write(self.text)
        if self.status is not None:
            self.channel.exit(self.status)


def serve(session: type[Session] = Session, **fields: Any) -> Listen:
    @asynccontextmanager
    async def listening() -> AsyncIterator[int]:
        made = type("_Server", (Server,), {"session": lambda self: session(), **fields})
        options: Any = {"server_host_keys": [HOST_KEY], "encoding": None, "login_timeout": 0}
        async with await asyncssh.create_server(made, "127.0.0.1", 0, **options) as server:
            yield server.get_port()

    return listening


def session(**fields: Any) -> type[Session]:
    return type("_Session", (Session,), fields)


def answer(greeting: bytes) -> Listen:
    """A server of TCP that says this, and nothing more."""

    @asynccontextmanager
    async def listening() -> AsyncIterator[int]:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(greeting)
            await reader.read()
            writer.close()

        async with await asyncio.start_server(talk, "127.0.0.1", 0) as server:
            yield server.sockets[0].getsockname()[1]

    return listening


def close(text: bytes) -> Listen:
    """A server of TCP that says this and closes each connection."""

    @asynccontextmanager
    async def listening() -> AsyncIterator[int]:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(text)
            writer.close()

        async with await asyncio.start_server(talk, "127.0.0.1", 0) as server:
            yield server.sockets[0].getsockname()[1]

    return listening


@asynccontextmanager
async def accepting_nothing() -> AsyncIterator[int]:
    """A port whose queue of connections is full: the kernel answers to no further one."""
    with socket.socket() as listening, socket.socket() as first, socket.socket() as second:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        for item in (first, second):
            item.setblocking(False)
            item.connect_ex(listening.getsockname())
        await asyncio.sleep(0.2)
        yield listening.getsockname()[1]


POWERSHELL = b"Windows PowerShell\r\nCopyright (C) Microsoft Corporation. All rights reserved.\r\n\r\n"
SFTP: tuple[tuple[str, Listen, type[HostError], str], ...] = (
    ("no subsystem", serve(session(subsystems=False)), SftpUnavailable, "Subsystem sftp"),
    ("the program is missing", serve(session(status=1)), SftpUnavailable, "with code 1"),
    ("the program crashes", serve(session(status=127)), SftpUnavailable, "with code 127"),
    ("a program without output", serve(session(status=None)), SftpUnavailable, "--channel-timeout"),
    ("PowerShell for each command", serve(session(text=POWERSHELL)), ForcedCommand, "ForceCommand"),
    ("PowerShell that waits", serve(session(text=POWERSHELL, status=None)), ForcedCommand, "ForceCommand"),
    ("cmd for each command", serve(session(text=b"\r\nMicrosoft Windows [Version 10.0]\r\n")), ForcedCommand, "ForceCommand"),
    ("a banner of a profile", serve(session(text=b"\xef\xbb\xbfhello", status=None)), ForcedCommand, "ForceCommand"),
    ("a word", serve(session(text=b"hi", status=3)), ForcedCommand, "ForceCommand"),
    ("no session", serve(sessions=0), TooFewSessions, "MaxSessions"),
)
CONNECTING: tuple[tuple[str, Listen, type[HostError], str], ...] = (
    ("no TCP", accepting_nothing, Unreachable, "no TCP connection"),
    ("a port without a server", answer(b""), KeyExchangeTimedOut, "--connect-timeout"),
    ("a banner alone", answer(b"SSH-2.0-OpenSSH_for_Windows_9.5\r\n"), KeyExchangeTimedOut, "--connect-timeout"),
    # PowerShell/openssh-portable, sshd.c, drop_connection: the first up to v9.5.0.0, the second at a915f06c7
    ("too many connections", close(b"Exceeded MaxStartups\r\n"), Unreachable, "MaxStartups"),
    ("a penalty", close(b"Not allowed at this time\r\n"), Unreachable, "PerSourcePenalties"),
    ("no host key can be read", close(b""), Unreachable, "host keys"),
    ("a domain controller is away", serve(slow=60.0), LoginTimedOut, "--login-timeout"),
)
COMMANDS: tuple[tuple[str, Listen, type[HostError], str], ...] = (
    (
        "SFTP alone",
        serve(session(text=b"This service allows sftp connections only.\r\n", status=1)),
        ForcedCommand,
        "SFTP alone",
    ),
    ("no commands", serve(session(commands=False)), ForcedCommand, "no command"),
)


def look(transport: Transport) -> Awaitable[object]:
    return transport.read_status("C:/ProgramData/Transom")


def run(transport: Transport) -> Awaitable[object]:
    return transport.run(r"C:\x.cmd")


async def fail(port: int, work: Callable[[Transport], Awaitable[object]]) -> HostError:
    access = Access("127.0.0.1", port, keys=(Secret(KEY.export_private_key().decode()),))
    with pytest.raises(HostError) as failure:
        async with open_ssh(access, NoHostKeys(), BRIEF) as transport:
            await work(transport)
    return failure.value


@pytest.mark.parametrize(
    ("work", "listen", "kind", "part"),
    [
        pytest.param(work, listen, kind, part, id=name)
        for work, table in ((look, SFTP), (look, CONNECTING), (run, COMMANDS))
        for name, listen, kind, part in table
    ],
)
async def test_each_has_its_reason_and_says_what_to_do(
    work: Callable[[Transport], Awaitable[object]], listen: Listen, kind: type[HostError], part: str
) -> None:
    async with listen() as port:
        # the second time is as the first: nothing is remembered of a host that was not read
        for _ in range(2):
            error = await fail(port, work)
            assert type(error) is kind
            assert part in str(error)
            reason = REASONS[type(error).__name__]
            assert reason.heals == "after"
            assert reason.remedy


async def test_a_second_session_is_refused() -> None:
    async def both(transport: Transport) -> None:
        await transport.run(r"C:\x.cmd")
        await transport.run(r"C:\x.cmd")

    async with serve(sessions=1)() as port:
        assert isinstance(await fail(port, both), TooFewSessions)


async def test_a_login_takes_longer_than_the_connection_may() -> None:
    """PowerShell/Win32-OpenSSH#2425: 15 to 120 s, now and then."""
    async with serve(slow=1.5)() as port:
        access = Access("127.0.0.1", port, keys=(Secret(KEY.export_private_key().decode()),))
        async with connect(access, NoHostKeys(), Timeouts(connect=1, login=30)) as connection:
            assert not connection.is_closed()
    assert Timeouts().login >= 120


async def test_a_pass_says_it_of_its_host() -> None:
    async with serve(session(subsystems=False))() as port:
        access = Access("127.0.0.1", port, keys=(Secret(KEY.export_private_key().decode()),))
        result = await Convergence(PassSettings(ALICE, timeouts=BRIEF), QUESTIONS, wants(None)).run(access, NoHostKeys())
        assert isinstance(result.error, SftpUnavailable)
        assert result.plan is None
