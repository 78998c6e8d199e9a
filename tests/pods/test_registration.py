"""The registration as the API server gets it, and the Deployment behind it."""

from typing import Any

import pytest
from tests.pods.table import OWN, pod_egress

from transom.manifests.admission import build_admission_server
from transom.manifests.templates import resolve_template
from transom.manifests.values import Values, to_json_data
from transom.pods.webhook_configuration import FailurePolicy, WebhookEndpoint, build_registration, has_same_rules

OWNER = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "name": "transom-webhook", "uid": "u1"}
SERVICE = WebhookEndpoint(OWN, "transom-webhook")


def made(settings: str, called: WebhookEndpoint = SERVICE, policy: FailurePolicy = "Ignore") -> dict[str, Any]:
    return build_registration(pod_egress(settings), called, "PEM", policy, OWNER)


@pytest.mark.parametrize("policy", ["Ignore", "Fail"])
def test_each_entry_costs_a_pod_little(policy: FailurePolicy) -> None:
    value = made("plain", policy=policy)
    assert value["metadata"]["ownerReferences"] == [OWNER]
    names = [webhook["name"] for webhook in value["webhooks"]]
    assert names == ["pods.transom.dev", "pods-with-ca.transom.dev"]
    for item in value["webhooks"]:
        assert item["failurePolicy"] == policy
        assert (item["timeoutSeconds"], item["reinvocationPolicy"], item["sideEffects"]) == (5, "IfNeeded", "None")
        rules = {(rule["operations"][0], rule["resources"][0]) for rule in item["rules"]}
        assert rules == {("CREATE", "pods"), ("UPDATE", "pods/ephemeralcontainers")}


def test_namespaces_that_are_left_alone_are_not_asked_about() -> None:
    for webhook in made("narrowed")["webhooks"]:
        expressions = webhook["namespaceSelector"]["matchExpressions"]
        named = next(each for each in expressions if each["key"] == "kubernetes.io/metadata.name")
        assert named["operator"] == "NotIn"
        assert set(named["values"]) == {OWN, "kube-system", "kube-public", "kube-node-lease"}
        assert {"key": "transom.dev/inject", "operator": "NotIn", "values": ["disabled"]} in expressions
        assert {"key": "team", "operator": "In", "values": ["a", "b"]} in expressions
        conditions = " ".join(each["expression"] for each in webhook["matchConditions"])
        for word in ("'kube-'", "'openshift-'", "kubernetes.io/config.mirror", "hostProcess", "policies.kyverno.io"):
            assert word in conditions


@pytest.mark.parametrize(("settings", "entries"), [("none", 0), ("not-for-pods", 0), ("trust-alone", 2), ("http-alone", 1)])
def test_nobody_is_asked_where_nothing_is_given(settings: str, entries: int) -> None:
    assert len(made(settings)["webhooks"]) == entries


def test_how_the_server_is_called() -> None:
    (entry,) = made("http-alone")["webhooks"]
    service = {"namespace": OWN, "name": "transom-webhook", "path": "/pods", "port": 443}
    assert entry["clientConfig"] == {"service": service, "caBundle": "UEVN"}
    (entry,) = made("http-alone", WebhookEndpoint(OWN, "transom-webhook", "https://[::1]:9443/"))["webhooks"]
    assert entry["clientConfig"] == {"url": "https://[::1]:9443/pods", "caBundle": "UEVN"}


@pytest.mark.parametrize("timeout", [1, 5, 30])
def test_the_operator_knows_a_registration_with_another_time_limit(timeout: int) -> None:
    egress = pod_egress("plain")
    value = build_registration(egress, SERVICE, "PEM", "Ignore", OWNER, timeout)
    assert {webhook["timeoutSeconds"] for webhook in value["webhooks"]} == {timeout}
    assert has_same_rules(value, egress)
    value["webhooks"][0]["namespaceSelector"] = {}
    assert not has_same_rules(value, egress)


def test_two_replicas_that_are_not_evicted_at_once() -> None:
    objects = {item["kind"]: item for item in resolve_template(build_admission_server(), to_json_data(Values()), OWN)}
    deployment, budget = objects["Deployment"]["spec"], objects["PodDisruptionBudget"]["spec"]
    assert deployment["replicas"] == 2
    assert deployment["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    assert deployment["template"]["spec"]["priorityClassName"] == objects["PriorityClass"]["metadata"]["name"]
    assert budget["maxUnavailable"] == 1
    assert budget["selector"] == objects["Deployment"]["spec"]["selector"]
