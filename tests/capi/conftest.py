from collections.abc import Iterator

import pytest
from lab.cluster_api import BootstrapProvider
from lab.control_plane import ControlPlane
from tests.capi.kept_definitions import kept_definitions

from lab import cluster_api, infrastructure
from transom.manifests.definitions import build_crds

INFRASTRUCTURE = (*infrastructure.MODULES.values(), (infrastructure.MODULES["aws"][0], "awsmachinepools"))
KEPT = ("azure", "vsphere", "openstack", "nutanix")
"""Providers whose definitions are kept beside the tests: Go's proxy has no module of theirs that is of today."""


@pytest.fixture(scope="session")
def management() -> Iterator[ControlPlane]:
    """An API server with the kinds of Cluster API, its addons, and the providers' machine templates, and a Cluster."""
    providers = (*infrastructure.read_definitions(INFRASTRUCTURE), *kept_definitions(*KEPT))
    with ControlPlane(definitions=(*cluster_api.read_definitions(), *providers, *build_crds())) as running:
        running.apply([CLUSTER, *PROXY])
        yield running


@pytest.fixture(scope="session")
def cabpk(management: ControlPlane) -> Iterator[BootstrapProvider]:
    with BootstrapProvider(management) as running:
        yield running


CLUSTER = {
    "apiVersion": "cluster.x-k8s.io/v1beta2",
    "kind": "Cluster",
    "metadata": {"name": "prod", "namespace": "default"},
    "spec": {
        "controlPlaneEndpoint": {"host": "prod.example.com", "port": 6443},
        "clusterNetwork": {"services": {"cidrBlocks": ["10.96.0.0/12"]}, "pods": {"cidrBlocks": ["192.168.0.0/16"]}},
        "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "LabCluster", "name": "prod"},
    },
}


PROXY = (
    {
        "apiVersion": "transom.dev/v1alpha1",
        "kind": "EgressProxy",
        "metadata": {"name": "cluster"},
        "spec": {"httpProxy": "http://proxy.example.com:3128", "httpsProxy": "http://proxy.example.com:3128"},
    },
)
