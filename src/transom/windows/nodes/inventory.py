"""The instances that a cluster's objects ask for: lines of a ConfigMap, Machine API machines, Cluster API machines.

Each becomes an `InventoryEntry`: the WindowsInstance that Transom makes of it and owns. Others are a `RejectedEntry` with
the reason, and affect no other entry.
"""

import hashlib
import ipaddress
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal

import msgspec

from transom.common.escaping import NAME
from transom.windows.nodes.host_addresses import (
    NO_NETWORKS,
    HostNetworks,
    find_unusable_reason,
    list_unusable_addresses,
    select_address,
)
from transom.windows.nodes.windows_instance import (
    MAX_ADDRESSES,
    find_address_fault,
    find_host_key_fault,
    is_address,
    parse_ip_address,
)

CONFIG_MAP: Final = "windows-instances"
OF_PEER: Final = "openshift-windows-machine-config-operator"
"""The namespace in which the Windows Machine Config Operator has its own (its bundle, `suggested-namespace`)."""
IGNORE: Final = "windowsmachineconfig.openshift.io/ignore"
OS_ID: Final = "machine.openshift.io/os-id"
SSH: Final = "transom.dev/ssh"
SSH_USER: Final = "transom.dev/ssh-user"
_NOT_IN_NAMES: Final = re.compile(r"[^a-z0-9.-]+")
_LITERAL: Final = ".ipv6-literal.net"
_FIELDS: Final = ("username", "hostKey", "nodeName", "nodeIP", "addresses")
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


class RejectedEntry(msgspec.Struct, frozen=True):
    """A source that yields no instance: its location and the reason. `waiting`: it may become valid automatically."""

    source: Source
    origin: str
    reason: str
    waiting: bool = False


def from_config_map(data: Mapping[str, str]) -> Iterator[InventoryEntry | RejectedEntry]:
    """Parse each entry `<address>: username=<user>`, with further lines `hostKey=…`, `nodeName=…`, `nodeIP=…`."""
    seen: dict[str, str] = {}
    for key, value in sorted(data.items()):
        made = _parse_entry(key.strip(), value)
        if isinstance(made, InventoryEntry):
            if made.name in seen:
                made = RejectedEntry("ConfigMap", key, f"{seen[made.name]} is the same address")
            else:
                seen[made.name] = key
        yield made


def _parse_entry(key: str, value: str) -> InventoryEntry | RejectedEntry:
    def reject(reason: str) -> RejectedEntry:
        return RejectedEntry("ConfigMap", _format_printable(key), reason)

    if not is_address(key):
        return reject("the key must be a DNS name or an IP address")
    place = _parse_address_key(key)
    if (unusable := find_unusable_reason(place, is_loopback_usable=True)) is not None:
        return reject(f"{place} {unusable}: write an address of the host in your network")
    fields: dict[str, str] = {}
    for number, line in enumerate(value.strip().splitlines(), 1):
        name, sign, text = (part.strip() for part in line.partition("="))
        if not name and not sign:
            continue
        if name not in _FIELDS or not sign:
            return reject(f"line {number} must be username=<user>, hostKey=…, nodeName=…, nodeIP=… or addresses=…")
        if name in fields:
            return reject(f"line {number} gives {name} again")
        if (fault := _find_entry_fault(name, text)) is not None:
            return reject(f"line {number}: {fault}")
        fields[name] = text
    if "username" not in fields:
        return reject("the value must be username=<user>")
    spec: dict[str, Any] = {"address": place, **fields, "lifecycle": "Node"}
    if "addresses" in fields:
        spec["addresses"] = _split_addresses(fields["addresses"])
    return InventoryEntry(_format_instance_name(place), "ConfigMap", key, "", spec)


def _find_entry_fault(name: str, text: str) -> str | None:
    """Return the error in a line of an entry, or None. The value must also be valid for the CRD."""
    match name:
        case "hostKey":
            return (fault := find_host_key_fault(text)) and f"hostKey: {fault}"
        case "nodeName" if len(text) > 253 or not NAME.match(text):
            return "nodeName must be a DNS-1123 name: lower-case letters, digits, `-` and `.`"
        case "nodeIP" if "%" in text or parse_ip_address(text) is None:
            return "nodeIP must be an IP address, without a prefix length and a port"
        case "addresses":
            return _find_addresses_fault(_split_addresses(text))
        case "username" if not text or not text.isprintable():
            return "username must name the account to log in with, for example username=Administrator"
        case _:
            return None


def _split_addresses(text: str) -> list[str]:
    return [part for part in re.split(r"[,\s]+", text) if part]


def _find_addresses_fault(addresses: list[str]) -> str | None:
    if not 1 <= len(addresses) <= MAX_ADDRESSES:
        return f"addresses must be 1 to {MAX_ADDRESSES} DNS names and IP addresses with commas between them"
    if len(set(addresses)) != len(addresses):
        return "addresses contains an address twice"
    faults = ((text, find_address_fault(text)) for text in addresses)
    return next((f"addresses: {_format_printable(text)} {fault}" for text, fault in faults if fault is not None), None)


def _parse_address_key(key: str) -> str:
    """Return the address of a ConfigMap key.

    The API server rejects `:` in a ConfigMap's keys. An IPv6 address is therefore written as in a UNC path of Windows,
    which rejects `:` as well (literal names of IPv6): `fd00--7.ipv6-literal.net`.
    """
    text = key.rstrip(".").lower()
    if text.endswith(_LITERAL):
        literal = text.removesuffix(_LITERAL).partition("s")[0].replace("-", ":")
        try:
            return str(ipaddress.IPv6Address(literal))
        except ValueError:
            return text
    return text


