"""Passes on simulated hosts beside bare asyncssh loops, in one run: `python -m benchmarks.hosts [--hosts 1000]`.

The hosts are in a process of their own; CPU is that of the client's process alone.
"""

import argparse
import asyncio
import contextlib
import datetime
import functools
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import asyncssh
from benchmarks.pairs import Pair
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from transom.apply.host_pass import build_convergence
from transom.apply.roll_out import run_concurrently
from transom.apply.target import Target
from transom.hosts.errors import Fault
from transom.hosts.owner import Owner
from transom.hosts.passes.base_pass import PassResult, PassSettings
from transom.hosts.passes.light_check import LightCheckResult, WatchedItems, run_light_check
from transom.hosts.scripts import host_scripts
from transom.hosts.scripts.template import BASE
from transom.hosts.ssh.directory import format_sftp_path
from transom.hosts.ssh.known_hosts import NoHostKeys
from transom.hosts.ssh.ssh_client import Access
from transom.proxy.finding import Place
from transom.proxy.objects import Meta
from transom.proxy.secret import Secret
from transom.proxy.settings import Egress
from transom.proxy.trust import Certificate, parse_bundle
from transom.windows.nodes.windows_instance import WindowsInstance, WindowsInstanceSpec
from transom.windows.planning import queries as questions
from transom.windows.planning.planner import build_desired_settings
from winsim import Simulator

OWNER = Owner("bench@bench", "pid 1")
CERTIFICATES = 5
FILES = 20
AT_ONCE = 32
ROUNDS = 30
TURN = 50
SHORT, SHORT_TURN = 56, 8


async def serve(count: int) -> None:
    # each host listens at a port of its own
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    async with Simulator() as simulator:
        for _ in range(count):
            await simulator.add_host(services={"containerd": (), "kubelet": ("containerd",)})
        key = simulator.client_key.export_private_key().decode()
        sys.stdout.write(json.dumps({"key": key, "ports": [host.port for host in simulator.hosts]}) + "\n")
        sys.stdout.flush()
        telling = asyncio.create_task(tell_starts(simulator))
        await asyncio.to_thread(sys.stdin.read)
        telling.cancel()


async def tell_starts(simulator: Simulator) -> None:
    """A line with the number of a host each time that its kubelet was started."""
    # all that boot at once are nobody's news
    told = [len(host.starts("kubelet")) for host in simulator.hosts]
    while True:
        for number, host in enumerate(simulator.hosts):
            if (starts := len(host.starts("kubelet"))) != told[number]:
                told[number] = starts
                sys.stdout.write(f"{number}\n")
        sys.stdout.flush()
        await asyncio.sleep(0.2)


def egress(value: str) -> Egress:
    """A proxy, and five certificates."""
    secret = Secret(f"http://alice:hunter2@{value}:3128")
    return Egress(secret, secret, ".cluster.local,.svc,10.0.0.0/16,127.0.0.1,172.30.0.0/16,localhost", certificates())


@functools.cache
def certificates() -> tuple[Certificate, ...]:
    key = ec.generate_private_key(ec.SECP256R1())
    made = []
    for number in range(CERTIFICATES):
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, f"Egress CA {number}")])
        builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        begin = datetime.datetime.now(datetime.UTC)
        signed = (
            builder.not_valid_before(begin).not_valid_after(begin + datetime.timedelta(days=365)).sign(key, hashes.SHA256())
        )
        made.append(signed.public_bytes(serialization.Encoding.PEM).decode())
    return parse_bundle("".join(made)).certificates


async def transom(access: Access, value: str, *, change: bool = False) -> PassResult:
    """A pass; `change` as the operator knows it, from the settings that it brought the host to before."""
    spec = WindowsInstanceSpec(access.address, access.port, access.username)
    instance = WindowsInstance(metadata=Meta("host"), place=Place("bench", "WindowsInstance/host"), spec=spec)
    target = Target(instance, egress(value), access.keys[0])
    result = await build_convergence(target, PassSettings(OWNER), change_expected=change).run(access, NoHostKeys())
    if result.error is not None:
        raise result.error
    return result


async def light(access: Access) -> LightCheckResult:
    """A light check of a host that has both services, and as many files as a payload has."""
    files = tuple(rf"C:\k\bin\program-{number}.exe" for number in range(FILES))
    seen = await run_light_check(access, NoHostKeys(), PassSettings(OWNER), WatchedItems(("containerd", "kubelet"), files))
    if seen.digest is None:
        raise RuntimeError("the host shows nothing")
    return seen


def bare_connection(access: Access, key: asyncssh.SSHKey) -> asyncssh.SSHClientConnection:
    return asyncssh.connect(access.address, access.port, username=access.username, client_keys=[key], known_hosts=None)


async def bare_gather(access: Access, key: asyncssh.SSHKey) -> int:
    """The same script, and the same file fetched."""
    asked = questions.build_initial_queries(build_desired_settings(egress("proxy")))
    async with bare_connection(access, key) as connection:
        ended = await connection.run(rf"cmd.exe /d /c {BASE}\{host_scripts.build_gather_script(asked, OWNER).name}", check=True)
        directory = str(ended.stdout).split("transom-gather: ")[1].split()[0]
        async with connection.start_sftp_client() as sftp:
            async with sftp.open(format_sftp_path(directory, "gathered"), "rb") as file:
                data = await file.read()
            await sftp.remove(format_sftp_path(directory, "gathered"))
            await sftp.rmdir(format_sftp_path(directory))
    return len(data)


