"""Kubeconfigs of a workload cluster by which a tenant would have the operator connect to where the tenant cannot."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from transom.kube.permitted_networks import PermittedNetworks

ANY_NETWORK: Final = PermittedNetworks.parse(("0.0.0.0/0", "::/0"))
"""For clusters that tests run on this machine."""
Builder = Callable[[], dict[str, Any]]


def build_kubeconfig(server: str, proxy: str | None = None) -> dict[str, Any]:
    """Return a kubeconfig with a token, as plain values."""
    cluster = {"server": server} if proxy is None else {"server": server, "proxy-url": proxy}
    return {
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"token": "hunter2"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }


def to_server(host: str) -> Builder:
    """Return a builder of a kubeconfig with that server."""
    return lambda: build_kubeconfig(f"https://{host}:10250")


def to_proxy(host: str) -> Builder:
    """Return a builder of a kubeconfig whose proxy is that host."""
    return lambda: build_kubeconfig("https://api.example:6443", f"http://{host}:80")


_HOSTS: Final[Mapping[str, str]] = {
    "metadata": "169.254.169.254",
    "link-local": "169.254.1.1",
    "loopback": "127.0.0.1",
    "loopback-elsewhere": "127.8.9.10",
    "this-host": "0.0.0.0",  # it is refused
    "multicast": "224.0.0.1",
    "broadcast": "255.255.255.255",
    "loopback-ipv6": "[::1]",
    "this-host-ipv6": "[::]",
    "link-local-ipv6": "[fe80::1]",
    "mapped": "[::ffff:127.0.0.1]",
    "mapped-hexadecimal": "[::ffff:a9fe:a9fe]",
    "compatible": "[::169.254.169.254]",
    "nat64": "[64:ff9b::a9fe:a9fe]",
    "6to4": "[2002:a9fe:a9fe::1]",
    "metadata-aws-ipv6": "[fd00:ec2::254]",
    "credentials-aws-ipv6": "[fd00:ec2::23]",
    "metadata-google-ipv6": "[fd20:ce::254]",
    "metadata-scaleway-ipv6": "[fd00:42::42]",
    "metadata-oracle": "192.0.0.192",
    "translated": "[::ffff:0:169.254.169.254]",
    "nat64-local": "[64:ff9b:1::a9fe:a9fe]",
    "nat64-local-48": "[64:ff9b:1:a9fe:a9:fe00::]",
    "nat64-local-56": "[64:ff9b:1:a9:fe:a9fe::]",
    "nat64-local-64": "[64:ff9b:1:0:a9:fea9:fe00:0]",
    "full-width": "\uff11\uff16\uff19\u3002254\u3002169\u3002254",
    "circled": "\u2460\u2461\u2466.\u24ea.\u24ea.\u2460",
    "user-before": "10.0.0.1@169.254.169.254",
    "fragment-behind": "169.254.169.254#@10.0.0.1",
    "zone": "[fe80::1%25eth0]",
    "metadata-alibaba": "100.100.100.200",
    "metadata-azure": "168.63.129.16",
}
_SPELLINGS: Final[Mapping[str, str]] = {
    "name": "localhost",
    "short": "127.1",
    "decimal": "2130706433",
    "hexadecimal": "0x7f.0.0.1",
    "octal": "0177.0.0.1",
}
"""Names that lead to this machine, and ways to write its address that a resolver reads."""
REFUSED_AT_ONCE: Final[Mapping[str, Builder]] = MappingProxyType(
    {f"server-{name}": to_server(host) for name, host in _HOSTS.items()}
    | {f"proxy-{name}": to_proxy(host) for name, host in _HOSTS.items()}
)
REFUSED_WHEN_RESOLVED: Final[Mapping[str, Builder]] = MappingProxyType(
    {f"server-{name}": to_server(host) for name, host in _SPELLINGS.items()}
    | {f"proxy-{name}": to_proxy(host) for name, host in _SPELLINGS.items()}
)
HOSTILE_KUBECONFIGS: Final[Mapping[str, Builder]] = MappingProxyType({**REFUSED_AT_ONCE, **REFUSED_WHEN_RESOLVED})
"""By name; each value returns a kubeconfig as plain values. None may make the operator connect anywhere."""
