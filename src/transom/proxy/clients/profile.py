"""The profile of one client, and the values of its properties."""

import enum

import msgspec

from transom.proxy.clients.urls import HostReading, Idn, TrailingDots


class Covers(enum.Enum):
    """The hosts that an item covers."""

    NAME = "only that name"
    TREE = "that name and all names below it"
    BELOW = "the names below it, not the name itself"
    SUFFIX = "every host that ends with it, with or without a dot before it"
    NOTHING = "nothing"


class Star(enum.Enum):
    """When `*` covers all hosts."""

    NEVER = "never"
    ALONE = "only as the whole value"
    ITEM = "as an item"
    ITEM_OR_PORT = "as an item, also with a port"
    ITEM_FOR_NAMES = "as an item, for names but not for addresses"


class Ports(enum.Enum):
    """The meaning of `:8080` at the end of an item."""

    NOT_READ = "an item with a port matches no host"
    LAST_COLON = "the port, after the last colon; the default port counts"
    ONE_COLON = "the port, if the item has one colon or a bracket before it; the default port counts"
    GO = "the port, as net.SplitHostPort reads it; the default port counts"
    GROUP = "the port, as the pattern of the list finds it; the default port counts"
    TEXT = "compared as a string with HOST:PORT of the URL, if the URL contains the port"
    NETLOC = "compared as a string with the whole authority of the URL"
    TEXT_DEFAULT = "compared as a string with HOST:PORT, only for the exact host; the default port counts"
    TEXT_DEFAULT_TREE = "compared as a string with HOST:PORT, also for hosts below; the default port counts"
    ONE_COLON_ZERO = "the port, if the item has one colon or a bracket before it; the default port counts, 0 is not a port"
    ORIGIN = "an item with a port matches no host, except `http://HOST:PORT`, the origin of the URL"
    ORIGIN_OR_URL = "an item with a port matches no host, except `http://HOST:PORT`, the origin of the URL, and the whole URL"


class Glob(enum.Enum):
    """Wildcards inside an item, except for a `*` in front."""

    NONE = "none"
    ENDS = "* at either end"
    STAR = "* anywhere"
    STAR_AND_QUESTION = "* and ? anywhere"
    FNMATCH = "*, ? and [seq] anywhere"


class Bits(enum.Enum):
    """How the number after the slash is read."""

    DIGITS = "digits"
    SHORT = "up to three digits, no leading zero"
    ATOI = "as atoi(3): characters after the digits are ignored"
    PYTHON_INT = "as Python's int()"
    TRIMMED = "digits, spaces around them dropped"
    PARSE_INT = "as JavaScript's parseInt(): characters after the digits are ignored"


class Cidr(msgspec.Struct, frozen=True):
    """How items with a slash are read as networks."""

    families: tuple[int, ...] = (4, 6)
    loose: bool = False
    """The base may be `10.0` or `0xa.0.0.0`, as inet_aton(3) reads it."""
    bits: Bits = Bits.DIGITS
    zero: int | None = 0
    """What `/0` means: 0 bits, `None` for an invalid item, -1 for the address alone."""
    clamped: bool = False
    """More bits than the address has mean all of them; else the item is invalid."""
    masks: bool = False
    """`10.0.0.0/255.0.0.0` is read."""
    brackets: bool = False
    """`[2001:db8::]/32` is read."""
    host_bits: bool = True
    """False: a base with bits set beyond the length (`10.1.2.3/8`) is invalid."""


class Addresses(msgspec.Struct, frozen=True):
    """How items are compared with a URL whose host is an address."""

    values: tuple[int, ...] = ()
    """Families whose items are compared by value, not by spelling."""
    as_names: tuple[int, ...] = (4, 6)
    """Families for which the rules for names apply to the text of the address too (`2.3` then covers 10.1.2.3)."""
    cidr: Cidr | None = None
    mapped: bool = False
    """An IPv4-mapped IPv6 address is the IPv4 address."""
    mapped_networks: bool = False
    """Of an IPv4 address and an IPv6 network, or the reverse, the IPv4 one is compared in its IPv4-mapped IPv6 form."""
    ranges: bool = False
    """`10.0.0.0-10.0.0.255` is read."""
    one_loopback: bool = False
    """An item for any loopback host covers all loopback hosts."""
    brackets: bool = False
    """The brackets of `[::1]` in an item are dropped."""
    zones: bool = False
    """The zone of an item (`fe80::1%eth0`) is dropped; else such an item is not an address."""


