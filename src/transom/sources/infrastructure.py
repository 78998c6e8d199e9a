"""The objects that say where a cluster runs and name its machines' networks: of Cluster API's providers, and OpenShift's.

OpenShift's are of github.com/openshift/api, config/v1; `proxy.infrastructure_kinds` has the fields of the others.
"""

from collections.abc import Iterable, Iterator
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any, Final

from transom.proxy.finding import Finding, Place
from transom.proxy.infrastructure_kinds import INFRASTRUCTURE_KINDS, read_kinds
from transom.proxy.no_proxy import is_cidr
from transom.proxy.objects import Infrastructure, InfrastructureCluster, Meta, OpenShiftNetwork, Platform
from transom.shown import NAME
from transom.sources.core_objects import at, text, texts
from transom.sources.decoding import Decoder

KINDS: Final = read_kinds()
"""Each kind that is read, with its group and its plural."""


def cluster(
    value: dict[str, Any], meta: Meta, place: Place, decoder: Decoder, findings: list[Finding]
) -> InfrastructureCluster:
    """The networks, the region and the cloud; what is no name or no CIDR is left out, since that is its provider's to say."""
    kind = str(value["kind"])
    fields = INFRASTRUCTURE_KINDS[kind]
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
