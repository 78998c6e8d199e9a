"""The objects that say where a cluster runs and name its machines' networks: of Cluster API's providers, and OpenShift's.

OpenShift's are of github.com/openshift/api, config/v1; `proxy.infrastructure_kinds` has the fields of the others.
"""

from collections.abc import Iterable, Iterator
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any, Final

from transom.common.escaping import NAME
from transom.proxy.finding import Finding, Place
from transom.proxy.infrastructure_kinds import INFRASTRUCTURE_KINDS, read_kinds
from transom.proxy.no_proxy import is_cidr
from transom.proxy.objects import Infrastructure, InfrastructureCluster, Meta, OpenShiftNetwork, Platform
from transom.sources.core_objects import get_value_at, read_string, read_strings
from transom.sources.decoding import Decoder

KINDS: Final = read_kinds()
"""Each kind that is read, with its group and its plural."""


def read_infrastructure_cluster(
    value: dict[str, Any], meta: Meta, place: Place, decoder: Decoder, findings: list[Finding]
) -> InfrastructureCluster:
    """Read the networks, the region and the cloud; invalid names and CIDRs are ignored: their provider reports them."""
    kind = str(value["kind"])
    fields = INFRASTRUCTURE_KINDS[kind]
    networks = dict.fromkeys(
        cidr for path in fields.networks for cidr in _iter_strings(value, path.split(".")) if is_cidr(cidr)
    )
    region, cloud = (next(_iter_strings(value, path.split(".")), "") if path else "" for path in (fields.region, fields.cloud))
    # it becomes part of a name in the list
    return InfrastructureCluster(
        meta, place, kind, region if NAME.match(region) else "", cloud, _drop_contained_networks(networks)
    )


def _drop_contained_networks(networks: Iterable[str]) -> tuple[str, ...]:
    """Without those that are part of another one before them."""
    kept: list[tuple[str, IPv4Network | IPv6Network]] = []
    for cidr in networks:
        network = ip_network(cidr, strict=False)
        if not any(_is_within(network, item) for _, item in kept):
            kept.append((cidr, network))
    return tuple(cidr for cidr, _ in kept)


def _is_within(inner: IPv4Network | IPv6Network, outer: IPv4Network | IPv6Network) -> bool:
    return inner.version == outer.version and inner[0] in outer and inner.prefixlen >= outer.prefixlen


def _iter_strings(value: Any, path: list[str]) -> Iterator[str]:
    if not path:
        if isinstance(value, str):
            yield value
    elif path[0] == "*":
        for item in value if isinstance(value, list) else ():
            yield from _iter_strings(item, path[1:])
    else:
        yield from _iter_strings(get_value_at(value, (path[0],)), path[1:])


def read_openshift_network(
    value: dict[str, Any], meta: Meta, place: Place, decoder: Decoder, findings: list[Finding]
) -> OpenShiftNetwork:
    """`Network/cluster`: the status, where the operator has written one, else the spec."""
    pods: tuple[str, ...] = ()
    services: tuple[str, ...] = ()
    for part in ("status", "spec"):
        entries = get_value_at(value, (part, "clusterNetwork"))
        networks = (
            [
                read_string(entry, ("cidr",), Decoder(place, findings, strict=False))
                for entry in entries
                if isinstance(entry, dict)
            ]
            if isinstance(entries, list)
            else []
        )
        pods = pods or tuple(cidr for cidr in networks if cidr)
        services = services or read_strings(value, (part, "serviceNetwork"), decoder)
    return OpenShiftNetwork(meta, place, pods, services)


def read_openshift_infrastructure(
    value: dict[str, Any], meta: Meta, place: Place, decoder: Decoder, findings: list[Finding]
) -> Infrastructure:
    """`Infrastructure/cluster`: platform, internal API server, and machine networks where the platform's status has them."""
    status = ("status", "platformStatus")
    kind = read_string(value, (*status, "type"), decoder) or read_string(value, ("status", "platform"), decoder)
    platform = None
    if kind:
        cloud = read_string(value, (*status, "azure", "cloudName"), decoder)
        platform = Platform(
            kind,
            read_string(value, (*status, "aws", "region"), decoder) or "",
            cloud or "",
            read_string(value, (*status, "azure", "armEndpoint"), decoder) or "",
        )
    machine: tuple[str, ...] = ()
    for name in ("baremetal", "vsphere", "openstack"):
        machine = machine or read_strings(value, (*status, name, "machineNetworks"), decoder)
    return Infrastructure(meta, place, read_string(value, ("status", "apiServerInternalURI"), decoder), machine, platform)
