"""The networks of the cluster that the settings live in, from whatever object knows them."""

import functools
from collections.abc import Iterable, Iterator
from ipaddress import ip_network
from typing import Final

import msgspec

from transom.proxy.finding import Finding, Path, Place
from transom.proxy.merging import CATCH_ALL, host_of, is_known
from transom.proxy.no_proxy import is_cidr, is_ip, split, suggestion
from transom.proxy.objects import Cluster, Networks, SettingsObjects
from transom.shown import NAME

_DNS_OFFSET: Final = 10
"""kubeadm gives the cluster's DNS the tenth address of the services' network (kubeadm, constants.GetDNSIP)."""
_EVERYTHING: Final = "is every address: it is left out of NO_PROXY, or nothing would go through the proxy any more"


def of_own_cluster(objects: SettingsObjects, override: Networks | None, server: str | None = None) -> Networks:
    """Field by field: `spec.networks` of the base, then OpenShift's objects, then kubeadm's and the ServiceCIDRs.

    `server` is the URL of the API server in Transom's own kubeconfig: the last word on the API server's host. What nobody
    knows is empty.
    """
    given = override or Networks()
    kubeadm, infrastructure, openshift = objects.kubeadm_config, objects.infrastructure, objects.network
    services = _cidrs(dict.fromkeys(cidr for item in objects.service_cidrs for cidr in item.cidrs))
    return Networks(
        given.dns_domain or (kubeadm.dns_domain if kubeadm else None),
        given.machine_network or _cidrs(infrastructure.machine_networks if infrastructure else ()),
        given.service_network
        or _cidrs(openshift.service_network if openshift else ())
        or tuple(dict.fromkeys((*_subnets(kubeadm.service_subnet if kubeadm else None), *services))),
        given.pod_network
        or _cidrs(openshift.cluster_network if openshift else ())
        or _subnets(kubeadm.pod_subnet if kubeadm else None),
        given.internal_api_host or _api_host(objects, server),
        given.platform or (infrastructure.platform if infrastructure else None),
    )


def _cidrs(items: Iterable[str]) -> tuple[str, ...]:
    return tuple(item for item in items if is_cidr(item))


def first_cidr(cidrs: Iterable[str]) -> str | None:
    """The first of them that is a CIDR: what a field with room for one takes of a dual-stack cluster."""
    return next(iter(_cidrs(cidrs)), None)


def _subnets(text: str | None) -> tuple[str, ...]:
    return _cidrs(split(text or ""))


def _api_host(objects: SettingsObjects, server: str | None) -> str | None:
    urls = (
        objects.infrastructure.api_server_internal_uri if objects.infrastructure else None,
        objects.cluster_info.server if objects.cluster_info else None,
        server,
    )
    return next((host for url in urls if url and (host := host_of(url))), None)


def examine_sources(objects: SettingsObjects, override: Networks | None) -> Iterator[Finding]:
    """What the cluster's own objects say that is not taken; nothing of what `override` decides."""
    given = override or Networks()
    infrastructure, openshift, kubeadm = objects.infrastructure, objects.network, objects.kubeadm_config
    if infrastructure and infrastructure.platform and not given.platform and not is_known(infrastructure.platform.type):
        path: Path = ("status", "platformStatus", "type")
        yield infrastructure.place.warning(path, "is not a platform that is known here: nothing of it is added to NO_PROXY")
    lists: list[tuple[Place, Path, Iterable[str], bool]] = []
    if infrastructure:
        path = ("status", "platformStatus", "machineNetworks")
        lists.append((infrastructure.place, path, infrastructure.machine_networks, bool(given.machine_network)))
    if openshift:
        lists.append((openshift.place, ("status", "serviceNetwork"), openshift.service_network, bool(given.service_network)))
        lists.append((openshift.place, ("status", "clusterNetwork"), openshift.cluster_network, bool(given.pod_network)))
    if kubeadm:
        path = ("data", "ClusterConfiguration")
        lists.append((kubeadm.place, path, split(kubeadm.service_subnet or ""), bool(given.service_network)))
        lists.append((kubeadm.place, path, split(kubeadm.pod_subnet or ""), bool(given.pod_network)))
    lists += [(item.place, ("spec", "cidrs"), item.cidrs, bool(given.service_network)) for item in objects.service_cidrs]
    for place, path, items, overridden in lists:
        if not overridden and any(not is_cidr(item) for item in items):
            yield place.warning(path, "has a network that is not a CIDR: it is left out of NO_PROXY")


