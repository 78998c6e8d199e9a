"""First configurations of simulated hosts beside a bare asyncssh loop: `python -m benchmarks.configure [--megabytes 4]`.

The hosts are in a process of their own; CPU and memory are those of the client's process alone.
"""

import argparse
import asyncio
import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import asyncssh
from benchmarks.hosts import raised, served

from transom.apply.roll_out import run_concurrently
from transom.hosts.owner import Owner
from transom.hosts.passes.base_pass import PassSettings
from transom.hosts.passes.configure import ConfigureResult, WorkerSpec, configure_worker
from transom.hosts.ssh.known_hosts import NoHostKeys
from transom.hosts.ssh.ssh_client import Access
from transom.hosts.steps.payload_directory import PayloadDirectory
from transom.proxy.secret import Secret
from transom.proxy.settings import Egress
from transom.windows.payload.worker import Facts
from winsim import Simulator

AT_ONCE = 32
SERVICES = ("containerd", "kubelet", "kube-proxy")
FILES = 12
TURN = 50
BLOCK = 1 << 18


async def serve(count: int) -> None:
    async with Simulator() as simulator:
        for _ in range(count):
            await simulator.add_host(services={})
        key = simulator.client_key.export_private_key().decode()
        sys.stdout.write(json.dumps({"key": key, "ports": [host.port for host in simulator.hosts]}) + "\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.read)


def payload(path: Path, size: int) -> PayloadDirectory:
    """Three programs that make up the size, and nine small files."""
    lines = ["apiVersion: transom.dev/v1alpha1", "kind: Payload", "version: 1.0.0", "kubernetes: v1.36.3", "files:"]
    for name in SERVICES:
        with (path / f"{name}.exe").open("wb") as file:
            file.write(b"MZservice " + name.encode())
            # no holes: asyncssh's put leaves them out
            for _ in range(0, size // len(SERVICES), BLOCK):
                file.write(os.urandom(min(BLOCK, size // len(SERVICES))))
        lines.append(rf"- {{path: 'C:\k\{name}.exe', source: {name}.exe, services: [{name}]}}")
    lines += [rf"- {{path: 'C:\k\{number}.conf', content: 'node {number}: ${{NODE_NAME}}'}}" for number in range(FILES - 3)]
    lines.append("services:")
    for name, needs in zip(SERVICES, ("", "containerd", "kubelet"), strict=True):
        lines.append(rf"- {{name: {name}, command: 'C:\k\{name}.exe --x=1', dependsOn: [{needs}], egress: true}}")
    (path / "payload.yaml").write_text("\n".join(lines) + "\n")
    return PayloadDirectory.open(path)


async def ours(access: Access, worker: WorkerSpec) -> ConfigureResult:
    result = await configure_worker(access, NoHostKeys(), PassSettings(Owner("bench@bench", "pid 1")), worker)
    if result.error is not None:
        raise result.error
    return result


async def bare(access: Access, key: asyncssh.SSHKey, directory: Path) -> None:
    """The same bytes with asyncssh's own put, as many files, and one command: the floor."""
    connection = asyncssh.connect(access.address, access.port, username=access.username, client_keys=[key], known_hosts=None)
    async with connection as connected, connected.start_sftp_client() as sftp:
        await connected.run("cmd.exe /d /c hostname.exe")
        await sftp.mkdir("C:/bench")
        for number in range(FILES):
            name = f"{SERVICES[number]}.exe" if number < len(SERVICES) else "small"
            await sftp.put(directory / name, f"C:/bench/{number}")
        # what was sent is not kept, or the hosts' process would need the memory twice
        for number in range(FILES):
            await sftp.remove(f"C:/bench/{number}")
        await sftp.rmdir("C:/bench")


async def cpu_of(accesses: list[Access], work: Callable[[Access], Awaitable[object]]) -> float:
    begun = time.process_time()
    async for _ in run_concurrently(accesses, work, AT_ONCE, build_default=raised):
        pass
    return time.process_time() - begun


def peak() -> float:
    """The largest resident size until now, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


async def measure(ports: list[int], pem: str, path: Path, megabytes: float) -> None:
    key = asyncssh.import_private_key(pem)
    accesses = [Access("127.0.0.1", port, keys=(Secret(pem),)) for port in ports]
    secret = Secret("http://alice:hunter2@proxy:3128")
    worker = WorkerSpec(payload(path, int(megabytes * 1e6)), Facts(node_name="bench"), Egress(secret, secret, ".svc"))
    (path / "small").write_bytes(b"node 1: bench")
    one, *others = accesses
    first, calm = await ours(one, worker), await ours(one, worker)
    print(
        f"channels: {first.channels} for a first configuration of {first.sent / 1e6:.1f} MB, {calm.channels} for nothing to do"
    )
    changed = path / "kubelet.exe"
    changed.write_bytes(changed.read_bytes() + b"2")
    newer = WorkerSpec(PayloadDirectory.open(path), worker.facts, worker.egress)
    upgraded = await ours(one, newer)
    print(f"upgrade of one program: {upgraded.channels} channels, {upgraded.sent:,} bytes sent of {changed.stat().st_size:,}")
    worker = newer
    before, cpu, floor = peak(), 0.0, 0.0
    for start in range(0, len(others), TURN):
        cpu += await cpu_of(others[start : start + TURN], lambda access: ours(access, worker))
    grown = peak() - before
    await bare(one, key, path)
    for start in range(0, len(others), TURN):
        floor += await cpu_of(others[start : start + TURN], lambda access: bare(access, key, path))
    print(f"{len(others)} hosts, {megabytes:g} MB each: CPU {cpu:.1f} s; bare {floor:.1f} s; ratio {cpu / floor:.2f}")
    print(f"resident memory: {before:.0f} MB before, at most {grown:.0f} MB more", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--hosts", type=int, default=100)
    parser.add_argument("--megabytes", type=float, default=4)
    parser.add_argument("--serve", action="store_true")
    arguments = parser.parse_args()
    if arguments.serve:
        asyncio.run(serve(arguments.hosts + 1))
        return
    with tempfile.TemporaryDirectory() as directory, served("configure", "--hosts", str(arguments.hosts)) as (ports, key):
        asyncio.run(measure(ports, key, Path(directory), arguments.megabytes))


if __name__ == "__main__":
    main()
