"""The objects of Cluster API's providers that say where a workload cluster runs, and what of them is read.

The fields are from kubernetes-sigs/cluster-api-provider-aws (v2.13.0, v1beta1 and v1beta2), -azure (69ec3a4 and, of the
managed control plane, 468dda3, v1beta1), -gcp (v1.13.1, v1beta1) and -openstack (e52de58, v1beta1 and v1beta2), in
config/crd/bases. Of an existing network, AWS's and OpenStack's controllers write the CIDRs into the object. EKS,
ROSA and AKS have theirs in the control plane's object, GKE in the infrastructure's. Those of vSphere
(kubernetes-sigs/cluster-api-provider-vsphere, b04714a) and Nutanix (nutanix-cloud-native/cluster-api-provider-nutanix, 5966451)
name networks and no CIDR.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

_INFRASTRUCTURE: Final = "infrastructure.cluster.x-k8s.io"
_CONTROL_PLANE: Final = "controlplane.cluster.x-k8s.io"


class InfrastructureKind(msgspec.Struct, frozen=True):
    """A kind that a Cluster refers to.

    `platform` is OpenShift's name of it (`proxy.merging` knows what bypasses the proxy there), where an `infrastructureRef` can
    name the kind. `networks`, `region` and `cloud` are paths; a `*` means each item of a list.
    """

    platform: str = ""
    networks: tuple[str, ...] = ()
    region: str = ""
    cloud: str = ""
    group: str = _INFRASTRUCTURE


_VPC: Final = "spec.network.vpc"
_OF_AWS: Final = (
    f"{_VPC}.cidrBlock",
    f"{_VPC}.secondaryCidrBlocks.*.ipv4CidrBlock",
    f"{_VPC}.ipv6.cidrBlock",
    "spec.network.subnets.*.cidrBlock",
)
_OF_GCP: Final = ("spec.network.subnets.*.cidrBlock",)
INFRASTRUCTURE_KINDS: Final[Mapping[str, InfrastructureKind]] = {
    "AWSCluster": InfrastructureKind("AWS", _OF_AWS, region="spec.region"),
    "AWSManagedCluster": InfrastructureKind("AWS"),
    # an infrastructureRef may name it, too: -aws v2.13.0, test/e2e/data/eks/…-control-plane-only-legacy.yaml
    "AWSManagedControlPlane": InfrastructureKind(
        "AWS", (*_OF_AWS, "spec.secondaryCidrBlock"), region="spec.region", group=_CONTROL_PLANE
    ),
    "ROSACluster": InfrastructureKind("AWS"),
    "ROSAControlPlane": InfrastructureKind(networks=("spec.network.machineCIDR",), region="spec.region", group=_CONTROL_PLANE),
    "AzureCluster": InfrastructureKind(
        "Azure",
        ("spec.networkSpec.vnet.cidrBlocks.*", "spec.networkSpec.subnets.*.cidrBlocks.*"),
        cloud="spec.azureEnvironment",
    ),
    "AzureManagedCluster": InfrastructureKind("Azure"),
    "AzureManagedControlPlane": InfrastructureKind(
        networks=("spec.virtualNetwork.cidrBlock", "spec.virtualNetwork.subnet.cidrBlock"), cloud="spec.azureEnvironment"
    ),
    "AzureASOManagedCluster": InfrastructureKind("Azure"),
    "GCPCluster": InfrastructureKind("GCP", _OF_GCP, region="spec.region"),
    "GCPManagedCluster": InfrastructureKind("GCP", _OF_GCP, region="spec.region"),
    "OpenStackCluster": InfrastructureKind("OpenStack", ("spec.managedSubnets.*.cidr", "status.network.subnets.*.cidr")),
}


def read_kinds() -> dict[str, tuple[str, str]]:
    """Those that have something to be read, with their group and their plural."""
    return {
        kind: (infrastructure_kind.group, f"{kind.lower()}s")
        for kind, infrastructure_kind in INFRASTRUCTURE_KINDS.items()
        if infrastructure_kind.networks
    }
