"""A fetch by the host itself, which proves proxy and CAs together: what curl.exe is told, and what its answers mean.

curl.exe is part of Windows since Server 2019 (Microsoft: "Tar and Curl Come to Windows") and uses Schannel, so it trusts what
the host trusts. What it is told stands in files that it reads with `-K`; the exit codes are those of libcurl-errors(3).
"""

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from transom.proxy import url
from transom.proxy.secret import Secret
from transom.proxy.settings import Egress

SECONDS: Final = 15
"""For one fetch."""
ENDPOINTS: Final = 3
"""So many endpoints are tried, until one answers."""
MARK: Final = "transom-fetched"
"""How the line begins that curl prints: the status of the endpoint, and that of the proxy's answer to CONNECT."""

_RESOLVE_PROXY, _RESOLVE, _CONNECT, _HTTP, _TIMEOUT = 5, 6, 7, 22, 28
_TLS: Final = frozenset({35, 51, 58, 59, 60, 77, 80, 83, 90, 91})


class Fetched(msgspec.Struct, frozen=True):
    """One try: which endpoint (its number), the exit code of curl, and the two HTTP statuses (0: there was none)."""

    endpoint: int
    code: int
    status: int = 0
    connect: int = 0


class Verdict(msgspec.Struct, frozen=True):
    """`True`: something was fetched. `False`: reason (one word) and message name the hop that fails. No secret is in them."""

    works: Literal["True", "False", "Unknown"]
    reason: str
    message: str


def configurations(egress: Egress) -> tuple[Secret, ...]:
    """The text of a file for `curl.exe -K`, one for each endpoint that is tried; none where the settings name none.

    Schannel asks for revocation lists, which nobody promised to be within reach; Go and .NET do not ask for them.
    """
    return tuple(Secret(_configuration(egress, endpoint)) for endpoint in egress.readiness_endpoints[:ENDPOINTS])


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


def verdict(egress: Egress, fetched: Sequence[Fetched] | None) -> Verdict:
    """What the tries of a host say; None: it has no curl."""
    if not egress.readiness_endpoints:
        return Verdict("Unknown", "NotProbed", "nothing was fetched from the host: spec.readinessEndpoints is not set")
    if fetched is None:
        return Verdict("Unknown", "NotProbed", "nothing was fetched from the host: it has no curl.exe")
    if not fetched:
        return Verdict("Unknown", "NotProbed", "nothing was fetched from the host")
    for one in fetched:
        if one.code == 0:
            return Verdict("True", "Fetched", f"the host fetched {_shown(egress, one)}{_through(egress, one)}")
    return _failure(egress, fetched[0])


def _failure(egress: Egress, one: Fetched) -> Verdict:
    proxied = _proxy(egress, egress.readiness_endpoints[one.endpoint]) is not None
    answered = one.connect or (one.status if proxied else 0)
    if answered == 407:
        reason, why = "ProxyAuthentication", "the proxy asks for other credentials (407)"
    elif one.connect >= 400:
        reason, why = "ProxyRefused", f"the proxy refuses the connection ({one.connect})"
    elif one.code == _RESOLVE_PROXY:
        reason, why = "ProxyNotResolved", "the host cannot resolve the proxy's name"
    elif one.code == _RESOLVE:
        reason, why = "EndpointNotResolved", "the host cannot resolve the endpoint's name"
    elif one.code == _CONNECT and proxied:
        reason, why = "ProxyUnreachable", "the host cannot connect to the proxy"
    elif one.code == _CONNECT:
        reason, why = "EndpointUnreachable", "the host cannot connect to the endpoint"
    elif one.code in _TLS:
        reason, why = "TLSFailed", "TLS fails, or the certificate is not trusted: is the proxy's CA in trustedCA?"
    elif one.code == _TIMEOUT:
        reason, why = "TimedOut", f"there was no answer within {SECONDS} s"
    elif one.code == _HTTP:
        reason, why = "EndpointRefused", f"the answer was {one.status}"
    else:
        reason, why = "FetchFailed", f"curl.exe ended with {one.code}"
    return Verdict("False", reason, f"{_shown(egress, one)}{_through(egress, one)}: {why}")


def _shown(egress: Egress, one: Fetched) -> str:
    return url.parse(egress.readiness_endpoints[one.endpoint]).redacted


def _through(egress: Egress, one: Fetched) -> str:
    proxy = _proxy(egress, egress.readiness_endpoints[one.endpoint])
    return f" through {url.parse(proxy.reveal()).redacted}" if proxy else ""
