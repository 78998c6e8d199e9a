"""What an admission review costs beside a bare handler: `python -m benchmarks.webhook [--namespaces 1000] [--seconds 10]`.

Both servers are processes of their own behind TLS, asked in turns by an open loop: a request is sent when its time has come,
whether the ones before it were answered or not, and its time counts from then. CPU and memory are each server's alone. With
`--most` only how many requests a second each answers on one core, asked from another one.
"""

import argparse
import asyncio
import base64
import json
import os
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web
from benchmarks.load import FEW, PATIENCE, Loop, Order, Target, connected, measured
from benchmarks.pairs import Pair, cpu_of_process, rss_of_process
from lab.authority import Authority
from lab.control_plane import ControlPlane
from tests.support.bundles import certificate

from transom.manifests.admission import iter_admission_roles
from transom.manifests.definitions import build_crds
from transom.manifests.workloads import ENVIRONMENT

ROOT = Path(__file__).parent.parent
OWN = "transom-system"
RATE = 100
BEGIN, STEP = 400.0, 1.1
"""Requests a second that are asked for first, and so many times as many each time after that."""
TRIES = 3
"""A rate is too high when it was so often: once may be the machine's."""
ROUNDS = 4
SHORT_ROUNDS, SHORT_NAMESPACES = 7, 100
IDLE = 15.0
"""Seconds for what is used without requests, which is not counted as theirs."""
PORTS = {"bare": 19441, "transom": 19443}
METRICS_PORT = 19444


class BareRequest(msgspec.Struct):
    uid: str
    object: dict[str, Any]


class BareReview(msgspec.Struct):
    request: BareRequest


async def bare(directory: str) -> None:
    """aiohttp and msgspec: decode the review, answer it."""
    decode, encode = msgspec.json.Decoder(BareReview).decode, msgspec.json.Encoder().encode

    async def handle(request: web.Request) -> web.Response:
        review = decode(await request.read())
        response = {"uid": review.request.uid, "allowed": True}
        answer = encode({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
        return web.Response(body=answer, content_type="application/json")

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(f"{directory}/server.crt", f"{directory}/server.key")
    app = web.Application()
    app.router.add_post("/pods", handle)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", PORTS["bare"], ssl_context=context).start()
    await asyncio.Event().wait()


def body() -> bytes:
    """A review of a Deployment's pod with three containers: 5 kB."""
    containers = [
        {
            "name": f"container-{number}",
            "image": "registry.corp.example/team/service:1.2.3",
            "env": [{"name": f"VARIABLE_{index}", "value": "x" * 24} for index in range(8)],
            "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "100m", "memory": "128Mi"}},
            "volumeMounts": [{"name": "token", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": True}],
            "terminationMessagePath": "/dev/termination-log",
            "imagePullPolicy": "IfNotPresent",
        }
        for number in range(3)
    ]
    metadata = {
        "generateName": "web-5d4c7b9f6d-",
        "namespace": "namespace-0007",
        "labels": {f"example.com/label-{index}": "x" * 20 for index in range(6)},
        "annotations": {f"example.com/annotation-{index}": "x" * 60 for index in range(6)},
        "managedFields": [{"manager": "kube-controller-manager", "fieldsV1": {f"f:field-{n}": {"f:x": {}} for n in range(40)}}],
    }
    token = [{"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}]
    spec = {"containers": containers, "volumes": [{"name": "token", "projected": {"sources": token, "defaultMode": 420}}]}
    request = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": "namespace-0007",
        "operation": "CREATE",
        "userInfo": {"username": "system:serviceaccount:kube-system:replicaset-controller", "groups": ["system:authenticated"]},
        "object": {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec},
        "oldObject": None,
        "dryRun": False,
    }
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()


def percentile(took: list[float], share: float) -> float:
    """In milliseconds."""
    return took[min(len(took) - 1, int(len(took) * share))] * 1000


def prepare(plane: ControlPlane, namespaces: int) -> None:
    def named(name: str) -> dict[str, Any]:
        labels = {f"example.com/label-{index}": "x" * 20 for index in range(5)}
        return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}

    plane.define([*build_crds(), named(OWN), *iter_admission_roles(OWN)])
    for number in range(namespaces):
        plane.request("POST", "/api/v1/namespaces", named(f"namespace-{number:04}"))
    meta = {"name": "egress-credentials", "namespace": OWN}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "stringData": {"username": "a", "password": "hunter2"}}
    spec = {
        "httpProxy": "http://proxy.corp.example:3128",
        "httpsProxy": "http://proxy.corp.example:3128",
        "noProxy": ".corp.example,10.0.0.0/8",
        "credentialsSecret": {"name": "egress-credentials"},
        "pods": {"namespaceSelector": {}},
    }
    data = {f"namespace-{number:04}": base64.b64encode(b"x" * 64).decode() for number in range(namespaces)}
    ledger = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "transom-pods", "namespace": OWN}, "data": data}
    plane.request("POST", f"/api/v1/namespaces/{OWN}/secrets", ledger)
    base = {"apiVersion": "transom.dev/v1alpha1", "kind": "EgressProxy", "metadata": {"name": "cluster"}, "spec": spec}
    plane.apply([secret, base])


def started(plane: ControlPlane, log: Path) -> subprocess.Popen[bytes]:
    kubeconfig = plane.write_kubeconfig("webhook", plane.create_service_account_token(OWN, "transom-webhook"))
    flags = {
        "kubeconfig": kubeconfig,
        "url": f"https://127.0.0.1:{PORTS['transom']}",
        "bind-address": f"127.0.0.1:{PORTS['transom']}",
        "metrics-bind-address": f"127.0.0.1:{METRICS_PORT}",
        "log-level": "debug",
    }
    command = [sys.executable, "-m", "transom", "webhook", *(f"--{name}={value}" for name, value in flags.items())]
    return subprocess.Popen(command, cwd=ROOT, env=os.environ | ENVIRONMENT, stderr=log.open("wb"))


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(120):
        while not condition():  # noqa: ASYNC110  # a file of another process
            await asyncio.sleep(0.2)


class Servers(msgspec.Struct, frozen=True):
    """Both, running: their processes, and the authorities of each; `log` is that of the admission server."""

    plane: ControlPlane
    log: Path
    processes: dict[str, subprocess.Popen[bytes]]
    trusted: dict[str, str]
    loops: dict[str, Loop] = {}

    def cpu(self, name: str) -> float:
        """Seconds so far."""
        return cpu_of_process(self.processes[name].pid)

    def rss(self, name: str = "transom") -> float:
        """MB."""
        return rss_of_process(self.processes[name].pid) / 1e6

    def pin(self, cores: Iterable[int]) -> None:
        """Have them work on these cores alone."""
        for process in self.processes.values():
            for thread in Path(f"/proc/{process.pid}/task").iterdir():
                os.sched_setaffinity(int(thread.name), cores)

    def target(self, name: str) -> Target:
        """Where it is asked."""
        return Target(PORTS[name], self.trusted[name], body().decode())

    async def ask(self, name: str, seconds: float) -> list[float]:
        """Seconds that each request took, sorted."""
        return await self.loops[name].ask(RATE, seconds)

    async def idle(self) -> dict[str, float]:
        """Seconds of CPU that each takes in a second without requests."""
        before = {name: self.cpu(name) for name in PORTS}
        await asyncio.sleep(IDLE)
        return {name: (self.cpu(name) - before[name]) / IDLE for name in PORTS}

    async def cost(self, name: str, seconds: float, idle: dict[str, float]) -> tuple[float, list[float]]:
        """Seconds of CPU of one request, without what the time takes anyway, and what each took."""
        began, used = time.perf_counter(), self.cpu(name)
        took = await self.ask(name, seconds)
        return (self.cpu(name) - used - idle[name] * (time.perf_counter() - began)) / len(took), took

    async def trust(self) -> None:
        """The settings name a bundle from now on."""
        data = {"ca-bundle.crt": certificate("Egress CA")}
        bundle = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "corp-ca", "namespace": OWN}, "data": data}
        self.plane.apply([bundle])
        base = "/apis/transom.dev/v1alpha1/egressproxies/cluster"
        change = {"spec": {"trustedCA": {"name": "corp-ca"}}}
        self.plane.request("PATCH", base, change, content_type="application/merge-patch+json")
        await until(lambda: '"trust": true' in self.log.read_text())


