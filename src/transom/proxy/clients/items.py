"""The items of a list as one client reads them."""

import re
from functools import lru_cache
from typing import Final

import msgspec

from transom.proxy.clients.addresses import (
    Address,
    Network,
    parse_address,
    parse_loose,
    parse_quad,
    without_ipv4_mapping,
    without_zone,
)
from transom.proxy.clients.patterns import (
    Item,
    compile_glob,
    parse_aws_item,
    parse_azure_item,
    parse_chromium_item,
    parse_fabric8_item,
    parse_httpx2_item,
    parse_httpx_item,
    parse_network,
    parse_port,
)
from transom.proxy.clients.profile import Addresses, Covers, Items, Ports, ProfilePass, Splitting, Star
from transom.proxy.clients.urls import TrailingDots, UnreadableHostError, drop_dots, to_idn


class ItemList(msgspec.Struct, frozen=True):
    """A whole list as one pass of a client reads it."""

    items: tuple[Item, ...]
    everything: str | None = None
    """The item that alone covers all hosts, if the list has one."""
    fails: tuple[str, str] | None = None
    """The first item on which the client fails, and why."""


@lru_cache(maxsize=1024)
def parse_item_list(profile_pass: ProfilePass, value: str) -> ItemList:
    """Read a list as the client does in this pass."""
    if profile_pass.star is Star.ALONE and value == "*":
        return ItemList((), everything="*")
    items = tuple(_read_cached(profile_pass, text, port) for text, port in split_items(profile_pass.splitting, value))
    if profile_pass.star in (Star.ITEM, Star.ITEM_OR_PORT):
        for item in items:
            if item.everything and item.port is None and not item.names_only:
                return ItemList((), everything=item.text)
    if not profile_pass.fails_when_reached:
        for item in items:
            if item.fails:
                return ItemList(items, fails=(item.text, item.fails))
    return ItemList(items)


def split_items(splitting: Splitting, value: str) -> list[tuple[str, str | None]]:
    """Split a value into the texts of its items, each with its port where the client's pattern finds one."""
    if not value:
        return []
    if splitting.drop:
        value = value.translate({ord(character): None for character in splitting.drop})
    if splitting.pattern is not None:
        return [(match[1], match[2]) for match in re.finditer(splitting.pattern, value)]
    texts = value.split(",") if splitting.separator == "," else re.split(splitting.separator, value)
    if splitting.empty_covers_all:
        while texts and not texts[-1] and not splitting.last_empty_counts:
            texts.pop()
        return [(text, None) for text in texts]
    pieces: list[tuple[str, str | None]] = []
    for raw in texts:
        text = raw.strip(splitting.trim)
        blank = re.search(r"[ \t]", text) if splitting.blank_ends_list else None
        if blank is not None:
            pieces.append((text[: blank.start()], None))
            break
        if text or (splitting.empty_covers_root and value):
            pieces.append((text, None))
    return pieces


@lru_cache(maxsize=65536)
def _read_cached(profile_pass: ProfilePass, text: str, port: str | None) -> Item:
    return _read_item(profile_pass, text, port)


def _read_item(profile_pass: ProfilePass, text: str, port_text: str | None) -> Item:
    if not text:
        if profile_pass.splitting.empty_covers_root:
            return Item(text, whole=".", covers=Covers.TREE)
        return Item(text, everything=profile_pass.splitting.empty_covers_all)
    if text == "*" and profile_pass.star in (Star.ITEM, Star.ITEM_OR_PORT, Star.ITEM_FOR_NAMES):
        return Item(text, everything=True, names_only=profile_pass.star is Star.ITEM_FOR_NAMES)
    if profile_pass.items is not Items.HOSTS:
        if profile_pass.items in _READERS:
            return _READERS[profile_pass.items](text)
        if profile_pass.items is Items.CHROMIUM:
            return parse_chromium_item(profile_pass, text)
        if text.lower() in ("<local>", "<-loopback>"):
            return Item(text, keyword=text.lower())
    addresses = profile_pass.addresses
    if addresses.cidr is not None and "/" in text:
        network = parse_network(text, addresses.cidr)
        if network is not None:
            return Item(
                text, network=_convert_mapped_network(network) if addresses.mapped else network, port=parse_port(port_text)
            )
    if addresses.ranges and "-" in text:
        bounds = _parse_range(text)
        if bounds is not None:
            return Item(text, bounds=bounds)
    host, port = split_port(text, profile_pass.ports, port_text)
    if host is None:
        return Item(text)
    if host == "*" and profile_pass.star is Star.ITEM_OR_PORT:
        return Item(text, everything=True, port=port)
    value = _parse_item_address(host, addresses)
    if addresses.brackets and host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    return _read_name(text, host, port, value, profile_pass)


