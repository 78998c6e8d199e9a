"""NO_PROXY as regular expressions for .NET Framework's WebProxy covers what Go reads in it, or says what is lost."""

import re
from ipaddress import IPv6Address, ip_address
from urllib.parse import urlsplit

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tests.proxy.clients.strategies import ITEMS, urls

from transom.proxy.clients.bypass_expressions import build_bypass_expressions
from transom.proxy.clients.client_table import CLIENTS
from transom.proxy.clients.decision import decide

DEFAULT_PORTS = {"http": 80, "https": 443}


def compared_text(url: str, *, legacy: bool = False) -> str:
    """The text that WebProxy compares: webproxy.cs, IsMatchInBypassList, and for IPv6 _IPv6Address.cs, CreateCanonicalName."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if ":" in host:
        host = f"[{IPv6Address(host).exploded.upper() if legacy else IPv6Address(host).compressed}]"
    port = "" if parts.port in (None, DEFAULT_PORTS[parts.scheme]) else f":{parts.port}"
    return f"{parts.scheme}://{host}{port}"


def bypasses(no_proxy: str, url: str, *, legacy: bool = False) -> bool:
    expressions = build_bypass_expressions(no_proxy).expressions
    return any(re.search(item, compared_text(url, legacy=legacy), re.IGNORECASE) for item in expressions)


CASES = [
    ("corp.example", "https://corp.example/", True),
    ("corp.example", "https://a.corp.example:8443/", True),
    ("corp.example", "https://xcorp.example/", False),
    ("corp.example", "https://corpxexample/", False),
    ("corp.example", "https://corp.example.evil/", False),
    (".corp.example", "http://corp.example/", False),
    (".corp.example", "http://a.b.corp.example/", True),
    ("*.corp.example", "http://a.corp.example/", True),
    ("CORP.example", "http://Corp.Example/", True),
    ("corp.example:8080", "http://corp.example:8080/", True),
    ("corp.example:8080", "http://corp.example/", False),
    ("corp.example:443", "https://corp.example/", True),
    ("corp.example:443", "http://corp.example/", False),
    ("corp.example:443", "http://corp.example:443/", True),
    ("corp.example:80", "http://corp.example/", True),
    ("corp.example:80", "https://corp.example:80/", True),
    ("10.0.0.0/8", "http://10.255.0.1/", True),
    ("10.0.0.0/8", "http://11.0.0.1/", False),
    ("10.0.0.0/8", "http://10.evil.example/", False),
    ("172.16.0.0/12", "https://172.31.9.9/", True),
    ("172.16.0.0/12", "https://172.32.0.1/", False),
    ("172.16.0.0/12", "https://172.3.0.1/", False),
    ("192.168.4.0/23", "http://192.168.5.255:81/", True),
    ("192.168.4.0/23", "http://192.168.6.0/", False),
    ("10.1.2.3", "http://10.1.2.30/", False),
    ("0.0.0.0/0", "http://203.0.113.9/", True),
    ("0.0.0.0/0", "http://corp.example/", False),
    ("2001:db8::1", "http://[2001:db8::1]/", True),
    ("[2001:db8::1]:8080", "http://[2001:db8::1]:8080/", True),
    ("2001:db8::1", "http://[2001:db8::10]/", False),
    ("2001:db8::/32", "http://[2001:db8::1]/", True),
    ("2001:db8::/32", "http://[2001:db80::1]/", False),
    ("fd00::/8", "http://[fd12:3456::1]/", True),
    ("fd00::/8", "http://[fc00::1]/", False),
    ("fe80::/10", "http://[febf::1]/", True),
    ("fe80::/10", "http://[fec0::1]/", False),
    ("2.3", "http://10.1.2.3/", False),
    ("*", "http://any.example/", True),
    ("", "http://any.example/", False),
]


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize(("no_proxy", "url", "covered"), CASES)
def test_what_is_covered(no_proxy: str, url: str, covered: bool, legacy: bool) -> None:
    assert build_bypass_expressions(no_proxy).lost == ()
    assert bypasses(no_proxy, url, legacy=legacy) is covered


@pytest.mark.parametrize(
    "item",
    [
        "::/3",
        "64:ff9b::/96",
        "::ffff:10.1.2.3",
        "::10.1.2.3",
        "a*b.example",
        "a.example;b.example",
        "münchen.example",
    ],
)
def test_what_no_expression_can_say_is_told(item: str) -> None:
    result = build_bypass_expressions(f"{item},corp.example")
    assert [loss.item for loss in result.lost] == [item]
    assert len(result.expressions) == 1


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(ITEMS, urls(), st.booleans())
def test_an_item_covers_what_go_reads_in_it(item: str, url: str, legacy: bool) -> None:
    if "[" in url:
        scheme, host, rest = re.split(r"[\[\]]", url)
        url = f"{scheme}[{ip_address(host)}]{rest}"
        assume(ip_address(host).ipv4_mapped is None)  # type: ignore[union-attr]
    decision = decide(CLIENTS["go"], url, item)
    assume(not (decision.bypass and not decision.item))  # Loopback hosts, which WebProxy bypasses itself.
    result = build_bypass_expressions(item)
    if not result.lost:
        assert bypasses(item, url, legacy=legacy) is decision.bypass, (item, url, result)


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(0, 32), st.integers(0, 2**32 - 1))
def test_an_ipv4_network_covers_its_addresses_alone(base: int, bits: int, other: int) -> None:
    network = f"{ip_address(base)}/{bits}"
    for address in (other, base ^ (other >> bits if bits < 32 else 0), base ^ 1 << (32 - bits) if bits else base):
        inside = address >> (32 - bits) == base >> (32 - bits)
        assert bypasses(network, f"http://{ip_address(address & 0xFFFFFFFF)}/") is inside
