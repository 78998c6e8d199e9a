"""Verdicts of `transom check` from facts: what tests/cli/test_check.py does not have on a server."""

import copy
from datetime import UTC, datetime
from typing import Any

import pytest

from transom.diagnosis.installation import (
    ClusterFacts,
    ImageAnswer,
    Right,
    Rights,
    describe_drift,
    iter_checks_after,
    iter_checks_before,
)
from transom.diagnosis.snapshot import ClusterSnapshot, ReadFailure
from transom.manifests.definitions import build_crds

NS = "transom-system"
DEFINITIONS = {definition["metadata"]["name"]: definition for definition in build_crds()}
ALL = Rights(3)


def before(
    cluster: ClusterFacts, rights: Rights = ALL, roles: str | None = None, image: ImageAnswer | None = None
) -> dict[str, Any]:
    return {item.id: item for item in iter_checks_before(cluster, rights, roles, image)}


@pytest.mark.parametrize(
    ("version", "verdict"),
    [
        ("v1.30.0", "pass"),
        ("v1.31.2-eks-7f9249a", "pass"),
        ("v1.29.9", "fail"),
        ("v1.9.1", "fail"),
        ("v2.0.0", "pass"),
        ("", "unknown"),
        ("weekly", "unknown"),
    ],
)
def test_versions(version: str, verdict: str) -> None:
    assert before(ClusterFacts(NS, version))["kubernetes"].verdict == verdict


def test_the_platform_decides_the_options() -> None:
    plain = before(ClusterFacts(NS, "v1.36.3"))["platform"].seen
    assert "--controllers egress,windows,pods" in plain
    assert "fleet" not in plain
    groups = frozenset({"config.openshift.io", "cluster.x-k8s.io"})
    seen = before(ClusterFacts(NS, "v1.36.3", groups))["platform"].seen
    assert "--openshift --controllers egress,windows,pods,fleet" in seen


def test_rights() -> None:
    cluster = ClusterFacts(NS, "v1.36.3")
    lacks = before(cluster, Rights(9, (Right("create", "apps", "deployments", NS),)))["rights"]
    assert (lacks.verdict, "create deployments.apps in transom-system" in lacks.seen) == ("fail", True)
    assert before(cluster, roles="cannot escalate")["rights"].verdict == "fail"
    assert before(cluster, Rights(9, why="forbidden"))["rights"].verdict == "unknown"
    many = tuple(Right("create", "", f"kind{number}") for number in range(9))
    assert "and 4 more" in before(cluster, Rights(9, many))["rights"].seen


def test_definitions_that_are_on_their_way_out() -> None:
    going = copy.deepcopy(DEFINITIONS)
    next(iter(going.values()))["metadata"]["deletionTimestamp"] = "2026-11-28T12:00:00Z"
    assert before(ClusterFacts(NS, "v1.36.3", definitions=going))["definitions"].verdict == "fail"
    assert before(ClusterFacts(NS, "v1.36.3", definitions=DEFINITIONS))["definitions"].verdict == "pass"


def test_drift_of_definitions() -> None:
    assert describe_drift(DEFINITIONS) == ""
    assert describe_drift({}) == ""
    other = copy.deepcopy(DEFINITIONS)
    schema = other["egressproxies.transom.dev"]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    del schema["properties"]["spec"]["properties"]["windows"]["properties"]["restart"]
    assert "lacks EgressProxy spec.windows.restart" in describe_drift(other)


def deployment(name: str, **status: int) -> dict[str, Any]:
    known = {"availableReplicas": 2, "updatedReplicas": 2, "observedGeneration": 1, **status}
    return {"metadata": {"name": name, "namespace": NS, "generation": 1}, "spec": {"replicas": 2}, "status": known}


HOOK = {"metadata": {"name": "transom", "ownerReferences": [{"kind": "ClusterRole", "name": "transom-webhook"}]}}
LEASE = {"holderIdentity": "a", "renewTime": "2026-11-28T11:59:58Z"}


def after(account: Rights = ALL, unread: tuple[ReadFailure, ...] = (), **changed: Any) -> dict[str, str]:
    live = copy.deepcopy(DEFINITIONS)
    for entry in live.values():
        entry["status"] = {"conditions": [{"type": "Established", "status": "True"}]}
    binding = {"subjects": [{"namespace": NS}]}
    objects = {
        "Deployment": (deployment("transom"), deployment("transom-webhook")),
        "Lease": ({"metadata": {"name": "transom", "namespace": NS}, "spec": LEASE},),
        "MutatingWebhookConfiguration": (HOOK,),
        "EgressProxy": (),
        "WindowsInstance": (),
    }
    given = {kind: tuple(item) for kind, item in {**objects, **changed}.items() if item is not None}
    seen = ClusterSnapshot("server", NS, datetime(2026, 11, 28, 12, tzinfo=UTC), given, unread)
    return {
        item.id: item.verdict
        for item in iter_checks_after(ClusterFacts(NS, "v1.36.3", definitions=live, binding=binding), seen, account)
    }


def base(reason: str, status: str = "False") -> dict[str, Any]:
    condition = {"type": "PodsInjected", "status": status, "reason": reason, "message": "m"}
    return {"metadata": {"name": "cluster"}, "status": {"conditions": [condition]}}


@pytest.mark.parametrize(
    ("changed", "id_", "verdict"),
    [
        ({"Deployment": [deployment("transom", availableReplicas=1), deployment("transom-webhook")]}, "operator", "fail"),
        ({"Deployment": [deployment("transom", observedGeneration=0)]}, "operator", "fail"),
        ({"Deployment": []}, "operator", "warn"),
        ({"Deployment": [deployment("transom")]}, "admission-server", "warn"),
        ({"Deployment": None}, "operator", "unknown"),
        ({"Lease": []}, "lease", "fail"),
        ({"Lease": None}, "lease", "unknown"),
        ({"MutatingWebhookConfiguration": []}, "admission", "fail"),
        ({"MutatingWebhookConfiguration": [], "Deployment": [deployment("transom")]}, "admission", "warn"),
        ({"MutatingWebhookConfiguration": [{"metadata": {"name": "transom"}}]}, "admission", "fail"),
        ({"EgressProxy": [base("NotCalled")]}, "admission", "fail"),
        ({"EgressProxy": [base("Injected", "True")]}, "admission", "pass"),
        ({"EgressProxy": [base("NoNamespaceSelector")]}, "admission", "pass"),
        ({"account": Rights(2, (Right("patch", "", "secrets"),))}, "account", "fail"),
        ({"account": Rights(2, why="forbidden")}, "account", "unknown"),
    ],
)
def test_one_thing_that_is_wrong(changed: dict[str, Any], id_: str, verdict: str) -> None:
    assert set(after().values()) == {"pass"}
    assert after(**changed)[id_] == verdict
