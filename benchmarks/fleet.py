"""The fleet controller on a real API server: `python -m benchmarks.fleet [--clusters 1000] [--changes 2]`.

The API server and the operator are processes of their own. What was written, and how fast, is in the server's audit log. The
bare loop applies the same objects with lightkube's AsyncClient, 16 at once, in a process of its own; both take turns.
"""

import argparse
import asyncio
import base64
import json
import os
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from benchmarks.operator_scale import Operator, create
from benchmarks.pairs import Pair, cpu_of_process
from lab.control_plane import ControlPlane, Moment
from lab.ports import reserve

from lab import cluster_api
from transom.kube.client import Client
from transom.kube.connection import connect
from transom.kube.objects import UnstructuredObject
from transom.kube.resources import CONFIG_MAPS, EGRESS_PROXIES, NAMESPACES, SECRETS, Resource
from transom.manifests.definitions import build_crds
from transom.manifests.roles import iter_roles
from transom.operations.logs import configure

NAMESPACE = "transom-system"
ORGANIZATIONS = 20
CLUSTERS = Resource("cluster.x-k8s.io", "v1beta2", "Cluster", "clusters", True, UnstructuredObject)
SELECTOR = "app.kubernetes.io/managed-by=transom,giantswarm.io/cluster"
AT_ONCE = 16
SHORT, SHORT_CHANGES = 150, 3
CONTROLLERS = ("egress", "clusters")


def cluster(number: int) -> dict[str, Any]:
    """A Cluster as a chart makes it, with the annotation that kubectl leaves."""
    network = {"services": {"cidrBlocks": ["10.96.0.0/12"]}, "pods": {"cidrBlocks": [f"10.{number % 200}.0.0/16"]}}
    metadata = {
        "name": f"c{number:04}",
        "namespace": f"org-{number % ORGANIZATIONS}",
        "labels": {f"example.com/label-{index}": "x" * 20 for index in range(8)},
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "x" * 2000},
    }
    endpoint = {"host": f"10.200.{number // 250}.{number % 250}", "port": 6443}
    spec = {"clusterNetwork": network | {"serviceDomain": "cluster.local"}, "controlPlaneEndpoint": endpoint}
    return {"apiVersion": CLUSTERS.api_version, "kind": "Cluster", "metadata": metadata, "spec": spec}


def settings(port: int) -> dict[str, Any]:
    spec = {
        "httpProxy": f"http://proxy.corp.example:{port}",
        "httpsProxy": f"http://proxy.corp.example:{port}",
        "noProxy": "172.16.0.0/16,internal.corpdomain.net,example.com",
        "credentialsSecret": {"name": "egress-credentials"},
        "clusterSelector": {},
    }
    metadata = {"name": "cluster"}
    return {"apiVersion": EGRESS_PROXIES.api_version, "kind": EGRESS_PROXIES.kind, "metadata": metadata, "spec": spec}


def writes(plane: ControlPlane, since: Moment | None, agent: str) -> list[dict[str, Any]]:
    """The requests by which a client changed something in the organizations' namespaces."""
    return [entry for entry in _changes(plane, since, agent) if entry["objectRef"].get("namespace", "").startswith("org-")]


def told(plane: ControlPlane, since: Moment | None) -> Counter[str]:
    """How many events the operator made or counted up, and how often it wrote the status of the settings."""
    found = Counter(entry["objectRef"]["resource"] for entry in _changes(plane, since, "transom"))
    return Counter({kind: found[kind] for kind in ("events", "egressproxies")})


def _changes(plane: ControlPlane, since: Moment | None, agent: str) -> Iterator[dict[str, Any]]:
    for entry in plane.read_audit(since):
        changes = entry["verb"] in ("create", "patch", "update", "delete") and entry["stage"] == "ResponseComplete"
        if changes and entry.get("objectRef") and entry["userAgent"].startswith(agent):
            yield entry


def rate(entries: list[dict[str, Any]]) -> float:
    """Requests a second, from the first to the last."""
    times = sorted(_seconds(entry["requestReceivedTimestamp"]) for entry in entries)
    return (len(times) - 1) / (times[-1] - times[0])


