"""Node's clients."""

from msgspec.structs import replace

from transom.proxy.clients.profile import (
    Addresses,
    Bits,
    Cidr,
    ClientProfile,
    Covers,
    Empty,
    Names,
    Ports,
    ProfilePass,
    Schemeless,
    Source,
    Splitting,
    Star,
    Variables,
)
from transom.proxy.clients.urls import HostReading, Idn, Ipv4Hosts, Ipv6Hosts, TrailingDots

_WHATWG_HOST = HostReading(Ipv4Hosts.WHATWG, Ipv6Hosts.HEX, Idn.ASCII, brackets=True)
_NODE_SPLITTING = Splitting(separator=r"[,\s]")
_PROXY_FROM_ENV = ProfilePass(
    splitting=_NODE_SPLITTING,
    host=_WHATWG_HOST,
    ports=Ports.LAST_COLON,
    names=Names(bare=Covers.NAME, star_dot=Covers.BELOW, star=Covers.SUFFIX),
)
_UNDICI_VARIABLES = Variables(
    https=("https_proxy", "HTTPS_PROXY", "http_proxy", "HTTP_PROXY"), empty=Empty.NONE, schemeless=Schemeless.FAILS
)
_UNDICI_7 = replace(
    _PROXY_FROM_ENV,
    names=Names(dotted=Covers.TREE, star_dot=Covers.TREE),
)


ROWS = (
    ClientProfile(
        "undici-6",
        "undici 6.29",
        "Node",
        "undici 6 lib/dispatcher/env-http-proxy-agent.js",
        (_PROXY_FROM_ENV,),
        _UNDICI_VARIABLES,
    ),
    ClientProfile(
        "undici-7",
        "undici 7.30",
        "Node",
        "undici 7 lib/dispatcher/env-http-proxy-agent.js: suffixes, *. with the apex",
        (_UNDICI_7,),
        _UNDICI_VARIABLES,
    ),
    ClientProfile(
        "undici-8",
        "undici 8.12",
        "Node",
        "undici 8 lib/dispatcher/env-http-proxy-agent.js: * as an item, IPv6, trailing dots, *. without the apex",
        (
            ProfilePass(
                splitting=_NODE_SPLITTING,
                host=replace(_WHATWG_HOST, brackets=False, trailing_dots=TrailingDots.ONE),
                star=Star.ITEM_OR_PORT,
                ports=Ports.ONE_COLON,
                names=Names(dotted=Covers.TREE, star_dot=Covers.BELOW, trailing_dots=TrailingDots.ONE),
                addresses=Addresses(brackets=True),
            ),
        ),
        _UNDICI_VARIABLES,
    ),
    ClientProfile(
        "node24-http",
        "Node 24 http (NODE_USE_ENV_PROXY=1)",
        "Node",
        "node lib/internal/http.js ProxyConfig.shouldUseProxy",
        (
            ProfilePass(
                host=replace(_WHATWG_HOST, brackets=False),
                star=Star.ITEM,
                ports=Ports.TEXT_DEFAULT,
                names=Names(bare=Covers.NAME, dotted=Covers.TREE, star_dot=Covers.BELOW),
                addresses=Addresses(ranges=True),
            ),
        ),
        Variables(schemeless=Schemeless.FAILS),
    ),
    ClientProfile(
        "node24-fetch",
        "Node 24 fetch (NODE_USE_ENV_PROXY=1)",
        "Node",
        "node lib/internal/process/pre_execution.js: the built-in undici 7",
        (_UNDICI_7,),
        _UNDICI_VARIABLES,
    ),
    ClientProfile(
        "node-fetch-default",
        "Node 24 fetch (no NODE_USE_ENV_PROXY)",
        "Node",
        "nodejs.org/api/cli.html NODE_USE_ENV_PROXY",
        source=Source.NOWHERE,
    ),
    ClientProfile(
        "proxy-from-env-1",
        "proxy-from-env 1.1",
        "Node",
        "proxy-from-env 1 index.js: url.parse leaves numbers as written",
        (replace(_PROXY_FROM_ENV, host=replace(_WHATWG_HOST, ipv4=Ipv4Hosts.TEXT, ipv6=Ipv6Hosts.TEXT)),),
        Variables(every=("all_proxy", "ALL_PROXY")),
    ),
    ClientProfile(
        "proxy-from-env-2",
        "proxy-from-env 2.1",
        "Node",
        "proxy-from-env 2 index.js",
        (_PROXY_FROM_ENV,),
        Variables(every=("all_proxy", "ALL_PROXY")),
    ),
    ClientProfile(
        "axios",
        "axios 1.21",
        "Node",
        "axios lib/helpers/shouldBypassProxy.js",
        (
            ProfilePass(
                splitting=Splitting(separator=r"[\s,]+"),
                host=replace(_WHATWG_HOST, brackets=False, trailing_dots=TrailingDots.ALL, unmapped=True),
                star=Star.ITEM,
                ports=Ports.ONE_COLON,
                names=Names(
                    bare=Covers.NAME,
                    star_dot=Covers.BELOW,
                    star=Covers.NAME,
                    trailing_dots=TrailingDots.ALL,
                    idn=Idn.ASCII,
                ),
                addresses=Addresses(
                    values=(4, 6),
                    cidr=Cidr(loose=True, bits=Bits.SHORT, brackets=True),
                    mapped=True,
                    one_loopback=True,
                    brackets=True,
                ),
            ),
        ),
        Variables(every=("all_proxy", "ALL_PROXY")),
    ),
    ClientProfile(
        "npm",
        "npm 11",
        "Node",
        "@npmcli/agent lib/proxy.js",
        (
            ProfilePass(
                host=_WHATWG_HOST,
                star=Star.NEVER,
                names=Names(dotted=Covers.TREE, leading_dots=TrailingDots.ALL, empty_labels=False, lower=False),
            ),
        ),
        Variables(
            ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "PROXY", "proxy"),
            ("HTTPS_PROXY", "https_proxy"),
            no=("NO_PROXY", "no_proxy"),
            empty_list=Empty.NONE,
            any_case=True,
            schemeless=Schemeless.FAILS_WHEN_USED,
        ),
        note="Of variables that differ in case alone, the one that stands later in the environment counts.",
    ),
)
