"""Names and addresses that no host's certificate has: the API server's, Services', other Nodes'."""

from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

import msgspec

from transom.controllers.runtime.current_settings import CurrentSettings
from transom.controllers.runtime.informers import Informers
from transom.kube.client import Client
from transom.kube.errors import NotFound, UnreadableObject
from transom.kube.memory_limits import MemoryLimit
from transom.kube.objects import ObjectMeta, Projected
from transom.kube.resources import Resource
from transom.windows.nodes.node_certificates import Member, ReservedIdentities
from transom.windows.nodes.windows_instance import parse_ip_address

_DOMAIN: Final = "cluster.local"
_SERVER_NAMES: Final = ("kubernetes", "localhost")


class _Ingress(Projected, frozen=True):
    ip: str | None = None


class _LoadBalancer(Projected, frozen=True):
    ingress: list[_Ingress] | None = None


class _ServiceStatus(Projected, frozen=True):
    load_balancer: _LoadBalancer | None = None


class ServiceMeta(Projected, frozen=True):
    """`metadata` of a Service, without what others write into it."""

    name: str = ""
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None


class _ServiceSpec(Projected, frozen=True):
    """`spec` of a Service, without fields that users can make arbitrarily long and Transom does not need."""

    cluster_ip: str | None = msgspec.field(default=None, name="clusterIP")
    cluster_ips: list[str] | None = msgspec.field(default=None, name="clusterIPs")
    external_ips: list[str] | None = msgspec.field(default=None, name="externalIPs")
    load_balancer_ip: str | None = msgspec.field(default=None, name="loadBalancerIP")


class KnownService(Projected, frozen=True):
    """A Service: its name, and every address that leads to it."""

    metadata: ServiceMeta = ServiceMeta()
    spec: _ServiceSpec | None = None
    status: _ServiceStatus | None = None

    @property
    def addresses(self) -> Iterator[str]:
        """Every address that leads to it, as its object writes it."""
        if self.spec is not None:
            yield from self.spec.cluster_ips or ()
            yield from self.spec.external_ips or ()
            yield from filter(None, (self.spec.cluster_ip, self.spec.load_balancer_ip))
        balancer = self.status.load_balancer if self.status is not None else None
        yield from (item.ip for item in (balancer.ingress if balancer is not None else None) or () if item.ip)


class _Endpoint(Projected, frozen=True):
    addresses: list[str] | None = None


class _Slice(Projected, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    endpoints: list[_Endpoint] | None = None


_BOUND: Final = MemoryLimit(16 << 20, 64 << 20)
"""The limit for Services that have a name or an address of one host: normally none exists, unless a user claims the host's."""
_SERVICES: Final = Resource("", "v1", "Service", "services", True, KnownService)
_SLICES: Final = Resource("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices", True, _Slice)


class ReservedNameFinder:
    """Asked once for each certificate that would be approved else."""

    def __init__(self, informers: Informers, settings: CurrentSettings) -> None:
        self._informers, self._settings = informers, settings

    async def find_reserved(self, member: Member, client: Client) -> ReservedIdentities:
        """Return the names and addresses that a member may not have. Raises ApiError: then nothing is approved."""
        newest = self._settings.newest
        networks = newest.networks if newest is not None else None
        hosts = [urlsplit(client.connection.server).hostname, networks.internal_api_host if networks is not None else None]
        server = {host.lower().removesuffix(".") for host in hosts if host}
        services = await _list_services(member, client)
        others = [node for node in self._informers.nodes.take_snapshot() if node.metadata.uid != member.node_uid]
        texts = [*server, *await _list_api_servers(client), *(text for service in services for text in service.addresses)]
        addresses = {made for text in texts if (made := parse_ip_address(text)) is not None}
        domain = (networks.dns_domain if networks is not None else None) or _DOMAIN
        return ReservedIdentities(
            server_names=frozenset({*_SERVER_NAMES, *(name for name in server if parse_ip_address(name) is None)}),
            names=frozenset({node.metadata.name for node in others} | {service.metadata.name for service in services}),
            domains=frozenset(("svc", domain.strip(".").lower(), _DOMAIN)),
            addresses=frozenset(addresses.union(*(node.ips for node in others))),
            networks=tuple(networks.service_network) if networks is not None else (),
        )


async def _list_api_servers(client: Client) -> list[str]:
    """Return the addresses of the API servers, from the slice that kube-apiserver maintains."""
    try:
        endpoint_slice = await client.get(_SLICES, "kubernetes", "default")
    except NotFound:
        return []
    return [text for endpoint in endpoint_slice.endpoints or () for text in endpoint.addresses or ()]


async def _list_services(member: Member, client: Client) -> list[KnownService]:
    """Return the Services that have a name or an address of this member.

    Users may create any number of large Services: the others are dropped while they are read. Raises ApiError.
    """

    def matches_member(service: KnownService) -> bool:
        return service.metadata.name in member.names or any(
            parse_ip_address(text) in member.addresses for text in service.addresses
        )

    listing = await client.list_objects(_SERVICES, memory_limit=_BOUND, select=matches_member)
    for item in listing.malformed:
        if not item.in_use:
            named = item.metadata.metadata
            raise UnreadableObject(f"Service {named.namespace}/{named.name}: {item.problem}")
    return listing.items
