"""The registration as the API server gets it, and the Deployment behind it."""

from typing import Any

import pytest
from tests.pods.table import OWN, pod_egress

from transom.manifests.admission import admission
from transom.manifests.templates import resolved
from transom.manifests.values import Values, plain
from transom.pods.registration import Called, FailurePolicy, registration

OWNER = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "name": "transom-webhook", "uid": "u1"}
SERVICE = Called(OWN, "transom-webhook")


def made(settings: str, called: Called = SERVICE, policy: FailurePolicy = "Ignore") -> dict[str, Any]:
    return registration(pod_egress(settings), called, "PEM", policy, OWNER)


@pytest.mark.parametrize("policy", ["Ignore", "Fail"])
def test_each_entry_costs_a_pod_little(policy: FailurePolicy) -> None:
    value = made("plain", policy=policy)
    assert value["metadata"]["ownerReferences"] == [OWNER]
    names = [one["name"] for one in value["webhooks"]]
    assert names == ["pods.transom.dev", "pods-with-ca.transom.dev"]
    for one in value["webhooks"]:
        assert one["failurePolicy"] == policy
        assert (one["timeoutSeconds"], one["reinvocationPolicy"], one["sideEffects"]) == (5, "IfNeeded", "None")
        rules = {(rule["operations"][0], rule["resources"][0]) for rule in one["rules"]}
        assert rules == {("CREATE", "pods"), ("UPDATE", "pods/ephemeralcontainers")}


def test_namespaces_that_are_left_alone_are_not_asked_about() -> None:
    for one in made("narrowed")["webhooks"]:
        expressions = one["namespaceSelector"]["matchExpressions"]
        named = next(each for each in expressions if each["key"] == "kubernetes.io/metadata.name")
        assert named["operator"] == "NotIn"
        assert set(named["values"]) == {OWN, "kube-system", "kube-public", "kube-node-lease"}
        assert {"key": "transom.dev/inject", "operator": "NotIn", "values": ["disabled"]} in expressions
        assert {"key": "team", "operator": "In", "values": ["a", "b"]} in expressions
        conditions = " ".join(each["expression"] for each in one["matchConditions"])
        for word in ("'kube-'", "'openshift-'", "kubernetes.io/config.mirror", "hostProcess", "policies.kyverno.io"):
            assert word in conditions


@pytest.mark.parametrize(("settings", "entries"), [("none", 0), ("not-for-pods", 0), ("trust-alone", 2), ("http-alone", 1)])
def test_nobody_is_asked_where_nothing_is_given(settings: str, entries: int) -> None:
    assert len(made(settings)["webhooks"]) == entries


def test_how_the_server_is_called() -> None:
    (entry,) = made("http-alone")["webhooks"]
    service = {"namespace": OWN, "name": "transom-webhook", "path": "/pods", "port": 443}
    assert entry["clientConfig"] == {"service": service, "caBundle": "UEVN"}
    (entry,) = made("http-alone", Called(OWN, "transom-webhook", "https://[::1]:9443/"))["webhooks"]
    assert entry["clientConfig"] == {"url": "https://[::1]:9443/pods", "caBundle": "UEVN"}


def test_two_replicas_that_are_not_evicted_at_once() -> None:
    objects = {one["kind"]: one for one in resolved(admission(), plain(Values()), OWN)}
    deployment, budget = objects["Deployment"]["spec"], objects["PodDisruptionBudget"]["spec"]
    assert deployment["replicas"] == 2
    assert deployment["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    assert deployment["template"]["spec"]["priorityClassName"] == objects["PriorityClass"]["metadata"]["name"]
    assert budget["maxUnavailable"] == 1
    assert budget["selector"] == objects["Deployment"]["spec"]["selector"]