@asynccontextmanager
async def servers(namespaces: int) -> AsyncIterator[Servers]:
    """Both, once the admission server has registered itself."""
    with tempfile.TemporaryDirectory() as place, ControlPlane() as plane:
        authority = Authority(Path(place))
        authority.issue("server", "bare", addresses=("127.0.0.1",))
        prepare(plane, namespaces)
        log = plane.directory / "webhook.log"
        bare_process = subprocess.Popen([sys.executable, "-m", "benchmarks.webhook", "--bare", place], cwd=ROOT)  # noqa: ASYNC220
        processes = {"bare": bare_process, "transom": started(plane, log)}
        try:
            await until(lambda: '"registered"' in log.read_text())
            held = json.loads(plane.run_kubectl("get", "secret", "-n", OWN, "transom-webhook", "-o", "json"))["data"]
            trusted = {"bare": authority.certificate_file.read_text(), "transom": base64.b64decode(held["ca.crt"]).decode()}
            both = Servers(plane, log, processes, trusted)
            async with AsyncExitStack() as stack:
                for name in PORTS:
                    both.loops[name] = await stack.enter_async_context(connected(both.target(name), FEW))
                yield both
        finally:
            for process in processes.values():
                process.terminate()
                process.wait(30)


async def measure(namespaces: int, seconds: float) -> list[tuple[str, str, str]]:
    async with servers(namespaces) as both:
        before = both.rss()
        spent, took = {name: list[float]() for name in PORTS}, {name: list[float]() for name in PORTS}
        for name in PORTS:
            await both.ask(name, 2)
        idle = await both.idle()
        for _ in range(ROUNDS):
            for name in PORTS:
                cost, some = await both.cost(name, seconds, idle)
                spent[name].append(cost)
                took[name] += some
        memory, reference = both.rss(), both.rss("bare")
        relisted = await during_a_relist(both, seconds)
        memory = max(memory, both.rss())
        await both.trust()
        await both.ask("transom", 2)
        trusting = both.rss()
    each = {name: statistics.mean(spent[name]) * 1e6 for name in PORTS}
    ours, theirs = (percentile(sorted(took[name]), 0.99) for name in ("transom", "bare"))
    again = percentile(relisted, 0.99)
    ratio = each["transom"] / each["bare"]
    return [
        ("CPU of a request", f"{each['transom']:.0f} µs; bare {each['bare']:.0f} µs: {ratio:.2f} times", "1.10 times"),
        ("CPU without requests: the lease, ten watches", f"{idle['transom'] * 1000:.1f} ms a second", ""),
        ("p99 of a request", f"{ours:.1f} ms; bare {theirs:.1f} ms: {ours / theirs:.2f} times", "2 times"),
        (f"p99 while {namespaces:,} namespaces are listed anew", f"{again:.1f} ms: {again / ours:.2f} times", "3 times"),
        (f"RSS with {namespaces:,} namespaces, before and after the load", f"{before:.1f} MB, {memory:.1f} MB", "45 MB"),
        ("the same with a `trustedCA`; bare", f"{trusting:.1f} MB; {reference:.1f} MB", "50 MB"),
        ("size of a review", f"{len(body()):,} bytes", ""),
    ]


