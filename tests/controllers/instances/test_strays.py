"""Instances outside Transom's namespace: nobody works on them, and each says so."""

import asyncio

import pytest
from tests.support.operator.clusters import PROXY, Cluster
from tests.support.operator.limited import limited
from tests.support.waiting import PATIENCE

from transom.controllers.inventory import ignored_instances
from transom.kube.resources import WINDOWS_INSTANCES

pytestmark = pytest.mark.lab


async def test_an_instance_elsewhere_says_that_nobody_works_on_it(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ignored_instances, "GRACE", 1.0)
    host, name = await cluster.simulator.add_host(), f"stray-{cluster.namespace}"
    spec = {"address": host.address, "port": host.port, "username": host.username}
    path = WINDOWS_INSTANCES.build_path("default")
    head = {"apiVersion": WINDOWS_INSTANCES.api_version, "kind": "WindowsInstance"}
    await cluster.proxy(httpProxy=PROXY)
    await cluster.client.request("POST", path, None, head | {"metadata": {"name": name}, "spec": spec})
    try:
        only = ("strays", "hosts", "egress")
        async with limited(cluster, *only) as client, cluster.operator(client, controllers=only):
            async with asyncio.timeout(PATIENCE):
                listed: list[dict[str, str]] = []
                while not listed:
                    found = (await cluster.client.get(WINDOWS_INSTANCES, name, "default")).value
                    listed = (found.get("status") or {}).get("conditions", [])
                    await asyncio.sleep(0.05)
            said = {item["type"]: (item["status"], item["reason"]) for item in listed}
            assert said["Ready"] == said["Configured"] == ("False", "OutsideNamespace")
            async with asyncio.timeout(PATIENCE):
                while ("Warning", "OutsideNamespace") not in [event[:2] for event in await cluster.events(name, "default")]:
                    await asyncio.sleep(0.05)
            assert host.traffic.connections == 0
    finally:
        await cluster.client.delete(WINDOWS_INSTANCES, name, "default")
