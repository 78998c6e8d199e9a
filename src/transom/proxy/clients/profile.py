"""What is said of one client: the words of which the rows in `CLIENTS` are made."""

import enum

import msgspec

from transom.proxy.clients.urls import HostReading, Idn, TrailingDots


class Covers(enum.Enum):
    """Which hosts an item stands for."""

    NAME = "that name alone"
    TREE = "that name and all names below it"
    BELOW = "the names below it, not the name itself"
    SUFFIX = "every host that ends so, at a dot or not"
    NOTHING = "nothing"


class Star(enum.Enum):
    """When `*` stands for all hosts."""

    NEVER = "never"
    ALONE = "as the whole value"
    ITEM = "as an item"
    ITEM_OR_PORT = "as an item, also with a port"
    ITEM_FOR_NAMES = "as an item, for names but not for addresses"


class Ports(enum.Enum):
    """What `:8080` at the end of an item means."""

    NOT_READ = "nothing: the item matches no host"
    LAST_COLON = "the port, after the last colon; the default port counts"
    ONE_COLON = "the port, when there is one colon or a bracket before it; the default port counts"
    GO = "the port, as net.SplitHostPort reads it; the default port counts"
    GROUP = "the port, as the pattern of the list finds it; the default port counts"
    TEXT = "compared as text with HOST:PORT of the URL, where the port is written"
    NETLOC = "compared as text with all of the URL's authority"
    TEXT_DEFAULT = "compared as text with HOST:PORT, for the exact host alone; the default port counts"


class Glob(enum.Enum):
    """Wildcards inside an item, beyond a `*` in front."""

    NONE = "none"
    ENDS = "* at either end"
    STAR = "* anywhere"
    STAR_AND_QUESTION = "* and ? anywhere"
    FNMATCH = "*, ? and [seq] anywhere"


class Bits(enum.Enum):
    """How the number after the slash is read."""

    DIGITS = "digits"
    SHORT = "up to three digits, no leading zero"
    ATOI = "as atoi(3): what follows the digits does not count"
    PYTHON_INT = "as Python's int()"
    TRIMMED = "digits, blanks around them dropped"


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


class Addresses(msgspec.Struct, frozen=True):
    """How items are compared with a URL whose host is an address."""

    values: tuple[int, ...] = ()
    """Families whose items are compared by value, not by spelling."""
    as_names: tuple[int, ...] = (4, 6)
    """Families for which the rules for names apply to the text of the address too (`2.3` then covers 10.1.2.3)."""
    cidr: Cidr | None = None
    mapped: bool = False
    """An IPv4-mapped IPv6 address is the IPv4 address."""
    ranges: bool = False
    """`10.0.0.0-10.0.0.255` is read."""
    one_loopback: bool = False
    """An item for any loopback host covers all loopback hosts."""
    brackets: bool = False
    """The brackets of `[::1]` in an item are dropped."""


class Names(msgspec.Struct, frozen=True):
    """How items are compared with a name, by the form of the item."""

    bare: Covers = Covers.TREE
    dotted: Covers = Covers.BELOW
    star_dot: Covers = Covers.NOTHING
    star: Covers = Covers.NOTHING
    leading_dots: TrailingDots = TrailingDots.ONE
    """How many dots in front are dropped."""
    trailing_dots: TrailingDots = TrailingDots.KEPT
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
    """The characters dropped at both ends of an item; `None` for all blanks."""
    drop: str = ""
    """Characters dropped everywhere before."""
    blank_ends_list: bool = False
    """What follows a blank inside an item is lost, to the end of the value."""
    empty_covers_root: bool = False
    """An empty item matches hosts with a dot at the end."""
    empty_covers_all: bool = False
    """An empty item, other than at the end, matches every host."""


class Items(enum.Enum):
    """Of what kind the items are."""

    HOSTS = "hosts"
    HTTPX_URLS = "URLs, with all:// in front where no scheme is written"
    CHROMIUM = "Chromium's bypass rules"
    OVERRIDES = "WinINet's bypass list"


class Local(enum.Enum):
    """What `<local>` stands for."""

    NAMES = "names without a dot"
    UNDOTTED = "hosts without a dot, IPv6 addresses too"
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


class Empty(enum.Enum):
    """What a variable that is set and empty means."""

    NOT_SET = "not set: the next variable is read"
    NONE = "set to nothing: no other variable is read"
    OFF = "set to nothing: no other variable is read, and no proxy used"


class Cgi(enum.Enum):
    """What a client does in a CGI program, where a request header `Proxy` becomes HTTP_PROXY (CVE-2016-5385)."""

    NO_CARE = "no rule"
    UPPER_IGNORED = "HTTP_PROXY is ignored when REQUEST_METHOD is set"
    UPPER_IGNORED_CGI_READ = "HTTP_PROXY is ignored and CGI_HTTP_PROXY is read when REQUEST_METHOD is set"
    GATEWAY_UPPER_IGNORED = "HTTP_PROXY is ignored when GATEWAY_INTERFACE is set"
    FAILS = "http requests fail when REQUEST_METHOD is set and an http proxy is too"
    ALL_IGNORED = "all proxy variables are ignored when REQUEST_METHOD is set"


class Schemeless(enum.Enum):
    """What a proxy written `host:port`, without `http://`, means."""

    READ = "read as http"
    FAILS = "the client fails"
    FAILS_WHEN_USED = "requests fail that would go through it"


class Variables(msgspec.Struct, frozen=True):
    """Which variables are read; of each tuple the first that is set."""

    http: tuple[str, ...] = ("http_proxy", "HTTP_PROXY")
    https: tuple[str, ...] = ("https_proxy", "HTTPS_PROXY")
    every: tuple[str, ...] = ()
    """Read when the scheme's own are not set."""
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
    lower: bool = True
    """False: `LOCALHOST` does not."""
    removable: bool = False
    """`<-loopback>` in the list switches these off."""


class Source(enum.Enum):
    """Where a client finds its list."""

    ENVIRONMENT = "variables of the environment"
    OPTION = "an option of its own, not the environment"
    NOWHERE = "nowhere: it never uses a proxy from the environment"


LINUX = frozenset({"linux"})
WINDOWS = frozenset({"windows"})
BOTH = LINUX | WINDOWS


class ClientProfile(msgspec.Struct, frozen=True, cache_hash=True):
    """One client in one version. A new client is a new row in one of the modules that `CLIENTS` joins."""

    name: str
    title: str
    """Program and measured version."""
    family: str
    evidence: str
    """The source file or release note that the row follows."""
    passes: tuple[ProfilePass, ...] = ()
    variables: Variables = Variables()
    source: Source = Source.ENVIRONMENT
    language: str = "NO_PROXY"
    implicit: tuple[Implicit, ...] = ()
    default_items: str = ""
    """Items added to a list that is not empty, and used when there is none (the JVM)."""
    resolves: bool = False
    """Names are resolved, and their addresses compared."""
    slash_is_everything: bool = False
    """A `/` anywhere in the list sends every request direct."""
    nodes: frozenset[str] = frozenset()
    """`windows`, `linux`: where a node runs this client."""
    note: str = ""
