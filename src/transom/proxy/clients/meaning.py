"""What the writer of an item meant: the URLs it should cover, those it may, those it must not, and safer ways to write it.

The meaning is read from the item alone, by the rules below, not by those of any client:

- `corp.example`: that name and the names below it (a name without a dot, or that is known to be a host: that name);
- `.corp.example`, `*.corp.example`: the names below; corp.example itself may be covered, since no form says otherwise to curl;
- an address, a network, a range, `10.*`, `10.`: those addresses;
- with `:8080`: the same, at that port alone;
- quotes, a scheme, a path, user names: not meant;
- `;`, `|` and spaces: meant as separators.
"""

import re

import msgspec

from transom.proxy.clients.addresses import Address, Network, format_address, parse_address, parse_quad
from transom.proxy.clients.patterns import parse_network
from transom.proxy.clients.profile import Cidr
from transom.proxy.clients.urls import Idn, UnreadableHostError, parse_url, to_idn

_SEPARATORS = re.compile(r"[;|\s]+")
_BASE = r"(?P<base>[0-9]{1,3}(?:\.[0-9]{1,3}){0,2})"
_PARTIAL = re.compile(_BASE + r"\.?")
_STARRED = re.compile(_BASE + r"(?:\.\*)+")
_SHORT = re.compile(_BASE + r"/(?P<bits>[0-9]{1,2})")
_HOST_NAME = re.compile(r"api(?:-int)?\..+|kubernetes\.default(?:\..+)?|metadata\..+\.internal|[^.]+\.[^.]+\.svc(?:\..+)?")
_MAX_LISTED = 8


class ItemMeaning(msgspec.Struct, frozen=True):
    """`wanted`: URLs to cover; `allowed`: URLs that may be covered; `outside`: URLs that must not be.

    `forms`: other ways to write it, the first being the best known; each is a list of items. `plain` are the plain spellings
    of a name, `x` and `.x`. Clients that match plain suffixes (apt, LWP, old requests, websocket-client) cannot cover a name
    alone: what they cover with a plain spelling is not compared with another spelling.
    """

    says: str
    """In words, for texts."""
    wanted: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()
    outside: tuple[str, ...] = ()
    forms: tuple[tuple[str, ...], ...] = ()
    plain: tuple[str, ...] = ()

    @property
    def pieces(self) -> frozenset[str]:
        """All items of all forms."""
        return frozenset(piece for form in self.forms for piece in form)


def parse_no_proxy_item(text: str) -> ItemMeaning:
    """Read the meaning of the string between two commas. Never fails: nonsense has nothing wanted."""
    bare = text.strip().strip("\"'").strip()
    joined = re.sub(r"\s+", "", bare)
    if ("/" in joined and parse_network(joined, Cidr(masks=True)) is not None) or _parse_address_range(joined) is not None:
        bare = joined
    parts = [part for part in _SEPARATORS.split(bare) if part]
    meaning = _merge_part_meanings(parts) if len(parts) > 1 else _parse_single_item(bare)
    urls = (_filter_readable(urls) for urls in (meaning.wanted, meaning.allowed, meaning.outside))
    return msgspec.structs.replace(meaning, **dict(zip(("wanted", "allowed", "outside"), urls, strict=True)))


