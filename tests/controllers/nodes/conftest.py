import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.support.operator.clusters import Cluster
from tests.support.operator.openshift import KINDS, OPERATOR_NETWORKS, SERVER

from transom.controllers.join.cluster_registries import MIRROR_SETS
from transom.kube.resources import CONFIG_MAPS, OPENSHIFT_INFRASTRUCTURES, OPENSHIFT_NETWORKS


@pytest.fixture
async def openshift(cluster: Cluster) -> AsyncIterator[Cluster]:
    """A cluster with OVN-Kubernetes and no hybrid overlay; nothing of kubeadm."""
    plane = cluster.control_plane
    await asyncio.to_thread(plane.run_kubectl, "delete", "configmap", "-n", "kube-public", "cluster-info", "--ignore-not-found")
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
