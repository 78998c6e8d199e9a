"""Layers: what replaces what, what belongs to the base alone, and whom an error concerns."""

from pathlib import Path
from typing import Any

import pytest
from tests.support.bundles import (
    NOW,
    PASSWORD,
    certificate,
    cluster,
    config_map,
    egress_proxy,
    openshift_proxy,
    private_key,
    secret,
    write,
)

from transom.proxy.objects import LabelSelector
from transom.proxy.settings import Egress
from transom.sources.directory import load_objects
from transom.sources.examination import Examined, examine_objects
from transom.windows.nodes.windows_instance import WindowsInstance

BASE: dict[str, Any] = {
    "httpProxy": "http://p.x:1",
    "httpsProxy": "https://p.x:2",
    "credentialsSecret": {"name": "creds"},
    "noProxy": "a.x",
    "clusterSelector": {},
}
CREDENTIALS = secret("creds", stringData={"username": "usér", "password": PASSWORD})
USERINFO = "us%C3%A9r:hunter2%25%5E%26%21%22%5C%C3%A9%20x"


def examined(tmp_path: Path, *objects: dict[str, Any]) -> Examined:
    return examine_objects(load_objects([write(tmp_path, *objects)]), NOW)


def urls(egress: Egress | None) -> tuple[str | None, str | None]:
    assert egress is not None
    return tuple(url and url.reveal() for url in (egress.http_proxy, egress.https_proxy))  # type: ignore[return-value]


def test_credentials_are_joined_in(tmp_path: Path) -> None:
    own = examined(tmp_path, egress_proxy(BASE), CREDENTIALS).settings.own
    assert urls(own) == (f"http://{USERINFO}@p.x:1", f"https://{USERINFO}@p.x:2")
    assert "hunter2" not in repr(own)


@pytest.mark.parametrize(
    ("layer", "effective"),
    [
        ({"noProxy": "b.x"}, (f"http://{USERINFO}@p.x:1", f"https://{USERINFO}@p.x:2")),
        ({"httpProxy": "http://q.x:1"}, ("http://q.x:1", None)),
        ({"httpsProxy": "http://q.x:1"}, (None, "http://q.x:1")),
        ({"httpProxy": "http://q.x:1", "httpsProxy": "http://q.x:2"}, ("http://q.x:1", "http://q.x:2")),
        (
            {"httpProxy": "http://q.x:1", "credentialsSecret": {"name": "creds"}, "clusterSelector": {}},
            (f"http://{USERINFO}@q.x:1", None),
        ),
        ({"httpProxy": ""}, (f"http://{USERINFO}@p.x:1", f"https://{USERINFO}@p.x:2")),
    ],
)
def test_urls_and_credentials_are_one_unit(
    layer: dict[str, Any], effective: tuple[str | None, str | None], tmp_path: Path
) -> None:
    found = examined(tmp_path, egress_proxy(BASE), egress_proxy(layer, "layer"), CREDENTIALS, cluster("prod")).settings
    assert urls(found.clusters["org-x", "prod"]) == effective
    assert urls(found.own) == (f"http://{USERINFO}@p.x:1", f"https://{USERINFO}@p.x:2")


def test_a_bundle_is_replaced_where_set(tmp_path: Path) -> None:
    bundles = [config_map(name, {"ca-bundle.crt": certificate(name)}) for name in ("one", "two")]
    layer = egress_proxy({"trustedCA": {"name": "two"}, "clusterSelector": {"matchLabels": {"x": "y"}}}, "layer")
    objects = [egress_proxy({"trustedCA": {"name": "one"}}), layer, cluster("a"), cluster("b", {"x": "y"}), *bundles]
    found = examined(tmp_path, *objects).settings
    names = {
        key: [held.subject.split(",")[0] for held in egress.trust] for (_, key), egress in found.clusters.items() if egress
    }
    assert names == {"a": ["CN=one"], "b": ["CN=two"]}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("networks", {"dnsDomain": "x.y"}),
        ("windows", {"winHTTP": True}),
        ("pods", {"namespaceSelector": {}}),
        ("readinessEndpoints", ["http://x.y"]),
        ("readinessPolicy", "Report"),
    ],
)
def test_fields_of_the_base_alone(field: str, value: object, tmp_path: Path) -> None:
    spec = {"httpProxy": "http://p.x:1", field: value}
    assert not examined(tmp_path, egress_proxy(spec)).errors
    (error,) = examined(tmp_path, egress_proxy(spec, "layer"), cluster("prod")).errors
    assert error.object == "EgressProxy/layer"
    assert f"{error.field}.".startswith(f"spec.{field}.")