def _filter_readable(urls: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(url for url in urls if _is_url(url))


def _is_url(url: str) -> bool:
    try:
        parse_url(url)
    except ValueError:
        return False
    return True


def _merge_part_meanings(parts: list[str]) -> ItemMeaning:
    meanings = [_parse_single_item(part) for part in parts[:64]]
    best: list[str] = []
    for part, meaning in zip(parts, meanings, strict=False):
        if meaning.wanted:
            best.extend(meaning.forms[0] if meaning.forms else (part,))
    kept = tuple(dict.fromkeys(best))
    forms = ((tuple(parts), kept) if kept != tuple(parts) else (kept,)) if len(parts) <= 64 and kept else ()
    return ItemMeaning(
        f"{len(parts)} items",
        wanted=tuple(url for meaning in meanings for url in meaning.wanted),
        allowed=tuple(url for meaning in meanings for url in meaning.allowed),
        outside=tuple(url for url in ("http://unrelated.invalid/", "http://198.51.100.77/") if len(parts) <= 64),
        forms=tuple(reversed(forms)),
    )


def _parse_single_item(text: str) -> ItemMeaning:
    text = text.strip("\"'")
    if text == "*":
        return ItemMeaning("every host", wanted=("http://host.corp.example/", "http://10.1.2.3/"))
    if not text or text.lower() in ("<local>", "<-loopback>"):
        return ItemMeaning("nothing in NO_PROXY", outside=("http://unrelated.invalid/", "http://10.1.2.3/"), forms=((),))
    text = re.sub(r"^[A-Za-z][A-Za-z0-9+.-]*://", "", text)
    network = _read_network(text)
    if network is not None:
        return network
    text = re.split(r"[/?#]", text, maxsplit=1)[0].rpartition("@")[2]
    host, port = _split_port(text)
    address = parse_address(host[1:-1] if host.startswith("[") and host.endswith("]") else host)
    if address is not None:
        return _build_address_meaning(address, port)
    return _build_name_meaning(host, port)


def _split_port(text: str) -> tuple[str, str]:
    match = re.fullmatch(r"(\[[^\]]*\]|[^:]*):([0-9]{1,5})", text)
    return (match[1], f":{int(match[2])}") if match is not None else (text, "")


def _format_host(address: Address) -> str:
    return format_address(address) if address[0] == 4 else f"[{format_address(address)}]"


def _build_address_meaning(address: Address, port: str) -> ItemMeaning:
    family, value = address
    text, host = format_address(address), _format_host(address)
    other = _format_host((family, value ^ 1))
    plain = ((text,), (text, host)) if family == 6 else ((text,),)
    return ItemMeaning(
        f"{text}{port and ' at port ' + port[1:]}",
        wanted=tuple(f"http://{host}{port or suffix}/" for suffix in (("",) if port else ("", ":8080"))),
        outside=(f"http://{other}{port}/", *_build_other_port_urls(host, port)),
        forms=((f"{host}{port}",),) if port else plain,
    )


def _build_other_port_urls(host: str, port: str) -> tuple[str, ...]:
    if not port:
        return ()
    return (f"http://{host}:{8081 if port != ':8081' else 8082}/",)


def _read_network(text: str) -> ItemMeaning | None:
    bounds = _parse_address_range(text)
    if bounds is not None:
        networks = list_networks(*bounds)
        if len(networks) <= _MAX_LISTED:
            return _build_networks_meaning(text, networks)
    network = parse_network(text, Cidr(masks=True, brackets=True))
    if network is None:
        match = re.fullmatch(r"([0-9.]+/[0-9]+)[^0-9].*", text)
        network = parse_network(match[1], Cidr()) if match is not None else None
    if network is not None:
        return _build_networks_meaning(text, [network])
    match = _PARTIAL.fullmatch(text) or _STARRED.fullmatch(text) or _SHORT.fullmatch(text)
    if match is None:
        return None
    base, bits_text = match["base"], match.groupdict().get("bits")
    numbers = base.split(".")
    bits = int(bits_text) if bits_text is not None else 8 * len(numbers)
    parsed = parse_network(".".join([*(str(int(n)) for n in numbers), *["0"] * (4 - len(numbers))]) + f"/{bits}", Cidr())
    if parsed is None:
        return None
    ending = parse_quad(".".join(["203", "0", "113"][: 4 - len(numbers)] + [str(int(n)) for n in numbers]))
    meaning = _build_networks_meaning(text, [parsed])
    outside = meaning.outside
    if ending is not None and ending[1] >> (32 - bits) != parsed[1] >> (32 - bits):
        outside = (*outside, f"http://{format_address(ending)}/")
    return msgspec.structs.replace(meaning, outside=outside)


def _parse_address_range(text: str) -> tuple[int, int] | None:
    first, dash, last = text.partition("-")
    low, high = parse_quad(first), parse_quad(last)
    return (low[1], high[1]) if dash and low is not None and high is not None and low[1] <= high[1] else None


def list_networks(first: int, last: int) -> list[Network]:
    """List the IPv4 networks that make up the addresses from `first` to `last`."""
    networks: list[Network] = []
    while first <= last:
        size = min((first & -first).bit_length() - 1 if first else 32, (last - first + 1).bit_length() - 1)
        networks.append((4, first, 32 - size))
        first += 1 << size
    return networks


def format_network(network: Network) -> str:
    """Write a network; host bits are kept."""
    return f"{format_address((network[0], network[1]))}/{network[2]}"


def _without_host_bits(network: Network) -> Network:
    family, value, bits = network
    return family, value & ~((1 << ((32 if family == 4 else 128) - bits)) - 1), bits


def _build_networks_meaning(text: str, networks: list[Network]) -> ItemMeaning:
    wanted: list[str] = []
    outside: list[str] = []
    forms: list[tuple[str, ...]] = []
    for family, value, bits in networks:
        width = 32 if family == 4 else 128
        size = 1 << (width - bits)
        base = value & ~(size - 1)
        wanted += [f"http://{_format_host((family, address))}/" for address in dict.fromkeys((base, value, base + size - 1))]
        beyond = base + size if base + size < 1 << width else base - 1
        if beyond >= 0 and not any(beyond & ~((1 << (width - b)) - 1) == v for _, v, b in networks):
            outside.append(f"http://{_format_host((family, beyond))}/")
    proper = tuple(format_network(_without_host_bits(network)) for network in networks)
    addresses = [
        format_address((family, (value & ~((1 << (width - bits)) - 1)) + offset))
        for family, value, bits in networks
        for width in (32 if family == 4 else 128,)
        if width - bits <= 3
        for offset in range(1 << (width - bits))
    ]
    total = sum(1 << min(20, (32 if family == 4 else 128) - bits) for family, _, bits in networks)
    if total == len(addresses) <= _MAX_LISTED:
        forms += [tuple(addresses), (*proper, *addresses), (text, *addresses)]
    # some clients read only the address before the slash
    hosts = tuple(format_address((family, value)) for family, value, _ in networks)
    forms += [proper, *([(*proper, *hosts)] if proper != tuple(map(format_network, networks)) else []), (*proper, text)]
    return ItemMeaning(
        f"the addresses in {', '.join(proper)}",
        wanted=tuple(wanted),
        outside=(*outside, "http://unrelated.invalid/"),
        forms=tuple(form for form in dict.fromkeys(tuple(dict.fromkeys(form)) for form in forms) if form != (text,)),
    )


def _build_name_meaning(host: str, port: str) -> ItemMeaning:
    dotted = host.startswith((".", "*."))
    name = re.sub(r"^\*?\.+", "", host).rstrip(".").lower()
    globbed = "*" in name or "?" in name
    sample = name.replace("*", "a").replace("?", "a")
    try:
        parse_url(f"http://{sample}/")
        ascii_name = to_idn(name, Idn.ASCII)
    except (ValueError, UnreadableHostError):
        return ItemMeaning("no host", forms=((),) if not name else ())
    outside = [f"http://not{sample}{port}/", f"http://{sample}.other.invalid{port}/", *_build_other_port_urls(sample, port)]
    if globbed:
        if name.startswith("*") and _is_url(f"http://{name[1:]}/") and "*" not in name[1:] and "?" not in name:
            return _build_suffix_meaning(name[1:], port)
        return ItemMeaning(f"hosts like {name}", wanted=(f"http://{sample}{port}/",), outside=tuple(outside[1:]))
    names = tuple(dict.fromkeys((ascii_name, name)))
    below = tuple(f"http://{label}.{name}{port}/" for name in names for label in ("a", "a.b"))
    itself = tuple(f"http://{name}{port}/" for name in names)
    under = tuple(f".{name}{port}" for name in names)
    bare = tuple(f"{name}{port}" for name in names)
    at_port = port and f" at port {port[1:]}"
    if dotted:
        return ItemMeaning(
            f"the names below {name}{at_port}",
            wanted=below,
            allowed=itself,
            outside=tuple(outside),
            forms=tuple(dict.fromkeys(((under[0],), under))),
            plain=(under[0],),
        )
    if "." not in name or is_host_name(name):
        forms = tuple(dict.fromkeys(((bare[0],), bare)))
        return ItemMeaning(f"{name}{at_port}", itself, below, tuple(outside), forms, plain=(bare[0],))
    return ItemMeaning(
        f"{name} and the names below it{at_port}",
        wanted=itself + below,
        outside=tuple(outside),
        forms=tuple(dict.fromkeys(((bare[0], under[0]), (*bare, *under)))),
        plain=(bare[0], under[0]),
    )


def is_host_name(name: str) -> bool:
    """Return True if a name is one host, not a domain: the API server, a Service, a metadata server."""
    return _HOST_NAME.fullmatch(name) is not None


def _build_suffix_meaning(name: str, port: str) -> ItemMeaning:
    """Build the meaning of `*corp.example`; hosts like notcorp.example may be covered, since the intent is unknown."""
    return ItemMeaning(
        f"{name} and the names below it",
        wanted=(f"http://{name}{port}/", f"http://a.{name}{port}/"),
        allowed=(f"http://not{name}{port}/",),
        outside=(f"http://{name}.other.invalid{port}/", *_build_other_port_urls(name, port)),
        forms=((f"{name}{port}", f".{name}{port}"),),
        plain=(f"{name}{port}", f".{name}{port}"),
    )
