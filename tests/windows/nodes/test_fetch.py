"""What curl.exe is told, and what its answers mean."""

import pytest

from transom.proxy.secret import Secret
from transom.proxy.settings import Egress
from transom.windows.nodes.fetch import ENDPOINTS, FetchAttempt, build_curl_configurations, build_fetch_result

PROXY = Secret("http://alice:hunter2%25%5E%26%21%22%5C%C3%A9%20x@proxy.corp.example:3128")
ENDPOINT = "https://registry.example/v2/"
PROXIED = Egress(PROXY, PROXY, ".svc,localhost", readiness_endpoints=(ENDPOINT, "http://plain.example/"))
PAST_THE_PROXY = (
    Egress(readiness_endpoints=(ENDPOINT,)),
    Egress(http_proxy=PROXY, readiness_endpoints=(ENDPOINT,)),
    Egress(PROXY, PROXY, ".example,localhost", readiness_endpoints=(ENDPOINT, "http://localhost:5000/")),
    Egress(PROXY, PROXY, "*", readiness_endpoints=(ENDPOINT,)),
)

VERDICTS: list[tuple[Egress, list[FetchAttempt] | None, tuple[str, str], str]] = [
    (Egress(), [], ("Unknown", "NotProbed"), "readinessEndpoints is not set"),
    (PROXIED, None, ("Unknown", "NotProbed"), "no curl.exe"),
    (PROXIED, [], ("Unknown", "NotProbed"), "nothing was fetched"),
    (
        PROXIED,
        [FetchAttempt(0, 0, 200, 200)],
        ("True", "Fetched"),
        "registry.example through http://***@proxy.corp.example:3128",
    ),
    (PROXIED, [FetchAttempt(0, 6), FetchAttempt(1, 0, 204)], ("True", "Fetched"), "http://plain.example"),
    (PROXIED, [FetchAttempt(0, 5)], ("False", "ProxyNotResolved"), "cannot resolve the proxy's name"),
    (PROXIED, [FetchAttempt(0, 7)], ("False", "ProxyUnreachable"), "cannot connect to the proxy"),
    (PROXIED, [FetchAttempt(0, 56, 0, 407)], ("False", "ProxyAuthentication"), "other credentials (407)"),
    (PROXIED, [FetchAttempt(0, 56, 0, 403)], ("False", "ProxyRefused"), "refuses the connection (403)"),
    (PROXIED, [FetchAttempt(0, 60, 0, 200)], ("False", "TLSFailed"), "trustedCA"),
    (PROXIED, [FetchAttempt(0, 35, 0, 200)], ("False", "TLSFailed"), "trustedCA"),
    (PROXIED, [FetchAttempt(0, 28)], ("False", "TimedOut"), "within 15 s"),
    (PROXIED, [FetchAttempt(0, 22, 503, 200)], ("False", "EndpointRefused"), "the answer was 503"),
    (PROXIED, [FetchAttempt(1, 22, 407)], ("False", "ProxyAuthentication"), "http://plain.example"),
    (PROXIED, [FetchAttempt(0, 56)], ("False", "FetchFailed"), "ended with 56"),
    *((egress, [], ("Unknown", "NotProbed"), "no endpoint is behind the proxy") for egress in PAST_THE_PROXY),
]


@pytest.mark.parametrize(("egress", "fetched", "judged", "words"), VERDICTS)
def test_the_verdict_names_the_hop_that_fails(
    egress: Egress, fetched: list[FetchAttempt] | None, judged: tuple[str, str], words: str
) -> None:
    found = build_fetch_result(egress, fetched)
    assert (found.works, found.reason) == judged
    assert words in found.message
    assert "hunter2" not in found.message


def test_values_stand_in_the_file_as_curl_reads_them() -> None:
    first, second = build_curl_configurations(PROXIED)
    lines = first.reveal().split("\r\n")
    assert lines[:3] == [f'url = "{ENDPOINT}"', f'proxy = "{PROXY.reveal()}"', 'noproxy = ".svc,localhost"']
    assert 'write-out = "transom-fetched %{http_code} %{http_connect}\\n"' in lines
    assert 'url = "http://plain.example/"' in second.reveal()
    assert build_curl_configurations(Egress(PROXY)) == ()
    many = Egress(https_proxy=PROXY, readiness_endpoints=tuple(f'https://h{n}.example/"\\' for n in range(9)))
    assert len(build_curl_configurations(many)) == ENDPOINTS
    assert 'url = "https://h0.example/\\"\\\\"' in build_curl_configurations(many)[0].reveal()


def test_what_goes_past_the_proxy_is_not_fetched() -> None:
    """It would say nothing of the proxy, and a failure would halt the rollout of a right one."""
    assert [build_curl_configurations(egress) for egress in PAST_THE_PROXY] == [()] * len(PAST_THE_PROXY)
    mixed = Egress(http_proxy=PROXY, readiness_endpoints=(ENDPOINT, "http://plain.example/"))
    (only,) = build_curl_configurations(mixed)
    assert 'url = "http://plain.example/"' in only.reveal()
    assert (
        "http://plain.example through http://***@proxy.corp.example:3128"
        in build_fetch_result(mixed, [FetchAttempt(0, 0, 200)]).message
    )
