"""What a stolen token of Transom's cannot change in ConfigMaps, HelmReleases and Apps of others, on a real API server."""

import contextlib
import itertools
import json
import time
import urllib.error
from collections.abc import Iterator
from typing import Any, Final

import pytest
import yaml
from lab.control_plane import ControlPlane
from lab.objects import APPLY
from tests.support.management.apps import DEFINITION, app, release
from tests.support.process import run
from tests.support.waiting import PATIENCE

from lab import flux
from transom.capi.values.values_objects import build_reference_fields, build_spec
from transom.kube.client import Client
from transom.kube.connection import connect
from transom.kube.errors import StatusError

pytestmark = pytest.mark.lab
OWN, TENANT = "transom-system", "argocd"
MERGE: Final = "application/merge-patch+json"
MANAGED: Final = {"app.kubernetes.io/managed-by": "transom"}
ASKS: Final = {"transom.dev/inject": "true"}
_NUMBERS: Final = itertools.count()


@pytest.fixture(scope="module")
def bounded() -> Iterator[ControlPlane]:
    """Transom installed with every controller, where there are Apps and HelmReleases."""
    with ControlPlane(definitions=(*flux.read_definitions(), DEFINITION)) as running:
        text = run("manifests", "--cluster-api", "--part", "rbac", "--part", "policies").stdout
        running.apply([item for item in yaml.safe_load_all(text) if item])
        running.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TENANT}}])
        wait_for_policies(running)
        yield running


def wait_for_policies(plane: ControlPlane) -> None:
    """Wait until the server holds Transom to each policy; it takes a moment for each."""
    probes = [
        (config_map(), {"data": {"policy.csv": "x"}}),
        (release_of(), {"spec": {"interval": "1s"}}),
        (app_of(), {"spec": {"catalog": "other"}}),
    ]
    last = time.monotonic() + PATIENCE
    for value, change in probes:
        make(plane, value)
        while "ValidatingAdmissionPolicy" not in try_change(plane, value, change, dry_run=True):
            assert time.monotonic() < last, f"the policy of a {value['kind']} never held"
            time.sleep(0.1)


def config_map(labels: dict[str, str] | None = None, namespace: str = TENANT, **data: str) -> dict[str, Any]:
    """Return a ConfigMap of somebody else's."""
    metadata = {"name": f"rbac-{next(_NUMBERS)}", "namespace": namespace, "labels": labels or {"team": "a"}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data or {"policy.csv": "p, admins"}}


def release_of(labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    """Return a HelmRelease of somebody else's."""
    made = release(f"web-{next(_NUMBERS)}", TENANT, labels or {"team": "a"}, values={"replicas": 2}, **spec)
    return {"apiVersion": "helm.toolkit.fluxcd.io/v2", **made}


def app_of(labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    """Return an App of somebody else's."""
    made = app(f"web-{next(_NUMBERS)}", TENANT, labels or {"team": "a"}, **spec)
    return {"apiVersion": "application.giantswarm.io/v1alpha1", **made}


def make(plane: ControlPlane, value: dict[str, Any]) -> None:
    """Create an object as the administrator."""
    plane.request("POST", plane.build_path(value), value)


def request(plane: ControlPlane, method: str, value: dict[str, Any], body: Any, kind: str, *, dry_run: bool = False) -> str:
    """Send a request as Transom's operator; return the refusal, empty where there is none."""
    name = value["metadata"]["name"]
    place = plane.build_path(value) + ("" if method == "POST" else f"/{name}")
    query = "?" + "&".join((["fieldManager=transom&force=true"] if kind == APPLY else []) + (["dryRun=All"] if dry_run else []))
    try:
        plane.request(method, place + query, body, content_type=kind, user=f"system:serviceaccount:{OWN}:transom")
    except urllib.error.HTTPError as error:
        return str(json.load(error)["message"])
    return ""


def try_change(plane: ControlPlane, value: dict[str, Any], change: dict[str, Any], *, dry_run: bool = False) -> str:
    """Try a merge patch as Transom's operator."""
    return request(plane, "PATCH", value, change, MERGE, dry_run=dry_run)


def try_apply(plane: ControlPlane, value: dict[str, Any], change: dict[str, Any]) -> str:
    """Apply fields as Transom's operator does."""
    head = {"apiVersion": value["apiVersion"], "kind": value["kind"]}
    metadata = {key: value["metadata"][key] for key in ("name", "namespace")}
    return request(plane, "PATCH", value, {**head, "metadata": metadata, **change}, APPLY)


MARKS: Final = {
    "a label that makes it Transom's": {"metadata": {"labels": MANAGED}},
    "an annotation that gives it to Transom": {"metadata": {"annotations": {"transom.dev/adopt": "true"}}},
    "an annotation of its controller": {"metadata": {"annotations": {"reconcile.fluxcd.io/forceAt": "now"}}},
    "a finalizer": {"metadata": {"finalizers": ["example.com/never"]}},
    "an owner": {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "1"}]}},
}
HOSTILE_CONFIG_MAPS: Final = MARKS | {
    "another key": {"data": {"policy.csv": "p, everybody"}},
    "a new key": {"data": {"policy.default": "role:admin"}},
    "a key that goes": {"data": {"policy.csv": None}},
    "another key with the bundle": {"data": {"ca-bundle.crt": "PEM", "policy.csv": "p, everybody"}},
    "binary data": {"binaryData": {"policy.csv2": "eA=="}},
    "a label and a key at once": {"metadata": {"labels": MANAGED}, "data": {"policy.csv": "p, everybody"}},
}


