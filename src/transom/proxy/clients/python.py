"""Python's clients."""

from msgspec.structs import replace

from transom.proxy.clients import profile
from transom.proxy.clients.urls import HostReading, Idn, Ipv4Hosts, Ipv6Hosts, TrailingDots

_WRITTEN_HOST = HostReading()
_PYTHON_NAMES = profile.Names(dotted=profile.Covers.TREE, leading_dots=TrailingDots.ALL)
_PYTHON_VARIABLES = profile.Variables(empty=profile.Empty.NONE, any_case=True, cgi=profile.Cgi.UPPER_IGNORED)
_URLLIB = profile.ProfilePass(host=HostReading(brackets=True, userinfo=True), names=_PYTHON_NAMES, ports=profile.Ports.TEXT)
_URLLIB_HOSTNAME = replace(_URLLIB, host=_WRITTEN_HOST, ports=profile.Ports.NOT_READ)
_REQUESTS_HOST = HostReading(Ipv4Hosts.SEEN, idn=Idn.ASCII)
_REQUESTS = profile.ProfilePass(
    splitting=profile.Splitting(drop=" ", trim=""),
    host=_REQUESTS_HOST,
    star=profile.Star.NEVER,
    names=replace(_PYTHON_NAMES, lower=False),
    ports=profile.Ports.TEXT,
    addresses=profile.Addresses(
        as_names=(6,), cidr=profile.Cidr(families=(4,), loose=True, bits=profile.Bits.PYTHON_INT, zero=None)
    ),
)
_REQUESTS_2_31 = replace(
    _REQUESTS, names=profile.Names(bare=profile.Covers.SUFFIX, leading_dots=TrailingDots.KEPT, lower=False)
)
_REQUESTS_URLLIB = replace(_URLLIB_HOSTNAME, host=HostReading(idn=Idn.ASCII))
_AIOHTTP = replace(_URLLIB_HOSTNAME, host=HostReading(idn=Idn.UNICODE, ipv6=Ipv6Hosts.COMPRESSED))


ROWS = (
    profile.ClientProfile(
        "urllib",
        "Python 3.11 urllib",
        "Python",
        "CPython Lib/urllib/request.py proxy_bypass_environment, getproxies_environment",
        (_URLLIB,),
        _PYTHON_VARIABLES,
        nodes=profile.BOTH,
    ),
    profile.ClientProfile(
        "requests",
        "requests 2.34",
        "Python",
        "requests/utils.py should_bypass_proxies since 2.34 (label boundary), then urllib",
        (_REQUESTS, _REQUESTS_URLLIB),
        replace(_PYTHON_VARIABLES, every=("all_proxy", "ALL_PROXY"), empty_list=profile.Empty.NOT_SET),
        nodes=profile.BOTH,
        note="cloud-init and cloudbase-init use it.",
    ),
    profile.ClientProfile(
        "pip",
        "pip 23.2 (requests 2.31)",
        "Python",
        "requests/utils.py should_bypass_proxies before 2.34 (plain suffix), then urllib",
        (_REQUESTS_2_31, _REQUESTS_URLLIB),
        replace(_PYTHON_VARIABLES, every=("all_proxy", "ALL_PROXY"), empty_list=profile.Empty.NOT_SET),
    ),
    profile.ClientProfile(
        "httpx",
        "httpx 0.28",
        "Python",
        "httpx/_utils.py get_environment_proxies, URLPattern",
        (
            profile.ProfilePass(
                host=HostReading(Ipv4Hosts.CHECKED, idn=Idn.UNICODE_IF_FIRST, lower_ipv6=False),
                star=profile.Star.ITEM,
                items=profile.Items.HTTPX_URLS,
            ),
        ),
        replace(_PYTHON_VARIABLES, every=("all_proxy", "ALL_PROXY")),
        note="An item that makes no URL makes every request fail.",
    ),
    profile.ClientProfile(
        "aiohttp",
        "aiohttp 3.14 (trust_env)",
        "Python",
        "aiohttp/helpers.py get_env_proxy_for_url: urllib on the host name",
        (_AIOHTTP,),
        replace(_PYTHON_VARIABLES, schemeless=profile.Schemeless.FAILS_WHEN_USED),
    ),
    profile.ClientProfile(
        "kubernetes-python",
        "kubernetes 37 (Python)",
        "Python",
        "kubernetes/client/rest.py should_bypass_proxies, configuration.py",
        (
            profile.ProfilePass(
                star=profile.Star.ITEM,
                ports=profile.Ports.NETLOC,
                names=_PYTHON_NAMES,
                addresses=profile.Addresses(values=(4, 6), cidr=profile.Cidr(masks=True)),
            ),
        ),
        replace(_PYTHON_VARIABLES, every=("all_proxy", "ALL_PROXY"), schemeless=profile.Schemeless.FAILS_WHEN_USED),
    ),
    profile.ClientProfile(
        "kubernetes-python-33",
        "kubernetes 33 (Python)",
        "Python",
        "kubernetes/client/configuration.py 33: proxy and no_proxy are None",
        source=profile.Source.NOWHERE,
    ),
    profile.ClientProfile(
        "kubernetes-asyncio",
        "kubernetes_asyncio 36",
        "Python",
        "kubernetes_asyncio rest.py: aiohttp with trust_env",
        (_AIOHTTP,),
        replace(_PYTHON_VARIABLES, schemeless=profile.Schemeless.FAILS_WHEN_USED),
    ),
)
