"""A Node takes no pods before everything of its payload has run once: simulated hosts, a real API server."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.operator.clusters import Cluster
from tests.support.operator.nodes import QUICK, SUBNET, WHOLE_NODES, bare, node_of, reasons, registered
from tests.support.waiting import until
from tests.support.workers.payloads import TEXT, write

from transom.controllers.runtime.cached_objects import FIRST
from transom.kube.resources import NODES
from transom.windows.nodes import support
from winsim import Host
from winsim.computer import Invocation

pytestmark = pytest.mark.lab
TAINT = {"key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule"}


async def spec(cluster: Cluster, host: Host) -> dict[str, Any]:
    found: dict[str, Any] = (await cluster.client.get(WHOLE_NODES, node_of(host))).value["spec"]
    return found


async def node_until(cluster: Cluster, host: Host, fits: Callable[[dict[str, Any]], object]) -> None:
    async def fitting() -> bool:
        return bool(fits((await cluster.client.get(WHOLE_NODES, node_of(host))).value))

    await until(fitting)


async def node_until_there(cluster: Cluster, host: Host) -> None:
    async def there() -> bool:
        return any(node.metadata.name == node_of(host) for node in (await cluster.client.list_objects(NODES)).items)

    await until(there)


async def said(cluster: Cluster) -> str:
    conditions = (await cluster.status("win-1"))["conditions"]
    return str(next(condition["message"] for condition in conditions if condition["type"] == "Configured"))


def fails(call: Invocation) -> int:
    call.write_error("HNS refuses POST /endpoints:\n  hunter is not\x07 here\n")
    return 1


def works(call: Invocation) -> int:
    call.write_output("10.9.9.9\r\n")
    return 0


async def test_a_failing_script_keeps_the_node_cordoned_and_is_quoted(cluster: Cluster, payload: Path) -> None:
    host = await bare(cluster, "win")
    host.powershell = fails
    async with cluster.operator(payload=payload, pace=QUICK):
        await cluster.instance("win-1", host, lifecycle="Node")
        await cluster.until("win-1", NodeReady="False/Registering", Configured="False/Waiting")
        await registered(cluster, host, **SUBNET)
        await cluster.until("win-1", NodeReady="True/KubeletReady", Configured="False/Waiting")
        words = "the script source-vip.ps1 failed: HNS refuses POST /endpoints: hunter is not? here"
        assert words in await said(cluster)
        assert (await said(cluster)).endswith("the Node takes no pods until then")
        assert (await spec(cluster, host))["unschedulable"] is True
        host.powershell = works
        await cluster.until("win-1", NodeReady="True/KubeletReady", Configured="True/UpToDate")
        await node_until(cluster, host, lambda node: not node["spec"].get("unschedulable"))
        annotations = (await cluster.client.get(WHOLE_NODES, node_of(host))).value["metadata"]["annotations"]
        assert annotations[FIRST] == "Done"
    assert not {"Cordoned", "Uncordoned"} & set(await reasons(cluster, "win-1"))


async def test_a_node_that_registers_while_its_host_is_worked_on_is_cordoned(cluster: Cluster, payload: Path) -> None:
    host = await bare(cluster, "win")
    registering: list[asyncio.Task[None]] = []

    def registers(call: Invocation) -> int:
        if not registering:
            registering.append(asyncio.ensure_future(registered(cluster, host, **SUBNET)))
        return fails(call)

    host.powershell = registers
    async with cluster.operator(payload=payload, pace=QUICK):
        await cluster.instance("win-1", host, lifecycle="Node")
        await node_until_there(cluster, host)
        await node_until(cluster, host, lambda node: node["spec"].get("unschedulable"))
        await registering[0]


async def test_a_person_has_the_last_word(cluster: Cluster, payload: Path) -> None:
    host = await bare(cluster, "win")
    host.powershell = fails
    async with cluster.operator(payload=payload, pace=QUICK):
        await cluster.instance("win-1", host, lifecycle="Node")
        await cluster.until("win-1", NodeReady="False/Registering")
        await registered(cluster, host, **SUBNET)
        await node_until(cluster, host, lambda node: node["spec"].get("unschedulable"))
        await cluster.merge(NODES, node_of(host), {"spec": {"unschedulable": None}})
        await node_until(
            cluster, host, lambda node: node["metadata"]["annotations"].get("transom.dev/first-configuration") == "Done"
        )
        before = host.traffic.connections
        await until(lambda: host.traffic.connections > before + 1)
        assert not (await spec(cluster, host)).get("unschedulable")
        assert "HNS refuses" in await said(cluster)


async def test_the_cloud_providers_taint_is_waited_for_and_named(cluster: Cluster, payload: Path) -> None:
    host = await bare(cluster, "win")
    async with cluster.operator(payload=payload, pace=QUICK):
        await cluster.instance("win-1", host, lifecycle="Node")
        await cluster.until("win-1", NodeReady="False/Registering")
        await registered(cluster, host, "False", **SUBNET)
        await cluster.merge(NODES, node_of(host), {"spec": {"taints": [TAINT]}})
        await registered(cluster, host, **SUBNET)
        await cluster.until("win-1", NodeReady="True/KubeletReady", Configured="False/Waiting")
        await until(lambda: host.services.find("kube-proxy") is not None)
        await node_until(cluster, host, lambda node: node["spec"].get("taints") == [TAINT])
        assert TAINT["key"] in await said(cluster)
        assert (await spec(cluster, host))["unschedulable"] is True
        await cluster.merge(NODES, node_of(host), {"spec": {"taints": None}})
        await cluster.until("win-1", Configured="True/UpToDate")
        await node_until(cluster, host, lambda node: not node["spec"].get("unschedulable"))


async def test_what_is_not_required_keeps_no_node_from_pods(cluster: Cluster, payload: Path) -> None:
    optional = TEXT.replace("  dependsOn: [kubelet]\n", "  dependsOn: [kubelet]\n  required: false\n")
    host = await bare(cluster, "win")
    host.powershell = fails
    async with cluster.operator(payload=write(payload, optional), pace=QUICK):
        await cluster.instance("win-1", host, lifecycle="Node")
        await cluster.until("win-1", NodeReady="False/Registering")
        await registered(cluster, host, **SUBNET)
        await cluster.until("win-1", NodeReady="True/KubeletReady", Configured="True/UpToDate")
        assert "kube-proxy waits for SOURCE_VIP" in await said(cluster)
        await node_until(cluster, host, lambda node: not node["spec"].get("unschedulable"))


async def test_a_node_that_was_ready_before_is_never_cordoned(cluster: Cluster, payload: Path) -> None:
    host = await bare(cluster, "win")
    host.powershell = fails
    await registered(cluster, host, **SUBNET)
    async with cluster.operator(payload=payload, pace=QUICK):
        await cluster.instance("win-1", host, lifecycle="Node")
        await cluster.until("win-1", NodeReady="True/KubeletReady", Configured="False/Waiting")
        before = host.traffic.connections
        await until(lambda: host.traffic.connections > before + 1)
        assert not (await spec(cluster, host)).get("unschedulable")
    assert "Cordoned" not in await reasons(cluster, "win-1")


async def test_a_windows_that_is_not_known_to_work_is_told_and_becomes_a_node(
    cluster: Cluster, payload: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(support, "RELEASES", tuple(release for release in support.RELEASES if release.build != 20348))
    monkeypatch.setattr(support, "OPENSSH", msgspec.structs.replace(support.OPENSSH, least=(99, 0)))
    host = await bare(cluster, "win")
    async with cluster.operator(payload=payload, pace=msgspec.structs.replace(QUICK, node_check=0.5)):
        await cluster.instance("win-1", host, lifecycle="Node")
        await cluster.until("win-1", NodeReady="False/Registering")
        await registered(cluster, host, **SUBNET)
        info = {"operatingSystem": "windows", "kubeletVersion": "v1.36.3", "containerRuntimeVersion": "containerd://1.6.31"}
        await cluster.merge(NODES, node_of(host), {"status": {"nodeInfo": info}}, "status")
        await cluster.until("win-1", NodeReady="True/KubeletReady", Configured="True/UpToDate")

        async def all_said() -> bool:
            told = await said(cluster)
            wanted = ("Windows build 20348 is none of those", "OpenSSH for Windows 9.5 is older", "containerd 1.6 is older")
            return all(item in told for item in wanted)

        await until(all_said)
    assert "UnsupportedVersion" in await reasons(cluster, "win-1")
