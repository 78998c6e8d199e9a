"""What a client does with one URL: the decision, the item that decides and the reason, from one evaluation."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

import msgspec

from transom.proxy.clients.addresses import (
    Address,
    Network,
    contains_address,
    format_address,
    parse_loose,
    parse_quad,
    with_ipv4_mapping,
    without_ipv4_mapping,
)
from transom.proxy.clients.environment import PROXY, ClientSettings, read_environment
from transom.proxy.clients.items import ItemList, is_loopback, parse_item_list
from transom.proxy.clients.patterns import Item, parse_network
from transom.proxy.clients.profile import Cidr, ClientProfile, Covers, Implicit, Items, Local, Ports, ProfilePass, Source
from transom.proxy.clients.urls import DEFAULT_PORTS, UnreadableHostError, Url, UrlSubject, parse_url, read_host


class Decision(msgspec.Struct, frozen=True):
    """`bypass`: true for direct, false for through the proxy, `None` when the client fails on these settings."""

    client: str
    url: str
    bypass: bool | None
    item: str | None
    """The item that decides; `None` when no item does."""
    reason: str


def decide(
    client: ClientProfile,
    url: str,
    no_proxy: str | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    resolves: Mapping[str, str] | None = None,
) -> Decision:
    """Return what `client` does with `url` when NO_PROXY is `no_proxy` (`None`: not set).

    Without `environment`, http_proxy and https_proxy are set, and no_proxy if given, each in both cases. With it, it is the
    whole environment. `resolves` maps the names that resolve to their addresses; only clients that resolve names before
    they decide use it.

    Raises `ValueError` if `url` is not an http or https URL.
    """
    target = parse_url(url)
    settings = _read_settings(client, target.scheme, no_proxy, environment)
    if settings.fails is not None:
        return Decision(client.name, url, None, None, f"fails: {settings.fails}")
    if settings.proxy is None:
        return Decision(client.name, url, True, None, _explain_no_proxy(client, target.scheme))
    bypass, item, reason = _evaluate_list(client, target, settings.no_proxy, resolves or {})
    if bypass is False and settings.fails_when_used is not None:
        return Decision(client.name, url, None, None, f"fails: {settings.fails_when_used}")
    return Decision(client.name, url, bypass, item, reason)


def _read_settings(
    client: ClientProfile, scheme: str, no_proxy: str | None, environment: Mapping[str, str] | None
) -> ClientSettings:
    if client.source is Source.OPTION:
        return ClientSettings("its own option", no_proxy if client.language != "NO_PROXY" else None)
    if environment is not None:
        return read_environment(client, environment, scheme)
    # whether there is a list, and one that is empty, is all that matters here
    settings = _build_default_settings(client, scheme, no_proxy and _SOME)
    return (
        ClientSettings(settings.proxy, no_proxy, settings.fails, settings.fails_when_used)
        if settings.no_proxy is _SOME
        else settings
    )


_SOME: Final = "a list"


@lru_cache(maxsize=1024)
def _build_default_settings(client: ClientProfile, scheme: str, no_proxy: str | None) -> ClientSettings:
    environment = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), PROXY)
    if no_proxy is not None:
        environment |= {"no_proxy": no_proxy, "NO_PROXY": no_proxy}
    return read_environment(client, environment, scheme)


def _explain_no_proxy(client: ClientProfile, scheme: str) -> str:
    if client.source is Source.NOWHERE:
        return "it takes no proxy from the environment"
    return f"it finds no proxy for {scheme} in the environment"


_Result = tuple[bool | None, str | None, str]


def _evaluate_list(client: ClientProfile, url: Url, value: str | None, resolves: Mapping[str, str]) -> _Result:
    if client.slash_is_everything and value and "/" in value:
        slashed = next((text for text in value.replace(" ", ";").split(";") if "/" in text), value)
        return True, slashed, "a / anywhere in the list sends every request direct"
    if client.default_items and value != "":
        value = f"{value}|{client.default_items}" if value else client.default_items
    subjects: list[tuple[ProfilePass, UrlSubject, ItemList]] = []
    try:
        for walk in client.passes:
            subject = read_host(url, walk.host)
            if client.resolves and subject.address is None:
                subject = msgspec.structs.replace(subject, address=_resolve_name(subject.text, resolves))
            subjects.append((walk, subject, parse_item_list(walk, value or "")))
    except UnreadableHostError as error:
        return None, None, f"fails: {error}"
    for walk, _, items in subjects:
        if items.everything is None and items.fails is not None:
            return None, items.fails[0], f"fails: {items.fails[1]}"
        if walk.items in (Items.CHROMIUM, Items.OVERRIDES):
            return _evaluate_rules(client, subjects[0])
    if subjects:
        implicit = _find_implicit_reason(client, subjects[0][1])
        if implicit:
            return True, None, implicit
    for walk, subject, items in subjects:
        if items.everything is not None and not items.items:
            return True, items.everything, "* covers every host"
        for item in items.items:
            if item.fails is not None:
                return None, item.text, f"fails: {item.fails}"
            reason = match_item(item, walk, subject, url)
            if reason is not None:
                return True, item.text, reason
    return False, None, "no item covers it" if value else "the list is empty" if value == "" else "no list is set"


def _evaluate_rules(client: ClientProfile, subject_and_items: tuple[ProfilePass, UrlSubject, ItemList]) -> _Result:
    """Chromium's rules (the last that applies wins) and WinINet's (`<-loopback>` counts wherever it stands)."""
    walk, subject, items = subject_and_items
    last_wins = walk.items is Items.CHROMIUM
    implicit = _find_implicit_reason(client, subject)
    removed = next((item for item in items.items if item.keyword == "<-loopback>"), None)
    for item in reversed(items.items) if last_wins else items.items:
        if item.keyword == "<-loopback>":
            if last_wins and implicit:
                return False, item.text, "<-loopback> takes the implicit bypass away"
            continue
        reason = match_item(item, walk, subject, None)
        if reason is not None:
            return True, item.text, reason
    if implicit and removed is not None and any(item.removable and _is_implicit(item, subject) for item in client.implicit):
        kept = any(not item.removable and _is_implicit(item, subject) for item in client.implicit)
        if not kept:
            return False, removed.text, "<-loopback> takes the implicit bypass away"
    if implicit:
        return True, None, implicit
    return False, None, "no item covers it"


def _resolve_name(name: str, resolves: Mapping[str, str]) -> Address | None:
    text = resolves.get(name) or {"localhost": "127.0.0.1"}.get(name.lower())
    return (parse_quad(text) or parse_loose(text)) if text else None


def _find_implicit_reason(client: ClientProfile, subject: UrlSubject) -> str:
    for implicit in client.implicit:
        if _is_implicit(implicit, subject):
            shown = format_address(subject.address) if subject.address is not None else subject.text
            return f"{shown} bypasses without an item"
    return ""


@lru_cache(maxsize=128)
def _parse_network(text: str) -> Network:
    network = parse_network(text, Cidr())
    if network is None:
        raise ValueError(f"{text} is not a valid network")
    return network


def _is_implicit(implicit: Implicit, subject: UrlSubject) -> bool:
    if implicit.prefixes and subject.text.startswith(implicit.prefixes):
        return True
    if subject.address is not None:
        address = subject.address
        return any(contains_address(_parse_network(text), address) for text in implicit.networks)
    name = subject.text.lower() if implicit.lower else subject.written
    return name in implicit.names or any(name.endswith("." + parent) for parent in implicit.below)


_URLS: Final = (Items.HTTPX_URLS, Items.HTTPX2_URLS)


def match_item(item: Item, profile_pass: ProfilePass, subject: UrlSubject, url: Url | None) -> str | None:
    """Compare one item with a destination; the reason when the item covers it, else `None`."""
    if item.scheme is not None and item.scheme != subject.scheme:
        return None
    if item.port is not None and item.port != _get_comparable_port(subject, profile_pass):
        return None
    if item.keyword is not None:
        return _match_keyword(item.keyword, subject, profile_pass)
    if item.everything:
        return None if item.names_only and subject.address is not None else f"{item.text or 'an empty item'} covers every host"
    address = subject.address
    if address is not None:
        if profile_pass.addresses.mapped:
            address = without_ipv4_mapping(address)
        reason = _match_address(item, profile_pass, address)
        if reason is not None:
            return reason
        if subject.address is not None and subject.address[0] not in profile_pass.addresses.as_names:
            return f"it is the item {item.text}" if item.whole and item.whole == subject.text else None
    elif item.loopback and is_loopback(subject.text, None):
        return f"{item.text} and {subject.text} are both this machine"
    return _match_text(item, profile_pass, subject, url)


def _get_comparable_port(subject: UrlSubject, profile_pass: ProfilePass) -> int | None:
    if profile_pass.items not in _URLS:
        return subject.port
    return None if subject.written_port == DEFAULT_PORTS[subject.scheme] else subject.written_port


def _match_keyword(keyword: str, subject: UrlSubject, profile_pass: ProfilePass) -> str | None:
    if keyword != "<local>":
        return None
    address = subject.address
    if address is None or profile_pass.local is Local.UNDOTTED:
        return f"<local> covers {profile_pass.local.value}" if "." not in subject.text else None
    if profile_pass.local is Local.NAMES_AND_LOOPBACK and is_loopback("", address) and address[1] not in (0, 1 << 128):
        return f"<local> covers {profile_pass.local.value}"
    return None


def _match_address(item: Item, profile_pass: ProfilePass, address: Address) -> str | None:
    if item.network is not None:
        network, compared = item.network, address
        if profile_pass.addresses.mapped_networks and network[0] != address[0]:
            network, compared = with_ipv4_mapping(network, address)
        return f"{format_address(address)} is in {item.text}" if contains_address(network, compared) else None
    if item.bounds is not None and address[0] == 4:
        first, last = item.bounds
        return f"{format_address(address)} is in {item.text}" if first <= address[1] <= last else None
    if item.value is not None and item.value == address:
        return f"{format_address(address)} is the item {item.text}"
    if item.loopback and is_loopback("", address):
        return f"{item.text} and {format_address(address)} are both this machine"
    return None


def _match_text(item: Item, profile_pass: ProfilePass, subject: UrlSubject, url: Url | None) -> str | None:
    if item.network is not None or item.bounds is not None or not (item.covers is Covers.SUFFIX or item.whole):
        return None
    reason = _match_name(item, subject.text)
    if reason is not None:
        return reason
    ports = profile_pass.ports
    if ports is Ports.NOT_READ:
        return None
    if ports is Ports.TEXT and subject.written_port is not None:
        return _match_name(item, f"{subject.text}:{subject.written_port}")
    if ports is Ports.TEXT_DEFAULT and item.whole == f"{subject.text}:{subject.port}":
        return f"{subject.text}:{subject.port} is the item {item.text}"
    if ports is Ports.TEXT_DEFAULT_TREE:
        return _match_name(item, f"{subject.text}:{subject.port}")
    if ports in (Ports.ORIGIN, Ports.ORIGIN_OR_URL):
        return _match_origin(item, subject, ports)
    if ports is Ports.NETLOC and url is not None:
        return _match_name(item, format_authority(url))
    return None


def _match_origin(item: Item, subject: UrlSubject, ports: Ports) -> str | None:
    """Compare an item with the origin of the URL, and with a URL that is nothing more, as `URL` of JavaScript writes them."""
    port = "" if subject.port == DEFAULT_PORTS[subject.scheme] else f":{subject.port}"
    origin = f"{subject.scheme}://{subject.text}{port}"
    if item.whole == origin or (ports is Ports.ORIGIN_OR_URL and item.whole == f"{origin}/"):
        return f"{item.whole} is the item {item.text}"
    return None


def format_authority(url: Url) -> str:
    """Return the authority of a URL as written, in lower case (`user@host:8080`, `[::1]`)."""
    text = f"{url.userinfo}@{url.host}" if url.userinfo else url.host
    return (text if url.port is None else f"{text}:{url.port}").lower()


def _match_name(item: Item, text: str) -> str | None:
    core = item.core
    if item.glob is not None:
        return f"{text} matches {item.text}" if item.glob.match(text) else None
    if text == core:
        if item.covers in (Covers.NAME, Covers.TREE, Covers.SUFFIX):
            return f"{text} is the item {item.text}"
        return None
    if item.covers is Covers.SUFFIX:
        return f"{text} ends with {core}" if text.endswith(core) else None
    if item.covers in (Covers.TREE, Covers.BELOW) and text.endswith("." + core):
        return f"{text} is below {core or 'the root'}"
    return None
