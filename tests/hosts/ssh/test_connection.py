"""Connecting: what becomes of keys, host keys and servers that are not as they should be."""

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from transom.hosts.errors import (
    AuthenticationRefused,
    HostError,
    HostKeyChanged,
    HostKeyUnusable,
    KeyExchangeTimedOut,
    KeyUnusable,
    Unreachable,
)
from transom.hosts.ssh.algorithms import CIPHERS
from transom.hosts.ssh.known_hosts import KnownHostsFile, NoHostKeys, format_key_line
from transom.hosts.ssh.ssh_client import Access, Timeouts, connect
from transom.proxy.secret import Secret

KEY = asyncssh.generate_private_key("ssh-ed25519")
OTHER_KEY = asyncssh.generate_private_key("ssh-ed25519")
ED25519 = asyncssh.generate_private_key("ssh-ed25519")
ED25519_2 = asyncssh.generate_private_key("ssh-ed25519")
ECDSA = asyncssh.generate_private_key("ecdsa-sha2-nistp256")
QUICK = Timeouts(connect=2, progress=2, whole=5, login=2)


def pem(key: asyncssh.SSHKey = KEY) -> Secret:
    return Secret(key.export_private_key().decode())


class Server(asyncssh.SSHServer):
    def public_key_auth_supported(self) -> bool:
        return True

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        return username == "Administrator" and key == KEY.convert_to_public()


@asynccontextmanager
async def server(*host_keys: asyncssh.SSHKey) -> AsyncIterator[int]:
    async with await asyncssh.create_server(Server, "127.0.0.1", 0, server_host_keys=list(host_keys)) as listening:
        yield listening.get_port()


async def attempt(port: int, known: Path, *, key: Secret | None = None, **fields: object) -> None:
    access = Access("127.0.0.1", port, keys=(pem() if key is None else key,), **fields)  # type: ignore[arg-type]
    async with connect(access, KnownHostsFile(known), QUICK):
        pass


async def test_a_key_is_trusted_on_first_use_and_kept(tmp_path: Path) -> None:
    known = tmp_path / "state" / "known_hosts"
    async with server(ED25519) as port:
        await attempt(port, known)
        await attempt(port, known)
        assert known.read_text() == f"[127.0.0.1]:{port} {format_key_line(ED25519.convert_to_public())}\n"


async def test_a_key_is_not_kept_when_the_login_fails(tmp_path: Path) -> None:
    async with server(ED25519) as port:
        with pytest.raises(AuthenticationRefused, match="as Administrator"):
            await attempt(port, tmp_path / "known", key=pem(OTHER_KEY))
    assert not (tmp_path / "known").exists()


async def test_a_changed_key_is_refused_with_both_fingerprints_and_what_to_do(tmp_path: Path) -> None:
    known = tmp_path / "known"
    async with server(ED25519) as port:
        known.write_text(f"[127.0.0.1]:{port} {format_key_line(ED25519_2.convert_to_public())}\n")
        with pytest.raises(HostKeyChanged) as refused:
            await attempt(port, known)
    told = str(refused.value)
    assert ED25519.get_fingerprint() in told
    assert ED25519_2.get_fingerprint() in told
    assert str(known) in told


async def test_a_second_key_of_the_host_is_no_change(tmp_path: Path) -> None:
    known = tmp_path / "known"
    async with server(ED25519, ECDSA) as port:
        known.write_text(f"[127.0.0.1]:{port} {format_key_line(ECDSA.convert_to_public())}\n")
        await attempt(port, known)


async def test_a_pinned_key_counts_and_nothing_else(tmp_path: Path) -> None:
    known = tmp_path / "known"
    async with server(ED25519) as port:
        await attempt(port, known, host_key=format_key_line(ED25519.convert_to_public()) + " a comment")
        with pytest.raises(HostKeyChanged, match=r"correct spec\.hostKey"):
            await attempt(port, known, host_key=format_key_line(ED25519_2.convert_to_public()))
        with pytest.raises(HostKeyUnusable):
            await attempt(port, known, host_key="ssh-ed25519 nonsense")
    assert not known.exists()


async def test_a_store_that_is_damaged_is_said(tmp_path: Path) -> None:
    (tmp_path / "known").write_text("nonsense\n")
    async with server(ED25519) as port:
        with pytest.raises(HostKeyUnusable, match="known_hosts"):
            await attempt(port, tmp_path / "known")


