"""Objects that are nested as deep as Kubernetes takes, beside good ones: everybody else goes on, and they are named."""

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.kube.deep import DEEP, post_deep
from tests.support.management import manifests
from tests.support.management.apps import app, release
from tests.support.management.management import CLUSTERS, RELEASES, WHOLE_APPS, Management
from tests.support.operator.clusters import WHOLE_EVENTS, Cluster
from tests.support.operator.programs import Program
from tests.support.operator.requests import ask, holder, host, named, token, until_approved
from tests.support.waiting import until
from tests.windows.node_certificates import CLIENT_USAGES, pem

from transom.controllers.operator import Operator
from transom.kube.decoding import TOO_DEEP
from transom.manifests.roles import iter_roles
from transom.sources.api_server import load_objects
from transom.windows.nodes.node_certificates import CLIENT
from winsim import Simulator

pytestmark = pytest.mark.lab
LEVELS = 9_000
LIMIT = 384 << 20
"""Bytes: the Deployment's (transom.manifests.workloads)."""
NAMED = {"HelmRelease": "release", "App": "app", "Cluster": "cluster"}
"""What follows `deep-` and a moment in their names, by kind."""


async def post_all(management: Management, moment: str) -> None:
    """A HelmRelease, an App and a Cluster, each with a field that takes anything."""
    variables = [{"name": "any", "value": DEEP}]
    topology = {"topology": {"classRef": {"name": "prod"}, "version": "v1.36.3", "variables": variables}}
    made = manifests.cluster(f"deep-{moment}-cluster", management.org, "v1beta2")
    for resource, value in (
        (CLUSTERS, made | {"spec": made["spec"] | topology}),
        (WHOLE_APPS, app(f"deep-{moment}-app", management.org, anything=DEEP)),
        (RELEASES, release(f"deep-{moment}-release", management.org, {}, values=DEEP)),
    ):
        typed = {"apiVersion": resource.api_version, **value}
        await asyncio.to_thread(post_deep, management.control_plane, typed, resource, LEVELS)


@pytest.fixture
async def hosts(management: Management, simulator: Simulator) -> AsyncIterator[Cluster]:
    """Simulated hosts of the management cluster's own."""
    made = Cluster(management.control_plane, management.client, simulator)
    made.namespace = management.namespace
    await made.put_key()
    yield made
    await made.leave()


async def labelled(management: Management) -> None:
    """The Clusters' namespace gets what pods are given."""
    path = f"/api/v1/namespaces/{management.org}"
    value = {"metadata": {"labels": {"pods": management.org}}}
    await management.client.request("PATCH", path, None, value, content_type="application/merge-patch+json")


async def all_goes_on(management: Management, hosts: Cluster, operator: Operator, moment: str) -> None:
    """Clusters, pods, hosts and certificates: something new of each is done."""
    await management.cluster(f"good-{moment}")
    password = f"hunter2-{moment}"
    selector = {"namespaceSelector": {"matchLabels": {"pods": management.org}}}
    await management.settings(password=password, pods=selector)
    # the deep Cluster is a cluster as any other: what Transom reads of it is not deep
    for cluster in (f"good-{moment}", f"deep-{moment}-cluster"):
        await management.until_data("Secret", f"{cluster}-systemd-proxy", "shell", password)
    await management.until_data("Secret", "transom-egress", "HTTP_PROXY", password)
    simulated = await hosts.simulator.add_host()
    await hosts.instance(f"host-{moment}", simulated)
    await hosts.until(f"host-{moment}", Configured="True")
    name = f"win-{moment}"
    await host(hosts, name, "10.0.0.7" if moment == "before" else "10.0.0.8")
    await hosts.until(name, Configured="False/KeyMissing")
    async with holder(hosts, await token(hosts, operator, name)) as client:
        await ask(hosts, client, name, pem(f"system:node:{named(hosts, name)}"), CLIENT, CLIENT_USAGES)
    await until_approved(hosts, name)


async def malformed(management: Management) -> set[str]:
    """What the events of Transom's own namespace say of objects that do not fit."""
    events = await management.client.list_objects(WHOLE_EVENTS, management.namespace)
    return {item.value["message"] for item in events.items if item.value["reason"] == "ObjectMalformed"}


def wanted(management: Management, *moments: str) -> set[str]:
    return {f"{kind} {management.org}/deep-{moment}-{name}: {TOO_DEEP}" for kind, name in NAMED.items() for moment in moments}


async def test_clusters_pods_hosts_and_certificates_go_on(management: Management, hosts: Cluster) -> None:
    await asyncio.to_thread(management.control_plane.apply, list(iter_roles(management.namespace, ("certificates",))))
    await labelled(management)
    await post_all(management, "before")
    async with management.operator(controllers=None) as operator:
        await all_goes_on(management, hosts, operator, "before")
        assert await malformed(management) == wanted(management, "before")
        await post_all(management, "later")
        await all_goes_on(management, hosts, operator, "later")

        async def all_named() -> bool:
            said = await malformed(management)
            return wanted(management, "before") < said

        await until(all_named)
        found = {f"{kind} {item.metadata.metadata.name}" for kind, item in operator.informers.iter_malformed()}
        assert {f"{kind} deep-{moment}-{name}" for kind, name in NAMED.items() for moment in ("before", "later")} <= found


async def test_a_process_names_them_and_stays_within_its_memory(management: Management) -> None:
    await post_all(management, "before")
    await management.settings()
    async with Program(management) as program:
        await management.cluster("good-before")
        await management.until_data("Secret", "good-before-systemd-proxy", "shell", "HTTP_PROXY")
        await post_all(management, "later")
        await management.cluster("good-later")
        await management.until_data("Secret", "good-later-systemd-proxy", "shell", "HTTP_PROXY")
        _, metrics = await program.get("/metrics")
        for kind in NAMED:
            assert re.search(rf'^transom_objects_malformed{{kind="{kind}"}} 2.0$', metrics, re.M), metrics
        peak = re.search(r"VmHWM:\s*(\d+) kB", Path(f"/proc/{program.process.pid}/status").read_text())
        assert peak is not None
        assert int(peak[1]) << 10 < LIMIT
        assert program.process.returncode is None
        log = program.log()
    for kind, name in NAMED.items():
        for moment in ("before", "later"):
            line = next(line for line in log.splitlines() if f"deep-{moment}-{name}" in line and "object rejected" in line)
            assert kind in line
            assert TOO_DEEP in line
            assert management.org in line
    assert "Traceback" not in log
    # and commands that read a cluster once
    objects = await load_objects(management.client, management.namespace)
    assert {f"deep-{moment}-cluster" for moment in ("before", "later")} <= {
        cluster.metadata.name for cluster in objects.clusters
    }
