"""Settings of Calico's Installation that Windows nodes cannot use."""

from collections.abc import Iterator, Mapping
from typing import Any

from transom.capi.check import upstream_network
from transom.proxy.finding import Path


def find_calico_faults(network: Any) -> Iterator[tuple[Path, str]]:
    """Yield what of an Installation's `calicoNetwork` with a dataplane for Windows is wrong: the field and the message.

    A pool without an encapsulation is IP-in-IP. Without BGP, unencapsulated pools are rejected too.
    """
    pools = network.get("ipPools") if isinstance(network, Mapping) else None
    bgp = network.get("bgp") if isinstance(network, Mapping) else None
    wanted = upstream_network.POOL_ENCAPSULATION.value
    for index, pool in enumerate(pools if isinstance(pools, list) else ()):
        value = pool.get("encapsulation") if isinstance(pool, Mapping) else None
        actual = value or upstream_network.POOL_DEFAULT.value
        if actual == wanted or (actual == "None" and bgp == "Enabled"):
            continue
        default = "" if value else ", the default"
        yield (
            ("ipPools", index, "encapsulation"),
            f"{actual}{default}: Windows nodes get no pods' network, and without BGP Calico's operator may reject the whole "
            f"Installation: {wanted}",
        )