def _seconds(stamp: str) -> float:
    from datetime import datetime

    return datetime.fromisoformat(stamp).timestamp()


async def quiet(plane: ControlPlane, least: int, since: Moment | None) -> list[dict[str, Any]]:
    """Wait until the operator has written at least so much, and then nothing for three seconds."""
    while True:
        before = writes(plane, since, "transom")
        await asyncio.sleep(3)
        after = writes(plane, since, "transom")
        if len(after) >= least and len(after) == len(before):
            return after


@asynccontextmanager
async def running(count: int) -> AsyncIterator[tuple[Client, ControlPlane, Operator]]:
    """An API server with so many clusters, and an operator that has written their objects."""
    with ControlPlane() as plane:
        plane.apply(build_crds())
        cluster_api.define(plane)
        connection = connect(str(plane.kubeconfig))
        client = Client(connection)
        await prepare(client, plane, count)
        port = reserve()
        os.environ["TRANSOM_CONTROLLERS"] = ",".join(CONTROLLERS)
        operator = Operator(plane, port)
        began = time.monotonic()
        operator.start("30m")
        try:
            await ready_again(operator)
            say(f"ready after {time.monotonic() - began:.1f} s, {operator.cpu():.1f} s of CPU")
            made = await quiet(plane, 3 * count, None)
            told = f"RSS {operator.rss():.0f} MB; CPU {operator.cpu():.1f} s"
            say(f"first: {len(made):,} objects at {rate(made):.0f}/s; {told}")
            yield client, plane, operator
        finally:
            operator.stop()
            await connection.close()


async def main(count: int, changes: int) -> None:
    async with running(count) as (client, plane, operator):
        for turn in range(changes):
            await one_change(client, plane, operator, 3129 + turn, count)
            await one_loop(client, plane, turn)
        say(f"RSS {operator.rss():.0f} MB after the load")
        operator.stop()
        since = plane.get_moment()
        # the bare loop's values are not those of the settings: put right first
        operator.start("30m")
        await quiet(plane, 0, since)
        operator.stop()
        since, began = plane.get_moment(), time.monotonic()
        operator.start("30m")
        await ready_again(operator)
        ready = time.monotonic() - began
        await asyncio.sleep(20)
        again = writes(plane, since, "transom")
        say(f"restart: ready after {ready:.1f} s, {len(again)} writes; RSS {operator.rss():.0f} MB")


def pairs() -> Iterator[Pair]:
    """CPU of the operator for a change of some clusters, beside the bare loop's."""
    configure("console", "warning")
    yield from asyncio.run(_pairs())


async def _pairs() -> list[Pair]:
    made = []
    async with running(SHORT) as (client, plane, operator):
        for turn in range(SHORT_CHANGES):
            ours = await one_change(client, plane, operator, 3129 + turn, SHORT)
            made.append(Pair("a change of the settings of workload clusters", ours, await one_loop(client, plane, turn)))
    return made


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


async def ready_again(operator: Operator) -> None:
    while not await operator.ready():  # noqa: ASYNC110  # it is asked over HTTP
        await asyncio.sleep(0.05)


async def prepare(client: Client, plane: ControlPlane, count: int) -> None:
    names = (NAMESPACE, *(f"org-{number}" for number in range(ORGANIZATIONS)))
    await create(
        client, ((NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}) for name in names)
    )
    plane.apply(list(iter_roles(NAMESPACE, CONTROLLERS)))
    data = {"username": "alice", "password": "hunter2%&+"}
    encoded = {key: base64.b64encode(text.encode()).decode() for key, text in data.items()}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "egress-credentials", "namespace": NAMESPACE}}
    await create(client, [(SECRETS, secret | {"data": encoded}), (EGRESS_PROXIES, settings(3128))])
    await create(client, ((CLUSTERS, cluster(number)) for number in range(count)))


