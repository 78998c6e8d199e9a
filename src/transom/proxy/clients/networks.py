"""Networks as clients read them: `BASE/BITS`."""

import re

from transom.proxy.clients.addresses import Network, mask_bits, parse_ipv6, parse_loose, parse_quad
from transom.proxy.clients.profile import Bits, Cidr


def parse_network(text: str, cidr: Cidr) -> Network | None:
    """Read `BASE/BITS`; `None` when the client does not take it for a network."""
    base, _, bits_text = text.partition("/")
    if base.startswith("[") and base.endswith("]") and cidr.brackets:
        address = parse_ipv6(base[1:-1])
    else:
        address = parse_quad(base) or parse_ipv6(base) or (parse_loose(base) if cidr.loose else None)
    if address is None or address[0] not in cidr.families:
        return None
    family, value = address
    width = 32 if family == 4 else 128
    bits = mask_bits(bits_text) if cidr.masks and family == 4 and "." in bits_text else read_bits(bits_text, cidr.bits)
    if bits is None or bits < 0:
        return None
    if bits > width:
        if not cidr.clamped:
            return None
        bits = width
    if bits == 0:
        if cidr.zero is None:
            return None
        bits = width if cidr.zero < 0 else 0
    return (family, value, bits)


def read_bits(text: str, grammar: Bits) -> int | None:
    """Read the number after the slash."""
    if grammar is Bits.ATOI:
        match = re.match(r"\s*([0-9]*)", text)
        return int(match[1][:9] or "0") if match is not None else 0
    if grammar is Bits.PYTHON_INT:
        try:
            return int(text[:64])
        except ValueError:
            return None
    if grammar is Bits.TRIMMED:
        text = text.strip()
    if not text.isascii() or not text.isdecimal() or len(text) > 9:
        return None
    if grammar is Bits.SHORT and (len(text) > 3 or (text != "0" and text.startswith("0"))):
        return None
    return int(text)
