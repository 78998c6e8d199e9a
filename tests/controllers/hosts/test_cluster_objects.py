"""Hosts whose settings come from the objects of a cluster: by a person's commands, and those of a workload cluster."""

import asyncio
from pathlib import Path

import pytest
from tests.support.command import Ran, run
from tests.support.operator.clusters import PROXY, Cluster, environment
from tests.support.operator.foreign import definition
from tests.support.waiting import until

from transom.kube.objects import UnstructuredObject
from transom.kube.resources import EGRESS_PROXIES, NODES, Resource

pytestmark = pytest.mark.lab
OTHER, THIRD = "http://other.corp.example:3128", "http://third.corp.example:3128"
CLUSTERS = Resource("cluster.x-k8s.io", "v1beta1", "Cluster", "clusters", True, UnstructuredObject)
NETWORKS = {"serviceNetwork": ["10.96.0.0/16"], "internalAPIHost": "api.corp.example"}


async def test_without_manifests_commands_take_the_objects_of_the_cluster(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(cluster.control_plane.kubeconfig))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    host = await cluster.simulator.add_host()
    await cluster.instance("win-1", host)

    async def transom(command: str) -> Ran:
        where = ("--context", "lab", "--namespace", cluster.namespace)
        return await asyncio.to_thread(run, command, *where, "-o", "json")

    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY, networks=NETWORKS)
    planned = await transom("diff")
    assert (planned.code, planned.json["hosts"][0]["result"]) == (1, "changed")
    assert not environment(host, "kubelet")
    assert (await transom("apply")).code == 0
    await cluster.proxy(httpProxy=OTHER, httpsProxy=OTHER, networks=NETWORKS)
    assert (await transom("apply")).code == 0
    assert f"HTTPS_PROXY={OTHER}" in environment(host, "kubelet")
    back = await transom("rollback")
    assert (back.code, back.json["hosts"][0]["result"]) == (0, "changed")
    assert f"HTTPS_PROXY={PROXY}" in environment(host, "kubelet")
    assert await cluster.status("win-1") == {}, "hosts alone are changed"
    # a Node of another operator: its host is not connected to, until somebody says that it may be
    metadata = {"name": f"theirs-{cluster.namespace}", "labels": {"kubernetes.io/os": "windows"}}
    managed = metadata | {"annotations": {"windowsmachineconfig.openshift.io/version": "10.21"}}
    await cluster.put(NODES, managed["name"], metadata=managed)
    await cluster.instance("win-1", host, nodeName=managed["name"])
    connections = host.traffic.connections
    for command in ("diff", "apply", "rollback"):
        refused = await transom(command)
        # a diff has not compared it
        assert (refused.code, host.traffic.connections) == (3 if command == "diff" else 1, connections)
        assert refused.json["hosts"][0]["result"] == "skipped"
        assert f"not connected to: Node {managed['name']} is managed by another" in refused.json["hosts"][0]["error"]
    await cluster.merge(NODES, managed["name"], {"metadata": {"annotations": {"transom.dev/adopt": "true"}}})
    assert (await transom("apply")).code == 0
    assert f"HTTPS_PROXY={OTHER}" in environment(host, "kubelet")
    await cluster.delete(NODES, managed["name"])


async def test_a_host_of_a_workload_cluster_has_the_settings_of_that_cluster(cluster: Cluster) -> None:
    """`spec.clusterRef`: its layers hold, and a change of a layer reaches its hosts alone."""
    plane, crd = cluster.control_plane, definition("cluster.x-k8s.io", "v1beta1", "Cluster", "clusters", "Namespaced")
    await asyncio.to_thread(plane.define, [crd])
    network = {"services": {"cidrBlocks": ["10.97.0.0/16"]}, "pods": {"cidrBlocks": ["10.245.0.0/16"]}}
    spec = {"clusterNetwork": network, "controlPlaneEndpoint": {"host": "prod.corp.example", "port": 6443}}
    metadata = {"name": "prod", "namespace": cluster.namespace, "labels": {"env": cluster.namespace}}
    await cluster.put(CLUSTERS, "prod", metadata=metadata, spec=spec)
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY, networks=NETWORKS)
    layer = {"priority": 1, "clusterSelector": {"matchLabels": {"env": cluster.namespace}}}
    await cluster.put(EGRESS_PROXIES, "layer", spec=layer | {"httpProxy": OTHER, "httpsProxy": OTHER})
    own, prods = await cluster.simulator.add_host(), await cluster.simulator.add_host()
    await cluster.instance("own", own)
    # the Node of that name is this cluster's, and says nothing of a host of another one
    theirs = f"prods-{cluster.namespace}"
    await cluster.put(NODES, theirs)
    reference = {"name": "prod", "namespace": cluster.namespace}
    await cluster.instance("prods", prods, clusterRef=reference, nodeName=theirs)
    try:
        async with cluster.operator(controllers=("egress", "hosts")):
            for name in ("own", "prods"):
                await cluster.until(name, Configured="True", ProxyApplied="True/Applied")
            await cluster.until("prods", NodeReady="Unknown/OtherCluster")
            assert "nodeName" not in await cluster.status("prods")
            items = environment(prods, "kubelet")
            assert f"HTTPS_PROXY={OTHER}" in items
            (no_proxy,) = (item for item in items if item.startswith("NO_PROXY="))
            assert {"10.97.0.0/16", "prod.corp.example"} <= set(no_proxy.removeprefix("NO_PROXY=").split(","))
            assert f"HTTPS_PROXY={PROXY}" in environment(own, "kubelet")
            connections = own.traffic.connections
            await cluster.put(EGRESS_PROXIES, "layer", spec=layer | {"httpProxy": THIRD, "httpsProxy": THIRD})
            await until(lambda: f"HTTPS_PROXY={THIRD}" in environment(prods, "kubelet"))
            assert own.traffic.connections == connections
    finally:
        await cluster.delete(EGRESS_PROXIES, "layer")
        await asyncio.to_thread(plane.forget, [crd])
