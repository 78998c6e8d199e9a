"""Proxy URLs as Go reads them, since kubelet, containerd and most of what runs in a cluster are Go.

`parse` is `net/url.ParseRequestURI` of Go 1.26 with what a proxy URL needs of it. It works on the bytes of UTF-8, as Go does.
"""

import ipaddress
import re
from typing import Any, Final

import msgspec

from transom.proxy.secret import REDACTED, Secret

USERINFO: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._:~!$&'()*+,;=%@")
"""Bytes that net/url takes in userinfo (validUserinfo)."""
_UNRESERVED: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
# net/url, encoding_table.go: what a host may hold as it is
_HOST: Final = _UNRESERVED | frozenset(b"!$&'()*+,;=:[]<>\"")
_HEX: Final = frozenset(b"0123456789abcdefABCDEF")
_SCHEME = re.compile(rb"([A-Za-z][A-Za-z0-9+.-]*):", re.ASCII)


class InvalidURL(ValueError):
    """A URL that Go refuses. The text names the rule; of the URL it shows nothing."""


class URL(msgspec.Struct, frozen=True):
    """A URL taken apart. User name and password are decoded (bytes that are not UTF-8 as surrogates, PEP 383)."""

    scheme: str
    host: str
    """Without brackets."""
    port: str
    """The text after the last colon; empty: none."""
    username: Secret | None
    password: Secret | None
    rest: str
    """Path and query as written; the opaque part of a URL without `//`."""
    absolute: bool
    """Whether it has an authority (`//`)."""

    def __repr__(self) -> str:
        return f"URL({self.redacted})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("url", self.redacted)]

    @property
    def redacted(self) -> str:
        """Return scheme, host and port, with `***@` for the userinfo and without path and query.

        An `@` after the authority may mean that Go parsed a part of the userinfo as the host: then the host is left out,
        too.
        """
        if "@" in self.rest:
            return f"{self.scheme}://{REDACTED}"
        user = f"{REDACTED}@" if self.username is not None else ""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{user}{host}{':' + self.port if self.port else ''}"


def parse(text: str) -> URL:
    """Take a URL apart as `ParseRequestURI` does; InvalidURL where that returns an error."""
    raw = text.encode("utf-8", "surrogatepass")
    if any(byte < 0x20 or byte == 0x7F for byte in raw):
        raise InvalidURL("it contains a control character")
    if not raw:
        raise InvalidURL("it is empty")
    if raw == b"*":
        return URL("", "", "", None, None, "*", False)
    if raw[:1] == b":":
        raise InvalidURL("it has no scheme: write http://HOST:PORT")
    match = _SCHEME.match(raw)
    scheme = match[1].decode().lower() if match else ""
    rest = raw[match.end() :] if match else raw
    rest, question, query = rest.partition(b"?")
    if not rest.startswith(b"/"):
        if scheme:
            return URL(scheme, "", "", None, None, _decode_text(rest + question + query), False)
        raise InvalidURL("it is not absolute: write http://HOST:PORT")
    username = password = None
    host = b""
    absolute = bool(scheme) and rest.startswith(b"//")
    if absolute:
        authority, slash, path = rest[2:].partition(b"/")
        rest = slash + path
        userinfo, at, host = authority.rpartition(b"@")
        host = _parse_host(scheme, host)
        if at:
            username, password = _parse_userinfo(userinfo)
    _decode_escapes(rest, "path")
    name, port = _split_port(host)
    return URL(
        scheme, _decode_text(name), _decode_text(port), username, password, _decode_text(rest + question + query), absolute
    )


def redact_text(text: str) -> str:
    """Redact a string that may be a URL: `***@` for userinfo; `***` if it cannot be separated."""
    if "@" not in text:
        return text
    try:
        url = parse(text)
    except InvalidURL:
        return REDACTED
    part = find_userinfo(text)
    plain = url.absolute and part is not None and find_illegal_character(text[slice(*part)]) is None
    return url.redacted if plain else REDACTED


def find_userinfo(text: str) -> tuple[int, int] | None:
    """Return the intended userinfo of a proxy URL: from after `//` to before the last `@`; None without an `@`.

    The whole string up to the last `@` is what the writer meant. Go ends the authority at the first `/`, `?` or (in
    `url.Parse`) `#`: with one of these in a password it parses a part of the user name as the host.
    """
    slashes = text.find("//")
    start = slashes + 2 if slashes >= 0 else text.find(":") + 1
    end = text.rfind("@")
    return (start, end) if end >= start else None


