"""What a person has in `~/.ssh` counts for their commands: names, users, keys, jump hosts, the agent."""

import os
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import asyncssh
import msgspec
import pytest
from tests.apply.windows import SETTINGS, Desk, Simulated

JUMP_KEY = asyncssh.generate_private_key("ssh-ed25519")


class Jump(asyncssh.SSHServer):
    """Lets in whoever has the host's key, and passes connections on."""

    def __init__(self, key: asyncssh.SSHKey, passed_on: list[tuple[str, int]]) -> None:
        self._key, self._passed_on = key, passed_on

    def public_key_auth_supported(self) -> bool:
        return True

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        return username == "jumper" and key == self._key.convert_to_public()

    def connection_requested(self, dest_host: str, dest_port: int, orig_host: str, orig_port: int) -> bool:
        self._passed_on.append((dest_host, dest_port))
        return True


@asynccontextmanager
async def jump_host(key: asyncssh.SSHKey) -> AsyncIterator[tuple[int, list[tuple[str, int]]]]:
    passed_on: list[tuple[str, int]] = []
    made = await asyncssh.create_server(lambda: Jump(key, passed_on), "127.0.0.1", 0, server_host_keys=[JUMP_KEY])
    async with made:
        yield made.get_port(), passed_on


@contextmanager
def agent(key: Path, socket: Path) -> Iterator[None]:
    """OpenSSH's agent, with that key."""
    running = subprocess.Popen(["ssh-agent", "-D", "-a", str(socket)], stdout=subprocess.DEVNULL)
    try:
        while not socket.exists():
            assert running.poll() is None
            time.sleep(0.01)
        environment = {"PATH": os.defpath, "SSH_AUTH_SOCK": str(socket)}
        subprocess.run(["ssh-add", "-q", str(key)], env=environment, check=True)
        yield
    finally:
        running.terminate()
        running.wait()


@pytest.fixture
def home(simulated: Simulated, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The person's home, with the key that opens the host."""
    directory = tmp_path / "home" / ".ssh"
    directory.mkdir(parents=True, mode=0o700)
    (directory / "cloud").write_text(simulated.key)
    (directory / "cloud").chmod(0o600)
    monkeypatch.setenv("HOME", str(directory.parent))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    return directory


async def test_a_host_behind_a_jump_host(simulated: Simulated, home: Path, tmp_path: Path) -> None:
    async with jump_host(asyncssh.import_private_key(simulated.key)) as (port, passed_on):
        (home / "config").write_text(
            f"Host jump\n  HostName 127.0.0.1\n  Port {port}\n  User jumper\n"
            f"Host win.behind\n  HostName 127.0.0.1\n  Port {simulated.port}\n  User {simulated.user}\n  ProxyJump jump\n"
            "Host *\n  IdentityFile ~/.ssh/cloud\n"
        )
        public = JUMP_KEY.export_public_key().decode().strip()
        (home / "known_hosts").write_text(f"[127.0.0.1]:{port} {public}\n")
        host = ("127.0.0.1", simulated.port)
        simulated.address = "win.behind"
        desk = Desk(tmp_path / "desk", simulated)

        answer = await desk.transom("facts", "win.behind", "-o", "json")
        assert answer.code == 0, answer.err
        assert msgspec.json.decode(answer.out)["computerName"] == "win"
        assert passed_on == [host]

        desk.write(SETTINGS)
        (changed,) = (await desk.apply()).hosts
        assert (changed["result"], changed["error"]) == ("changed", None)
        assert set(passed_on) == {host}
        for command in ("diff", "rollback"):
            before = len(passed_on)
            (seen,) = (await desk.transom(command, "-f", str(desk.manifests), "-o", "json")).hosts
            assert seen["error"] is None
            assert len(passed_on) == before + 1


async def test_a_key_of_the_agent(simulated: Simulated, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk(tmp_path / "desk", simulated)
    command = ("facts", simulated.address, "--port", str(simulated.port), "--username", simulated.user)
    refused = await desk.transom(*command)
    assert (refused.code, refused.out) == (1, "")
    assert "accepts none of the keys" in refused.err
    # the path of a socket is short (unix(7))
    socket = home.parent / "agent"
    monkeypatch.setenv("SSH_AUTH_SOCK", str(socket))
    with agent(home / "cloud", socket):
        answer = await desk.transom(*command)
    assert answer.code == 0, answer.err
    assert "Windows" in answer.out


async def test_a_configuration_that_cannot_be_read(simulated: Simulated, home: Path, tmp_path: Path) -> None:
    (home / "config").write_text("Port many\n")
    desk = Desk(tmp_path / "desk", simulated)
    for command in (("facts", simulated.address), ("facts", simulated.address, "--port", str(simulated.port))):
        answer = await desk.transom(*command)
        assert (answer.code, answer.out) == (1, "")
        assert "~/.ssh/config cannot be used" in answer.err
    assert simulated.host.traffic.connections == 0
