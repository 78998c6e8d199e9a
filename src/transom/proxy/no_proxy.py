"""The user's NO_PROXY list: its items, what is wrong with them, and whether they cover the machines of a cluster.

The rules are those of OpenShift's cluster-network-operator (pkg/util/validation). The list is `*` alone, or it has items: IP
addresses, CIDRs, or DNS-1123 subdomains with at most one leading and one trailing dot.
"""

import ipaddress
import re
from collections.abc import Iterable, Iterator, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Final

from transom.proxy.finding import Finding, Path, Place

MAX_ITEMS: Final = 5_000
WARN_LENGTH: Final = 8_000
MAX_LENGTH: Final = 30_000
"""Characters of a merged list. Windows holds 32,767 in one variable, and the name is a part of it (Microsoft, "Environment
Variables")."""
ALL: Final = "*"

_LABEL = r"[a-z0-9]([a-z0-9-]*[a-z0-9])?"
_DOMAIN = re.compile(rf"\.?{_LABEL}(\.{_LABEL})*\.?\Z")
_LIKE_ADDRESS = re.compile(r"\.?[0-9.]+\Z")
_BLANKS: Final = " \t\r\n\v\f\x85\xa0"
"""What Go's strings.TrimSpace takes off, of Latin-1."""
_LISTED: Final = 3


def split(text: str) -> tuple[str, ...]:
    """The items of a list, without blanks around them; an empty text has none."""
    if not text:
        return ()
    return tuple(item.strip(_BLANKS) for item in text.split(","))


def join(items: Iterable[str]) -> str:
    """One list of several items, each once, at its first place; a `*` makes it `*`."""
    kept = dict.fromkeys(item for item in items if item)
    return ALL if ALL in kept else ",".join(kept)


def is_cidr(text: str) -> bool:
    """Whether Go's net.ParseCIDR takes it: an address, a slash and a decimal length; host bits may be set."""
    address, slash, length = text.partition("/")
    if not slash or not length.isascii() or not length.isdigit():
        return False
    version = _ip_version(address)
    return version is not None and int(length[-6:]) <= (32 if version == 4 else 128) and not length[:-6].strip("0")


def is_ip(text: str) -> bool:
    """Whether Go's net.ParseIP takes it: no zone, no leading zeros."""
    return _ip_version(text) is not None


def _ip_version(text: str) -> int | None:
    if "%" in text or "/" in text:
        return None
    try:
        return ipaddress.ip_address(text).version
    except ValueError:
        return None


def examine(text: str, place: Place, path: Path) -> Iterator[Finding]:
    """Everything that is wrong with a list. A list with an `@` may hold a password: nothing of it is shown then."""
    if text.strip(_BLANKS) == ALL or not text:
        return
    if text.count(",") >= MAX_ITEMS:
        yield place.error(path, f"has {text.count(',') + 1:,} items: at most {MAX_ITEMS:,} are taken; use CIDRs and domains")
        return
    secret = "@" in text
    start = 0
    for index, raw in enumerate(text.split(","), 1):
        item = raw.strip(_BLANKS)
        left = start + len(raw) - len(raw.lstrip(_BLANKS))
        start += len(raw) + 1
        fault = _fault(item)
        if fault is None:
            continue
        severity, reason = fault
        if secret:
            reason = _WITHHELD
        name = f"item {index}" if secret or not item else f"item {index} `{_shortened(item)}`"
        report = place.error if severity == "error" else place.warning
        shown, span = (None, None) if secret else (text, (left, left + max(1, len(item))))
        yield report(path, f"{name} {reason}", shown, span)


_NO_ITEM: Final = ("error", "is not an IP address, a CIDR or a lower-case domain name")
_WITHHELD: Final = (
    "is not an IP address, a CIDR or a lower-case domain name (it is not shown: the list has an `@`, and may hold a password)"
)


def _shortened(item: str) -> str:
    kept = item if len(item) <= 80 else item[:77] + "…"
    return "".join(c if c.isprintable() else "·" for c in kept)


