"""A fetch by the host itself, which proves proxy and CAs together: the options of curl.exe, and the meaning of its answers.

curl.exe is part of Windows since Server 2019 (Microsoft: "Tar and Curl Come to Windows") and uses Schannel, so it trusts what
the host trusts. It reads its options from files with `-K`; the exit codes are those of libcurl-errors(3).
"""

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from transom.proxy import url
from transom.proxy.clients.client_table import CLIENTS
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


class FetchAttempt(msgspec.Struct, frozen=True):
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


def build_curl_configurations(egress: Egress) -> tuple[Secret, ...]:
    """Build a `curl.exe -K` file for each endpoint to test; none if the settings name no endpoint.

    A file has no proxy if the endpoint bypasses it: its scheme has no proxy, or NO_PROXY covers it by Go's rules.

    Schannel requests revocation lists, which may be unreachable; Go and .NET do not request them.
    """
    return tuple(Secret(_render_configuration(egress, endpoint)) for endpoint in _list_endpoints(egress))


def _list_endpoints(egress: Egress) -> tuple[str, ...]:
    """Return the endpoints in the order of attempts: the numbers of a `FetchAttempt` are indexes of it."""
    through = (
        endpoint
        for endpoint in egress.readiness_endpoints
        if decide(CLIENTS["go"], endpoint, environment=egress.variables).bypass is False
    )
    return tuple(through)[:ENDPOINTS]


def _render_configuration(egress: Egress, endpoint: str) -> str:
    proxy = _select_proxy(egress, endpoint)
    options = {
        "url": endpoint,
        "proxy": proxy.reveal() if proxy else "",
        "noproxy": egress.no_proxy,
        "max-time": str(SECONDS),
        "output": "NUL",
        "write-out": f"{MARK} %{{http_code}} %{{http_connect}}\n",
    }
    lines = [f"{name} = {_quote_curl_value(value)}" for name, value in options.items()]
    return "\r\n".join((*lines, "silent", "fail", "ssl-no-revoke", ""))


def _quote_curl_value(text: str) -> str:
    """As curl's configuration files write it (curl(1), `--config`)."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _select_proxy(egress: Egress, endpoint: str) -> Secret | None:
    return egress.http_proxy if endpoint.lower().startswith("http:") else egress.https_proxy


def build_fetch_result(egress: Egress, fetched: Sequence[FetchAttempt] | None) -> FetchResult:
    """Build the result from a host's fetch attempts; None means that the host has no curl."""
    if not egress.readiness_endpoints:
        return FetchResult("Unknown", "NotProbed", "nothing was fetched from the host: spec.readinessEndpoints is not set")
    endpoints = _list_endpoints(egress)
    if not endpoints:
        return FetchResult("Unknown", "NotProbed", "nothing was fetched from the host: no endpoint is behind the proxy for it")
    if fetched is None:
        return FetchResult("Unknown", "NotProbed", "nothing was fetched from the host: it has no curl.exe")
    if not fetched:
        return FetchResult("Unknown", "NotProbed", "nothing was fetched from the host")
    for item in fetched:
        if item.code == 0:
            return FetchResult("True", "Fetched", f"the host fetched {_describe_route(egress, endpoints[item.endpoint])}")
    return _build_failure(egress, endpoints[fetched[0].endpoint], fetched[0])


def has_no_egress(egress: Egress, fetched: Sequence[FetchAttempt] | None) -> bool:
    """Return True if the fetch attempts show that the host has no egress."""
    if not fetched or any(item.code == 0 for item in fetched):
        return False
    return build_fetch_result(egress, fetched).works == "False"


def _build_failure(egress: Egress, endpoint: str, attempt: FetchAttempt) -> FetchResult:
    if (attempt.connect or attempt.status) == 407:
        reason, why = "ProxyAuthentication", "the proxy asks for other credentials (407)"
    elif attempt.connect >= 400:
        reason, why = "ProxyRefused", f"the proxy refuses the connection ({attempt.connect})"
    elif attempt.code == _RESOLVE_PROXY:
        reason, why = "ProxyNotResolved", "the host cannot resolve the proxy's name"
    elif attempt.code == _CONNECT:
        reason, why = "ProxyUnreachable", "the host cannot connect to the proxy"
    elif attempt.code in _TLS:
        reason, why = "TLSFailed", "TLS fails, or the certificate is not trusted: is the proxy's CA in trustedCA?"
    elif attempt.code == _TIMEOUT:
        reason, why = "TimedOut", f"there was no answer within {SECONDS} s"
    elif attempt.code == _HTTP:
        reason, why = "EndpointRefused", f"the answer was {attempt.status}"
    else:
        reason, why = "FetchFailed", f"curl.exe ended with {attempt.code}"
    return FetchResult("False", reason, f"{_describe_route(egress, endpoint)}: {why}")


def _describe_route(egress: Egress, endpoint: str) -> str:
    """Describe an endpoint and the proxy in front of it, for people."""
    proxy = _select_proxy(egress, endpoint)
    through = f" through {url.parse(proxy.reveal()).redacted}" if proxy else ""
    return f"{url.parse(endpoint).redacted}{through}"
