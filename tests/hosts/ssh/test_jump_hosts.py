"""Jump hosts of `~/.ssh/config`: verified as ssh does, opened with the options of hosts, and lent nothing."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any

import asyncssh
import pytest
from asyncssh.packet import SSHPacket, String, UInt32

from transom.hosts.errors import AuthenticationRefused, HostError, KeyUnusable, Unreachable
from transom.hosts.ssh.known_hosts import NoHostKeys
from transom.hosts.ssh.ssh_client import Access, Timeouts, connect
from transom.hosts.ssh.transport import open_ssh
from transom.proxy.secret import Secret

KEY = asyncssh.generate_private_key("ssh-ed25519")
"""It opens everything."""
QUICK = Timeouts(connect=5, progress=5, whole=10, login=5)
RELAY = """
import os, socket, sys, threading
def pump(read, write):
    while data := read(): write(data)
there = socket.create_connection((sys.argv[1], int(sys.argv[2])))
threading.Thread(target=pump, args=(lambda: there.recv(65536), lambda data: os.write(1, data)), daemon=True).start()
pump(lambda: os.read(0, 65536), there.sendall)
"""


class Server(asyncssh.SSHServer):
    """A host or a jump host, which tries to use its client's agent."""

    def __init__(self, name: str, log: "Log") -> None:
        self.name, self.log = name, log

    def connection_made(self, conn: Any) -> None:
        self.connection = conn
        handlers = dict.fromkeys((91, 92), self._answered)
        conn._packet_handlers = {**conn._packet_handlers, **handlers}

    def begin_auth(self, username: str) -> bool:
        self.log.users.append((self.name, username))
        return True

    def public_key_auth_supported(self) -> bool:
        return True

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        return key == KEY.convert_to_public()

    def auth_completed(self) -> None:
        window = UInt32(7) + UInt32(2**21) + UInt32(2**15)
        self.connection.send_packet(90, String("auth-agent@openssh.com"), window)

    def _answered(self, _: Any, kind: int, *__: SSHPacket) -> bool:
        self.log.agents.append((self.name, kind == 91))
        return True

    def connection_requested(self, dest_host: str, dest_port: int, orig_host: str, orig_port: int) -> bool:
        self.log.passed_on.append((self.name, dest_host, dest_port))
        return dest_port != self.log.refused_port

    def connection_lost(self, exc: Exception | None) -> None:
        self.log.ended.append(self.name)


class Log:
    """What the servers of a test have seen."""

    def __init__(self) -> None:
        self.users: list[tuple[str, str]] = []
        self.agents: list[tuple[str, bool]] = []
        self.paths: list[str | None] = []
        self.passed_on: list[tuple[str, str, int]] = []
        self.ended: list[str] = []
        self.refused_port = 0


class Network:
    """Servers of 127.0.0.1, each by a name, and the person's `~/.ssh`."""

    def __init__(self, home: Path, stack: AsyncExitStack) -> None:
        self.home, self._stack = home, stack
        self.log = Log()
        self.ports: dict[str, int] = {}
        self.keys: dict[str, asyncssh.SSHKey] = {}

    async def add(self, name: str, *, known: bool = True, **options: Any) -> int:
        """Start a server; `known`: whether known_hosts has its key."""

        async def process(process: Any) -> None:
            self.log.paths.append(process.channel.get_agent_path())
            process.exit(0)

        self.keys[name] = asyncssh.generate_private_key("ssh-ed25519")
        fields = {"server_host_keys": [self.keys[name]], "agent_forwarding": True, "process_factory": process} | options
        made = await asyncssh.create_server(lambda: Server(name, self.log), "127.0.0.1", 0, encoding=None, **fields)
        await self._stack.enter_async_context(made)
        self.ports[name] = made.get_port()
        if known:
            self.know(f"[127.0.0.1]:{made.get_port()}", self.keys[name])
        return made.get_port()

    def know(self, host: str, key: asyncssh.SSHKey, marker: str = "") -> None:
        with (self.home / "known_hosts").open("a") as file:
            file.write(f"{marker}{host} {key.export_public_key().decode()}")

    def write(self, **hosts: str) -> None:
        """Write the person's file: what it has for each server, besides where it listens."""
        blocks = [
            f"Host {name}\n  HostName 127.0.0.1\n  Port {port}\n  {hosts.get(name, '')}\n" for name, port in self.ports.items()
        ]
        (self.home / "config").write_text("".join(blocks) + "Host *\n  IdentityFile ~/.ssh/id\n")

    async def reach(self, name: str = "win") -> None:
        access = Access(name, self.ports[name], "Administrator", ssh_config=True)
        async with open_ssh(access, NoHostKeys(), QUICK) as transport:
            await transport.run(r"C:\script.cmd")

    async def refusal(self, name: str = "win") -> str:
        with pytest.raises(Unreachable) as refused:
            await self.reach(name)
        return str(refused.value)


