"""Hosts whose answers are made up beside an honest one: `python -m benchmarks.hostile`.

The honest host and the others are in processes of their own. For each lie: how long the honest host's pass takes while the
other is worked on again and again, beside its time alone; the longest time that the event loop was away; the client's memory.
"""

import asyncio
import contextlib
import functools
import json
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
from benchmarks.hosts import OWNER, egress, served
from tests.hosts.hostile import LIES, HostileSimulator
from tests.support.waiting import until

from transom.apply.target import Target, one_pass
from transom.hosts.passes import PassResult, PassSettings
from transom.hosts.ssh import Access, Timeouts
from transom.hosts.ssh.known_hosts import NoHostKeys
from transom.proxy.finding import Place
from transom.proxy.objects import Meta
from transom.proxy.secret import Secret
from transom.windows.nodes import WindowsInstance, WindowsInstanceSpec

ROUNDS = 10
SERVICES = {"containerd": (), "kubelet": ("containerd",)}
SETTINGS = PassSettings(OWNER, timeouts=Timeouts(10, 10, 30))
TICK = 0.005
PAUSE = 1.0


async def serve(*, lying: bool) -> None:
    async with HostileSimulator() as simulator:
        ports = {"": (await simulator.add_host(services=SERVICES)).port}
        for name, lie in LIES.items() if lying else ():
            ports[name] = (await simulator.add_liar(lie, services=SERVICES)).port
        key = simulator.client_key.export_private_key().decode()
        sys.stdout.write(json.dumps({"key": key, "ports": ports}) + "\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.read)


async def passed(port: int, key: str) -> PassResult:
    spec = WindowsInstanceSpec("127.0.0.1", port, "Administrator")
    instance = WindowsInstance(metadata=Meta("host"), place=Place("bench", "WindowsInstance/host"), spec=spec)
    target = Target(instance, msgspec.structs.replace(egress("proxy")), Secret(key))
    return await one_pass(target, NoHostKeys(), SETTINGS)


async def honest_seconds(access: Access) -> float:
    """The mean of some passes with nothing to do."""
    begun = time.perf_counter()
    for _ in range(ROUNDS):
        found = await passed(access.port, access.keys[0].reveal())
        assert found.error is None, found.error
    return (time.perf_counter() - begun) / ROUNDS


class Lag:
    """The longest time between two turns of the loop that were to be 5 ms apart."""

    longest = 0.0

    @contextlib.asynccontextmanager
    async def informers(self) -> AsyncIterator[None]:
        async def watch() -> None:
            while True:
                begun = time.perf_counter()
                await asyncio.sleep(TICK)
                self.longest = max(self.longest, time.perf_counter() - begun - TICK)

        watching = asyncio.ensure_future(watch())
        try:
            yield
        finally:
            watching.cancel()


def memory() -> tuple[int, int]:
    """Resident memory and its peak since the last call, in MB."""
    held = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    Path("/proc/self/clear_refs").write_text("5")
    return int(held["VmRSS"].split()[0]) // 1024, int(held["VmHWM"].split()[0]) // 1024


async def measure(honest: Access, ports: dict[str, int], key: str) -> None:
    """All of it."""
    await honest_seconds(honest)
    for name, port in ports.items():
        alone = await honest_seconds(honest)
        memory()
        tries: list[PassResult] = []

        async def lied(to: int = port, found: list[PassResult] = tries) -> None:
            while True:
                found.append(await passed(to, key))
                # as long as the operator waits after a first failure, and no longer after the next ones
                await asyncio.sleep(PAUSE)

        lag = Lag()
        async with lag.informers():
            lying = asyncio.ensure_future(lied())
            beside = await honest_seconds(honest)
            await until(functools.partial(len, tries))
            lying.cancel()
            await asyncio.wait([lying])
        resident, peak = memory()
        why = type(tries[-1].error).__name__ if tries else "-"
        print(
            f"{name:42} alone {alone * 1000:5.0f} ms, beside {beside * 1000:5.0f} ms: {beside / alone:4.1f} times; "
            f"{len(tries):3} tries ({why}); loop away {lag.longest * 1000:4.0f} ms; RSS {resident} MB, peak {peak} MB",
            flush=True,
        )


def main() -> None:
    """As the module says."""
    if "--serve" in sys.argv:
        asyncio.run(serve(lying="liars" in sys.argv))
        return
    # who lies takes nothing of the time of the other's server
    with served("hostile", "honest") as (honest, honest_key), served("hostile", "liars") as (ports, key):
        chosen = {name: port for name, port in ports.items() if name and (len(sys.argv) == 1 or name in sys.argv)}
        asyncio.run(measure(Access("127.0.0.1", honest[""], keys=(Secret(honest_key),)), chosen, key))


if __name__ == "__main__":
    main()
