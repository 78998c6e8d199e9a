"""Addresses that an untrusted kubeconfig may name. Without a limit, its author could send Transom's requests to any address."""

import ipaddress
import socket
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
IPNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network
_REFUSED: Final[tuple[IPNetwork, ...]] = tuple(
    ipaddress.ip_network(text)
    for text in (
        # this host, loopback and link-local, where clouds have their metadata (RFC 6890); multicast and broadcast
        "0.0.0.0/8",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "224.0.0.0/4",
        "240.0.0.0/4",
        "::/128",
        "::1/128",
        "fe80::/10",
        "fec0::/10",
        "ff00::/8",
        # metadata elsewhere: Alibaba Cloud (agent-airlock v0.8.32, CVE-2026-48782), and what Azure gives to its machines
        # (learn.microsoft.com, "What is IP address 168.63.129.16?")
        "100.100.100.200/32",
        "168.63.129.16/32",
        # AWS by IPv6: metadata, and the credentials of pods (docs.aws.amazon.com, "EKS Pod Identity", fd00:ec2::23)
        "fd00:ec2::/32",
        # Google Cloud by IPv6 (cloud.google.com, "About VM metadata"), Scaleway, and Oracle Cloud Classic, which has it among
        # the addresses of the IETF (RFC 6890, 2.2.2), where no API server is
        "fd20:ce::254/128",
        "fd00:42::42/128",
        "192.0.0.0/24",
    )
)
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_COMPATIBLE: Final = ipaddress.IPv6Network("::/96")
_TRANSLATED: Final = ipaddress.IPv6Network("::ffff:0:0:0/96")
"""RFC 2765, 2.1."""
_LOCAL_NAT64: Final = ipaddress.IPv6Network("64:ff9b:1::/48")
"""RFC 8215: the administrators of a network choose how long their prefix is."""
_PREFIXES: Final = (48, 56, 64, 96)
_NO_ADDRESS: Final = ipaddress.IPv4Network("0.0.0.0/8")


class AddressNotPermitted(OSError):
    """An address that an untrusted kubeconfig must not name; the message has host and address."""


class PermittedNetworks(msgspec.Struct, frozen=True):
    """The networks in which API servers of workload clusters may be.

    Empty: every address but loopback, link-local and multicast ones and those of clouds' metadata. An address of a network in
    the list may be any.
    """

    networks: tuple[IPNetwork, ...] = ()

    @classmethod
    def parse(cls, texts: Iterable[str]) -> "PermittedNetworks":
        """Read CIDRs or addresses. Raises ValueError."""
        return cls(tuple(ipaddress.ip_network(text.strip()) for text in texts))

    def is_permitted(self, text: str) -> bool:
        """Return True if an IP address may be connected to, in whatever way it contains an IPv4 address."""
        return all(self._is_permitted_address(address) for address in iter_embedded_addresses(text))

    def check(self, host: str, what: str) -> None:
        """Check a host that is an IP address; names are checked once they are resolved. Raises AddressNotPermitted."""
        try:
            ipaddress.ip_address(host.partition("%")[0])
        except ValueError:
            return
        if not self.is_permitted(host):
            raise AddressNotPermitted(f"{what}: address {host} is not permitted{self.remedy}")

    @property
    def remedy(self) -> str:
        """What an administrator can do, as the end of a sentence."""
        return ": transom run --workload-cluster-networks lists the networks of API servers"

    def _is_permitted_address(self, address: IPAddress) -> bool:
        if self.networks:
            return any(address in network for network in self.networks)
        return not any(address in network for network in _REFUSED)


def iter_embedded_addresses(text: str) -> Iterator[IPAddress]:
    """Yield an IP address, or the IPv4 addresses that an IPv6 address may embed (RFC 4291, RFC 6052, RFC 8215, RFC 3056)."""
    address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            yield address.ipv4_mapped
            return
        if address.sixtofour is not None:
            yield address.sixtofour
        if address in _LOCAL_NAT64:
            embedded = (_extract_embedded(address, prefix) for prefix in _PREFIXES)
            # the rest of an address behind a longer prefix is zeros
            yield from (meaning for meaning in embedded if meaning not in _NO_ADDRESS)
        if address in _TRANSLATED or address in _NAT64 or (address in _COMPATIBLE and int(address) > 1):
            yield ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
            return
    yield address


def _extract_embedded(address: ipaddress.IPv6Address, prefix: int) -> ipaddress.IPv4Address:
    """Return the IPv4 address behind a prefix of that many bits (RFC 6052, 2.2): byte 8 is left out."""
    packed = address.packed
    return ipaddress.IPv4Address((packed[:8] + packed[9:])[prefix // 8 :][:4] if prefix <= 64 else packed[-4:])


USUAL_NETWORKS: Final = PermittedNetworks()


class CheckedResolver(AbstractResolver):
    """Resolve names to permitted addresses alone: a connection goes to the address that was checked, not to the name."""

    def __init__(self, permitted: PermittedNetworks) -> None:
        self._permitted = permitted
        self._resolver = ThreadedResolver()

    async def resolve(self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET) -> list[ResolveResult]:
        """Return the addresses of a name. Raises AddressNotPermitted where one of them is not permitted, OSError."""
        results = await self._resolver.resolve(host, port, family)
        for result in results:
            if not self._permitted.is_permitted(result["host"]):
                raise AddressNotPermitted(f"{host}: address {result['host']} is not permitted{self._permitted.remedy}")
        return results

    async def close(self) -> None:
        """Close the resolver below."""
        await self._resolver.close()
