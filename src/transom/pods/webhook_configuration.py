"""The MutatingWebhookConfiguration: which requests the API server asks about. What gets nothing never waits for an answer.

The label of a namespace cannot be read in a match condition, so the namespaces that get the CAs have an entry of their own.
"""

import base64
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

import msgspec

from transom.pods.decision import INJECT_CA, INJECT_PROXY, KYVERNO
from transom.pods.environment import NAME_LABEL, PodEgress
from transom.pods.pod_types import MIRROR
from transom.proxy.objects import LabelSelector, Requirement

NAME: Final = "transom"
API_VERSION: Final = "admissionregistration.k8s.io/v1"
KIND: Final = "MutatingWebhookConfiguration"
ROLE: Final = "transom-webhook"
"""The ClusterRole that owns it."""
TIMEOUT: Final = 5
"""Seconds that the API server waits, by default."""
PATH: Final = "/pods"
PATH_WITH_CA: Final = "/pods-with-ca"
"""What a pod is sent to whose namespace has the label: the server need not have seen the namespace yet."""
FailurePolicy = Literal["Ignore", "Fail"]
Expression = dict[str, Any]
_OPTIONS: Final = ("clientConfig", "failurePolicy", "timeoutSeconds")
"""The fields of an entry that follow from the options of the admission server, not from the settings."""
_CLUSTERS_OWN: Final = ("kube-system", "kube-public", "kube-node-lease")
_LISTS: Final = ("containers", "initContainers", "ephemeralContainers")


class WebhookEndpoint(msgspec.Struct, frozen=True):
    """How the API server reaches the server: by `url` (`https://HOST:PORT`), else by the Service `service` in `namespace`."""

    namespace: str
    service: str
    url: str | None = None

    def build_client_config(self, path: str, authorities: str) -> dict[str, Any]:
        """`clientConfig` of an entry; `authorities` is PEM."""
        bundle = base64.b64encode(authorities.encode()).decode()
        if self.url is not None:
            return {"url": self.url.rstrip("/") + path, "caBundle": bundle}
        service = {"namespace": self.namespace, "name": self.service, "path": path, "port": 443}
        return {"service": service, "caBundle": bundle}


def build_registration(
    egress: PodEgress,
    endpoint: WebhookEndpoint,
    authorities: str,
    failure_policy: FailurePolicy,
    owner: Mapping[str, str],
    timeout: int = TIMEOUT,
) -> dict[str, Any]:
    """Build the object; it has no entry where no pod gets anything.

    `owner` is an ownerReference, `timeout` in seconds.
    """
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {
            "name": NAME,
            "labels": {"app.kubernetes.io/name": "transom", "app.kubernetes.io/component": "webhook"},
            "ownerReferences": [dict(owner)],
        },
        "webhooks": [
            {
                "name": name,
                "admissionReviewVersions": ["v1"],
                "clientConfig": endpoint.build_client_config(path, authorities),
                "failurePolicy": failure_policy,
                "matchConditions": conditions,
                "matchPolicy": "Equivalent",
                "namespaceSelector": {"matchExpressions": expressions},
                "objectSelector": {},
                "reinvocationPolicy": "IfNeeded",
                "rules": [_build_rule("CREATE", "pods"), _build_rule("UPDATE", "pods/ephemeralcontainers")],
                "sideEffects": "None",
                "timeoutSeconds": timeout,
            }
            for name, path, expressions, conditions in _iter_entries(egress)
        ],
    }


def is_own_configuration(live: Mapping[str, Any]) -> bool:
    """Return True if Transom created a registration of the name: the role of the install owns it."""
    owners = (live.get("metadata") or {}).get("ownerReferences") or ()
    return any((owner.get("kind"), owner.get("name")) == ("ClusterRole", ROLE) for owner in owners)


def has_same_rules(live: Mapping[str, Any], egress: PodEgress) -> bool:
    """Return True if it matches the pods that get settings, whatever server it calls."""
    wanted = build_registration(egress, WebhookEndpoint("", ""), "", "Ignore", {})["webhooks"]
    return [_get_rules(webhook) for webhook in live.get("webhooks") or ()] == [_get_rules(item) for item in wanted]