def pairs() -> Iterator[Pair]:
    yield from asyncio.run(_pairs())


async def _pairs() -> list[Pair]:
    async with servers(SHORT_NAMESPACES) as both:
        for name in PORTS:
            await both.ask(name, 1)
        idle, made = await both.idle(), []
        for number in range(SHORT_ROUNDS):
            cost = {name: (await both.cost(name, 2, idle))[0] for name in (PORTS if number % 2 else reversed(PORTS))}
            made.append(Pair("a request of the admission server", cost["transom"], cost["bare"]))
        made.append(Pair("memory of the admission server", both.rss(), both.rss("bare")))
    return made


async def most(both: Servers, seconds: float) -> tuple[str, str, str]:
    """The most requests a second, in steps, of which 99 of 100 are answered within 20 ms: a row."""
    cores = sorted(os.sched_getaffinity(0))
    served, asking = cores[0], cores[1] if len(cores) > 1 else None
    both.pin({served})
    reached, busy = dict.fromkeys(PORTS, 0.0), 0.0
    rate, number, asked = BEGIN, 0, list(PORTS)
    while asked:
        passed = []
        for name in asked if number % 2 else reversed(asked):
            for _ in range(TRIES):
                done = await measured(Order(both.target(name), rate, seconds, asking))
                print(f"{rate:,.0f}/s, {name}: p99 {done.p99 * 1000:.1f} ms; who asks worked {done.busy:.0%}", file=sys.stderr)
                if done.p99 <= PATIENCE:
                    reached[name], busy = rate, max(busy, done.busy)
                    passed.append(name)
                    break
        rate, number, asked = rate * STEP, number + 1, passed
    both.pin(cores)
    ratio = reached["transom"] / max(reached["bare"], 1.0)
    told = f"{reached['transom']:,.0f}; bare {reached['bare']:,.0f}: {ratio:.2f} times; who asks worked {busy:.0%} of the time"
    return "requests a second on one core until p99 is 20 ms", told, "0.8 times"


async def most_alone(namespaces: int, seconds: float) -> tuple[str, str, str]:
    """The same, of servers that did nothing else."""
    async with servers(namespaces) as both:
        return await most(both, seconds)


async def during_a_relist(both: Servers, seconds: float) -> list[float]:
    """The API server is started anew, and what was watched is too old for it: everything is listed again."""

    def lists() -> int:
        return sum(1 for line in both.log.read_text().splitlines() if '"listed"' in line and '"Namespace"' in line)

    before = lists()
    asking = asyncio.create_task(both.ask("transom", max(seconds, 20)))
    await asyncio.sleep(1)
    await asyncio.to_thread(both.plane.kill, "kube-apiserver")
    await asyncio.to_thread(both.plane.compact)
    await asyncio.to_thread(both.plane.start_apiserver)
    took = await asking
    await until(lambda: lists() > before)
    return took


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--namespaces", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--step", type=float, default=3, help="seconds at each rate")
    parser.add_argument("--most", action="store_true", help="only: requests a second on one core until p99 is 20 ms")
    parser.add_argument("--bare")
    arguments = parser.parse_args()
    if arguments.bare:
        asyncio.run(bare(arguments.bare))
        return
    print("| what | measured | goal |\n|---|---|---|")
    rows = [] if arguments.most else asyncio.run(measure(arguments.namespaces, arguments.seconds))
    for row in (*rows, asyncio.run(most_alone(arguments.namespaces, arguments.step))):
        print(f"| {' | '.join(row)} |")


if __name__ == "__main__":
    main()
