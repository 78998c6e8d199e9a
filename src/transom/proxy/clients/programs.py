"""Programs and the libraries of compiled languages: curl, git, wget, apt, aria2, Go, .NET, Rust, Ruby, Perl."""

from msgspec.structs import replace

from transom.proxy.clients.profile import (
    BOTH,
    LINUX,
    Addresses,
    Bits,
    Cgi,
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
    Splitting,
    Star,
    Variables,
)
from transom.proxy.clients.urls import HostReading, Idn, Ipv4Hosts, Ipv6Hosts, TrailingDots

_CURL_HOST = HostReading(Ipv4Hosts.CANONICAL, Ipv6Hosts.COMPRESSED, Idn.ASCII, trailing_dots=TrailingDots.ONE)
_WHATWG_HOST = HostReading(Ipv4Hosts.WHATWG, Ipv6Hosts.HEX, Idn.ASCII, brackets=True)

_CURL_NAMES = Names(dotted=Covers.TREE, trailing_dots=TrailingDots.ONE)
_CURL_VARIABLES = Variables(http=("http_proxy",), every=("all_proxy", "ALL_PROXY"))
_CURL_7 = ProfilePass(
    splitting=Splitting(separator=r"[ \t,]+", trim=""),
    host=_CURL_HOST,
    names=_CURL_NAMES,
    addresses=Addresses(values=(4,), as_names=(6,), cidr=Cidr(families=(4,), bits=Bits.ATOI, zero=-1)),
)
_CURL_7_85 = ProfilePass(
    splitting=Splitting(separator=r"[ ,]+", trim=""),
    host=replace(_CURL_HOST, trailing_dots=TrailingDots.KEPT),
    names=Names(dotted=Covers.TREE),
)
_CURL_8_9 = replace(_CURL_7, splitting=Splitting(trim=" \t", blank_ends_list=True))
_CURL_8 = ProfilePass(
    splitting=Splitting(trim=" \t", blank_ends_list=True),
    host=_CURL_HOST,
    names=_CURL_NAMES,
    addresses=Addresses(values=(4, 6), as_names=(), cidr=Cidr(zero=-1)),
)
_RUBY = ProfilePass(
    splitting=Splitting(pattern=r"([^:,\s]+)(?::([0-9]+))?"),
    host=HostReading(Ipv4Hosts.SEEN, idn=Idn.FAILS),
    star=Star.NEVER,
    ports=Ports.GROUP,
    addresses=Addresses(values=(4,), cidr=Cidr(families=(4,), masks=True)),
)

_GO_LOOPBACK = (Implicit(names=("localhost",), networks=("127.0.0.0/8", "::1/128", "::ffff:127.0.0.0/104"), lower=False),)
_GO = ProfilePass(
    host=HostReading(idn=Idn.ASCII),
    star=Star.ITEM,
    ports=Ports.GO,
    names=Names(star_dot=Covers.BELOW, idn=Idn.ASCII),
    addresses=Addresses(values=(4, 6), as_names=(), cidr=Cidr(), mapped=True),
)


_UV_VARIABLES = Variables(
    ("HTTP_PROXY", "http_proxy"),
    ("HTTPS_PROXY", "https_proxy"),
    every=("ALL_PROXY", "all_proxy"),
    no=("NO_PROXY", "no_proxy"),
    empty=Empty.NONE,
    cgi=Cgi.ALL_IGNORED,
)
_UV = ProfilePass(
    host=replace(_WHATWG_HOST, brackets=False),
    star=Star.ITEM_FOR_NAMES,
    names=Names(dotted=Covers.TREE),
    addresses=Addresses(values=(4, 6), as_names=(), cidr=Cidr()),
)
_DOTNET = ProfilePass(
    host=HostReading(Ipv4Hosts.CANONICAL_UNDOTTED, Ipv6Hosts.COMPRESSED, brackets=True),
    star=Star.NEVER,
    names=Names(bare=Covers.NAME, dotted=Covers.TREE),
)
_DOTNET_VARIABLES = Variables(every=("all_proxy", "ALL_PROXY"), empty_list=Empty.NONE, cgi=Cgi.GATEWAY_UPPER_IGNORED)


