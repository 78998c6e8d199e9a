"""Whether a list lets a cluster reach its own machines: kubelets and etcd's members are called by address."""

from collections.abc import Iterable, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Final

from transom.proxy.no_proxy import ALL, is_cidr, is_ip, split

_SHOWN: Final = 3


def reached_at(addresses: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Of a Machine's `status.addresses` (type, address) what the API server calls its kubelet by.

    kubeadm sets `--kubelet-preferred-address-types=InternalIP,ExternalIP,Hostname` (cmd/kubeadm/app/phases/controlplane).
    """
    found: dict[str, list[str]] = {"InternalIP": [], "ExternalIP": []}
    for kind, address in addresses:
        if kind in found and is_ip(address):
            found[kind].append(address)
    return tuple(found["InternalIP"] or found["ExternalIP"])


def uncovered(no_proxy: str, addresses: Iterable[str]) -> tuple[str, ...]:
    """The IP addresses that no item of a list covers: as clients read it that know networks."""
    addresses = tuple(addresses)
    if not addresses or no_proxy == ALL:
        return ()
    networks: list[IPv4Network | IPv6Network] = [
        ip_network(item, strict=False) for item in split(no_proxy) if is_ip(item) or is_cidr(item)
    ]
    found = ((text, ip_address(text)) for text in addresses)
    return tuple(text for text, address in found if not any(address in one for one in networks))


def told(addresses: Sequence[str]) -> str:
    """What comes of it, and what to do."""
    more = len(addresses) - _SHOWN
    listed = ", ".join(addresses[:_SHOWN]) + (f" and {more:,} more" if more > 0 else "")
    return (
        f"no item of NO_PROXY covers {listed}: the API server reaches kubelets there, and etcd its peers, through the proxy; "
        "name the network in noProxy, or in networks.machineNetwork, of a layer for this cluster"
    )
