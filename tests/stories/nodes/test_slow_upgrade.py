"""An upgrade of a payload whose services need minutes: it is not taken back while they start, and restarts each once."""

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from tests.support.virtual_time import run_in_virtual_time
from tests.support.workers.hosts import Simulated

from transom.hosts.errors import PutBack, RestartsFailed
from transom.hosts.owner import Owner
from transom.hosts.passes import configure as configuring
from transom.hosts.passes import removal
from transom.hosts.passes.base_pass import PassSettings
from transom.hosts.passes.configure import ConfigureResult, WorkerSpec
from transom.hosts.ssh.known_hosts import NoHostKeys
from transom.hosts.ssh.ssh_client import Timeouts
from transom.proxy.secret import Secret
from transom.proxy.settings import Egress
from transom.windows.host.queries import LEDGER
from transom.windows.payload.worker import Facts
from winsim import Simulator

EGRESS = Egress(Secret("http://proxy.x:3128"), Secret("http://proxy.x:3128"), ".svc")
PROVIDED = {"bootstrap-kubeconfig": Secret("token: abcdef.hunter2")}
SETTINGS = PassSettings(Owner("transom", "test", 1), timeouts=Timeouts(60, 60, 900))


class Upgrade:
    """A host with payload 1.0.0, and passes with the one that is wanted."""

    def __init__(self, host: Simulated, path: Path) -> None:
        self.host, self.path = host, path
        self.version = "1.0.0"

    async def configure(self) -> ConfigureResult:
        payload = self.host.payload(self.path / self.version, self.version)
        worker = WorkerSpec(payload, Facts(provided=PROVIDED), EGRESS)
        return await configuring.configure_worker(self.host.access, NoHostKeys(), SETTINGS, worker)

    def starts(self) -> list[int]:
        return [len(self.host.environments(name)) for name in ("containerd", "kubelet")]


def run_upgrade(path: Path, work: Callable[[Upgrade], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        async with Simulator() as simulator:
            upgrade = Upgrade(Simulated(simulator, await simulator.add_host("WIN-B", services={})), path)
            assert (await upgrade.configure()).error is None
            await work(upgrade)

    run_in_virtual_time(run())


@pytest.mark.server
@pytest.mark.parametrize("what", ["stop", "start"])
@pytest.mark.parametrize("service", ["containerd", "kubelet"])
@pytest.mark.parametrize("seconds", [59, 61, 90, 119, 120, 121, 180])
def test_an_upgrade_with_a_slow_service(tmp_path: Path, service: str, what: str, seconds: int) -> None:
    async def work(upgrade: Upgrade) -> None:
        setattr(upgrade.host.host.services.get(service), f"{what}_seconds", seconds)
        upgrade.version = "1.1.0"
        before = upgrade.starts()
        result = await upgrade.configure()
        assert (result.error, result.result) == (None, "changed")
        assert upgrade.starts() == [count + 1 for count in before]
        assert upgrade.host.environments("containerd")[-1]["CONTAINERD_X"] == "1.1.0"
        assert (await upgrade.configure()).result == "unchanged"
        assert upgrade.starts() == [count + 1 for count in before]

    run_upgrade(tmp_path, work)


@pytest.mark.server
@pytest.mark.parametrize("service", ["containerd", "kubelet"])
@pytest.mark.parametrize("seconds", [59, 90, 120, 180])
def test_the_removal_of_a_node_with_a_slow_service(tmp_path: Path, service: str, seconds: int) -> None:
    async def work(upgrade: Upgrade) -> None:
        host = upgrade.host.host
        host.services.get(service).stop_seconds = seconds
        for expected in ("changed", "unchanged"):
            result = await removal.restore_host_state(upgrade.host.access, NoHostKeys(), SETTINGS)
            assert (result.error, result.result, result.remains) == (None, expected, ())
            assert host.services.find(service) is None and host.registry.find_key(LEDGER) is None

    run_upgrade(tmp_path, work)


@pytest.mark.server
def test_a_version_is_kept_while_its_service_counts_up_its_checkpoint(tmp_path: Path) -> None:
    async def work(upgrade: Upgrade) -> None:
        service = upgrade.host.host.services.get("containerd")
        service.start_seconds, service.checkpoint_seconds = 900, 10
        upgrade.version = "1.1.0"
        result = await upgrade.configure()
        assert isinstance(result.error, RestartsFailed) and "containerd is still starting" in str(result.error)
        passes = [await upgrade.configure() for _ in range(3)]
        assert passes[-1].result == "unchanged", [item.error for item in passes]
        assert upgrade.host.environments("containerd")[-1]["CONTAINERD_X"] == "1.1.0"
        assert upgrade.starts()[0] == 2

    run_upgrade(tmp_path, work)


@pytest.mark.server
def test_a_version_that_hangs_in_its_start_is_put_back_and_the_message_is_true(tmp_path: Path) -> None:
    async def work(upgrade: Upgrade) -> None:
        service = upgrade.host.host.services.get("kubelet")
        service.start_seconds = 100_000
        upgrade.version = "1.1.0"
        result = await upgrade.configure()
        assert isinstance(result.error, PutBack)
        assert "kubelet was still starting 600 s after its start" in str(result.error)
        assert "kubelet is still starting with it" in str(result.error)

    run_upgrade(tmp_path, work)
