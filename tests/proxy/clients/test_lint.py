"""What lint finds, what it proposes, and that a proposal covers no less and nothing else in any profile."""

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.proxy.clients.strategies import ITEMS, related

from transom.proxy import no_proxy_findings
from transom.proxy.clients.client_table import CLIENTS, NODE_CLIENTS
from transom.proxy.clients.decision import decide
from transom.proxy.clients.harms import NO_PROXY_CLIENTS, is_safe_for_all
from transom.proxy.clients.lint import SAFE_CLIENTS, lint
from transom.proxy.clients.meaning import parse_no_proxy_item
from transom.proxy.finding import Place

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
    ("[2001:db8::1]", "go", "2001:db8::1"),
    ("2001:db8::1", "urllib", None),
    ("corp.example:8080", "curl", None),
    ("<local>", "go", ""),
    ("*", "wget", None),
    ("x.example,.x.example,*", "curl", None),
    ("münchen.example", "curl", None),
]


@pytest.mark.parametrize(("value", "client", "instead"), FINDINGS)
def test_finding(value, client, instead):
    found = [finding for finding in lint(value, [client]) if client in finding.clients]
    assert {finding.instead for finding in found} == {instead}


def test_an_empty_item_opens_everything_in_lwp():
    found = lint("a.example,.a.example,,b.example,.b.example", ["perl-lwp"])
    empty = [finding for finding in found if finding.item == ""]
    assert [(finding.position, finding.instead) for finding in empty] == [(3, "")]


@pytest.mark.parametrize(
    "value", ["", "corp.example,.corp.example", "corp.example,.corp.example,.svc", "localhost,127.0.0.1", "10.1.2.3", " "]
)
def test_nothing_to_say(value):
    assert lint(value, NODE_CLIENTS) == []


HARMFUL = [
    # list, the item, its level, a client that is named
    (".corp.example,,.svc", "", "error", "fabric8"),
    (".svc,.corp.example,", "", "error", "grpc-js"),
    (",.svc", "", "error", "http-tiny"),
    (".svc, .cluster.local", ".cluster.local", "error", "fabric8"),
    ("localhost, 127.0.0.1", "127.0.0.1", "error", "fabric8"),
    ("localhost ,127.0.0.1", "localhost", "error", "wget"),
    ("localhost,\t127.0.0.1", "127.0.0.1", "error", "fabric8"),
    ("localhost,\n127.0.0.1", "127.0.0.1", "error", "fabric8"),
    ("a.example 127.0.0.1", "a.example 127.0.0.1", "error", "dotnet"),
    ("a.example;127.0.0.1", "a.example;127.0.0.1", "error", "dotnet"),
    ("a.example|127.0.0.1", "a.example|127.0.0.1", "error", "dotnet"),
    ('"localhost,127.0.0.1"', '"localhost', "error", "curl"),
    ("[::1]", "[::1]", "error", "httpx"),
    ("[2001:db8::1]", "[2001:db8::1]", "error", "httpx"),
    ("[2001:db8::]/32", "[2001:db8::]/32", "error", "httpx"),
    ("fe80::1%eth0", "fe80::1%eth0", "error", "fabric8"),
    ("corp_x.example", "corp_x.example", "error", "fabric8"),
    ("münchen.example", "münchen.example", "error", "httpx"),
    ("*.corp.example", "*.corp.example", "error", "fabric8"),
    ("*corp.example", "*corp.example", "error", "fabric8"),
    ("corp.*", "corp.*", "error", "fabric8"),
    ("192.168.*", "192.168.*", "error", "fabric8"),
    ("192.168.", "192.168.", "warning", "go"),
    ("10.0.0.0-10.0.0.255", "10.0.0.0-10.0.0.255", "warning", "go"),
    ("10.0.0.0/255.0.0.0", "10.0.0.0/255.0.0.0", "error", "go"),
    ("10.0/8", "10.0/8", "error", "go"),
    ("x.example,*", "*", "error", "go"),
    ("x.example,*:8080", "*:8080", "error", "fabric8"),
    ("x.example,:8080", ":8080", "error", "curl"),
    ("corp.example:8080", "corp.example:8080", "error", "curl"),
    ("https://corp.example/", "https://corp.example/", "error", "go"),
    ("corp.example/path", "corp.example/path", "error", "go"),
    ("user@corp.example", "user@corp.example", "error", "fabric8"),
    ("CORP.example", "CORP.example", "error", "dotnet"),
    ("<local>", "<local>", "error", "fabric8"),
    ("a.example,x.", "x.", "error", "azure-java"),
    ("0.0.0.0/0", "0.0.0.0/0", "warning", "wget"),
    ("10.0.0.0/0", "10.0.0.0/0", "warning", "wget"),
    ("2.3", "2.3", "warning", "wget"),
    ("corp.example.", "corp.example.", "warning", "go"),
    ("fd00::/108", "fd00::/108", "note", "httpx"),
    (".corp.example", ".corp.example", "note", "go"),
]