@pytest.mark.parametrize("name", HOSTILE_CONFIG_MAPS)
def test_of_others_config_maps_the_bundle_alone_changes(bounded: ControlPlane, name: str) -> None:
    value = config_map()
    make(bounded, value)
    assert "ValidatingAdmissionPolicy" in try_change(bounded, value, HOSTILE_CONFIG_MAPS[name])


def test_config_maps_of_others_are_neither_made_nor_deleted(bounded: ControlPlane) -> None:
    value = config_map()
    assert "ValidatingAdmissionPolicy" in request(bounded, "POST", value, value, "application/json")
    make(bounded, value)
    assert "ValidatingAdmissionPolicy" in request(bounded, "DELETE", value, None, "application/json")


def test_what_transom_does_with_config_maps_is_taken(bounded: ControlPlane) -> None:
    asks = config_map()
    make(bounded, asks)
    for data in ({"ca-bundle.crt": "PEM"}, {"ca-bundle.crt": "PEM 2"}, {}):
        assert try_apply(bounded, asks, {"data": data} if data else {}) == ""
    own = config_map(MANAGED)
    assert request(bounded, "POST", own, own, "application/json") == ""
    assert try_apply(bounded, own, {"data": {"values": "other"}}) == ""
    assert request(bounded, "DELETE", own, None, "application/json") == ""
    given = config_map()
    given["metadata"]["annotations"] = {"transom.dev/adopt": "true"}
    make(bounded, given)
    assert try_apply(bounded, given, {"metadata": {**given["metadata"], "labels": MANAGED}, "data": {"values": "x"}}) == ""
    rollouts = config_map(namespace=OWN)
    assert request(bounded, "POST", rollouts, rollouts, "application/json") == ""


VALUES: Final = build_reference_fields("HelmRelease", "mycluster", TENANT)
THEIRS: Final = [{"kind": "ConfigMap", "name": "theirs", "valuesKey": "values"}]
HOSTILE_RELEASES: Final = MARKS | {
    "a post-renderer": {"spec": {"postRenderers": [{"kustomize": {"images": [{"name": "a", "newName": "evil/a"}]}}]}},
    "values": {"spec": {"values": {"image": "evil"}}},
    "a service account": {"spec": {"serviceAccountName": "admin"}},
    "another chart": {"spec": {"chartRef": {"kind": "OCIRepository", "name": "evil"}}},
    "another cluster": {"spec": {"kubeConfig": {"secretRef": {"name": "x"}}}},
    "values of its own with the list": {"spec": {"values": {"image": "evil"}, **build_spec("HelmRelease", VALUES)}},
    "a list that takes theirs away": {"spec": build_spec("HelmRelease", VALUES)},
    "other objects": {"spec": {"valuesFrom": [*THEIRS, {"kind": "Secret", "name": "evil", "valuesKey": "values"}]}},
    "a key of theirs": {"spec": {"valuesFrom": [{**THEIRS[0], "targetPath": "image.repository"}]}},
}


@pytest.mark.parametrize("name", HOSTILE_RELEASES)
def test_of_helm_releases_nothing_else_changes(bounded: ControlPlane, name: str) -> None:
    value = release_of(ASKS, valuesFrom=THEIRS)
    make(bounded, value)
    assert "ValidatingAdmissionPolicy" in try_change(bounded, value, HOSTILE_RELEASES[name])


def test_a_release_that_does_not_ask_is_left_alone(bounded: ControlPlane) -> None:
    value = release_of()
    make(bounded, value)
    assert "ValidatingAdmissionPolicy" in try_apply(bounded, value, {"spec": build_spec("HelmRelease", VALUES)})


@pytest.mark.parametrize("own", [False, True])
def test_values_of_a_cluster_come_and_go_in_a_release(bounded: ControlPlane, own: bool) -> None:
    value = release_of(ASKS)
    make(bounded, value)
    fields = build_reference_fields("HelmRelease", "mycluster", TENANT, own_name=own)
    assert try_apply(bounded, value, {"spec": build_spec("HelmRelease", fields)}) == ""
    bounded.request(
        "PATCH", f"{bounded.build_path(value)}/{value['metadata']['name']}", {"metadata": {"labels": None}}, content_type=MERGE
    )
    assert try_apply(bounded, value, {}) == ""


APP_VALUES: Final = build_reference_fields("App", "mycluster", TENANT)
HOSTILE_APPS: Final = MARKS | {
    "another catalogue": {"spec": {"catalog": "evil"}},
    "values of the user": {"spec": {"userConfig": {"configMap": {"name": "mycluster-cluster-values", "namespace": TENANT}}}},
    "another cluster": {"spec": {"kubeConfig": {"inCluster": True}}},
    "an object of another namespace": {
        "spec": {"config": {"configMap": {"name": "x-cluster-values", "namespace": "kube-system"}}}
    },
    "another object": {"spec": {"config": {"configMap": {"name": "evil", "namespace": TENANT}}}},
    "one that goes": {"spec": {"config": {"secret": None}}},
}


