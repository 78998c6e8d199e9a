"""The merged NO_PROXY: what of a cluster never goes through its proxy, and the user's items.

`of_own_cluster` follows OpenShift's cluster-network-operator (pkg/util/proxyconfig, MergeUserSystemNoProxy), for every
platform; `of_workload_cluster` follows Giant Swarm's RFC "Management- and Workload-clusters behind a proxy".
"""

from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import urlsplit

import msgspec

from transom.proxy.no_proxy import ALL, join
from transom.proxy.objects import Cluster, Networks, Platform

METADATA_ADDRESS: Final = "169.254.169.254"
_AZURE_WIRE_SERVER: Final = "168.63.129.16"
_CATCH_ALL: Final = ("0.0.0.0/0", "::/0")
# github.com/openshift/api, config/v1, PlatformType; those of them that add something are named in of_platform
_WITHOUT_ITEMS: Final = frozenset(
    (
        "BareMetal",
        "VSphere",
        "Nutanix",
        "None",
        "Libvirt",
        "oVirt",
        "KubeVirt",
        "IBMCloud",
        "PowerVS",
        "AlibabaCloud",
        "External",
    )
)
_KNOWN: Final = _WITHOUT_ITEMS | {"AWS", "Azure", "GCP", "OpenStack", "EquinixMetal"}


class Merged(msgspec.Struct, frozen=True):
    """A merged list, and what could not be put into it: texts for people."""

    text: str
    unknown: tuple[str, ...] = ()


def of_own_cluster(networks: Networks, items: Iterable[str]) -> Merged:
    """The list of the cluster that the settings live in: a set, byte-sorted; `*` alone where the user wrote it."""
    items = tuple(item for item in items if item)
    if ALL in items:
        return Merged(ALL)
    unknown = tuple(_unknown(networks))
    merged = {f".{(networks.dns_domain or 'cluster.local').strip('.')}", ".svc", "127.0.0.1", "localhost"}
    merged.update(cidr for cidr in networks.machine_network if cidr not in _CATCH_ALL)
    if networks.internal_api_host:
        merged.add(networks.internal_api_host)
    merged.update(networks.service_network)
    merged.update(networks.pod_network)
    if networks.platform:
        merged.update(of_platform(networks.platform))
    merged.update(items)
    return Merged(",".join(sorted(merged, key=lambda item: item.encode("utf-8", "surrogatepass"))), unknown)


def _unknown(networks: Networks) -> Iterator[str]:
    if not networks.machine_network:
        yield "machineNetwork"
    if not networks.service_network:
        yield "serviceNetwork"
    if not networks.pod_network:
        yield "podNetwork"
    if not networks.internal_api_host:
        yield "internalAPIHost"


def is_known(platform: str) -> bool:
    """Whether the platform's type is one that OpenShift or Transom knows."""
    return platform in _KNOWN


def of_platform(platform: Platform) -> Iterator[str]:
    """The platform's own: metadata services and internal domains."""
    if platform.type in ("AWS", "Azure", "GCP", "OpenStack"):
        yield METADATA_ADDRESS
    match platform.type:
        case "AWS" if platform.region == "us-east-1":
            yield ".ec2.internal"
        case "AWS" if platform.region:
            yield f".{platform.region}.compute.internal"
        case "GCP":
            yield from ("metadata", "metadata.google.internal", "metadata.google.internal.")
        case "Azure" if platform.cloud not in ("", "AzurePublicCloud"):
            yield _AZURE_WIRE_SERVER
            host = host_of(platform.arm_endpoint) if platform.cloud == "AzureStackCloud" else None
            if host:
                yield host


def of_workload_cluster(cluster: Cluster, items: Iterable[str]) -> str:
    """The list of a Cluster API cluster, in its fixed order, each item once; a `*` makes it `*`."""
    host = cluster.endpoint_host
    own = [(cluster.service_domain or "cluster.local").strip("."), *cluster.services, *cluster.pods, *([host] if host else [])]
    return join([*own, *items, "svc", "127.0.0.1", "localhost"])


def host_of(url: str) -> str | None:
    """The host of a URL, without brackets and port; None where it has none. A text without scheme is a host already."""
    try:
        return urlsplit(url if "://" in url else f"//{url}").hostname
    except ValueError:
        return None
