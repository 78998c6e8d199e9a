"""Instances that are deleted: the host is given back, the Node goes, and nothing waits for what does not come back."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.operator.clusters import PROXY, Cluster
from tests.support.operator.limited import limited
from tests.support.operator.names import until_names
from tests.support.operator.nodes import SUBNET, WHOLE_NODES, bare, node_of, published, reasons, registered
from tests.support.operator.pods import ended, pod
from tests.support.operator.programs import Program
from tests.support.waiting import PATIENCE, until
from tests.support.workers.hosts import everything_of
from tests.support.workers.payloads import TEXT, write

from transom.controllers.runtime.options import HostTimings
from transom.hosts.ssh.ssh_client import Timeouts
from transom.kube.errors import NotFound
from transom.kube.objects import UnstructuredObject
from transom.kube.resources import CONFIG_MAPS, LEASES, NAMESPACES, NODES, SECRETS, WINDOWS_INSTANCES, Resource
from transom.windows.host.queries import LEDGER
from winsim import Host

pytestmark = pytest.mark.lab
FINALIZER = "transom.dev/host"
KEPT = "example.com/kept"
QUICK = HostTimings(unready=0.2, ready=3600, drain_step=0.1, gone=0.5, timeouts=Timeouts(connect=5, progress=5, whole=300))
NETWORKS = {"serviceNetwork": ["10.96.0.0/16"], "podNetwork": ["10.244.0.0/16"]}
ONLY = ("hosts", "instances", "certificates", "nodes")
MACHINES = Resource("machine.openshift.io", "v1beta1", "Machine", "machines", True, UnstructuredObject)
PAYLOAD = TEXT.replace("  egress: true\n- name: containerd", "  egress: true\n  hnsNetworks: [Overlay]\n- name: containerd")


@pytest.fixture
async def payload(cluster: Cluster, tmp_path: Path) -> AsyncIterator[Path]:
    """A payload, and a cluster that says what a host has to know; its nodes go at the end."""
    await published(cluster)
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY, networks=NETWORKS)
    yield write(tmp_path / "payload", PAYLOAD)
    for node in (await cluster.client.list_objects(NODES)).items:
        if node.metadata.name.endswith(cluster.namespace):
            await cluster.delete(NODES, node.metadata.name)


async def joined(cluster: Cluster, host: Host, name: str = "win-1", **spec: Any) -> None:
    """A Ready node, made under an operator that runs."""
    await cluster.instance(name, host, lifecycle="Node", **spec)
    await cluster.until(name, NodeReady="False/Registering")
    await registered(cluster, host, **SUBNET)
    await cluster.until(name, NodeReady="True/KubeletReady", Configured="True/UpToDate")


async def finalizers(cluster: Cluster, name: str = "win-1") -> list[str]:
    return list((await cluster.client.get(WINDOWS_INSTANCES, name, cluster.namespace)).metadata.finalizers or ())


async def until_finalizers(cluster: Cluster, wanted: list[str]) -> None:
    async with asyncio.timeout(PATIENCE):
        while await finalizers(cluster) != wanted:
            await asyncio.sleep(0.05)


async def configured(cluster: Cluster, name: str) -> str:
    """What the condition Configured says."""
    return next(
        str(condition["message"])
        for condition in (await cluster.status(name))["conditions"]
        if condition["type"] == "Configured"
    )


async def has_node(cluster: Cluster, host: Host) -> bool:
    try:
        await cluster.client.get(NODES, node_of(host))
    except NotFound:
        return False
    return True


def lived_in(host: Host) -> tuple[set[str], set[str]]:
    """A host with a service, a directory and a file of somebody else's where the payload has its own; all that is on it."""
    host.add_service("theirs")
    host.files.make_directories(r"C:\var\log")
    host.files.write(r"C:\var\log\theirs.log", b"theirs")
    return everything_of(host)


def trodden(host: Host) -> None:
    """What programs leave behind."""
    host.files.make_directories(r"C:\k\root\pods")
    host.files.write(r"C:\k\logs\kubelet.log", b"log")
    host.files.write(r"C:\k\root\pods\x", b"x")
    host.networks |= {"Overlay", "nat"}


