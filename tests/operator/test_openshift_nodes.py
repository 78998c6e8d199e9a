"""Nodes of OpenShift: its network, its API server's address, its node bootstrapper's token."""

import asyncio
import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.life.payloads import write
from tests.operator.clusters import Cluster
from tests.operator.foreign import definition
from tests.operator.test_certificates import ask, holder, until_approved
from tests.operator.test_nodes import QUICK, bare, node_of
from tests.windows.test_node_certificates import CLIENT_USAGES, pem

from transom.controllers.windows.bootstrap_tokens import Token
from transom.controllers.windows.cluster_facts import MIRROR_SETS
from transom.kube.objects import Whole
from transom.kube.resources import (
    CONFIG_MAPS,
    OPENSHIFT_INFRASTRUCTURES,
    OPENSHIFT_NETWORKS,
    SECRETS,
    Resource,
)
from transom.proxy.secret import Secret
from transom.windows.node_certificates import CLIENT

pytestmark = pytest.mark.lab
OPERATOR_NETWORKS = Resource("operator.openshift.io", "v1", "Network", "networks", False, Whole)
CONFIG_OPERATOR = "openshift-machine-config-operator"
KINDS = [
    definition("config.openshift.io", "v1", "Network", "networks"),
    definition("config.openshift.io", "v1", "Infrastructure", "infrastructures"),
    definition("operator.openshift.io", "v1", "Network", "networks"),
    definition("config.openshift.io", "v1", "ImageDigestMirrorSet", "imagedigestmirrorsets"),
]
SERVER = "https://api-int.ocp.corp.example:6443"


@pytest.fixture
async def openshift(cluster: Cluster) -> AsyncIterator[Cluster]:
    """A cluster with OVN-Kubernetes and no hybrid overlay; nothing of kubeadm."""
    plane = cluster.control_plane
    await asyncio.to_thread(plane.kubectl, "delete", "configmap", "-n", "kube-public", "cluster-info", "--ignore-not-found")
    await asyncio.to_thread(plane.define, KINDS)
    await cluster.put(
        OPENSHIFT_NETWORKS, "cluster", status={"networkType": "OVNKubernetes", "serviceNetwork": ["172.30.0.0/16"]}
    )
    await cluster.put(OPERATOR_NETWORKS, "cluster", spec={"defaultNetwork": {"type": "OVNKubernetes"}})
    status = {"apiServerInternalURI": SERVER, "platformStatus": {"type": "None"}}
    await cluster.put(OPENSHIFT_INFRASTRUCTURES, "cluster", status=status)
    mirrors = [{"source": "quay.io", "mirrors": ["mirror.corp.example/quay"]}]
    await cluster.put(MIRROR_SETS[0], "corp", spec={"imageDigestMirrors": mirrors})
    await cluster.put(CONFIG_MAPS, "kube-root-ca.crt", data={"ca.crt": plane.authority_file.read_text()})
    yield cluster
    await asyncio.to_thread(plane.forget, KINDS)


def token_secret(token: str) -> dict[str, Any]:
    return {"data": {"token": base64.b64encode(token.encode()).decode()}}


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
    token = await asyncio.to_thread(plane.service_account_token, CONFIG_OPERATOR, "node-bootstrapper")
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "node-bootstrapper-token", "namespace": CONFIG_OPERATOR},
    }
    await asyncio.to_thread(plane.apply, [{**secret, **token_secret(token)}])
    await cluster.instance("win-1", host, lifecycle="Node")
    try:
        async with cluster.operator(payload=write(tmp_path / "payload"), pace=QUICK):
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
            found = await cluster.client.list_objects(SECRETS, cluster.namespace)
            assert not [one.metadata.name for one in found.items if one.metadata.name.startswith("bootstrap-")]
            async with holder(cluster, Token(f"ocp-{cluster.namespace}", Secret(token))) as client:
                await ask(cluster, client, "by-bootstrapper", pem(f"system:node:{node_of(host)}"), CLIENT, CLIENT_USAGES)
            await until_approved(cluster, "by-bootstrapper")
    finally:
        await cluster.client.delete(SECRETS, "node-bootstrapper-token", CONFIG_OPERATOR)