def _get_rules(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {field: value for field, value in entry.items() if field not in _OPTIONS}


def _iter_entries(egress: PodEgress) -> Iterator[tuple[str, str, list[Expression], list[dict[str, str]]]]:
    """Iterate over entries: name, path, expressions on the namespace's labels, and conditions."""
    if not egress.has_pod_settings:
        return
    common = [*_list_namespace_expressions(egress.namespace), *_iter_expressions(egress.selector)]
    proxied = bool(egress.pairs or egress.withheld)
    refused = f"({_format_annotation_test(INJECT_PROXY, 'false')} || {_format_annotation_test(KYVERNO, 'exclude')})"
    if not egress.trust:
        yield "pods.transom.dev", PATH, common, _list_match_conditions(f"!{refused}")
        return
    labelled, unlabelled = _format_label_test(INJECT_CA, "true"), _format_label_test(INJECT_CA, "false")
    asking = f"!{refused} || {labelled}" if proxied else labelled
    yield "pods.transom.dev", PATH, [*common, _build_expression(INJECT_CA, "NotIn", "true")], _list_match_conditions(asking)
    asking = f"!{refused} || !{unlabelled}" if proxied else f"!{unlabelled}"
    yield (
        "pods-with-ca.transom.dev",
        PATH_WITH_CA,
        [*common, _build_expression(INJECT_CA, "In", "true")],
        _list_match_conditions(asking),
    )


def _list_namespace_expressions(own_namespace: str) -> list[Expression]:
    return [
        _build_expression(NAME_LABEL, "NotIn", own_namespace, *(name for name in _CLUSTERS_OWN if name != own_namespace)),
        _build_expression("transom.dev/inject", "NotIn", "disabled"),
    ]


def _iter_expressions(selector: LabelSelector | None) -> Iterator[Expression]:
    if selector is None:
        return
    for key, value in selector.match_labels.items():
        yield _build_expression(key, "In", value)
    for match_expression in selector.match_expressions:
        yield _to_expression(match_expression)


def _to_expression(requirement: Requirement) -> Expression:
    return _build_expression(requirement.key, requirement.operator, *requirement.values)


def _build_expression(key: str, operator: str, *values: str) -> Expression:
    return {"key": key, "operator": operator} | ({"values": list(values)} if values else {})


def _list_match_conditions(expression: str) -> list[dict[str, str]]:
    """Match conditions (CEL); a pod is sent when all of them hold. `request` and `object` are the review's."""
    return [
        {
            "name": "namespace",
            "expression": "!request.namespace.startsWith('kube-') && !request.namespace.startsWith('openshift-')",
        },
        {"name": "not-static", "expression": f"!{_format_has_annotation_test(MIRROR)}"},
        {"name": "not-host-process", "expression": " && ".join(_iter_host_process_conditions())},
        {"name": "asking", "expression": expression},
    ]


def _iter_host_process_conditions() -> Iterator[str]:
    yield f"!{_format_host_process('object.spec')}"
    for name in _LISTS:
        yield f"!(has(object.spec.{name}) && object.spec.{name}.exists(c, {_format_host_process('c')}))"


def _format_host_process(what: str) -> str:
    path = (f"{what}.securityContext", f"{what}.securityContext.windowsOptions")
    field = f"{path[1]}.hostProcess"
    return f"({' && '.join(f'has({item})' for item in (*path, field))} && {field})"


def _format_has_annotation_test(name: str) -> str:
    return f"(has(object.metadata.annotations) && '{name}' in object.metadata.annotations)"


def _format_annotation_test(name: str, value: str) -> str:
    return f"({_format_has_annotation_test(name)} && object.metadata.annotations['{name}'] == '{value}')"


def _format_label_test(name: str, value: str) -> str:
    labelled = f"(has(object.metadata.labels) && '{name}' in object.metadata.labels)"
    return f"({labelled} && object.metadata.labels['{name}'] == '{value}')"


def _build_rule(operation: str, resource: str) -> dict[str, Any]:
    return {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": [operation],
        "resources": [resource],
        "scope": "Namespaced",
    }