def without_boots(found: tuple[set[str], set[str]]) -> tuple[set[str], set[str]]:
    return found[0], {value for value in found[1] if "BootId" not in value}


async def test_a_host_is_given_back_and_its_node_goes(cluster: Cluster, payload: Path) -> None:
    host = await bare(cluster, "win")
    before = lived_in(host)
    async with limited(cluster, *ONLY) as client, cluster.operator(client, controllers=ONLY, payload=payload, pace=QUICK):
        await joined(cluster, host)
        assert await finalizers(cluster) == [FINALIZER]
        trodden(host)
        await pod(cluster, node_of(host))
        await cluster.delete(WINDOWS_INSTANCES, "win-1")
        await cluster.until("win-1", Configured="False/Draining")
        message = next(
            condition["message"]
            for condition in (await cluster.status("win-1"))["conditions"]
            if condition["type"] == "Configured"
        )
        assert f"{cluster.namespace}/busy" in message
        assert host.registry.find_key(LEDGER) is not None
        await ended(cluster)
        await cluster.gone("win-1")
    assert everything_of(host) == before
    assert host.networks == {"nat"} and host.firewall == {}
    assert not await has_node(cluster, host)
    secrets = {item.metadata.name for item in (await cluster.client.list_objects(SECRETS, cluster.namespace)).items}
    assert "bootstrap-win-1" not in secrets
    told = await reasons(cluster, "win-1")
    assert {"Removing", "Cordoned", "Drained", "NodeRemoved", "Removed"} <= set(told)
    assert host.unknown == []


async def test_deleted_in_a_pass_its_removal_is_told(cluster: Cluster) -> None:
    """What the pass writes at its end is of the object as it is then, deleted."""
    host = await bare(cluster, "win")
    host.faults.disk_delay = 0.02
    async with cluster.operator(controllers=("hosts",)):
        await cluster.proxy(httpProxy=PROXY)
        await cluster.instance("win-1", host)
        await until(lambda: host.traffic.connections == 1)
        await cluster.delete(WINDOWS_INSTANCES, "win-1")
        assert await cluster.told("win-1", "Removing")
        host.faults.disk_delay = 0.0
        await cluster.gone("win-1")


@pytest.mark.parametrize("step", ["Draining", "Removing", "Forgetting"])
async def test_a_killed_operator_at_any_step(cluster: Cluster, payload: Path, step: str) -> None:
    host = await bare(cluster, "win")
    before = lived_in(host)
    async with cluster.operator(payload=payload, pace=QUICK):
        await joined(cluster, host)
    trodden(host)
    if step == "Draining":
        await pod(cluster, node_of(host))
    host.faults.disk_delay = 0.02
    async with Program(cluster, name=step.lower(), payload=str(payload)) as program:
        await cluster.delete(WINDOWS_INSTANCES, "win-1")
        if step == "Forgetting":
            # the directory goes after the ledger, and then the Node
            await until(lambda: host.registry.find_key(LEDGER) is None)
        else:
            await cluster.until("win-1", Configured=f"False/{step}")
        if step == "Removing":
            # the job goes on by itself
            await until(lambda: any("change.cmd" in line for line in host.processes[-5:]))
        program.signal(signal.SIGKILL)
        await program.process.wait()
    await cluster.delete(LEASES, "transom")
    host.faults.disk_delay = 0.0
    if step == "Draining":
        await ended(cluster)
    async with cluster.operator(payload=payload, pace=QUICK):
        await cluster.gone("win-1", 40)
    assert everything_of(host) == before
    assert not await has_node(cluster, host)


