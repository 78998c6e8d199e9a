"""IP addresses of Nodes and hosts, which are compared as texts."""

import pytest

from transom.windows.nodes.windows_instance import parse_ip_address


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10.0.0.7", "10.0.0.7"),
        ("::ffff:10.0.0.7", "10.0.0.7"),
        ("0000:0000:0000:0000:0000:ffff:010.0.0.7", None),
        ("0000:0000:0000:0000:0000:ffff:100.100.100.107", "100.100.100.107"),
        ("2001:DB8:0000:0000:0000:0000:0000:0001", "2001:db8::1"),
        ("fe80::1%a zone of any length that an interface may have on this host", "fe80::1"),
        ("10.0.0.7 ", None),
        ("win-1", None),
        ("", None),
        ("1" * 10**6, None),
    ],
)
def test_one_spelling(text: str, expected: str | None) -> None:
    assert parse_ip_address(text) == expected