def from_machine(machine: Mapping[str, Any], networks: HostNetworks = NO_NETWORKS) -> InventoryEntry | RejectedEntry | None:
    """Build an entry from a machine.openshift.io/v1beta1 Machine; None if it is not Windows or is ignored."""
    meta = _as_mapping(machine.get("metadata"))
    labels, annotations = _as_mapping(meta.get("labels")), _as_mapping(meta.get("annotations"))
    if labels.get(OS_ID) != "Windows" or is_ignored(labels, annotations):
        return None
    name, origin = str(meta.get("name", "")), f"{meta.get('namespace', '')}/{meta.get('name', '')}"
    status = _as_mapping(machine.get("status"))
    phase = status.get("phase")
    if phase not in _PHASES:
        return RejectedEntry("Machine", origin, f"its phase is {phase or 'not known'}: it is not provisioned yet", waiting=True)
    addresses = _read_addresses(status)
    reached = select_address(status, networks)
    if reached is None:
        return RejectedEntry("Machine", origin, _describe_missing_address(status), waiting=True)
    platform = _detect_platform(machine)
    node_name, host_name = _resolve_machine_node_name(platform, name, addresses)
    spec = {
        "address": reached,
        "username": "capi" if platform == "Azure" else "Administrator",
        "nodeName": node_name,
        "lifecycle": "Node",
    }
    return InventoryEntry(_format_instance_name(name), "Machine", origin, str(meta.get("uid", "")), spec, host_name)


def _resolve_machine_node_name(platform: str, name: str, addresses: Mapping[str, str]) -> tuple[str, str | None]:
    """Return the Node's name, and the name that the host must get for it, or None."""
    if platform == "AWS" and "InternalDNS" in addresses:
        return addresses["InternalDNS"].lower(), None
    if platform == "Azure":
        computer = addresses.get("Hostname") or addresses.get("InternalDNS", "").partition(".")[0]
        return (computer or name).lower(), None
    return name.lower(), name.lower()


def _detect_platform(machine: Mapping[str, Any]) -> str:
    """By what the provider's part of the spec is, or the ID that the provider gave."""
    spec = _as_mapping(machine.get("spec"))
    provider = _as_mapping(_as_mapping(spec.get("providerSpec")).get("value"))
    kind, identity = str(provider.get("kind", "")), str(spec.get("providerID") or "")
    for platform in ("AWS", "Azure"):
        if kind.startswith(platform) or identity.startswith(f"{platform.lower()}:"):
            return platform
    return ""


def from_cluster_machine(
    machine: Mapping[str, Any], networks: HostNetworks = NO_NETWORKS
) -> InventoryEntry | RejectedEntry | None:
    """Build an entry from a cluster.x-k8s.io Machine; None if SSH is not enabled or it has no Windows Node."""
    meta = _as_mapping(machine.get("metadata"))
    labels, annotations = _as_mapping(meta.get("labels")), _as_mapping(meta.get("annotations"))
    if labels.get(SSH) != "true" or is_ignored(labels, annotations):
        return None
    namespace, name = str(meta.get("namespace", "")), str(meta.get("name", ""))
    status, origin = _as_mapping(machine.get("status")), f"{namespace}/{name}"
    system = str(_as_mapping(status.get("nodeInfo")).get("operatingSystem", ""))
    node = _as_mapping(status.get("nodeRef")).get("name")
    if not node or not system:
        return RejectedEntry("ClusterMachine", origin, "it has no Node yet", waiting=True)
    if system.lower() != "windows":
        return None
    reached = select_address(status, networks)
    if reached is None:
        return RejectedEntry("ClusterMachine", origin, _describe_missing_address(status), waiting=True)
    spec = {
        "address": reached,
        "username": str(annotations.get(SSH_USER) or "Administrator"),
        "nodeName": str(node),
        "lifecycle": "Egress",
        "clusterRef": {"namespace": namespace, "name": str(_as_mapping(machine.get("spec")).get("clusterName", ""))},
    }
    return InventoryEntry(
        _format_instance_name(f"{name}.{namespace}"), "ClusterMachine", origin, str(meta.get("uid", "")), spec
    )


def should_confirm_removal(owned: int, missing: int) -> bool:
    """Return True if so many owned instances disappeared at once that a person has to confirm their removal."""
    return missing > max(1, owned * 0.2)


def _read_addresses(status: Mapping[str, Any]) -> dict[str, str]:
    """Return the first address of each type, IPv4 before IPv6."""
    result: dict[str, str] = {}
    listed = [item for item in status.get("addresses") or () if isinstance(item, Mapping)]
    for entry in sorted(listed, key=lambda item: ":" in str(item.get("address", ""))):
        if entry.get("address"):
            result.setdefault(str(entry.get("type")), str(entry["address"]))
    return result


def _describe_missing_address(status: Mapping[str, Any]) -> str:
    unusable = list_unusable_addresses(status)
    return (
        f"it has no usable address yet: Transom cannot connect to {', '.join(unusable)}"
        if unusable
        else "it has no address yet"
    )


def list_machine_addresses(machine: Mapping[str, Any]) -> Iterable[str]:
    """All that a Machine says it can be reached by."""
    listed = _as_mapping(machine.get("status")).get("addresses") or ()
    return [str(item["address"]) for item in listed if isinstance(item, Mapping) and item.get("address")]


def _format_instance_name(text: str) -> str:
    """Return the instance name for an address or a machine: the input itself if it is a valid name."""
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


def is_ignored(labels: Mapping[str, Any], annotations: Mapping[str, Any]) -> bool:
    """Return True if Transom must ignore a Machine."""
    return "true" in (labels.get(IGNORE), annotations.get(IGNORE))


def _as_mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _format_printable(text: str) -> str:
    return text if text.isprintable() and len(text) <= 253 else "(not printable)"
