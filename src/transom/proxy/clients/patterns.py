"""One item as a value, and the items that are more than hosts: networks, globs, httpx's URLs, Chromium's rules."""

import re

import msgspec

from transom.proxy.clients.addresses import (
    Address,
    Network,
    count_mask_bits,
    parse_decimal,
    parse_ipv6,
    parse_loose,
    parse_quad,
    without_ipv4_mapping,
    without_zone,
)
from transom.proxy.clients.profile import Bits, Cidr, Covers, Glob, ProfilePass


class AnyDotPattern(msgspec.Struct, frozen=True):
    """The regular expression of a plain name: a dot matches any character. Compiling thousands of them takes seconds."""

    text: str

    def match(self, host: str) -> bool:
        """Return True if the host is the name, a dot of it being any character."""
        return len(host) == len(self.text) and all(item in (".", two) for item, two in zip(self.text, host, strict=True))


class Item(msgspec.Struct, frozen=True):
    """One item, ready to be compared."""

    text: str
    """As written, trimmed."""
    everything: bool = False
    names_only: bool = False
    whole: str = ""
    """The host part, for comparing with an address as text."""
    core: str = ""
    """The host part without dots and stars in front."""
    covers: Covers = Covers.NOTHING
    port: int | None = None
    scheme: str | None = None
    network: Network | None = None
    value: Address | None = None
    bounds: tuple[int, int] | None = None
    """The first and the last address of an IPv4 range."""
    glob: re.Pattern[str] | AnyDotPattern | None = None
    keyword: str | None = None
    """`<local>` or `<-loopback>`."""
    loopback: bool = False
    fails: str | None = None
    """Why the client fails on this item."""


def parse_port(digits: str | None) -> int | None:
    """Parse a port; -1, which no URL has, for a number that is too long, `None` if it is not a number."""
    if not digits or not digits.isdecimal() or not digits.isascii():
        return None
    return int(digits) if len(digits) < 9 else -1


def compile_glob(text: str, glob: Glob) -> re.Pattern[str] | None:
    """Compile an item with wildcards to a regular expression; `None` if it has none that the client reads."""
    if glob is Glob.NONE or not any(sign in text for sign in "*?["):
        return None
    if glob is Glob.FNMATCH:
        import fnmatch

        return re.compile(fnmatch.translate(text))
    if glob is Glob.ENDS:
        inner = text[text.startswith("*") : len(text) - (len(text) > 1 and text.endswith("*"))]
        return re.compile(
            f"{'.*' if text.startswith('*') else ''}{re.escape(inner)}{'.*' if text.endswith('*') else ''}\\Z", re.DOTALL
        )
    pieces = {"*": ".*", "?": "." if glob is Glob.STAR_AND_QUESTION else re.escape("?")}
    return re.compile("".join(pieces.get(sign) or re.escape(sign) for sign in re.sub(r"\*+", "*", text)) + r"\Z", re.DOTALL)


def parse_httpx_item(text: str) -> Item:
    """Read an item as httpx does: it becomes the pattern `all://*ITEM` (httpx/_utils.py, get_environment_proxies)."""
    scheme, rest, bare = None, text, True
    base = text.split("/", maxsplit=1)[0]
    if "://" in text:
        scheme, _, rest = text.partition("://")
        bare = False
    elif parse_quad(base) is not None or text.lower() == "localhost":
        bare = False
    elif parse_ipv6(without_zone(base)) is not None:
        if "/" in text:
            return Item(text, fails="httpx takes it for a URL with a broken IPv6 address")
        if "%" in base:
            return Item(text)
        return Item(text, whole=text, core=text, covers=Covers.NAME)
    if any(not sign.isprintable() for sign in text):
        return Item(text, fails="httpx refuses characters that cannot be printed")
    named = None if scheme == "all" else scheme
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    _, at, hostport = authority.rpartition("@")
    bare = bare and not at
    match = re.fullmatch(r"(\[[^\]]*\]|[^:\[\]]*)(?::([0-9]*))?", hostport)
    if match is None or match[1].startswith("[") or not match[1].isascii():
        if match is not None and not bare and parse_ipv6(match[1][1:-1]) is not None:
            inner = match[1][1:-1]
            return Item(text, whole=inner, core=inner, covers=Covers.NAME, port=parse_port(match[2]), scheme=named)
        return Item(text, fails="httpx takes it for an invalid URL")
    host = match[1].lower()
    port = parse_port(match[2])
    if port is not None and port < 0:
        return Item(text, fails="httpx takes it for an invalid URL")
    if scheme is not None and port == {"http": 80, "https": 443}.get(scheme):
        port = None
    if bare and not host:
        return Item(text, everything=port is not None, port=port)
    covers = Covers.TREE if bare else Covers.NAME
    if bare and host.startswith("."):
        host, covers = host[1:], Covers.BELOW
    return Item(text, whole=text, core=host, covers=covers, port=port, scheme=named)


