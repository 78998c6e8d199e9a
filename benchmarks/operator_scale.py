"""`transom run` on a real API server: `python -m benchmarks.operator_scale [--nodes 5000] [--hosts 1000] [--loop]`.

The API server, the simulated hosts and the operator are processes of their own; CPU and memory are the operator's alone, CPU of
the bare asyncssh loops is this process's. With `--loop` it says what kept the operator's event loop the longest; to measure
that costs CPU.
"""

import argparse
import asyncio
import base64
import itertools
import json
import logging
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import asyncssh
import structlog
from benchmarks.hosts import AT_ONCE, bare_change, bare_connection, raised
from lab.control_plane import ControlPlane, Moment
from lab.ports import reserve

from transom.apply.roll_out import run_concurrently
from transom.hosts.ssh.ssh_client import Access
from transom.kube.client import Client
from transom.kube.connection import connect
from transom.kube.errors import ApiError
from transom.kube.resources import EGRESS_PROXIES, EVENTS, NAMESPACES, NODES, SECRETS, WINDOWS_INSTANCES, Resource
from transom.manifests.definitions import build_crds
from transom.manifests.workloads import ENVIRONMENT
from transom.proxy.secret import Secret

NAMESPACE = "transom-system"
ROOT = Path(__file__).parent.parent
CHECK_SECONDS = 120
REPORT_SECONDS = 300
"""As often as a kubelet reports what stays the same (KubeletConfiguration, nodeStatusReportFrequency)."""
START_SECONDS = 3.0
"""Until a kubelet that was started reports: at once when it runs (Kubernetes, `Kubelet.Run` in pkg/kubelet/kubelet.go begins
syncNodeStatus and fastStatusUpdateOnce; of a process's first status pkg/kubelet/kubelet_node_status.go says that it is due)."""
REPORTING = 32
"""Simulated kubelets that report at once: they share the connections of one client."""
BACKGROUND_SECONDS = 20
POLL_SECONDS = 2.0
HEARTBEATS = 20_000
JOINING = 100


class Operator:
    """The operator's process, seen from outside."""

    def __init__(self, plane: ControlPlane, port: int, controllers: str = "", *, loop: bool = False) -> None:
        self._plane, self._port, self._controllers = plane, port, controllers
        self._loop = plane.directory / "loop" if loop else None
        self._log = plane.directory / "operator.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, interval: str) -> None:
        plane, port = self._plane, self._port
        token = plane.create_service_account_token(NAMESPACE, "transom")
        kubeconfig = plane.write_kubeconfig("transom", token)
        program = ["transom"] if self._loop is None else ["benchmarks.loop", str(self._loop)]
        command = [sys.executable, "-m", *program, "run", f"--kubeconfig={kubeconfig}", f"--bind-address=127.0.0.1:{port}"]
        log = self._log.open("ab")
        # the machine is shared: how soon a host answers is not what is measured
        command += [f"--check-interval={interval}", "--connect-timeout=120s"]
        command += [f"--controllers={self._controllers}"] if self._controllers else []
        # as in the Deployment
        environment = os.environ | ENVIRONMENT
        self._process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(60)
            self._process = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def cpu(self) -> float:
        """Seconds of CPU so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def rss(self) -> float:
        """MB."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6

    def longest(self) -> str:
        """What kept its event loop, the longest first: seconds of CPU, seconds after its start, and what it was."""
        return self._loop.read_text() if self._loop is not None else ""

    async def metrics(self) -> str:
        """What Prometheus would scrape."""
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{self._port}/metrics") as answer:
            return await answer.text()

    def ended(self, since: float) -> list[float]:
        """When it was done with a host, in seconds of the clock, as its log says."""
        lines = (json.loads(line) for line in self._log.read_text().splitlines() if '"host configured"' in line)
        return sorted(when for line in lines if (when := datetime.fromisoformat(line["timestamp"]).timestamp()) > since)

    async def passes(self) -> float:
        """On hosts, so far."""
        return total(await self.metrics(), "transom_host_pass_duration_seconds_count")

    async def ready(self) -> bool:
        try:
            async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{self._port}/readyz") as answer:
                return answer.status == 200
        except aiohttp.ClientConnectionError:
            return False


@dataclass
class Bare:
    """What the bare loop took for all hosts, in seconds."""

    cpu: float
    wall: float


