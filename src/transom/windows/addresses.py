"""IP addresses in the one spelling that is compared."""

import ipaddress
from functools import lru_cache
from typing import Final

_LONGEST: Final = len("ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255")
_KNOWN: Final = 8192


def address(text: str) -> str | None:
    """The address that a text is, in one spelling; None for what is none.

    Zones (`%eth0`) are no part of it. A socket for both families shows an IPv4 address as an IPv6 one (`::ffff:10.0.0.7`; RFC
    4291, section 2.5.5.2): it is that IPv4 address here.
    """
    plain = text.partition("%")[0]
    return _spelled(plain) if len(plain) <= _LONGEST else None


# those of each Node and host are asked for in every pass, and with every heartbeat
@lru_cache(_KNOWN)
def _spelled(text: str) -> str | None:
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return str(mapped or found)
