"""What is offered to a server, read from the wire, and what the servers of Windows have of it."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncssh
import pytest
from asyncssh.packet import SSHPacket
from tests.hosts.lying_servers import Peer

from transom.hosts.errors import AuthenticationRefused, HostError, Unreachable
from transom.hosts.ssh import algorithms
from transom.hosts.ssh.known_hosts import NoHostKeys
from transom.hosts.ssh.ssh_client import Access, Timeouts, connect
from transom.proxy.secret import Secret

PAGE = Path(__file__).parents[3] / "docs" / "ssh.md"
QUICK = Timeouts(connect=5, progress=5, whole=10, login=5)
ED25519 = asyncssh.generate_private_key("ssh-ed25519")
RSA = asyncssh.generate_private_key("ssh-rsa", key_size=2048)
# RFC 8308 and OpenSSH, PROTOCOL, 1.9: no algorithms
MARKERS = {"ext-info-c", "kex-strict-c-v00@openssh.com"}
WEAK = re.compile(r"diffie-hellman|gex|group|gss-|sha1|rsa1024|rsa2048|dss|umac-64|-cbc|arcfour|3des|md5|zlib|^ssh-rsa|96")
"""Finite fields, SHA-1, DSA, short MACs, compression; `ssh-rsa` is a signature by SHA-1."""
LISTS = ("kex", "host keys", "ciphers out", "ciphers in", "MACs out", "MACs in", "compression out", "compression in")
# sshd's defaults: PowerShell/openssh-portable, myproposal.h, at v7.7.2.0, v8.1.0.0 and v9.5.0.0; v9.8.1.0 has those of 9.5
KEX = "curve25519-sha256 curve25519-sha256@libssh.org ecdh-sha2-nistp256 ecdh-sha2-nistp384 ecdh-sha2-nistp521"
CIPHERS = "chacha20-poly1305@openssh.com aes128-ctr aes192-ctr aes256-ctr aes128-gcm@openssh.com aes256-gcm@openssh.com"
HOST_KEYS = "ecdsa-sha2-nistp256 ecdsa-sha2-nistp384 ecdsa-sha2-nistp521 ssh-ed25519 rsa-sha2-512 rsa-sha2-256"
MACS = (
    "umac-64-etm@openssh.com umac-128-etm@openssh.com hmac-sha2-256-etm@openssh.com hmac-sha2-512-etm@openssh.com "
    "umac-64@openssh.com umac-128@openssh.com hmac-sha2-256 hmac-sha2-512"
)
WINDOWS = {
    "7.7": (f"{KEX} diffie-hellman-group-exchange-sha256 diffie-hellman-group16-sha512", f"{HOST_KEYS} ssh-rsa", CIPHERS, MACS),
    "8.1": (f"{KEX} diffie-hellman-group-exchange-sha256 diffie-hellman-group16-sha512", f"{HOST_KEYS} ssh-rsa", CIPHERS, MACS),
    "9.5": (f"sntrup761x25519-sha512@openssh.com {KEX} diffie-hellman-group14-sha256", HOST_KEYS, CIPHERS, MACS),
}


@asynccontextmanager
async def listener() -> AsyncIterator[tuple[int, "asyncio.Queue[list[list[str]]]"]]:
    """A server that takes a client's KEXINIT, and goes."""
    seen: asyncio.Queue[list[list[str]]] = asyncio.Queue()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        packet = SSHPacket(await Peer(reader, writer).begin_exchange())
        packet.get_bytes(17)
        seen.put_nowait([[name.decode() for name in packet.get_namelist()] for _ in LISTS])
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1], seen


def check(offered: Sequence[Sequence[str]], *, host_keys: Sequence[str] = algorithms.HOST_KEYS) -> None:
    """See that this is what was chosen, no more."""
    found = {name: [name for name in names if name not in MARKERS] for name, names in zip(LISTS, offered, strict=True)}
    assert set(found.pop("kex")) <= set(algorithms.KEY_EXCHANGES)
    assert found == {
        "host keys": list(host_keys),
        "ciphers out": list(algorithms.CIPHERS),
        "ciphers in": list(algorithms.CIPHERS),
        "MACs out": list(algorithms.MACS),
        "MACs in": list(algorithms.MACS),
        "compression out": ["none"],
        "compression in": ["none"],
    }


def access(port: int, key: asyncssh.SSHKey = ED25519, **fields: Any) -> Access:
    return Access("127.0.0.1", port, keys=(Secret(key.export_private_key().decode()),), **fields)


async def try_to_connect(to: Access) -> HostError | None:
    try:
        async with connect(to, NoHostKeys(), QUICK):
            return None
    except HostError as error:
        return error


async def test_a_host_is_offered_what_was_chosen() -> None:
    async with listener() as (port, seen):
        assert isinstance(await try_to_connect(access(port)), Unreachable)
        check(seen.get_nowait())