def test_the_rest_of_the_layers(tmp_path: Path) -> None:
    app = {"apiVersion": "v1", "kind": "App", "namespace": "n", "name": "one"}
    base = egress_proxy(BASE | {"rollout": "Automatic", "propagate": True, "apps": [app]})
    low = egress_proxy({"rollout": "Manual", "priority": 1, "apps": [app | {"name": "two"}, app]}, "z")
    high = egress_proxy({"propagate": False, "priority": 2}, "a")
    found = examined(tmp_path, base, low, high, CREDENTIALS, cluster("prod")).settings
    prod, own = found.clusters["org-x", "prod"], found.own
    assert prod is not None
    assert own is not None
    assert (prod.rollout, prod.propagate, [app.name for app in prod.apps]) == ("Manual", False, ["one", "two"])
    assert (own.rollout, own.propagate, [app.name for app in own.apps]) == ("Automatic", True, ["one"])


def test_an_error_in_a_layer_concerns_its_clusters_alone(tmp_path: Path) -> None:
    layer = egress_proxy({"noProxy": "*.x", "clusterSelector": {"matchLabels": {"x": "y"}}}, "layer")
    found = examined(tmp_path, egress_proxy(BASE), layer, CREDENTIALS, cluster("a"), cluster("b", {"x": "y"})).settings
    assert found.own is not None
    assert found.clusters["org-x", "a"] is not None
    assert found.clusters["org-x", "b"] is None


def test_an_error_in_the_base_concerns_all(tmp_path: Path) -> None:
    found = examined(tmp_path, egress_proxy(BASE | {"noProxy": "*.x"}), CREDENTIALS, cluster("a")).settings
    assert (found.own, found.clusters["org-x", "a"]) == (None, None)


def test_a_layer_may_have_no_proxy_alone_where_another_has_one(tmp_path: Path) -> None:
    layer = egress_proxy({"noProxy": "b.x"}, "layer")
    assert not examined(tmp_path, layer, egress_proxy({})).errors
    assert not examined(tmp_path, layer, egress_proxy(BASE), CREDENTIALS, cluster("prod")).errors
    (error,) = examined(tmp_path, layer, cluster("prod")).errors
    assert (error.object, error.field) == ("EgressProxy/layer", "spec.noProxy")
    assert "Cluster/org-x/prod" in error.message


def test_openshift_is_the_base_and_the_rest_is_ours(tmp_path: Path) -> None:
    ours = egress_proxy({"httpProxy": "http://q.x:1", "windows": {"environmentScope": "Both"}})
    own = examined(tmp_path, ours, openshift_proxy({"httpProxy": "http://p.x:1"})).settings.own
    assert urls(own) == ("http://p.x:1", None)
    assert own is not None
    assert own.windows.environment_scope == "Both"


def test_the_status_of_openshift_is_what_holds(tmp_path: Path) -> None:
    proxy = openshift_proxy({"httpProxy": "http://new.x:1"}, {"httpProxy": "http://old.x:1", "noProxy": "a"})
    assert urls(examined(tmp_path, proxy).settings.own) == ("http://old.x:1", None)


