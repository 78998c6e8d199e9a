"""Credentials go only where they were sent: which cluster gets them, by where they come from and what was said there."""

import base64
import binascii
import contextlib
import gzip
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.bundles import (
    NOW,
    certificate,
    cluster,
    config_map,
    egress_proxy,
    openshift_proxy,
    private_key,
    secret,
    write,
)
from tests.support.command import run

from transom.proxy.layers import ALL_CONSUMERS, WITH_CREDENTIALS
from transom.sources.directory import load_objects
from transom.sources.examination import Examined, examine_objects

TOKEN = "hunter2withheld"  # fake, and found by this name
SECRET = secret("creds", stringData={"username": "user", "password": TOKEN})
ALL: dict[str, Any] = {}
PROD = {"matchLabels": {"env": "prod"}}
PLAIN = {"httpProxy": "http://p.x:1"}
INSIDE = {"httpProxy": f"http://user:{TOKEN}@p.x:1"}
OF_SECRET = PLAIN | {"credentialsSecret": {"name": "creds"}}
HTTPS_ALONE = {"httpProxy": "http://p.x:1", "httpsProxy": f"http://user:{TOKEN}@p.x:2"}
NOTHING: dict[str, list[str]] = {}


def examined(tmp_path: Path, *objects: dict[str, Any]) -> Examined:
    return examine_objects(load_objects([write(tmp_path, *objects, SECRET)]), NOW)


ROWS: list[tuple[str, list[dict[str, Any]], list[str], dict[str, list[str]]]] = [
    # what was said, which of the clusters `prod` and `test` have settings, whose credentials are withheld from which
    ("no credentials", [egress_proxy(PLAIN)], ["prod", "test"], NOTHING),
    ("from a Secret", [egress_proxy(OF_SECRET)], [], {"cluster": ["prod", "test"]}),
    ("in a URL", [egress_proxy(INSIDE)], [], {"cluster": ["prod", "test"]}),
    ("in one of two URLs", [egress_proxy(HTTPS_ALONE)], [], {"cluster": ["prod", "test"]}),
    ("sent to all", [egress_proxy(OF_SECRET | {"clusterSelector": ALL})], ["prod", "test"], NOTHING),
    ("sent to some", [egress_proxy(INSIDE | {"clusterSelector": PROD})], ["prod", "test"], NOTHING),
    (
        "a layer with items alone sends nobody's credentials",
        [egress_proxy(OF_SECRET), egress_proxy({"noProxy": "a.x", "clusterSelector": PROD}, "items")],
        [],
        {"cluster": ["prod", "test"]},
    ),
    (
        "the layer that sets the proxies is asked",
        [egress_proxy(OF_SECRET), egress_proxy(INSIDE | {"clusterSelector": PROD}, "own")],
        ["prod"],
        {"cluster": ["test"]},
    ),
    (
        "a layer without a selector over a base with one",
        [egress_proxy(OF_SECRET | {"clusterSelector": ALL}), egress_proxy(INSIDE, "own")],
        [],
        {"own": ["prod", "test"]},
    ),
    (
        "a proxy without credentials over one with",
        [egress_proxy(OF_SECRET), egress_proxy(PLAIN | {"clusterSelector": PROD}, "own")],
        ["prod"],
        {"cluster": ["test"]},
    ),
    ("nothing is made for pods alone", [egress_proxy(OF_SECRET | {"consumers": ["Pods"]})], ["prod", "test"], NOTHING),
    (
        "but where it is brought there",
        [egress_proxy(OF_SECRET | {"consumers": ["Pods"], "propagate": True})],
        [],
        {"cluster": ["prod", "test"]},
    ),
    ("OpenShift's", [openshift_proxy(INSIDE)], [], {"cluster": ["prod", "test"]}),
    ("OpenShift's, by its status", [openshift_proxy({}, INSIDE), egress_proxy({})], [], {"cluster": ["prod", "test"]}),
    ("OpenShift's, sent", [openshift_proxy(INSIDE), egress_proxy({"clusterSelector": PROD})], ["prod", "test"], NOTHING),
]