async def test_a_jump_host_and_what_is_behind_it_are_offered_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir()
    config = tmp_path / ".ssh" / "config"
    asks = "Host *\n  KexAlgorithms diffie-hellman-group14-sha1\n  MACs hmac-sha1\n  Ciphers aes128-cbc\n  Compression yes\n"
    async with listener() as (port, seen):
        config.write_text(f"Host win\n  ProxyJump 127.0.0.1:{port}\n{asks}  HostKeyAlgorithms ssh-rsa\n")
        to = Access("win", 22, keys=access(0).keys, ssh_config=True)
        assert isinstance(await try_to_connect(to), Unreachable)
        check(seen.get_nowait())

        class Jump(asyncssh.SSHServer):
            def begin_auth(self, username: str) -> bool:
                return False

            def connection_requested(self, *_: object) -> bool:
                return True

        async with await asyncssh.create_server(Jump, "127.0.0.1", 0, server_host_keys=[ED25519]) as jump:
            config.write_text(
                f"Host 127.0.0.1\n  Port {jump.get_port()}\nHost win\n  HostName 127.0.0.1\n  ProxyJump 127.0.0.1\n{asks}"
            )
            line = ED25519.export_public_key().decode()
            (tmp_path / ".ssh" / "known_hosts").write_text(f"[127.0.0.1]:{jump.get_port()} {line}")
            to = Access("win", port, keys=access(0).keys, ssh_config=True)
            assert isinstance(await try_to_connect(to), Unreachable)
            check(seen.get_nowait())


@pytest.mark.parametrize(
    "names",
    [
        algorithms.KEY_EXCHANGES,
        algorithms.HOST_KEYS,
        algorithms.HOST_CERTIFICATES,
        algorithms.CIPHERS,
        algorithms.MACS,
        algorithms.SIGNATURES,
    ],
)
def test_no_weak_algorithm_was_chosen(names: Sequence[str]) -> None:
    assert [name for name in names if WEAK.search(name)] == []


def test_the_page_names_them() -> None:
    page = PAGE.read_text("utf-8")
    chosen = {*algorithms.KEY_EXCHANGES, *algorithms.CIPHERS, *algorithms.MACS, *algorithms.SIGNATURES}
    rows = page.partition("## Algorithms")[2].partition("\n## ")[0]
    assert set(re.findall(r"`([a-z0-9@.-]+)`", rows)) == chosen


@pytest.mark.parametrize("version", WINDOWS)
def test_each_release_of_openssh_for_windows_has_all_but_ml_kem(version: str) -> None:
    kex, host_keys, ciphers, macs = (set(names.split()) for names in WINDOWS[version])
    assert set(algorithms.KEY_EXCHANGES) - kex == {"mlkem768x25519-sha256"}
    assert set(algorithms.HOST_KEYS) <= host_keys
    assert set(algorithms.CIPHERS) <= ciphers
    assert set(algorithms.MACS) <= macs


@pytest.mark.parametrize(
    ("offers", "signed"),
    [
        (["ssh-rsa", "rsa-sha2-256", "rsa-sha2-512"], {b"rsa-sha2-256"}),
        (["ssh-rsa", "rsa-sha2-512"], {b"rsa-sha2-512"}),
        (["ssh-rsa"], set()),
    ],
)
async def test_no_key_is_proved_with_sha_1(offers: list[str], signed: set[bytes]) -> None:
    """Read from what the client sends: the name of the algorithm stands before the key, and in the signature."""
    used: set[bytes] = set()

    class Server(asyncssh.SSHServer):
        def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
            connection: Any = conn
            process = connection._packet_handlers[50]

            def watch(connection: Any, kind: int, number: int, packet: SSHPacket) -> Any:
                copy = SSHPacket(packet.get_remaining_payload())
                _user, _service, method = copy.get_string(), copy.get_string(), copy.get_string()
                if method == b"publickey":
                    copy.get_boolean()
                    used.add(copy.get_string())
                return process(connection, kind, number, packet)

            connection._packet_handlers = {**connection._packet_handlers, 50: watch}

        def public_key_auth_supported(self) -> bool:
            return True

        def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
            return True

    options = {"server_host_keys": [ED25519], "signature_algs": offers}
    async with await asyncssh.create_server(Server, "127.0.0.1", 0, **options) as server:
        error = await try_to_connect(access(server.get_port(), RSA))
    assert used == signed
    assert isinstance(error, AuthenticationRefused) is not bool(signed)


async def test_the_lists_of_a_key_exchange_after_the_login_are_the_same() -> None:
    """The server begins it; what it offers alone is a group exchange."""
    lost: asyncio.Queue[Exception | None] = asyncio.Queue()

    class Server(asyncssh.SSHServer):
        def connection_made(self, conn: Any) -> None:
            self.connection = conn

        def begin_auth(self, username: str) -> bool:
            return False

        def auth_completed(self) -> None:
            self.connection._kex_algs = [b"diffie-hellman-group-exchange-sha256"]
            self.connection._send_kexinit()
            self.connection._kexinit_sent = True

        def connection_lost(self, exc: Exception | None) -> None:
            lost.put_nowait(exc)

    async with await asyncssh.create_server(Server, "127.0.0.1", 0, server_host_keys=[ED25519]) as server:
        async with connect(access(server.get_port()), NoHostKeys(), QUICK):
            with contextlib.suppress(TimeoutError):
                error = await asyncio.wait_for(lost.get(), 5)
        assert isinstance(error, asyncssh.KeyExchangeFailed)
