"""The user's NO_PROXY list: its items, the rules for an item, and whether they cover the machines of a cluster.

The rules are those of OpenShift's cluster-network-operator (pkg/util/validation). The list is `*` alone, or it has items: IP
addresses, CIDRs, or DNS-1123 subdomains with at most one leading and one trailing dot.
"""

import ipaddress
import re
from collections.abc import Iterable, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Final

from transom.common.counting import format_first
from transom.proxy.finding import Severity

MAX_ITEMS: Final = 5_000
WARN_LENGTH: Final = 8_000
MAX_LENGTH: Final = 30_000
"""Characters of a merged list. Windows holds 32,767 in one variable, and the name is a part of it (Microsoft, "Environment
Variables")."""
ALL: Final = "*"

_LABEL = r"[a-z0-9]([a-z0-9-]*[a-z0-9])?"
_DOMAIN = re.compile(rf"\.?{_LABEL}(\.{_LABEL})*\.?\Z")
_RANGE: Final = re.compile(r"[0-9]+(?:\.[0-9]+){3}-[0-9]+(?:\.[0-9]+){0,3}")
_LIKE_ADDRESS = re.compile(r"\.?[0-9.]+\Z")
BLANKS: Final = " \t\r\n\v\f\x85\xa0"
"""The characters of Latin-1 that Go's strings.TrimSpace removes."""
_LISTED: Final = 3
_HARMLESS: Final = re.compile(
    r"\.?(?!xn--)[a-z](?:[a-z0-9-]*[a-z0-9])?(?:\.(?!xn--)[a-z](?:[a-z0-9-]*[a-z0-9])?)*"
    r"|[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}(?:/(?:[1-9]|[12][0-9]|3[0-2]))?"
    r"|[0-9a-f]{0,4}(?::[0-9a-f]{0,4}){2,7}"
)
"""Plain names, IPv4 addresses and networks, and IPv6 addresses. `test_harms` verifies that they harm no client."""


def split(text: str) -> tuple[str, ...]:
    """Split a list into items, without spaces around them; an empty string has none."""
    if not text:
        return ()
    return tuple(item.strip(BLANKS) for item in text.split(","))


def join(items: Iterable[str]) -> str:
    """One list of several items, each once, at its first place; a `*` makes it `*`."""
    kept = dict.fromkeys(item for item in items if item)
    return ALL if ALL in kept else ",".join(kept)


def is_cidr(text: str) -> bool:
    """Return True if Go's net.ParseCIDR accepts it: address, slash, decimal length; host bits may be set."""
    address, slash, length = text.partition("/")
    if not slash or not length.isascii() or not length.isdigit():
        return False
    version = _get_ip_version(address)
    return version is not None and int(length[-6:]) <= (32 if version == 4 else 128) and not length[:-6].strip("0")


def is_harmless(item: str) -> bool:
    """Return True if no client can fail on an item, or send everything direct because of it, so that nothing is evaluated."""
    return _HARMLESS.fullmatch(item) is not None


def is_ipv6_network(item: str) -> bool:
    """Return True if an item is a network of IPv6 addresses."""
    return ":" in item and is_cidr(item)


def is_catch_all_network(text: str) -> bool:
    """Return True for a network of all addresses of its family: `0.0.0.0/0`, `::/0`, `10.0.0.0/0`."""
    _, slash, length = text.partition("/")
    return bool(slash and length) and not length.strip("0") and is_cidr(text)


def is_ip(text: str) -> bool:
    """Return True if Go's net.ParseIP accepts it: no zone, no leading zeros."""
    return _get_ip_version(text) is not None


def find_prefix_length_fault(text: str) -> str | None:
    """Return what is wrong with the number behind the slash of an address; None if it is valid, or the text is another."""
    address, _, length = text.partition("/")
    version = _get_ip_version(address)
    if version is None or not length.isascii() or not length.isdigit() or is_cidr(text):
        return None
    return f"has an invalid prefix length: it must be 0 to {32 if version == 4 else 128}"


def find_intended_network(text: str) -> str | None:
    """Return the network of a CIDR that has the address of one of its hosts; None for a CIDR without host bits."""
    if not is_cidr(text):
        return None
    interface = ipaddress.ip_interface(text)
    return None if interface.ip == interface.network.network_address else str(interface.network)


def find_item_typo(item: str) -> str | None:
    """Return what looks wrong with a valid item, which clients read differently, or its writer did not mean; or None."""
    if _RANGE.fullmatch(item):
        return "looks like a range, which kubelet and containerd do not read: write CIDRs"
    if (network := find_intended_network(item)) is not None:
        return f"is a host address in the network: write `{network}`"
    return None


def _get_ip_version(text: str) -> int | None:
    if "%" in text or "/" in text:
        return None
    try:
        return ipaddress.ip_address(text).version
    except ValueError:
        return None


NO_ITEM: Final[tuple[Severity, str]] = ("error", "is not an IP address, a CIDR or a lower-case domain name")


