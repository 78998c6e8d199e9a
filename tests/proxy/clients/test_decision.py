"""What is decided, by which item and why; what is refused; that nothing makes the engine fail."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.proxy.clients.strategies import related

from transom.proxy.clients.client_table import CLIENTS
from transom.proxy.clients.decision import decide
from transom.proxy.clients.urls import parse_url

DECISIONS = [
    # client, list, url, bypass, item, reason
    ("go", "x.example, corp.example", "http://a.corp.example/", True, "corp.example", "a.corp.example is below corp.example"),
    ("go", "10.0.0.0/8", "http://[::ffff:10.1.2.3]/", True, "10.0.0.0/8", "10.1.2.3 is in 10.0.0.0/8"),
    ("go", "x.example", "http://127.5.5.5/", True, None, "127.5.5.5 bypasses without an item"),
    ("go", "x.example", "http://LOCALHOST/", False, None, "no item covers it"),
    ("go", None, "http://corp.example/", False, None, "no list is set"),
    ("urllib", " ", "http://corp.example/", False, None, "no item covers it"),
    ("curl", "*", "http://corp.example/", True, "*", "* covers every host"),
    ("dotnet", "corp.example", "http://a.corp.example/", False, None, "no item covers it"),
    ("apt", "corp.example", "http://notcorp.example/", True, "corp.example", "notcorp.example ends with corp.example"),
    ("perl-lwp", "a.example,,b.example", "http://other.example/", True, "", "an empty item covers every host"),
    ("axios", "127.0.0.1", "http://localhost/", True, "127.0.0.1", "127.0.0.1 and localhost are both this machine"),
    ("node24-http", "10.0.0.0-10.0.0.9", "http://10.0.0.7/", True, "10.0.0.0-10.0.0.9", "10.0.0.7 is in 10.0.0.0-10.0.0.9"),
    (
        "httpx",
        "a.example,::/0",
        "http://a.example/",
        None,
        "::/0",
        "fails: httpx takes it for a URL with a broken IPv6 address",
    ),
    ("java-env", "corp.example", "http://x.example/", True, None, "it takes no proxy from the environment"),
    (
        "wininet",
        "a.example;10.0.0.0/8",
        "http://b.example/",
        True,
        "10.0.0.0/8",
        "a / anywhere in the list sends every request direct",
    ),
    (
        "chromium-bypass-rules",
        "<-loopback>",
        "http://localhost/",
        False,
        "<-loopback>",
        "<-loopback> takes the implicit bypass away",
    ),
    ("java-nonproxyhosts", "*.corp.*", "http://a.corp.example/", True, "*.corp.*", "a.corp.example matches *.corp.*"),
]


@pytest.mark.parametrize(("client", "value", "url", "bypass", "item", "reason"), DECISIONS)
def test_decision(client, value, url, bypass, item, reason):
    decision = decide(CLIENTS[client], url, value)
    assert (decision.bypass, decision.item, decision.reason) == (bypass, item, reason)


ENVIRONMENTS = [
    ("go", {"HTTP_PROXY": "http://p:1", "REQUEST_METHOD": "GET"}, None),
    ("uv", {"HTTP_PROXY": "http://p:1", "REQUEST_METHOD": ""}, True),
    ("requests", {"HTTP_PROXY": "http://p:1", "REQUEST_METHOD": "GET"}, True),
    ("ruby", {"CGI_HTTP_PROXY": "http://p:1", "REQUEST_METHOD": "GET"}, False),
    ("dotnet", {"HTTP_PROXY": "http://p:1", "GATEWAY_INTERFACE": "CGI/1.1"}, True),
    ("npm", {"https_proxy": "http://p:1"}, False),
    ("wget", {"http_proxy": "http://p:1", "NO_PROXY": "corp.example"}, False),
    ("git", {"http_proxy": "http://p:1", "no_proxy": "", "NO_PROXY": "corp.example"}, False),
    ("git", {"http_proxy": "", "all_proxy": "http://p:1"}, True),
    ("curl", {"http_proxy": "http://p:1", "no_proxy": "", "NO_PROXY": "corp.example"}, True),
    ("undici-8", {"http_proxy": "p:1"}, None),
    ("aiohttp", {"http_proxy": "p:1", "no_proxy": "corp.example"}, True),
    ("aiohttp", {"http_proxy": "p:1", "no_proxy": "x.example"}, None),
]


@pytest.mark.parametrize(("client", "environment", "bypass"), ENVIRONMENTS)
def test_environment(client, environment, bypass):
    assert decide(CLIENTS[client], "http://corp.example/", environment=environment).bypass is bypass


def test_names_that_resolve():
    resolves = {"db.corp.example": "10.1.2.3"}
    assert decide(CLIENTS["ruby"], "http://db.corp.example/", "10.0.0.0/8", resolves=resolves).bypass
    assert not decide(CLIENTS["curl"], "http://db.corp.example/", "10.0.0.0/8", resolves=resolves).bypass


@pytest.mark.parametrize(
    ("url", "what"),
    [
        ("corp.example", "is not a valid URL"),
        ("ftp://corp.example/", "neither http nor https"),
        ("http://", "no valid host"),
        ("http://[::1/", "no valid host"),
        ("http://[corp]/", "not a valid IPv6 address"),
        ("http://::1/", "no valid host"),
        ("http://a b/", "a character that no host has"),
        ("http://corp.example:99999/", "above 65535"),
        ("http://corp.example:x/", "no valid host"),
    ],
)
def test_refuses_what_is_no_url(url, what):
    with pytest.raises(ValueError, match=what):
        decide(CLIENTS["go"], url, "corp.example")


TEXTS = st.text(st.one_of(st.characters(codec="utf-8"), st.sampled_from(" \t\r\n,;|.:*[]/%@-<>\"'0123456789abfx")), max_size=60)
URLS = st.one_of(
    related().map(lambda pair: pair[1]),
    TEXTS.map(lambda text: f"http://{text}/"),
    st.builds("http://{}:{}/".format, TEXTS, st.integers(-1, 70000)),
    st.ip_addresses(v=6).map(lambda address: f"https://[{address.exploded.upper()}]:8443/x?y#z"),
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(url=URLS, value=st.one_of(st.none(), TEXTS, related().map(lambda pair: pair[0])))
def test_answers_or_says_what_is_wrong_with_the_url(url, value):
    try:
        parse_url(url)
    except ValueError as error:
        assert str(error)
        return
    for client in CLIENTS.values():
        decision = decide(client, url, value)
        assert decision.bypass in (True, False, None)
        assert decision.reason
        assert (decision.bypass is None) == decision.reason.startswith("fails: ")


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(related())
def test_the_item_named_decides(pair):
    """Without the other items, the item that is named decides the same. (Rules that look at the whole list have none.)"""
    value, url = pair
    for name in ("go", "dotnet", "uv", "node24-http", "kubernetes-python"):
        decision = decide(CLIENTS[name], url, value)
        if decision.bypass and decision.item:
            assert decide(CLIENTS[name], url, decision.item).item == decision.item


def test_ten_thousand_items():
    value = ",".join([*(f"h{number}.corp.example" for number in range(9_998)), "10.0.0.0/8", "last.example"])
    for client in CLIENTS.values():
        decision = decide(client, "http://a.last.example/", value)
        assert decision.reason
    assert decide(CLIENTS["go"], "http://a.last.example/", value).item == "last.example"
