"""Hosts that attack: SSH before and after the login, in later key exchanges, SFTP, and what scripts print."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from tests.entry_points.entry_point import Bench
from tests.hosts.egress import ALICE, QUESTIONS, wants
from tests.hosts.hostile import LIES, HostileSimulator
from tests.hosts.lying_servers import SERVERS, run_servers
from tests.hosts.machines import BASE
from tests.hosts.passes.test_hostile import BRIEF, EGRESS, HONEST, HURRIED, LASTING, UNSEEN
from tests.hosts.simulated import SERVICES, SimulatedHost
from tests.hosts.ssh.test_lying_servers import HARMLESS, use

from transom.apply.host_pass import HostPass
from transom.apply.target import Target
from transom.hosts.errors import Fault
from transom.hosts.passes.base_pass import PassResult, PassSettings
from transom.hosts.passes.converge import Convergence
from transom.hosts.ssh.known_hosts import NoHostKeys
from transom.hosts.ssh.ssh_client import Access, Timeouts
from transom.proxy.finding import Place
from transom.proxy.objects import Meta
from transom.windows.nodes.windows_instance import WindowsInstance, WindowsInstanceSpec
from winsim import Simulator
from winsim.filesystem import SimulatedDirectory, SimulatedFile

BEFORE_LOGIN: Final = tuple(name for name, server in SERVERS.items() if not server.lets_in)
RE_EXCHANGE: Final = tuple(name for name in SERVERS if name.startswith("rekeying"))
AFTER_LOGIN: Final = tuple(name for name, server in SERVERS.items() if server.lets_in and name not in RE_EXCHANGE)
SFTP: Final = tuple(name for name, lie in LIES.items() if lie.read or lie.stream is not None or lie.listing or lie.stat)
OUTPUT: Final = tuple(name for name in LIES if name not in SFTP)
_TURNS = PassSettings(ALICE, timeouts=Timeouts())


class _HonestHost:
    """A host whose setting is changed each time."""

    def __init__(self, host: SimulatedHost, settings: PassSettings = _TURNS) -> None:
        self._host, self._settings, self._turn = host, settings, 0

    async def configure(self) -> None:
        self._turn += 1
        convergence = Convergence(self._settings, QUESTIONS, wants(f"http://proxy-{self._turn}.example:3128"))
        result = await convergence.run(self._host.access, NoHostKeys())
        assert (result.error, result.result) == (None, "changed")


class _SshBench(Bench):
    def __init__(self, ports: Mapping[str, int], honest: _HonestHost) -> None:
        self._ports, self._honest = ports, honest

    async def attack(self, name: str) -> None:
        errors = await use(self._ports[name])
        assert not any(isinstance(error, Fault) for error in errors)
        assert errors or name in HARMLESS

    async def serve_neighbour(self) -> None:
        await self._honest.configure()


@asynccontextmanager
async def open_ssh(_: Path, names: tuple[str, ...]) -> AsyncIterator[Bench]:
    """Servers that lie below SFTP, in a process of their own."""
    with run_servers(*names) as ports:
        async with Simulator() as simulator:
            yield _SshBench(ports, _HonestHost(SimulatedHost(simulator, await simulator.add_host(services=SERVICES))))


class _HostBench(Bench):
    def __init__(self, liars: Mapping[str, SimulatedHost], honest: SimulatedHost) -> None:
        self._liars, self._honest = liars, honest

    async def attack(self, name: str) -> None:
        result = await apply_settings(self._liars[name].access, BRIEF if name in LASTING else HURRIED)
        assert not isinstance(result.error, Fault)
        assert result.error is not None or name in UNSEEN
        # what the liar says is in this process, too
        files = self._liars[name].simulated.files
        if files.exists(BASE):
            empty_files(files.get_directory(BASE))

    async def serve_neighbour(self) -> None:
        result = await apply_settings(self._honest.access, HONEST)
        assert result.error is None


def empty_files(directory: SimulatedDirectory) -> None:
    """Take away the content of all files below a directory, those that are open, too."""
    for node in directory.entries.values():
        if isinstance(node, SimulatedDirectory):
            empty_files(node)
        elif isinstance(node, SimulatedFile):
            node.data = bytearray()


async def apply_settings(access: Access, settings: PassSettings) -> PassResult:
    """Configure a host as `transom apply` does."""
    spec = WindowsInstanceSpec(access.address, access.port, access.username)
    instance = WindowsInstance(metadata=Meta("host"), place=Place("test", "WindowsInstance/host"), spec=spec)
    return await HostPass(NoHostKeys(), settings).run(Target(instance, EGRESS, access.keys[0]))


@asynccontextmanager
async def open_hosts(_: Path, names: tuple[str, ...]) -> AsyncIterator[Bench]:
    """Simulated hosts that lie from SFTP upwards."""
    async with HostileSimulator() as simulator:
        lies = LIES | LASTING
        liars = {name: SimulatedHost(simulator, await simulator.add_liar(lies[name], services=SERVICES)) for name in names}
        yield _HostBench(liars, SimulatedHost(simulator, await simulator.add_host(services=SERVICES)))
