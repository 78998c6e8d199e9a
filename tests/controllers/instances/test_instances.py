"""ConfigMap entries and machines become WindowsInstances on a real API server, and go with care."""

import asyncio
from typing import Any

import pytest
from lab.control_plane import ControlPlane
from tests.support.operator.clusters import Cluster
from tests.support.operator.foreign import definition
from tests.support.operator.limited import limited
from tests.support.operator.names import names, until_names
from tests.support.waiting import PATIENCE

from transom.controllers.runtime.informers import MACHINES
from transom.kube.objects import UnstructuredObject
from transom.kube.resources import CONFIG_MAPS, NAMESPACES, WINDOWS_INSTANCES, Resource

pytestmark = pytest.mark.lab
MACHINES_WHOLE = Resource(MACHINES.group, MACHINES.version, MACHINES.kind, MACHINES.plural, True, UnstructuredObject)
ONLY = ("instances",)


async def until_told(cluster: Cluster, name: str, reason: str) -> str:
    async with asyncio.timeout(PATIENCE):
        while True:
            for _, item, message in await cluster.events(name):
                if item == reason:
                    return message
            await asyncio.sleep(0.05)


def machine(name: str, address: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": {"machine.openshift.io/os-id": "Windows"}},
        "spec": {"providerSpec": {"value": {"kind": "VSphereMachineProviderSpec"}}},
        "status": {"phase": "Provisioned", "addresses": [{"type": "InternalIP", "address": address}]},
    }


async def put_machine(cluster: Cluster, name: str, address: str) -> None:
    value = machine(name, address)
    value["metadata"]["namespace"] = cluster.namespace
    await cluster.put(MACHINES_WHOLE, name, **value)


async def test_entries_come_change_and_go(cluster: Cluster) -> None:
    await cluster.put(CONFIG_MAPS, "windows-instances", data={"10.1.0.7": "username=joe", "10.1.0.300": "username=joe"})
    async with cluster.operator(controllers=ONLY):
        await until_names(cluster, {"10.1.0.7"})
        assert "10.1.0.300: the key must be a DNS name" in await until_told(cluster, "windows-instances", "InvalidEntry")
        await cluster.put(
            CONFIG_MAPS,
            "windows-instances",
            data={"10.1.0.7": "username=CORP\\joe", "fd00--7.ipv6-literal.net": "username=joe"},
        )
        await until_names(cluster, {"10.1.0.7", "ipv6-fd00-0-0-0-0-0-0-7"})
        async with asyncio.timeout(PATIENCE):
            while (held := await cluster.client.get(WINDOWS_INSTANCES, "10.1.0.7", cluster.namespace)).value["spec"][
                "username"
            ] != "CORP\\joe":
                await asyncio.sleep(0.05)
        assert held.value["spec"]["lifecycle"] == "Node"
        # what a person adds stays
        await cluster.merge(WINDOWS_INSTANCES, "10.1.0.7", {"spec": {"paused": True, "username": "mallory"}})
        async with asyncio.timeout(PATIENCE):
            while True:
                held = await cluster.client.get(WINDOWS_INSTANCES, "10.1.0.7", cluster.namespace)
                if held.value["spec"]["username"] == "CORP\\joe":
                    break
                await asyncio.sleep(0.05)
        assert held.value["spec"]["paused"] is True
        await cluster.put(CONFIG_MAPS, "windows-instances", data={"10.1.0.7": "username=CORP\\joe"})
        await until_names(cluster, {"10.1.0.7"})


async def test_a_person_s_instance_is_in_nobody_s_hands(cluster: Cluster) -> None:
    await cluster.instance("10.2.0.7", None, address="10.2.0.1", username="joe")
    await cluster.instance("mine", None, address="10.2.0.8", username="joe")
    await cluster.put(CONFIG_MAPS, "windows-instances", data={f"10.2.0.{n}": "username=a" for n in (7, 8, 9)})
    async with cluster.operator(controllers=ONLY):
        await until_names(cluster, {"10.2.0.7", "mine", "10.2.0.9"})
        told = {await until_told(cluster, "windows-instances", "NotMade")}
        assert any("10.2.0." in message for message in told)
    held = await cluster.client.get(WINDOWS_INSTANCES, "10.2.0.7", cluster.namespace)
    assert held.value["spec"]["username"] == "joe"


