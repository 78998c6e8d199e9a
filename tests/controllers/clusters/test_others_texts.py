"""YAML that stands in objects of others: read within limits, and what is not read is no reason to go on as if it were empty."""

import pytest
from tests.support.management.manifests import cluster, read

from transom.controllers.clusters.adoption import ClustersByProxyUse, list_lost_values
from transom.controllers.join.cluster_facts import _parse_cluster_info
from transom.kube.objects import ObjectMeta, UnstructuredObject
from transom.proxy.objects import Cluster, LabelSelector

MERGES = "a: &a {x: 1}\n" + "".join(
    f"{name}: &{name} {{<<: [{', '.join(['*' + before] * 9)}]}}\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
SERVER = "clusters: [{name: c, cluster: {server: https://10.0.0.1:6443}}]\n"
UNREAD = (
    ("nested merges", MERGES),
    ("deep", "x: " + "[" * 10_000 + "]" * 10_000),
    ("no YAML", "x: ["),
    ("NUL", "x: \0"),
    ("a tag of Python", "x: !!python/object/apply:os.system [id]"),
)
ODD = (
    ("5,000 digits", "x: " + "1" * 5_000),
    ("a number of base 60", "x: " + "1:" * 50_000 + "1"),
    ("a day that is none", "x: 2001-99-99"),
    ("numbers without digits", "x: 0o_"),
)


def info(text: str) -> UnstructuredObject:
    return UnstructuredObject(ObjectMeta("cluster-info", "kube-public"), {"data": {"kubeconfig": text}})


@pytest.mark.parametrize("text", [text for _, text in UNREAD], ids=[name for name, _ in UNREAD])
def test_what_is_not_read(text: str) -> None:
    assert _parse_cluster_info(info(f"{SERVER}{text}")) is None
    (lost,) = list_lost_values(f"a: 1\n{text}", "a: 1")
    assert lost.startswith("what cannot be read: ")


@pytest.mark.parametrize("text", [text for _, text in ODD], ids=[name for name, _ in ODD])
def test_what_is_odd_and_read(text: str) -> None:
    assert _parse_cluster_info(info(f"{SERVER}{text}")) == {"server": "https://10.0.0.1:6443"}
    assert list_lost_values(f"a: 1\n{text}", "a: 1") == ("x",)


def test_losses_are_named_by_their_keys() -> None:
    assert list_lost_values("a: {b: 1, c: {}}\nd: [1]", "a: {b: 2}") == ("a.c", "d")
    assert list_lost_values(None, "a: 1") == ()


def test_the_selector_that_keeps_everything_as_it_was() -> None:
    def clusters(**labels: dict[str, str]) -> tuple[Cluster, ...]:
        objects, _ = read(*(cluster(name, labels=held) for name, held in labels.items()))
        return objects.clusters

    inside = clusters(a={"vpc": "private", "x": "1"}, b={"vpc": "private", "x": "1"})
    found = ClustersByProxyUse(clusters(c={"x": "1"}), inside)
    assert (found.selector, found.to_label) == (LabelSelector({"vpc": "private"}), ())
    # nothing tells them apart: by a label that is to be set
    found = ClustersByProxyUse(clusters(c={"vpc": "private", "x": "1"}), inside)
    assert (found.selector, found.to_label) == (LabelSelector({"egress-proxy": "true"}), inside)
    found = ClustersByProxyUse(clusters(c={}), ())
    assert (found.selector, found.to_label) == (LabelSelector({"egress-proxy": "true"}), ())