def _fault(item: str) -> tuple[str, str] | None:
    fault = _fault_of(item)
    if fault == _NO_ITEM:
        instead = suggestion(item)
        if ";" in item or any(character.isspace() for character in item):
            return "error", f"{_NO_ITEM[1]}: items are separated by a comma alone"
        return "error", _NO_ITEM[1] + (f": write `{instead}`" if instead else "")
    # of the valid forms those that Go does not heed as they are meant; what looks like an address is named already
    return _read_otherwise(item) if fault is None and (item.endswith(".") or _is_mapped(item)) else fault


def _is_mapped(item: str) -> bool:
    """Whether it is an IPv4 address or network in the form of an IPv6 one."""
    return ":" in item and ipaddress.IPv6Address(item.partition("/")[0]).ipv4_mapped is not None


def _read_otherwise(item: str) -> tuple[str, str] | None:
    """What the profile of Go, which kubelet and containerd are written in, makes of a valid item."""
    # most lists have no such item, and an operator need not hold the profiles of 40 clients
    from transom.proxy.clients.lint import lint

    for found in lint(item, ("go",)):
        instead = f"; write `{found.instead}`" if found.instead else ""
        return "warning", f"is read otherwise by kubelet and containerd: {found.problem}{instead}"
    return None


def _fault_of(item: str) -> tuple[str, str] | None:
    if not item:
        return "error", "is empty: take the comma out"
    if item == ALL:
        return "error", "may only stand alone: write `*` as the whole list, or take it out"
    if is_ip(item) or is_cidr(item):
        return None
    if len(item.strip(".")) <= 253 and _DOMAIN.match(item):
        if _LIKE_ADDRESS.match(item):
            return "warning", f"looks like an IP address but is none: clients take it as a domain name{_address_instead(item)}"
        return None
    return _NO_ITEM


def _address_instead(item: str) -> str:
    parts = item.strip(".").split(".")
    if len(parts) == 4 and all(part and len(part) < 10 for part in parts):
        plain = ".".join(str(int(part)) for part in parts)
        return f"; write `{plain}`" if is_ip(plain) else ""
    if 1 < len(parts) < 4 and item[-1:] != "." and item[:1] != "." and all(part and len(part) < 4 for part in parts):
        cidr = ".".join([str(int(part)) for part in parts] + ["0"] * (4 - len(parts))) + f"/{8 * len(parts)}"
        return f"; write `{cidr}`" if is_cidr(cidr) else ""
    return ""


def suggestion(item: str) -> str | None:
    """The valid form that the writer of an invalid item most likely meant, or None."""
    text = item.strip().lower()
    text = re.sub(r"^[a-z][a-z0-9+.-]*://", "", text)
    if text.count("/") == 1 and _mask_length(text) is not None:
        return _mask_length(text)
    if not is_cidr(text):
        text = text.split("/", 1)[0]
    text = _without_port(text)
    if text.startswith("*."):
        text = text[1:]
    text = re.sub(r"^\.\.+", ".", text)
    # one dot at the end would be valid, and Go does not heed the item then
    text = text.rstrip(".")
    return text if text not in (item, ALL) and _fault_of(text) is None else None


def _mask_length(text: str) -> str | None:
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
    """The IP addresses of kubelets and etcd's members that no item of a list covers: as clients read it that know networks."""
    addresses = tuple(addresses)
    if not addresses or no_proxy == ALL:
        return ()
    networks: list[IPv4Network | IPv6Network] = [
        ip_network(item, strict=False) for item in split(no_proxy) if is_ip(item) or is_cidr(item)
    ]
    found = ((text, ip_address(text)) for text in addresses)
    return tuple(text for text, address in found if not any(address in one for one in networks))


def uncovered_text(addresses: Sequence[str]) -> str:
    """What comes of it, and what to do."""
    more = len(addresses) - _LISTED
    listed = ", ".join(addresses[:_LISTED]) + (f" and {more:,} more" if more > 0 else "")
    return (
        f"no item of NO_PROXY covers {listed}: the API server reaches kubelets there, and etcd its peers, through the proxy; "
        "name the network in noProxy, or in networks.machineNetwork, of a layer for this cluster"
    )
