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
_WEBSOCKET = profile.ProfilePass(
    splitting=profile.Splitting(drop=" ", trim="", empty_covers_root=True),
    star=profile.Star.ITEM,
    names=profile.Names(dotted=profile.Covers.SUFFIX, leading_dots=TrailingDots.ALL, lower=False),
    addresses=profile.Addresses(values=(4, 6), as_names=(), cidr=profile.Cidr(masks=True, host_bits=False)),
)
_HTTPLIB2 = profile.ProfilePass(
    splitting=profile.Splitting(trim=""),
    host=HostReading(idn=Idn.ASCII),
    names=profile.Names(bare=profile.Covers.NAME, dotted=profile.Covers.TREE, lower=False),
)
_KUBERNETES_VARIABLES = profile.Variables(
    ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY"), ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY")
)
_AIOHTTP = replace(_URLLIB_HOSTNAME, host=HostReading(idn=Idn.UNICODE, ipv6=Ipv6Hosts.COMPRESSED, zones=True))


ROWS = (
    profile.ClientProfile(
        "urllib",
        "Python urllib",
        "3.11.7",
        "3.11",
        "Python",
        "CPython Lib/urllib/request.py proxy_bypass_environment, getproxies_environment",
        (_URLLIB,),
        _PYTHON_VARIABLES,
        nodes=profile.BOTH,
        credentials=profile.Credentials.DECODED,
    ),
    profile.ClientProfile(
        "requests",
        "requests",
        "2.34.2",
        "2.34 or later",
        "Python",
        "requests/utils.py should_bypass_proxies since 2.34 (label boundary), then urllib",
        (_REQUESTS, _REQUESTS_URLLIB),
        replace(_PYTHON_VARIABLES, every=("all_proxy", "ALL_PROXY"), empty_list=profile.Empty.NOT_SET),
        nodes=profile.BOTH,
        note="Used by cloud-init and cloudbase-init.",
        credentials=profile.Credentials.DECODED,
    ),
    profile.ClientProfile(
        "pip",
        "pip, requests",
        "23.2.1, requests 2.31.0",
        "23.2, requests before 2.34",
        "Python",
        "requests/utils.py should_bypass_proxies before 2.34 (plain suffix), then urllib",
        (_REQUESTS_2_31, _REQUESTS_URLLIB),
        replace(_PYTHON_VARIABLES, every=("all_proxy", "ALL_PROXY"), empty_list=profile.Empty.NOT_SET),
    ),
    profile.ClientProfile(
        "httpx",
        "httpx",
        "0.28.1",
        "0.28",
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
        note="An item that is not part of a valid URL makes every request fail.",
        credentials=profile.Credentials.DECODED,
    ),
    profile.ClientProfile(
        "httpx2",
        "httpx2",
        "2.16.2",
        "2.16",
        "Python",
        "httpx2/_utils.py get_environment_proxies, URLPattern",
        (
            profile.ProfilePass(
                host=HostReading(Ipv4Hosts.CHECKED, idn=Idn.UNICODE, lower_ipv6=False),
                star=profile.Star.ITEM,
                items=profile.Items.HTTPX2_URLS,
            ),
        ),
        replace(_PYTHON_VARIABLES, every=("all_proxy", "ALL_PROXY")),
        note="The successor of httpx: it accepts IPv6 networks and `[addr]`, but fails on names with `xn--`.",
        credentials=profile.Credentials.DECODED,
    ),
    profile.ClientProfile(
        "aiohttp",
        "aiohttp (trust_env)",
        "3.14.5",
        "3.14",
        "Python",
        "aiohttp/helpers.py get_env_proxy_for_url: urllib on the host name",
        (_AIOHTTP,),
        replace(_PYTHON_VARIABLES, schemeless=profile.Schemeless.FAILS_WHEN_USED),
        credentials=profile.Credentials.DECODED,
    ),
    profile.ClientProfile(
        "websocket-client",
        "websocket-client",
        "1.9.2",
        "1.9",
        "Python",
        "websocket/_url.py _is_no_proxy_host, get_proxy_info",
        (_WEBSOCKET,),
        profile.Variables(empty=profile.Empty.NONE, schemeless=profile.Schemeless.IGNORED),
        credentials=profile.Credentials.DECODED,
    ),
    profile.ClientProfile(
        "httplib2",
        "httplib2",
        "0.32.1",
        "0.32",
        "Python",
        "httplib2/__init__.py ProxyInfo.bypass_host",
        (_HTTPLIB2,),
        profile.Variables(empty=profile.Empty.NONE, schemeless=profile.Schemeless.IGNORED),
        note="Used by gcloud and google-api-python-client.",
        credentials=profile.Credentials.UNDECODED,
    ),
    profile.ClientProfile(
        "kubernetes-python",
        "kubernetes (Python)",
        "37.0.2",
        "37 or later",
        "Python",
        "kubernetes/client/rest.py should_bypass_proxies, configuration.py",
        (
            profile.ProfilePass(
                star=profile.Star.ITEM,
                ports=profile.Ports.NETLOC,
                names=_PYTHON_NAMES,
                addresses=profile.Addresses(values=(4, 6), cidr=profile.Cidr(masks=True), zones=True),
            ),
        ),
        replace(_PYTHON_VARIABLES, every=("all_proxy", "ALL_PROXY"), schemeless=profile.Schemeless.FAILS_WHEN_USED),
        note="Its exec, attach, cp and port-forward use another reader: kubernetes-python-stream.",
        credentials=profile.Credentials.NOT_SENT,
    ),
    profile.ClientProfile(
        "kubernetes-python-stream",
        "kubernetes (Python) exec, attach, port-forward",
        "37.0.1, websocket-client 1.9.2",
        "37",
        "Python",
        "kubernetes/stream/ws_client.py websocket_proxycare, websocket/_url.py",
        (_WEBSOCKET,),
        replace(
            _PYTHON_VARIABLES,
            every=("all_proxy", "ALL_PROXY"),
            cgi=profile.Cgi.NO_CARE,
            schemeless=profile.Schemeless.FAILS_WHEN_USED,
        ),
        note="A Configuration that contains the list keeps spaces: ` corp.example` then covers nothing.",
        unknown="Other versions were not measured.",
        credentials=profile.Credentials.NOT_SENT,
    ),
    profile.ClientProfile(
        "kubernetes-python-36",
        "kubernetes (Python)",
        "36.0.0",
        "36",
        "Python",
        "kubernetes/client/configuration.py, rest.py of 36: should_bypass_proxies of requests",
        (replace(_REQUESTS, host=HostReading(Ipv4Hosts.SEEN)), _URLLIB_HOSTNAME),
        replace(_KUBERNETES_VARIABLES, schemeless=profile.Schemeless.FAILS_WHEN_USED),
        credentials=profile.Credentials.NOT_SENT,
    ),
    profile.ClientProfile(
        "kubernetes-python-34",
        "kubernetes (Python)",
        "34.1.0, 35.0.0",
        "34 and 35",
        "Python",
        "kubernetes/client/configuration.py of 34 and 35: no_proxy is None, whatever the variables say",
        (),
        replace(_KUBERNETES_VARIABLES, no=(), schemeless=profile.Schemeless.FAILS),
        note="The client ignores the list and uses the proxy. 36 and later read the list (kubernetes-client/python#2460).",
        credentials=profile.Credentials.NOT_SENT,
    ),
    profile.ClientProfile(
        "kubernetes-python-33",
        "kubernetes (Python)",
        "33.1.0",
        "33 or earlier",
        "Python",
        "kubernetes/client/configuration.py 33: proxy and no_proxy are None",
        source=profile.Source.NOWHERE,
    ),
    profile.ClientProfile(
        "kubernetes-asyncio",
        "kubernetes_asyncio",
        "36.1.0",
        "36",
        "Python",
        "kubernetes_asyncio rest.py: aiohttp with trust_env",
        (_AIOHTTP,),
        replace(_PYTHON_VARIABLES, schemeless=profile.Schemeless.FAILS_WHEN_USED),
    ),
)