ROWS = (
    ClientProfile(
        "libcurl-7.83",
        "curl, libcurl",
        "7.83.1",
        "7.61 to 7.85",
        "curl",
        "curl lib/url.c check_noproxy: suffixes alone, no networks",
        (_CURL_7_85,),
        _CURL_VARIABLES,
        nodes=LINUX,
        note="Many systems contain it: RHEL 8 and 9, Ubuntu 20.04 and 22.04. Their git reads the list in the same way.",
        unknown="7.86.0 has its own defects (curl/curl#9813, #9842), fixed in 7.87.",
        credentials=Credentials.DECODED,
    ),
    ClientProfile(
        "curl",
        "curl",
        "7.88.1",
        "7.87 to 8.8",
        "curl",
        "curl lib/noproxy.c 7.86 to 8.8: CIDR, spaces separate, an IPv6 host is compared as a name",
        (_CURL_7,),
        _CURL_VARIABLES,
        nodes=LINUX,
        note="The client reads HTTPS_PROXY and NO_PROXY, but never HTTP_PROXY.",
        unknown="7.86.0 has its own defects (curl/curl#9813, #9842), fixed in 7.87.",
        credentials=Credentials.DECODED,
    ),
    ClientProfile(
        "libcurl-8.12",
        "curl, libcurl",
        "8.12.1",
        "8.9 to 8.17",
        "curl",
        "curl lib/noproxy.c since 8.9: commas alone separate, an IPv6 host is compared as a name",
        (_CURL_8_9,),
        _CURL_VARIABLES,
        nodes=BOTH,
        note="Part of Debian 13, and of Windows as curl.exe.",
        credentials=Credentials.DECODED,
    ),
    ClientProfile(
        "libcurl-8",
        "libcurl",
        "8.23.0",
        "8.18 or later",
        "curl",
        "curl lib/noproxy.c since 8.9 (commas alone separate) and 8.18 (IPv6 networks)",
        (_CURL_8,),
        _CURL_VARIABLES,
        nodes=BOTH,
        credentials=Credentials.DECODED,
    ),
    ClientProfile(
        "git",
        "git with libcurl of 7.87 to 8.8",
        "2.39.5, libcurl 7.88.1",
        "",
        "curl",
        "git http.c get_curl_handle: a variable that is empty counts; libcurl decides the rest",
        (_CURL_7,),
        replace(_CURL_VARIABLES, empty=Empty.OFF),
        nodes=BOTH,
        note="With another libcurl, it reads the list as that version does: Git for Windows contains 8.9 or later.",
        credentials=Credentials.DECODED,
    ),
    ClientProfile(
        "wget",
        "GNU Wget",
        "1.21.3",
        "1",
        "wget",
        "wget src/host.c sufmatch, src/utils.c sepstring, src/retr.c getproxy",
        (
            ProfilePass(
                splitting=Splitting(separator=r",\s*", trim="", empty_covers_root=True),
                host=HostReading(idn=Idn.ASCII),
                star=Star.NEVER,
            ),
        ),
        Variables(http=("http_proxy",), https=("https_proxy",), no=("no_proxy",)),
        nodes=LINUX,
        note="A space after an item is part of the item, which then matches nothing.",
        credentials=Credentials.DECODED,
    ),
    ClientProfile(
        "busybox-wget",
        "BusyBox wget",
        "1.35.0",
        "1",
        "wget",
        "busybox networking/wget.c: no list is read",
        (),
        Variables(http=("http_proxy",), https=("http_proxy",), no=()),
    ),
    ClientProfile(
        "apt",
        "apt",
        "2.6.1",
        "2",
        "apt",
        "apt-pkg/contrib/strutl.cc CheckDomainList, methods/http.cc",
        (
            ProfilePass(
                splitting=Splitting(trim=""),
                star=Star.NEVER,
                names=Names(bare=Covers.SUFFIX, leading_dots=TrailingDots.KEPT),
            ),
        ),
        Variables(
            http=("http_proxy",), https=("https_proxy", "http_proxy"), no=("no_proxy",), schemeless=Schemeless.FAILS_WHEN_USED
        ),
        note="The client does not drop spaces: in `a, b`, b has no effect.",
    ),
    ClientProfile(
        "aria2",
        "aria2",
        "1.36.0",
        "1.36",
        "aria2",
        "aria2 src/AbstractCommand.cc inNoProxy, src/network.cc noProxyDomainMatch, inSameCidrBlock",
        (
            ProfilePass(
                host=HostReading(Ipv4Hosts.SEEN),
                star=Star.NEVER,
                names=Names(bare=Covers.NAME, lower=False),
                addresses=Addresses(as_names=(), cidr=Cidr(loose=True, bits=Bits.TRIMMED, clamped=True)),
            ),
        ),
        Variables(http=("http_proxy",), https=("https_proxy",), every=("all_proxy",), no=("no_proxy",)),
    ),
    ClientProfile(
        "go",
        "Go net/http",
        "1.27.3",
        "1.23.7 to 1.23, 1.24.1 or later",
        "Go",
        "golang.org/x/net/http/httpproxy/proxy.go: names never match addresses",
        (_GO,),
        Variables(("HTTP_PROXY", "http_proxy"), ("HTTPS_PROXY", "https_proxy"), no=("NO_PROXY", "no_proxy"), cgi=Cgi.FAILS),
        implicit=_GO_LOOPBACK,
        nodes=BOTH,
        note="Used by containerd, kubelet, kubectl, docker. The client reads the variables once, at the first request.",
        credentials=Credentials.DECODED,
    ),
    ClientProfile(
        "go-1.19",
        "Go net/http",
        "1.19.8",
        "before 1.23.7, and 1.24.0",
        "Go",
        "golang.org/x/net/http/httpproxy/proxy.go of Go 1.19: names match addresses too",
        (replace(_GO, addresses=replace(_GO.addresses, as_names=(4, 6))),),
        Variables(("HTTP_PROXY", "http_proxy"), ("HTTPS_PROXY", "https_proxy"), no=("NO_PROXY", "no_proxy"), cgi=Cgi.FAILS),
        implicit=_GO_LOOPBACK,
    ),
    ClientProfile(
        "dotnet",
        ".NET HttpClient",
        "Core 3.1.23",
        "Core 3 to .NET 10",
        ".NET",
        "dotnet/runtime HttpEnvironmentProxy.cs IsMatchInBypassList, HttpEnvironmentProxy.Unix.cs",
        (_DOTNET,),
        _DOTNET_VARIABLES,
        nodes=BOTH,
        note=(
            "Also used by PowerShell 7. Windows PowerShell 5.1 reads the Internet options of Windows. On Windows, names of "
            "variables are case-insensitive."
        ),
        unknown=".NET 5 to 10 were not measured: their source compares items in the same way.",
    ),
    ClientProfile(
        "dotnet-11",
        ".NET HttpClient",
        "",
        "11 or later",
        ".NET",
        "dotnet/runtime#131397 (merged 2026-07-26): networks of both families in HttpEnvironmentProxy.cs",
        (replace(_DOTNET, addresses=Addresses(cidr=Cidr())),),
        _DOTNET_VARIABLES,
        note="According to the change, not measured.",
    ),
    ClientProfile(
        "uv",
        "uv (reqwest)",
        "0.13.8",
        "0.13",
        "Rust",
        "hyper-util src/client/proxy/matcher.rs",
        (_UV,),
        _UV_VARIABLES,
    ),
    ClientProfile(
        "deno",
        "Deno fetch",
        "2.9.6",
        "2.9",
        "Rust",
        "deno ext/fetch/proxy.rs NoProxy, from_env",
        (replace(_UV, splitting=Splitting(empty_covers_root=True), names=replace(_UV.names, lower=False)),),
        replace(_UV_VARIABLES, empty=Empty.NOT_SET, empty_list=Empty.NONE, every_first=True, cgi=Cgi.HTTP_IGNORED),
        credentials=Credentials.DECODED,
    ),
    ClientProfile(
        "bun",
        "Bun fetch",
        "1.4.5",
        "1.4",
        "Node",
        "bun src/dotenv/no_proxy.rs",
        (
            ProfilePass(
                splitting=Splitting(separator=r"[, \t\r\n]+"),
                host=replace(_WHATWG_HOST, brackets=False, trailing_dots=TrailingDots.ONE),
                star=Star.ITEM,
                ports=Ports.ONE_COLON_ZERO,
                names=Names(dotted=Covers.TREE, star_dot=Covers.TREE, trailing_dots=TrailingDots.ONE),
                addresses=Addresses(values=(4, 6), as_names=(), cidr=Cidr(brackets=True), mapped=True, brackets=True),
            ),
        ),
        Variables(every=("all_proxy", "ALL_PROXY")),
        credentials=Credentials.DECODED,
    ),
    ClientProfile(
        "grpc-core",
        "gRPC C-core (Python, C++, Ruby, PHP)",
        "grpcio 1.85.3",
        "1.85",
        "gRPC",
        "grpc src/core/handshaker/http_connect/http_proxy_mapper.cc",
        (
            ProfilePass(
                host=HostReading(zones=True),
                star=Star.NEVER,
                names=Names(dotted=Covers.TREE, root=False),
                addresses=Addresses(cidr=Cidr(bits=Bits.TRIMMED, clamped=True, brackets=True)),
            ),
        ),
        Variables(
            ("grpc_proxy", "https_proxy", "http_proxy"),
            ("grpc_proxy", "https_proxy", "http_proxy"),
            no=("no_grpc_proxy", "no_proxy"),
            empty=Empty.NONE,
            schemeless=Schemeless.IGNORED,
        ),
        note="One proxy for all requests; the client reads only lower-case variables.",
        credentials=Credentials.DECODED,
    ),
    ClientProfile(
        "fluent-bit",
        "Fluent Bit",
        "",
        "4",
        "Fluent Bit",
        "fluent-bit src/flb_upstream.c flb_upstream_needs_proxy: strcmp of each item with the host",
        (
            ProfilePass(
                splitting=Splitting(trim=""),
                host=HostReading(lower=False, lower_ipv6=False),
                names=Names(bare=Covers.NAME, dotted=Covers.NAME, leading_dots=TrailingDots.KEPT, lower=False),
            ),
        ),
        Variables(("HTTP_PROXY",), ("HTTP_PROXY",), no=("NO_PROXY",)),
        note="According to the source, not measured. It reads only names and addresses: add `kubernetes.default.svc`.",
    ),
    ClientProfile(
        "php-guzzle",
        "Guzzle on libcurl of 7.87 to 8.8 (PHP)",
        "7.4.5, libcurl 7.88.1",
        "",
        "PHP",
        "guzzle src/Client.php configureDefaults, src/Handler/CurlFactory.php; libcurl decides",
        (_CURL_7,),
        Variables(("HTTP_PROXY", "http_proxy"), ("HTTPS_PROXY", "https_proxy"), every=("all_proxy", "ALL_PROXY")),
        note="Only command-line programs read HTTP_PROXY.",
        credentials=Credentials.DECODED,
    ),
    ClientProfile(
        "ruby",
        "Ruby Net::HTTP",
        "3.1.2",
        "3.1",
        "Ruby",
        "ruby lib/uri/generic.rb find_proxy, use_proxy?; lib/net/http.rb proxy_uri asks for http always",
        (_RUBY,),
        Variables(
            https=("http_proxy", "HTTP_PROXY"),
            empty=Empty.NONE,
            cgi=Cgi.UPPER_IGNORED_CGI_READ,
            schemeless=Schemeless.FAILS_WHEN_USED,
        ),
        implicit=(Implicit(networks=("127.0.0.0/8", "::1/128")),),
        resolves=True,
    ),
    ClientProfile(
        "ruby-open-uri",
        "Ruby open-uri",
        "3.1.2",
        "3.1",
        "Ruby",
        "ruby lib/uri/generic.rb find_proxy, use_proxy?",
        (_RUBY,),
        Variables(empty=Empty.NONE, cgi=Cgi.UPPER_IGNORED_CGI_READ, schemeless=Schemeless.FAILS_WHEN_USED),
        implicit=(Implicit(networks=("127.0.0.0/8", "::1/128")),),
        resolves=True,
    ),
    ClientProfile(
        "perl-lwp",
        "libwww-perl",
        "6.68",
        "6",
        "Perl",
        "LWP/UserAgent.pm env_proxy, _need_proxy",
        (
            ProfilePass(
                splitting=Splitting(separator=r"\s*,\s*", empty_covers_all=True),
                host=HostReading(lower=False, lower_ipv6=False),
                star=Star.NEVER,
                names=Names(bare=Covers.SUFFIX, leading_dots=TrailingDots.KEPT, lower=False),
            ),
        ),
        Variables(
            ("HTTP_PROXY", "http_proxy"),
            ("HTTPS_PROXY", "https_proxy"),
            no=("NO_PROXY", "no_proxy"),
            any_case=True,
            cgi=Cgi.UPPER_IGNORED_CGI_READ,
            schemeless=Schemeless.FAILS,
        ),
    ),
    ClientProfile(
        "http-tiny",
        "HTTP::Tiny (core Perl)",
        "0.080",
        "0.080",
        "Perl",
        "HTTP/Tiny.pm _set_proxies, _open_handle",
        (
            ProfilePass(
                splitting=Splitting(separator=r"\s*,\s*", empty_covers_all=True),
                host=HostReading(brackets=True),
                star=Star.NEVER,
                names=Names(bare=Covers.SUFFIX, leading_dots=TrailingDots.KEPT, lower=False),
            ),
        ),
        Variables(
            every=("all_proxy", "ALL_PROXY"), no=("no_proxy",), cgi=Cgi.UPPER_IGNORED_CGI_READ, schemeless=Schemeless.FAILS
        ),
        credentials=Credentials.DECODED,
    ),
)