async def test_a_host_that_is_gone_for_good(cluster: Cluster, payload: Path) -> None:
    """After a time the cluster's side is done, and people are told what is on the host; one never seen is not waited for."""
    host = await bare(cluster, "win")
    async with cluster.operator(payload=payload, pace=QUICK):
        await joined(cluster, host)
        await cluster.instance("never", None, address="127.0.0.1", port=1, username="joe", lifecycle="Node")
        await cluster.until("never", Reachable="False/Unreachable")
        host.cut_power()
        await registered(cluster, host, "Unknown")
        await cluster.merge(WINDOWS_INSTANCES, "win-1", {"metadata": {"finalizers": [FINALIZER, KEPT]}})
        for name in ("win-1", "never"):
            await cluster.delete(WINDOWS_INSTANCES, name)
        await cluster.gone("never")
        # somebody else still keeps it, and reads in its status what is left
        await cluster.until("win-1", Configured="False/RemovalIncomplete")
        await until_finalizers(cluster, [KEPT])
        assert "services and files are still on it" in await configured(cluster, "win-1")
        await cluster.merge(WINDOWS_INSTANCES, "win-1", {"metadata": {"finalizers": None}})
        await cluster.gone("win-1")
    assert not await has_node(cluster, host)
    told = {reason: message for _, reason, message in await cluster.events("win-1")}
    assert "services and files are still on it" in told["RemovalIncomplete"]
    assert told["Removed"] == "the cluster's side is done"
    assert host.registry.find_key(LEDGER) is not None


@pytest.mark.parametrize(
    ("machine", "given_back", "node_stays"), [("gone", False, False), ("there", True, True), ("ignored", False, True)]
)
async def test_what_becomes_of_a_machines_host(
    cluster: Cluster, payload: Path, machine_api: None, machine: str, given_back: bool, node_stays: bool
) -> None:
    host = await bare(cluster, "win")
    metadata = {"name": "m", "namespace": cluster.namespace, "labels": {"machine.openshift.io/os-id": "Windows"}}
    await cluster.put(MACHINES, "m", metadata=metadata)
    uid = (await cluster.client.get(MACHINES, "m", cluster.namespace)).metadata.uid
    async with cluster.operator(payload=payload, pace=QUICK, controllers=("nodes", "certificates")):
        await joined(cluster, host)
        annotations = {"transom.dev/origin": f"{cluster.namespace}/m", "transom.dev/origin-uid": uid}
        marks = {"labels": {"transom.dev/source": "Machine"}, "annotations": annotations}
        await cluster.merge(WINDOWS_INSTANCES, "win-1", {"metadata": marks})
        if machine == "gone":
            host.cut_power()
            await cluster.delete(MACHINES, "m")
        elif machine == "ignored":
            ignore = {"annotations": {"windowsmachineconfig.openshift.io/ignore": "true"}}
            await cluster.merge(MACHINES, "m", {"metadata": ignore})
        await cluster.delete(WINDOWS_INSTANCES, "win-1")
        await cluster.gone("win-1")
    assert (host.registry.find_key(LEDGER) is None) == given_back
    assert await has_node(cluster, host) == node_stays
    if node_stays:
        # it was cordoned for the removal, and nobody else would take that back
        node = (await cluster.client.get(WHOLE_NODES, node_of(host))).value
        assert not node["spec"].get("unschedulable")
        assert "transom.dev/cordoned" not in node["metadata"]["annotations"]


async def test_hosts_that_are_left_as_they_are(cluster: Cluster, payload: Path) -> None:
    """By annotation, because another instance has the host as well, or another operator has the Node; a paused one waits."""

    async def annotated(host: Host) -> None:
        await pod(cluster, node_of(host))
        await cluster.delete(WINDOWS_INSTANCES, "annotated")
        await cluster.until("annotated", Configured="False/Draining")
        await cluster.merge(WINDOWS_INSTANCES, "annotated", {"metadata": {"annotations": {"transom.dev/leave-host": "true"}}})

    async def shared(host: Host) -> None:
        await cluster.instance("heir", host, lifecycle="Node")

    async def managed(host: Host) -> None:
        mark = {"windowsmachineconfig.openshift.io/version": "10.0.0"}
        await cluster.merge(NODES, node_of(host), {"metadata": {"annotations": mark}})

    cases: dict[str, Callable[[Host], Any]] = {"annotated": annotated, "shared": shared, "managed": managed}
    hosts = {name: await bare(cluster, name) for name in (*cases, "paused")}
    async with cluster.operator(payload=payload, pace=QUICK):
        await asyncio.gather(*(joined(cluster, host, name) for name, host in hosts.items()))
        await cluster.instance("paused", hosts["paused"], lifecycle="Node", paused=True)
        for name, prepare in cases.items():
            await prepare(hosts[name])
        for name in hosts:
            await cluster.delete(WINDOWS_INSTANCES, name)
        for name in cases:
            await cluster.gone(name)
            assert await cluster.told(name, "HostLeft")
            assert hosts[name].registry.find_key(LEDGER) is not None
            node = (await cluster.client.get(WHOLE_NODES, node_of(hosts[name]))).value
            assert not node["spec"].get("unschedulable")
        await cluster.until("paused", Configured="Unknown/Paused")
        assert hosts["paused"].registry.find_key(LEDGER) is not None
        await cluster.merge(WINDOWS_INSTANCES, "paused", {"spec": {"paused": False}})
        await cluster.gone("paused")
        assert hosts["paused"].registry.find_key(LEDGER) is None