def total(text: str, name: str) -> float:
    """A metric, summed over its labels."""
    return sum(float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith((f"{name} ", f"{name}{{")))


async def create(client: Client, made: Iterable[tuple[Resource[Any], dict[str, Any]]], at_once: int = 16) -> None:
    waiting = iter(made)

    async def work() -> None:
        for resource, value in waiting:
            await client.create(resource, value, value["metadata"].get("namespace"))

    await asyncio.gather(*(work() for _ in range(at_once)))


def node(number: int, prefix: str = "win") -> dict[str, Any]:
    """About as large as one of a cloud's: 5 kB."""
    annotations = {f"example.com/annotation-{index}": "x" * 60 for index in range(12)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": f"{prefix}-{number:05}",
            "labels": {f"example.com/label-{index}": "x" * 30 for index in range(15)} | {"kubernetes.io/os": "windows"},
            "annotations": annotations,
        },
    }


def node_status(beat: str) -> dict[str, Any]:
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "message": "kubelet is ready",
        "lastHeartbeatTime": beat,
    }
    images = [{"names": [f"registry.example/image-{index}@sha256:{'0' * 64}"], "sizeBytes": 10**8} for index in range(20)]
    return {"status": {"conditions": [condition], "images": images}}


def instance(number: int, port: int) -> dict[str, Any]:
    return {
        "apiVersion": WINDOWS_INSTANCES.api_version,
        "kind": WINDOWS_INSTANCES.kind,
        "metadata": {"name": f"win-{number:05}", "namespace": NAMESPACE},
        "spec": {"address": "127.0.0.1", "port": port, "username": "Administrator", "nodeName": f"win-{number:05}"},
    }


async def put_proxy(client: Client, url: str) -> None:
    value = {
        "apiVersion": EGRESS_PROXIES.api_version,
        "kind": EGRESS_PROXIES.kind,
        "metadata": {"name": "cluster"},
        "spec": {"httpProxy": url, "httpsProxy": url, "noProxy": "10.0.0.0/8"},
    }
    query = {"fieldManager": "kubectl", "force": "true"}
    path = EGRESS_PROXIES.build_path(None, "cluster")
    await client.request("PATCH", path, query, value, content_type="application/apply-patch+yaml")


async def until(condition: Callable[[], Awaitable[bool]], seconds: float = 900, every: float = POLL_SECONDS) -> None:
    async with asyncio.timeout(seconds):
        while not await condition():  # noqa: ASYNC110  # another process's
            await asyncio.sleep(every)


def requests(plane: ControlPlane, since: Moment) -> Counter[str]:
    """Of the operator since then: reads and writes, by verb and kind.

    Watches, the lease and looks for kinds that are not there go on without any host.
    """
    user = f"system:serviceaccount:{NAMESPACE}:transom"
    mine = [item for item in plane.read_audit(since) if item["user"]["username"] == user and item["verb"] != "watch"]
    kept = [item for item in mine if item.get("responseStatus", {}).get("code") != 404 and "objectRef" in item]
    asked = ((item["verb"], item["objectRef"]) for item in kept)
    named = ((verb, "/".join(filter(None, (of["resource"], of.get("subresource"))))) for verb, of in asked)
    return Counter(f"{verb} {kind}" for verb, kind in named if kind != "leases")


@dataclass
class Hosts:
    """Simulated hosts in a process of their own."""

    key: str
    ports: list[int]
    starts: asyncio.Queue[int]
    """The number of each host whose kubelet was started."""


@asynccontextmanager
async def hosts(count: int) -> AsyncIterator[Hosts]:
    command = [sys.executable, "-m", "benchmarks.hosts", "--serve", "--hosts", str(count)]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)  # noqa: ASYNC220
    try:
        assert server.stdout
        told = json.loads(await asyncio.to_thread(server.stdout.readline))
        made = Hosts(told["key"], told["ports"], asyncio.Queue())
        loop = asyncio.get_running_loop()

        def listen(lines: Iterable[str]) -> None:
            for line in lines:
                loop.call_soon_threadsafe(made.starts.put_nowait, int(line))

        listening = asyncio.create_task(asyncio.to_thread(listen, server.stdout))
        yield made
    finally:
        server.terminate()
        server.wait()
    await listening


