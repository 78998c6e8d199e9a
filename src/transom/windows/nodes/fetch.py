"""A fetch by the host itself, which proves proxy and CAs together: what curl.exe is told, and what its answers mean.

curl.exe is part of Windows since Server 2019 (Microsoft: "Tar and Curl Come to Windows") and uses Schannel, so it trusts what
the host trusts. What it is told stands in files that it reads with `-K`; the exit codes are those of libcurl-errors(3).
"""

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from transom.proxy import url
from transom.proxy.clients import CLIENTS
from transom.proxy.clients.decision import decide
from transom.proxy.secret import Secret
from transom.proxy.settings import Egress

SECONDS: Final = 15
"""For one fetch."""
ENDPOINTS: Final = 3
"""So many endpoints are tried, until one answers."""
MARK: Final = "transom-fetched"
"""How the line begins that curl prints: the status of the endpoint, and that of the proxy's answer to CONNECT."""

_RESOLVE_PROXY, _CONNECT, _HTTP, _TIMEOUT = 5, 7, 22, 28
_TLS: Final = frozenset({35, 51, 58, 59, 60, 77, 80, 83, 90, 91})


class Fetched(msgspec.Struct, frozen=True):
    """One try: which endpoint (its number), the exit code of curl, and the two HTTP statuses (0: there was none)."""

    endpoint: int
    code: int
    status: int = 0
    connect: int = 0


class FetchResult(msgspec.Struct, frozen=True):
    """`True`: something was fetched. `False`: reason (one word) and message name the hop that fails. No secret is in them."""

    works: Literal["True", "False", "Unknown"]
    reason: str
    message: str


def configurations(egress: Egress) -> tuple[Secret, ...]:
    """The text of a file for `curl.exe -K`, one for each endpoint that is tried; none where the settings name none.

    What goes past the proxy says nothing of it: an endpoint whose scheme has none, or that NO_PROXY covers as Go reads it.

    Schannel asks for revocation lists, which nobody promised to be within reach; Go and .NET do not ask for them.
    """
    return tuple(Secret(_configuration(egress, endpoint)) for endpoint in _endpoints(egress))


def _endpoints(egress: Egress) -> tuple[str, ...]:
    """Those that are tried, in order: the numbers of `Fetched` count them."""
    through = (
        endpoint
        for endpoint in egress.readiness_endpoints
        if decide(CLIENTS["go"], endpoint, environment=egress.variables).bypass is False
    )
    return tuple(through)[:ENDPOINTS]


def _configuration(egress: Egress, endpoint: str) -> str:
    proxy = _proxy(egress, endpoint)
    options = {
        "url": endpoint,
        "proxy": proxy.reveal() if proxy else "",
        "noproxy": egress.no_proxy,
        "max-time": str(SECONDS),
        "output": "NUL",
        "write-out": f"{MARK} %{{http_code}} %{{http_connect}}\n",
    }
    lines = [f"{name} = {_quoted(value)}" for name, value in options.items()]
    return "\r\n".join((*lines, "silent", "fail", "ssl-no-revoke", ""))


def _quoted(text: str) -> str:
    """As curl's configuration files write it (curl(1), `--config`)."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _proxy(egress: Egress, endpoint: str) -> Secret | None:
    return egress.http_proxy if endpoint.lower().startswith("http:") else egress.https_proxy


def judge(egress: Egress, fetched: Sequence[Fetched] | None) -> FetchResult:
    """What the tries of a host say; None: it has no curl."""
    if not egress.readiness_endpoints:
        return FetchResult("Unknown", "NotProbed", "nothing was fetched from the host: spec.readinessEndpoints is not set")
    endpoints = _endpoints(egress)
    if not endpoints:
        return FetchResult("Unknown", "NotProbed", "nothing was fetched from the host: no endpoint is behind the proxy for it")
    if fetched is None:
        return FetchResult("Unknown", "NotProbed", "nothing was fetched from the host: it has no curl.exe")
    if not fetched:
        return FetchResult("Unknown", "NotProbed", "nothing was fetched from the host")
    for one in fetched:
        if one.code == 0:
            return FetchResult("True", "Fetched", f"the host fetched {_way(egress, endpoints[one.endpoint])}")
    return _failure(egress, endpoints[fetched[0].endpoint], fetched[0])


def fails(egress: Egress, fetched: Sequence[Fetched] | None) -> bool:
    """Whether `judge` says that the host has no egress."""
    if not fetched or any(one.code == 0 for one in fetched):
        return False
    return judge(egress, fetched).works == "False"


def _failure(egress: Egress, endpoint: str, one: Fetched) -> FetchResult:
    if (one.connect or one.status) == 407:
        reason, why = "ProxyAuthentication", "the proxy asks for other credentials (407)"
    elif one.connect >= 400:
        reason, why = "ProxyRefused", f"the proxy refuses the connection ({one.connect})"
    elif one.code == _RESOLVE_PROXY:
        reason, why = "ProxyNotResolved", "the host cannot resolve the proxy's name"
    elif one.code == _CONNECT:
        reason, why = "ProxyUnreachable", "the host cannot connect to the proxy"
    elif one.code in _TLS:
        reason, why = "TLSFailed", "TLS fails, or the certificate is not trusted: is the proxy's CA in trustedCA?"
    elif one.code == _TIMEOUT:
        reason, why = "TimedOut", f"there was no answer within {SECONDS} s"
    elif one.code == _HTTP:
        reason, why = "EndpointRefused", f"the answer was {one.status}"
    else:
        reason, why = "FetchFailed", f"curl.exe ended with {one.code}"
    return FetchResult("False", reason, f"{_way(egress, endpoint)}: {why}")


def _way(egress: Egress, endpoint: str) -> str:
    """An endpoint and the proxy before it, for people."""
    proxy = _proxy(egress, endpoint)
    through = f" through {url.parse(proxy.reveal()).redacted}" if proxy else ""
    return f"{url.parse(endpoint).redacted}{through}"