@pytest.mark.parametrize(
    "key", ["", "hunter2", pem().reveal()[:60], KEY.export_private_key("pkcs8-pem", passphrase="hunter2").decode()]
)
async def test_a_key_that_cannot_be_used_is_said_without_showing_it(key: str, tmp_path: Path) -> None:
    with pytest.raises(KeyUnusable) as refused:
        await attempt(1, tmp_path / "known", key=Secret(key))
    assert "hunter2" not in str(refused.value)


async def failing(address: str, port: int) -> HostError:
    with pytest.raises(Unreachable) as refused:
        async with connect(Access(address, port, keys=(pem(),)), NoHostKeys(), QUICK):
            pass
    return refused.value


async def test_nobody_listens() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    assert "connection refused" in str(await failing("127.0.0.1", port))


async def test_a_name_that_nobody_knows() -> None:
    assert "cannot be resolved" in str(await failing("host.invalid", 22))


async def test_a_server_that_says_nothing() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        error = await failing("127.0.0.1", silent.getsockname()[1])
        assert isinstance(error, KeyExchangeTimedOut)
        assert "within 2 s (--connect-timeout)" in str(error)


async def test_a_server_of_another_protocol() -> None:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    listening = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with listening:
        assert str(await failing("127.0.0.1", listening.sockets[0].getsockname()[1]))


class Farewells(Server):
    """Keeps how each connection ended: None where the client said that it does."""

    ended: asyncio.Queue[Exception | None]

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.put_nowait(exc)


async def test_nothing_is_sent_that_says_nothing_and_the_end_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ignored: list[int] = []
    ended = Farewells.ended = asyncio.Queue()
    said: list[str] = []
    handlers = asyncssh.SSHServerConnection._packet_handlers
    of_asyncssh = handlers[asyncssh.connection.MSG_DISCONNECT]

    def ignore(connection: asyncssh.SSHServerConnection, pkttype: int, *_: object) -> bool:
        # asyncssh's own server sends them
        if connection.is_server():
            ignored.append(pkttype)
        return True

    def disconnect(connection: object, *rest: object) -> object:
        said.append("disconnect")
        return of_asyncssh(connection, *rest)

    monkeypatch.setitem(handlers, asyncssh.connection.MSG_IGNORE, ignore)  # type: ignore[misc]
    monkeypatch.setitem(handlers, asyncssh.connection.MSG_DISCONNECT, disconnect)  # type: ignore[misc]
    listening = await asyncssh.create_server(Farewells, "127.0.0.1", 0, server_host_keys=[ED25519])
    async with listening:
        await attempt(listening.get_port(), tmp_path / "known")
        assert await asyncio.wait_for(ended.get(), 60) is None
    assert (ignored, said) == ([], ["disconnect"])


def test_no_cipher_needs_packets_that_say_nothing() -> None:
    """They hide the IV of a cipher in CBC mode (RFC 4251, section 9.3.1), and nothing else."""
    assert all(cipher.endswith(("-ctr", "@openssh.com")) for cipher in CIPHERS)


@pytest.mark.parametrize("silent", [("127.0.0.9",), ("127.0.0.9", "127.0.0.10")])
async def test_an_address_of_a_name_that_does_not_answer_is_passed_over(
    monkeypatch: pytest.MonkeyPatch, silent: Sequence[str]
) -> None:
    """Windows registers the addresses of all its cards in DNS, also of those that nobody reaches."""
    async with AsyncExitStack() as stack:
        port = await stack.enter_async_context(server(ED25519))
        for address in silent:
            await stack.enter_async_context(_accept_nothing(address, port))

        async def resolve(host: str, port: int, **_: object) -> list[Any]:
            assert host == "win-1.corp.example"
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (item, port)) for item in (*silent, "127.0.0.1")]

        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolve)
        access = Access("win-1.corp.example", port, keys=(pem(),))
        async with connect(access, NoHostKeys(), QUICK) as connection:
            assert connection.get_extra_info("peername")[0] == "127.0.0.1"


async def test_a_name_none_of_whose_addresses_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    async def resolve(*_: object, **__: object) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (item, 1)) for item in ("127.0.0.9", "127.0.0.10")]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolve)
    with pytest.raises(Unreachable, match="no connection to port 1"):
        async with connect(Access("win-1.corp.example", 1, keys=(pem(),)), NoHostKeys(), QUICK):
            pass


@asynccontextmanager
async def _accept_nothing(address: str, port: int) -> AsyncIterator[None]:
    """A port whose queue of connections is full: the kernel answers to no further one."""
    with socket.socket() as listening, socket.socket() as first, socket.socket() as second:
        listening.bind((address, port))
        listening.listen(0)
        for item in (first, second):
            item.setblocking(False)
            item.connect_ex((address, port))
        await asyncio.sleep(0.2)
        yield