@pytest.fixture
async def network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Network]:
    home = tmp_path / ".ssh"
    home.mkdir()
    (home / "id").write_bytes(KEY.export_private_key())
    (home / "id").chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    async with AsyncExitStack() as stack:
        yield Network(home, stack)


@contextmanager
def agent(key: Path, socket: Path) -> Iterator[None]:
    """OpenSSH's agent, with that key."""
    running = subprocess.Popen(["ssh-agent", "-D", "-a", str(socket)], stdout=subprocess.DEVNULL)
    try:
        add = ["ssh-add", "-q", str(key)]
        environment = {"PATH": os.defpath, "SSH_AUTH_SOCK": str(socket)}
        # the socket is there before somebody listens
        while subprocess.run(add, env=environment, stderr=subprocess.DEVNULL, check=False).returncode:
            assert running.poll() is None
            time.sleep(0.05)
        yield
    finally:
        running.terminate()
        running.wait()


@pytest.mark.parametrize("forward", ["yes", "a path"])
async def test_the_agent_is_lent_to_neither_host_nor_jump_host(
    network: Network, forward: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are reached with its key, and ask for it."""
    socket = tmp_path / "agent"
    monkeypatch.setenv("SSH_AUTH_SOCK", str(socket))
    for name in ("win", "jump"):
        await network.add(name)
    value = "yes" if forward == "yes" else str(socket)
    with agent(network.home / "id", socket):
        (network.home / "id").rename(network.home / "elsewhere")
        network.write(win=f"ProxyJump jump\n  ForwardAgent {value}", jump=f"ForwardAgent {value}")
        await network.reach()
    assert network.log.agents == [("jump", False), ("win", False)]
    assert network.log.paths == [None]


async def test_jump_hosts_one_behind_the_other(network: Network) -> None:
    for name in ("win", "a", "b", "c"):
        await network.add(name)
    # b is reached through c by its own entry only where it is the first
    network.write(win="ProxyJump a,carol@b", a="ProxyJump c", b="ProxyJump c", c="User first")
    await network.reach()
    ports = network.ports
    assert network.log.passed_on == [(item, "127.0.0.1", ports[to]) for item, to in (("c", "a"), ("a", "b"), ("b", "win"))]
    users = dict(network.log.users)
    assert (users["c"], users["b"], users["win"]) == ("first", "carol", "Administrator")
    async with asyncio.timeout(5):
        while len(network.log.ended) < 4:
            await asyncio.sleep(0.01)


async def test_a_jump_host_is_written_with_its_port(network: Network) -> None:
    await network.add("win")
    port = await network.add("jump")
    network.write(win=f"ProxyJump ssh://carol@127.0.0.1:{port}")
    await network.reach()
    assert ("jump", "carol") in network.log.users


@pytest.mark.parametrize("first", ["win", "jump"])
async def test_a_proxy_command(network: Network, first: str, tmp_path: Path) -> None:
    for name in ("win", "jump"):
        await network.add(name)
    (tmp_path / "relay.py").write_text(RELAY)
    command = f"ProxyCommand {sys.executable} {tmp_path / 'relay.py'} %h %p"
    network.write(**({"win": command} if first == "win" else {"win": "ProxyJump jump", "jump": command}))
    await network.reach()
    assert bool(network.log.passed_on) is (first == "jump")


@pytest.mark.parametrize("turns", range(8))
async def test_a_proxy_command_ends_with_a_connection_that_is_cancelled(network: Network, turns: int, tmp_path: Path) -> None:
    """At each turn of the event loop: asyncio's own subprocesses hang where one is cancelled while it starts."""
    pids = tmp_path / "pids"
    await network.add("win")
    network.write(win=f"ProxyCommand sh -c 'echo $$ >>{pids}; exec sleep 600'")
    connecting = asyncio.ensure_future(network.refusal())
    while not pids.exists() and not connecting.done():
        await asyncio.sleep(0)
    for _ in range(turns):
        await asyncio.sleep(0)
    connecting.cancel()
    async with asyncio.timeout(60):
        await asyncio.wait([connecting])
    assert connecting.cancelled()
    assert [pid for pid in pids.read_text().split() if Path(f"/proc/{pid}").exists()] == []


@pytest.mark.parametrize(
    "route", [{"a": "ProxyJump a"}, {"a": "ProxyJump b", "b": "ProxyJump a"}, {"a": "ProxyJump b,b", "b": "ProxyJump a"}]
)
async def test_jump_hosts_that_lead_to_each_other(network: Network, route: dict[str, str]) -> None:
    for name in ("win", *route):
        await network.add(name)
    network.write(win="ProxyJump a", **route)
    assert "jump hosts in a row" in await network.refusal()
    assert network.log.users == []


async def test_a_jump_host_whose_key_is_not_known(network: Network) -> None:
    await network.add("win")
    await network.add("jump", known=False)
    network.write(win="ProxyJump jump", jump="UserKnownHostsFile none")
    said = await network.refusal()
    assert network.keys["jump"].get_fingerprint() in said
    assert "jump host jump" in said
    assert network.log.users == []


async def test_a_jump_host_whose_key_has_changed_or_was_revoked(network: Network) -> None:
    await network.add("win")
    port = await network.add("jump", known=False)
    network.know(f"[127.0.0.1]:{port}", KEY)
    network.write(win="ProxyJump jump")
    assert network.keys["jump"].get_fingerprint() in await network.refusal()
    network.know(f"[127.0.0.1]:{port}", network.keys["jump"])
    await network.reach()
    network.know(f"[127.0.0.1]:{port}", network.keys["jump"], marker="@revoked ")
    assert "revoked" in await network.refusal()


async def test_a_jump_host_is_known_by_its_alias_or_by_another_file(network: Network) -> None:
    await network.add("win")
    await network.add("jump", known=False)
    network.know("alias", network.keys["jump"])
    (network.home / "known_hosts").rename(network.home / "others")
    network.write(win="ProxyJump jump", jump="HostKeyAlias alias\n  UserKnownHostsFile ~/.ssh/none ~/.ssh/others")
    await network.reach()
    network.write(win="ProxyJump jump", jump="UserKnownHostsFile ~/.ssh/others")
    assert network.keys["jump"].get_fingerprint() in await network.refusal()


async def test_a_jump_host_with_a_certificate(network: Network) -> None:
    authority, key = (asyncssh.generate_private_key("ssh-ed25519") for _ in range(2))
    certificate = authority.generate_host_certificate(key, "jump", principals=["127.0.0.1"])
    await network.add("win")
    port = await network.add("jump", known=False, server_host_keys=[(key, certificate)])
    network.write(win="ProxyJump jump")
    network.know(f"[127.0.0.1]:{port}", authority)
    await network.refusal()
    network.know(f"[127.0.0.1]:{port}", authority, marker="@cert-authority ")
    await network.reach()


async def test_known_hosts_that_cannot_be_read(network: Network) -> None:
    for name in ("win", "jump"):
        await network.add(name)
    (network.home / "known_hosts").write_text("@nonsense jump ssh-ed25519 AAAA\n")
    network.write(win="ProxyJump jump")
    assert str(network.home / "known_hosts") in await network.refusal()


async def test_it_is_said_which_of_them_failed(network: Network, tmp_path: Path) -> None:
    for name in ("win", "jump"):
        await network.add(name)
    network.ports["jump"], port = 1, network.ports["jump"]
    network.write(win="ProxyJump jump")
    assert "jump host jump: no connection to port 1" in await network.refusal()
    network.ports["jump"] = port
    network.write(win="ProxyJump jump")
    network.log.refused_port = network.ports["win"]
    assert f"port {network.ports['win']}" in await network.refusal()
    (network.home / "id").write_bytes(asyncssh.generate_private_key("ssh-ed25519").export_private_key())
    assert "jump host jump" in await network.refusal()
    network.write(win="ProxyCommand /nowhere/nc %h %p")
    assert "/nowhere/nc" in await network.refusal()
    (network.home / "id").write_text("-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n")
    with pytest.raises(KeyUnusable):
        network.write(win="User x")
        await network.reach()


async def test_a_jump_host_that_says_nothing(network: Network) -> None:
    await network.add("win")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as silent:
        network.ports["jump"] = silent.sockets[0].getsockname()[1]
        network.write(win="ProxyJump jump")
        access = Access("win", network.ports["win"], "Administrator", ssh_config=True)
        with pytest.raises(Unreachable, match=r"jump host jump: .* within 1 s \(--"):
            async with connect(access, NoHostKeys(), Timeouts(connect=1, login=1)):
                pass


async def test_a_key_that_is_given_opens_the_host_alone(network: Network) -> None:
    """The jump hosts are opened by the person's own; the host with what `spec.keySecret` says."""
    for name in ("win", "jump"):
        await network.add(name)
    network.write(win="ProxyJump jump")
    other = Secret(asyncssh.generate_private_key("ssh-ed25519").export_private_key().decode())
    given = Secret(KEY.export_private_key().decode())
    errors: list[HostError | None] = []
    for keys in ((other,), (given,)):
        try:
            async with connect(
                Access("win", network.ports["win"], "Administrator", keys, ssh_config=True), NoHostKeys(), QUICK
            ):
                errors.append(None)
        except HostError as error:
            errors.append(error)
    assert isinstance(errors[0], AuthenticationRefused)
    assert errors[1] is None