class Names(msgspec.Struct, frozen=True):
    """How items are compared with a name, by the form of the item."""

    bare: Covers = Covers.TREE
    dotted: Covers = Covers.BELOW
    star_dot: Covers = Covers.NOTHING
    star: Covers = Covers.NOTHING
    leading_dots: TrailingDots = TrailingDots.ONE
    """How many dots in front are dropped."""
    trailing_dots: TrailingDots = TrailingDots.KEPT
    root: bool = True
    """False: the item `.` covers nothing; else the hosts with a dot at the end."""
    empty_labels: bool = True
    """False: empty labels (`..corp.example`, `corp.example.`) do not count."""
    lower: bool = True
    """False: an item with capitals matches nothing, since the host is in lower case."""
    idn: Idn = Idn.TEXT
    glob: Glob = Glob.NONE


class Splitting(msgspec.Struct, frozen=True):
    """How the value becomes items."""

    separator: str = ","
    """A regular expression."""
    pattern: str | None = None
    """A regular expression that finds the items (group 1) and their ports (group 2), instead of a separator."""
    trim: str | None = None
    """The characters dropped at both ends of an item; `None` for all white space."""
    drop: str = ""
    """Characters dropped everywhere before."""
    blank_ends_list: bool = False
    """What follows a space inside an item is lost, to the end of the value."""
    empty_covers_root: bool = False
    """An empty item matches hosts with a dot at the end."""
    empty_covers_all: bool = False
    """An empty item, other than at the end, matches every host."""
    last_empty_counts: bool = False
    """An empty item at the end does so too."""


class Items(enum.Enum):
    """The kind of the items."""

    HOSTS = "hosts"
    HTTPX_URLS = "URLs, with all:// in front if they have no scheme"
    HTTPX2_URLS = "URLs, with all:// in front if they have no scheme; invalid ones are ignored"
    FABRIC8 = "suffixes, addresses and networks; the client refuses items with characters other than letters, digits and `.-/:`"
    AWS_PATTERNS = "regular expressions for the whole host, where `*` means `.*?`"
    AZURE_PATTERNS = "regular expressions for the whole host, where dots are literal and `*` means `.*?`"
    CHROMIUM = "Chromium's bypass rules"
    OVERRIDES = "WinINet's bypass list"


class Local(enum.Enum):
    """The hosts that `<local>` covers."""

    NAMES = "names without a dot"
    UNDOTTED = "hosts without a dot, including IPv6 addresses"
    NAMES_AND_LOOPBACK = "names without a dot, and loopback addresses"


class ProfilePass(msgspec.Struct, frozen=True, cache_hash=True):
    """One walk of a client over its list. The passes of a client follow each other until one matches."""

    splitting: Splitting = Splitting()
    host: HostReading = HostReading()
    star: Star = Star.ALONE
    ports: Ports = Ports.NOT_READ
    names: Names = Names()
    addresses: Addresses = Addresses()
    items: Items = Items.HOSTS
    local: Local = Local.NAMES
    fails_when_reached: bool = False
    """A client that fails on an item does so only where no item before it covers the host."""


class Empty(enum.Enum):
    """The meaning of a variable that is set and empty."""

    NOT_SET = "not set: the next variable is read"
    NONE = "set to nothing: no other variable is read"
    OFF = "set to nothing: no other variable is read, and no proxy is used"


