"""Passes on a host on which an attacker is at work at every step."""

import random
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from tests.hosts.attacker import FORMER, Attacker
from tests.support.workers.hosts import Simulated

from transom.apply.host_pass import HostPass
from transom.apply.target import Target
from transom.hosts.errors import Held, Superseded
from transom.hosts.owner import Owner
from transom.hosts.passes import removal
from transom.hosts.passes.base_pass import PassResult, PassSettings
from transom.hosts.passes.configure import WorkerSpec, configure_worker
from transom.hosts.scripts.host_scripts import ServiceTimeouts
from transom.hosts.ssh.known_hosts import NoHostKeys
from transom.hosts.ssh.ssh_client import Timeouts
from transom.proxy.finding import Place
from transom.proxy.objects import Meta, WindowsSettings
from transom.proxy.secret import Secret
from transom.proxy.settings import Egress
from transom.windows.host.queries import LEDGER, SERVICES
from transom.windows.nodes.windows_instance import WindowsInstance, WindowsInstanceSpec
from transom.windows.payload.worker import Facts
from transom.windows.registry.edits import SetValue
from transom.windows.registry.values import build_dword, build_multi_sz, build_sz
from winsim import Host, Simulator

SERVICE = "recorder"
Story = Callable[[Simulator, Host, Path], AsyncIterator[PassResult]]
_SETTINGS = PassSettings(
    Owner("transom@cluster", "test", 7), timeouts=Timeouts(30, 30, 120), patience=ServiceTimeouts(10, 10, steady=1)
)
_BEFORE = build_multi_sz(["HTTPS_PROXY=http://joe:hunter3@old:3128"])


def egress(password: str) -> Egress:
    url = Secret(f"http://alice:{password}@proxy:3128")
    return Egress(url, url, ".svc", windows=WindowsSettings(services=(SERVICE,)))


async def attacked(simulator: Simulator, seed: int, path: Path, *, enforced: bool = True) -> tuple[set[str], list[PassResult]]:
    """What the attacker of this seed reached, and the passes that were made meanwhile."""
    order = random.Random(seed)
    host = await simulator.add_host(services={SERVICE: ()}, time_scale=0.002)
    host.edit([SetValue(rf"{SERVICES}\{SERVICE}", "Environment", _BEFORE)])
    attacker = Attacker(host, seed)
    host.files.enforced = enforced
    story = story_of(seed)
    if order.random() < 0.7:
        attacker.squat(FORMER)
    host.interlopers.add(attacker.act)
    passes: list[PassResult] = []
    try:
        async for made in story(simulator, host, path):
            passes.append(made)
    except ValueError:
        attacker.fooled()
    host.interlopers.clear()
    if any(isinstance(made.error, Held | Superseded) for made in passes):
        attacker.fooled()
    return attacker.won(), passes


def story_of(seed: int) -> Story:
    """What happens on the host meanwhile."""
    return (_changes, _upgrade, _worker)[seed % 3]


def _key(simulator: Simulator) -> Secret:
    return Secret(simulator.client_key.export_private_key().decode())


async def change(simulator: Simulator, host: Host, password: str | None) -> PassResult:
    """A pass with a proxy and this password, or with none."""
    spec = WindowsInstanceSpec(address=host.address, port=host.port, username=host.username)
    instance = WindowsInstance(Meta(name="win-1"), Place("test", "win-1"), spec)
    wanted = egress(password) if password else Egress(windows=WindowsSettings(services=(SERVICE,)))
    return await HostPass(NoHostKeys(), _SETTINGS).run(Target(instance, wanted, _key(simulator)))


async def configured(bare: Simulated, path: Path, version: str) -> PassResult:
    """A pass with this version of a payload."""
    facts = Facts(provided={"bootstrap-kubeconfig": Secret("token: abcdef.hunter2")})
    worker = WorkerSpec(bare.payload(path / version, version), facts, egress("hunter2"))
    return await configure_worker(bare.access, NoHostKeys(), _SETTINGS, worker)


async def _changes(simulator: Simulator, host: Host, path: Path) -> AsyncIterator[PassResult]:
    """The proxy is set, its password changes, it is taken away."""
    for password in ("hunter2", "hunter2-new", None):
        yield await change(simulator, host, password)


async def _upgrade(simulator: Simulator, host: Host, path: Path) -> AsyncIterator[PassResult]:
    """An earlier version was there: its directory, its ledger."""
    host.edit([SetValue(LEDGER, "Version", build_dword(1)), SetValue(LEDGER, "Salt", build_sz("x"))])
    if not host.files.exists(FORMER):
        host.files.make_directories(rf"{FORMER}\p-00000000-12345678")
        host.files.write(rf"{FORMER}\generation", b"3\r\n")
    async for made in _changes(simulator, host, path):
        yield made


async def _worker(simulator: Simulator, host: Host, path: Path) -> AsyncIterator[PassResult]:
    """A bare host becomes a worker, gets another version, and is given back."""
    bare = Simulated(simulator, host)
    for version in ("1.0.0", "1.0.1"):
        yield await configured(bare, path, version)
    yield await removal.restore_host_state(bare.access, NoHostKeys(), _SETTINGS)
