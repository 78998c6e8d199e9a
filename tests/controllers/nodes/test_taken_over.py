"""A node of the peer, made as its sources make it, whose services are handed over: it lives on as one of Transom's."""

import asyncio
import base64
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.support.operator.clusters import Cluster, environment
from tests.support.operator.kubelets import Kubelets
from tests.support.operator.nodes import SUBNET, bare, reasons
from tests.support.operator.openshift import CONFIG_OPERATOR, OPERATOR_NETWORKS, SERVER, token_secret
from tests.support.operator.peer import DAEMON, WMCO, Peer, adopt, as_made
from tests.support.operator.upgrades import QUICK
from tests.support.waiting import until
from tests.support.workers.shipped import complete
from tests.windows.authorities import authority

from transom.controllers.join.cluster_facts import EXPORTER
from transom.controllers.join.cluster_registries import MIRROR_SETS
from transom.kube.errors import NotFound
from transom.kube.objects import UnstructuredObject
from transom.kube.resources import CONFIG_MAPS, NODES, SECRETS, WINDOWS_INSTANCES, Resource
from transom.proxy.trust import format_pem
from transom.windows import ledger
from transom.windows.host.queries import LEDGER, SERVICES
from transom.windows.parts.installed import InstalledPayload
from winsim import Host

pytestmark = pytest.mark.lab
MADE = ("windows_exporter", "containerd", "kubelet", "hybrid-overlay-node", "kube-proxy", "csi-proxy")
PROXY = "http://proxy.corp.example:3128"
VERSION = "1.36.2-1"
OF_KUBE_SYSTEM = Resource("", "v1", "ConfigMap", "configmaps", True, UnstructuredObject)
AUTHENTICATION = ("extension-apiserver-authentication", "kube-system")


@pytest.fixture
async def ovn(openshift: Cluster) -> AsyncIterator[Cluster]:
    """OpenShift with a hybrid overlay."""
    names = ("openshift-config", CONFIG_OPERATOR)
    places = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in names]
    token = {"name": "node-bootstrapper-token", "namespace": CONFIG_OPERATOR}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": token, **token_secret("abc")}
    await asyncio.to_thread(openshift.control_plane.apply, [*places, secret])
    hybrid = {"hybridOverlayConfig": {"hybridClusterNetwork": [{"cidr": "10.132.0.0/14", "hostPrefix": 23}]}}
    network = {"type": "OVNKubernetes", "ovnKubernetesConfig": hybrid}
    await openshift.put(OPERATOR_NETWORKS, "cluster", spec={"defaultNetwork": network})
    yield openshift
    for name, namespace in (("node-bootstrapper-token", CONFIG_OPERATOR), ("pull-secret", "openshift-config")):
        try:
            await openshift.client.delete(SECRETS, name, namespace)
        except NotFound:
            continue


@pytest.fixture
async def client_authorities(openshift: Cluster) -> AsyncIterator[str]:
    """By which the API server knows its clients, as PEM: what a test adds is taken off again."""
    value = (await openshift.client.get(OF_KUBE_SYSTEM, *AUTHENTICATION)).value
    yield value["data"]["client-ca-file"]
    await openshift.client.patch(OF_KUBE_SYSTEM, {"data": value["data"]}, *AUTHENTICATION)


def image(host: Host, service: str) -> str:
    value = host.registry.find_value(rf"{SERVICES}\{service}", "ImagePath")
    return value.decode_text() if value else ""


def read(host: Host, path: str) -> str:
    return host.files.read(path).decode() if host.files.exists(path) else ""


def installed(host: Host) -> InstalledPayload:
    return ledger.read(host.registry).installed


