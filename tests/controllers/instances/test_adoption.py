"""`transom adopt --from wmco`: what the peer has is handed over, and the first pass restarts nothing."""

import asyncio
from pathlib import Path

import pytest
from tests.support.command import Ran
from tests.support.operator.bundles import ROOT_1, ROOT_2
from tests.support.operator.clusters import PROXY, Cluster, environment
from tests.support.operator.nodes import QUICK, WHOLE_NODES, published
from tests.support.operator.peer import BEFORE, IMPORTED, STORE, WMCO, Peer, adopt
from tests.support.pages import on_cluster, run_by
from tests.support.waiting import PATIENCE, until
from tests.support.workers.payloads import write

from transom.kube.resources import EGRESS_PROXIES, NODES, SECRETS, WINDOWS_INSTANCES
from transom.windows.host.queries import ENVIRONMENT

pytestmark = pytest.mark.lab


async def test_the_lines_of_the_page(cluster: Cluster, tmp_path: Path) -> None:
    """From a kubeconfig with a context of that name."""
    peer = Peer(cluster)
    peer.namespace = "openshift-windows-machine-config-operator"
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY)
    await peer.install({"HTTP_PROXY": PROXY})
    await peer.scale(0)
    await cluster.delete(SECRETS, "cloud-private-key")
    (block,) = run_by("tests/controllers/instances/test_adoption.py::test_the_lines_of_the_page")
    settings = {"TRANSOM_NAMESPACE": cluster.namespace}
    await on_cluster(tmp_path, cluster.control_plane, "kubectl config rename-context lab NAME", **settings)
    try:
        said = await on_cluster(tmp_path, cluster.control_plane, "\n".join(block.lines), **settings)
    finally:
        await on_cluster(tmp_path, cluster.control_plane, "kubectl config rename-context NAME lab", **settings)
    assert "to take over" in said
    assert "taken over" in said
    assert (await cluster.client.get(SECRETS, "cloud-private-key", cluster.namespace)).metadata.name == "cloud-private-key"


def results(ran: Ran) -> dict[str, str]:
    return {f"{item['kind']}/{item['name']}": item["result"] for item in ran.json}


async def test_a_node_of_the_peer_is_taken_over(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(cluster.control_plane.kubeconfig))
    peer, payload = Peer(cluster), write(tmp_path / "payload")
    host = await cluster.simulator.add_host()
    await published(cluster)
    networks = {"serviceNetwork": ["10.96.0.0/16"], "podNetwork": ["10.244.0.0/16"]}
    settings = {"httpProxy": PROXY, "httpsProxy": PROXY, "networks": networks, "trustedCA": {"name": "corp-ca"}}
    await cluster.bundle(ROOT_1 + ROOT_2)
    await cluster.proxy(**settings)
    async with cluster.operator(controllers=("egress",)) as operator:
        await until(lambda: operator.settings.own is not None and operator.settings.own.trust)
        assert operator.settings.own is not None
        variables = operator.settings.own.variables
    await peer.install(variables)
    await cluster.delete(SECRETS, "cloud-private-key")
    node = await peer.join(host, variables)
    starts = {name: len(host.starts(name)) for name in ("containerd", "kubelet")}
    everything = {
        "Secret/cloud-private-key": "to take over",
        "ConfigMap/windows-instances": "to take over",
        f"Node/{node}": "to take over",
        "ConfigMap/windows-services-10.19.0": "read",
    }

    running = await adopt(peer, "--yes", "-o", "json")
    assert (running.code, results(running)) == (1, {"Deployment/windows-machine-config-operator": "kept"} | everything)
    await peer.scale(0)
    told = await adopt(peer)
    assert (told.code, told.err) == (0, "")
    assert "nothing is restarted" in told.out
    assert "does not manage the kubelet's client CAs, mirrors, registry logins" in told.out
    assert "windows-instance-config-daemon stays on the hosts" in told.out
    assert "hunter2" not in told.out
    assert "PRIVATE" not in told.out
    done = await adopt(peer, "--yes", "-o", "json")
    assert done.code == 0
    assert results(done) == {name: result.replace("to take over", "taken over") for name, result in everything.items()}
    again = await adopt(peer, "--yes", "-o", "json")
    assert results(again) == {name: result.replace("to take over", "there already") for name, result in everything.items()}
    held = (await cluster.client.get(WHOLE_NODES, node)).value["metadata"]["annotations"]
    assert held["transom.dev/adopt"] == "true"
    assert f"{WMCO}/desired-version" not in held

    controllers = ("egress", "hosts", "instances", "nodes", "keys")
    async with cluster.operator(payload=payload, pace=QUICK, controllers=controllers):
        async with asyncio.timeout(PATIENCE):
            while not (await cluster.client.list_objects(WINDOWS_INSTANCES, cluster.namespace)).items:
                await asyncio.sleep(0.05)
        # the simulated host has a port of its own
        await cluster.merge(WINDOWS_INSTANCES, "127.0.0.1", {"spec": {"port": host.port}})
        await cluster.until("127.0.0.1", Configured="True/Adopted", ProxyApplied="True/Applied", TrustApplied="True/Applied")
        assert f"HTTPS_PROXY={PROXY}" in environment(host, "kubelet")
        assert {name: len(host.starts(name)) for name in starts} == starts
        assert not host.files.exists(r"C:\k\kubelet.exe")
        # from now on it is as any other host
        await cluster.proxy(**settings | {"httpProxy": "http://other.corp.example:3128"})
        await until(lambda: len(host.starts("kubelet")) == starts["kubelet"] + 1)
        await until(lambda: host.registry.find_value(ENVIRONMENT, "HTTP_PROXY") is None)
        await cluster.delete(EGRESS_PROXIES, "cluster")
        await until(lambda: not [name for name in variables if host.registry.find_value(ENVIRONMENT, name)])
        await until(lambda: host.registry.find_key(rf"{STORE}\{IMPORTED.sha1}") is None)
        assert host.registry.find_key(rf"{STORE}\{BEFORE.sha1}") is not None
        await cluster.until("127.0.0.1", Configured="True/Adopted", ProxyApplied="True/NotConfigured")
    assert host.unknown == []
    await cluster.delete(NODES, node)


async def test_what_the_peer_does_not_have(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(cluster.control_plane.kubeconfig))
    nothing = await adopt(Peer(cluster))
    assert not [line for line in nothing.out.splitlines() if not line.startswith("Node ")]
    assert (await adopt(Peer(cluster), "--drop-values")).code == 2
    # a node that nothing leads to stays
    name = f"lost-{cluster.namespace}"
    labels = {"node.openshift.io/os_id": "Windows"}
    await cluster.put(NODES, name, metadata={"name": name, "labels": labels, "annotations": {f"{WMCO}/version": "10.19.0"}})
    lost = await adopt(Peer(cluster), "--yes")
    assert lost.code == 1
    assert "neither windows-instances nor a Machine says how its host is reached" in lost.out
    await cluster.delete(NODES, name)