class Cgi(enum.Enum):
    """What a client does in a CGI program, where a request header `Proxy` becomes HTTP_PROXY (CVE-2016-5385)."""

    NO_CARE = "no rule"
    UPPER_IGNORED = "HTTP_PROXY is ignored if REQUEST_METHOD is set"
    UPPER_IGNORED_CGI_READ = "HTTP_PROXY is ignored and CGI_HTTP_PROXY is read if REQUEST_METHOD is set"
    GATEWAY_UPPER_IGNORED = "HTTP_PROXY is ignored if GATEWAY_INTERFACE is set"
    FAILS = "http requests fail if both REQUEST_METHOD and an http proxy are set"
    ALL_IGNORED = "all proxy variables are ignored if REQUEST_METHOD is set"
    HTTP_IGNORED = "http_proxy and HTTP_PROXY are ignored if REQUEST_METHOD is set"


class Schemeless(enum.Enum):
    """What a proxy written `host:port`, without `http://`, means."""

    READ = "read as http"
    FAILS = "the client fails"
    FAILS_WHEN_USED = "requests through it fail"
    IGNORED = "not used: requests bypass the proxy"


class Credentials(enum.Enum):
    """How a client handles a percent-encoded user name and password in the URL of the proxy."""

    DECODED = "decoded"
    UNDECODED = "sent as written, with the escapes"
    CUT = "cut at the first colon"
    NOT_SENT = "not sent"
    UNKNOWN = "not measured"


class Variables(msgspec.Struct, frozen=True):
    """Which variables are read; of each tuple the first that is set."""

    http: tuple[str, ...] = ("http_proxy", "HTTP_PROXY")
    https: tuple[str, ...] = ("https_proxy", "HTTPS_PROXY")
    every: tuple[str, ...] = ()
    """Read when the scheme's own are not set."""
    every_first: bool = False
    """They are read before the scheme's own."""
    no: tuple[str, ...] = ("no_proxy", "NO_PROXY")
    empty: Empty = Empty.NOT_SET
    empty_list: Empty | None = None
    """The same for `no`, where it differs."""
    any_case: bool = False
    """`No_Proxy` is read too, after the others."""
    cgi: Cgi = Cgi.NO_CARE
    schemeless: Schemeless = Schemeless.READ


class Implicit(msgspec.Struct, frozen=True):
    """Hosts that bypass the proxy without an item."""

    names: tuple[str, ...] = ()
    below: tuple[str, ...] = ()
    """Names whose subdomains bypass too."""
    networks: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()
    """What the text of the host begins with, of names and addresses."""
    lower: bool = True
    """False: `LOCALHOST` does not."""
    removable: bool = False
    """`<-loopback>` in the list switches these off."""


class Source(enum.Enum):
    """The source of a client's list."""

    ENVIRONMENT = "variables of the environment"
    OPTION = "its own option, not the environment"
    NOWHERE = "nowhere: it never uses a proxy from the environment"


LINUX = frozenset({"linux"})
WINDOWS = frozenset({"windows"})
BOTH = LINUX | WINDOWS


class ClientProfile(msgspec.Struct, frozen=True, cache_hash=True):
    """One client in a range of versions. A new client is a new row in one of the modules that `CLIENTS` joins."""

    name: str
    title: str
    """The program."""
    measured: str
    """The version whose requests were measured; empty if none was measured."""
    versions: str
    """The versions that read the list in this way: `7.87 to 8.8`."""
    family: str
    evidence: str
    """The source file or release note that the row follows."""
    passes: tuple[ProfilePass, ...] = ()
    variables: Variables = Variables()
    source: Source = Source.ENVIRONMENT
    language: str = "NO_PROXY"
    implicit: tuple[Implicit, ...] = ()
    default_items: str = ""
    """Items added to a list that is not empty, and used if no list is set (the JVM)."""
    resolves: bool = False
    """Names are resolved, and their addresses compared."""
    slash_is_everything: bool = False
    """With a `/` anywhere in the list, every request bypasses the proxy."""
    nodes: frozenset[str] = frozenset()
    """`windows`, `linux`: where a node runs this client."""
    note: str = ""
    unknown: str = ""
    """Nearby versions whose behaviour is unknown, and the cause."""
    credentials: Credentials = Credentials.UNKNOWN

    @property
    def full_title(self) -> str:
        """The program and the versions that the row applies to."""
        return f"{self.title} {self.versions}".rstrip()