def find_illegal_character(userinfo: str) -> str | None:
    """Return the first invalid character in userinfo, `%` for an invalid escape, or None."""
    for at, character in enumerate(userinfo):
        if character == "%":
            if not re.match(r"%[0-9A-Fa-f]{2}", userinfo[at : at + 3]):
                return "%"
        elif not character.isascii() or ord(character) not in USERINFO:
            return character
    return None


def escape(text: str) -> str:
    """Percent-encode everything but RFC 3986's unreserved characters, as UTF-8."""
    return "".join(chr(b) if b in _UNRESERVED else f"%{b:02X}" for b in text.encode("utf-8"))


def with_userinfo(text: str, username: str, password: str) -> str:
    """Return a URL with the percent-encoded credentials added."""
    scheme, slashes, rest = text.partition("//")
    return f"{scheme}{slashes}{escape(username)}:{escape(password)}@{rest}"


def _decode_text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _parse_userinfo(raw: bytes) -> tuple[Secret, Secret | None]:
    if not USERINFO.issuperset(raw):
        raise InvalidURL("its user name or password has a character that must be percent-encoded")
    username, colon, password = raw.partition(b":")
    decoded = Secret(_decode_text(_decode_escapes(password, "userinfo"))) if colon else None
    return Secret(_decode_text(_decode_escapes(username, "userinfo"))), decoded


def _parse_host(scheme: str, raw: bytes) -> bytes:
    bracket = raw.rfind(b"[")
    if bracket > 0:
        raise InvalidURL("a `[` stands within its host")
    if bracket == 0:
        return _parse_ip_literal(raw)
    colon = raw.find(b":")
    if colon >= 0:
        last = raw.rfind(b":")
        if last != colon and scheme not in ("http", "https"):
            colon = last
        if not _is_valid_port(raw[colon:]):
            raise InvalidURL("its port is not valid; write an IPv6 address in brackets")
    return _decode_escapes(raw, "host")


def _parse_ip_literal(raw: bytes) -> bytes:
    close = raw.rfind(b"]")
    if close < 0:
        raise InvalidURL("the `]` of its host is missing")
    if not _is_valid_port(raw[close + 1 :]):
        raise InvalidURL("its port is not valid")
    inside = raw[1:close]
    zone = inside.find(b"%25")
    name = (
        _decode_escapes(inside, "host")
        if zone < 0
        else _decode_escapes(inside[:zone], "host") + _decode_escapes(inside[zone:], "zone")
    )
    if not _is_ipv6(name):
        raise InvalidURL("its host in brackets is not an IPv6 address")
    return b"[" + name + b"]" + raw[close + 1 :]


def _is_ipv6(raw: bytes) -> bool:
    address, percent, zone = raw.partition(b"%")
    if percent and not zone:
        return False
    try:
        ipaddress.IPv6Address(address.decode("ascii"))
    except ValueError:
        return False
    return True


def _is_valid_port(raw: bytes) -> bool:
    return not raw or (raw[:1] == b":" and all(0x30 <= byte <= 0x39 for byte in raw[1:]))


def _split_port(host: bytes) -> tuple[bytes, bytes]:
    colon = host.rfind(b":")
    port = b""
    if colon >= 0 and _is_valid_port(host[colon:]):
        host, port = host[:colon], host[colon + 1 :]
    if host[:1] == b"[" and host[-1:] == b"]":
        host = host[1:-1]
    return host, port


def _decode_escapes(raw: bytes, mode: str) -> bytes:
    in_host = mode in ("host", "zone")
    decoded = bytearray()
    at = 0
    while at < len(raw):
        byte = raw[at]
        if byte == 0x25:
            digits = raw[at + 1 : at + 3]
            if len(digits) < 2 or not _HEX.issuperset(digits):
                raise InvalidURL("it has a `%` that is not followed by two hex digits")
            value = int(digits, 16)
            # RFC 6874: %25 begins a zone
            if mode == "host" and value < 0x80 and digits != b"25":
                raise InvalidURL("its host has an invalid escape")
            if mode == "zone" and digits != b"25" and value != 0x20 and value not in _HOST:
                raise InvalidURL("the zone of its host has an invalid escape")
            decoded.append(value)
            at += 3
            continue
        if in_host and byte < 0x80 and byte not in _HOST:
            raise InvalidURL("its host has an invalid character")
        decoded.append(byte)
        at += 1
    return bytes(decoded)