async def test_an_emptied_config_map_waits_for_a_person(cluster: Cluster) -> None:
    data = {f"10.3.0.{number}": "username=joe" for number in range(1, 6)}
    everything = set(data)
    await cluster.put(CONFIG_MAPS, "windows-instances", data=data)
    async with cluster.operator(controllers=ONLY):
        await until_names(cluster, everything)
        await cluster.delete(CONFIG_MAPS, "windows-instances")
        assert "5 of 5 instances disappeared" in await until_told(cluster, "windows-instances", "RemovalWaits")
        assert await names(cluster) == everything
    # a fresh process waits, too
    async with cluster.operator(controllers=ONLY) as operator:
        await operator.settings.begun.wait()
        await asyncio.sleep(0.5)
        assert await names(cluster) == everything
        await cluster.merge(
            NAMESPACES, cluster.namespace, {"metadata": {"annotations": {"transom.dev/confirm-removal": "true"}}}
        )
        await cluster.put(CONFIG_MAPS, "windows-instances", data={"10.3.0.1": "username=joe"})
        await until_names(cluster, {"10.3.0.1"})


async def test_machines_of_cluster_api(cluster: Cluster, control_plane: ControlPlane) -> None:
    """Opened to SSH by a label, with a Windows Node: proxy and trust alone, with the settings of its cluster."""
    kinds = [
        definition("cluster.x-k8s.io", "v1beta1", kind, f"{kind.lower()}s", "Namespaced") for kind in ("Machine", "Cluster")
    ]
    await asyncio.to_thread(control_plane.define, kinds)
    resource = Resource("cluster.x-k8s.io", "v1beta1", "Machine", "machines", True, UnstructuredObject)
    value = {
        "metadata": {"name": "md-0", "namespace": cluster.namespace, "labels": {"transom.dev/ssh": "true"}},
        "spec": {"clusterName": "prod"},
        "status": {
            "nodeRef": {"name": "md-0"},
            "nodeInfo": {"operatingSystem": "windows"},
            "addresses": [{"type": "InternalIP", "address": "10.5.0.7"}],
        },
    }
    await cluster.put(resource, "md-0", **value)
    async with limited(cluster, *ONLY) as client, cluster.operator(client, controllers=ONLY):
        await until_names(cluster, {f"md-0.{cluster.namespace}"})
        held = await cluster.client.get(WINDOWS_INSTANCES, f"md-0.{cluster.namespace}", cluster.namespace)
        assert held.value["spec"]["lifecycle"] == "Egress"
        assert held.value["spec"]["clusterRef"] == {"name": "prod", "namespace": cluster.namespace}
        await cluster.put(resource, "md-0", **value | {"metadata": {"name": "md-0", "namespace": cluster.namespace}})
        await until_names(cluster, set())
    await asyncio.to_thread(control_plane.forget, kinds)


async def test_machines_and_their_replacement(cluster: Cluster, machine_api: None) -> None:
    await put_machine(cluster, "winworker-a", "10.4.0.7")
    async with limited(cluster, *ONLY) as client, cluster.operator(client, controllers=ONLY):
        await until_names(cluster, {"winworker-a"})
        first = await cluster.client.get(WINDOWS_INSTANCES, "winworker-a", cluster.namespace)
        assert first.value["spec"]["nodeName"] == "winworker-a"
        assert first.value["metadata"]["annotations"]["transom.dev/host-name"] == "winworker-a"
        await cluster.delete(MACHINES_WHOLE, "winworker-a")
        await put_machine(cluster, "winworker-a", "10.4.0.8")
        async with asyncio.timeout(PATIENCE):
            while True:
                found = await cluster.client.list_objects(WINDOWS_INSTANCES, cluster.namespace)
                if [item.value["spec"]["address"] for item in found.items] == ["10.4.0.8"]:
                    break
                await asyncio.sleep(0.05)
        assert found.items[0].metadata.uid != first.metadata.uid
        await cluster.delete(MACHINES_WHOLE, "winworker-a")
        await until_names(cluster, set())