@pytest.mark.parametrize(("objects", "having", "withheld"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_who_gets_them(
    objects: list[dict[str, Any]], having: list[str], withheld: dict[str, list[str]], tmp_path: Path
) -> None:
    found = examined(tmp_path, *objects, cluster("prod", {"env": "prod"}), cluster("test"))
    settings = found.settings
    assert settings.own is not None
    assert sorted(name for (_, name), egress in settings.clusters.items() if egress is not None) == having
    by: dict[str, list[str]] = {}
    for (_, name), entry in settings.withheld.items():
        by.setdefault(entry.egress_proxy, []).append(name)
        assert entry.egress.holds_credentials
    assert {name: sorted(clusters) for name, clusters in by.items()} == withheld
    warned = [finding for finding in found.findings if finding.field == "spec.clusterSelector"]
    assert all(item.severity == "warning" and TOKEN not in item.message for item in warned)
    assert {item.object.partition("/")[2] for item in warned} == set(withheld)
    for element in warned:
        clusters = withheld[element.object.partition("/")[2]]
        assert f"{len(clusters)} cluster" in element.message
        assert all(f"org-x/{name}" in element.message for name in clusters)
    assert not found.errors


def test_what_a_withheld_cluster_would_have_had_is_there_for_who_asks(tmp_path: Path) -> None:
    found = examined(tmp_path, egress_proxy(OF_SECRET), cluster("prod")).settings
    egress = found.get_with_withheld(("org-x", "prod"))
    assert egress is not None
    assert egress.http_proxy is not None
    assert TOKEN in egress.http_proxy.reveal()
    assert TOKEN not in repr(found)


def test_without_clusters_a_base_is_not_warned_of_and_a_layer_is(tmp_path: Path) -> None:
    def warned(*objects: dict[str, Any]) -> list[str]:
        return [finding.object for finding in examined(tmp_path, *objects).findings if finding.field == "spec.clusterSelector"]

    assert warned(egress_proxy(OF_SECRET)) == []
    assert warned(egress_proxy(PLAIN), egress_proxy(OF_SECRET, "own")) == ["EgressProxy/own"]


@pytest.mark.parametrize(
    ("spec", "consumers"),
    [
        (PLAIN, ALL_CONSUMERS),
        (OF_SECRET, WITH_CREDENTIALS),
        (INSIDE, WITH_CREDENTIALS),
        (OF_SECRET | {"consumers": ["Nodes", "StaticPods"]}, ("Nodes", "StaticPods")),
        (PLAIN | {"consumers": ["Nodes"]}, ("Nodes",)),
    ],
)
def test_static_pods_are_consumers_of_credentials_where_they_are_named(
    spec: dict[str, Any], consumers: tuple[str, ...], tmp_path: Path
) -> None:
    own = examined(tmp_path, egress_proxy(spec)).settings.own
    assert own is not None
    assert own.consumers == consumers


def manifests(tmp_path: Path, spec: dict[str, Any]) -> list[str]:
    """A management cluster with everything that carries settings, and a host of the workload cluster."""
    labels = {"cluster.x-k8s.io/cluster-name": "prod"}
    join = {"joinConfiguration": {"nodeRegistration": {"criSocket": "npipe:////./pipe/containerd-containerd"}}}
    template = {
        "apiVersion": "bootstrap.cluster.x-k8s.io/v1beta1",
        "kind": "KubeadmConfigTemplate",
        "metadata": {"name": "win", "namespace": "org-x", "labels": labels},
        "spec": {"template": {"spec": join}},
    }
    app = {"apiVersion": "application.giantswarm.io/v1alpha1", "kind": "App", "namespace": "org-x", "name": "prod-app"}
    host = {
        "apiVersion": "transom.dev/v1alpha1",
        "kind": "WindowsInstance",
        "metadata": {"name": "win-1"},
        "spec": {"address": "10.0.0.7", "username": "a", "clusterRef": {"name": "prod", "namespace": "org-x"}},
    }
    key = secret("cloud-private-key", stringData={"private-key.pem": private_key()})
    bundle = config_map("corp-ca", {"ca-bundle.crt": certificate("Root")})
    whole = egress_proxy(spec | {"noProxy": "a.x", "apps": [app], "propagate": True, "trustedCA": {"name": "corp-ca"}})
    directory = write(tmp_path, whole, SECRET, cluster("prod"), template, host, key, bundle)
    return ["-f", directory]


def everything(arguments: list[str], tmp_path: Path) -> str:
    """All that `render` prints or writes, Secrets' values too, decoded wherever a part is base64 or gzip."""
    ran = run("render", *arguments, "--show-secrets", "--output-dir", str(tmp_path / "out"))
    assert ran.code == 0, ran.err
    texts = [path.read_text("latin-1") for path in sorted((tmp_path / "out").rglob("*")) if path.is_file()]
    for more in ([], ["--machine-templates", "entries"], ["--machine-templates", "cluster-class"]):
        ran = run("render", *arguments, "--show-secrets", *more)
        assert ran.code == 0, ran.err
        texts.append(ran.out)
    return "\n".join(texts + [_opened(text) for text in texts])


def _opened(text: str) -> str:
    """What is in base64, gzip or a .reg file's hex in a text, as far down as that goes."""
    found = []
    for part in re.findall(r"[A-Za-z0-9+/]{16,}={0,2}", re.sub(r"\n +", "", text)):
        with contextlib.suppress(binascii.Error):
            data = base64.b64decode(part, validate=True)
            data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
            found.append(_registry(data) if data[:2] == b"\xff\xfe" else data.decode("latin-1"))
            found.append(_opened(found[-1]))
    return "\n".join(found)


def _registry(data: bytes) -> str:
    text = data.decode("utf-16").replace("\\\r\n", "")
    parts = re.findall(r"hex\(\w+\):([0-9a-f, ]+)", text)
    return "\n".join([text, *(bytes.fromhex(part.replace(",", " ")).decode("utf-16-le") for part in parts)])


def test_nothing_that_render_prints_for_such_a_cluster_holds_the_password(tmp_path: Path) -> None:
    printed = everything(manifests(tmp_path, OF_SECRET), tmp_path)
    assert TOKEN not in printed
    assert not (tmp_path / "out" / "hosts").exists()


def test_with_a_selector_all_that_carry_it_do(tmp_path: Path) -> None:
    arguments = manifests(tmp_path, OF_SECRET | {"clusterSelector": {}})
    printed = everything(arguments, tmp_path)
    assert TOKEN in printed
    made = {
        path.name for path in (tmp_path / "out").rglob("*") if path.is_file() and TOKEN in _opened(path.read_text("latin-1"))
    }
    assert made == {f"secret-prod-{name}.yaml" for name in ("cluster-values", "systemd-proxy", "windows-proxy")}
    assert (tmp_path / "out" / "hosts" / "win-1" / "desired.reg").exists()


def test_commands_say_so_and_go_on(tmp_path: Path) -> None:
    arguments = manifests(tmp_path, OF_SECRET)
    ran = run("validate", *arguments, "-o", "json")
    assert ran.code == 0
    (warning,) = (item for item in ran.json if item["field"] == "spec.clusterSelector")
    assert (warning["severity"], warning["object"]) == ("warning", "EgressProxy/cluster")
    assert "spec.clusterSelector" in run("render", *arguments).err
    ran = run("no-proxy", "merge", *arguments, "-o", "json")
    assert [entry["cluster"] for entry in ran.json] == [None, "org-x/prod"]
    assert "100.64.0.0/13" in ran.json[1]["noProxy"]


def test_a_host_of_such_a_cluster_is_not_connected_to(tmp_path: Path) -> None:
    ran = run("apply", *manifests(tmp_path, OF_SECRET), "-o", "json")
    assert ran.code == 1
    (host,) = ran.json["hosts"]
    assert (host["result"], host["channels"]) == ("failed", 0)
    assert "EgressProxy/cluster has credentials, and its spec.clusterSelector does not say" in host["error"]


def test_the_file_of_a_windows_worker_is_printed_where_it_is_asked_for(tmp_path: Path) -> None:
    inputs = ["--cluster", "prod", "--cluster-namespace", "org-x", "--provider", "vsphere", "--image", "win"]
    ran = run("capi", "worker", *inputs, *manifests(tmp_path, OF_SECRET), "--show-secrets")
    assert ran.code == 0, ran.err
    names = [item["metadata"]["name"] for item in yaml.safe_load_all(ran.out) if item["kind"] == "Secret"]
    assert "prod-windows-proxy" in names