_READERS: Final = {
    Items.HTTPX_URLS: parse_httpx_item,
    Items.HTTPX2_URLS: parse_httpx2_item,
    Items.FABRIC8: parse_fabric8_item,
    Items.AWS_PATTERNS: parse_aws_item,
    Items.AZURE_PATTERNS: parse_azure_item,
}


def _read_name(text: str, host: str, port: int | None, value: Address | None, profile_pass: ProfilePass) -> Item:
    names = profile_pass.names
    core, covers = host, names.bare
    if names.lower:
        core = core.lower()
    if core.startswith("*") and names.star_dot is not Covers.NOTHING and core.startswith("*."):
        core, covers = core[2:], names.star_dot
    elif core.startswith("*") and names.star is not Covers.NOTHING:
        core, covers = core[1:], names.star
        if core.startswith(".") and names.dotted is not Covers.NOTHING:
            core, covers = core[1:], names.dotted
    elif core.startswith(".") and names.leading_dots is not TrailingDots.KEPT:
        core, covers = (core.lstrip(".") if names.leading_dots is TrailingDots.ALL else core[1:]), names.dotted
    core = drop_dots(core, names.trailing_dots)
    if not core and not names.root:
        return Item(text)
    if not names.empty_labels:
        core = ".".join(label for label in core.split(".") if label)
        if not core:
            return Item(text)
    if not core.isascii():
        try:
            core = to_idn(core, names.idn)
        except UnreadableHostError:
            covers = Covers.NOTHING
    glob = compile_glob(core, names.glob) if covers is Covers.NAME else None
    return Item(
        text,
        whole=host.lower() if names.lower else host,
        core=core,
        covers=covers,
        port=port,
        value=value,
        glob=glob,
        loopback=profile_pass.addresses.one_loopback and covers is Covers.NAME and is_loopback(core, value),
    )


def _parse_item_address(host: str, addresses: Addresses) -> Address | None:
    if not addresses.values:
        return None
    text = host[1:-1] if addresses.brackets and host.startswith("[") and host.endswith("]") else host
    value = parse_address(without_zone(text) if addresses.zones else text)
    if value is None and addresses.one_loopback and "." in text:
        value = parse_loose(text.rstrip("."))
    if value is None or value[0] not in addresses.values:
        return None
    return without_ipv4_mapping(value) if addresses.mapped else value


def is_loopback(host: str, value: Address | None) -> bool:
    """Tell whether axios takes the host for this machine: localhost, 0.0.0.0, ::, ::1, 127.0.0.0/8 and their mapped forms."""
    if value is None:
        return host == "localhost"
    family, number = without_ipv4_mapping(value)
    return (number >> 24 == 127 or number == 0) if family == 4 else number in (0, 1)


def split_port(text: str, ports: Ports, port_text: str | None) -> tuple[str | None, int | None]:
    """Split an item into host and port; the host is `None` when the client drops such an item."""
    if ports is Ports.NOT_READ:
        return text, None
    if ports is Ports.GROUP:
        return text, parse_port(port_text)
    if ports is Ports.LAST_COLON:
        host, colon, digits = text.rpartition(":")
        if colon and host and digits.isdecimal() and digits.isascii():
            return host, parse_port(digits) or None
    elif ports in (Ports.ONE_COLON, Ports.ONE_COLON_ZERO):
        match = re.fullmatch(r"(\[[^\]]+\]|[^:]+):([0-9]+)", text)
        if match is not None:
            port = parse_port(match[2])
            return match[1], port if ports is Ports.ONE_COLON_ZERO else port or None
    elif ports is Ports.GO:
        return _split_host_port(text)
    return text, None


def _split_host_port(text: str) -> tuple[str | None, int | None]:
    """Split as Go's net.SplitHostPort; what it refuses stays whole."""
    match = re.fullmatch(r"\[([^\[\]]*)\]:([^:\[\]]*)|([^:\[\]]*):([^:\[\]]*)", text)
    if match is None:
        return text, None
    host, port = (match[1], match[2]) if match[3] is None else (match[3], match[4])
    if not host:
        return None, None
    if not port:
        return host, None
    canonical = port.isdecimal() and port.isascii() and str(parse_port(port)) == port
    return host, parse_port(port) if canonical else -1


def _convert_mapped_network(network: Network) -> Network:
    family, value, bits = network
    unmapped = without_ipv4_mapping((family, value))
    if family == 6 and unmapped[0] == 4 and bits >= 96:
        return (4, unmapped[1], bits - 96)
    return network


def _parse_range(text: str) -> tuple[int, int] | None:
    parts = [parse_quad(part.strip()) for part in text.split("-")[:2]]
    if len(parts) < 2 or parts[0] is None or parts[1] is None:
        return None
    return (parts[0][1], parts[1][1])
