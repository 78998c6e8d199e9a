"""`winsim.Host` as one of the hosts of these tests."""

from collections.abc import Sequence
from typing import Literal

from tests.hosts.machines import BASE, FIRST, SECOND

from transom.hosts.ssh.ssh_client import Access
from transom.proxy.secret import Secret
from transom.windows.host.host_state import ServiceState
from transom.windows.host.queries import RESTARTS
from transom.windows.registry import reg
from transom.windows.registry.edits import SetValue
from transom.windows.registry.registry import Registry
from transom.windows.registry.values import build_sz
from winsim import Fault, Host, Simulator
from winsim.filesystem import SimulatedDirectory, list_entries

SERVICES = {FIRST: (), SECOND: (FIRST,)}


class SimulatedHost:
    """A host that was just made: there is nothing to restore."""

    def __init__(self, simulator: Simulator, host: Host) -> None:
        self.simulated = host
        key = simulator.client_key.export_private_key().decode()
        self.access = Access(host.address, host.port, host.username, (Secret(key),), simulator.format_host_key(host))

    async def export(self, key: str) -> str:
        held = self.simulated.registry.find_key(key)
        keys = [*([held] if held else []), *self.simulated.registry.list_keys_below(key)]
        edits = [SetValue(k.path, named.name, named.value) for k in Registry(keys) for named in (k.values or {}).values()]
        return reg.render(edits).decode("utf-16") if edits else ""

    async def restore(self) -> None:
        """It is new."""

    def files(self) -> Sequence[str]:
        return [node.name for node in list_entries(self.simulated.files.get_directory(BASE))]

    def has_base(self) -> bool:
        return isinstance(self.simulated.files.find(BASE), SimulatedDirectory)

    def put(self, name: str, content: str) -> None:
        self.simulated.files.write(BASE + "\\" + name.replace("/", "\\"), content.encode())

    async def state(self, service: str) -> str:
        return self.simulated.services.get(service).state.name

    async def starts(self, service: str) -> int:
        return len(self.simulated.starts(service))

    async def stop(self, service: str) -> None:
        self.simulated.services.stop(service)
        assert await self.simulated.services.wait_for_state(service, ServiceState.STOPPED, 30)

    async def note(self, service: str, note: str) -> None:
        self.simulated.edit([SetValue(RESTARTS, service, build_sz(note))])

    async def reboot(self) -> None:
        await self.simulated.boot()

    async def boot_id(self) -> int:
        return self.simulated.boot_id

    def fail(self, at: int, when: Literal["before", "after"] = "before", action: Literal["cut", "hang"] = "cut") -> None:
        self.simulated.faults.schedule_fault(Fault(at, when, action))

    async def cut_in_restarts(self, at: int) -> None:
        self.simulated.faults.schedule_fault(Fault(at, "during", "cut", f'sc.exe stop "{FIRST}"'))

    def sample(self, requests: Sequence[str]) -> Sequence[int]:
        return range(1, len(requests) + 1)

    def came(self) -> bool:
        came = self.simulated.faults.ordered is None
        self.simulated.faults.cancel_fault()
        return came

    def mark(self) -> None:
        self.simulated.traffic.clear()

    def requests(self) -> list[str]:
        assert self.simulated.traffic.connections == 1
        return list(self.simulated.traffic.requests)
