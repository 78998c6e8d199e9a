"""The path of an object: whatever its name is, it stays one part."""

import posixpath
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from transom.kube.errors import NameInvalid
from transom.kube.resources import EVENTS, LEASES, NODES, PODS

HOSTILE = [
    "default/../../../apis/apps/v1/namespaces/default/deployments?x=",
    "kube-public/secrets?x=",
    "%2e%2e/%2E%2E",
    "a#b",
    "a;b",
    "a\\..\\b",
    "a b",
    "a\r\nHost: x",
    "ä",
    "//evil.example/",
]
TEXTS = st.text(st.sampled_from("a.%/?#:2eE\\@; \r\n\u00e4")) | st.text(max_size=8) | st.sampled_from(HOSTILE)


@given(TEXTS, TEXTS, st.none() | TEXTS)
def test_each_part_stays_where_it_is(namespace: str, name: str, subresource: str | None) -> None:
    if {namespace, name, subresource} & {"", ".", ".."} or _has_surrogates(namespace + name + (subresource or "")):
        return
    for resource, prefix in ((PODS, "/api/v1"), (LEASES, "/apis/coordination.k8s.io/v1")):
        path = resource.build_path(namespace, name, subresource)
        parts = [*prefix.split("/"), "namespaces", namespace, resource.plural, name, *([subresource] if subresource else ())]
        assert [unquote(part) for part in path.split("/")] == parts
        # as it is sent: nothing of it is a query, a fragment or a step upwards
        assert posixpath.normpath(path) == path
        assert urlsplit(f"https://server{path}").path == path
        assert URL(f"https://server{path}", encoded=True).raw_path == path
        assert path.isascii()


def _has_surrogates(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_what_no_quoting_keeps_in_its_place_is_refused(name: str) -> None:
    with pytest.raises(NameInvalid):
        EVENTS.build_path(name)
    if name:
        with pytest.raises(NameInvalid):
            PODS.build_path("default", name)
        with pytest.raises(NameInvalid):
            NODES.build_path(None, name)


def test_names_of_kubernetes_are_as_they_are() -> None:
    assert PODS.build_path("team-a", "web-0.x", "eviction") == "/api/v1/namespaces/team-a/pods/web-0.x/eviction"
    assert NODES.build_path(None, "system:node") == "/api/v1/nodes/system:node"
    assert PODS.build_path() == "/api/v1/pods"
