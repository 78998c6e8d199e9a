"""Uninstall: by the command and by the lines that the page prints, from a kubeconfig whose namespace is another one."""

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path

import pytest
from lab.control_plane import ControlPlane
from tests.support.management import manifests
from tests.support.management.management import CLUSTERS
from tests.support.operator.clusters import PROXY, Cluster, admin, environment
from tests.support.operator.nodes import QUICK, SUBNET, bare, node_of, published, registered
from tests.support.repository import ROOT
from tests.support.waiting import PATIENCE, until
from tests.support.workers.hosts import everything_of
from tests.support.workers.payloads import write

from lab import cluster_api
from transom.kube.errors import NotFound
from transom.kube.objects import UnstructuredObject
from transom.kube.resources import CONFIG_MAPS, EGRESS_PROXIES, NAMESPACES, NODES, SECRETS, WINDOWS_INSTANCES, Resource
from transom.manifests.definitions import build_crds
from transom.windows.host.queries import LEDGER
from winsim import Host, Simulator

pytestmark = pytest.mark.lab
GIVEN_BACK, LEFT = "Restore the hosts", "Keep the hosts unchanged"


@pytest.fixture(scope="module")
def own_plane() -> Iterator[ControlPlane]:
    with ControlPlane() as running:
        yield running


@pytest.fixture(scope="module")
def with_cluster_api(own_plane: ControlPlane) -> None:
    """Its kinds stay when Transom goes."""
    cluster_api.define(own_plane)


@pytest.fixture
async def installed(own_plane: ControlPlane, simulator: Simulator) -> AsyncIterator[Cluster]:
    """On an API server whose definitions go with Transom."""
    own_plane.define(build_crds())
    async with admin(own_plane) as client:
        made = Cluster(own_plane, client, simulator)
        await made.prepare()
        await made.merge(NAMESPACES, made.namespace, {"metadata": {"labels": {"app.kubernetes.io/name": "transom"}}})
        yield made


async def hosts(cluster: Cluster) -> list[Host]:
    made = [await cluster.simulator.add_host() for _ in range(2)]
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY)
    for number, host in enumerate(made):
        await cluster.instance(f"win-{number}", host)
    return made


def printed(title: str) -> str:
    """The lines of the page below a title."""
    page = (ROOT / "docs" / "uninstall.md").read_text("utf-8")
    found = re.search(rf"### {title}\n.*?```\n(.*?)```", page, re.DOTALL)
    assert found is not None
    return found[1]


async def carried_out(cluster: Cluster, *command: str) -> tuple[int, str]:
    plane = cluster.control_plane
    # Transom's programs and kubectl, for whoever has this kubeconfig: its namespace is `default`
    path = os.pathsep.join((str(Path(sys.executable).parent), str(plane.programs), os.environ["PATH"]))
    settings = {"PATH": path, "KUBECONFIG": str(plane.kubeconfig), "HOME": str(plane.directory)}
    process = await asyncio.create_subprocess_exec(
        *command,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=settings | {"TRANSOM_NAMESPACE": cluster.namespace},
    )
    async with asyncio.timeout(120):
        said, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, said.decode()


def uninstall(cluster: Cluster, title: str, by: str) -> list[str]:
    """The command, or the lines of the page."""
    if by == "page":
        return ["bash", "-euo", "pipefail", "-c", printed(title).replace("transom-system", cluster.namespace)]
    leaves = ["--leave-hosts"] if title == LEFT else []
    return ["transom", "uninstall", "--context", "lab", "-n", cluster.namespace, *leaves]


async def nothing_left(cluster: Cluster) -> None:
    """No kind of Transom's: the API server serves one for a moment after its definition has gone."""

    async def is_gone(kind: str) -> bool:
        try:
            await cluster.client.request("GET", f"/apis/transom.dev/v1alpha1/{kind}")
        except NotFound:
            return True
        return False

    for kind in ("egressproxies", "windowsinstances"):
        await until(partial(is_gone, kind))
    found = await cluster.client.get(NAMESPACES, cluster.namespace)
    assert found.metadata.deletion_timestamp is not None


@pytest.mark.parametrize("by", ["command", "page"])
@pytest.mark.parametrize("title", [GIVEN_BACK, LEFT])
async def test_each_way(installed: Cluster, title: str, by: str) -> None:
    found = await hosts(installed)
    command = uninstall(installed, title, by)
    async with installed.operator():
        await installed.wait_ready()
        before = [len(host.starts("kubelet")) for host in found]
        code, said = await carried_out(installed, *command)
        assert code == 0, said
        await nothing_left(installed)
    if title == LEFT:
        assert [len(host.starts("kubelet")) for host in found] == before
        assert all(f"HTTPS_PROXY={PROXY}" in environment(host, "kubelet") for host in found)
    else:
        assert [host.registry.find_key(LEDGER) for host in found] == [None, None], said