async def one_change(client: Client, plane: ControlPlane, operator: Operator, port: int, count: int) -> float:
    """A new port of the base's proxy: the Secrets change, and the ConfigMaps that note what is in them. Seconds of CPU."""
    since, cpu = plane.get_moment(), cpu_of_process(operator.pid)
    await client.patch(EGRESS_PROXIES, {"spec": settings(port)["spec"]}, "cluster")
    made = await quiet(plane, 3 * count, since)
    used = cpu_of_process(operator.pid) - cpu
    times = Counter((item["objectRef"]["resource"], item["objectRef"]["namespace"], item["objectRef"]["name"]) for item in made)
    kinds = Counter(resource for resource, _, _ in times)
    say(
        f"change: {len(made):,} writes of {len(times):,} objects {dict(kinds)}, {sum(n > 1 for n in times.values())} by two, "
        f"{sum(item.get('responseStatus', {}).get('code', 0) > 299 for item in made)} refused; "
        f"{rate(made):.0f}/s; CPU {used:.1f} s"
    )
    said = told(plane, since)
    say(f"told: {said['events']} events, {said['egressproxies']} writes of the status of the settings")
    return used


async def one_loop(client: Client, plane: ControlPlane, turn: int) -> float:
    """The same objects, applied by lightkube in a process of its own, with another value each. Seconds of CPU."""
    objects = [obj for resource in (SECRETS, CONFIG_MAPS) for obj in await _objects(client, resource, turn)]
    file = plane.directory / "objects.json"
    file.write_text(json.dumps(objects))
    since = plane.get_moment()
    # as the same user: an administrator's requests pass the server's queues
    kubeconfig = plane.write_kubeconfig("bare", plane.create_service_account_token(NAMESPACE, "transom"))
    command = [sys.executable, "-m", "benchmarks.fleet", "--bare", str(file), "--kubeconfig", str(kubeconfig)]
    done = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    output, _ = await done.communicate()
    made = writes(plane, since, "bare")
    say(f"bare loop: {len(made):,} writes; {rate(made):.0f}/s; CPU {float(output):.1f} s")
    return float(output)


async def _objects(client: Client, resource: Resource[UnstructuredObject], turn: int) -> list[dict[str, Any]]:
    listing = await client.list_objects(resource, labels=SELECTOR)
    return [dict(_bare(resource, item.value, turn)) for item in listing.items]


def _bare(resource: Resource[UnstructuredObject], value: dict[str, Any], turn: int) -> Iterator[tuple[str, Any]]:
    meta = value["metadata"]
    kept = {key: meta[key] for key in ("name", "namespace", "labels", "ownerReferences")}
    # an annotation beside the data: applied objects change, and the operator's own fields stay
    kept["annotations"] = {"benchmark": f"turn {turn}"}
    yield from {"apiVersion": "v1", "kind": resource.kind, "metadata": kept, "data": value["data"]}.items()


async def bare_loop(given: str, kubeconfig: str) -> None:
    """Apply all objects of a text, 16 at once; print the seconds of CPU that it took."""
    import lightkube
    from lightkube.resources.core_v1 import ConfigMap, Secret

    config = lightkube.KubeConfig.from_file(kubeconfig)
    client = lightkube.AsyncClient(config, field_manager="bare", trust_env=False)
    client._client._client.headers["User-Agent"] = "bare"
    kinds = {"Secret": Secret, "ConfigMap": ConfigMap}
    waiting = iter([kinds[load["kind"]].from_dict(load) for load in json.loads(given)])
    began = time.process_time()

    async def work() -> None:
        for item in waiting:
            await client.apply(item, force=True)

    await asyncio.gather(*(work() for _ in range(AT_ONCE)))
    print(time.process_time() - began)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--clusters", type=int, default=1000)
    parser.add_argument("--changes", type=int, default=2)
    parser.add_argument("--bare", type=Path)
    parser.add_argument("--kubeconfig", default=os.devnull)
    chosen = parser.parse_args()
    if chosen.bare:
        asyncio.run(bare_loop(chosen.bare.read_text(), chosen.kubeconfig))
    else:
        configure("console", "warning")
        asyncio.run(main(chosen.clusters, chosen.changes))
