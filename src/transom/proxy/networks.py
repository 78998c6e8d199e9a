"""The networks of the cluster that the settings live in, from whatever object knows them."""

import functools
from collections.abc import Iterable, Iterator
from ipaddress import ip_network
from typing import Final

import msgspec

from transom.common.escaping import NAME
from transom.proxy.finding import Finding, Path, Place
from transom.proxy.merging import is_known_platform, parse_host
from transom.proxy.no_proxy import find_prefix_length_fault, is_catch_all_network, is_cidr, is_ip, split, suggest_item
from transom.proxy.objects import Cluster, Networks, SettingsObjects

_DNS_OFFSET: Final = 10
"""kubeadm gives the cluster's DNS the tenth address of the services' network (kubeadm, constants.GetDNSIP)."""
_EVERYTHING: Final = "is every address: it is left out of NO_PROXY, or nothing would go through the proxy any more"


def resolve_own_networks(objects: SettingsObjects, override: Networks | None, server: str | None = None) -> Networks:
    """Resolve each field from `spec.networks` of the base, then OpenShift's objects, kubeadm's and ServiceCIDRs.

    `server` is the URL of the API server in Transom's own kubeconfig: the last source of the API server's host. Unknown
    fields are empty.
    """
    overrides = override or Networks()
    kubeadm, infrastructure, openshift = objects.kubeadm_config, objects.infrastructure, objects.network
    services = _filter_cidrs(dict.fromkeys(cidr for item in objects.service_cidrs for cidr in item.cidrs))
    return Networks(
        overrides.dns_domain or (kubeadm.dns_domain if kubeadm else None),
        overrides.machine_network or _filter_cidrs(infrastructure.machine_networks if infrastructure else ()),
        overrides.service_network
        or _filter_cidrs(openshift.service_network if openshift else ())
        or tuple(dict.fromkeys((*_parse_subnets(kubeadm.service_subnet if kubeadm else None), *services))),
        overrides.pod_network
        or _filter_cidrs(openshift.cluster_network if openshift else ())
        or _parse_subnets(kubeadm.pod_subnet if kubeadm else None),
        overrides.internal_api_host or _find_api_host(objects, server),
        overrides.platform or (infrastructure.platform if infrastructure else None),
    )


def _filter_cidrs(items: Iterable[str]) -> tuple[str, ...]:
    return tuple(item for item in items if is_cidr(item))


def find_first_cidr(cidrs: Iterable[str]) -> str | None:
    """Return the first valid CIDR, for a field that takes only one of a dual-stack cluster; or None."""
    return next(iter(_filter_cidrs(cidrs)), None)


def _parse_subnets(text: str | None) -> tuple[str, ...]:
    return _filter_cidrs(split(text or ""))


def _find_api_host(objects: SettingsObjects, server: str | None) -> str | None:
    urls = (
        objects.infrastructure.api_server_internal_uri if objects.infrastructure else None,
        objects.cluster_info.server if objects.cluster_info else None,
        server,
    )
    return next((host for url in urls if url and (host := parse_host(url))), None)


def examine_network_sources(objects: SettingsObjects, override: Networks | None) -> Iterator[Finding]:
    """Yield what is ignored in the cluster's own objects, except fields that `override` sets."""
    overrides = override or Networks()
    infrastructure, openshift, kubeadm = objects.infrastructure, objects.network, objects.kubeadm_config
    if (
        infrastructure
        and infrastructure.platform
        and not overrides.platform
        and not is_known_platform(infrastructure.platform.type)
    ):
        path: Path = ("status", "platformStatus", "type")
        yield infrastructure.place.build_warning(
            path, "is not a platform that is known here: nothing of it is added to NO_PROXY"
        )
    lists: list[tuple[Place, Path, Iterable[str], bool]] = []
    if infrastructure:
        path = ("status", "platformStatus", "machineNetworks")
        lists.append((infrastructure.place, path, infrastructure.machine_networks, bool(overrides.machine_network)))
    if openshift:
        lists.append(
            (openshift.place, ("status", "serviceNetwork"), openshift.service_network, bool(overrides.service_network))
        )
        lists.append((openshift.place, ("status", "clusterNetwork"), openshift.cluster_network, bool(overrides.pod_network)))
    if kubeadm:
        path = ("data", "ClusterConfiguration")
        lists.append((kubeadm.place, path, split(kubeadm.service_subnet or ""), bool(overrides.service_network)))
        lists.append((kubeadm.place, path, split(kubeadm.pod_subnet or ""), bool(overrides.pod_network)))
    lists += [(item.place, ("spec", "cidrs"), item.cidrs, bool(overrides.service_network)) for item in objects.service_cidrs]
    for place, path, items, overridden in lists:
        if overridden:
            continue
        if any(not is_cidr(item) for item in items):
            yield place.build_warning(path, "has a network that is not a CIDR: it is left out of NO_PROXY")
        for item in items:
            if is_catch_all_network(item):
                yield place.build_warning(path, f"has {item}, which {_EVERYTHING}")


