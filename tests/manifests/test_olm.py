"""What OLM installs from: the same objects and rights as every install, as operator-framework's own validators want them."""

import json
import urllib.error
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from lab.control_plane import ControlPlane
from tests.manifests.value_sets import VALUE_SETS
from tests.support.process import run

from lab import olm
from transom.manifests import install
from transom.manifests.olm import OlmBundle, build_bundle
from transom.manifests.values import read_values, to_json_data

NAMESPACE = "transom-system"
IMAGE = "registry.example/transom-bundle:0.1.0"
Object = dict[str, Any]


def installed(name: str) -> list[Object]:
    return install.build_objects(
        to_json_data(read_values({"image": {"registry": "registry.example"}} | VALUE_SETS[name])), NAMESPACE
    )


def spec_of(made: OlmBundle) -> Object:
    (csv,) = (manifest for manifest in made.manifests.values() if manifest["kind"] == "ClusterServiceVersion")
    spec: Object = csv["spec"]
    return spec


def rules_of(objects: list[Object], kind: str, account: str) -> list[Object]:
    """What an account is given in its own namespace, or in all: by bindings of that kind."""
    subject = {"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}
    near = [obj for obj in objects if obj["metadata"].get("namespace", NAMESPACE) == NAMESPACE]
    names = [item["roleRef"]["name"] for item in near if item["kind"] == f"{kind}Binding" and subject in item["subjects"]]
    return [rule for item in near if item["kind"] == kind and item["metadata"]["name"] in names for rule in item["rules"]]


@pytest.mark.parametrize("name", VALUE_SETS)
def test_each_object_of_an_install_is_somewhere_and_each_right_the_same(name: str) -> None:
    objects = installed(name)
    made = build_bundle(objects, NAMESPACE, "0.1.0")
    spec = spec_of(made)["install"]["spec"]
    deployments = {obj["metadata"]["name"]: obj for obj in objects if obj["kind"] == "Deployment"}
    assert {deployment["name"]: deployment["spec"] for deployment in spec["deployments"]} == {
        name: deployment["spec"] for name, deployment in deployments.items()
    }
    accounts = {deployment["spec"]["template"]["spec"]["serviceAccountName"] for deployment in deployments.values()}
    for field, kind in (("clusterPermissions", "ClusterRole"), ("permissions", "Role")):
        given = {item["serviceAccountName"]: item["rules"] for item in spec[field]}
        assert given == {account: rules for account in accounts if (rules := rules_of(objects, kind, account))}
    others = [*made.manifests.values(), *made.beside]
    kept = {(other["kind"], other["metadata"]["name"]) for other in others} | {("Namespace", NAMESPACE)}
    gone = [obj for obj in objects if (obj["kind"], obj["metadata"]["name"]) not in kept]
    bindings = [item for item in gone if "subjects" in item]
    assert all({subject["name"] for subject in binding["subjects"]} <= accounts for binding in bindings)
    created = {obj["metadata"]["name"] for obj in objects if obj["kind"] == "ServiceAccount"}
    by_olm = {("ServiceAccount", account) for account in accounts & created} | {("Deployment", name) for name in deployments}
    by_olm |= {(binding["roleRef"]["kind"], binding["roleRef"]["name"]) for binding in bindings}
    assert {(item["kind"], item["metadata"]["name"]) for item in gone if item not in bindings} == by_olm
    # what stands in the bundle is put into the namespace of the Subscription
    assert not any(
        "namespace" in manifest["metadata"]
        for manifest in made.manifests.values()
        if manifest["kind"] != "ClusterServiceVersion"
    )


def test_rights_in_one_namespace_are_not_made_rights_in_all() -> None:
    """OLM does that to a bundle that may be installed for all namespaces."""
    made = build_bundle(installed("default"), NAMESPACE, "0.1.0")
    modes = {install_mode["type"]: install_mode["supported"] for install_mode in spec_of(made)["installModes"]}
    assert modes == {"OwnNamespace": True, "SingleNamespace": False, "MultiNamespace": False, "AllNamespaces": False}
    elsewhere = {item["metadata"]["namespace"] for item in made.beside if item["kind"] == "Role"}
    assert elsewhere == {"default", "kube-system"}


@pytest.fixture(scope="module")
def kind(control_plane: ControlPlane) -> Iterator[None]:
    made = [olm.read_definition("clusterserviceversions")]
    control_plane.define(made)
    yield
    control_plane.forget(made)


@pytest.mark.lab
@pytest.mark.parametrize("name", ["default", "everything"])
def test_it_is_as_operator_framework_wants_it(name: str, control_plane: ControlPlane, kind: None, tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text(json.dumps({"image": {"registry": "registry.example"}} | VALUE_SETS[name]), "utf-8")
    out = tmp_path / "olm"
    done = run("manifests", "--any-registry", "--values", str(values), "--olm-bundle", IMAGE, "--output-dir", str(out))
    assert done.returncode == 0, done.stderr
    assert olm.validate("bundle", out / "bundle") == []
    assert olm.validate("catalog", out / "catalog") == []
    # the definition of the kind, on a real API server, and the examples by ours
    csv = yaml.safe_load((out / "bundle/manifests/transom.clusterserviceversion.yaml").read_text("utf-8"))
    csv["metadata"]["namespace"] = "default"
    path = "namespaces/default/clusterserviceversions?dryRun=All&fieldValidation=Strict"
    control_plane.request("POST", f"/apis/operators.coreos.com/v1alpha1/{path}", csv)
    for load in json.loads(csv["metadata"]["annotations"]["alm-examples"]):
        plural = {"EgressProxy": "egressproxies", "WindowsInstance": "namespaces/default/windowsinstances"}[load["kind"]]
        try:
            control_plane.request("POST", f"/apis/transom.dev/v1alpha1/{plural}?dryRun=All&fieldValidation=Strict", load)
        except urllib.error.HTTPError as error:
            raise AssertionError(error.read().decode()) from error


@pytest.mark.lab
def test_what_is_wrong_is_found(tmp_path: Path) -> None:
    """The validators see a definition that is not there, and a bundle of no package."""
    out = tmp_path / "olm"
    arguments = ("--image", "registry.example/transom:1", "--olm-bundle", IMAGE, "--output-dir", str(out))
    assert run("manifests", *arguments).returncode == 0
    (out / "bundle/manifests/egressproxies.transom.dev.customresourcedefinition.yaml").unlink()
    assert any("EgressProxy" in problem for problem in olm.validate("bundle", out / "bundle"))
    file = out / "catalog/transom/catalog.yaml"
    file.write_text(file.read_text("utf-8").replace("package: transom", "package: other", 1), "utf-8")
    assert olm.validate("catalog", out / "catalog")


def test_a_bundle_needs_a_directory() -> None:
    refused = run("manifests", "--image", "registry.example/transom:1", "--olm-bundle", IMAGE)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "--olm-bundle: it needs --output-dir" in refused.stderr