async def bare_change(access: Access, key: asyncssh.SSHKey) -> None:
    """Two commands, and a file of 8 kB."""
    async with bare_connection(access, key) as connection:
        await connection.run("cmd.exe /d /c hostname.exe")
        await connection.run("cmd.exe /d /c hostname.exe")
        async with connection.start_sftp_client() as sftp, sftp.open("C:/ProgramData/bench.txt", "wb") as file:
            await file.write(bytes(8000))


async def cpu_of(accesses: list[Access], work: Callable[[Access], Awaitable[object]]) -> float:
    begun = time.process_time()
    async for _ in run_concurrently(accesses, work, AT_ONCE, build_default=raised):
        pass
    return time.process_time() - begun


def raised(_: Access, error: Fault) -> None:
    """A figure of hosts that failed is none."""
    raise error


async def side_by_side_with_bare(
    accesses: list[Access], work: Callable[[Access], Awaitable[object]], bare: Callable[[Access], Awaitable[object]]
) -> tuple[float, float]:
    """CPU of both over all hosts, in turns of some hosts each: whatever else the machine does hits both alike."""
    ours = reference = 0.0
    for start in range(0, len(accesses), TURN):
        some = accesses[start : start + TURN]
        ours += await cpu_of(some, work)
        reference += await cpu_of(some, bare)
    return ours, reference


async def timed(work: Callable[[], Awaitable[object]]) -> float:
    begun = time.perf_counter()
    await work()
    return time.perf_counter() - begun


async def measure(ports: list[int], pem: str) -> None:
    """All of it."""
    key = asyncssh.import_private_key(pem)
    accesses = [Access("127.0.0.1", port, keys=(Secret(pem),)) for port in ports]
    one = accesses[0]
    await transom(one, "proxy")
    await transom(one, "proxy")
    fetched = await bare_gather(one, key)
    ours, bare = [], []
    for _ in range(ROUNDS):
        ours.append(await timed(lambda: transom(one, "proxy")))
        bare.append(await timed(lambda: bare_gather(one, key)))
    mine, reference = statistics.median(ours), statistics.median(bare)
    print(
        f"nothing to do, one host, median of {ROUNDS}: {mine * 1000:.1f} ms; "
        f"bare {reference * 1000:.1f} ms; ratio {mine / reference:.2f}"
    )
    print(f"fetched: {fetched} bytes")
    calm, changed = await transom(one, "proxy"), await transom(one, "third", change=True)
    looked = await light(one)
    print(f"channels: {calm.channels} for nothing to do, {changed.channels} for a change, {looked.channels} for a light check")
    for label, value, change in (
        ("first apply", "proxy", False),
        ("proxy change", "other", True),
        ("nothing to do", "other", False),
    ):
        work = functools.partial(transom, value=value, change=change)
        cpu, reference = await side_by_side_with_bare(accesses, work, lambda access: bare_change(access, key))
        compared(label, len(accesses), cpu, reference)
    compared("light check", len(accesses), *await side_by_side_with_bare(accesses, light, lambda item: bare_change(item, key)))


def pairs() -> Iterator[Pair]:
    """A pass of each kind on some hosts, beside the bare loop on them."""
    with served("hosts", "--hosts", str(SHORT)) as (ports, pem):
        yield from asyncio.run(_pairs(ports, pem))


async def _pairs(ports: list[int], pem: str) -> list[Pair]:
    key = asyncssh.import_private_key(pem)
    accesses = [Access("127.0.0.1", port, keys=(Secret(pem),)) for port in ports]
    # what is imported and remembered at the first connection is neither's
    await bare_change(accesses[0], key)
    await transom(accesses[0], "warm")
    made: list[Pair] = []
    kinds: tuple[tuple[str, Callable[[Access], Awaitable[object]]], ...] = (
        ("a first apply", functools.partial(transom, value="proxy")),
        ("a proxy change", functools.partial(transom, value="other", change=True)),
        ("a pass with nothing to do", functools.partial(transom, value="other")),
        ("a light check", light),
    )
    for row, work in kinds:
        for start in range(0, len(accesses), SHORT_TURN):
            some = accesses[start : start + SHORT_TURN]
            before = await cpu_of(some, lambda access: bare_change(access, key))
            ours = await cpu_of(some, work)
            after = await cpu_of(some, lambda access: bare_change(access, key))
            made.append(Pair(row, ours, (before + after) / 2))
    return made


def compared(label: str, count: int, cpu: float, bare: float) -> None:
    print(f"{label}, {count} hosts: CPU {cpu:.1f} s; bare {bare:.1f} s; ratio {cpu / bare:.2f}", flush=True)


@contextlib.contextmanager
def served(module: str, *arguments: str) -> Iterator[tuple[Any, str]]:
    """The simulated hosts of a benchmark, in a process of their own: their ports, and the key that opens them."""
    command = [sys.executable, "-m", f"benchmarks.{module}", "--serve", *arguments]
    server = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parent.parent
    )
    try:
        assert server.stdout
        told = json.loads(server.stdout.readline())
        yield told["ports"], told["key"]
    finally:
        server.terminate()
        server.wait()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--hosts", type=int, default=1000)
    parser.add_argument("--serve", action="store_true")
    chosen = parser.parse_args()
    if chosen.serve:
        asyncio.run(serve(chosen.hosts))
        return
    with served("hosts", "--hosts", str(chosen.hosts)) as (ports, key):
        asyncio.run(measure(ports, key))


if __name__ == "__main__":
    main()
