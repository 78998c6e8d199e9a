"""Which of the addresses of a machine Transom connects to: a cloud lists those of every network card, also of the overlay."""

import ipaddress
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec

from transom.windows.nodes.windows_instance import is_address, parse_ip_address

_TYPES: Final = ("InternalIP", "InternalDNS", "ExternalIP", "ExternalDNS", "Hostname")
"""Types of addresses, the best first (k8s.io/api, core/v1, NodeAddressType)."""
_OVERLAY: Final = len(_TYPES)
"""The rank of an address in an overlay: after every type."""


class HostNetworks(msgspec.Struct, frozen=True):
    """What is known of the networks of a machine, as CIDRs: those of machines, and those of pods and Services (`overlay`).

    `node` are the IP addresses of its Node, in the spelling of `address`.
    """

    machine: tuple[str, ...] = ()
    overlay: tuple[str, ...] = ()
    node: frozenset[str] = frozenset()


NO_NETWORKS: Final = HostNetworks()


def find_unusable_reason(text: str, *, is_loopback_usable: bool = False) -> str | None:
    """Return what makes an address useless for a connection from another machine; None if nothing does.

    `is_loopback_usable`: a person wrote it, for example for a tunnel that ends there.

    Source: RFC 6890, tables of special-purpose addresses; RFC 6761, 6.3 (localhost).
    """
    name = text.rstrip(".").lower()
    if not is_loopback_usable and (name in ("localhost", "localhost.localdomain") or name.endswith(".localhost")):
        return "is the machine itself, for every machine"
    plain = parse_ip_address(text)
    if plain is None:
        return None
    ip = ipaddress.ip_address(plain)
    if ip.is_link_local:
        return "is a link-local address, which other networks do not reach"
    if ip.is_loopback and not is_loopback_usable:
        return "is the machine itself, for every machine"
    if ip.is_unspecified or ip.is_multicast or ip == ipaddress.ip_address("255.255.255.255"):
        return "is not the address of one machine"
    return None


def select_address(status: Mapping[str, Any], networks: HostNetworks = NO_NETWORKS) -> str | None:
    """Return the address to connect to, of `status.addresses` of a Machine; None if no address is usable.

    The order is: the address of its Node, one in the machine network, a private one, a public one; IPv4 before IPv6; and an
    address of the overlay only if no other exists.
    """
    listed = status.get("addresses")
    entries = [item for item in listed if isinstance(item, Mapping)] if isinstance(listed, list | tuple) else []
    candidates = [(str(entry.get("type")), str(entry.get("address") or "")) for entry in entries]
    usable = [
        (type_, text)
        for type_, text in candidates
        if type_ in _TYPES and is_address(text) and find_unusable_reason(text) is None
    ]
    return min(usable, key=lambda item: _rank_address(item[0], item[1], networks))[1] if usable else None


def list_unusable_addresses(status: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the addresses of a Machine that are useless for a connection, as its status writes them."""
    listed = status.get("addresses")
    texts = [str(item.get("address") or "") for item in listed if isinstance(item, Mapping)] if isinstance(listed, list) else []
    return tuple(text for text in texts if is_address(text) and find_unusable_reason(text) is not None)


def _rank_address(type_: str, text: str, networks: HostNetworks) -> tuple[bool | int, ...]:
    kind = _TYPES.index(type_)
    plain = parse_ip_address(text)
    if plain is None:
        return (kind, False, False, False, False)
    ip = ipaddress.ip_address(plain)
    is_node = plain in networks.node
    is_in_machine_network = _is_in_networks(plain, networks.machine)
    if not is_node and not is_in_machine_network and _is_in_networks(plain, networks.overlay):
        kind = _OVERLAY
    is_public = ip.is_global and not is_in_machine_network
    return (kind, not is_node, not is_in_machine_network, is_public, ip.version != 4)


def _is_in_networks(plain: str, cidrs: tuple[str, ...]) -> bool:
    ip = ipaddress.ip_address(plain)
    return any(network.version == ip.version and ip in network for network in _parse_networks(cidrs))


@lru_cache(64)
def _parse_networks(cidrs: tuple[str, ...]) -> tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]:
    networks = []
    for cidr in cidrs:
        try:
            networks.append(ipaddress.ip_network(cidr, strict=False))
        except ValueError:
            # `validate` reports it where it is written
            continue
    return tuple(networks)
