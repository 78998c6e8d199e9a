"""The values objects beside those that cluster-apps-operator writes for the same cluster and the same proxy."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml
from tests.support.management.cluster_apps_operator import OBSERVED, desired_objects, reconcile, values_of
from tests.support.management.manifests import NO_PROXY, PROXY, RFC_LINE, cluster, egress_proxy, read, rendered

from transom.capi.values.values_objects import render_peer_values
from transom.controllers.clusters.adoption import list_lost_values
from transom.proxy.layers import build_base_layer

URL = "http://proxy.corp.example:3128"
PEER = desired_objects("proxied", "mycluster", "org-giantswarm")
VALUES, SYSTEMD = "mycluster-cluster-values", "mycluster-systemd-proxy"


def settings(**spec: Any) -> dict[str, Any]:
    return egress_proxy(httpProxy=URL, httpsProxy=URL, noProxy=NO_PROXY, **spec)


def ours() -> dict[tuple[str, str], Any]:
    found = rendered(settings(), cluster())
    return {key: yaml.safe_load(data["values"]) for key, data in found.items() if "values" in data}


def leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(value, Mapping) and value:
        for key, below in value.items():
            yield from leaves(below, (*path, key))
    else:
        yield path, value


def test_the_secret_has_every_value_of_the_peers() -> None:
    """The peer's `env` is what external-dns-app reads; without it a real Secret is never handed over."""
    peer = dict(leaves(values_of(PEER["Secret", VALUES])))
    own = dict(leaves(ours()["Secret", VALUES]))
    assert ("env",) in peer and len(peer) == 7
    assert {path: own.get(path) for path in peer} == peer


def test_the_config_map_has_no_value_at_a_place_where_the_peer_has_none() -> None:
    """chart-operator, cert-manager-app and kyverno-policies-connectivity merge a top-level `proxy` over `cluster.proxy`."""
    peer, own = values_of(PEER["ConfigMap", VALUES]), ours()["ConfigMap", VALUES]
    assert set(own) <= set(peer) and "proxy" not in own
    assert {key: own["cluster"][key] for key in ("calico", "kubernetes")} == {
        key: peer["cluster"][key] for key in ("calico", "kubernetes")
    }


_MERGED = {
    "HTTP_PROXY": ("proxy.http", "cluster.proxy.http"),
    "HTTPS_PROXY": ("proxy.https", "cluster.proxy.https"),
    "NO_PROXY": ("proxy.noProxy", "cluster.proxy.noProxy"),
}
CHARTS: dict[str, Mapping[str, tuple[str, ...]]] = {
    # giantswarm/chart-operator 7839f2b, helm/chart-operator/templates/deployment.yaml
    "chart-operator": _MERGED,
    # giantswarm/cert-manager-app 5ce3511, helm/cert-manager/templates/proxy.yaml
    "cert-manager-app": _MERGED,
    # giantswarm/external-dns-app d3738a4, helm/external-dns-app/templates/deployment.yaml: a list of variables
    "external-dns-app": dict.fromkeys(_MERGED, ("env",)),
}
"""Where charts take a variable from: the first value that is set. `scripts/charts` renders them with Helm."""


def merge(*files: Any) -> Any:
    """Merge files of values as Helm does: later ones win, lists are replaced."""
    result: Any = {}
    for value in files:
        for key, below in value.items():
            old = result.get(key)
            result[key] = merge(old, below) if isinstance(old, dict) and isinstance(below, dict) else below
    return result


def find_variable(values: Any, name: str, places: tuple[str, ...]) -> Any:
    for place in places:
        value = values
        for key in place.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        if isinstance(value, list):
            value = next((item["value"] for item in value if item["name"] == name), None)
        if value:
            return value
    return None


