"""Names and addresses that no host's certificate has: the API server's, Services', other Nodes'."""

from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

from transom.controllers.runtime.informers import Informers
from transom.controllers.runtime.settings import CurrentSettings
from transom.kube import NotFound
from transom.kube.client import Client
from transom.kube.objects import ObjectMeta, Projected
from transom.kube.resources import Resource
from transom.windows.nodes import address
from transom.windows.nodes.node_certificates import Member, Reserved

_DOMAIN: Final = "cluster.local"
_SERVER_NAMES: Final = ("kubernetes", "localhost")


class _Ingress(Projected, frozen=True):
    ip: str | None = None


class _LoadBalancer(Projected, frozen=True):
    ingress: list[_Ingress] | None = None


class _ServiceStatus(Projected, frozen=True):
    load_balancer: _LoadBalancer | None = None


class KnownService(Projected, frozen=True):
    """A Service: its name, and every address that leads to it."""

    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, object] | None = None
    status: _ServiceStatus | None = None


class _Endpoint(Projected, frozen=True):
    addresses: list[str] | None = None


class _Slice(Projected, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    endpoints: list[_Endpoint] | None = None


_SERVICES: Final = Resource("", "v1", "Service", "services", True, KnownService)
_SLICES: Final = Resource("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices", True, _Slice)


class ReservedNames:
    """Asked once for each certificate that would be approved else."""

    def __init__(self, informers: Informers, settings: CurrentSettings) -> None:
        self._informers, self._settings = informers, settings

    async def of(self, member: Member, client: Client) -> Reserved:
        """What is not a member's. Raises ApiError: then nothing is approved."""
        newest = self._settings.newest
        networks = newest.networks if newest is not None else None
        hosts = [urlsplit(client.connection.server).hostname, networks.internal_api_host if networks is not None else None]
        server = {host.lower().removesuffix(".") for host in hosts if host}
        services = (await client.list_objects(_SERVICES)).items
        others = [node for node in self._informers.nodes.snapshot() if node.metadata.uid != member.node_uid]
        texts = [*server, *await _endpoints(client), *(text for one in services for text in _addresses(one))]
        found = {made for text in texts if (made := address(text)) is not None}
        domain = (networks.dns_domain if networks is not None else None) or _DOMAIN
        return Reserved(
            server_names=frozenset({*_SERVER_NAMES, *(name for name in server if address(name) is None)}),
            names=frozenset({node.metadata.name for node in others} | {one.metadata.name for one in services}),
            domains=frozenset(("svc", domain.strip(".").lower(), _DOMAIN)),
            addresses=frozenset(found.union(*(node.ips for node in others))),
            networks=tuple(networks.service_network) if networks is not None else (),
        )


async def _endpoints(client: Client) -> list[str]:
    """The addresses of the API servers, as they say themselves (kube-apiserver keeps this slice)."""
    try:
        found = await client.get(_SLICES, "kubernetes", "default")
    except NotFound:
        return []
    return [text for endpoint in found.endpoints or () for text in endpoint.addresses or ()]


def _addresses(service: KnownService) -> Iterator[str]:
    spec = service.spec or {}
    for field in ("clusterIPs", "externalIPs"):
        listed = spec.get(field)
        yield from map(str, listed) if isinstance(listed, list) else ()
    yield from (str(spec[field]) for field in ("clusterIP", "loadBalancerIP") if spec.get(field))
    balancer = service.status.load_balancer if service.status is not None else None
    yield from (one.ip for one in (balancer.ingress if balancer is not None else None) or () if one.ip)
