"""The instances that a cluster's objects ask for: lines of a ConfigMap, Machine API machines, Cluster API machines.

Each becomes an `InventoryEntry`: the WindowsInstance that Transom makes of it and owns. What cannot become one is a `Rejected`,
with the reason, and costs itself alone.
"""

import hashlib
import ipaddress
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal

import msgspec

from transom.shown import NAME
from transom.windows.nodes import address, host_key_fault, is_address

CONFIG_MAP: Final = "windows-instances"
OF_PEER: Final = "openshift-windows-machine-config-operator"
"""The namespace in which the Windows Machine Config Operator has its own (its bundle, `suggested-namespace`)."""
IGNORE: Final = "windowsmachineconfig.openshift.io/ignore"
OS_ID: Final = "machine.openshift.io/os-id"
SSH: Final = "transom.dev/ssh"
SSH_USER: Final = "transom.dev/ssh-user"
_NOT_IN_NAMES: Final = re.compile(r"[^a-z0-9.-]+")
_LITERAL: Final = ".ipv6-literal.net"
_FIELDS: Final = ("username", "hostKey", "nodeName", "nodeIP")
"""Of `spec`, as the lines of an entry name them."""
_PHASES: Final = ("Provisioned", "Running")

Source = Literal["ConfigMap", "Machine", "ClusterMachine"]


class InventoryEntry(msgspec.Struct, frozen=True):
    """An instance to be: `name` and `spec` of the object, and what it comes from (`origin`, with the UID where it has one).

    `host_name` is what the host must call itself before its kubelet first starts; None where its own name is as good.
    """

    name: str
    source: Source
    origin: str
    uid: str
    spec: Mapping[str, Any]
    host_name: str | None = None


class Rejected(msgspec.Struct, frozen=True):
    """What no instance is made of: where it stands and why. `waiting` says that it may become one by itself."""

    source: Source
    origin: str
    reason: str
    waiting: bool = False


def from_config_map(data: Mapping[str, str]) -> Iterator[InventoryEntry | Rejected]:
    """Of each entry `<address>: username=<user>`, with further lines `hostKey=…`, `nodeName=…`, `nodeIP=…`."""
    seen: dict[str, str] = {}
    for key, value in sorted(data.items()):
        made = _line(key.strip(), value)
        if isinstance(made, InventoryEntry):
            if made.name in seen:
                made = Rejected("ConfigMap", key, f"{seen[made.name]} is the same address")
            else:
                seen[made.name] = key
        yield made


def _line(key: str, value: str) -> InventoryEntry | Rejected:
    def rejected(reason: str) -> Rejected:
        return Rejected("ConfigMap", _shown(key), reason)

    if not is_address(key):
        return rejected("the key must be a DNS name or an IP address")
    given: dict[str, str] = {}
    for number, line in enumerate(value.strip().splitlines(), 1):
        name, sign, text = (part.strip() for part in line.partition("="))
        if not name and not sign:
            continue
        if name not in _FIELDS or not sign:
            return rejected(f"line {number} must be username=<user>, hostKey=…, nodeName=… or nodeIP=…")
        if name in given:
            return rejected(f"line {number} gives {name} again")
        if (fault := _fault(name, text)) is not None:
            return rejected(f"line {number}: {fault}")
        given[name] = text
    if "username" not in given:
        return rejected("the value must be username=<user>")
    place = _address(key)
    return InventoryEntry(_name(place), "ConfigMap", key, "", {"address": place, **given, "lifecycle": "Node"})


def _fault(name: str, text: str) -> str | None:
    """What is wrong with a line of an entry; None where nothing is. It must be a value that the definition takes, too."""
    match name:
        case "hostKey":
            return (fault := host_key_fault(text)) and f"hostKey: {fault}"
        case "nodeName" if len(text) > 253 or not NAME.match(text):
            return "nodeName must be a DNS-1123 name: lower-case letters, digits, `-` and `.`"
        case "nodeIP" if "%" in text or address(text) is None:
            return "nodeIP must be an IP address, without a prefix length and a port"
        case "username" if not text or not text.isprintable():
            return "username must name the account to log in with, for example username=Administrator"
        case _:
            return None


def _address(key: str) -> str:
    """The address that a key stands for.

    The API server takes no `:` in a ConfigMap's keys. So an IPv6 address is written as in a UNC path of Windows, which takes
    none either (literal names of IPv6): `fd00--7.ipv6-literal.net`.
    """
    text = key.rstrip(".").lower()
    if text.endswith(_LITERAL):
        literal = text.removesuffix(_LITERAL).partition("s")[0].replace("-", ":")
        try:
            return str(ipaddress.IPv6Address(literal))
        except ValueError:
            return text
    return text