@pytest.mark.parametrize("user", [{}, {"cluster": {"proxy": {"noProxy": "user.example"}}}])
@pytest.mark.parametrize("chart", CHARTS)
def test_charts_read_the_same_variables_from_both(chart: str, user: dict[str, Any]) -> None:
    peer = merge(*(values_of(PEER[kind, VALUES]) for kind in ("ConfigMap", "Secret")), user)
    own = merge(*(ours()[kind, VALUES] for kind in ("ConfigMap", "Secret")), user)
    expected = {name: find_variable(peer, name, places) for name, places in CHARTS[chart].items()}
    assert all(expected.values())
    assert {name: find_variable(own, name, places) for name, places in CHARTS[chart].items()} == expected


@pytest.mark.parametrize(
    ("kind", "loses"),
    [
        ("Secret", ()),
        (
            "ConfigMap",
            (
                *("baseDomain", "bootstrapMode.apiServerPodPort", "bootstrapMode.enabled", "chartOperator.cni.install"),
                *("ciliumNetworkPolicy.enabled", "cluster.private", "clusterCA", "clusterCIDR", "clusterDNSIP", "clusterID"),
                *("externalDNSIP", "gcpProject", "provider", "subscriptionID"),
            ),
        ),
    ],
)
def test_what_a_hand_over_would_lose(kind: str, loses: tuple[str, ...]) -> None:
    peer = PEER[kind, VALUES]
    text = yaml.safe_dump(values_of(peer))
    assert list_lost_values(text, rendered(settings(), cluster())[kind, VALUES]["values"]) == loses


def test_without_a_proxy_the_peer_goes_on_writing_its_values() -> None:
    """To take `proxy` out of its values does not stop it: it takes an annotation away and writes over what was handed over."""
    secret = PEER["Secret", VALUES]
    annotated = {**secret, "metadata": {**secret["metadata"], "annotations": {"transom.dev/adopt": "true"}}}
    existing = [annotated, PEER["ConfigMap", VALUES], PEER["Secret", SYSTEMD]]
    after = reconcile(existing, desired_objects("unproxied", "mycluster", "org-giantswarm"))
    assert values_of(after["Secret", VALUES]) == {}
    assert "transom.dev/adopt" not in after["Secret", VALUES]["metadata"]["annotations"]
    assert ("Secret", SYSTEMD) not in after


def test_names_of_our_own_are_not_the_peers() -> None:
    """What runs side by side: no object of ours has a name or the labels of one of the peer's, so a pass of it changes none."""
    own = rendered(settings(values={"names": "Own", "dropInName": "Own"}), cluster())
    assert not set(own) & set(PEER)
    existing = [
        {"kind": kind, "metadata": {"name": name, "labels": {"app.kubernetes.io/managed-by": "transom"}}, "data": {}}
        for kind, name in own
    ]
    after = reconcile(existing, PEER)
    assert all(after[item["kind"], item["metadata"]["name"]] == item for item in existing)


def test_the_peers_own_input_has_the_items_of_the_base() -> None:
    """From these values the peer's code printed the list of `proxied`, which is the RFC's."""
    objects, found = read(settings(), cluster())
    layer, own = build_base_layer(objects), found.own
    assert layer is not None and own is not None
    assert yaml.safe_load(render_peer_values(own, layer.items).reveal()) == {
        "proxy": {"noProxy": NO_PROXY, "http": URL, "https": URL}
    }
    assert yaml.safe_load(render_peer_values(own, layer.items, hide=True).reveal())["proxy"]["http"] == "***"
    (secret,) = [
        item for item in OBSERVED["proxied"] if item["metadata"]["name"] == "demo-cluster-values" and "stringData" in item
    ]
    assert yaml.safe_load(secret["stringData"]["values"])["no_proxy"] == RFC_LINE


def test_no_https_proxy_no_variable_for_it() -> None:
    (values,) = [
        yaml.safe_load(data["values"])
        for key, data in rendered(egress_proxy(httpProxy=PROXY), cluster()).items()
        if key == ("Secret", VALUES)
    ]
    assert [item["name"] for item in values["env"]] == ["NO_PROXY", "HTTP_PROXY"]
