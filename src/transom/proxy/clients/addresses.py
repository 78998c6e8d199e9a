"""IP addresses as clients write and read them: the grammars of C libraries, of browsers, of Go, Python and .NET.

An address is a pair `(family, value)`: family 4 or 6 and the address as an integer.
"""

import re
from functools import lru_cache
from ipaddress import IPv6Address
from typing import TypeAlias

Address: TypeAlias = tuple[int, int]
"""`(4, 0..2**32-1)` or `(6, 0..2**128-1)`."""

Network: TypeAlias = tuple[int, int, int]
"""`(family, value, bits that count)`."""

_QUAD = re.compile(r"(0|[1-9][0-9]{0,2})\.(0|[1-9][0-9]{0,2})\.(0|[1-9][0-9]{0,2})\.(0|[1-9][0-9]{0,2})")
_MAPPED = 0xFFFF << 32
_NUMBER = re.compile(r"0[xX][0-9a-fA-F]*|[0-9]+")


@lru_cache(maxsize=8192)
def parse_quad(text: str) -> Address | None:
    """Read `text` as inet_pton(3) reads IPv4: four decimal numbers without leading zeros."""
    match = _QUAD.fullmatch(text)
    if match is None:
        return None
    a, b, c, d = (int(group) for group in match.groups())
    if max(a, b, c, d) > 255:
        return None
    return (4, a << 24 | b << 16 | c << 8 | d)


@lru_cache(maxsize=8192)
def parse_loose(text: str) -> Address | None:
    """Read `text` as inet_aton(3) and the WHATWG URL standard read IPv4: one to four numbers, decimal, octal or hex."""
    parts = text.split(".")
    if len(parts) > 4:
        return None
    numbers: list[int] = []
    for part in parts:
        if _NUMBER.fullmatch(part) is None or not part.isascii() or len(part) > 40:
            return None
        if part[:2] in ("0x", "0X"):
            numbers.append(int(part[2:] or "0", 16))
        elif len(part) > 1 and part[0] == "0":
            if any(digit in "89" for digit in part):
                return None
            numbers.append(int(part, 8))
        else:
            numbers.append(int(part))
    *head, last = numbers
    if any(number > 255 for number in head) or last >= 256 ** (4 - len(head)):
        return None
    value = last
    for index, number in enumerate(head):
        value += number << (8 * (3 - index))
    return (4, value)


@lru_cache(maxsize=8192)
def parse_decimal(text: str) -> Address | None:
    """Read `text` as Java reads IPv4: one to four decimal numbers, with any number of leading zeros."""
    parts = text.split(".")
    if len(parts) > 4 or not all(part.isascii() and part.isdecimal() and len(part) <= 10 for part in parts):
        return None
    return parse_loose(".".join(str(int(part)) for part in parts))


@lru_cache(maxsize=8192)
def parse_ipv6(text: str) -> Address | None:
    """Read `text` as IPv6 without brackets and without a zone (`%eth0`)."""
    if ":" not in text or "%" in text or not text.isascii() or len(text) > 100:
        return None
    try:
        return (6, int(IPv6Address(text)))
    except ValueError:
        return None


def without_zone(text: str) -> str:
    """Return an IPv6 address without its zone."""
    return text.partition("%")[0]


def parse_address(text: str) -> Address | None:
    """Read `text` as an address in its usual spelling: IPv4 in four decimal numbers, IPv6 without brackets."""
    return parse_quad(text) or parse_ipv6(text)


def without_ipv4_mapping(address: Address) -> Address:
    """Turn an IPv4-mapped IPv6 address (`::ffff:10.1.2.3`) into the IPv4 address."""
    family, value = address
    if family == 6 and value & ~0xFFFFFFFF == _MAPPED:
        return (4, value & 0xFFFFFFFF)
    return address


def with_ipv4_mapping(network: Network, address: Address) -> tuple[Network, Address]:
    """Return a network and an address with IPv4 in its IPv4-mapped IPv6 form (`::ffff:10.1.2.3`)."""
    if network[0] == 4:
        network = (6, _MAPPED | network[1], 96 + network[2])
    if address[0] == 4:
        address = (6, _MAPPED | address[1])
    return network, address


def format_address(address: Address, *, dotted_mapping: bool = False) -> str:
    """Write an address in its canonical spelling (RFC 5952).

    With `dotted_mapping`, `::ffff:10.1.2.3` as inet_ntop(3) writes it; else `::ffff:a01:203` as browsers do.
    """
    family, value = address
    if family == 4:
        return f"{value >> 24}.{value >> 16 & 255}.{value >> 8 & 255}.{value & 255}"
    if value & ~0xFFFFFFFF == _MAPPED:
        low = value & 0xFFFFFFFF
        return f"::ffff:{format_address((4, low))}" if dotted_mapping else f"::ffff:{low >> 16:x}:{low & 0xFFFF:x}"
    return IPv6Address(value).compressed


def contains_address(network: Network, address: Address) -> bool:
    """Tell whether the address lies in the network; families never mix."""
    family, value, bits = network
    if family != address[0]:
        return False
    shift = (32 if family == 4 else 128) - bits
    return value >> shift == address[1] >> shift


def count_mask_bits(mask: str) -> int | None:
    """Turn a netmask (`255.0.0.0`) or a host mask (`0.255.255.255`) into a number of bits, as Python's ipaddress does."""
    address = parse_quad(mask)
    if address is None:
        return None
    value = address[1]
    ones = 32 - (~value & 0xFFFFFFFF).bit_length()
    if value == (0xFFFFFFFF << (32 - ones)) & 0xFFFFFFFF:
        return ones
    return 32 - value.bit_length() if value & (value + 1) == 0 else None