async def test_a_node_of_somebody_elses_loses_proxy_and_trust_alone(cluster: Cluster) -> None:
    """Lifecycle Egress: what was set goes, also from the machine environment; nobody drains, and the Node stays as it is."""
    host = await cluster.simulator.add_host(f"theirs-{cluster.namespace}")
    before = without_boots(everything_of(host))
    await cluster.proxy(httpProxy=PROXY, windows={"environmentScope": "Both"}, networks={"internalAPIHost": "api.x"})
    await registered(cluster, host)
    await pod(cluster, node_of(host))
    async with cluster.operator(pace=QUICK, controllers=("hosts",)):
        await cluster.instance("theirs", host)
        await cluster.until("theirs", ProxyApplied="True/Applied", NodeReady="True")
        await host.boot()
        node = (await cluster.client.get(WHOLE_NODES, node_of(host))).value
        await cluster.delete(WINDOWS_INSTANCES, "theirs")
        await cluster.gone("theirs")
    assert without_boots(everything_of(host)) == before
    assert (await cluster.client.get(WHOLE_NODES, node_of(host))).value == node
    await ended(cluster)
    await cluster.delete(NODES, node_of(host))


async def test_an_emptied_config_map_gives_no_host_back(cluster: Cluster, payload: Path) -> None:
    """With finalizers as without: nothing happens until a person has confirmed it."""
    names = {f"127.1.0.{number}" for number in range(1, 5)}
    await cluster.put(CONFIG_MAPS, "windows-instances", data=dict.fromkeys(names, "username=joe"))
    async with cluster.operator(payload=payload, pace=QUICK):
        await until_names(cluster, names)
        for name in names:
            await cluster.until(name, Reachable="False/Unreachable")
            assert await finalizers(cluster, name) == [FINALIZER]
        await cluster.put(CONFIG_MAPS, "windows-instances", data={})
        async with asyncio.timeout(PATIENCE):
            while "RemovalWaits" not in await reasons(cluster, "windows-instances"):
                await asyncio.sleep(0.05)
        held = await cluster.client.list_objects(WINDOWS_INSTANCES, cluster.namespace)
        assert {item.metadata.name for item in held.items} == names
        assert not [item for item in held.items if item.metadata.deletion_timestamp]
        confirmed = {"name": "windows-instances", "namespace": cluster.namespace}
        annotations = {"transom.dev/confirm-removal": "true"}
        await cluster.put(CONFIG_MAPS, "windows-instances", data={}, metadata={**confirmed, "annotations": annotations})
        for name in names:
            await cluster.gone(name)


async def test_a_deleted_namespace_wipes_no_host_and_does_not_wait(cluster: Cluster, payload: Path) -> None:
    """The finalizers are gone before its content is deleted, which takes the operator and its rights away, too."""
    host = await bare(cluster, "win")
    async with limited(cluster, *ONLY) as client, cluster.operator(client, controllers=ONLY, payload=payload, pace=QUICK):
        await joined(cluster, host)
        before = everything_of(host)
        await cluster.client.delete(NAMESPACES, cluster.namespace)
        async with asyncio.timeout(PATIENCE):
            while await finalizers(cluster):
                await asyncio.sleep(0.05)
        # until here it may have been looked at, as any host; what comes after that is kube-controller-manager's part
        connections = host.traffic.connections
        await cluster.delete(WINDOWS_INSTANCES, "win-1")
        await cluster.gone("win-1")
        assert host.traffic.connections == connections
    assert everything_of(host) == before
    assert await has_node(cluster, host)
