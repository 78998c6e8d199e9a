"""Nodes of OpenShift: its network, its API server's address, its node bootstrapper's token."""

import asyncio
import base64
import json
import ssl
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml
from tests.support.operator.clusters import Cluster
from tests.support.operator.nodes import QUICK, bare, node_of
from tests.support.operator.openshift import CONFIG_OPERATOR, OPERATOR_NETWORKS, SERVER, plane_map, token_secret
from tests.support.operator.requests import ask, holder, until_approved
from tests.support.waiting import until
from tests.support.workers.payloads import TEXT, write
from tests.windows.authorities import authority
from tests.windows.node_certificates import CLIENT_USAGES, pem

from transom.controllers.join.bootstrap_tokens import Token
from transom.controllers.join.cluster_registries import CONTROLLER_CONFIGS, IMAGES, MIRROR_SETS
from transom.controllers.join.credential_providers import MACHINE_CONFIG_POOLS, MACHINE_CONFIGS
from transom.kube.resources import (
    CONFIG_MAPS,
    OPENSHIFT_INFRASTRUCTURES,
    SECRETS,
)
from transom.proxy.secret import Secret
from transom.proxy.trust import format_pem as pem_of
from transom.windows.nodes.node_certificates import CLIENT

pytestmark = pytest.mark.lab
PROVIDERS = "/etc/kubernetes/credential-providers"
ECR = """
apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- {name: ecr-credential-provider, matchImages: ["*.x"], defaultCacheDuration: 12h}
- {name: crio-credential-provider, matchImages: [docker.io], defaultCacheDuration: 1s}
"""


def data_url(text: str) -> str:
    """As the machine configuration's renderer writes a file."""
    return "data:text/plain;charset=utf-8;base64," + base64.b64encode(text.encode()).decode()


async def test_a_host_joins_openshift(openshift: Cluster, tmp_path: Path) -> None:
    cluster = openshift
    plane = cluster.control_plane
    host = await bare(cluster, "win")
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": CONFIG_OPERATOR}}
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "node-bootstrapper", "namespace": CONFIG_OPERATOR},
    }
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "node-bootstrapper"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:node-bootstrapper"},
        "subjects": [{"kind": "ServiceAccount", "name": "node-bootstrapper", "namespace": CONFIG_OPERATOR}],
    }
    await asyncio.to_thread(plane.apply, [namespace, account, binding])
    token = await asyncio.to_thread(plane.create_service_account_token, CONFIG_OPERATOR, "node-bootstrapper")
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "node-bootstrapper-token", "namespace": CONFIG_OPERATOR},
    }
    await asyncio.to_thread(plane.apply, [{**secret, **token_secret(token)}])
    await cluster.instance("win-1", host, lifecycle="Node")
    try:
        authorities = r"""- {path: 'C:\k\api.crt', provided: api-server-ca}
- {path: 'C:\k\ecr-credential-provider.exe', source: bin/kubelet.exe}
- {path: 'C:\k\providers.yaml', provided: credential-provider-config, content: the payload's own, services: [kubelet]}"""
        await cluster.put(MACHINE_CONFIG_POOLS, "worker", spec={"configuration": {"name": "rendered-worker-1"}})
        file = {"path": f"{PROVIDERS}/ecr-credential-provider.yaml", "contents": {"source": data_url(ECR)}}
        config = {"ignition": {"version": "3.5.0"}, "storage": {"files": [file]}}
        await cluster.put(MACHINE_CONFIGS, "rendered-worker-1", spec={"config": config})
        payload = write(tmp_path / "payload", TEXT.replace("files:\n", f"files:\n{authorities}\n"))
        async with cluster.operator(payload=payload, pace=QUICK):
            await cluster.until("win-1", Configured="False/NetworkNotSupported")
            await cluster.put(
                OPERATOR_NETWORKS, "cluster", spec={"defaultNetwork": {"ovnKubernetesConfig": {"hybridOverlayConfig": {}}}}
            )
            await cluster.until("win-1", Configured="False/NetworkNotSupported")
            assert host.traffic.connections == 0
            hybrid = {"hybridClusterNetwork": [{"cidr": "10.132.0.0/14", "hostPrefix": 23}]}
            ovn = {"type": "OVNKubernetes", "ovnKubernetesConfig": {"hybridOverlayConfig": hybrid}}
            await cluster.put(OPERATOR_NETWORKS, "cluster", spec={"defaultNetwork": ovn})
            await cluster.until("win-1", NodeReady="False/Registering")
            toml = host.files.read(r"C:\k\containerd\certs.d\quay.io\hosts.toml").decode()
            assert '[host."https://mirror.corp.example/v2/quay"]' in toml
            config = yaml.safe_load(host.files.read(r"C:\k\bootstrap.kubeconfig"))
            assert config["clusters"][0]["cluster"]["server"] == SERVER
            assert config["users"][0]["user"]["token"] == token
            providers = yaml.safe_load(host.files.read(r"C:\k\providers.yaml"))["providers"]
            # CRI-O's has no program for Windows
            assert [(provider["name"], provider["matchImages"]) for provider in providers] == [
                ("ecr-credential-provider.exe", ["*.x"])
            ]
            # who trusts that file alone reaches the API server
            context = ssl.create_default_context(cadata=host.files.read(r"C:\k\api.crt").decode())
            url = urlsplit(plane.url)
            _, writer = await asyncio.open_connection(url.hostname, url.port, ssl=context)
            writer.close()
            found = await cluster.client.list_objects(SECRETS, cluster.namespace)
            assert not [item.metadata.name for item in found.items if item.metadata.name.startswith("bootstrap-")]
            async with holder(cluster, Token(f"ocp-{cluster.namespace}", Secret(token))) as client:
                await ask(cluster, client, "by-bootstrapper", pem(f"system:node:{node_of(host)}"), CLIENT, CLIENT_USAGES)
            await until_approved(cluster, "by-bootstrapper")
    finally:
        await cluster.client.delete(SECRETS, "node-bootstrapper-token", CONFIG_OPERATOR)


