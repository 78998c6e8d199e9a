"""Ready: what tools wait for, and that nothing is said True meanwhile by settings that do not hold any more."""

import asyncio
import json
from typing import Any

import pytest
from lab.control_plane import ControlPlaneError
from tests.support.operator.bundles import ROOT_1, ROOT_2, SHA1_1, SHA1_2
from tests.support.operator.clusters import PROXY, Cluster, environment
from tests.support.waiting import PATIENCE, until

from transom.kube.resources import EGRESS_PROXIES, WINDOWS_INSTANCES
from transom.windows.parts.certificates import ROOT, get_store_path
from winsim import Host

pytestmark = pytest.mark.lab
BY_SETTINGS = ("Ready", "Configured", "ProxyApplied", "TrustApplied")


async def hosts(cluster: Cluster, number: int) -> list[Host]:
    made = [await cluster.simulator.add_host() for _ in range(number)]
    for index, host in enumerate(made):
        await cluster.instance(f"win-{index}", host)
    return made


async def settings(cluster: Cluster) -> dict[str, Any]:
    found: dict[str, Any] = (await cluster.client.get(EGRESS_PROXIES, "cluster")).value.get("status") or {}
    return found


def have(found: list[Host], url: str) -> list[bool]:
    return [f"HTTPS_PROXY={url}" in environment(host, "kubelet") for host in found]


async def test_a_wait_after_an_edit_ends_when_every_host_has_it(cluster: Cluster) -> None:
    found = await hosts(cluster, 8)
    async with cluster.operator():
        for number in range(6):
            url = f"http://proxy-{number}.corp.example:3128"
            await cluster.proxy(httpProxy=url, httpsProxy=url)
            await cluster.wait_ready()
            assert have(found, url) == [True] * 8
        assert (await settings(cluster))["hosts"] == {"total": 8, "updated": 8, "waiting": 0, "failed": 0}
        await cluster.wait_ready("windowsinstance", "--all", "-n", cluster.namespace)

        # what does not hold is not waited for in vain, and not said to be there
        held = {"readinessEndpoints": ["http://registry.example/"], "httpProxy": "http://127.0.0.1:9"}
        for wrong, reason in (({"trustedCA": {"name": "nobody"}, "httpProxy": PROXY}, "Invalid"), (held, "EndpointFailed")):
            await cluster.proxy(**wrong)
            with pytest.raises(ControlPlaneError, match="timed out"):
                await cluster.wait_ready(seconds=4)
            await cluster_ready(cluster, reason)
            assert have(found, url) == [True] * 8


async def cluster_ready(cluster: Cluster, reason: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            listed = (await settings(cluster)).get("conditions", ())
            if reason in [item["reason"] for item in listed if item["type"] == "Ready"]:
                return
            await asyncio.sleep(0.05)


async def test_settings_and_hosts_of_one_file(cluster: Cluster) -> None:
    made = [await cluster.simulator.add_host() for _ in range(4)]
    items = [
        {
            "apiVersion": WINDOWS_INSTANCES.api_version,
            "kind": "WindowsInstance",
            "metadata": {"name": f"win-{number}", "namespace": cluster.namespace},
            "spec": {"address": host.address, "port": host.port, "username": host.username},
        }
        for number, host in enumerate(made)
    ]
    base = {"apiVersion": EGRESS_PROXIES.api_version, "kind": "EgressProxy", "metadata": {"name": "cluster"}}
    items.append(base | {"spec": {"httpProxy": PROXY, "httpsProxy": PROXY}})
    async with cluster.operator():
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
        await asyncio.to_thread(cluster.control_plane.run_kubectl, "apply", "-f", "-", input=text)
        await cluster.wait_ready()
        assert have(made, PROXY) == [True] * 4


async def test_a_changed_bundle_is_seen_in_settings(cluster: Cluster) -> None:
    (host,) = await hosts(cluster, 1)
    await cluster.bundle(ROOT_1)
    await cluster.proxy(httpProxy=PROXY, trustedCA={"name": "corp-ca"})
    async with cluster.operator():
        await cluster.wait_ready()
        before = (await settings(cluster))["settings"]
        assert (await cluster.status("win-0"))["settings"] == before
        await cluster.bundle(ROOT_2)
        async with asyncio.timeout(PATIENCE):
            while (await settings(cluster))["settings"] == before:
                await asyncio.sleep(0.05)
        await cluster.wait_ready()
        assert host.registry.find_key(rf"{get_store_path(ROOT)}\{SHA1_2}") is not None
        assert host.registry.find_key(rf"{get_store_path(ROOT)}\{SHA1_1}") is None
        assert (await cluster.status("win-0"))["settings"] == (await settings(cluster))["settings"] != before
        # of other fields hosts know nothing
        await cluster.proxy(httpProxy=PROXY, trustedCA={"name": "corp-ca"}, clusterSelector={})
        await cluster.wait_ready()
        assert (await cluster.status("win-0"))["settings"] == (await settings(cluster))["settings"]


async def test_nothing_is_true_by_settings_that_do_not_hold(cluster: Cluster) -> None:
    """While the first host is worked on, and the others wait for their turn."""
    found = await hosts(cluster, 4)
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY)
    async with cluster.operator():
        await cluster.wait_ready()
        for host in found:
            host.faults.disk_delay = 0.05
        other = "http://other.corp.example:3128"
        await cluster.proxy(httpProxy=other, httpsProxy=other)
        for number in range(4):
            await cluster.until(
                f"win-{number}", Ready="False/Pending", Configured="False/Pending", ProxyApplied="False/Pending"
            )
        assert sum(have(found, other)) <= 1
        assert (await settings(cluster))["hosts"]["waiting"] == 4
        for host in found:
            host.faults.disk_delay = 0.0
        while sum(have(found, other)) < 4:
            for number, host in enumerate(found):
                conditions = await cluster.conditions(f"win-{number}")
                there = have([host], other)[0]
                # what a host has may not be said yet; what is said, it has
                assert there or all(conditions[type_][0] == "False" for type_ in BY_SETTINGS)
            await asyncio.sleep(0.05)
        await cluster.wait_ready()


async def test_a_paused_host_is_not_waited_for(cluster: Cluster) -> None:
    made = await hosts(cluster, 2)
    await cluster.merge(WINDOWS_INSTANCES, "win-1", {"spec": {"paused": True}})
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY)
    async with cluster.operator():
        await cluster.wait_ready()
        assert have(made, PROXY) == [True, False]
        await cluster.until("win-1", Ready="False/Paused", Configured="Unknown/Paused", ProxyApplied="Unknown/Paused")
        assert (await settings(cluster))["hosts"]["total"] == 1
        await until(lambda: made[1].traffic.connections == 0)
