"""What the server lets each ServiceAccount do is what docs/security.md says, and the admission policies hold it to less."""

import asyncio
import base64
import itertools
import json
import re
import time
import urllib.error
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import yaml
from lab.control_plane import ControlPlane
from lab.objects import APPLY
from tests.manifests.value_sets import VALUE_SETS
from tests.support.process import run
from tests.support.repository import DOCS
from tests.support.waiting import PATIENCE

from transom.manifests import admission, install, roles
from transom.manifests.install import InstallPart
from transom.manifests.rights import BEGIN, END, EVERY, insert_rights
from transom.manifests.values import read_values, to_json_data
from transom.windows.nodes.windows_instance import BOOTSTRAPPERS

PAGE = DOCS / "security.md"
OWN, ELSEWHERE = "transom-system", "somewhere"
NAMESPACES = (OWN, ELSEWHERE, "default", "kube-system", "openshift-config", "openshift-machine-api", "openshift-cluster-api")
Right = tuple[str, str, str]
"""Resource as kubectl names it, name (empty: all), and verb."""
NAMED = list(dict.fromkeys([*roles.CONTROLLERS, *roles.GRANTS, "egress,windows,pods", "egress,windows,fleet,pods"]))


@cache
def told() -> dict[Right, set[tuple[str, str, str]]]:
    """The tables of the page: of each right the ServiceAccount, the place, and the controller."""
    found: dict[Right, set[tuple[str, str, str]]] = {}
    account = ""
    for line in PAGE.read_text("utf-8").partition(BEGIN)[2].partition(END)[0].splitlines():
        if heading := re.fullmatch(r"ServiceAccount `([^`]+)`:", line):
            account = heading[1]
        if not line.startswith("| ") or not account or line.startswith("| where"):
            continue
        where, what, verbs, _, who = (*(cell.strip(" |") for cell in line.split(" | ")), EVERY)[:5]
        resources, _, names = what.partition(" named ")
        for resource in _quoted(resources):
            for name in [OWN] if names == "as its own" else _quoted(names) or [""]:
                for verb in _quoted(verbs):
                    places = found.setdefault((resource, name, verb), set())
                    places |= {(account, where, item) for item in (_quoted(who) or [EVERY])}
    return found


def _quoted(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def expected(account: str, controllers: tuple[str, ...], namespace: str, *, openshift: bool) -> set[Right]:
    """What the page says a ServiceAccount may do in a namespace."""
    places = {"everywhere", f"`{namespace}`"}
    if namespace == OWN:
        places.add("its own namespace")
    if openshift:
        places.add(f"`{namespace}`, `--openshift`")
    return {
        right
        for right, uses in told().items()
        if any(who == account and where in places and part in (EVERY, *controllers) for who, where, part in uses)
    }


def listed(control_plane: ControlPlane, account: str, namespace: str) -> set[Right]:
    """What `kubectl auth can-i --list` shows, without URLs that are no resources."""
    asked = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": {"namespace": namespace}}
    user = f"system:serviceaccount:{OWN}:{account}"
    told = json.loads(control_plane.request("POST", f"/apis/{asked['apiVersion']}/selfsubjectrulesreviews", asked, user=user))
    return {
        (_named(resource, group), name, verb)
        for rule in told["status"]["resourceRules"]
        for group, resource, name, verb in itertools.product(
            rule["apiGroups"], rule["resources"], rule.get("resourceNames") or [""], rule["verbs"]
        )
    }


def _named(resource: str, group: str) -> str:
    """As kubectl names a resource: `pods/status`, `deployments.apps/scale`."""
    kind, slash, subresource = resource.partition("/")
    return f"{kind}.{group}{slash}{subresource}" if group else resource


def settled(control_plane: ControlPlane, account: str, namespace: str, rights: set[Right]) -> set[Right]:
    """`listed`, once the server has heard of the roles that were made and removed: which it does in its own time."""
    last = time.monotonic() + PATIENCE
    while (found := listed(control_plane, account, namespace)) != rights and time.monotonic() < last:
        time.sleep(0.2)
    return found


@pytest.fixture(scope="module")
def everybody(control_plane: ControlPlane) -> dict[str, set[Right]]:
    """What a ServiceAccount may do that nobody gave anything to, by namespace. What other tests gave to ours is gone."""
    control_plane.delete([*roles.iter_roles(OWN, roles.GRANTS, openshift=True), *admission.iter_admission_roles(OWN)])
    control_plane.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in NAMESPACES])
    return {namespace: listed(control_plane, "nobody", namespace) for namespace in NAMESPACES}


