"""The CustomResourceDefinitions on a real API server: accepted, and saying no to what they can say no to."""

import json
import urllib.error
from collections.abc import Iterator
from typing import Any

import pytest
from lab.control_plane import ControlPlane

from transom.manifests.definitions import build_crds
from transom.manifests.egress_proxy import EGRESS_PROXY
from transom.sources.objects import ObjectReader

PASSWORD = "hunter2%^&!"
BASE = {
    "httpProxy": "http://proxy.corp.example:3128",
    "httpsProxy": "HTTPS://proxy.corp.example:3129",
    "noProxy": "172.16.0.0/16,internal.corpdomain.net,example.com",
    "credentialsSecret": {"name": "egress-credentials"},
    "trustedCA": {"name": "corp-ca"},
    "readinessEndpoints": ["https://registry.example/v2/"],
    "readinessPolicy": "Gate",
    "windows": {
        "environmentScope": "Services",
        "services": ["containerd", "kubelet"],
        "restart": "Rolling",
        "winHTTP": False,
        "powerShell": False,
    },
    "consumers": ["Nodes", "Apps", "Pods"],
    "pods": {"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}},
    "networks": {
        "dnsDomain": "cluster.local",
        "machineNetwork": ["10.0.0.0/16"],
        "serviceNetwork": ["172.30.0.0/16", "fd02::/112"],
        "podNetwork": ["10.128.0.0/14"],
        "internalAPIHost": "api-int.prod.example.com",
        "platform": {"type": "AWS", "region": "us-west-2"},
    },
    "clusterSelector": {"matchLabels": {"env": "prod"}},
    "priority": 0,
    "rollout": "Manual",
    "propagate": False,
    "apps": [{"apiVersion": "application.giantswarm.io/v1alpha1", "kind": "App", "namespace": "org-x", "name": "cert-manager"}],
}
HOST = {"address": "win-1.example.com", "username": "Administrator"}

GOOD_PROXIES = [
    ("cluster", BASE),
    ("cluster", {}),
    ("cluster", {"httpProxy": "", "httpsProxy": "", "noProxy": ""}),
    ("cluster", {"trustedCA": {"name": "corp-ca"}}),
    ("cluster", {"httpProxy": f"http://user:{PASSWORD}@p.x"}),
    ("layer", {"noProxy": "mesh.example.com"}),
    ("layer", {"priority": -5, "clusterSelector": {"matchExpressions": [{"key": "env", "operator": "Exists"}]}}),
    ("layer", {"noProxy": "a.com", "networks": {"machineNetwork": ["10.0.0.0/16"]}}),
    ("layer", {"trustedCA": {"name": "corp-ca"}, "propagate": True, "rollout": "Automatic"}),
]
BAD_PROXIES = [
    ("cluster", {"httpProxy": f"https://user:{PASSWORD}@p.x"}, "spec.httpProxy: Invalid value"),
    ("layer", {"httpsProxy": f"socks5://user:{PASSWORD}@p.x"}, "spec.httpsProxy: Invalid value"),
    ("cluster", {"httpProxy": f"http://{PASSWORD}" + "x" * 5000}, "spec.httpProxy: Too long"),
    ("cluster", {"noProxy": "example.com"}, "spec.noProxy: Invalid value"),
    ("cluster", {"credentialsSecret": {"name": "a"}}, "spec.credentialsSecret: Invalid value"),
    (
        "layer",
        {"credentialsSecret": {"name": "a"}, "httpProxy": f"http://u:{PASSWORD}@p"},
        "spec.credentialsSecret: Invalid value",
    ),
    ("layer", {"credentialsSecret": {}, "httpProxy": "http://p"}, "spec.credentialsSecret.name: Required value"),
    ("layer", {"trustedCA": {"name": ""}}, "spec.trustedCA.name: Invalid value"),
    (
        "cluster",
        {"httpProxy": "http://p", "readinessEndpoints": ["ftp://a"]},
        "spec.readinessEndpoints: Invalid value",
    ),
    (
        "layer",
        {"readinessEndpoints": ["http://a"]},
        "spec.readinessEndpoints: Invalid value",
    ),
    ("layer", {"readinessPolicy": "Gate"}, "spec.readinessPolicy: Invalid value"),
    ("layer", {"windows": {}}, "spec.windows: Invalid value"),
    ("layer", {"pods": {}}, "spec.pods: Invalid value"),
    ("layer", {"networks": {"dnsDomain": "a.b"}}, "spec.networks: Invalid value"),
    ("cluster", {"windows": {"restart": "Never"}}, 'Unsupported value: "Never"'),
    ("cluster", {"windows": {"services": ["a b"]}}, "spec.windows.services[0]"),
    ("cluster", {"consumers": ["Everybody"]}, 'Unsupported value: "Everybody"'),
    (
        "layer",
        {"clusterSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
        "spec.clusterSelector.matchExpressions[0]: Invalid value",
    ),
    ("layer", {"clusterSelector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}}, "Unsupported value"),
    ("layer", {"priority": 2**31}, "spec.priority"),
    ("layer", {"apps": [{"kind": "App", "name": "x"}]}, "spec.apps[0].namespace: Required value"),
    ("cluster", {"httpsproxy": "http://p"}, 'unknown field "spec.httpsproxy"'),
]
GOOD_HOSTS = [
    HOST,
    HOST | {"address": "10.0.0.7", "port": 65535, "nodeName": "win-1", "paused": True, "lifecycle": "Node"},
    HOST | {"address": "fd00::7", "keySecret": {"name": "other"}, "clusterRef": {"name": "prod", "namespace": "org-x"}},
    HOST | {"hostKey": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHQ2vA0jRk8q7nWcE1J2dXo4b2Zz root@win\n"},
]
BAD_HOSTS = [
    ({"username": "a"}, "spec.address: Required value"),
    ({"address": "a"}, "spec.username: Required value"),
    (HOST | {"username": ""}, "spec.username: Invalid value"),
    (HOST | {"address": "[fd00::7]"}, "spec.address: Invalid value"),
    (HOST | {"address": "win-1:22"}, "spec.port"),
    (HOST | {"address": "two words"}, "spec.address: Invalid value"),
    (HOST | {"port": 0}, "spec.port: Invalid value"),
    (HOST | {"port": 65536}, "spec.port: Invalid value"),
    (HOST | {"nodeName": "Win-1"}, "spec.nodeName: Invalid value"),
    (HOST | {"hostKey": "ssh-ed25519 AAAA\nssh-rsa BBBB"}, "spec.hostKey: Invalid value"),
    (HOST | {"lifecycle": "Some"}, 'Unsupported value: "Some"'),
    (HOST | {"lifecycle": "Node", "clusterRef": {"name": "prod"}}, "spec.lifecycle: Invalid value"),
    (HOST | {"clusterRef": {}}, "spec.clusterRef.name: Required value"),
    (HOST | {"password": PASSWORD}, 'unknown field "spec.password"'),
]


def egress_proxy(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "transom.dev/v1alpha1", "kind": "EgressProxy", "metadata": {"name": name}, "spec": spec}


def windows_instance(spec: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": "win-1", "namespace": "default"}
    return {"apiVersion": "transom.dev/v1alpha1", "kind": "WindowsInstance", "metadata": metadata, "spec": spec}


@pytest.fixture(scope="module")
def defined(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    control_plane.define(build_crds())
    yield control_plane
    control_plane.forget(build_crds())


class Refused(Exception):
    """What the server answered."""


def create(control_plane: ControlPlane, value: dict[str, Any]) -> dict[str, Any]:
    """The object as the server would keep it. Raises Refused with what it says."""
    place = "" if value["kind"] == "EgressProxy" else "namespaces/default/"
    plural = "egressproxies" if value["kind"] == "EgressProxy" else "windowsinstances"
    path = f"/apis/transom.dev/v1alpha1/{place}{plural}?dryRun=All&fieldValidation=Strict"
    try:
        made: dict[str, Any] = json.loads(control_plane.request("POST", path, value))
    except urllib.error.HTTPError as error:
        raise Refused(error.read().decode()) from error
    return made


@pytest.mark.lab
@pytest.mark.parametrize("value", [*(egress_proxy(*good) for good in GOOD_PROXIES), *map(windows_instance, GOOD_HOSTS)])
def test_good_objects_are_accepted_and_read_as_they_were_written(defined: ControlPlane, value: dict[str, Any]) -> None:
    kept = create(defined, value)
    read = []
    for item in (value, kept):
        reader = ObjectReader("default")
        reader.add({**item, "metadata": value["metadata"]}, "", lambda path: (0, 0))
        objects = reader.build_objects()
        assert objects.findings == ()
        read.append([held.spec for held in (*objects.egress_proxies, *objects.windows_instances)])
    assert len(read[0]) == 1
    assert read[0] == read[1], "a default of the server is another than that of the reader"


@pytest.mark.lab
@pytest.mark.parametrize(
    ("value", "message"),
    [
        *((egress_proxy(name, spec), message) for name, spec, message in BAD_PROXIES),
        *((windows_instance(spec), message) for spec, message in BAD_HOSTS),
    ],
)
def test_bad_objects_are_refused_with_the_field_and_without_the_password(
    defined: ControlPlane, value: dict[str, Any], message: str
) -> None:
    with pytest.raises(Refused) as error:
        create(defined, value)
    assert message in json.loads(str(error.value))["message"]
    # not the whole password: JSON may write some of its characters otherwise
    assert "hunter2" not in str(error.value)


@pytest.mark.lab
def test_no_password_is_in_the_audit_log(defined: ControlPlane) -> None:
    for name, spec, _ in BAD_PROXIES:
        with pytest.raises(Refused):
            create(defined, egress_proxy(name, spec))
    assert "hunter2" not in defined.audit_log.read_text()


@pytest.mark.lab
def test_what_kubectl_shows(defined: ControlPlane) -> None:
    defined.apply([egress_proxy("cluster", {"trustedCA": {"name": "corp-ca"}}), windows_instance(HOST)])
    condition = {"status": "True", "reason": "Tried", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    expiry = "2099-12-30T00:00:00Z"
    bundle = {"sha256": "0" * 64, "certificates": 1, "earliestExpiry": expiry}
    proxy = {"httpsProxy": "http://***@p.x:3128", "trustBundle": bundle, "conditions": [condition | {"type": "Ready"}]}
    host = {"nodeName": "win-1", "conditions": [condition | {"type": "Ready"}, condition | {"type": "ProxyApplied"}]}
    for target, status in (("egressproxy/cluster", proxy), ("windowsinstance/win-1", host)):
        patch = json.dumps({"status": status})
        defined.run_kubectl("patch", target, "--subresource=status", "--type=merge", "-p", patch)
    shown = [line.split()[:-1] for line in defined.run_kubectl("get", "epx").splitlines()]
    assert shown[1] == ["cluster", "http://***@p.x:3128", "True", "Tried"]
    assert expiry in defined.run_kubectl("get", "epx", "cluster", "-o", "wide")
    heading, row = (line.split()[:-1] for line in defined.run_kubectl("get", "wini").splitlines())
    assert heading == ["NAME", "ADDRESS", "READY", "REASON", "PROXYAPPLIED", "TRUSTAPPLIED", "NODE", "NODEREADY"]
    assert row == ["win-1", "win-1.example.com", "True", "Tried", "True", "win-1"]
    assert "egressproxy.transom.dev/cluster" in defined.run_kubectl("get", "transom", "-o", "name")
    explained = " ".join(defined.run_kubectl("explain", "egressproxy.spec.readinessEndpoints").split())
    assert EGRESS_PROXY.rules["spec.readinessEndpoints"].description in explained
    defined.run_kubectl("delete", "egressproxies,windowsinstances", "--all")


def test_every_field_is_described() -> None:
    def walk(schema: dict[str, Any], path: str) -> Iterator[str]:
        if not schema.get("description") and path not in (".metadata",):
            yield path
        for name, below in schema.get("properties", {}).items():
            yield from walk(below, f"{path}.{name}")

    for definition in build_crds():
        schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        assert list(walk(schema, "")) == []
