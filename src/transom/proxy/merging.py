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
from transom.proxy.no_proxy import ALL, join, split
from transom.proxy.objects import Cluster, InfrastructureCluster, Networks, Platform

METADATA_ADDRESS: Final = "169.254.169.254"
_AZURE_WIRE_SERVER: Final = "168.63.129.16"
CATCH_ALL: Final = ("0.0.0.0/0", "::/0")
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
    """Items that are in a list for one reason, which is a text for people."""

    reason: str
    items: tuple[str, ...]


class MergedNoProxy(msgspec.Struct, frozen=True):
    """A merged list in its parts, and what could not be put into it: names of fields."""

    parts: tuple[MergedPart, ...] = ()
    unknown: tuple[str, ...] = ()
    in_order: bool = True
    """Whether the order of the parts is the list's; else it is byte-sorted."""
    verbatim: str | None = None
    """The list where somebody else has merged it."""

    @property
    def text(self) -> str:
        """The list: each item once, at its first place; a `*` makes it `*`."""
        if self.verbatim is not None:
            return self.verbatim
        items = [item for part in self.parts for item in part.items]
        return join(items if self.in_order or ALL in items else sorted(items, key=_as_bytes))

    @property
    def reasons(self) -> dict[str, str]:
        """Why each item of the list is there, in the list's order."""
        found: dict[str, str] = {}
        for part in self.parts:
            for item in part.items:
                found.setdefault(item, part.reason)
        return {item: found[item] for item in split(self.text)}


def of_own_cluster(networks: Networks, users: Iterable[MergedPart]) -> MergedNoProxy:
    """The list of the cluster that the settings live in: a set, byte-sorted; `*` alone where the user wrote it."""
    users = tuple(users)
    unknown = () if any(ALL in part.items for part in users) else tuple(_unknown(networks))
    return MergedNoProxy(tuple(_parts(networks, users, dot=".")), unknown, in_order=False)


def of_workload_cluster(
    cluster: Cluster,
    users: Iterable[MergedPart],
    machines: Iterable[MergedPart],
    infrastructure: InfrastructureCluster | None = None,
) -> MergedNoProxy:
    """The list of a Cluster API cluster, in its fixed order; `machines` are its machines' networks, as layers have them."""
    kind = INFRASTRUCTURE_KINDS.get(cluster.infrastructure or "")
    where = (infrastructure.region, infrastructure.cloud) if infrastructure else ()
    platform = Platform(kind.platform, *where) if kind and kind.platform else None
    networks = Networks(cluster.service_domain, (), cluster.services, cluster.pods, cluster.endpoint_host, platform)
    parts = [*_parts(networks, users, dot="")]
    if platform is not None and platform.type == "Azure":
        # the agent of each machine reports there, in every cloud: learn.microsoft.com, "What is IP address 168.63.129.16?"
        parts.append(MergedPart("the platform, Azure", (_AZURE_WIRE_SERVER,)))
    if infrastructure is not None:
        parts.append(
            _without_catch_all(MergedPart(f"the machines' networks of {infrastructure.place.object}", infrastructure.networks))
        )
    return MergedNoProxy((*parts, *map(_without_catch_all, machines)))


def _parts(networks: Networks, users: Iterable[MergedPart], *, dot: str) -> Iterator[MergedPart]:
    """Those of any cluster, in the order of the RFC; `dot` stands before names."""
    yield MergedPart("the cluster's DNS domain", (dot + (networks.dns_domain or "cluster.local").strip("."),))
    yield _without_catch_all(MergedPart("the network of Services", networks.service_network))
    yield _without_catch_all(MergedPart("the network of pods", networks.pod_network))
    yield MergedPart("the API server", (networks.internal_api_host,) if networks.internal_api_host else ())
    yield from users
    yield MergedPart("Services by their short names", (f"{dot}svc",))
    yield MergedPart("the machine itself", ("127.0.0.1", "localhost"))
    if networks.platform:
        yield MergedPart(f"the platform, {networks.platform.type}", tuple(of_platform(networks.platform)))
    yield _without_catch_all(MergedPart("the network of machines", networks.machine_network))


def _without_catch_all(part: MergedPart) -> MergedPart:
    """What is everything would bypass the proxy always: clients read it so, and nobody means it."""
    return MergedPart(part.reason, tuple(one for one in part.items if one not in CATCH_ALL))


def _as_bytes(item: str) -> bytes:
    return item.encode("utf-8", "surrogatepass")


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


def known_platform(name: str) -> str | None:
    """The platform's type of a name in any case; None where nobody knows it."""
    return next((one for one in sorted(_KNOWN) if one.casefold() == name.casefold()), None)


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


def host_of(url: str) -> str | None:
    """The host of a URL, without brackets and port; None where it has none. A text without scheme is a host already."""
    try:
        return urlsplit(url if "://" in url else f"//{url}").hostname
    except ValueError:
        return None