async def prepare(plane: ControlPlane, client: Client, key: str, ports: list[int], nodes: int) -> None:
    await asyncio.to_thread(plane.define, build_crds())
    await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    account = {"name": "transom", "namespace": NAMESPACE}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    binding = {"roleRef": role, "subjects": [{"kind": "ServiceAccount", **account}], "metadata": {"name": "transom"}}
    rbac = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", **binding}
    await asyncio.to_thread(plane.apply, [{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account}, rbac])
    data = {"private-key.pem": base64.b64encode(key.encode()).decode()}
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "cloud-private-key", "namespace": NAMESPACE},
        "data": data,
    }
    await client.create(SECRETS, secret, NAMESPACE)
    await create(client, ((NODES, node(number)) for number in range(nodes)))
    await first_status(client, nodes)
    await put_proxy(client, "http://first.example:3128")
    await create(client, ((WINDOWS_INSTANCES, instance(number, port)) for number, port in enumerate(ports)))


async def beat(client: Client, numbers: Iterable[int], nodes: int, when: str, at_once: int = 16) -> None:
    """The status of nodes, as a kubelet patches it; `when` is RFC 3339, and now where it is empty."""
    waiting = iter(numbers)

    async def work() -> None:
        for number in waiting:
            beat = when or datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            path = NODES.build_path(None, f"win-{number % nodes:05}", "status")
            value = {"status": {"conditions": [{"type": "Ready", "lastHeartbeatTime": beat}]}}
            await client.request("PATCH", path, None, value, content_type="application/strategic-merge-patch+json")

    await asyncio.gather(*(work() for _ in range(at_once)))


@asynccontextmanager
async def beating(client: Client, found: Hosts, nodes: int) -> AsyncIterator[None]:
    """The kubelets of the hosts report when they were started, and now and then: a changed host counts when its Node does."""

    reporting = asyncio.Semaphore(REPORTING)

    async def go_on() -> None:
        begun = time.perf_counter()
        for reports in itertools.count(1):
            await heard((reports - 1) % len(found.ports))
            await asyncio.sleep(max(0.0, begun + REPORT_SECONDS * reports / len(found.ports) - time.perf_counter()))

    async def report(number: int) -> None:
        await asyncio.sleep(START_SECONDS)
        await heard(number)

    async def heard(number: int) -> None:
        while True:
            try:
                async with reporting:
                    return await beat(client, (number,), nodes, "", at_once=1)
            except ApiError as error:
                # as a kubelet: it asks again, and the others are none the wiser
                say(f"the kubelet of host {number} was not heard: {error}")
                await asyncio.sleep(START_SECONDS)

    async def follow() -> None:
        async with asyncio.TaskGroup() as group:
            while True:
                group.create_task(report(await found.starts.get()))

    tasks = asyncio.create_task(go_on()), asyncio.create_task(follow())
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def first_status(client: Client, nodes: int) -> None:
    waiting = iter(range(nodes))
    value = node_status("2026-11-21T10:00:00Z")

    async def work() -> None:
        for number in waiting:
            path = NODES.build_path(None, f"win-{number:05}", "status")
            await client.request("PATCH", path, None, value, content_type="application/merge-patch+json")

    await asyncio.gather(*(work() for _ in range(16)))