def test_the_tables_are_current() -> None:
    page = PAGE.read_text("utf-8")
    assert page == insert_rights(page), "scripts/reference writes them anew"


@pytest.mark.lab
@pytest.mark.parametrize("openshift", [False, True])
@pytest.mark.parametrize("named", NAMED)
def test_what_the_server_allows_is_what_the_page_says(
    control_plane: ControlPlane, everybody: dict[str, set[Right]], named: str, openshift: bool
) -> None:
    chosen = roles.parse_controllers(named)
    objects = list(roles.iter_roles(OWN, chosen, openshift=openshift))
    control_plane.apply(objects)
    try:
        for namespace in NAMESPACES:
            rights = expected("transom", chosen, namespace, openshift=openshift)
            assert (
                settled(control_plane, "transom", namespace, rights | everybody[namespace]) - everybody[namespace] == rights
            ), namespace
    finally:
        control_plane.delete(objects)


@pytest.mark.lab
def test_the_same_of_the_admission_server(control_plane: ControlPlane, everybody: dict[str, set[Right]]) -> None:
    objects = list(admission.iter_admission_roles(OWN))
    control_plane.apply(objects)
    try:
        for namespace in NAMESPACES:
            rights = expected(admission.NAME, (), namespace, openshift=False)
            assert (
                settled(control_plane, admission.NAME, namespace, rights | everybody[namespace]) - everybody[namespace]
                == rights
            ), namespace
    finally:
        control_plane.delete(objects)


REVIEWS = {
    ("tokenreviews.authentication.k8s.io", "", "create"),
    ("subjectaccessreviews.authorization.k8s.io", "", "create"),
}
"""What kube-rbac-proxy asks, as the page has it in a sentence."""


@pytest.mark.lab
@pytest.mark.parametrize("name", ["windows", "metrics"])
def test_the_rights_of_values(control_plane: ControlPlane, everybody: dict[str, set[Right]], name: str) -> None:
    """As `transom manifests --values` and the chart grant them; with Windows alone no Secret of others but bootstrap tokens."""
    values = read_values(VALUE_SETS[name])
    made = install.build_objects(to_json_data(values), OWN, [InstallPart.RBAC])
    control_plane.apply(made)
    try:
        for namespace in NAMESPACES:
            chosen = roles.parse_controllers(",".join(values.controllers))
            rights = expected("transom", chosen, namespace, openshift=False) | (REVIEWS if values.metrics.proxy else set())
            found = settled(control_plane, "transom", namespace, rights | everybody[namespace]) - everybody[namespace]
            assert found == rights, namespace
            of_secrets = {(name, verb) for resource, name, verb in found if resource == "secrets"}
            if name == "windows" and namespace != OWN:
                # which the admission policy holds to bootstrap tokens
                bootstrap = {("", "create")} if namespace == "kube-system" else set()
                openshift = {("node-bootstrapper-token", "list"), ("node-bootstrapper-token", "watch")}
                assert of_secrets == bootstrap | openshift, namespace
    finally:
        control_plane.delete([item for item in made if item["kind"] != "Namespace"])


def test_no_table_is_empty() -> None:
    rights = told()
    assert len(rights) > 50
    assert {account for uses in rights.values() for account, _, _ in uses} == {"transom", "transom-webhook"}
    assert {part for uses in rights.values() for _, _, part in uses} == {EVERY, *roles.GRANTS}


# --- the admission policies


