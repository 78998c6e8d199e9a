"""NO_PROXY as the bypass list of .NET Framework's WebProxy: regular expressions.

WebProxy compares each of them, without case, with `scheme://host`, and with `scheme://host:port` if the port is not the default
of the scheme (microsoft/referencesource ec9fa9ae, System/net/System/Net/webproxy.cs, IsMatchInBypassList). The host is in lower
case; an IPv6 address is as in RFC 5952, or, in programs for .NET Framework 4.0, eight groups of four digits
(System/net/System/_IPv6Address.cs, CreateCanonicalName). Loopback hosts always bypass the proxy.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import groupby

import msgspec

from transom.proxy.clients.addresses import format_address, parse_address
from transom.proxy.clients.patterns import parse_network
from transom.proxy.clients.profile import Cidr
from transom.proxy.clients.translation import Loss, split_port

_NUMBER = "[0-9]+"
_GROUPS = 8
_SPELLED_OTHERWISE = "Windows PowerShell compares addresses as text, and this one has several spellings"


class BypassExpressions(msgspec.Struct, frozen=True):
    """The regular expressions, and the items that they leave out."""

    expressions: tuple[str, ...]
    lost: tuple[Loss, ...]


class _Inexpressible(Exception):
    """An item that no regular expression covers; the message says why."""


def build_bypass_expressions(no_proxy: str) -> BypassExpressions:
    """Build the expressions that cover what Go reads in NO_PROXY: `corp.example` covers the names below too.

    An IPv4 network covers IPv4-mapped addresses (`[::ffff:10.1.2.3]`) in Go, and not here.
    """
    expressions: dict[str, None] = {}
    lost: list[Loss] = []
    for raw in no_proxy.split(","):
        item = raw.strip()
        if not item:
            continue
        try:
            expressions[_build_expression(item.lower())] = None
        except _Inexpressible as error:
            lost.append(Loss(item, str(error)))
    return BypassExpressions(tuple(expressions), tuple(lost))


def _build_expression(item: str) -> str:
    if item == "*":
        return "^"
    if any(sign in item for sign in ";|<>\"' \t\r\n") or not item.isascii():
        raise _Inexpressible("clients disagree on this item")
    network = parse_network(item, Cidr())
    if network is not None:
        family, value, bits = network
        return _match_port(_match_ipv4(value, bits) if family == 4 else _match_ipv6(value, bits), "")
    host, port = split_port(item)
    address = parse_address(host.strip("[]"))
    if address is not None:
        family, value = address
        return _match_port(_match_ipv4(value, 32) if family == 4 else _match_ipv6(value, 128), port)
    if "/" in host or ":" in host:
        raise _Inexpressible("it is neither a name, an address nor a network")
    name = host[1:] if host.startswith("*.") else host
    if "*" in name or "?" in name:
        raise _Inexpressible("it has a wildcard that NO_PROXY does not have")
    below = r"[^/:]*" if name.startswith(".") else r"(?:[^/:]*\.)?"
    # a name is not compared with the end of an address
    names_only = r"(?![0-9.]+(?::|$))" if name.rpartition(".")[2].isdecimal() else ""
    return _match_port(names_only + below + re.escape(name), port)


def _match_port(host: str, port: str) -> str:
    """Return the expression for a host at a port; empty: at all. The text that is compared lacks a default port."""
    if not port:
        return f"^[a-z]+://{host}(?::{_NUMBER})?$"
    if port == "80":
        return f"^(?:http://{host}|https://{host}:80)$"
    if port == "443":
        return f"^(?:https://{host}|http://{host}:443)$"
    return f"^[a-z]+://{host}:{port}$"


def _match_ipv4(value: int, bits: int) -> str:
    octets: list[str] = []
    for index in range(4):
        octet, fixed = value >> (24 - 8 * index) & 255, min(max(bits - 8 * index, 0), 8)
        first = octet >> (8 - fixed) << (8 - fixed)
        octets.append(_NUMBER if fixed == 0 else _match_numbers(range(first, first + (1 << (8 - fixed)))))
    return r"\.".join(octets)


def _match_numbers(numbers: Iterable[int]) -> str:
    """Match consecutive numbers, those with the same tens at once: `1[6-9]|2[0-9]|3[0-1]`."""
    parts: list[str] = []
    for tens, group in groupby(numbers, lambda number: number // 10):
        last = [number % 10 for number in group]
        digits = f"[{last[0]}-{last[-1]}]" if len(last) > 1 else str(last[0])
        parts.append(f"{tens or ''}{digits}")
    return parts[0] if len(parts) == 1 else f"(?:{'|'.join(parts)})"


def _match_ipv6(value: int, bits: int) -> str:
    groups = [value >> (112 - 16 * index) & 0xFFFF for index in range(_GROUPS)]
    if bits == 128:
        return _match_ipv6_address(value, groups)
    whole, rest = divmod(bits, 16)
    if 0 in groups[:whole]:
        # `::` may be anywhere in it
        raise _Inexpressible(_SPELLED_OTHERWISE)
    parts = [f"0*{group:x}" for group in groups[:whole]]
    if rest:
        parts.append("".join(_iter_digits(groups[whole], rest)))
    ends = len(parts) == _GROUPS
    return rf"\[{':'.join(parts)}{'' if ends else ':' if parts else ''}{'' if ends else '[0-9a-f:.]+'}\]"


def _match_ipv6_address(value: int, groups: list[int]) -> str:
    zeros = groups[:4] == [0, 0, 0, 0] and groups[6] != 0
    mapped = zeros and (groups[4:6] in ([0, 0], [0, 0xFFFF], [0xFFFF, 0]))
    if mapped or groups[4:6] == [0, 0x5EFE]:
        # ends as an IPv4 address, ShouldHaveIpv4Embedded
        raise _Inexpressible(_SPELLED_OTHERWISE)
    return rf"\[(?:{format_address((6, value))}|{':'.join(f'{group:04x}' for group in groups)})\]"


def _iter_digits(group: int, bits: int) -> Iterator[str]:
    """Yield an expression for each hexadecimal digit of a group whose first `bits` bits count."""
    if group < 0x1000:
        # leading zeros are not written, and a group of zeros may not be there at all
        raise _Inexpressible(_SPELLED_OTHERWISE)
    for index in range(4):
        digit, fixed = group >> (12 - 4 * index) & 15, min(max(bits - 4 * index, 0), 4)
        first = digit >> (4 - fixed) << (4 - fixed)
        digits = [f"{number:x}" for number in range(first, first + (1 << (4 - fixed)))]
        yield digits[0] if len(digits) == 1 else f"[{''.join(digits)}]"
