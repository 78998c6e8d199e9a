"""A URL, and the host of it as one client's URL parser hands it over."""

import enum
import re
from functools import lru_cache

import msgspec

from transom.proxy.clients.addresses import (
    Address,
    format_address,
    parse_decimal,
    parse_ipv6,
    parse_loose,
    parse_quad,
    without_ipv4_mapping,
    without_zone,
)

DEFAULT_PORTS = {"http": 80, "https": 443}
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#\\]*)")
_HOST_WITH_PORT = re.compile(r"(\[[^\[\]]*\]|[^\[\]:]*)(?::([0-9]*))?")
_ENDS_IN_NUMBER = re.compile(r"(?:^|\.)(?:[0-9]+|0[xX][0-9a-fA-F]*)\.?$")
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f<>^|%`{}\"]")


class Url(msgspec.Struct, frozen=True, cache_hash=True):
    """The parts of an http or https URL that decide about a proxy, as written. `port` is `None` when not written."""

    scheme: str
    userinfo: str
    host: str
    port: int | None

    @property
    def effective_port(self) -> int:
        """The port that is connected to."""
        return DEFAULT_PORTS[self.scheme] if self.port is None else self.port

    @property
    def bare_host(self) -> str:
        """The host without the brackets of an IPv6 address."""
        return self.host[1:-1] if self.host.startswith("[") else self.host


@lru_cache(maxsize=4096)
def parse_url(text: str) -> Url:
    """Read an absolute http or https URL. Raises `ValueError` that says what is wrong with it."""
    match = _URL.match(text)
    if match is None:
        raise ValueError(f"{text!r} is not a valid URL; use http://HOST/ or https://HOST/")
    scheme = match[1].lower()
    if scheme not in DEFAULT_PORTS:
        raise ValueError(f"{text!r}: scheme {scheme!r} is neither http nor https")
    userinfo, _, authority = match[2].rpartition("@")
    parts = _HOST_WITH_PORT.fullmatch(authority)
    if parts is None or not parts[1]:
        raise ValueError(f"{text!r} has no valid host; an IPv6 address goes into brackets")
    host, port_text = parts[1], parts[2]
    if host.startswith("["):
        if parse_ipv6(without_zone(host[1:-1])) is None:
            raise ValueError(f"{text!r}: {host!r} is not a valid IPv6 address")
    elif _FORBIDDEN.search(host):
        raise ValueError(f"{text!r}: host {host!r} holds a character that no host has")
    port = int(port_text) if port_text and len(port_text) < 9 else None if not port_text else 1 << 16
    if port is not None and port > 65535:
        raise ValueError(f"{text!r}: port {port_text} is above 65535")
    return Url(scheme, userinfo, host, port)


class Ipv4Hosts(enum.Enum):
    """What a URL parser does with a host that is a number in another spelling (`167838211`, `0xa010203`, `012.1.2.3`)."""

    TEXT = "left as written"
    CANONICAL = "written as four decimal numbers"
    WHATWG = "written as four decimal numbers; a name that ends in a number is refused"
    CANONICAL_UNDOTTED = "written as four decimal numbers, unless a dot follows"
    CHECKED = "left as written; four numbers that are not an address are refused"
    SEEN = "left as written, but known to be an address"
    SEEN_DECIMAL = "left as written, but known to be an address if decimal"


class Ipv6Hosts(enum.Enum):
    """How a URL parser writes an IPv6 host."""

    TEXT = "left as written"
    COMPRESSED = "shortest spelling, mapped IPv4 with dots"
    HEX = "shortest spelling, mapped IPv4 in hex"


class Idn(enum.Enum):
    """How a URL parser handles a name that is not ASCII."""

    TEXT = "left as written"
    ASCII = "converted to xn--…"
    UNICODE = "kept, and every xn--… label converted to Unicode"
    UNICODE_IF_FIRST = "kept; converted to Unicode if the first label is xn--…"
    FAILS = "refused"


class TrailingDots(enum.Enum):
    """How many dots at the end of a name are dropped before comparing."""

    KEPT = "kept"
    ONE = "one dropped"
    ALL = "all dropped"


class HostReading(msgspec.Struct, frozen=True, cache_hash=True):
    """How a client's URL parser hands over the host."""

    ipv4: Ipv4Hosts = Ipv4Hosts.TEXT
    ipv6: Ipv6Hosts = Ipv6Hosts.TEXT
    idn: Idn = Idn.TEXT
    brackets: bool = False
    """IPv6 keeps its brackets."""
    trailing_dots: TrailingDots = TrailingDots.KEPT
    lower: bool = True
    lower_ipv6: bool = True
    userinfo: bool = False
    """`user:password@` stays before the host."""
    unmapped: bool = False
    """IPv4-mapped IPv6 addresses become IPv4 addresses."""
    zones: bool = False
    """The zone of an IPv6 address stays behind it."""


class UrlSubject(msgspec.Struct, frozen=True):
    """The destination as a client compares it with the items of its list."""

    scheme: str
    text: str
    """The host, in the client's spelling."""
    address: Address | None
    """The host as an address, when the client sees one in it."""
    port: int
    """The port that is connected to."""
    written_port: int | None
    written: str
    """The host as written."""


class UnreadableHostError(ValueError):
    """The client refuses this host."""


@lru_cache(maxsize=16384)
def read_host(url: Url, reading: HostReading) -> UrlSubject:
    """Read the host of `url` as a client does. Raises `UnreadableHostError` when that client refuses it."""
    text = url.bare_host
    address: Address | None
    if url.host.startswith("["):
        if "%" in text and reading.ipv6 is Ipv6Hosts.HEX:
            raise UnreadableHostError(f"it refuses the zone in {url.host}")
        address = parse_ipv6(without_zone(text))
        if reading.unmapped and address is not None:
            address = without_ipv4_mapping(address)
        if reading.zones:
            text = text.replace("%25", "%")
        if address is not None and address[0] == 4:
            text = format_address(address)
        else:
            if address is not None and reading.ipv6 is not Ipv6Hosts.TEXT:
                zone = text.partition("%")[2]
                text = format_address(address, dotted_mapping=reading.ipv6 is Ipv6Hosts.COMPRESSED)
                text = f"{text}%{zone}" if zone and reading.zones else text
            text = f"[{text}]" if reading.brackets else text
    else:
        text = to_idn(text, reading.idn)
        text = drop_dots(text, reading.trailing_dots)
        address = parse_quad(text)
        if address is None and reading.ipv4 in (Ipv4Hosts.CANONICAL, Ipv4Hosts.WHATWG, Ipv4Hosts.CANONICAL_UNDOTTED):
            ended = text.endswith(".") and reading.ipv4 is not Ipv4Hosts.CANONICAL_UNDOTTED
            address = parse_loose(text[:-1] if ended else text)
            if address is not None:
                text = format_address(address)
            elif reading.ipv4 is Ipv4Hosts.WHATWG and _ENDS_IN_NUMBER.search(text):
                raise UnreadableHostError(f"it refuses {text}, which ends in a number and is not a valid IPv4 address")
        elif address is None and reading.ipv4 is Ipv4Hosts.CHECKED and re.fullmatch(r"[0-9]+(\.[0-9]+){3}", text):
            raise UnreadableHostError(f"it refuses {text}, which is not a valid IPv4 address")
        elif address is None and reading.ipv4 is Ipv4Hosts.SEEN:
            address = parse_loose(text)
        elif address is None and reading.ipv4 is Ipv4Hosts.SEEN_DECIMAL:
            address = parse_decimal(text)
    if reading.lower_ipv6 if url.host.startswith("[") else reading.lower:
        text = text.lower()
    if reading.userinfo and url.userinfo:
        text = f"{url.userinfo}@{text}"
        address = None
    return UrlSubject(url.scheme, text, address, url.effective_port, url.port, url.bare_host)


def drop_dots(text: str, dots: TrailingDots) -> str:
    """Drop the dots at the end of a name."""
    if not text.endswith(".") or dots is TrailingDots.KEPT:
        return text
    return text[:-1] if dots is TrailingDots.ONE else text.rstrip(".")


def to_idn(text: str, idn: Idn) -> str:
    """Write a name in ASCII or in Unicode (UTS 46). Raises `UnreadableHostError` when it cannot be."""
    lowered = text.lower()
    if idn is Idn.TEXT:
        return text
    if idn is Idn.UNICODE:
        if "xn--" not in lowered:
            return text
    elif idn is Idn.UNICODE_IF_FIRST:
        if not lowered.startswith("xn--"):
            return text
    elif text.isascii():
        return text
    if idn is Idn.FAILS:
        raise UnreadableHostError(f"it refuses {text!r}, which is not ASCII")
    import idna

    def convert(label: str) -> str:
        if idn is Idn.ASCII:
            return label if label.isascii() else idna.encode(label, uts46=True).decode()
        return idna.decode(label) if label.startswith("xn--") else label

    try:
        return ".".join(convert(label) for label in lowered.split("."))
    except UnicodeError as error:
        raise UnreadableHostError(f"{text!r} is not a valid internationalized name: {error}") from error
