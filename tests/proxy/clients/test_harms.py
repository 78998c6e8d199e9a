"""Items on which clients fail or send everything direct; that what is not evaluated is harmless."""

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from transom.proxy.clients.harms import NO_PROXY_CLIENTS, find_harms, find_item_harms
from transom.proxy.no_proxy import is_harmless

HARMS = [
    # list, position, effect, a client
    ("a.example,,b.example", 2, "everything", "fabric8"),
    ("a.example,,b.example", 2, "everything", "grpc-js"),
    ("a.example,", 2, "everything", "grpc-js"),
    ("a.example,fd00::/8", 2, "fails", "httpx"),
    ("*.corp.example", 1, "fails", "fabric8"),
    (".svc, .cluster.local", 2, "fails", "fabric8"),
    ("a.example,*", 2, "everything", "go"),
    ("a.example,x.", 2, "everything", "azure-java"),
    ("a.example,.", 2, "everything", "websocket-client"),
    ("xn--mnchen-3ya.example", 1, "fails", "httpx2"),
    ("a.example,(", 2, "fails", "aws-java-2"),
]


@pytest.mark.parametrize(("value", "position", "effect", "client"), HARMS)
def test_harm(value, position, effect, client):
    found = [harm for harm in find_harms(value) if harm.position == position and harm.effect == effect]
    assert client in found[0].clients


@pytest.mark.parametrize("value", ["", " ", "*", "corp.example,.corp.example,10.0.0.0/8,::1", "metadata.google.internal."])
def test_no_harm(value):
    assert find_harms(value) == []


NAMES = st.from_regex(
    r"\.?(?!xn--)[a-z]([a-z0-9-]{0,5}[a-z0-9])?(\.(?!xn--)[a-z]([a-z0-9-]{0,5}[a-z0-9])?){0,3}", fullmatch=True
)
ADDRESSES = st.one_of(
    st.ip_addresses(v=4).map(str),
    st.builds("{}/{}".format, st.ip_addresses(v=4), st.integers(1, 32)),
    st.ip_addresses(v=6).map(str),
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.one_of(NAMES, ADDRESSES), st.booleans(), st.booleans())
@example("invalid", True, True)
@example("::ffff:10.1.2.3", False, False)
def test_what_is_called_harmless_is(item, first, last):
    if is_harmless(item):
        assert find_item_harms(item, NO_PROXY_CLIENTS, first=first, last=last) == ()
