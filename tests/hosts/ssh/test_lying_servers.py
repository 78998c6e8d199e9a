"""SSH servers that attack their client below SFTP: each costs its own connection, a short while and little memory."""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import asyncssh
import msgspec
import pytest
from tests.hosts.egress import ALICE, QUESTIONS, wants
from tests.hosts.lying_servers import HOST_KEY, SERVERS, run_servers
from tests.hosts.simulated import SERVICES, SimulatedHost
from tests.hosts.ssh.test_jump_hosts import RELAY
from tests.support.event_loop import Cost, measure_cost

from transom.apply.roll_out import run_concurrently
from transom.hosts.errors import (
    AuthenticationRefused,
    ConnectionLost,
    Fault,
    FileRefused,
    HostError,
    HostKeyChanged,
    Unreachable,
)
from transom.hosts.passes.base_pass import PassResult, PassSettings
from transom.hosts.passes.converge import Convergence
from transom.hosts.ssh.known_hosts import NoHostKeys, format_key_line
from transom.hosts.ssh.ssh_client import Access, Timeouts
from transom.hosts.ssh.transport import Transport, open_ssh
from transom.proxy.secret import Secret
from winsim import Simulator

LONGEST = 1.0
"""CPU seconds of one callback."""
ALTOGETHER = 3.0
"""CPU seconds that a connection may take, however it ends."""
GROWTH = 48 * 2**20
"""Bytes that one server may take at its worst."""
BRIEF = Timeouts(connect=1.5, progress=1, whole=10, login=1.5)
# RSA is the dearest key to prove
KEY = Secret(asyncssh.generate_private_key("ssh-rsa", key_size=3072).export_private_key().decode())
HARMLESS = {"limits beyond a disk", "limits of one byte"}
"""What they say is not relied on."""


@pytest.fixture(scope="module")
def ports() -> Iterator[Mapping[str, int]]:
    with run_servers(*SERVERS) as ports:
        yield ports


async def chunks() -> AsyncIterator[bytes]:
    yield b"x" * 2**20


ASKED: tuple[Callable[[Transport], Awaitable[object]], ...] = (
    lambda transport: transport.read_status("C:/x"),
    lambda transport: transport.list_names("C:/x"),
    lambda transport: transport.read("C:/x", 2**20),
    lambda transport: transport.send("C:/x", chunks(), 0, 0),
    lambda transport: transport.run(r"C:\x.cmd"),
    lambda transport: transport.run_at_prompt("sc.exe query"),
)
"""Everything that is done over a connection."""


async def use(port: int, address: str = "127.0.0.1", **fields: Any) -> list[HostError]:
    """Connect to a host, and do everything: the errors, that of the connection alone where there was none."""
    errors: list[HostError] = []
    try:
        async with open_ssh(Access(address, port, keys=(KEY,), **fields), NoHostKeys(), BRIEF) as transport:
            for ask in ASKED:
                try:
                    await ask(transport)
                except HostError as error:
                    errors.append(error)
    except HostError as error:
        errors.append(error)
    return errors


def check(cost: Cost) -> None:
    assert cost.longest < LONGEST, cost.callback
    assert cost.growth < GROWTH


@pytest.mark.parametrize("name", SERVERS)
async def test_each_is_the_trouble_of_its_connection(ports: Mapping[str, int], name: str) -> None:
    with measure_cost() as cost:
        errors = await use(ports[name])
    check(cost)
    if SERVERS[name].lets_in:
        assert name in HARMLESS or len(errors) > 1
    else:
        assert len(errors) == 1
        assert isinstance(errors[0], Unreachable | AuthenticationRefused)
    assert all(len(str(error)) < 1000 for error in errors)
    assert [error for error in errors if isinstance(error, Fault)] == []
    assert cost.total < ALTOGETHER


