"""Transom upgraded from its last release, and brought back to it: two wheels as processes, each with its manifests' rights."""

import asyncio
import json
import re
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from lab.control_plane import ControlPlane
from lab.releases import Wheel
from tests.support.operator.bundles import ROOT_1
from tests.support.operator.clusters import PROXY, Cluster, admin, environment
from tests.support.operator.kubelets import Kubelets
from tests.support.operator.nodes import SUBNET, bare, published
from tests.support.operator.packages import OWN, Installed
from tests.support.operator.programs import Program
from tests.support.operator.replicas import BASE, changes, generation, leads
from tests.support.waiting import until
from tests.support.workers.hosts import everything_of
from tests.support.workers.payloads import write

from lab import releases
from transom.kube.resources import EGRESS_PROXIES, WINDOWS_INSTANCES
from transom.manifests.definitions import build_crds
from winsim import Host, Simulator

pytestmark = pytest.mark.lab
OTHER = "http://other.corp.example:3128"
ASKS = rf"{BASE}\gather-"
NAMES = ("win-0", "win-1")
NETWORKS = {"serviceNetwork": ["10.96.0.0/16"], "podNetwork": ["10.244.0.0/16"]}
PASSES = re.compile(r'transom_host_pass_duration_seconds_count\{result="(\w+)"\} ([\d.]+)')


@pytest.fixture
async def installed(control_plane: ControlPlane, simulator: Simulator, tmp_path: Path) -> AsyncIterator[Installed]:
    found = control_plane.read_revision()
    async with admin(control_plane) as client:
        yield Installed(control_plane, Cluster(control_plane, client, simulator), tmp_path)
    control_plane.restore(found)
    control_plane.define(build_crds())


async def test_not_one_write_to_a_host_from_the_version_alone(installed: Installed, tmp_path: Path) -> None:
    """There and back, with the release's admission server beside the newer operator, and an edit of the settings in between."""
    release, newer = await asyncio.to_thread(releases.build_latest), await asyncio.to_thread(releases.build_current)
    assert release.run("--version") != newer.run("--version")
    cluster, payload = installed.cluster, str(write(tmp_path / "payload"))
    kubelets = Kubelets(cluster)
    await applied(installed, release)
    async with (
        kubelets.running(),
        await installed.webhook(release),
        await installed.program("transom", release, payload=payload) as first,
    ):
        hosts = await configured(cluster, kubelets)
        await applied(installed, newer)
        async with await installed.program("transom", newer, payload=payload) as second:
            assert await taken_over(cluster, hosts, first, second) == {"unchanged"}
            await edited(installed, hosts)
            await applied(installed, release)
            async with await installed.program("transom", release, payload=payload) as third:
                done = await taken_over(cluster, hosts, second, third)
                # a ledger that the release does not understand is refused in words
                if done != {"unchanged"}:
                    assert done == {"failed"}
                    told = [json.dumps(item["status"]) for item in await objects_of(cluster) if item["kind"] != "EgressProxy"]
                    assert all("update Transom" in status for status in told)


async def applied(installed: Installed, wheel: Wheel) -> None:
    """What `transom manifests` of a wheel prints; what there is of objects keeps all of its fields."""
    text = await asyncio.to_thread(wheel.run, "manifests", "--image", f"registry.example/transom:{wheel.version}")
    objects = [item for item in yaml.load_all(text, yaml.CSafeLoader) if item]
    defined = [obj for obj in objects if obj["kind"] == "CustomResourceDefinition"]
    await asyncio.to_thread(installed.plane.define, defined)
    await asyncio.to_thread(installed.plane.apply, [obj for obj in objects if obj not in defined])


async def settings(cluster: Cluster, proxy: str) -> None:
    trusted = {"trustedCA": {"name": "corp-ca"}}
    await cluster.proxy(httpProxy=proxy, httpsProxy=proxy, noProxy=".corp.example", networks=NETWORKS, **trusted)


async def configured(cluster: Cluster, kubelets: Kubelets) -> list[Host]:
    """A host that has proxy and CA, and one that is a node besides."""
    await cluster.put_key()
    await cluster.bundle(ROOT_1)
    await published(cluster)
    await settings(cluster, PROXY)
    hosts = [await cluster.simulator.add_host(), await bare(cluster, "win")]
    await cluster.instance(NAMES[0], hosts[0])
    await cluster.instance(NAMES[1], hosts[1], lifecycle="Node")
    await cluster.until(NAMES[1], NodeReady="False/Registering")
    await kubelets.join(hosts[1], **SUBNET)
    await quiet(cluster)
    return hosts


async def edited(installed: Installed, hosts: list[Host]) -> None:
    """Another proxy: hosts and new pods have it."""
    await settings(installed.cluster, OTHER)
    for host in hosts:
        await until(lambda host=host: f"HTTPS_PROXY={OTHER}" in environment(host, "kubelet"))
    await installed.until_pods_start(injected=True, proxy=OTHER)
    await quiet(installed.cluster)


async def quiet(cluster: Cluster) -> None:
    """Until there is nothing left to do."""
    for name in NAMES:
        await cluster.until(name, Configured="True/UpToDate", ProxyApplied="True", TrustApplied="True", Ready="True")
    await cluster.wait_ready()
    await cluster.wait_ready("egressproxy/cluster", "--for=condition=PodsInjected")


def written(host: Host) -> tuple[set[str], set[str], int]:
    """Files, registry, and how often anything was changed. The script that asks is there anew where other things are asked."""
    files, values = everything_of(host)
    return {file for file in files if not file.startswith(ASKS)}, values, changes(host)


async def objects_of(cluster: Cluster) -> list[dict[str, Any]]:
    """Settings and instances: what people wrote, what Transom marked, what it says of them, but for times and words."""
    instances = (await cluster.client.list_objects(WINDOWS_INSTANCES, OWN)).items
    held = [*instances, await cluster.client.get(EGRESS_PROXIES, "cluster")]
    found = [{name: item.value[name] for name in ("kind", "spec", "status")} for item in held]
    for one, whole in zip(found, held, strict=True):
        for name in ("lastChecked", "changes"):
            one["status"].pop(name, None)
        for condition in one["status"]["conditions"]:
            del condition["lastTransitionTime"], condition["message"]
        one |= {"finalizers": whole.metadata.finalizers, "annotations": whole.metadata.annotations}
    return found


async def are(cluster: Cluster, objects: list[dict[str, Any]]) -> bool:
    return await objects_of(cluster) == objects


async def taken_over(cluster: Cluster, hosts: list[Host], former: Program, next_: Program) -> set[str]:
    """The lease goes from one operator to the next, who looks at each host and writes to none; what came of its passes."""
    before, objects, term = [*map(written, hosts)], await objects_of(cluster), await generation(cluster)
    await until(lambda: is_ready(next_))
    assert await former.terminate() == 0
    await leads(cluster, next_)
    assert await generation(cluster) == term + 1
    await until(lambda: read(next_, len(hosts)))
    done = set(await passes(next_))
    assert [*map(written, hosts)] == before
    if done == {"unchanged"}:
        await until(lambda: are(cluster, objects))
    return done


async def is_ready(program: Program) -> bool:
    return (await program.get("/readyz"))[0] == 200


async def passes(program: Program) -> Counter[str]:
    """How many there were on hosts, by result."""
    return +Counter({result: int(float(count)) for result, count in PASSES.findall((await program.get("/metrics"))[1])})


async def read(program: Program, least: int) -> bool:
    found = await passes(program)
    return found["unchanged"] + found["failed"] >= least