async def test_a_wrong_ca_is_named_before_a_host_is_changed(openshift: Cluster, tmp_path: Path) -> None:
    """The API server and its clients have CAs of their own; somebody who gives the overlay the clients' cuts it off."""
    cluster, plane = openshift, openshift.control_plane
    await cluster.put(
        OPENSHIFT_INFRASTRUCTURES, "cluster", status={"apiServerInternalURI": plane.url, "platformStatus": {"type": "None"}}
    )
    await cluster.put(CONFIG_MAPS, "kube-root-ca.crt", data={"ca.crt": plane.client_authority_file.read_text()})
    hybrid = {"hybridOverlayConfig": {"hybridClusterNetwork": [{"cidr": "10.132.0.0/14", "hostPrefix": 23}]}}
    network = {"type": "OVNKubernetes", "ovnKubernetesConfig": hybrid}
    await cluster.put(OPERATOR_NETWORKS, "cluster", spec={"defaultNetwork": network})
    host = await bare(cluster, "win")
    overlay = r"- {path: 'C:\k\api.crt', provided: api-server-ca, services: [hybrid-overlay-node]}"
    service = r"- {name: hybrid-overlay-node, command: 'C:\k\kubelet.exe overlay'}"
    text = TEXT.replace("files:\n", f"files:\n{overlay}\n").replace("services:\n- name", f"services:\n{service}\n- name")
    async with cluster.operator(payload=write(tmp_path / "payload", text), pace=QUICK):
        await cluster.instance("win-1", host, lifecycle="Node")
        await cluster.until("win-1", Configured="False/ApiServerNotTrusted")
        start = f"hybrid-overlay-node, kubelet would not connect to {plane.url}, by the CAs of ConfigMap "
        said = await cluster.says("win-1", start, "/kube-root-ca.crt: ", "certificate")
        assert said.startswith(start)
        assert host.traffic.connections == 0
        await cluster.put(CONFIG_MAPS, "kube-root-ca.crt", data={"ca.crt": plane.authority_file.read_text()})
        await cluster.until("win-1", NodeReady="False/Registering")
        assert host.files.read(r"C:\k\api.crt").decode() == plane.authority_file.read_text()
        assert host.files.read(r"C:\k\pki\ca.crt").decode().strip() == plane.client_authority_file.read_text().strip()


