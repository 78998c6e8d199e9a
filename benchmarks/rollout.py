"""A proxy change over many simulated hosts: canary, a tenth and all, beside all at once: `python -m benchmarks.rollout`.

The hosts are in a process of their own; CPU is that of the client's process alone.
"""

import argparse
import asyncio
import time

from benchmarks.hosts import AT_ONCE, OWNER, egress, served

from transom.apply.host_pass import HostPass
from transom.apply.roll_out import roll_out
from transom.apply.target import Target
from transom.hosts.passes.base_pass import PassSettings
from transom.hosts.ssh.known_hosts import NoHostKeys
from transom.hosts.ssh.ssh_client import Timeouts
from transom.proxy.finding import Place
from transom.proxy.objects import Meta
from transom.proxy.secret import Secret
from transom.windows.nodes.windows_instance import WindowsInstance, WindowsInstanceSpec

PATIENT = Timeouts(connect=120, progress=300)
"""The machine is shared: time is not what is measured."""


def targets(ports: list[int], key: str, proxy: str) -> list[Target]:
    wanted, found = egress(proxy), []
    for number, port in enumerate(ports):
        name = f"win-{number}"
        spec = WindowsInstanceSpec("127.0.0.1", port, "Administrator")
        instance = WindowsInstance(metadata=Meta(name), place=Place("bench", f"WindowsInstance/{name}"), spec=spec)
        found.append(Target(instance, wanted, Secret(key)))
    return found


async def change(ports: list[int], key: str, proxy: str, *, all_at_once: bool) -> float:
    """CPU seconds of one change of all hosts."""
    begun = time.process_time()
    host_pass = HostPass(NoHostKeys(), PassSettings(OWNER, timeouts=PATIENT))
    async for _, report in roll_out(targets(ports, key, proxy), host_pass.run, max_concurrent=AT_ONCE, all_at_once=all_at_once):
        assert report.result == "changed", report.error
    return time.process_time() - begun


async def measure(ports: list[int], key: str, rounds: int) -> None:
    await change(ports, key, "first", all_at_once=True)
    staged = at_once = 0.0
    for number in range(rounds):
        at_once += await change(ports, key, f"at-once-{number}", all_at_once=True)
        staged += await change(ports, key, f"staged-{number}", all_at_once=False)
    print(
        f"proxy change, {len(ports)} hosts, {rounds} rounds: canary, a tenth, all: CPU {staged:.1f} s; "
        f"all at once {at_once:.1f} s; ratio {staged / at_once:.2f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--hosts", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=1)
    chosen = parser.parse_args()
    with served("hosts", "--hosts", str(chosen.hosts)) as (ports, key):
        asyncio.run(measure(ports, key, chosen.rounds))


if __name__ == "__main__":
    main()
