"""The ports that the pods' network needs between nodes, and the objects of providers that close them.

AWS: CAPA's security groups permit TCP 179 and IP-in-IP among nodes unless the AWSCluster lists rules. OpenStack: CAPO's managed
groups permit what the OpenStackCluster lists. GCP: CAPG permits everything among the nodes. Azure: the default rule
AllowVnetInBound of every network security group permits everything in a virtual network (learn.microsoft.com, "Azure network
security groups overview"). vSphere and Nutanix have no such object: the network's own firewalls decide.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from transom.capi.check import upstream_network
from transom.proxy.finding import Path

Object = Mapping[str, Any]


class NodePort(msgspec.Struct, frozen=True):
    """A port that must be open between all nodes of a cluster; `user` is the program behind it."""

    protocol: str
    number: int
    user: str

    def __str__(self) -> str:
        return f"{self.protocol.upper()} {self.number} ({self.user})"


VXLAN: Final = NodePort("udp", int(upstream_network.VXLAN_PORT.value), "VXLAN")
TYPHA: Final = NodePort("tcp", int(upstream_network.TYPHA_PORT.value), "Typha")
NODE_PORTS: Final[Mapping[str, tuple[NodePort, ...]]] = {"calico": (VXLAN, TYPHA), "flannel": (VXLAN,), "none": ()}
"""By `--cni`."""
CLUSTER_KINDS: Final[Mapping[str, str]] = {"aws": "AWSCluster", "openstack": "OpenStackCluster"}
"""The providers whose security groups close ports between nodes, each with the kind that opens them."""


def describe_rules(provider: str, ports: Iterable[NodePort]) -> str:
    """Return how a cluster's object opens the ports, as YAML on one line; empty if the provider does not close them."""
    if provider == "aws":
        rules = ", ".join(
            f"{{description: {port.user}, protocol: {port.protocol}, fromPort: {port.number}, toPort: {port.number}}}"
            for port in ports
        )
        return f"spec.network.cni.cniIngressRules: [{rules}]"
    if provider == "openstack":
        rules = ", ".join(
            f"{{name: {port.user}, direction: ingress, etherType: IPv4, protocol: {port.protocol}, "
            f"portRangeMin: {port.number}, portRangeMax: {port.number}, remoteManagedGroups: [controlplane, worker]}}"
            for port in ports
        )
        return f"spec.managedSecurityGroups.{upstream_network.OPENSTACK_RULES.value}: [{rules}]"
    return ""


def find_closed_ports(cluster: Object, ports: Iterable[NodePort]) -> Iterator[tuple[Path, NodePort]]:
    """Yield the ports that an AWSCluster or an OpenStackCluster keeps closed, with the field that opens them."""
    rules = _RULES.get(str(cluster.get("kind")))
    place = rules(cluster) if rules else None
    if place is None:
        return
    path, listed = place
    for port in ports:
        if not any(_allows_port(rule, port) for rule in listed):
            yield path, port


def _list_aws_rules(cluster: Object) -> tuple[Path, list[Object]] | None:
    """Return None where the groups of the nodes are not CAPA's."""
    network = _to_mapping(_to_mapping(cluster.get("spec")).get("network"))
    if "node" in _to_mapping(network.get("securityGroupOverrides")):
        return None
    listed = _to_mappings(_to_mapping(network.get("cni")).get("cniIngressRules"))
    listed += _to_mappings(network.get("additionalNodeIngressRules"))
    return ("spec", "network", "cni", "cniIngressRules"), listed


def _list_openstack_rules(cluster: Object) -> tuple[Path, list[Object]] | None:
    """Return None where the groups are not CAPO's, or permit everything."""
    groups = _to_mapping(cluster.get("spec")).get("managedSecurityGroups")
    if not isinstance(groups, Mapping) or groups.get("allowAllInClusterTraffic") is True:
        return None
    newer = upstream_network.OPENSTACK_RENAMED.value
    name = newer if str(cluster.get("apiVersion")).endswith("/v1beta2") else upstream_network.OPENSTACK_RULES.value
    listed = [rule for field in (newer, upstream_network.OPENSTACK_RULES.value) for rule in _to_mappings(groups.get(field))]
    return ("spec", "managedSecurityGroups", name), [rule for rule in listed if rule.get("direction") == "ingress"]


_RULES: Final = {"AWSCluster": _list_aws_rules, "OpenStackCluster": _list_openstack_rules}


def _allows_port(rule: Object, port: NodePort) -> bool:
    protocol = str(rule.get("protocol") or "-1")
    if protocol in ("-1", "any"):
        return True
    first = rule.get("fromPort", rule.get("portRangeMin"))
    last = rule.get("toPort", rule.get("portRangeMax"))
    if protocol not in (port.protocol, {"tcp": "6", "udp": "17"}[port.protocol]):
        return False
    if first is None and last is None:
        return True
    return isinstance(first, int) and isinstance(last, int) and (first <= port.number <= last or first < 0)


def _to_mapping(value: Any) -> Object:
    return value if isinstance(value, Mapping) else {}


def _to_mappings(value: Any) -> list[Object]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []
