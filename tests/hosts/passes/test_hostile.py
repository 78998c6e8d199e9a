"""Hosts whose answers are made up, and every way in which Transom works on a host: a HostError of that host, and no more."""

import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import asyncssh
import msgspec
import pytest
from tests.hosts.egress import ALICE, wants
from tests.hosts.hostile import GREETINGS, LIES, HostileSimulator, greeting
from tests.hosts.machines import FIRST, SECOND
from tests.hosts.simulated import SERVICES
from tests.support.workers.hosts import Simulated as BareHost

from transom.apply.host_pass import HostPass
from transom.apply.roll_out import run_concurrently
from transom.apply.target import Target
from transom.hosts.errors import Fault, HostError
from transom.hosts.passes import configure as configuring
from transom.hosts.passes import key_move, removal
from transom.hosts.passes.base_pass import PassResult, PassSettings, query_host
from transom.hosts.passes.configure import WorkerSpec
from transom.hosts.passes.converge import Convergence, read_adopted_state
from transom.hosts.scripts.host_scripts import ServiceTimeouts
from transom.hosts.ssh.known_hosts import NoHostKeys
from transom.hosts.ssh.ssh_client import Access, Timeouts
from transom.hosts.steps.payload_directory import PayloadDirectory
from transom.proxy.finding import Place
from transom.proxy.objects import Meta, WindowsSettings
from transom.proxy.secret import Secret
from transom.proxy.settings import Egress
from transom.windows.host.queries import Queries
from transom.windows.nodes.windows_instance import WindowsInstance, WindowsInstanceSpec
from transom.windows.payload.worker import Facts
from transom.windows.planning.queries import build_facts_queries
from winsim import Host

HONEST = PassSettings(ALICE, timeouts=Timeouts(connect=60, progress=60, whole=120), patience=ServiceTimeouts(stop=10, start=10))
HURRIED = msgspec.structs.replace(HONEST, timeouts=Timeouts(connect=60, progress=5, whole=10))
BRIEF = msgspec.structs.replace(HONEST, timeouts=Timeouts(connect=60, progress=1.5, whole=3))
"""Of the lies that last for as long as a pass may, or a channel without progress."""
LASTING = {name: LIES[name] for name in ("nothing", "an SFTP packet of 4 MB")}
LASTING["slowly"] = dataclasses.replace(LIES["slowly"], delay=1.2)
"""Who is slow makes progress all the while."""
OTHER_KEY = Secret(asyncssh.generate_private_key("ssh-ed25519").export_private_key().decode())
Command = Callable[[Access, PayloadDirectory, PassSettings], Awaitable[PassResult]]


async def applied(access: Access, _: PayloadDirectory, settings: PassSettings, *, dry_run: bool = False) -> PassResult:
    spec = WindowsInstanceSpec(access.address, access.port, access.username)
    instance = WindowsInstance(metadata=Meta("host"), place=Place("test", "WindowsInstance/host"), spec=spec)
    target = Target(instance, EGRESS, access.keys[0])
    return await HostPass(NoHostKeys(), settings, dry_run).run(target)


async def compared(access: Access, payload: PayloadDirectory, settings: PassSettings) -> PassResult:
    return await applied(access, payload, settings, dry_run=True)


async def removed(access: Access, _: PayloadDirectory, settings: PassSettings) -> PassResult:
    return await removal.restore_host_state(access, NoHostKeys(), settings)


async def configured(access: Access, payload: PayloadDirectory, settings: PassSettings) -> PassResult:
    return await configuring.configure_worker(access, NoHostKeys(), settings, WorkerSpec(payload, Facts()))


async def looked(access: Access, _: PayloadDirectory, settings: PassSettings) -> PassResult:
    return await told(query_host(access, NoHostKeys(), settings, build_facts_queries((FIRST, SECOND))))


async def rebooted(access: Access, _: PayloadDirectory, settings: PassSettings) -> PassResult:
    return await told(configuring.request_reboot(access, NoHostKeys(), settings))