@functools.lru_cache(maxsize=256)
def dns_address(services: str) -> str | None:
    """The address of the cluster's DNS; None where the network is too small to have it."""
    network = ip_network(services, strict=False)
    return str(network[_DNS_OFFSET]) if network.num_addresses > _DNS_OFFSET else None


def examine_cluster(cluster: Cluster) -> Iterator[Finding]:
    """What is wrong with the networks and the endpoint of a Cluster API cluster."""
    for what, cidrs in (("services", cluster.services), ("pods", cluster.pods)):
        for index, cidr in enumerate(cidrs):
            if not is_cidr(cidr):
                yield cluster.place.error(("spec", "clusterNetwork", what, "cidrBlocks", index), "is not a CIDR")
            elif cidr in CATCH_ALL:
                yield cluster.place.warning(("spec", "clusterNetwork", what, "cidrBlocks", index), _EVERYTHING)
    if (services := first_cidr(cluster.services)) and dns_address(services) is None:
        message = "is too small for the address of the cluster's DNS, its tenth: the values objects have none"
        path = ("spec", "clusterNetwork", "services", "cidrBlocks", cluster.services.index(services))
        yield cluster.place.warning(path, message)
    domain, host = cluster.service_domain, cluster.endpoint_host
    if domain is not None and not NAME.match(domain):
        yield cluster.place.error(("spec", "clusterNetwork", "serviceDomain"), "must be a DNS domain, such as cluster.local")
    if host is not None and not (is_ip(host) or NAME.match(host.lower())):
        yield cluster.place.error(("spec", "controlPlaneEndpoint", "host"), "must be a DNS name or an IP address")


def examine_layer(networks: Networks, place: Place, base: str) -> Iterator[Finding]:
    """What of `spec.networks` a layer cannot have: all but its clusters' machine networks are in their Cluster objects."""
    for field in msgspec.structs.fields(networks):
        if field.name != "machine_network" and getattr(networks, field.name):
            message = f"belongs to EgressProxy/{base} alone: take it out of this layer, which can have machineNetwork"
            yield place.error(("spec", "networks", field.encode_name), message)


def examine(networks: Networks, place: Place) -> Iterator[Finding]:
    """Everything that is wrong with `spec.networks`."""
    for field, cidrs in (
        ("machineNetwork", networks.machine_network),
        ("serviceNetwork", networks.service_network),
        ("podNetwork", networks.pod_network),
    ):
        for index, cidr in enumerate(cidrs):
            if not is_cidr(cidr):
                hint = f": write `{cidr}/{128 if ':' in cidr else 32}`" if is_ip(cidr) else ", for example 10.0.0.0/16"
                yield place.error(("spec", "networks", field, index), f"is not a CIDR{hint}")
            elif cidr in CATCH_ALL:
                yield place.warning(("spec", "networks", field, index), _EVERYTHING)
    domain, host = networks.dns_domain, networks.internal_api_host
    if domain is not None and not NAME.match(domain):
        yield place.error(
            ("spec", "networks", "dnsDomain"), "must be a DNS domain without dots around it, such as cluster.local"
        )
    if host is not None and not (is_ip(host) or NAME.match(host)):
        instead = suggestion(host)
        hint = f": write `{instead}`" if instead and "@" not in host else ", without scheme and port"
        yield place.error(("spec", "networks", "internalAPIHost"), f"must be a DNS name or an IP address{hint}")
    platform = networks.platform
    if platform is not None:
        path = ("spec", "networks", "platform")
        if not platform.type:
            yield place.error((*path, "type"), "the platform's type is missing: AWS, Azure, GCP, OpenStack, None …")
        elif not is_known(platform.type):
            yield place.warning((*path, "type"), "is not a platform that is known here: nothing of it is added to NO_PROXY")
        if platform.arm_endpoint and host_of(platform.arm_endpoint) is None:
            yield place.error((*path, "armEndpoint"), "must be a URL with a host")
