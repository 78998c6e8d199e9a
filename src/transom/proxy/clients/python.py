"""Python's clients."""

from msgspec.structs import replace

from transom.proxy.clients.profile import (
    BOTH,
    Addresses,
    Bits,
    Cgi,
    Cidr,
    Client,
    Covers,
    Empty,
    Items,
    Names,
    Pass,
    Ports,
    Schemeless,
    Source,
    Splitting,
    Star,
    Variables,
)
from transom.proxy.clients.urls import HostReading, Idn, Ipv4Hosts, Ipv6Hosts, TrailingDots

_WRITTEN_HOST = HostReading()
_PYTHON_NAMES = Names(dotted=Covers.TREE, leading_dots=TrailingDots.ALL)
_PYTHON_VARIABLES = Variables(empty=Empty.NONE, any_case=True, cgi=Cgi.UPPER_IGNORED)
_URLLIB = Pass(host=HostReading(brackets=True, userinfo=True), names=_PYTHON_NAMES, ports=Ports.TEXT)
_URLLIB_HOSTNAME = replace(_URLLIB, host=_WRITTEN_HOST, ports=Ports.NOT_READ)
_REQUESTS_HOST = HostReading(Ipv4Hosts.SEEN, idn=Idn.ASCII)
_REQUESTS = Pass(
    splitting=Splitting(drop=" ", trim=""),
    host=_REQUESTS_HOST,
    star=Star.NEVER,
    names=replace(_PYTHON_NAMES, lower=False),
    ports=Ports.TEXT,
    addresses=Addresses(as_names=(6,), cidr=Cidr(families=(4,), loose=True, bits=Bits.PYTHON_INT, zero=None)),
)
_REQUESTS_2_31 = replace(_REQUESTS, names=Names(bare=Covers.SUFFIX, leading_dots=TrailingDots.KEPT, lower=False))
_REQUESTS_URLLIB = replace(_URLLIB_HOSTNAME, host=HostReading(idn=Idn.ASCII))
_AIOHTTP = replace(_URLLIB_HOSTNAME, host=HostReading(idn=Idn.UNICODE, ipv6=Ipv6Hosts.COMPRESSED))


ROWS = (
    Client(
        "urllib",
        "Python 3.11 urllib",
        "Python",
        "CPython Lib/urllib/request.py proxy_bypass_environment, getproxies_environment",
        (_URLLIB,),
        _PYTHON_VARIABLES,
        nodes=BOTH,
    ),
    Client(
        "requests",
        "requests 2.34",
        "Python",
        "requests/utils.py should_bypass_proxies since 2.34 (label boundary), then urllib",
        (_REQUESTS, _REQUESTS_URLLIB),
        replace(_PYTHON_VARIABLES, every=("all_proxy", "ALL_PROXY"), empty_list=Empty.NOT_SET),
        nodes=BOTH,
        note="cloud-init and cloudbase-init use it.",
    ),
    Client(
        "pip",
        "pip 23.2 (requests 2.31)",
        "Python",
        "requests/utils.py should_bypass_proxies before 2.34 (plain suffix), then urllib",
        (_REQUESTS_2_31, _REQUESTS_URLLIB),
        replace(_PYTHON_VARIABLES, every=("all_proxy", "ALL_PROXY"), empty_list=Empty.NOT_SET),
    ),
    Client(
        "httpx",
        "httpx 0.28",
        "Python",
        "httpx/_utils.py get_environment_proxies, URLPattern",
        (
            Pass(
                host=HostReading(Ipv4Hosts.CHECKED, idn=Idn.UNICODE_IF_FIRST, lower_ipv6=False),
                star=Star.ITEM,
                items=Items.HTTPX_URLS,
            ),
        ),
        replace(_PYTHON_VARIABLES, every=("all_proxy", "ALL_PROXY")),
        note="An item that makes no URL makes every request fail.",
    ),
    Client(
        "aiohttp",
        "aiohttp 3.14 (trust_env)",
        "Python",
        "aiohttp/helpers.py get_env_proxy_for_url: urllib on the host name",
        (_AIOHTTP,),
        replace(_PYTHON_VARIABLES, schemeless=Schemeless.FAILS_WHEN_USED),
    ),
    Client(
        "kubernetes-python",
        "kubernetes 37 (Python)",
        "Python",
        "kubernetes/client/rest.py should_bypass_proxies, configuration.py",
        (
            Pass(
                star=Star.ITEM,
                ports=Ports.NETLOC,
                names=_PYTHON_NAMES,
                addresses=Addresses(values=(4, 6), cidr=Cidr(masks=True)),
            ),
        ),
        replace(_PYTHON_VARIABLES, every=("all_proxy", "ALL_PROXY"), schemeless=Schemeless.FAILS_WHEN_USED),
    ),
    Client(
        "kubernetes-python-33",
        "kubernetes 33 (Python)",
        "Python",
        "kubernetes/client/configuration.py 33: proxy and no_proxy are None",
        source=Source.NOWHERE,
    ),
    Client(
        "kubernetes-asyncio",
        "kubernetes_asyncio 36",
        "Python",
        "kubernetes_asyncio rest.py: aiohttp with trust_env",
        (_AIOHTTP,),
        replace(_PYTHON_VARIABLES, schemeless=Schemeless.FAILS_WHEN_USED),
    ),
)