async def test_registries_follow_what_people_write_and_a_bad_entry_costs_itself(openshift: Cluster, tmp_path: Path) -> None:
    cluster, plane = openshift, openshift.control_plane
    names = ("openshift-config", "openshift-config-managed", CONFIG_OPERATOR)
    places = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in names]
    bootstrapper = {"name": "node-bootstrapper-token", "namespace": CONFIG_OPERATOR}
    await asyncio.to_thread(
        plane.apply, [*places, {"apiVersion": "v1", "kind": "Secret", "metadata": bootstrapper, **token_secret("abc")}]
    )
    hybrid = {"hybridClusterNetwork": [{"cidr": "10.132.0.0/14", "hostPrefix": 23}]}
    await cluster.put(
        OPERATOR_NETWORKS, "cluster", spec={"defaultNetwork": {"ovnKubernetesConfig": {"hybridOverlayConfig": hybrid}}}
    )
    one, other = pem_of([authority("One")]), pem_of([authority("Other")])
    await plane_map(cluster, "openshift-config", "corp-registries", {"registry.corp.example..5000": one})
    await plane_map(cluster, "openshift-config-managed", "image-registry-ca", {"image-registry.svc..5000": other})
    await cluster.put(IMAGES, "cluster", spec={"additionalTrustedCA": {"name": "corp-registries"}})
    mirrors = [
        {"source": "*.redhat.io", "mirrors": ["m.io"]},
        {"source": "quay.io", "mirrors": ["registry.corp.example:5000/quay"]},
    ]
    await cluster.put(MIRROR_SETS[0], "corp", spec={"imageDigestMirrors": mirrors})
    host = await bare(cluster, "win")
    root = r"C:\k\containerd\certs.d"

    def read(path: str) -> str:
        path = rf"{root}\{path}"
        return host.files.read(path).decode() if host.files.exists(path) else ""

    try:
        async with cluster.operator(payload=write(tmp_path / "payload"), pace=QUICK):
            await cluster.instance("win-1", host, lifecycle="Node")
            await cluster.until("win-1", NodeReady="False/Registering")
            assert read(r"registry.corp.example5000\ca.crt") == one
            assert read(r"image-registry.svc5000\ca.crt") == other
            toml = read(r"quay.io\hosts.toml")
            assert 'capabilities = ["pull"]' in toml and r"registry.corp.example5000\\ca.crt" in toml
            assert any("*.redhat.io" in message for message in await cluster.told("win-1", "MirrorNotSet"))
            login = base64.b64encode(b"alice:hunter2").decode()
            auths = {"registry.corp.example:5000": {"auth": login}, "bad.example": {"auth": "?"}}
            data = {".dockerconfigjson": base64.b64encode(json.dumps({"auths": auths}).encode()).decode()}
            secret = {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": "pull-secret", "namespace": "openshift-config"},
            }
            await asyncio.to_thread(plane.apply, [{**secret, "type": "kubernetes.io/dockerconfigjson", "data": data}])
            await until(lambda: f"Basic {login}" in read(r"quay.io\hosts.toml"))
            bundle = {"file": "other.corp.example", "data": base64.b64encode(other.encode()).decode()}
            await cluster.put(CONTROLLER_CONFIGS, "machine-config-controller", spec={"imageRegistryBundleUserData": [bundle]})
            await until(lambda: read(r"other.corp.example\ca.crt") == other)
            # what the Linux nodes have holds
            await until(lambda: read(r"registry.corp.example5000\ca.crt") == "")
            assert len(host.starts("containerd")) == 1
    finally:
        await cluster.client.delete(SECRETS, "node-bootstrapper-token", CONFIG_OPERATOR)
        await cluster.client.delete(SECRETS, "pull-secret", "openshift-config")