async def measure(
    plane: ControlPlane, client: Client, found: Hosts, nodes: int, controllers: str, *, loop: bool = False
) -> None:
    key, ports = found.key, found.ports
    count = len(ports)
    begun = time.perf_counter()
    await prepare(plane, client, key, ports, nodes)
    say(f"{nodes} nodes and {count} instances made in {time.perf_counter() - begun:.0f} s")
    private = asyncssh.import_private_key(key)
    accesses = [Access("127.0.0.1", port, keys=(Secret(key),)) for port in ports]
    bare = await over_all(accesses, lambda access: bare_change(access, private))
    say(f"bare asyncssh, two commands and 8 kB: CPU {bare.cpu:.1f} s, wall {bare.wall:.1f} s")

    say(f"one bare write to the API server: {await bare_write(client) * 1000:.1f} ms of CPU")

    operator = Operator(plane, reserve(), controllers, loop=loop)
    try:
        async with beating(client, found, nodes):
            await first_round(operator, plane, count)
            used = await change(operator, plane, client, count)
        # the machine is not the same all the time: the bare loop runs before and after
        after = await over_all(accesses, lambda access: bare_change(access, private))
        floor = (bare.cpu + after.cpu) / 2
        say(f"bare again: CPU {after.cpu:.1f} s, wall {after.wall:.1f} s; the change took {used / floor:.2f} times their mean")
        await heartbeats(operator, client, nodes)
        say(f"RSS after the load: {operator.rss():.0f} MB")
        say(operator.longest())
        operator.stop()
        path = await gathering(accesses[0], private)

        async def read(access: Access) -> None:
            await bare_check(access, private, path)

        at_once, paced = (await over_all(accesses, read)).cpu, await at_pace_of_checks(accesses, read)
        used = await checks(operator, count)
        at_once = (at_once + (await over_all(accesses, read)).cpu) / 2 / count
        paced = (paced + await at_pace_of_checks(accesses, read)) / 2 / count
        say(
            f"bare asyncssh, the script that reads a host: {paced * 1000:.1f} ms of CPU at the pace of the checks; "
            f"{used / paced:.2f} times that. {AT_ONCE} at once: {at_once * 1000:.1f} ms; {used / at_once:.2f} times that"
        )
    finally:
        operator.stop()


async def bare_write(client: Client, count: int = 500) -> float:
    """Seconds of CPU for one."""

    def events() -> Iterator[tuple[Resource[Any], dict[str, Any]]]:
        for number in range(count):
            metadata = {"name": f"bench-{number}", "namespace": NAMESPACE}
            involved = {"kind": "Namespace", "name": NAMESPACE, "namespace": NAMESPACE}
            yield (
                EVENTS,
                {"apiVersion": "v1", "kind": "Event", "metadata": metadata, "involvedObject": involved, "message": "x" * 200},
            )

    begun = time.process_time()
    await create(client, events())
    return (time.process_time() - begun) / count


async def over_all(accesses: list[Access], work: Callable[[Access], Awaitable[object]]) -> Bare:
    wall, cpu = time.perf_counter(), time.process_time()
    async for _ in run_concurrently(accesses, work, AT_ONCE, build_default=raised):
        pass
    return Bare(time.process_time() - cpu, time.perf_counter() - wall)


async def at_pace_of_checks(accesses: list[Access], work: Callable[[Access], Coroutine[Any, Any, None]]) -> float:
    """Seconds of CPU for all hosts, begun one after the other over the time between two checks, as the operator begins them.

    A host costs more at that pace than among 32 at once, whoever works on it.
    """
    cpu, begun = time.process_time(), time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for number, access in enumerate(accesses):
            await asyncio.sleep(max(0.0, begun + CHECK_SECONDS * number / len(accesses) - time.perf_counter()))
            group.create_task(work(access))
    return time.process_time() - cpu


async def gathering(access: Access, private: asyncssh.SSHKey) -> str:
    """The path of the script that the operator has put there."""
    async with bare_connection(access, private) as connection, connection.start_sftp_client() as sftp:
        names = [str(name) for name in await sftp.listdir("C:/Windows/Transom")]
    return "C:\\Windows\\Transom\\" + next(name for name in names if name.startswith("gather-"))


async def bare_check(access: Access, private: asyncssh.SSHKey, path: str) -> None:
    """The same script, and the file that it makes."""
    async with bare_connection(access, private) as connection:
        ended = await connection.run(f"cmd.exe /d /c {path}", check=True)
        directory = "C:/Windows/Transom/" + str(ended.stdout).split("transom-gather: ")[1].split()[0]
        async with connection.start_sftp_client() as sftp:
            async with sftp.open(f"{directory}/gathered", "rb") as file:
                await file.read()
            await sftp.remove(f"{directory}/gathered")
            await sftp.rmdir(directory)


async def first_round(operator: Operator, plane: ControlPlane, count: int) -> None:
    begun = time.perf_counter()
    operator.start("30m")
    await until(operator.ready, every=0.02)
    say(f"ready {time.perf_counter() - begun:.1f} s after its start, {operator.cpu():.1f} s of CPU")
    await until(lambda: done(operator, count))
    say(f"all {count} hosts done {time.perf_counter() - begun:.0f} s after its start, {operator.cpu():.1f} s of CPU")
    await asyncio.sleep(max(0.0, begun + 60 - time.perf_counter()))
    say(f"RSS {operator.rss():.0f} MB")