@pytest.mark.parametrize("name", HOSTILE_APPS)
def test_of_apps_nothing_else_changes(bounded: ControlPlane, name: str) -> None:
    value = app_of(ASKS, config={"secret": {"name": "theirs", "namespace": TENANT}})
    make(bounded, value)
    assert "ValidatingAdmissionPolicy" in try_change(bounded, value, HOSTILE_APPS[name])


def test_an_app_that_does_not_ask_is_left_alone(bounded: ControlPlane) -> None:
    value = app_of()
    make(bounded, value)
    assert "ValidatingAdmissionPolicy" in try_apply(bounded, value, {"spec": build_spec("App", APP_VALUES)})


def test_values_of_a_cluster_come_and_go_in_an_app(bounded: ControlPlane) -> None:
    for spec in ({}, {"config": {}}, {"config": None}):
        value = app_of(ASKS, **spec)
        make(bounded, value)
        assert try_apply(bounded, value, {"spec": build_spec("App", APP_VALUES)}) == ""
        assert try_apply(bounded, value, {"spec": build_spec("App", {"configMap": APP_VALUES["configMap"]})}) == ""
        assert try_apply(bounded, value, {}) == ""


def test_others_are_not_held_to_it(bounded: ControlPlane) -> None:
    for value in (config_map(), release_of(), app_of()):
        make(bounded, value)
        path = f"{bounded.build_path(value)}/{value['metadata']['name']}"
        bounded.request("PATCH", path, {"metadata": {"annotations": {"a": "b"}}}, content_type=MERGE)
        bounded.request("DELETE", path)


def named(kind: dict[str, Any], name: str, namespace: str) -> dict[str, Any]:
    """Return the object with another name and namespace."""
    return {**kind, "metadata": {**kind["metadata"], "name": name, "namespace": namespace}}


STOLEN: Final = {
    "permissions of Argo CD": (named(config_map(), "argocd-rbac-cm", TENANT), {"data": {"policy.csv": "p, everybody"}}),
    "default permissions of Argo CD": (
        named(config_map(), "argocd-rbac-cm", TENANT),
        {"data": {"policy.default": "role:admin"}},
    ),
    "names of the cluster": (named(config_map(), "coredns", "kube-system"), {"data": {"Corefile": "evil"}}),
    "accounts of AWS": (named(config_map(), "aws-auth", "kube-system"), {"data": {"mapUsers": "evil"}}),
    "an ingress controller's": (named(config_map(), "ingress", TENANT), {"data": {"allow-snippet-annotations": "true"}}),
    "the chart of a release": (
        release_of(ASKS),
        {
            "spec": {
                "chartRef": None,
                "chart": {"spec": {"chart": "evil", "sourceRef": {"kind": "HelmRepository", "name": "evil"}}},
            }
        },
    ),
    "the account of a release": (release_of(ASKS), {"spec": {"serviceAccountName": "admin"}}),
    "the post-renderers of a release": (release_of(ASKS), {"spec": {"postRenderers": [{"kustomize": {"patches": []}}]}}),
    "the values of a release": (release_of(ASKS), {"spec": {"values": {"image": "evil"}}}),
    "the target of a release": (release_of(ASKS), {"spec": {"targetNamespace": "kube-system"}}),
    "the tests of a release": (release_of(ASKS), {"spec": {"test": {"enable": True}}}),
    "the version of an App": (app_of(ASKS), {"spec": {"version": "9.9.9"}}),
    "the chart of an App": (app_of(ASKS), {"spec": {"name": "evil"}}),
    "the namespace of an App": (app_of(ASKS), {"spec": {"namespace": "kube-system"}}),
    "more values of an App": (
        app_of(ASKS),
        {"spec": {"extraConfigs": [{"kind": "secret", "name": "evil", "namespace": TENANT}]}},
    ),
}
"""By what somebody with the operator's token wants: an object that is there, and a merge patch of it."""


@pytest.mark.parametrize("aim", STOLEN)
async def test_a_stolen_token_changes_nothing_of_others(bounded: ControlPlane, aim: str) -> None:
    """By the token itself, as the manifests are rendered: RBAC permits the patch, and the policy refuses it."""
    value, change = STOLEN[aim]
    with contextlib.suppress(urllib.error.HTTPError):
        # a parameter before it has made it, or it is there in each cluster
        make(bounded, value)
    token = bounded.create_service_account_token(OWN, "transom")
    connection = connect(str(bounded.write_kubeconfig("stolen", token)))
    path = f"{bounded.build_path(value)}/{value['metadata']['name']}"
    try:
        with pytest.raises(StatusError, match="ValidatingAdmissionPolicy") as raised:
            await Client(connection).request("PATCH", path, None, change, content_type=MERGE)
    finally:
        await connection.close()
    assert raised.value.code == 403
