"""Node's clients."""

from msgspec.structs import replace

from transom.proxy.clients.profile import (
    Addresses,
    Bits,
    Cidr,
    ClientProfile,
    Covers,
    Credentials,
    Empty,
    Implicit,
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
_PROXY_FROM_ENV_VARIABLES = Variables(every=("all_proxy", "ALL_PROXY"))
_AXIOS = ProfilePass(
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
)
_AXIOS_1_19 = replace(
    _AXIOS,
    names=replace(_AXIOS.names, idn=Idn.TEXT),
    addresses=replace(_AXIOS.addresses, values=(4,), cidr=None),
)
_AXIOS_1_15 = replace(
    _AXIOS,
    host=replace(_AXIOS.host, unmapped=False),
    star=Star.ALONE,
    names=_AXIOS_1_19.names,
    addresses=Addresses(brackets=True),
)
_GOOGLE = ProfilePass(
    host=_WHATWG_HOST,
    star=Star.NEVER,
    ports=Ports.ORIGIN,
    names=Names(bare=Covers.NAME, star_dot=Covers.BELOW, lower=False),
)
_UNDICI_7 = replace(
    _PROXY_FROM_ENV,
    names=Names(dotted=Covers.TREE, star_dot=Covers.TREE),
)


ROWS = (
    ClientProfile(
        "undici-6",
        "undici",
        "6.29.1",
        "6",
        "Node",
        "undici 6 lib/dispatcher/env-http-proxy-agent.js",
        (_PROXY_FROM_ENV,),
        _UNDICI_VARIABLES,
    ),
    ClientProfile(
        "undici-7",
        "undici",
        "7.30.2",
        "7",
        "Node",
        "undici 7 lib/dispatcher/env-http-proxy-agent.js: suffixes, *. with the apex",
        (_UNDICI_7,),
        _UNDICI_VARIABLES,
    ),
    ClientProfile(
        "undici-8",
        "undici",
        "8.12.4",
        "8",
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
        credentials=Credentials.DECODED,
    ),
    ClientProfile(
        "node24-http",
        "Node.js http (NODE_USE_ENV_PROXY=1)",
        "24.21.0",
        "24 to 26",
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
        "Node.js fetch (NODE_USE_ENV_PROXY=1)",
        "24.21.0",
        "24 to 26",
        "Node",
        "node lib/internal/process/pre_execution.js: the built-in undici 7",
        (_UNDICI_7,),
        _UNDICI_VARIABLES,
    ),
    ClientProfile(
        "node-fetch-default",
        "Node.js fetch (no NODE_USE_ENV_PROXY)",
        "24.21.0",
        "24",
        "Node",
        "nodejs.org/api/cli.html NODE_USE_ENV_PROXY",
        source=Source.NOWHERE,
    ),
    ClientProfile(
        "proxy-from-env-1",
        "proxy-from-env",
        "1.1.0",
        "1",
        "Node",
        "proxy-from-env 1 index.js: url.parse leaves numbers as written",
        (replace(_PROXY_FROM_ENV, host=replace(_WHATWG_HOST, ipv4=Ipv4Hosts.TEXT, ipv6=Ipv6Hosts.TEXT)),),
        _PROXY_FROM_ENV_VARIABLES,
    ),
    ClientProfile(
        "proxy-from-env-2",
        "proxy-from-env",
        "2.1.0",
        "2",
        "Node",
        "proxy-from-env 2 index.js",
        (_PROXY_FROM_ENV,),
        _PROXY_FROM_ENV_VARIABLES,
    ),
    ClientProfile(
        "axios",
        "axios",
        "1.21.1",
        "1.20 or later",
        "Node",
        "axios lib/adapters/http.js setProxy: proxy-from-env 2, then lib/helpers/shouldBypassProxy.js",
        (_PROXY_FROM_ENV, _AXIOS),
        _PROXY_FROM_ENV_VARIABLES,
        note="A URL bypasses the proxy if one of the two readers matches. 1.20 compares IPv6 and non-ASCII names as strings.",
        credentials=Credentials.UNDECODED,
    ),
    ClientProfile(
        "axios-1.19",
        "axios",
        "1.19.0",
        "1.15.1 to 1.19",
        "Node",
        "axios 1.19 lib/adapters/http.js setProxy: proxy-from-env 2, then lib/helpers/shouldBypassProxy.js",
        (_PROXY_FROM_ENV, _AXIOS_1_19),
        _PROXY_FROM_ENV_VARIABLES,
        note=(
            "No networks. 1.15 does not treat IPv4-mapped addresses as IPv4. Before 1.18, 0.0.0.0 and :: are not loopback "
            "hosts. Before 1.19, short addresses (127.1) are names."
        ),
        unknown="0.31 to 0.35 have their own readers.",
        credentials=Credentials.UNDECODED,
    ),
    ClientProfile(
        "axios-1.15",
        "axios",
        "1.15.0",
        "1.15.0",
        "Node",
        "axios 1.15.0 lib/adapters/http.js setProxy: proxy-from-env 2, then lib/helpers/shouldBypassProxy.js",
        (_PROXY_FROM_ENV, _AXIOS_1_15),
        _PROXY_FROM_ENV_VARIABLES,
        note="No networks.",
        credentials=Credentials.UNDECODED,
    ),
    ClientProfile(
        "axios-0.27",
        "axios",
        "0.27.2",
        "0.27 or earlier",
        "Node",
        "axios 0.27 lib/adapters/http.js",
        (
            ProfilePass(
                host=HostReading(idn=Idn.ASCII),
                star=Star.ITEM,
                names=Names(bare=Covers.NAME, lower=False),
            ),
        ),
        Variables(schemeless=Schemeless.FAILS_WHEN_USED),
        credentials=Credentials.CUT,
    ),
    ClientProfile(
        "actions-http-client",
        "@actions/http-client (JavaScript actions)",
        "4.0.1",
        "4",
        "Node",
        "@actions/http-client lib/proxy.js checkBypass, isLoopbackAddress",
        (
            ProfilePass(
                host=_WHATWG_HOST,
                star=Star.ITEM,
                ports=Ports.TEXT_DEFAULT_TREE,
            ),
        ),
        Variables(),
        implicit=(Implicit(names=("localhost",), prefixes=("127.", "[::1]")),),
        credentials=Credentials.DECODED,
    ),
    ClientProfile(
        "gaxios",
        "gaxios (Google's SDKs)",
        "7.3.1",
        "7",
        "Node",
        "gaxios src/gaxios.ts #urlMayUseProxy, #prepareRequest",
        (replace(_GOOGLE, ports=Ports.ORIGIN_OR_URL),),
        Variables(
            ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"),
            ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"),
            no=("NO_PROXY", "no_proxy"),
            empty_list=Empty.NONE,
            schemeless=Schemeless.FAILS_WHEN_USED,
        ),
        note="One proxy for all requests.",
        credentials=Credentials.DECODED,
    ),
    ClientProfile(
        "teeny-request",
        "teeny-request (Google's SDKs)",
        "10.1.4",
        "10",
        "Node",
        "teeny-request src/agents.ts shouldUseProxyForURI, getAgent",
        (_GOOGLE,),
        Variables(
            ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"),
            ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"),
            no=("NO_PROXY", "no_proxy"),
            schemeless=Schemeless.FAILS_WHEN_USED,
        ),
        note="One proxy for all requests.",
        credentials=Credentials.DECODED,
    ),
    ClientProfile(
        "azure-core-rest-pipeline",
        "Azure SDK for JavaScript",
        "@azure/core-rest-pipeline 1.24.0",
        "1",
        "Node",
        "@typespec/ts-http-runtime proxyPolicy.js isBypassed, loadEnvironmentProxyValue",
        (
            ProfilePass(
                host=_WHATWG_HOST,
                star=Star.NEVER,
                names=Names(bare=Covers.NAME, dotted=Covers.TREE, lower=False),
            ),
        ),
        Variables(
            ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "HTTP_PROXY", "http_proxy"),
            ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "HTTP_PROXY", "http_proxy"),
            no=("NO_PROXY", "no_proxy"),
            schemeless=Schemeless.FAILS,
        ),
        note="One proxy for all requests; the client reads the list once.",
        credentials=Credentials.DECODED,
    ),
    ClientProfile(
        "grpc-js",
        "@grpc/grpc-js",
        "1.14.7",
        "1.14",
        "gRPC",
        "@grpc/grpc-js src/http_proxy.ts hostMatchesNoProxyList, getProxyInfo",
        (
            ProfilePass(
                splitting=Splitting(trim="", empty_covers_all=True, last_empty_counts=True),
                host=HostReading(lower=False),
                star=Star.NEVER,
                names=Names(bare=Covers.SUFFIX, leading_dots=TrailingDots.KEPT, lower=False),
                addresses=Addresses(cidr=Cidr(families=(4,), bits=Bits.PARSE_INT, zero=-1)),
            ),
        ),
        Variables(
            ("grpc_proxy", "https_proxy", "http_proxy"),
            ("grpc_proxy", "https_proxy", "http_proxy"),
            no=("no_grpc_proxy", "no_proxy"),
            schemeless=Schemeless.IGNORED,
        ),
        note="One proxy for all requests; the client reads only lower-case variables.",
        credentials=Credentials.DECODED,
    ),
    ClientProfile(
        "npm",
        "npm",
        "11.19.1",
        "11",
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
        note="If variables differ only in case, the last one in the environment applies.",
    ),
)
