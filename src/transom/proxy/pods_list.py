"""The NO_PROXY of pods: the merged list without what makes clients fail that run in pods."""

from typing import Final

import msgspec

from transom.proxy.no_proxy import ALL, is_ipv6_network, join, split

KUBERNETES: Final = ("kubernetes.default.svc", "kubernetes.default", "kubernetes")
"""The names of the API server's Service. Fluent Bit and others read no `.svc`, and it is what their settings say by default.

The short ones are what other clients say by default (Jenkins: https://kubernetes.default), and no client completes them.
"""

_ADDRESS_BITS: Final = 128


class PodsList(msgspec.Struct, frozen=True):
    """`text` is the list; `left_out` are the items of the merged one that it does not have."""

    text: str
    left_out: tuple[str, ...] = ()


def build_pods_list(no_proxy: str, *, keep_ipv6_networks: bool = False) -> PodsList:
    """Return the list that pods get of a merged one.

    httpx (of Python, 0.28, with the SDKs of OpenAI, Anthropic and MCP) cannot be used at all while an IPv6 network is in the
    list; so those are left out, and a network of one address becomes that address. Names and IPv4 networks stay.
    """
    if no_proxy in ("", ALL) or keep_ipv6_networks or ":" not in no_proxy:
        return PodsList(no_proxy)
    items = split(no_proxy)
    networks = [item for item in items if is_ipv6_network(item)]
    if not networks:
        return PodsList(no_proxy)
    hosts = {item: item.partition("/")[0] for item in networks if int(item.partition("/")[2]) == _ADDRESS_BITS}
    kept = (hosts.get(item, item) for item in items if item in hosts or item not in networks)
    return PodsList(join(kept), tuple(item for item in networks if item not in hosts))