def from_machine(machine: Mapping[str, Any]) -> InventoryEntry | Rejected | None:
    """Of a Machine (machine.openshift.io/v1beta1); None where it is none of Windows, or is to be ignored."""
    meta = _mapping(machine.get("metadata"))
    labels, annotations = _mapping(meta.get("labels")), _mapping(meta.get("annotations"))
    if labels.get(OS_ID) != "Windows" or ignored(labels, annotations):
        return None
    name, origin = str(meta.get("name", "")), f"{meta.get('namespace', '')}/{meta.get('name', '')}"
    status = _mapping(machine.get("status"))
    phase = status.get("phase")
    if phase not in _PHASES:
        return Rejected("Machine", origin, f"its phase is {phase or 'not known'}: it is not provisioned yet", waiting=True)
    addresses = _addresses(status)
    reached = _reachable(addresses)
    if reached is None:
        return Rejected("Machine", origin, "it has no address yet", waiting=True)
    platform = _platform(machine)
    node_name, host_name = _machine_node_name(platform, name, addresses)
    spec = {
        "address": reached,
        "username": "capi" if platform == "Azure" else "Administrator",
        "nodeName": node_name,
        "lifecycle": "Node",
    }
    return InventoryEntry(_name(name), "Machine", origin, str(meta.get("uid", "")), spec, host_name)


def _machine_node_name(platform: str, name: str, addresses: Mapping[str, str]) -> tuple[str, str | None]:
    """The Node's name, and the name that the host must be given for it."""
    if platform == "AWS" and "InternalDNS" in addresses:
        return addresses["InternalDNS"].lower(), None
    if platform == "Azure":
        computer = addresses.get("Hostname") or addresses.get("InternalDNS", "").partition(".")[0]
        return (computer or name).lower(), None
    return name.lower(), name.lower()


def _platform(machine: Mapping[str, Any]) -> str:
    """By what the provider's part of the spec is, or the ID that the provider gave."""
    spec = _mapping(machine.get("spec"))
    provider = _mapping(_mapping(spec.get("providerSpec")).get("value"))
    kind, identity = str(provider.get("kind", "")), str(spec.get("providerID") or "")
    for platform in ("AWS", "Azure"):
        if kind.startswith(platform) or identity.startswith(f"{platform.lower()}:"):
            return platform
    return ""


def from_cluster_machine(machine: Mapping[str, Any]) -> InventoryEntry | Rejected | None:
    """Of a Machine (cluster.x-k8s.io); None where nobody opened it to SSH, or it has no Windows Node."""
    meta = _mapping(machine.get("metadata"))
    labels, annotations = _mapping(meta.get("labels")), _mapping(meta.get("annotations"))
    if labels.get(SSH) != "true" or ignored(labels, annotations):
        return None
    namespace, name = str(meta.get("namespace", "")), str(meta.get("name", ""))
    status, origin = _mapping(machine.get("status")), f"{namespace}/{name}"
    system = str(_mapping(status.get("nodeInfo")).get("operatingSystem", ""))
    node = _mapping(status.get("nodeRef")).get("name")
    if not node or not system:
        return Rejected("ClusterMachine", origin, "it has no Node yet", waiting=True)
    if system.lower() != "windows":
        return None
    reached = _reachable(_addresses(status))
    if reached is None:
        return Rejected("ClusterMachine", origin, "it has no address yet", waiting=True)
    spec = {
        "address": reached,
        "username": str(annotations.get(SSH_USER) or "Administrator"),
        "nodeName": str(node),
        "lifecycle": "Egress",
        "clusterRef": {"namespace": namespace, "name": str(_mapping(machine.get("spec")).get("clusterName", ""))},
    }
    return InventoryEntry(_name(f"{name}.{namespace}"), "ClusterMachine", origin, str(meta.get("uid", "")), spec)


def vanishing(owned: int, gone: int) -> bool:
    """Whether so many of our instances have gone at once that a person has to confirm it."""
    return gone > max(1, owned * 0.2)


def _addresses(status: Mapping[str, Any]) -> dict[str, str]:
    """The first of each type, IPv4 before IPv6."""
    found: dict[str, str] = {}
    listed = [one for one in status.get("addresses") or () if isinstance(one, Mapping)]
    for one in sorted(listed, key=lambda one: ":" in str(one.get("address", ""))):
        if one.get("address"):
            found.setdefault(str(one.get("type")), str(one["address"]))
    return found


def _reachable(addresses: Mapping[str, str]) -> str | None:
    for type_ in ("InternalIP", "InternalDNS", "ExternalIP", "ExternalDNS", "Hostname"):
        if type_ in addresses and is_address(addresses[type_]):
            return addresses[type_]
    return None


def machine_addresses(machine: Mapping[str, Any]) -> Iterable[str]:
    """All that a Machine says it can be reached by."""
    listed = _mapping(machine.get("status")).get("addresses") or ()
    return [str(one["address"]) for one in listed if isinstance(one, Mapping) and one.get("address")]


def _name(text: str) -> str:
    """The name of an instance for an address or a machine: the text itself where it can be one."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        made = _NOT_IN_NAMES.sub("-", text.lower()).strip("-.")
        # another text must not become the same name
        return made if made == text.lower() else f"{made}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
    return (
        str(address)
        if address.version == 4
        else "ipv6-" + "-".join(f"{int(part, 16):x}" for part in address.exploded.split(":"))
    )


def ignored(labels: Mapping[str, Any], annotations: Mapping[str, Any]) -> bool:
    """Whether a Machine is to be left alone."""
    return "true" in (labels.get(IGNORE), annotations.get(IGNORE))


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _shown(text: str) -> str:
    return text if text.isprintable() and len(text) <= 253 else "(not printable)"
