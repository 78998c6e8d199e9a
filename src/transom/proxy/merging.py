"""The merged NO_PROXY: what of a cluster never goes through its proxy, and the user's items, each for a reason.

The own cluster's list follows OpenShift's cluster-network-operator (pkg/util/proxyconfig, MergeUserSystemNoProxy), for every
platform. A workload cluster's begins with that of Giant Swarm's RFC "Management- and Workload-clusters behind a proxy", in its
order; what its machines need besides comes after it.
"""

from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import urlsplit

import msgspec

from transom.proxy.infrastructure_kinds import INFRASTRUCTURE_KINDS
from transom.proxy.no_proxy import ALL, is_catch_all_network, join, split
from transom.proxy.objects import Cluster, InfrastructureCluster, Networks, Platform

METADATA_ADDRESS: Final = "169.254.169.254"
_AZURE_WIRE_SERVER: Final = "168.63.129.16"
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


class MergedPart(msgspec.Struct, frozen=True):
    """Items that are in a list for one reason, which is a string for people."""

    reason: str
    items: tuple[str, ...]


class MergedNoProxy(msgspec.Struct, frozen=True):
    """A merged list in its parts, and what could not be put into it: names of fields."""

    parts: tuple[MergedPart, ...] = ()
    unknown: tuple[str, ...] = ()
    in_order: bool = True
    """Whether the order of the parts is the list's; else it is byte-sorted."""
    verbatim: str | None = None
    """The list if another program has merged it."""

    @property
    def text(self) -> str:
        """The list: each item once, at its first place; a `*` makes it `*`."""
        if self.verbatim is not None:
            return self.verbatim
        items = [item for part in self.parts for item in part.items]
        return join(items if self.in_order or ALL in items else sorted(items, key=_encode_item))

    @property
    def reasons(self) -> dict[str, str]:
        """The reason of each item, in the list's order."""
        reason_by_item: dict[str, str] = {}
        for part in self.parts:
            for item in part.items:
                reason_by_item.setdefault(item, part.reason)
        return {item: reason_by_item[item] for item in split(self.text)}


def merge_own_cluster(networks: Networks, users: Iterable[MergedPart]) -> MergedNoProxy:
    """Merge the list of the cluster that has the settings: a byte-sorted set; `*` alone if the user wrote it."""
    users = tuple(users)
    unknown = () if any(ALL in part.items for part in users) else tuple(_iter_unknown_fields(networks))
    return MergedNoProxy(tuple(_iter_cluster_parts(networks, users, dot=".")), unknown, in_order=False)


def merge_workload_cluster(
    cluster: Cluster,
    users: Iterable[MergedPart],
    machines: Iterable[MergedPart],
    infrastructure: InfrastructureCluster | None = None,
) -> MergedNoProxy:
    """Merge the list of a Cluster API cluster, in its fixed order; `machines` are the layers' machine networks."""
    kind = INFRASTRUCTURE_KINDS.get(cluster.infrastructure or "")
    where = (infrastructure.region, infrastructure.cloud) if infrastructure else ()
    platform = Platform(kind.platform, *where) if kind and kind.platform else None
    networks = Networks(cluster.service_domain, (), cluster.services, cluster.pods, cluster.endpoint_host, platform)
    parts = [*_iter_cluster_parts(networks, users, dot="")]
    if platform is not None and platform.type == "Azure":
        # the agent of each machine reports there, in every cloud: learn.microsoft.com, "What is IP address 168.63.129.16?"
        parts.append(MergedPart("the platform, Azure", (_AZURE_WIRE_SERVER,)))
    if infrastructure is not None:
        parts.append(
            _without_catch_all(MergedPart(f"the machines' networks of {infrastructure.place.object}", infrastructure.networks))
        )
    return MergedNoProxy((*parts, *map(_without_catch_all, machines)))


def _iter_cluster_parts(networks: Networks, users: Iterable[MergedPart], *, dot: str) -> Iterator[MergedPart]:
    """Those of any cluster, in the order of the RFC; `dot` stands before names."""
    yield MergedPart("the cluster's DNS domain", (dot + (networks.dns_domain or "cluster.local").strip("."),))
    yield _without_catch_all(MergedPart("the network of Services", networks.service_network))
    yield _without_catch_all(MergedPart("the network of pods", networks.pod_network))
    yield MergedPart("the API server", (networks.internal_api_host,) if networks.internal_api_host else ())
    yield from users
    yield MergedPart("Services by NAME.NAMESPACE.svc", (f"{dot}svc",))
    yield MergedPart("the machine itself", ("127.0.0.1", "localhost"))
    if networks.platform:
        yield MergedPart(f"the platform, {networks.platform.type}", tuple(iter_platform_items(networks.platform)))
    yield _without_catch_all(MergedPart("the network of machines", networks.machine_network))


def _without_catch_all(part: MergedPart) -> MergedPart:
    """Return the part without items that cover everything: with them, clients would always bypass the proxy."""
    return MergedPart(part.reason, tuple(item for item in part.items if not is_catch_all_network(item)))


def _encode_item(item: str) -> bytes:
    return item.encode("utf-8", "surrogatepass")


def _iter_unknown_fields(networks: Networks) -> Iterator[str]:
    if not networks.machine_network:
        yield "machineNetwork"
    if not networks.service_network:
        yield "serviceNetwork"
    if not networks.pod_network:
        yield "podNetwork"
    if not networks.internal_api_host:
        yield "internalAPIHost"


def is_known_platform(platform: str) -> bool:
    """Return True if OpenShift or Transom knows the platform type."""
    return platform in _KNOWN


def find_platform(name: str) -> str | None:
    """Return the platform type of a name, compared without case; None if it is unknown."""
    return next((item for item in sorted(_KNOWN) if item.casefold() == name.casefold()), None)


def iter_platform_items(platform: Platform) -> Iterator[str]:
    """Yield the platform's own items: metadata services and internal domains."""
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
            host = parse_host(platform.arm_endpoint) if platform.cloud == "AzureStackCloud" else None
            if host:
                yield host


def parse_host(url: str) -> str | None:
    """Return the host of a URL, without brackets and port, or None. A string without scheme is already a host."""
    try:
        return urlsplit(url if "://" in url else f"//{url}").hostname
    except ValueError:
        return None