_PLAIN_HOST = re.compile(r"[a-z0-9-]+(?:\.[a-z0-9-]+)*", re.IGNORECASE)


def parse_httpx2_item(text: str) -> Item:
    """Read an item as httpx2 does (httpx2/_utils.py, get_environment_proxies): what httpx fails on is ignored."""
    base, slash, length = text.partition("/")
    bracketed = base.startswith("[") and base.endswith("]")
    address = base[1:-1] if bracketed else base
    if slash and "://" not in text:
        network = None if bracketed and ":" not in address else parse_network(f"{address}/{length}", Cidr())
        return Item(text) if network is None else Item(text, network=network)
    if bracketed:
        return Item(text, whole=address, core=address, covers=Covers.NAME) if parse_ipv6(address) is not None else Item(text)
    if text.startswith("["):
        return _without_failure(parse_httpx_item(f"all://{text}"), text)
    item = _without_failure(parse_httpx_item(f".{text[2:]}" if text.startswith("*.") else text), text)
    starred = item.covers in (Covers.TREE, Covers.BELOW)
    if "xn--" in item.core and (starred or _PLAIN_HOST.fullmatch(item.core) is None):
        return Item(text, fails="httpx2 cannot decode xn-- behind the * that it sets in front")
    return item


def _without_failure(item: Item, text: str) -> Item:
    return Item(text) if item.fails is not None else msgspec.structs.replace(item, text=text)


_FABRIC8_REFUSES = re.compile(r"[^0-9A-Za-z.\-/:]")
_FABRIC8_ADDRESS = re.compile(
    r"(?:https?://)?((?:[0-9]{1,3}(?:.[0-9]{1,3}){3})|(?:[a-f0-9]{1,4}(?::[a-f0-9]{0,4}){2,7}))(?:/([0-9]+))?", re.IGNORECASE
)


def parse_fabric8_item(text: str) -> Item:
    """Read an item as fabric8 does (HttpClientUtils.isHostMatchedByNoProxy, IpAddressMatcher)."""
    if _FABRIC8_REFUSES.search(text):
        return Item(text, fails="it takes letters, digits and .-/: alone in an item")
    match = _FABRIC8_ADDRESS.fullmatch(text)
    if match is None:
        return Item(text, whole=text, core=text, covers=Covers.SUFFIX)
    address = parse_decimal(match[1]) or parse_ipv6(match[1])
    if address is None:
        return Item(text)
    family, value = without_ipv4_mapping(address)
    if match[2] is None:
        return Item(text, value=(family, value))
    if len(match[2]) > 9:
        return Item(text, fails="it takes no such long number after the slash")
    return Item(text, network=(family, value, int(match[2]))) if int(match[2]) <= (32 if family == 4 else 128) else Item(text)


def parse_aws_item(text: str) -> Item:
    """Read an item as the AWS SDK for Java does (SdkHttpUtils.extractNonProxyHosts, SdkProxyRoutePlanner)."""
    lowered = text.strip().lower()
    if _PLAIN_HOST.fullmatch(lowered):
        return Item(text, core=lowered, covers=Covers.SUFFIX, glob=AnyDotPattern(lowered))
    pattern = _compile_java_pattern(lowered.replace("*", ".*?"))
    if pattern is None:
        return Item(text, fails="not a valid regular expression")
    return Item(text, core=lowered, covers=Covers.SUFFIX, glob=pattern)


_AZURE_ENDS = ((".", 2), (".?", 3), ("*?", 3), ("*", 2))
"""What an item may end with for more to follow, and how many characters are cut off: one too many, as azure-core does."""