async def taken_over(access: Access, _: PayloadDirectory, settings: PassSettings) -> PassResult:
    return await told(read_adopted_state(access, NoHostKeys(), settings))


async def moved(access: Access, _: PayloadDirectory, settings: PassSettings) -> PassResult:
    to = msgspec.structs.replace(access, keys=(OTHER_KEY,))
    return await told(key_move.rotate_ssh_key(to, access.keys, NoHostKeys(), settings))


async def told(work: Awaitable[object]) -> PassResult:
    try:
        await work
    except HostError as error:
        return PassResult(error=error)
    return PassResult()


PROXY = Secret("http://alice:hunter2@proxy.corp.example:3128")
EGRESS = Egress(PROXY, PROXY, ".svc", windows=WindowsSettings(services=(FIRST, SECOND)))
COMMANDS: dict[str, Command] = {
    "apply": applied,
    "diff": compared,
    "facts": looked,
    "remove": removed,
    "configure": configured,
    "reboot": rebooted,
    "adopt": taken_over,
    "move": moved,
}
READ: frozenset[str] = frozenset({"apply", "diff", "facts", "remove", "configure"})
"""Those that read the registry first."""
UNSEEN = frozenset({"a directory of nothing", "sizes beyond a disk"})
"""What is no lie to a command that does not ask for it."""


@pytest.fixture
async def simulator() -> AsyncIterator[HostileSimulator]:
    async with HostileSimulator() as running:
        yield running


def access(simulator: HostileSimulator, host: Host) -> Access:
    key = simulator.client_key.export_private_key().decode()
    return Access(host.address, host.port, host.username, (Secret(key),), simulator.format_host_key(host))


@pytest.mark.usefixtures("soon_again")
@pytest.mark.parametrize("command", COMMANDS)
async def test_every_lie_is_the_trouble_of_its_host_and_the_honest_ones_are_done(
    simulator: HostileSimulator, command: str, tmp_path: Path
) -> None:
    made = BareHost(simulator, await simulator.add_host(services={}))
    payload = made.payload(tmp_path / "payload")
    hosts = {name: await simulator.add_liar(lie, services=SERVICES) for name, lie in (LIES | LASTING).items()}
    honest = [await simulator.add_host(services=SERVICES) for _ in range(3)]
    names = {host.port: name for name, host in hosts.items()}

    async def work(host: Host) -> PassResult:
        lie = names.get(host.port)
        passing = HONEST if lie is None else BRIEF if lie in LASTING else HURRIED
        return await COMMANDS[command](access(simulator, host), payload, passing)

    for host in honest if command == "reboot" else ():
        # only a host that was worked on is booted
        assert (await applied(access(simulator, host), payload, HONEST)).error is None
    found: dict[str, PassResult] = {}
    done = []
    async for host, result in run_concurrently(
        [*hosts.values(), *honest], work, build_default=lambda _, error: PassResult(error=error)
    ):
        if host.port in names:
            found[names[host.port]] = result
        else:
            done.append(result.error)
    assert done == [None] * 3
    assert {name: str(result.error) for name, result in found.items() if isinstance(result.error, Fault)} == {}
    if command in READ:
        assert [name for name, result in found.items() if result.error is None and name not in UNSEEN] == []


@pytest.mark.parametrize("said", GREETINGS)
async def test_a_greeting_that_is_none(simulator: HostileSimulator, said: str, tmp_path: Path) -> None:
    payload = BareHost(simulator, await simulator.add_host(services={})).payload(tmp_path / "payload")
    quick = msgspec.structs.replace(HONEST, timeouts=Timeouts(connect=1, progress=1, whole=3, login=1))
    async with greeting(GREETINGS[said]) as port:
        one = Access("127.0.0.1", port, keys=(OTHER_KEY,))
        result = await Convergence(quick, Queries(), wants(None)).run(one, NoHostKeys())
        assert isinstance(result.error, HostError)
        assert not isinstance(result.error, Fault)
        assert payload.payload is not None
