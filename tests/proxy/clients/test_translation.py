"""NO_PROXY in other languages says the same there, or what is lost."""

import re
from ipaddress import ip_address

import pytest
from hypothesis import HealthCheck, given, settings
from tests.proxy.clients.strategies import ITEMS, urls

from transom.proxy.clients.client_table import CLIENTS
from transom.proxy.clients.decision import decide
from transom.proxy.clients.translation import translate_list

READERS = {"nonProxyHosts": "java-nonproxyhosts", "ProxyOverride": "wininet", "chromium": "chromium-bypass-rules"}

TRANSLATIONS = [
    ("corp.example,.svc", "nonProxyHosts", "corp.example|*.corp.example|*.svc", []),
    ("corp.example", "ProxyOverride", "corp.example;*.corp.example", []),
    ("10.0.0.0/8,172.16.0.0/15", "ProxyOverride", "10.*;172.16.*;172.17.*", []),
    ("10.0.0.0/8", "chromium", "10.0.0.0/8", []),
    ("10.1.2.0/30", "nonProxyHosts", "10.1.2.0|10.1.2.1|10.1.2.2|10.1.2.3", []),
    ("2001:db8::/32,2001:db8::1", "ProxyOverride", "[2001:db8::1]", ["2001:db8::/32"]),
    ("corp.example:8080", "ProxyOverride", "", ["corp.example:8080"]),
    ("corp.example:8080", "chromium", "corp.example:8080;*.corp.example:8080", []),
    ("a.example;b.example", "ProxyOverride", "", ["a.example;b.example"]),
    ("*", "nonProxyHosts", "*", []),
    ("", "chromium", "", []),
]


@pytest.mark.parametrize(("value", "language", "text", "lost"), TRANSLATIONS)
def test_translation(value, language, text, lost):
    translation = translate_list(value, language)
    assert (translation.text, [loss.item for loss in translation.lost]) == (text, lost)
    assert "/" not in translation.text or language == "chromium"


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(ITEMS, urls())
def test_what_is_not_lost_is_covered_there_too(item, url):
    """As Go reads the item; the URL in canonical spelling, since some of the readers compare text."""
    if url.rstrip("/").endswith(".") or ".:" in url:
        url = "http://a.corp.example/"
    if "[" in url:
        scheme, host, rest = re.split(r"[\[\]]", url)
        url = f"{scheme}[{ip_address(host)}]{rest}"
    covered = decide(CLIENTS["go"], url, item)
    for language, reader in READERS.items():
        translation = translate_list(item, language)
        if covered.bypass and covered.item and not translation.lost:
            decision = decide(CLIENTS[reader], url, translation.text)
            assert decision.bypass is not False, (language, translation, decision)
