"""OpenShift's objects that name the networks of a cluster (github.com/openshift/api, config/v1)."""

from typing import Any

from transom.proxy.finding import Finding, Place
from transom.proxy.objects import Infrastructure, Meta, OpenShiftNetwork, Platform
from transom.sources.core_objects import at, text, texts
from transom.sources.decoding import Decoder


def network(value: dict[str, Any], meta: Meta, place: Place, decoder: Decoder, findings: list[Finding]) -> OpenShiftNetwork:
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


def infrastructure(
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