async def done(operator: Operator, passes: float) -> bool:
    """Whether so many passes were made and nothing waits."""
    text = await operator.metrics()
    waiting = total(text, "transom_queue_depth") + total(text, "transom_queue_working")
    return total(text, "transom_host_pass_duration_seconds_count") >= passes and waiting == 0


async def background(operator: Operator) -> float:
    """Seconds of CPU that the operator takes in a second with nothing to do: heartbeats, lease, who looks at its metrics."""
    cpu, begun = operator.cpu(), time.perf_counter()
    while time.perf_counter() - begun < BACKGROUND_SECONDS:
        await done(operator, 0)
        await asyncio.sleep(POLL_SECONDS)
    return (operator.cpu() - cpu) / (time.perf_counter() - begun)


async def change(operator: Operator, plane: ControlPlane, client: Client, count: int) -> float:
    """Seconds of CPU that it took, without what the same time takes anyway."""
    rate = await background(operator)
    before = await operator.passes()
    since = plane.get_moment()
    cpu, begun, changed = operator.cpu(), time.perf_counter(), time.time()
    await put_proxy(client, "http://second.example:3128")
    await until(lambda: done(operator, before + count))
    wall, used = time.perf_counter() - begun, operator.cpu() - cpu
    # the last hosts have to be heard of: one that is not has failed, and is looked at again
    await asyncio.sleep(10 * START_SECONDS)
    asked = requests(plane, since)
    say(
        f"one proxy change, {count} hosts: CPU {used:.1f} s, of which {rate * wall:.1f} s are what that time takes anyway; "
        f"wall {wall:.1f} s, {asked.total() / count:.2f} API requests a host; RSS {operator.rss():.0f} MB"
    )
    say("requests: " + ", ".join(f"{name} {number}" for name, number in asked.most_common()))
    ended = [f"{when - changed:.1f}" for when in operator.ended(changed)]
    say(f"seconds until hosts were done: {', '.join(ended[:: max(1, count // 20)])}, {ended[-1]}")
    return used - rate * wall


async def heartbeats(operator: Operator, client: Client, nodes: int) -> None:
    passes, cpu, begun = await operator.passes(), operator.cpu(), time.perf_counter()
    await beat(client, range(HEARTBEATS), nodes, "2026-11-21T10:01:00Z")
    wall = time.perf_counter() - begun
    await create(client, ((NODES, node(number, "joins")) for number in range(JOINING)))
    await asyncio.sleep(3)
    more = await operator.passes() - passes
    say(
        f"{HEARTBEATS} heartbeats in {wall:.0f} s and {JOINING} nodes that join: {more:.0f} passes, "
        f"CPU {operator.cpu() - cpu:.1f} s"
    )


async def checks(operator: Operator, count: int) -> float:
    """Seconds of CPU of one."""
    operator.start(f"{CHECK_SECONDS}s")
    await until(operator.ready)
    await until(lambda: done(operator, count))
    before, cpu = await operator.passes(), operator.cpu()
    await asyncio.sleep(CHECK_SECONDS * 1.2)
    made = await operator.passes() - before
    used = (operator.cpu() - cpu) / made
    say(f"periodic checks: {made:.0f} with {used * 1000:.1f} ms of CPU each")
    return used


def say(text: str) -> None:
    print(text, flush=True)


async def run(nodes: int, count: int, controllers: str, *, loop: bool) -> None:
    with tempfile.TemporaryDirectory(prefix="transom-benchmark-") as directory, ControlPlane(Path(directory)) as plane:
        async with hosts(count) as found:
            connection = connect(str(plane.kubeconfig))
            try:
                await measure(plane, Client(connection), found, nodes, controllers, loop=loop)
            finally:
                await connection.close()
                say((plane.directory / "operator.log").read_text()[-300:])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--hosts", type=int, default=1000)
    parser.add_argument("--controllers", default="egress,hosts")
    parser.add_argument("--loop", action="store_true")
    chosen = parser.parse_args()
    # this process is what the operator is compared with
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    asyncio.run(run(chosen.nodes, chosen.hosts, chosen.controllers, loop=chosen.loop))


if __name__ == "__main__":
    main()
