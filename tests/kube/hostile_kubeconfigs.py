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
