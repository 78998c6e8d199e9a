"""IP addresses in the one spelling that is compared."""

import ipaddress


def address(text: str) -> str | None:
    """The address that a text is, in one spelling; None for what is none.

    Zones (`%eth0`) are no part of it, and an IPv4 address that is written as an IPv6 one (`::ffff:10.0.0.7`, RFC 4291, section
    2.5.5.2: what a socket for both shows) is that IPv4 address.
    """
    try:
        found = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return str(mapped or found)
