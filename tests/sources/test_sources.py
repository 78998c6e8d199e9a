"""Objects of others: what of them is not taken, and what is nobody's business here."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.bundles import NOW, cluster, config_map, egress_proxy, secret, write

from transom.sources.directory import load_objects
from transom.sources.examination import Examined, examine_objects
from transom.sources.yaml_text import InvalidText, parse_value, read_documents

PROXY = egress_proxy({"httpProxy": "http://p.x:1"})


def examined(tmp_path: Path, *objects: dict[str, Any]) -> Examined:
    return examine_objects(load_objects([write(tmp_path, *objects)]), NOW)


def openshift(kind: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": "config.openshift.io/v1", "kind": kind, "metadata": {"name": "cluster"}, **fields}


def kubeadm(text: str) -> dict[str, Any]:
    return config_map("kubeadm-config", {"ClusterConfiguration": text}, "kube-system")


@pytest.mark.parametrize(
    ("item", "field", "says"),
    [
        (openshift("Network", status={"serviceNetwork": ["x"]}), "status.serviceNetwork", "is not a CIDR"),
        (openshift("Network", status={"clusterNetwork": [{"cidr": "x"}]}), "status.clusterNetwork", "is not a CIDR"),
        (
            openshift("Infrastructure", status={"platformStatus": {"type": "Mars"}}),
            "status.platformStatus.type",
            "is not a platform that is known",
        ),
        (
            openshift("Infrastructure", status={"platformStatus": {"type": "VSphere", "vsphere": {"machineNetworks": ["x"]}}}),
            "status.platformStatus.machineNetworks",
            "is not a CIDR",
        ),
        (kubeadm("networking: {podSubnet: x}"), "data.ClusterConfiguration", "is not a CIDR"),
        (kubeadm("networking: {"), "data.ClusterConfiguration", "this is not YAML"),
        (config_map("kubeadm-config", {}, "kube-system"), "data.ClusterConfiguration", "the key is missing"),
        (config_map("cluster-info", {"kubeconfig": "a: *b"}, "kube-public"), "data.kubeconfig", "no anchor before it"),
        (openshift("Proxy", spec={}) | {"metadata": {"name": "other"}}, "metadata.name", "only the one named `cluster`"),
    ],
)
def test_what_is_left_out_is_a_warning(item: dict[str, Any], field: str, says: str, tmp_path: Path) -> None:
    found = examined(tmp_path, PROXY, item)
    assert not found.errors
    assert [says in finding.message for finding in found.findings if finding.field == field] == [True]
    assert found.settings.own is not None
    assert found.settings.own.no_proxy == ".cluster.local,.svc,127.0.0.1,localhost"


def test_spec_networks_decides_without_a_word_of_others(tmp_path: Path) -> None:
    networks = {"podNetwork": ["10.0.0.0/16"], "serviceNetwork": ["10.1.0.0/16"], "machineNetwork": ["10.2.0.0/16"]}
    base = egress_proxy({"httpProxy": "http://p.x:1", "networks": networks | {"internalAPIHost": "api.x"}})
    other = openshift("Network", status={"serviceNetwork": ["x"], "clusterNetwork": [{"cidr": "x"}]})
    assert not examined(tmp_path, base, other).findings


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"clusterNetwork": {"services": {"cidrBlocks": ["10.0.0.0/8", "x"]}}}, "spec.clusterNetwork.services.cidrBlocks[1]"),
        ({"clusterNetwork": {"pods": {"cidrBlocks": ["10.0.0.0"]}}}, "spec.clusterNetwork.pods.cidrBlocks[0]"),
        ({"clusterNetwork": {"serviceDomain": "a,b"}}, "spec.clusterNetwork.serviceDomain"),
        ({"controlPlaneEndpoint": {"host": "https://x"}}, "spec.controlPlaneEndpoint.host"),
    ],
)
def test_networks_of_a_cluster_that_are_none(spec: dict[str, Any], field: str, tmp_path: Path) -> None:
    found = examined(tmp_path, PROXY, cluster("bad", **spec), cluster("good"))
    assert [(error.object, error.field) for error in found.errors] == [("Cluster/org-x/bad", field)]
    assert found.settings.clusters["org-x", "bad"] is None
    assert found.settings.clusters["org-x", "good"] is not None


def test_other_kinds_and_binary_secrets_are_nobodys_business(tmp_path: Path) -> None:
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "X:_"}, "rules": 3}
    store = secret("store", data={"keystore.jks": base64.b64encode(b"\xfe\xed\xfe\xed").decode()})
    assert not examined(tmp_path, role, store).findings


def test_typed_lists(tmp_path: Path) -> None:
    listed = {"apiVersion": "v1", "kind": "ConfigMapList", "items": [{"metadata": {"name": "a"}, "data": {"k": "v"}}]}
    objects = load_objects([write(tmp_path, listed)])
    held = objects.find_config_map("transom-system", "a")
    assert held is not None
    assert held.data == {"k": "v"}


def test_the_place_of_an_item_of_a_list(tmp_path: Path) -> None:
    (tmp_path / "list.yaml").write_text(
        "apiVersion: v1\nkind: List\nitems:\n"
        "  - {apiVersion: transom.dev/v1alpha1, kind: EgressProxy, metadata: {name: cluster},\n"
        "     spec: {httpProxy: ftp://x}}\n"
    )
    (error,) = examine_objects(load_objects([str(tmp_path)]), NOW).errors
    assert (error.line, error.column, error.field) == (5, 24, "spec.httpProxy")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("-3", -3),
        ("0o17", 15),
        ("0x1f", 31),
        ("1_000", 1000),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        ("yes", True),
        ("off", False),
        ("y", "y"),
        ("~", None),
        ("", None),
        ("10.0.0.1", "10.0.0.1"),
        ("1:30", "1:30"),
        ("0o_", "0o_"),
        ("0x_", "0x_"),
        ("0b_", "0b_"),
        ("0o_1", 1),
        ("2001-99-99", "2001-99-99"),
        ("1" * 5_000, "1" * 5_000),
        ("2020-01-01", "2020-01-01"),
        ("'1'", "1"),
        ("!!str 1", "1"),
        ("|\n  a\n  b", "a\nb\n"),
        ('"\\u00e9"', "é"),
        ("{<<: {a: 1}, a: 2}", {"a": 2}),
        ("{<<: [{a: 1}, {a: 2, b: 3}]}", {"a": 1, "b": 3}),
    ],
)
def test_scalars(text: str, value: object) -> None:
    (document,) = read_documents(f"a: {text}\n".encode())
    assert document.value == {"a": value}


@given(st.text("{}[]&*<:-+\n \"'|>%!?#,0123456789abcdefox_.e~\\\0\ud800", max_size=80))
def test_whatever_a_text_is_it_is_read_or_refused(text: str) -> None:
    try:
        parse_value(text)
    except InvalidText as error:
        assert error.reason


def test_hidden_files_are_nobodys_manifests(tmp_path: Path) -> None:
    """Those of Git, SOPS and a pipeline; and a ConfigMap that is mounted has each file twice, once in a hidden directory."""
    name = "egress.yaml"
    (tmp_path / "..2026_01_01").mkdir()
    (tmp_path / "..2026_01_01" / name).write_text(json.dumps(egress_proxy({"httpProxy": "http://p.x:1"})))
    (tmp_path / "..data").symlink_to("..2026_01_01")
    (tmp_path / name).symlink_to(f"..data/{name}")
    (tmp_path / ".sops.yaml").write_text("creation_rules: []\n")
    (tmp_path / ".github" / "workflows").mkdir(parents=True)
    (tmp_path / ".github" / "workflows" / "ci.yaml").write_text("on: push\n")
    found = load_objects([str(tmp_path)])
    assert found.findings == ()
    assert [item.place.file for item in found.egress_proxies] == [str(tmp_path / name)]
    # who names one means it
    assert load_objects([str(tmp_path / ".sops.yaml")]).findings != ()