async def test_a_node_of_the_peer_lives_on(
    ovn: Cluster, kubelets: Kubelets, client_authorities: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = ovn
    monkeypatch.setenv("KUBECONFIG", str(cluster.control_plane.kubeconfig))
    peer, payload = Peer(cluster), complete(tmp_path / "payload").path
    host = await bare(cluster, "win", "127.0.0.1")
    of_node = {"NODE_NAME": host.name.lower(), "HOSTNAME_OVERRIDE": host.name.lower(), "NODE_IP": "127.0.0.1"}
    found = as_made(host, {**of_node, "⟨apiServerEndpoint⟩": SERVER, "⟨vxlanPort⟩": "9898"})
    networks = {"serviceNetwork": ["172.30.0.0/16"], "podNetwork": ["10.128.0.0/14"], "internalAPIHost": "api-int.corp.example"}
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY, networks=networks)
    async with cluster.operator(controllers=("egress",)) as operator:
        await until(lambda: operator.settings.own is not None and operator.settings.own.http_proxy)
        assert operator.settings.own is not None
        variables = operator.settings.own.variables
    # an entry by DNS name, as the peer recommends with DHCP
    await peer.install(variables, "localhost", MADE)
    await peer.scale(0)
    await cluster.delete(SECRETS, "cloud-private-key")
    node = await peer.join(host, variables, name=host.name.lower())
    annotations = {f"{WMCO}/version": "10.19.0", f"{WMCO}/desired-version": "10.19.0", **SUBNET}
    await kubelets.join(host, **annotations)
    await cluster.merge(NODES, node, {"metadata": {"labels": {"node.openshift.io/os_id": "Windows"}}})
    assert all(host.services.get(name).state.name == "RUNNING" for name in found)

    told = await adopt(peer, "--services")
    assert (told.code, told.err) == (0, "")
    assert "windows-instances, localhost" in told.out
    assert f"services {', '.join(MADE)} become Transom's" in told.out and "removed with the WindowsInstance" in told.out
    assert f"{DAEMON} stays on the hosts" in told.out
    assert (await adopt(peer, "--services", "--yes")).code == 0
    assert (await adopt(peer, "--services", "--yes", "-o", "json")).json[2]["result"] == "there already"

    # OpenShift's service CA makes it for the exporter's Service
    certificate = {"tls.crt": format_pem([authority("Exporter")]), "tls.key": "key"}
    encoded = {name: base64.b64encode(text.encode()).decode() for name, text in certificate.items()}
    await cluster.put(SECRETS, EXPORTER, data=encoded)
    only = ("egress", "hosts", "instances", "nodes", "keys")
    async with cluster.operator(payload=payload, pace=QUICK, controllers=only):
        await until(lambda: _there(cluster, "localhost"))
        # the simulated host has a port of its own
        await cluster.merge(WINDOWS_INSTANCES, "localhost", {"spec": {"port": host.port}})
        await cluster.until("localhost", 120, Configured="True/UpToDate", NodeReady="True", ProxyApplied="True/Applied")
        assert {"Cordoned", "Drained"} <= set(await reasons(cluster, "localhost"))
        await cluster.says("localhost", "taken over: ", f"{DAEMON} of the host's previous operator still exists")
        for name in MADE:
            own = installed(host).find_service(name)
            assert own is not None and own.taken is not None
            assert (own.taken.command, own.taken.type, own.taken.start) == (found[name], 16, 2)
            assert host.services.get(name).state.name == "RUNNING"
        assert image(host, "kubelet") != found["kubelet"]
        kubelet = installed(host).find_file(r"C:\k\kubelet.exe")
        assert kubelet is not None and kubelet.found and not kubelet.aside
        assert host.files.read(r"C:\k\kubelet.exe") == b"MZ kube-node/kubelet.exe"
        assert f"HTTPS_PROXY={PROXY}" in environment(host, "kubelet")
        assert "--hybrid-overlay-vxlan-port" in image(host, "hybrid-overlay-node")
        assert not host.files.exists(r"C:\k\kubelet.exe.transom-before")
        starts = {name: len(host.starts(name)) for name in MADE}

        # the CA of those that ask kubelets is rotated, a mirror and a login change: nobody is restarted
        other = format_pem([authority("Next signer")])
        await cluster.client.patch(OF_KUBE_SYSTEM, {"data": {"client-ca-file": client_authorities + other}}, *AUTHENTICATION)
        await until(lambda: other.strip() in read(host, r"C:\k\kubelet-ca.crt"))
        mirrors = [{"source": "quay.io", "mirrors": ["other.corp.example/quay"]}]
        await cluster.put(MIRROR_SETS[0], "corp", spec={"imageDigestMirrors": mirrors})
        toml = r"C:\k\containerd\registries\quay.io\hosts.toml"
        await until(lambda: "other.corp.example" in read(host, toml))
        login = base64.b64encode(b"alice:hunter2").decode()
        pull = {".dockerconfigjson": json.dumps({"auths": {"other.corp.example": {"auth": login}}})}
        secret = {"name": "pull-secret", "namespace": "openshift-config"}
        value = {"apiVersion": "v1", "kind": "Secret", "metadata": secret, "type": "kubernetes.io/dockerconfigjson"}
        await asyncio.to_thread(cluster.control_plane.apply, [{**value, "stringData": pull}])
        await until(lambda: f"Basic {login}" in read(host, toml))
        assert {name: len(host.starts(name)) for name in MADE} == starts

    newer = tmp_path / "newer"
    complete(newer)
    text = (newer / "payload.yaml").read_text()
    (newer / "payload.yaml").write_text(re.sub(r"(?m)^version: .*", "version: 1.36.2-2", text))
    (newer / "kube-node" / "kubelet.exe").write_bytes(b"MZ another kubelet")
    async with cluster.operator(payload=newer, pace=QUICK, controllers=only):
        await until(lambda: _version(cluster, "1.36.2-2"), 120)
        await cluster.until("localhost", Configured="True/UpToDate", NodeReady="True")
        assert host.files.read(r"C:\k\kubelet.exe") == b"MZ another kubelet"
        assert len(host.starts("kubelet")) == starts["kubelet"] + 1
        assert installed(host).find_service("kubelet").taken is not None  # type: ignore[union-attr]

        await cluster.client.patch(CONFIG_MAPS, {"data": {"localhost": None}}, "windows-instances", cluster.namespace)
        place = {"metadata": {"annotations": {"transom.dev/confirm-removal": "1"}}}
        await cluster.client.patch(CONFIG_MAPS, place, "windows-instances", cluster.namespace)
        await cluster.gone("localhost", 120)
    assert [name for name in MADE if host.services.find(name) is not None] == []
    assert host.services.get(DAEMON).state.name == "RUNNING"
    assert host.registry.find_key(LEDGER) is None
    assert [path for path in (r"C:\k\kubelet.exe", r"C:\k\containerd\containerd.exe", toml) if host.files.exists(path)] == []
    with pytest.raises(NotFound):
        await cluster.client.get(NODES, node)
    assert host.unknown == []


async def _there(cluster: Cluster, name: str) -> bool:
    found = await cluster.client.list_objects(WINDOWS_INSTANCES, cluster.namespace)
    return name in [item.metadata.name for item in found.items]


async def _version(cluster: Cluster, version: str = VERSION) -> bool:
    return (await cluster.status("localhost")).get("payloadVersion") == version