@functools.lru_cache(maxsize=256)
def compute_dns_address(services: str) -> str | None:
    """Return the address of the cluster's DNS; None if the network is too small for it."""
    network = ip_network(services, strict=False)
    return str(network[_DNS_OFFSET]) if network.num_addresses > _DNS_OFFSET else None


def examine_cluster_networks(cluster: Cluster) -> Iterator[Finding]:
    """Yield the problems of a Cluster API cluster's networks and endpoint."""
    for item, cidrs in (("services", cluster.services), ("pods", cluster.pods)):
        for index, cidr in enumerate(cidrs):
            default = cluster.place, ("spec", "clusterNetwork", item, "cidrBlocks", index)
            place, path = cluster.overrides.get(item, default)
            if not is_cidr(cidr):
                yield place.build_error(path, "is not a CIDR")
            elif is_catch_all_network(cidr):
                yield place.build_warning(path, _EVERYTHING)
    if (services := find_first_cidr(cluster.services)) and compute_dns_address(services) is None:
        message = "is too small for the address of the cluster's DNS, its tenth: the values objects have none"
        default = cluster.place, ("spec", "clusterNetwork", "services", "cidrBlocks", cluster.services.index(services))
        place, path = cluster.overrides.get("services", default)
        yield place.build_warning(path, message)
    domain, host = cluster.service_domain, cluster.endpoint_host
    if domain is not None and not NAME.match(domain):
        place, path = cluster.overrides.get("service_domain", (cluster.place, ("spec", "clusterNetwork", "serviceDomain")))
        yield place.build_error(path, "must be a DNS domain, such as cluster.local")
    if host is not None and not (is_ip(host) or NAME.match(host.lower())):
        yield cluster.place.build_error(("spec", "controlPlaneEndpoint", "host"), "must be a DNS name or an IP address")


def examine_layer_networks(networks: Networks, place: Place, base: str) -> Iterator[Finding]:
    """Yield the fields of `spec.networks` that a layer cannot set: only machine networks are not in Cluster objects."""
    for field in msgspec.structs.fields(networks):
        if field.name != "machine_network" and getattr(networks, field.name):
            message = (
                f"only EgressProxy/{base} may set it; every other EgressProxy is for workload clusters, and may set "
                "machineNetwork. Remove it here"
            )
            yield place.build_error(("spec", "networks", field.encode_name), message)


def _format_cidr_hint(text: str, field: str) -> str:
    if not is_ip(text):
        return ", for example 10.0.0.0/16"
    # kubeadm takes at most 20 bits for the addresses of Services (validation.ValidateServiceSubnetSize)
    length = 16 if "." in text else 112 if field == "serviceNetwork" else 64
    return f": add the prefix length, such as {ip_network(f'{text}/{length}', strict=False)}"


def examine_networks(networks: Networks, place: Place) -> Iterator[Finding]:
    """Everything that is wrong with `spec.networks`."""
    for field, cidrs in (
        ("machineNetwork", networks.machine_network),
        ("serviceNetwork", networks.service_network),
        ("podNetwork", networks.pod_network),
    ):
        for index, cidr in enumerate(cidrs):
            if not is_cidr(cidr):
                hint = find_prefix_length_fault(cidr) or f"is not a CIDR{_format_cidr_hint(cidr, field)}"
                yield place.build_error(("spec", "networks", field, index), hint)
            elif is_catch_all_network(cidr):
                yield place.build_warning(("spec", "networks", field, index), _EVERYTHING)
            elif (network := str(ip_network(cidr, strict=False))) != cidr and "." in cidr:
                # kubeadm and the API server take it, and some clients of NO_PROXY do not
                yield place.build_warning(
                    ("spec", "networks", field, index), f"is a host address in the network: write `{network}`"
                )
    domain, host = networks.dns_domain, networks.internal_api_host
    if domain is not None and not NAME.match(domain):
        yield place.build_error(
            ("spec", "networks", "dnsDomain"), "must be a DNS domain without dots around it, such as cluster.local"
        )
    if host is not None and not (is_ip(host) or NAME.match(host)):
        instead = suggest_item(host)
        hint = f": write `{instead}`" if instead and "@" not in host else ", without scheme and port"
        yield place.build_error(("spec", "networks", "internalAPIHost"), f"must be a DNS name or an IP address{hint}")
    platform = networks.platform
    if platform is not None:
        path = ("spec", "networks", "platform")
        if not platform.type:
            yield place.build_error((*path, "type"), "the platform's type is missing: AWS, Azure, GCP, OpenStack, None …")
        elif not is_known_platform(platform.type):
            yield place.build_warning(
                (*path, "type"), "is not a platform that is known here: nothing of it is added to NO_PROXY"
            )
        if platform.arm_endpoint and parse_host(platform.arm_endpoint) is None:
            yield place.build_error((*path, "armEndpoint"), "must be a URL with a host")