TOKEN = "bootstrap.kubernetes.io/token"
GOOD = {
    "token-id": "abcdef",
    "token-secret": "0123456789abcdef",
    "usage-bootstrap-authentication": "true",
    "auth-extra-groups": BOOTSTRAPPERS,
}


@pytest.fixture(scope="module")
def bounded(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """Transom installed with every controller, as an administrator of both kinds of Secret would see it."""
    text = run("manifests", "--cluster-api", "--part", "rbac", "--part", "policies").stdout
    made = [item for item in yaml.safe_load_all(text) if item]
    control_plane.apply(made)
    control_plane.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": ELSEWHERE}}])
    _until_policies_hold(control_plane)
    yield control_plane
    control_plane.delete([item for item in made if item["kind"] != "Namespace"])


def _until_policies_hold(control_plane: ControlPlane) -> None:
    """The server takes a moment until a policy holds, each of the two for itself."""
    last = time.monotonic() + PATIENCE
    for probe in (secret("probe", "kube-system", "Opaque"), config_map("probe", "kube-system")):
        while "ValidatingAdmissionPolicy" not in tried(control_plane, "create", probe, dry_run=True)[1]:
            assert time.monotonic() < last, f"the policy of a {probe['kind']} never held"
            time.sleep(0.1)


def secret(name: str, namespace: str, type_: str, **data: str) -> dict[str, Any]:
    encoded = {key.replace("_", "-"): base64.b64encode(value.encode()).decode() for key, value in data.items()}
    metadata = {"name": name, "namespace": namespace, "annotations": {"kubernetes.io/service-account.name": "default"}}
    return {"apiVersion": "v1", "kind": "Secret", "type": type_, "metadata": metadata, "data": encoded}


def config_map(name: str, namespace: str, labels: dict[str, str] | None = None, **data: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "labels": labels or {}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def tried(
    control_plane: ControlPlane, verb: str, value: dict[str, Any], account: str = "transom", *, dry_run: bool = False
) -> tuple[int, str]:
    """Whether it was refused, and the words; by a ServiceAccount of Transom's own namespace."""
    path, name = control_plane.build_path(value), value["metadata"]["name"]
    method, place, content_type = {
        "create": ("POST", f"{path}?dryRun=All" if dry_run else path, "application/json"),
        "apply": ("PATCH", f"{path}/{name}?fieldManager=transom&force=true{'&dryRun=All' * dry_run}", APPLY),
        "delete": ("DELETE", f"{path}/{name}", "application/json"),
    }[verb]
    body = None if verb == "delete" else value
    try:
        control_plane.request(method, place, body, content_type=content_type, user=f"system:serviceaccount:{OWN}:{account}")
    except urllib.error.HTTPError as error:
        return 1, str(json.load(error)["message"])
    return 0, ""


@pytest.mark.lab
@pytest.mark.parametrize(
    ("verb", "value", "why"),
    [
        (
            "create",
            secret("a", "kube-system", "kubernetes.io/service-account-token"),
            "creates bootstrap tokens",
        ),
        ("create", secret("a", "kube-system", "Opaque"), "creates bootstrap tokens"),
        ("apply", secret("transom-egress", "kube-system", "kubernetes.io/service-account-token"), "creates bootstrap tokens"),
        ("apply", secret("transom-egress", ELSEWHERE, "kubernetes.io/service-account-token"), "is Opaque"),
        ("create", secret("a", ELSEWHERE, "kubernetes.io/service-account-token"), "is Opaque"),
        ("create", secret("a", OWN, "kubernetes.io/service-account-token"), "is Opaque"),
        ("create", secret("a", ELSEWHERE, TOKEN), "is Opaque"),
        (
            "create",
            secret(
                "bootstrap-token-abcdef",
                "kube-system",
                TOKEN,
                **(GOOD | {"auth-extra-groups": "system:bootstrappers:kubeadm:default-node-token"}),
            ),
            "system:bootstrappers:transom",
        ),
        (
            "create",
            secret("bootstrap-token-abcdef", "kube-system", TOKEN, **(GOOD | {"auth-extra-groups": ""})),
            "system:bootstrappers:transom",
        ),
        ("create", config_map("a", "kube-system"), "transom-configmaps"),
        ("create", config_map("a", "kube-public"), "transom-configmaps"),
        ("create", config_map("a", ELSEWHERE), "transom-configmaps"),
    ],
)
def test_what_is_refused(bounded: ControlPlane, verb: str, value: dict[str, Any], why: str) -> None:
    refused, said = tried(bounded, verb, value)
    assert refused
    assert "ValidatingAdmissionPolicy" in said
    assert why in said


@pytest.mark.lab
@pytest.mark.parametrize(
    ("verb", "value"),
    [
        ("create", secret("bootstrap-token-abcdef", "kube-system", TOKEN, **GOOD)),
        ("create", secret("mycluster-systemd-proxy", ELSEWHERE, "Opaque", env="x")),
        ("apply", secret("transom-egress", ELSEWHERE, "Opaque", env="x")),
        ("create", secret("bootstrap-win-1", OWN, "Opaque", token="x")),
        ("create", secret("transom-hash-key", OWN, "transom.dev/hash-key", key="x")),
        ("create", secret("transom-kept-keys", OWN, "transom.dev/kept-keys", key="x")),
        ("create", config_map("mycluster-cluster-values", ELSEWHERE, {"app.kubernetes.io/managed-by": "transom"}, values="x")),
    ],
)
def test_what_transom_makes_is_taken(bounded: ControlPlane, verb: str, value: dict[str, Any]) -> None:
    assert tried(bounded, verb, value, dry_run=True) == (0, "")


@pytest.mark.lab
def test_secrets_of_others_in_kube_system(bounded: ControlPlane) -> None:
    """Somebody else's may be made there by others, and not changed or deleted by Transom: not even a bootstrap token."""
    token = secret("bootstrap-token-fedcba", "kube-system", TOKEN, **(GOOD | {"token-id": "fedcba"}))
    others = [token, secret("opaque", "kube-system", "Opaque", a="b")]
    bounded.apply(others)
    try:
        for other in others:
            for verb, changed in (("apply", {**other, "data": {**other["data"], "more": "eA=="}}), ("delete", other)):
                refused, said = tried(bounded, verb, changed)
                assert refused
                assert "does nothing else with Secrets there" in said
    finally:
        bounded.delete(others)


@pytest.mark.lab
def test_config_maps_of_the_system(bounded: ControlPlane) -> None:
    """One that asks for the bundle gets it; what else is in it, and others, stay: aws-auth, kubeadm-config, coredns."""
    asks = config_map("asks", "kube-system", mapRoles="admins")
    path = bounded.build_path(asks)
    bounded.request("POST", path, asks)
    field = {key: asks[key] for key in ("apiVersion", "kind", "metadata")}
    try:
        assert tried(bounded, "apply", field | {"data": {"ca-bundle.crt": "PEM"}}) == (0, "")
        assert tried(bounded, "apply", field | {"data": {"ca-bundle.crt": "PEM 2"}}) == (0, "")
        for data in ({"mapRoles": "everybody"}, {"ca-bundle.crt": "PEM", "more": "x"}):
            refused, said = tried(bounded, "apply", field | {"data": data})
            assert refused
            assert "transom-configmaps" in said
        # the key goes again where nobody asks any more
        assert tried(bounded, "apply", field | {"data": {}}) == (0, "")
        assert tried(bounded, "delete", asks)[0]
        assert json.loads(bounded.request("GET", f"{path}/asks"))["data"] == asks["data"]
    finally:
        bounded.delete([asks])


@pytest.mark.lab
async def test_who_else_is_there_is_not_looked_at(bounded: ControlPlane) -> None:
    """The administrator makes what Transom may not."""
    value = secret("made-by-hand", "kube-system", "Opaque", a="b")
    await asyncio.to_thread(bounded.apply, [value])
    bounded.delete([value])