@pytest.mark.parametrize(("value", "item", "level", "client"), HARMFUL)
def test_a_harmful_list_is_reported(value, item, level, client):
    found = [entry for entry in lint(value) if entry.item == item and entry.level == level]
    assert any(client in item.clients for item in found), lint(value)


@pytest.mark.parametrize("value", [value for value, _, level, _ in HARMFUL if level == "note"])
def test_what_nothing_can_mend_is_an_error_for_the_client_that_fails(value):
    assert {item.level for item in lint(value)} == {"note"}
    levels = {item.level for item in lint(value, NO_PROXY_CLIENTS) if "httpx" in item.clients and "fails" in item.problem}
    assert levels <= {"error"}


TABLE = yaml.safe_load((Path(__file__).parents[1] / "tables" / "merging.yaml").read_text())


@pytest.mark.parametrize("row", TABLE, ids=[row["row"] for row in TABLE])
def test_merged_lists_pass(row):
    """Those that Transom makes, as a check, for nodes; the status of OpenShift's Proxy may hold anything."""
    if "status of OpenShift" in row["row"] or row["row"] == "host bits are kept":
        # `validate` warns about host bits, too
        return
    for value in [row.get("own"), *(row.get("lists") or {}).values()]:
        assert [item for item in lint(value or "") if item.level != "note"] == []


RFC = (
    "cluster.local,10.96.0.0/12,192.168.0.0/16,api.prod.example,172.16.0.0/16,internal.corpdomain.net,example.com,svc,127.0.0.1,"
    "localhost"
)
OPENSHIFT = (
    ".cluster.local,.ec2.internal,.svc,10.0.0.0/16,10.128.0.0/14,127.0.0.1,169.254.169.254,172.30.0.0/16,"
    "api-int.prod.example.com,localhost"
)


@pytest.mark.parametrize("value", [RFC, OPENSHIFT])
def test_lists_of_others_pass(value):
    assert [item for item in lint(value) if item.level != "note"] == []


def test_positions_count_from_one():
    assert {(finding.item, finding.position) for finding in lint("10.1.2.3, *.a.example", ["curl"])} == {("*.a.example", 2)}


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
    meaning = parse_no_proxy_item(item)
    inside = {*meaning.wanted, *meaning.allowed}
    outside = {*meaning.outside, "http://elsewhere.test/"} - inside
    for label in labels:
        inside |= {url.replace("://a.", f"://{label}.a.") for url in meaning.wanted if "://a." in url and label != "not"}
    harmful = not is_safe_for_all((item,))
    for instead in {finding.instead for finding in lint([item], NO_PROXY_CLIENTS)} - {None}:
        assert list(no_proxy_findings.examine_no_proxy(instead, Place("", ""), ())) == []
        assert is_safe_for_all(instead.split(",") if instead else ())
        outside |= {f"http://{bracketed(address)}/" for address in ELSEWHERE if not is_meant(address, instead)}
        for name in SAFE_CLIENTS:
            client = CLIENTS[name]
            for url in inside:
                before, after = decide(client, url, item).bypass, decide(client, url, instead).bypass
                assert after or not before or harmful, f"{name} covers {url} with {item!r}, not with {instead!r}"
            for url in outside:
                grown = decide(client, url, instead).bypass and decide(client, url, item).bypass is False
                unavoidable = any(decide(client, url, plain).bypass for plain in meaning.plain)
                assert not grown or unavoidable, f"{name} covers {url} with {instead!r}, not with {item!r}"


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(ITEMS)
@example("corp.example,")
@example(" 10.0.0.0/8")
def test_what_validate_refuses_is_an_error(item):
    value = f"a.example,{item},b.example"
    for fault in no_proxy_findings.examine_no_proxy(value, Place("", ""), ()):
        levels = {finding.level for finding in lint(value)}
        assert ("error" if fault.severity == "error" else "warning") in levels or "error" in levels


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(related().map(lambda pair: pair[0]))
def test_lint_answers_for_any_list(value):
    for finding in lint(value, ("go", "curl", "perl-lwp", "httpx")):
        assert finding.clients or finding.level != "note"
        assert finding.problem


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.one_of(st.text(max_size=40), st.text('*.?/:[]@-,; \t"<>0123456789ax', max_size=20)))
@example(".*")
@example("*:8080")
def test_lint_answers_for_any_text(value):
    assert isinstance(lint(value, ("go", "wget")), list)
