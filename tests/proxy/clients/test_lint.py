"""What lint finds, what it proposes, and that a proposal covers no less and nothing else in any profile."""

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.proxy.clients.strategies import ITEMS, related

from transom.proxy.clients import CLIENTS, NODE_CLIENTS
from transom.proxy.clients.decision import decide
from transom.proxy.clients.lint import NO_PROXY_CLIENTS, lint
from transom.proxy.clients.meaning import read_meaning

FINDINGS = [
    # list, client, instead
    ("corp.example", "dotnet", "corp.example,.corp.example"),
    ("*.corp.example", "curl", ".corp.example"),
    ("CORP.example", "npm", "corp.example,.corp.example"),
    ("corp.example.", "go", "corp.example,.corp.example"),
    ("http://corp.example", "go", "corp.example,.corp.example"),
    ('"corp.example"', "go", "corp.example,.corp.example"),
    ("a.example;b.example", "go", "a.example,.a.example,b.example,.b.example"),
    ("a.example|b.example", "go", "a.example,.a.example,b.example,.b.example"),
    ("a.example b.example", "go", "a.example,.a.example,b.example,.b.example"),
    ("10.*", "go", "10.0.0.0/8"),
    ("10.", "go", "10.0.0.0/8"),
    ("2.3", "wget", "2.3.0.0/16"),
    ("10.1.2.3/32", "dotnet", "10.1.2.3"),
    ("10.0.0.0/255.0.0.0", "go", "10.0.0.0/8"),
    ("10.0.0.0/8x", "go", "10.0.0.0/8"),
    ("10.0.0.0/8", "wget", None),
    ("2001:db8::/32", "httpx", None),
    ("[2001:db8::1]", "go", "2001:db8::1,[2001:db8::1]"),
    ("2001:db8::1", "urllib", None),
    ("corp.example:8080", "curl", None),
    ("<local>", "go", ""),
    ("*", "wget", None),
    ("x.example,.x.example,*", "curl", None),
    ("münchen.example", "curl", "xn--mnchen-3ya.example,münchen.example,.xn--mnchen-3ya.example,.münchen.example"),
]


@pytest.mark.parametrize(("value", "client", "instead"), FINDINGS)
def test_finding(value, client, instead):
    found = lint(value, [client])
    assert {finding.instead for finding in found} == {instead}
    assert found[0].clients == (client,)


def test_an_empty_item_opens_everything_in_lwp():
    found = lint("a.example,.a.example,,b.example,.b.example", ["perl-lwp"])
    empty = [finding for finding in found if finding.item == ""]
    assert [(finding.position, finding.instead) for finding in empty] == [(3, "")]


@pytest.mark.parametrize(
    "value", ["", "corp.example,.corp.example", ".corp.example,.svc", "localhost,127.0.0.1", "10.1.2.3", " "]
)
def test_nothing_to_say(value):
    assert lint(value, NODE_CLIENTS) == []


def test_positions_count_from_one():
    assert [(finding.item, finding.position) for finding in lint("10.1.2.3, *.a.example", ["curl"])] == [("*.a.example", 2)]


def test_ten_thousand_items():
    found = lint([f"h{number}.corp.example" for number in range(10_000)], NODE_CLIENTS)
    assert len(found) == 10_000
    assert found[-1].instead == "h9999.corp.example,.h9999.corp.example"


ELSEWHERE = (ip_address("203.0.113.9"), ip_address("2001:db8:ffff::9"))


def bracketed(address: IPv4Address | IPv6Address) -> str:
    return str(address) if address.version == 4 else f"[{address}]"


def is_meant(address: IPv4Address | IPv6Address, form: str) -> bool:
    """Whether one of the items is the address or a network that holds it."""
    for piece in form.split(","):
        try:
            if address in ip_network(piece, strict=False):
                return True
        except ValueError:
            # a name, or an address in brackets
            if piece == bracketed(address):
                return True
    return False


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(ITEMS, st.lists(st.sampled_from(["a", "b.c", "not"]), max_size=2))
def test_a_proposal_covers_no_less_and_nothing_else(item, labels):
    meaning = read_meaning(item)
    inside = {*meaning.wanted, *meaning.allowed}
    outside = {*meaning.outside, "http://elsewhere.test/"} - inside
    for label in labels:
        inside |= {url.replace("://a.", f"://{label}.a.") for url in meaning.wanted if "://a." in url and label != "not"}
    for finding in lint([item], NO_PROXY_CLIENTS):
        if finding.instead is None:
            continue
        outside |= {f"http://{bracketed(address)}/" for address in ELSEWHERE if not is_meant(address, finding.instead)}
        for name in NO_PROXY_CLIENTS:
            client = CLIENTS[name]
            for url in inside:
                before, after = decide(client, url, item).bypass, decide(client, url, finding.instead).bypass
                assert not (before and not after), f"{name} covers {url} with {item!r}, not with {finding.instead!r}"
                assert before is None or after is not None, f"{name} fails with {finding.instead!r}, not with {item!r}"
            for url in outside:
                grown = decide(client, url, finding.instead).bypass and decide(client, url, item).bypass is False
                unavoidable = meaning.plain is not None and decide(client, url, meaning.plain).bypass
                assert not grown or unavoidable, f"{name} covers {url} with {finding.instead!r}, not with {item!r}"


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(related().map(lambda pair: pair[0]))
def test_lint_answers_for_any_list(value):
    for finding in lint(value, ("go", "curl", "perl-lwp", "httpx")):
        assert finding.clients
        assert finding.problem


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.one_of(st.text(max_size=40), st.text('*.?/:[]@-,; \t"<>0123456789ax', max_size=20)))
@example(".*")
@example("*:8080")
def test_lint_answers_for_any_text(value):
    assert isinstance(lint(value, ("go", "wget")), list)