def find_item_fault(item: str) -> tuple[Severity, str] | None:
    """Return the fault of an item, without spaces around it, by the rules of this module; None if it is valid."""
    if not item:
        return "error", "is empty: take the comma out"
    if item == ALL:
        return "error", "may only stand alone: write `*` as the whole list, or take it out"
    if is_catch_all_network(item):
        return "warning", "is every address: requests to addresses bypass the proxy, those to names do not"
    if is_ip(item) or is_cidr(item):
        return None
    if len(item.strip(".")) <= 253 and _DOMAIN.match(item):
        if _LIKE_ADDRESS.match(item):
            return (
                "warning",
                f"looks like an IP address but is none: clients take it as a domain name{_format_address_hint(item)}",
            )
        return None
    return NO_ITEM


def _format_address_hint(item: str) -> str:
    parts = item.strip(".").split(".")
    if len(parts) == 4 and all(part and len(part) < 10 for part in parts):
        plain = ".".join(str(int(part)) for part in parts)
        return f"; write `{plain}`" if is_ip(plain) else ""
    if 1 < len(parts) < 4 and item[-1:] != "." and item[:1] != "." and all(part and len(part) < 4 for part in parts):
        cidr = ".".join([str(int(part)) for part in parts] + ["0"] * (4 - len(parts))) + f"/{8 * len(parts)}"
        return f"; write `{cidr}`" if is_cidr(cidr) else ""
    return ""


_STARRED_ADDRESS: Final = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,3}){0,2})((?:\.\*)+)")
_QUOTES: Final = "\"'“”„‘’‚«»`"


def suggest_item(item: str) -> str | None:
    """Return the valid form that the writer of an invalid item most likely meant, or None."""
    text = _normalize_item(item)
    text = find_intended_network(text) or text
    return text if text not in (item, ALL) and find_item_fault(text) is None else None


def _normalize_item(item: str) -> str:
    text = item.strip().strip(_QUOTES).strip().lower()
    text = re.sub(r"^[a-z][a-z0-9+.-]*://", "", text)
    if text.count("/") == 1 and (network := _convert_netmask(text)) is not None:
        return network
    if match := _STARRED_ADDRESS.fullmatch(text):
        base = match[1].split(".")
        return ".".join([*base, *["0"] * (4 - len(base))]) + f"/{8 * len(base)}"
    if not is_cidr(text):
        text = text.split("/", 1)[0]
    text = _without_port(text)
    if text.startswith("*"):
        text = f".{text[1:]}"
    text = re.sub(r"^\.\.+", ".", text)
    # one dot at the end would be valid, and Go does not heed the item then
    return text.rstrip(".")


def _convert_netmask(text: str) -> str | None:
    """`10.0.0.0/255.0.0.0` as `10.0.0.0/8`; a CIDR whose address lacks its last zeros (`10.0/16`) with them."""
    address, _, mask = text.partition("/")
    if is_ip(address) and is_ip(mask) and "." in address and "." in mask:
        try:
            return f"{address}/{ipaddress.IPv4Network(f'0.0.0.0/{mask}').prefixlen}"
        except ValueError:
            return None
    if mask.isascii() and mask.isdigit() and re.match(r"[0-9]{1,3}(\.[0-9]{1,3}){0,2}\Z", address):
        full = address + ".0" * (3 - address.count(".")) + "/" + mask
        return full if is_cidr(full) else None
    return None


def _without_port(text: str) -> str:
    if match := re.match(r"\[([0-9a-f:.]+)\](:[0-9]+)?\Z", text):
        return match[1]
    if text.count(":") == 1:
        return re.sub(r":[0-9]*\Z", "", text)
    return text


def select_kubelet_addresses(addresses: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Select the addresses at which the API server calls a kubelet, from a Machine's `status.addresses`.

    `addresses` are pairs of type and address. kubeadm sets
    `--kubelet-preferred-address-types=InternalIP,ExternalIP,Hostname` (cmd/kubeadm/app/phases/controlplane).
    """
    addresses_by_type: dict[str, list[str]] = {"InternalIP": [], "ExternalIP": []}
    for kind, address in addresses:
        if kind in addresses_by_type and is_ip(address):
            addresses_by_type[kind].append(address)
    return tuple(addresses_by_type["InternalIP"] or addresses_by_type["ExternalIP"])


def list_uncovered(no_proxy: str, addresses: Iterable[str]) -> tuple[str, ...]:
    """List the addresses of kubelets and etcd members that no item covers, for clients that read networks."""
    addresses = tuple(addresses)
    if not addresses or no_proxy == ALL:
        return ()
    networks: list[IPv4Network | IPv6Network] = [
        ip_network(item, strict=False) for item in split(no_proxy) if is_ip(item) or is_cidr(item)
    ]
    parsed_addresses = ((text, ip_address(text)) for text in addresses)
    return tuple(text for text, address in parsed_addresses if not any(address in network for network in networks))


def describe_uncovered(addresses: Sequence[str]) -> str:
    """Describe the effect of uncovered addresses, and the fix."""
    return (
        f"no item of NO_PROXY covers {format_first(addresses, _LISTED)}: the API server reaches kubelets there, and etcd its"
        " peers, through the proxy; name the network in noProxy, or in networks.machineNetwork, of a layer for this cluster"
    )
