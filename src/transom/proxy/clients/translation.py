"""NO_PROXY in the languages of other lists, and what is lost on the way.

Sources: `http.nonProxyHosts` (DefaultProxySelector.java of the JDK), WinINet's ProxyOverride (INTERNET_OPTION_PROXY),
Chromium's bypass rules (net/docs/proxy.md).
"""

from typing import Literal

import msgspec

from transom.proxy.clients.addresses import Network, format_address, parse_address
from transom.proxy.clients.patterns import parse_network
from transom.proxy.clients.profile import Cidr

Language = Literal["nonProxyHosts", "ProxyOverride", "chromium"]

_SEPARATOR = {"nonProxyHosts": "|", "ProxyOverride": ";", "chromium": ";"}
_MAX_PATTERNS = 256


class Loss(msgspec.Struct, frozen=True):
    """An item that the other language cannot say in full, and why."""

    item: str
    reason: str


class Translation(msgspec.Struct, frozen=True):
    """The list in the other language; `lost` is empty when it says the same."""

    text: str
    lost: tuple[Loss, ...]


def translate_list(no_proxy: str, language: Language) -> Translation:
    """Write the value of NO_PROXY in another language, as Go reads it: `corp.example` covers the names below too."""
    written: dict[str, None] = {}
    lost: list[Loss] = []
    for raw in no_proxy.split(","):
        item = raw.strip()
        if item:
            patterns, loss = _translate_item(item.lower(), language)
            written.update(dict.fromkeys(patterns))
            if loss:
                lost.append(Loss(item, loss))
    return Translation(_SEPARATOR[language].join(written), tuple(lost))


def _translate_item(item: str, language: Language) -> tuple[list[str], str]:
    if item == "*":
        return ["*"], ""
    if any(sign in item for sign in ";|<>\"' \t\r\n") or not item.isascii():
        return [], "clients disagree on this item"
    network = parse_network(item, Cidr())
    if network is not None:
        return _translate_network(item, network, language)
    host, port = split_port(item)
    if port and language != "chromium":
        return [], f"{language} has no ports"
    suffix = f":{port}" if port else ""
    address = parse_address(host.strip("[]"))
    if address is not None:
        if address[0] == 4:
            return [f"{format_address(address)}{suffix}"], ""
        # an IPv4-mapped address has two spellings, and these readers compare text
        spellings = dict.fromkeys((format_address(address), format_address(address, dotted_mapping=True)))
        return [f"[{text}]{suffix}" for text in spellings], ""
    if "/" in host or ":" in host:
        return [], "it is neither a name, an address nor a network"
    name = host[1:] if host.startswith("*.") else host
    if "*" in name or "?" in name:
        return [], "it has a wildcard that NO_PROXY does not have"
    if name.startswith("."):
        return [f"*{name}{suffix}"], ""
    return [f"{name}{suffix}", f"*.{name}{suffix}"], ""


def split_port(item: str) -> tuple[str, str]:
    """Split an item into host and port; the port is empty if the item has none."""
    host, colon, port = item.rpartition(":")
    if colon and port.isdecimal() and (host.endswith("]") or ":" not in host):
        return host, port
    return item, ""


def _translate_network(item: str, network: Network, language: Language) -> tuple[list[str], str]:
    family, value, bits = network
    if language == "chromium":
        return [item], ""
    if family == 6:
        if bits == 128:
            return [f"[{format_address((6, value))}]"], ""
        return [], f"{language} has no IPv6 networks"
    # A "/" in ProxyOverride sends every request direct, so a network becomes the patterns that make it up.
    step = -(-bits // 8) * 8
    count = 1 << (step - bits)
    if bits == 0:
        return [], f"{language} has no networks, and * would cover names too"
    if count > _MAX_PATTERNS:
        return [], f"{language} has no networks, and this one would take {count} patterns"
    base = value >> (32 - bits) << (32 - bits)
    patterns: list[str] = []
    for index in range(count):
        numbers = format_address((4, base + (index << (32 - step)))).split(".")[: step // 8]
        patterns.append(".".join(numbers) if step == 32 else ".".join([*numbers, "*"]))
    return patterns, ""