def parse_azure_item(text: str) -> Item:
    """Read an item as azure-core does (ProxyOptions.sanitizeNonProxyHosts); the whole list is one regular expression."""
    before = after = ""
    body = text
    for start in (".", "*?", "*"):
        if body.startswith(start):
            before, body = ".*?", body[len(start) :]
            break
    for end, cut in _AZURE_ENDS:
        if body.endswith(end):
            if len(body) < cut:
                return Item(text, fails="it cuts more off the item than the item has")
            after, body = ".*?", body[:-cut]
            break
    if not after and _PLAIN_HOST.fullmatch(body):
        return Item(text, whole=body.lower(), core=body.lower(), covers=Covers.SUFFIX if before else Covers.NAME)
    sanitized = re.sub(r"(?<!\\)\.", r"\.", body).replace("*", ".*?")
    if _compile_java_pattern(sanitized) is None:
        sanitized = re.escape(body)
    pattern = _compile_java_pattern(f"{before}{sanitized}{after}")
    if pattern is None:
        return Item(text, fails="not a valid regular expression")
    return Item(text, core=body, covers=Covers.SUFFIX, glob=pattern)


def _compile_java_pattern(text: str) -> re.Pattern[str] | None:
    """Compile what a whole host, in any case, has to match; None if it is not a valid regular expression."""
    try:
        return re.compile(f"(?:{text})\\Z", re.DOTALL | re.IGNORECASE)
    except (re.error, OverflowError, RecursionError):
        return None


def parse_chromium_item(profile_pass: ProfilePass, text: str) -> Item:
    """Read a rule as Chromium does (net/base/scheme_host_port_matcher_rule.cc)."""
    lowered = text.lower()
    if lowered in ("<local>", "<-loopback>"):
        return Item(text, keyword=lowered)
    scheme, separator, rest = lowered.partition("://")
    if not separator:
        scheme, rest = "", lowered
    elif not scheme:
        return Item(text)
    if "/" in rest:
        return Item(text, network=parse_network(rest, Cidr()), scheme=scheme or None)
    match = re.fullmatch(r"(?:\[([^\]]*)\]|([^:]*))(?::([0-9]+))?", rest)
    if match is not None:
        value = parse_ipv6(match[1]) if match[1] is not None else parse_quad(match[2])
        if value is not None:
            return Item(text, value=value, port=parse_port(match[3]), scheme=scheme or None)
    host, colon, port_text = rest.rpartition(":")
    if not colon:
        host, port_text = rest, ""
    port = parse_port(port_text)
    if (colon and (port is None or not 0 <= port <= 65535)) or not host:
        return Item(text)
    pattern = f"*{host}" if host.startswith(".") else host
    return Item(
        text,
        whole=pattern,
        core=pattern,
        covers=Covers.NAME,
        port=port,
        scheme=scheme or None,
        glob=compile_glob(pattern, profile_pass.names.glob),
    )


def parse_network(text: str, cidr: Cidr) -> Network | None:
    """Read `BASE/BITS`; `None` when the client does not take it for a network."""
    base, _, bits_text = text.partition("/")
    if base.startswith("[") and base.endswith("]") and cidr.brackets:
        address = parse_ipv6(base[1:-1])
    else:
        address = parse_quad(base) or parse_ipv6(base) or (parse_loose(base) if cidr.loose else None)
    if address is None or address[0] not in cidr.families:
        return None
    family, value = address
    width = 32 if family == 4 else 128
    bits = (
        count_mask_bits(bits_text)
        if cidr.masks and family == 4 and "." in bits_text
        else parse_prefix_length(bits_text, cidr.bits)
    )
    if bits is None or bits < 0:
        return None
    if bits > width:
        if not cidr.clamped:
            return None
        bits = width
    if bits == 0:
        if cidr.zero is None:
            return None
        bits = width if cidr.zero < 0 else 0
    if not cidr.host_bits and value & ((1 << (width - bits)) - 1):
        return None
    return (family, value, bits)


def parse_prefix_length(text: str, grammar: Bits) -> int | None:
    """Read the number after the slash."""
    if grammar is Bits.ATOI:
        match = re.match(r"\s*([+-]?)([0-9]*)", text)
        return int((match[1] + match[2][:9]) if match is not None and match[2] else "0")
    if grammar is Bits.PARSE_INT:
        match = re.match(r"\s*([+-]?[0-9]{1,9})", text)
        return int(match[1]) if match is not None else None
    if grammar is Bits.PYTHON_INT:
        try:
            return int(text[:64])
        except ValueError:
            return None
    if grammar is Bits.TRIMMED:
        text = text.strip()
    if not text.isascii() or not text.isdecimal() or len(text) > 9:
        return None
    if grammar is Bits.SHORT and (len(text) > 3 or (text != "0" and text.startswith("0"))):
        return None
    return int(text)