def test_long_lists(tmp_path: Path) -> None:
    def said(characters: int) -> list[tuple[str, str]]:
        items = ",".join(f"n{number:07}" for number in range(characters // 9))
        findings = examined(tmp_path, egress_proxy({"httpProxy": "http://p.x:1", "noProxy": items})).findings
        return [(finding.severity, finding.field) for finding in findings if "characters" in finding.message]

    assert said(7_900) == []
    assert said(8_100) == [("warning", "spec.noProxy")]
    assert said(29_900) == [("warning", "spec.noProxy")]
    assert said(30_100) == [("error", "spec.noProxy")]


def instance(lifecycle: str = "Egress", **spec: Any) -> dict[str, Any]:
    spec = {"address": "10.0.0.7", "username": "Administrator", "lifecycle": lifecycle} | spec
    return {"apiVersion": "transom.dev/v1alpha1", "kind": "WindowsInstance", "metadata": {"name": "win-1"}, "spec": spec}


def hosts(found_in: Path) -> tuple[WindowsInstance, ...]:
    return load_objects([str(found_in)]).windows_instances


def test_settings_of_a_host(tmp_path: Path) -> None:
    layer = egress_proxy({"httpProxy": "http://q.x:1"}, "layer")
    reference = instance(clusterRef={"name": "prod", "namespace": "org-x"})
    found = examined(tmp_path, egress_proxy({"httpProxy": "http://p.x:1"}), layer, cluster("prod"), reference).settings
    (host,) = hosts(tmp_path)
    assert host.cluster == ("org-x", "prod")
    assert urls(found.for_instance(host)) == ("http://q.x:1", None)
    found = examined(tmp_path, egress_proxy({"httpProxy": "http://p.x:1"}), layer, instance()).settings
    assert urls(found.for_instance(hosts(tmp_path)[0])) == ("http://p.x:1", None)


def test_settings_that_are_not_for_nodes(tmp_path: Path) -> None:
    found = examined(tmp_path, egress_proxy({"httpProxy": "http://p.x:1", "consumers": ["Pods"]}), instance()).settings
    egress = found.for_instance(hosts(tmp_path)[0])
    assert egress is not None
    assert not egress.configured


def test_a_kubelet_is_not_given_a_list_without_the_api_server(tmp_path: Path) -> None:
    key = secret("cloud-private-key", stringData={"private-key.pem": private_key()})
    for spec, lifecycle, item, refused in (
        ({}, "Egress", False, False),
        ({}, "Node", False, True),
        ({"networks": {"internalAPIHost": "api.x"}}, "Node", True, False),
        ({"noProxy": "*"}, "Node", True, False),
        ({"windows": {"services": ["containerd"]}}, "Node", False, False),
    ):
        found = examined(tmp_path, egress_proxy({"httpProxy": "http://p.x:1"} | spec), instance(lifecycle), key)
        assert found.settings.own is not None
        assert found.settings.own.api_server_known is item
        assert [finding.field for finding in found.errors] == (["spec.lifecycle"] if refused else [])


HELD = {"httpProxy": "http://old.x:1", "noProxy": "a"}


@pytest.mark.parametrize(
    "spec",
    [
        {"httpProxy": "http://"},
        {"httpProxy": "http://new.x:1", "noProxy": "*.x"},
        {"noProxy": "a.x"},
        {"httpProxy": "http://old.x:1", "readinessEndpoints": ["https://registry.example/", "registry.example"]},
    ],
)
def test_the_status_of_openshifts_proxy_holds_while_its_spec_is_invalid(spec: dict[str, Any], tmp_path: Path) -> None:
    """Also for who reads both for the first time, as after a restart."""
    found = examined(tmp_path, openshift_proxy(spec, HELD))
    assert not found.errors
    assert any(finding.severity == "warning" and finding.object == "Proxy/cluster" for finding in found.findings)
    assert urls(found.settings.own) == ("http://old.x:1", None)
    assert found.settings.own is not None
    assert found.settings.own.readiness_endpoints in ((), ("https://registry.example/",))


def test_a_bundle_of_openshifts_proxy_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    """No status holds what was in it: hosts would lose it."""
    found = examined(tmp_path, openshift_proxy({"httpProxy": "http://old.x:1", "trustedCA": {"name": "nobody"}}, HELD))
    assert found.settings.own is None


def test_a_base_of_another_name_is_an_error_where_no_cluster_could_have_it(tmp_path: Path) -> None:
    found = examined(tmp_path, egress_proxy({"httpProxy": "http://p.x:1"}, "proxy"))
    assert [(error.object, error.field) for error in found.errors] == [("EgressProxy/proxy", "metadata.name")]
    assert found.settings.own is not None
    assert found.settings.own.missing
    assert not examined(tmp_path, egress_proxy({"httpProxy": "http://p.x:1"}, "proxy"), egress_proxy({})).errors
    layered = examined(tmp_path, egress_proxy({"httpProxy": "http://p.x:1"}, "proxy"), cluster("prod")).settings
    assert urls(layered.clusters["org-x", "prod"]) == ("http://p.x:1", None)
    assert layered.clusters["org-x", "prod"] is not None
    assert not layered.clusters["org-x", "prod"].missing


DIRECT = egress_proxy({"mode": "Direct", "priority": 50, "clusterSelector": {"matchLabels": {"proxy": "none"}}}, "none")


def test_a_cluster_without_a_proxy(tmp_path: Path) -> None:
    bundle = config_map("one", {"ca-bundle.crt": certificate("one")})
    base = egress_proxy(BASE | {"trustedCA": {"name": "one"}, "clusterSelector": {}, "noProxy": "a.x"})
    objects = [base, DIRECT, CREDENTIALS, bundle, cluster("prod"), cluster("lab", {"proxy": "none"})]
    found = examined(tmp_path, *objects)
    assert not found.errors
    lab, prod = (found.settings.clusters["org-x", name] for name in ("lab", "prod"))
    assert lab is not None
    assert prod is not None
    assert (lab.direct, lab.configured, lab.no_proxy, urls(lab)) == (True, False, "", (None, None))
    assert (prod.direct, prod.configured) == (False, True)


def test_a_layer_above_sets_a_proxy_again(tmp_path: Path) -> None:
    above = egress_proxy({"httpProxy": "http://above.x:1", "priority": 60}, "above")
    below = egress_proxy({"httpProxy": "http://below.x:1", "noProxy": "b.x", "priority": 40}, "below")
    objects = [egress_proxy(BASE), CREDENTIALS, DIRECT, below, cluster("lab", {"proxy": "none"})]
    lab = examined(tmp_path, *objects).settings.clusters["org-x", "lab"]
    assert lab is not None
    assert (lab.direct, urls(lab)) == (True, (None, None))
    found = examined(tmp_path, *objects, above)
    lab = found.settings.clusters["org-x", "lab"]
    assert lab is not None
    assert (lab.direct, urls(lab)) == (False, ("http://above.x:1", None))
    # what layers below let bypass the proxy still does
    assert "b.x" in lab.no_proxy.split(",")
    assert "hunter2" not in str(lab)


@pytest.mark.parametrize(("name", "spec"), [("cluster", {}), ("layer", {"httpProxy": "http://p.x:1"})])
def test_no_proxy_is_said_by_a_layer_that_sets_none(name: str, spec: dict[str, object], tmp_path: Path) -> None:
    (error,) = examined(tmp_path, egress_proxy(spec | {"mode": "Direct"}, name), cluster("prod")).errors
    assert (error.object, error.field) == (f"EgressProxy/{name}", "spec.mode")


@pytest.mark.parametrize(
    ("spec", "fields"),
    [
        ({}, ["spec"]),
        ({"priority": 7, "clusterSelector": {}}, ["spec"]),
        ({"httpProxy": "", "httpsProxy": ""}, ["spec", "spec.httpProxy", "spec.httpsProxy"]),
        ({"httpProxy": "", "noProxy": "a.x"}, ["spec.httpProxy"]),
        ({"networks": {}}, ["spec"]),
        ({"networks": {"machineNetwork": ["10.0.0.0/16"]}}, []),
        ({"mode": "Direct"}, []),
        ({"consumers": []}, []),
        ({"propagate": False}, []),
        ({"propagated": {"pods": {"namespaceSelector": {}}}}, []),
        ({"propagated": {}}, ["spec"]),
    ],
)
def test_a_layer_without_effect_is_a_warning(spec: dict[str, object], fields: list[str], tmp_path: Path) -> None:
    found = examined(tmp_path, egress_proxy(BASE), CREDENTIALS, egress_proxy(spec, "layer"), cluster("prod"))
    told = [finding for finding in found.findings if finding.object == "EgressProxy/layer"]
    assert sorted(item.field for item in told) == fields
    assert {item.severity for item in told} <= {"warning"}
    assert all("mode: Direct" in item.message for item in told if item.field != "spec")


def test_which_pods_of_workload_clusters(tmp_path: Path) -> None:
    def propagated(**selector: object) -> dict[str, object]:
        return {"propagated": {"pods": {"namespaceSelector": selector}}}

    base = egress_proxy(
        BASE | propagated(matchLabels={"a": "b"}) | {"pods": {"namespaceSelector": {"matchLabels": {"own": "1"}}}}
    )
    low = egress_proxy(propagated() | {"priority": 1, "clusterSelector": {"matchLabels": {"x": "y"}}}, "low")
    bad = egress_proxy(propagated(matchLabels={"bad key!": "x y"}), "bad")
    found = examined(tmp_path, base, low, CREDENTIALS, cluster("a"), cluster("b", {"x": "y"})).settings
    one, other = (found.clusters["org-x", name] for name in ("a", "b"))
    assert one is not None
    assert other is not None
    assert one.propagated_selector == LabelSelector({"a": "b"})
    assert other.propagated_selector == LabelSelector()
    assert {error.object for error in examined(tmp_path, base, bad, CREDENTIALS).errors} == {"EgressProxy/bad"}
