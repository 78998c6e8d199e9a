"""The infrastructure objects of Cluster API that name their machines' networks, each by the fields of its provider.

Read in kubernetes-sigs/cluster-api-provider-aws (v2.13.0, v1beta1 and v1beta2), -azure (69ec3a4 and, of the managed control
plane, 468dda3, v1beta1), -gcp (v1.13.1, v1beta1) and -openstack (e52de58, v1beta1 and v1beta2), config/crd/bases. Of a network
that was there before, AWS's and OpenStack's controllers write the CIDRs into the object. EKS, ROSA and AKS have theirs in the
control plane's object, GKE in the infrastructure's. Those of vSphere (kubernetes-sigs/cluster-api-provider-vsphere, b04714a)
and Nutanix (nutanix-cloud-native/cluster-api-provider-nutanix, 5966451) name networks and no CIDR.

OpenShift's objects that do so are of github.com/openshift/api, config/v1.
"""

from collections.abc import Iterable, Iterator
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any, Final

import msgspec

from transom.proxy.finding import Finding, Place
from transom.proxy.no_proxy import is_cidr
from transom.proxy.objects import Infrastructure, InfrastructureCluster, Meta, OpenShiftNetwork, Platform
from transom.shown import NAME
from transom.sources.core_objects import at, text, texts
from transom.sources.decoding import Decoder

_INFRASTRUCTURE: Final = "infrastructure.cluster.x-k8s.io"
_CONTROL_PLANE: Final = "controlplane.cluster.x-k8s.io"


class _Fields(msgspec.Struct, frozen=True):
    """Paths; a `*` stands for each item of a list."""

    networks: tuple[str, ...]
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
_FIELDS: Final = {
    "AWSCluster": _Fields(_OF_AWS, region="spec.region"),
    "AWSManagedControlPlane": _Fields((*_OF_AWS, "spec.secondaryCidrBlock"), region="spec.region", group=_CONTROL_PLANE),
    "ROSAControlPlane": _Fields(("spec.network.machineCIDR",), region="spec.region", group=_CONTROL_PLANE),
    "AzureCluster": _Fields(
        ("spec.networkSpec.vnet.cidrBlocks.*", "spec.networkSpec.subnets.*.cidrBlocks.*"), cloud="spec.azureEnvironment"
    ),
    "AzureManagedControlPlane": _Fields(
        ("spec.virtualNetwork.cidrBlock", "spec.virtualNetwork.subnet.cidrBlock"), cloud="spec.azureEnvironment"
    ),
    "GCPCluster": _Fields(("spec.network.subnets.*.cidrBlock",), region="spec.region"),
    "GCPManagedCluster": _Fields(("spec.network.subnets.*.cidrBlock",), region="spec.region"),
    "OpenStackCluster": _Fields(("spec.managedSubnets.*.cidr", "status.network.subnets.*.cidr")),
}
KINDS: Final = {kind: (fields.group, f"{kind.lower()}s") for kind, fields in _FIELDS.items()}
"""Each kind with its group and its plural."""


def cluster(
    value: dict[str, Any], meta: Meta, place: Place, decoder: Decoder, findings: list[Finding]
) -> InfrastructureCluster:
    """The networks, the region and the cloud; what is no name or no CIDR is left out, since that is its provider's to say."""
    kind = str(value["kind"])
    fields = _FIELDS[kind]
    found = dict.fromkeys(cidr for path in fields.networks for cidr in _texts(value, path.split(".")) if is_cidr(cidr))
    region, cloud = (next(_texts(value, path.split(".")), "") if path else "" for path in (fields.region, fields.cloud))
    # it becomes part of a name in the list
    return InfrastructureCluster(meta, place, kind, region if NAME.match(region) else "", cloud, _outermost(found))


def _outermost(networks: Iterable[str]) -> tuple[str, ...]:
    """Without those that are part of another one before them."""
    kept: list[tuple[str, IPv4Network | IPv6Network]] = []
    for cidr in networks:
        network = ip_network(cidr, strict=False)
        if not any(_within(network, one) for _, one in kept):
            kept.append((cidr, network))
    return tuple(cidr for cidr, _ in kept)


def _within(inner: IPv4Network | IPv6Network, outer: IPv4Network | IPv6Network) -> bool:
    return inner.version == outer.version and inner[0] in outer and inner.prefixlen >= outer.prefixlen


def _texts(value: Any, path: list[str]) -> Iterator[str]:
    if not path:
        if isinstance(value, str):
            yield value
    elif path[0] == "*":
        for one in value if isinstance(value, list) else ():
            yield from _texts(one, path[1:])
    else:
        yield from _texts(at(value, (path[0],)), path[1:])


def openshift_network(
    value: dict[str, Any], meta: Meta, place: Place, decoder: Decoder, findings: list[Finding]
) -> OpenShiftNetwork:
    """`Network/cluster`: the status, where the operator has written one, else the spec."""
    pods: tuple[str, ...] = ()
    services: tuple[str, ...] = ()
    for part in ("status", "spec"):
        entries = at(value, (part, "clusterNetwork"))
        found = (
            [text(entry, ("cidr",), Decoder(place, findings, strict=False)) for entry in entries if isinstance(entry, dict)]
            if isinstance(entries, list)
            else []
        )
        pods = pods or tuple(cidr for cidr in found if cidr)
        services = services or texts(value, (part, "serviceNetwork"), decoder)
    return OpenShiftNetwork(meta, place, pods, services)


def openshift_infrastructure(
    value: dict[str, Any], meta: Meta, place: Place, decoder: Decoder, findings: list[Finding]
) -> Infrastructure:
    """`Infrastructure/cluster`: platform, internal API server, and machine networks where the platform's status has them."""
    status = ("status", "platformStatus")
    kind = text(value, (*status, "type"), decoder) or text(value, ("status", "platform"), decoder)
    platform = None
    if kind:
        cloud = text(value, (*status, "azure", "cloudName"), decoder)
        platform = Platform(
            kind,
            text(value, (*status, "aws", "region"), decoder) or "",
            cloud or "",
            text(value, (*status, "azure", "armEndpoint"), decoder) or "",
        )
    machine: tuple[str, ...] = ()
    for name in ("baremetal", "vsphere", "openstack"):
        machine = machine or texts(value, (*status, name, "machineNetworks"), decoder)
    return Infrastructure(meta, place, text(value, ("status", "apiServerInternalURI"), decoder), machine, platform)
