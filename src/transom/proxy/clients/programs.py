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


ROWS = (
    ClientProfile(
        "curl",
        "curl 7.88",
        "curl",
        "curl lib/noproxy.c 7.86 to 8.8: CIDR, blanks separate, an IPv6 host is compared as a name",
        (_CURL_7,),
        _CURL_VARIABLES,
        nodes=LINUX,
        note="HTTP_PROXY is never read, HTTPS_PROXY and NO_PROXY are.",
    ),
    ClientProfile(
        "libcurl-8",
        "libcurl 8.23",
        "curl",
        "curl lib/noproxy.c since 8.9 (commas alone separate) and 8.18 (IPv6 networks)",
        (_CURL_8,),
        _CURL_VARIABLES,
        nodes=BOTH,
        note="Windows ships curl.exe 8.",
    ),
    ClientProfile(
        "git",
        "git 2.39 (libcurl 7.88)",
        "curl",
        "git http.c get_curl_handle: a variable that is empty counts; libcurl decides the rest",
        (_CURL_7,),
        replace(_CURL_VARIABLES, empty=Empty.OFF),
        nodes=BOTH,
    ),
    ClientProfile(
        "wget",
        "GNU Wget 1.21",
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
        note="A blank after an item belongs to the item, which then matches nothing.",
    ),
    ClientProfile(
        "busybox-wget",
        "BusyBox 1.35 wget",
        "wget",
        "busybox networking/wget.c: no list is read",
        (),
        Variables(http=("http_proxy",), https=("http_proxy",), no=()),
    ),
    ClientProfile(
        "apt",
        "apt 2.6",
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
        note="Blanks are not dropped: `a, b` loses b.",
    ),
    ClientProfile(
        "aria2",
        "aria2 1.36",
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
        "Go 1.27 net/http",
        "Go",
        "golang.org/x/net/http/httpproxy/proxy.go: names never match addresses",
        (_GO,),
        Variables(("HTTP_PROXY", "http_proxy"), ("HTTPS_PROXY", "https_proxy"), no=("NO_PROXY", "no_proxy"), cgi=Cgi.FAILS),
        implicit=_GO_LOOPBACK,
        nodes=BOTH,
        note="containerd, kubelet, kubectl, docker. The variables are read once, at the first request.",
    ),
    ClientProfile(
        "go-1.19",
        "Go 1.19 net/http",
        "Go",
        "golang.org/x/net/http/httpproxy/proxy.go of Go 1.19: names match addresses too",
        (replace(_GO, addresses=replace(_GO.addresses, as_names=(4, 6))),),
        Variables(("HTTP_PROXY", "http_proxy"), ("HTTPS_PROXY", "https_proxy"), no=("NO_PROXY", "no_proxy"), cgi=Cgi.FAILS),
        implicit=_GO_LOOPBACK,
    ),
    ClientProfile(
        "dotnet",
        ".NET HttpClient",
        ".NET",
        "dotnet/runtime HttpEnvironmentProxy.cs IsMatchInBypassList, HttpEnvironmentProxy.Unix.cs",
        (
            ProfilePass(
                host=HostReading(Ipv4Hosts.CANONICAL_UNDOTTED, Ipv6Hosts.COMPRESSED, brackets=True),
                star=Star.NEVER,
                names=Names(bare=Covers.NAME, dotted=Covers.TREE),
            ),
        ),
        Variables(every=("all_proxy", "ALL_PROXY"), empty_list=Empty.NONE, cgi=Cgi.GATEWAY_UPPER_IGNORED),
        nodes=BOTH,
        note="PowerShell 7 too. On Windows the names of variables have no case.",
    ),
    ClientProfile(
        "uv",
        "uv 0.13 (reqwest)",
        "Rust",
        "hyper-util src/client/proxy/matcher.rs",
        (
            ProfilePass(
                host=replace(_WHATWG_HOST, brackets=False),
                star=Star.ITEM_FOR_NAMES,
                names=Names(dotted=Covers.TREE),
                addresses=Addresses(values=(4, 6), as_names=(), cidr=Cidr()),
            ),
        ),
        Variables(
            ("HTTP_PROXY", "http_proxy"),
            ("HTTPS_PROXY", "https_proxy"),
            every=("ALL_PROXY", "all_proxy"),
            no=("NO_PROXY", "no_proxy"),
            empty=Empty.NONE,
            cgi=Cgi.ALL_IGNORED,
        ),
    ),
    ClientProfile(
        "ruby",
        "Ruby 3.1 Net::HTTP",
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
        "Ruby 3.1 open-uri",
        "Ruby",
        "ruby lib/uri/generic.rb find_proxy, use_proxy?",
        (_RUBY,),
        Variables(empty=Empty.NONE, cgi=Cgi.UPPER_IGNORED_CGI_READ, schemeless=Schemeless.FAILS_WHEN_USED),
        implicit=(Implicit(networks=("127.0.0.0/8", "::1/128")),),
        resolves=True,
    ),
    ClientProfile(
        "perl-lwp",
        "libwww-perl 6.68",
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
)
