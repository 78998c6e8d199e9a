"""Clients whose list is not a NO_PROXY: Java's nonProxyHosts, Chromium's rules, WinINet's ProxyOverride."""

from msgspec.structs import replace

from transom.proxy.clients.profile import (
    Addresses,
    ClientProfile,
    Covers,
    Glob,
    Implicit,
    Items,
    Local,
    Names,
    ProfilePass,
    Source,
    Splitting,
    Star,
)
from transom.proxy.clients.urls import HostReading, Idn, Ipv4Hosts, Ipv6Hosts, TrailingDots

_WHATWG_HOST = HostReading(Ipv4Hosts.WHATWG, Ipv6Hosts.HEX, Idn.ASCII, brackets=True)
_JAVA_HOST = HostReading(brackets=True)
_JAVA_DEFAULTS = "localhost|127.*|[::1]|0.0.0.0|[::0]"
_NON_PROXY_HOSTS = ProfilePass(
    splitting=Splitting(separator=r"\|", trim=""),
    host=_JAVA_HOST,
    star=Star.NEVER,
    names=Names(bare=Covers.NAME, dotted=Covers.NAME, leading_dots=TrailingDots.KEPT, glob=Glob.ENDS),
)
_OVERRIDE_NAMES = Names(bare=Covers.NAME, leading_dots=TrailingDots.KEPT, glob=Glob.STAR)
_WININET_IMPLICIT = Implicit(
    names=("localhost", "loopback"),
    networks=("127.0.0.1/32", "::1/128", "169.254.0.0/16", "fe80::/10"),
    removable=True,
)
_WININET = ProfilePass(
    splitting=Splitting(separator=r"[;\s]+"),
    host=HostReading(Ipv4Hosts.CANONICAL, Ipv6Hosts.COMPRESSED, brackets=True),
    star=Star.NEVER,
    names=_OVERRIDE_NAMES,
    items=Items.OVERRIDES,
)


def _build_non_proxy_hosts(name: str, client: str) -> ClientProfile:
    return ClientProfile(
        name,
        client,
        "17.0.15",
        "17",
        "Java",
        "jdk sun/net/spi/DefaultProxySelector.java toPattern",
        (_NON_PROXY_HOSTS,),
        source=Source.OPTION,
        language="nonProxyHosts",
        default_items=_JAVA_DEFAULTS,
    )


ROWS = (
    ClientProfile(
        "java",
        "Java, -Dhttp.proxyHost, -Dhttps.proxyHost",
        "17.0.15",
        "17",
        "Java",
        "jdk sun/net/spi/DefaultProxySelector.java",
        (_NON_PROXY_HOSTS,),
        source=Source.OPTION,
        default_items=_JAVA_DEFAULTS,
        note="The client does not read NO_PROXY; localhost bypasses the proxy by default.",
    ),
    ClientProfile(
        "java-env",
        "Java without options",
        "17.0.15",
        "17",
        "Java",
        "jdk sun/net/spi/DefaultProxySelector.java: system properties alone",
        source=Source.NOWHERE,
    ),
    _build_non_proxy_hosts("java-nonproxyhosts", "Java HttpURLConnection, -Dhttp.nonProxyHosts"),
    _build_non_proxy_hosts("java-httpclient", "Java HttpClient, -Dhttp.nonProxyHosts"),
    ClientProfile(
        "chromium-bypass-rules",
        "Chromium",
        "",
        "",
        "Windows lists",
        "chromium net/proxy_resolution/proxy_bypass_rules.cc, net/base/scheme_host_port_matcher_rule.cc,"
        " net/base/ip_address.cc (IPAddressMatchesPrefix)",
        (
            ProfilePass(
                splitting=Splitting(separator=r"[,;]"),
                host=_WHATWG_HOST,
                star=Star.NEVER,
                names=Names(glob=Glob.STAR_AND_QUESTION),
                addresses=Addresses(mapped_networks=True),
                items=Items.CHROMIUM,
            ),
        ),
        source=Source.OPTION,
        language="chromium",
        implicit=(
            Implicit(
                names=("localhost", "localhost."),
                below=("localhost", "localhost."),
                networks=(
                    "127.0.0.0/8",
                    "::1/128",
                    "169.254.0.0/16",
                    "fe80::/10",
                    "::ffff:127.0.0.0/104",
                    "::ffff:169.254.0.0/112",
                ),
                removable=True,
            ),
        ),
    ),
    ClientProfile(
        "wininet",
        "WinINet",
        "",
        "",
        "Windows lists",
        "gnoays/proxy-watch (second hand); INTERNET_OPTION_PROXY",
        (_WININET,),
        source=Source.OPTION,
        language="ProxyOverride",
        implicit=(_WININET_IMPLICIT,),
        slash_is_everything=True,
    ),
    ClientProfile(
        "winhttp",
        "WinHTTP",
        "",
        "",
        "Windows lists",
        "gnoays/proxy-watch (second hand); WINHTTP_PROXY_INFO",
        (_WININET,),
        source=Source.OPTION,
        language="ProxyOverride",
        implicit=(_WININET_IMPLICIT, Implicit(networks=("127.0.0.0/8",))),
        slash_is_everything=True,
    ),
    ClientProfile(
        "dotnet-windows-proxyoverride",
        ".NET on Windows, settings of WinINet",
        "",
        "",
        "Windows lists",
        "dotnet/runtime HttpWindowsProxy.cs, SimpleRegex.IsMatchWithStarWildcard",
        (
            ProfilePass(
                splitting=Splitting(pattern=r"\s*(?:https?://)?\[?([^ ;\]]+)[^;]*(?:;|$)()"),
                host=HostReading(Ipv4Hosts.CANONICAL, Ipv6Hosts.COMPRESSED, Idn.ASCII),
                star=Star.NEVER,
                names=_OVERRIDE_NAMES,
                items=Items.OVERRIDES,
                local=Local.NAMES_AND_LOOPBACK,
            ),
        ),
        source=Source.OPTION,
        language="ProxyOverride",
    ),
    ClientProfile(
        "winreg-python",
        "Python urllib on Windows, settings of WinINet",
        "3.13.0",
        "3.13",
        "Windows lists",
        "CPython Lib/urllib/request.py _proxy_bypass_winreg_override",
        (
            ProfilePass(
                splitting=Splitting(separator=";"),
                host=HostReading(brackets=True, userinfo=True),
                star=Star.NEVER,
                names=replace(_OVERRIDE_NAMES, glob=Glob.FNMATCH),
                items=Items.OVERRIDES,
                local=Local.UNDOTTED,
            ),
        ),
        source=Source.OPTION,
        language="ProxyOverride",
    ),
)