async def test_finalizers_are_taken_off_where_no_operator_works(installed: Cluster) -> None:
    """By the lines of the page: the objects go, and no host is touched."""
    found = await hosts(installed)
    async with installed.operator():
        await installed.wait_ready()
    before = [everything_of(host) for host in found]
    deletions = (("windowsinstances", "--all", "-n", installed.namespace), ("egressproxies", "--all"))
    for deletion in deletions:
        code, said = await carried_out(installed, "kubectl", "delete", *deletion, "--wait=false")
        assert code == 0, said
    page = (ROOT / "docs" / "uninstall.md").read_text("utf-8").partition("## If a deletion hangs")[2]
    (lines,) = re.findall(r"```\n(.*?)```", page, re.DOTALL)
    command = lines.replace("transom-system", installed.namespace)
    code, said = await carried_out(installed, "bash", "-euo", "pipefail", "-c", command)
    assert code == 0, said
    assert (await installed.client.list_objects(WINDOWS_INSTANCES, installed.namespace)).items == []
    assert (await installed.client.list_objects(EGRESS_PROXIES)).items == []
    assert [everything_of(host) for host in found] == before


async def made_for_clusters(cluster: Cluster) -> set[tuple[str | None, str]]:
    """What Transom keeps in the namespace of this test's workload cluster."""
    found = set()
    for kind in (SECRETS, CONFIG_MAPS):
        listed = await cluster.client.list_objects(kind, labels="app.kubernetes.io/managed-by=transom")
        found |= {(item.metadata.namespace, item.metadata.name) for item in listed.items}
    return {item for item in found if item[0] == f"org-of-{cluster.namespace}"}


@pytest.mark.usefixtures("with_cluster_api")
@pytest.mark.parametrize(("title", "by"), [(GIVEN_BACK, "command"), (LEFT, "command"), (LEFT, "page")])
async def test_a_node_and_a_workload_cluster(installed: Cluster, tmp_path: Path, title: str, by: str) -> None:
    """Given back: services, files and Node go, and what the settings made for the cluster. Left: all of it stays."""
    await published(installed)
    org = f"org-of-{installed.namespace}"
    await installed.client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": org}})
    workload = manifests.cluster("prod", org, "v1beta2")
    path = CLUSTERS.build_path(org, "prod")
    query = {"fieldManager": "kubectl", "force": "true"}
    value = workload | {"apiVersion": CLUSTERS.api_version}
    await installed.client.request("PATCH", path, query, value, content_type="application/apply-patch+yaml")
    networks = {"serviceNetwork": ["10.96.0.0/16"], "podNetwork": ["10.244.0.0/16"]}
    await installed.proxy(httpProxy=PROXY, httpsProxy=PROXY, networks=networks, clusterSelector={})
    host = await bare(installed, "win")
    before = everything_of(host)
    command = uninstall(installed, title, by)
    async with installed.operator(payload=write(tmp_path / "payload"), pace=QUICK):
        await installed.instance("win-1", host, lifecycle="Node")
        await installed.until("win-1", NodeReady="False/Registering")
        await registered(installed, host, **SUBNET)
        await installed.until("win-1", NodeReady="True/KubeletReady", Configured="True/UpToDate")
        async with asyncio.timeout(PATIENCE):
            while not (made := await made_for_clusters(installed)):
                await asyncio.sleep(0.05)
        running = everything_of(host)
        code, said = await carried_out(installed, *command)
        assert code == 0, said
        await nothing_left(installed)
    nodes = {item.metadata.name for item in (await installed.client.list_objects(NODES)).items}
    if title == LEFT:
        assert everything_of(host) == running
        assert f"HTTPS_PROXY={PROXY}" in environment(host, "kubelet")
        assert node_of(host) in nodes
        assert await made_for_clusters(installed) == made
        await installed.delete(NODES, node_of(host))
    else:
        assert everything_of(host) == before
        assert node_of(host) not in nodes
        assert await made_for_clusters(installed) == set()


async def test_without_an_operator_nothing_is_done(installed: Cluster) -> None:
    found = await hosts(installed)
    async with installed.operator():
        await installed.wait_ready()
    code, said = await carried_out(installed, "transom", "uninstall", "--context", "lab", "-n", installed.namespace)
    assert code == 1
    assert "the hosts cannot be restored, and nothing was changed" in said
    assert (await installed.client.get(EGRESS_PROXIES, "cluster")).metadata.deletion_timestamp is None
    assert all(f"HTTPS_PROXY={PROXY}" in environment(host, "kubelet") for host in found)
    await installed.leave()


async def test_an_installation_in_another_namespace_is_left(installed: Cluster) -> None:
    """Its definitions and roles are the whole cluster's."""
    rights = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "transom"}
    bound = {"kind": "ServiceAccount", "name": "transom", "namespace": "egress-system"}
    bindings = Resource(
        "rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", False, UnstructuredObject
    )
    head = {"apiVersion": bindings.api_version, "kind": bindings.kind, "metadata": {"name": "transom"}}
    await installed.client.create(bindings, head | {"roleRef": rights, "subjects": [bound]})
    try:
        for more in ((), ("--leave-hosts",)):
            code, said = await carried_out(
                installed, "transom", "uninstall", "--context", "lab", "-n", installed.namespace, *more
            )
            assert code == 1
            assert f"not installed in namespace {installed.namespace}: it is in egress-system" in said
        assert (await installed.client.list_objects(EGRESS_PROXIES)).items == []
    finally:
        await installed.client.delete(bindings, "transom")
        await installed.leave()
