"""Windows hosts in this process, behind a real SSH server: for `transom demo`, for scale, and for injected faults.

    async with Simulator() as simulator:
        host = await simulator.add_host(services={"containerd": (), "kubelet": ("containerd",)})
        host.address, host.port, host.username, simulator.client_key

They carry out the scripts that Transom sends, as cmd.exe does. What is not simulated is an error there, and is written down
in `host.unknown`.
"""

from winsim.faults import Fault
from winsim.host import Host
from winsim.server import Simulator

__all__ = ["Fault", "Host", "Simulator"]