@pytest.mark.parametrize("name", [name for name in SERVERS if "host key" in name])
async def test_a_pinned_key_is_compared_before_anything_is_made_of_another(ports: Mapping[str, int], name: str) -> None:
    pin = format_key_line(asyncssh.generate_private_key("ssh-ed25519").convert_to_public())
    with measure_cost() as cost:
        (error, *_) = await use(ports[name], host_key=pin)
    check(cost)
    assert not isinstance(error, Fault)
    assert isinstance(error, HostKeyChanged) or not SERVERS[name].lets_in


@pytest.mark.parametrize("way", ["jump host", "proxy command"])
async def test_each_costs_as_little_on_the_way_to_a_host(
    ports: Mapping[str, int], way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a jump host whose key is known; behind a ProxyCommand, whose output is read through a pipe."""
    home = tmp_path / ".ssh"
    home.mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    (home / "id").write_text(KEY.reveal())
    (home / "id").chmod(0o600)
    relay = tmp_path / "relay.py"
    relay.write_text(RELAY)
    known = HOST_KEY.export_public_key().decode()
    (home / "known_hosts").write_text("".join(f"[127.0.0.1]:{port} {known}" for port in ports.values()))
    route = "ProxyJump 127.0.0.1:{}" if way == "jump host" else f"ProxyCommand {sys.executable} {relay} 127.0.0.1 {{}}"
    hosts = "".join(f"Host win-{port}\n  {route.format(port)}\n" for port in ports.values())
    (home / "config").write_text(f"{hosts}Host *\n  IdentityFile ~/.ssh/id\n")
    at_once = asyncio.Semaphore(24)
    errors: dict[str, list[HostError]] = {}

    async def work(name: str) -> None:
        async with at_once:
            errors[name] = await use(22, f"win-{ports[name]}", ssh_config=True)

    with measure_cost() as cost:
        await asyncio.gather(*map(work, ports))
    assert cost.longest < LONGEST, cost.callback
    assert cost.growth < 3 * GROWTH
    assert [name for name, item in errors.items() if any(isinstance(error, Fault) for error in item)] == []
    assert [name for name, error in errors.items() if not error and name not in HARMLESS] == []


async def test_an_honest_host_is_configured_beside_all_of_them(ports: Mapping[str, int]) -> None:
    settings = PassSettings(ALICE, timeouts=Timeouts(connect=10, progress=5, whole=20, login=10))
    honest_settings = msgspec.structs.replace(settings, timeouts=Timeouts())
    async with Simulator() as simulator:
        honest = SimulatedHost(simulator, await simulator.add_host(services=SERVICES))
        liars = {port: Access("127.0.0.1", port, keys=(KEY,)) for port in ports.values()}

        async def work(access: Access) -> PassResult:
            used = settings if access.port in liars else honest_settings
            return await Convergence(used, QUESTIONS, wants("http://proxy.example:3128")).run(access, NoHostKeys())

        results: dict[int, PassResult] = {}
        with measure_cost() as cost:
            async for access, result in run_concurrently(
                [*liars.values(), honest.access], work, build_default=lambda _, error: PassResult(error=error)
            ):
                results[access.port] = result
    assert results[honest.access.port].error is None
    assert results[honest.access.port].result == "changed"
    failed = {name: results[port].error for name, port in ports.items()}
    assert [name for name, error in failed.items() if error is None or isinstance(error, Fault)] == []
    assert cost.longest < LONGEST, cost.callback
    assert cost.growth < 3 * GROWTH


@pytest.mark.parametrize("name", ["success after the login", "answers to global requests nobody made"])
async def test_a_connection_that_ends_is_not_one_with_too_few_sessions(ports: Mapping[str, int], name: str) -> None:
    """A server that breaks the protocol at once: what there is to correct is not its MaxSessions."""
    assert {type(error) for error in await use(ports[name])} == {ConnectionLost}


async def test_a_long_handle_is_not_repeated_in_each_request(ports: Mapping[str, int]) -> None:
    with measure_cost() as cost:
        errors = await use(ports["handles of 200 kB"])
    assert FileRefused in {type(error) for error in errors}
    assert cost.growth < 4 << 20
