"""`transom pods explain`: offline, with the reasons."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.pods.table import CASES, NAMESPACES, PASSWORD, SETTINGS, objects
from tests.support.command import run

from transom.proxy.clients.harms import find_harms

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: shop}\nspec: {containers: [{name: app, image: x}]}\n"


def write(directory: Path, settings: str, pods: str) -> str:
    (directory / "settings.yaml").write_text(yaml.safe_dump_all(objects(settings)))
    (directory / "pods.yaml").write_text(pods)
    return str(directory)


def test_every_pod_of_the_table(tmp_path: Path) -> None:
    for settings in SETTINGS:
        cases = [case for case in CASES if case.settings == settings]
        place = tmp_path / settings
        place.mkdir()
        pods = [{**case.pod, "metadata": {**case.pod["metadata"], "namespace": f"{case.namespace}-x"}} for case in cases]
        named = [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"{name}-x", "labels": labels}}
            for name, labels in NAMESPACES.items()
        ]
        pods = [pod for pod in pods if pod["metadata"]["namespace"] != "own-x"]
        done = run("pods", "explain", "-f", write(place, settings, yaml.safe_dump_all([*pods, *named])), "-o", "json")
        assert done.code == 0, done.err
        found = {load["object"].rpartition("/")[2]: load for load in json.loads(done.out)}
        for case in cases:
            if case.namespace == "own":
                continue
            told = found[case.name]
            assert told["proxy"]["given"] == (case.proxy == "given")
            assert case.proxy == "given" or case.proxy in told["proxy"]["reason"]
            assert told["ca"]["given"] == case.with_ca
            assert bool(told["patch"]) == bool(case.env)
        assert "hunter2" not in done.out + done.err


def test_what_makes_pods_is_explained_too(tmp_path: Path) -> None:
    template = {"spec": {"containers": [{"name": "app", "image": "x"}]}}
    made = [
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"template": template}},
        {
            "apiVersion": "batch/v1",
            "kind": "CronJob",
            "metadata": {"name": "c", "namespace": "shop"},
            "spec": {"jobTemplate": {"spec": {"template": template}}},
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "kubernetes", "namespace": "default"},
            "spec": {"clusterIP": "10.9.8.7"},
        },
    ]
    done = run("pods", "explain", "-f", write(tmp_path, "credentials", yaml.safe_dump_all(made)))
    assert done.code == 0
    assert "Deployment/default/d\n  proxy: given to app\n" in done.out
    assert "CronJob/shop/c\n" in done.out
    assert PASSWORD not in done.out
    done = run("pods", "explain", "-f", str(tmp_path), "-o", "yaml")
    (patch, *_) = (item["patch"] for item in yaml.safe_load(done.out))
    assert patch[0]["value"][-1]["value"].endswith(",10.9.8.7")
    assert patch[-1] == {"op": "add", "path": "/metadata/annotations", "value": {"transom.dev/settings-hash": "***"}}


def test_pods_whose_name_is_generated(tmp_path: Path) -> None:
    """`kubectl create` takes the same text many times; a Secret of such a name can be referred to by nobody."""
    pod = yaml.safe_load(POD.replace("name: web", "generateName: web-"))
    job = {"metadata": {"generateName": "job-"}, "spec": {"template": {"spec": {"containers": [{"name": "app"}]}}}}
    made = [pod, pod, {"apiVersion": "batch/v1", "kind": "Job", **job}]
    made.append({"apiVersion": "v1", "kind": "Secret", "metadata": {"generateName": "s-"}})
    directory = write(tmp_path, "plain", yaml.safe_dump_all(made))
    done = run("pods", "explain", "-f", directory, "-o", "json")
    assert (done.code, done.err) == (0, "")
    assert [item["object"] for item in done.json] == ["Pod/shop/web-*", "Pod/shop/web-*", "Job/default/job-*"]
    assert all(item["proxy"]["given"] for item in done.json)
    assert run("validate", "-f", directory).code == 0

    base = {"apiVersion": "transom.dev/v1alpha1", "kind": "EgressProxy", "metadata": {"generateName": "layer-"}, "spec": {}}
    done = run("validate", "-f", write(tmp_path, "plain", yaml.safe_dump_all([base])))
    assert done.code == 2
    assert "give it a name" in done.out + done.err


def test_what_is_asked_is_one_thing() -> None:
    for arguments in ((), ("web", "-f", "x")):
        done = run("pods", "explain", *arguments)
        assert done.code == 2
        assert "either POD, with -n NAMESPACE, or -f PATH" in done.err


def test_containers_that_keep_theirs_and_those_that_are_left_out(tmp_path: Path) -> None:
    pod = yaml.safe_load(POD)
    pod["metadata"]["annotations"] = {"transom.dev/exclude-containers": "log", "transom.dev/inject-proxy": "override"}
    pod["spec"]["containers"] += [{"name": "log"}, {"name": "old", "env": [{"name": "http_proxy", "value": "a"}]}]
    done = run("pods", "explain", "-f", write(tmp_path, "plain", yaml.safe_dump(pod)))
    assert "proxy: given to app, old; annotation transom.dev/exclude-containers leaves out log" in done.out
    assert (
        "  old: gets HTTP_PROXY, http_proxy, HTTPS_PROXY, https_proxy, NO_PROXY, no_proxy; has replaced http_proxy" in done.out
    )


DUAL_STACK = {"serviceNetwork": ["10.96.0.0/16", "fd00:10:96::/112"], "podNetwork": ["10.244.0.0/16", "fd00:10:244::/56"]}


@pytest.mark.parametrize("keep", [False, True])
def test_pods_of_a_dual_stack_cluster(tmp_path: Path, keep: bool) -> None:
    """No client fails on the list that they get, unless somebody wants the networks in it: then a warning names who does."""
    pods = {"namespaceSelector": {}, **({"ipv6Networks": "Keep"} if keep else {})}
    spec = {"httpProxy": "http://p.example:3128", "httpsProxy": "http://p.example:3128", "pods": pods, "networks": DUAL_STACK}
    base = {"apiVersion": "transom.dev/v1alpha1", "kind": "EgressProxy", "metadata": {"name": "cluster"}, "spec": spec}
    (tmp_path / "objects.yaml").write_text(yaml.safe_dump_all([base, yaml.safe_load(POD)]))
    (explained,) = run("pods", "explain", "-f", str(tmp_path), "-o", "json").json
    values = {item["name"]: item.get("value") for step in explained["patch"] for item in step["value"] if "name" in item}
    no_proxy = values["NO_PROXY"]
    assert values["no_proxy"] == no_proxy
    assert {".svc", ".cluster.local", "kubernetes.default.svc", "10.96.0.0/16", "10.244.0.0/16"} <= set(no_proxy.split(","))
    networks = ["fd00:10:244::/56", "fd00:10:96::/112"]
    assert explained["noProxyLeftOut"] == ([] if keep else networks)
    assert [network in no_proxy for network in networks] == [keep, keep]
    assert [warning for warning in explained["warnings"] if "httpx" in warning] == explained["warnings"]
    assert len(explained["warnings"]) == (2 if keep else 0)
    assert bool(find_harms(no_proxy)) is keep
    told = run("validate", "-f", str(tmp_path), "-o", "json").json
    assert bool([item for item in told if "httpx" in item["message"]]) is keep


SERVICES = [
    {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": namespace}, "spec": spec}
    for namespace, name, spec in (
        ("team-x", "web", {}),
        ("team-x", "kafka", {"clusterIP": "None"}),
        ("team-x", "app", {}),
        ("team-x", "outside", {"type": "ExternalName", "externalName": "api.example.com"}),
        ("team-y", "other", {}),
    )
]


def explain_services(directory: Path, settings: str) -> tuple[dict[str, Any], str]:
    """Explain a pod that calls three Services by short names: as data, and as text."""
    pod = yaml.safe_load(POD.replace("shop", "team-x"))
    pod["spec"]["containers"][0]["args"] = ["http://web:8080", "http://app", "http://outside", "http://other.team-y"]
    directory.mkdir()
    path = write(directory, settings, yaml.safe_dump_all([pod, *SERVICES]))
    (explained,) = run("pods", "explain", "-f", path, "-o", "json").json
    return explained, run("pods", "explain", "-f", path).out


def test_the_services_of_the_namespace(tmp_path: Path) -> None:
    """Those that lead outside are not in the list, nor a name that is a public domain; and both are named."""
    explained, text = explain_services(tmp_path / "with", "services")
    names = ["kafka", "web", "app.team-x", "kafka.team-x", "web.team-x"]
    assert explained["noProxyServices"] == names
    values = {item["name"]: item.get("value") for step in explained["patch"] for item in step["value"] if "name" in item}
    assert values["NO_PROXY"].split(",")[-len(names) :] == names
    assert values["no_proxy"] == values["NO_PROXY"]
    assert ", ".join(names) in text
    proxied = [warning for warning in explained["warnings"] if "goes to the proxy" in warning]
    assert [name for name in ("web", "app", "outside", "other.team-y") if any(f" {name}, " in line for line in proxied)] == [
        "app",
        "outside",
        "other.team-y",
    ]
    assert not [warning for warning in proxied if "serviceNames" in warning]
    assert [warning for warning in explained["warnings"] if "NO_PROXY has no app" in warning]


def test_the_option_is_named_where_it_would_help(tmp_path: Path) -> None:
    explained, _ = explain_services(tmp_path / "without", "plain")
    assert explained["noProxyServices"] == []
    helped = {
        warning.partition(" names Service ")[2].partition(",")[0]: "serviceNames: Add" in warning
        for warning in explained["warnings"]
    }
    assert helped == {"web": True, "app": False, "outside": False, "other.team-y": False}


def test_no_pod_and_no_valid_settings(tmp_path: Path) -> None:
    done = run("pods", "explain", "-f", write(tmp_path, "plain", "---\n"))
    assert (done.code, done.out) == (2, "")
    assert "these manifests contain no pods" in done.err
    (tmp_path / "pods.yaml").write_text(POD.replace("[{name: app, image: x}]", "{app: 1}"))
    done = run("pods", "explain", "-f", str(tmp_path))
    assert done.code == 2
    assert "not a valid pod: Expected `array | null`, got `object` - at `$.spec.containers`" in done.err
    (tmp_path / "pods.yaml").write_text(POD)
    done = run("pods", "explain", "-f", str(tmp_path / "pods.yaml"))
    assert done.code == 0
    assert "proxy: not given: no settings for pods" in done.out


KINDS = """
apiVersion: serving.knative.dev/v1
kind: Service
metadata: {name: kn, namespace: shop}
spec: {template: {spec: {containers: [{image: x}]}}}
---
apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata: {name: ro, namespace: shop}
spec: {template: {spec: {containers: [{name: c, image: x, args: ["http://web:80"]}]}}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineDeployment
metadata: {name: md, namespace: shop}
spec: {template: {spec: {clusterName: prod}}}
---
apiVersion: example.com/v1
kind: Broken
metadata: {name: b, namespace: shop}
spec: {template: {spec: {containers: [{name: 1}]}}}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {clusterIP: 10.96.0.9}
"""


def test_templates_of_other_kinds_are_explained(tmp_path: Path) -> None:
    done = run("pods", "explain", "-f", write(tmp_path, "plain", KINDS), "-o", "json")
    assert done.code == 0, done.err
    found = {load["object"]: load for load in json.loads(done.out)}
    assert set(found) == {"Service/shop/kn", "Rollout/shop/ro"}
    assert all(item["proxy"]["given"] for item in found.values())
    assert "Broken/shop/b is not explained" in done.err
    assert any("Service web" in warning and "web.shop.svc" in warning for warning in found["Rollout/shop/ro"]["warnings"])
