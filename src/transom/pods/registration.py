"""The MutatingWebhookConfiguration: which requests the API server asks about. What gets nothing never waits for an answer.

The label of a namespace cannot be read in a match condition, so the namespaces that get the CAs have an entry of their own.
"""

import base64
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

import msgspec

from transom.pods import MIRROR
from transom.pods.decision import INJECT_CA, INJECT_PROXY, KYVERNO
from transom.pods.environment import NAME_LABEL, PodEgress
from transom.proxy.objects import LabelSelector, Requirement

NAME: Final = "transom"
API_VERSION: Final = "admissionregistration.k8s.io/v1"
KIND: Final = "MutatingWebhookConfiguration"
ROLE: Final = "transom-webhook"
"""The ClusterRole that owns it."""
TIMEOUT: Final = 5
"""Seconds that the API server waits."""
PATH: Final = "/pods"
PATH_WITH_CA: Final = "/pods-with-ca"
"""What a pod is sent to whose namespace has the label: the server need not have seen the namespace yet."""
FailurePolicy = Literal["Ignore", "Fail"]
Expression = dict[str, Any]
_CLUSTERS_OWN: Final = ("kube-system", "kube-public", "kube-node-lease")
_LISTS: Final = ("containers", "initContainers", "ephemeralContainers")


class Called(msgspec.Struct, frozen=True):
    """How the API server reaches the server: by `url` (`https://HOST:PORT`), else by the Service `service` in `namespace`."""

    namespace: str
    service: str
    url: str | None = None

    def client_config(self, path: str, authorities: str) -> dict[str, Any]:
        """`clientConfig` of an entry; `authorities` is PEM."""
        bundle = base64.b64encode(authorities.encode()).decode()
        if self.url is not None:
            return {"url": self.url.rstrip("/") + path, "caBundle": bundle}
        service = {"namespace": self.namespace, "name": self.service, "path": path, "port": 443}
        return {"service": service, "caBundle": bundle}


def registration(
    egress: PodEgress, called: Called, authorities: str, failure_policy: FailurePolicy, owner: Mapping[str, str]
) -> dict[str, Any]:
    """The object; it has no entry where no pod gets anything. `owner` is an ownerReference."""
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
                "clientConfig": called.client_config(path, authorities),
                "failurePolicy": failure_policy,
                "matchConditions": conditions,
                "matchPolicy": "Equivalent",
                "namespaceSelector": {"matchExpressions": expressions},
                "objectSelector": {},
                "reinvocationPolicy": "IfNeeded",
                "rules": [_rule("CREATE", "pods"), _rule("UPDATE", "pods/ephemeralcontainers")],
                "sideEffects": "None",
                "timeoutSeconds": TIMEOUT,
            }
            for name, path, expressions, conditions in _entries(egress)
        ],
    }


def is_ours(live: Mapping[str, Any]) -> bool:
    """Whether a registration of the name was made by us: the role of the install owns it."""
    owners = (live.get("metadata") or {}).get("ownerReferences") or ()
    return any((one.get("kind"), one.get("name")) == ("ClusterRole", ROLE) for one in owners)


def asks_for(live: Mapping[str, Any], egress: PodEgress) -> bool:
    """Whether it asks about the pods that get something; by whom it is answered is another matter."""
    wanted = registration(egress, Called("", ""), "", "Ignore", {})["webhooks"]
    return [_question(one) for one in live.get("webhooks") or ()] == [_question(one) for one in wanted]


def _question(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {field: value for field, value in entry.items() if field not in ("clientConfig", "failurePolicy")}


def _entries(egress: PodEgress) -> Iterator[tuple[str, str, list[Expression], list[dict[str, str]]]]:
    """Name, path, expressions on the namespace's labels, and conditions."""
    if not egress.gives:
        return
    common = [*_namespaces(egress.namespace), *_selected(egress.selector)]
    proxied = bool(egress.pairs or egress.withheld)
    refused = f"({_annotated(INJECT_PROXY, 'false')} || {_annotated(KYVERNO, 'exclude')})"
    if not egress.trust:
        yield "pods.transom.dev", PATH, common, _conditions(f"!{refused}")
        return
    labelled, unlabelled = _labelled(INJECT_CA, "true"), _labelled(INJECT_CA, "false")
    asking = f"!{refused} || {labelled}" if proxied else labelled
    yield "pods.transom.dev", PATH, [*common, _expression(INJECT_CA, "NotIn", "true")], _conditions(asking)
    asking = f"!{refused} || !{unlabelled}" if proxied else f"!{unlabelled}"
    yield "pods-with-ca.transom.dev", PATH_WITH_CA, [*common, _expression(INJECT_CA, "In", "true")], _conditions(asking)


def _namespaces(own: str) -> list[Expression]:
    return [
        _expression(NAME_LABEL, "NotIn", own, *(name for name in _CLUSTERS_OWN if name != own)),
        _expression("transom.dev/inject", "NotIn", "disabled"),
    ]


def _selected(selector: LabelSelector | None) -> Iterator[Expression]:
    if selector is None:
        return
    for key, value in selector.match_labels.items():
        yield _expression(key, "In", value)
    for one in selector.match_expressions:
        yield _requirement(one)


def _requirement(one: Requirement) -> Expression:
    return _expression(one.key, one.operator, *one.values)


def _expression(key: str, operator: str, *values: str) -> Expression:
    return {"key": key, "operator": operator} | ({"values": list(values)} if values else {})


def _conditions(asking: str) -> list[dict[str, str]]:
    """Match conditions (CEL); a pod is sent when all of them hold. `request` and `object` are the review's."""
    return [
        {
            "name": "namespace",
            "expression": "!request.namespace.startsWith('kube-') && !request.namespace.startsWith('openshift-')",
        },
        {"name": "not-static", "expression": f"!{_has_annotation(MIRROR)}"},
        {"name": "not-host-process", "expression": " && ".join(_no_host_process())},
        {"name": "asking", "expression": asking},
    ]


def _no_host_process() -> Iterator[str]:
    yield f"!{_host_process('object.spec')}"
    for name in _LISTS:
        yield f"!(has(object.spec.{name}) && object.spec.{name}.exists(c, {_host_process('c')}))"


def _host_process(what: str) -> str:
    path = (f"{what}.securityContext", f"{what}.securityContext.windowsOptions")
    field = f"{path[1]}.hostProcess"
    return f"({' && '.join(f'has({one})' for one in (*path, field))} && {field})"


def _has_annotation(name: str) -> str:
    return f"(has(object.metadata.annotations) && '{name}' in object.metadata.annotations)"


def _annotated(name: str, value: str) -> str:
    return f"({_has_annotation(name)} && object.metadata.annotations['{name}'] == '{value}')"


def _labelled(name: str, value: str) -> str:
    labelled = f"(has(object.metadata.labels) && '{name}' in object.metadata.labels)"
    return f"({labelled} && object.metadata.labels['{name}'] == '{value}')"


def _rule(operation: str, resource: str) -> dict[str, Any]:
    return {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": [operation],
        "resources": [resource],
        "scope": "Namespaced",
    }
