"""What bounds Transom from outside: admission policies for its own ServiceAccounts, and who may reach its pods.

RBAC cannot say of which type a Secret may be, nor which key of a ConfigMap may change. A ValidatingAdmissionPolicy can
(Kubernetes 1.30 and later). It binds Transom alone: what others do is not looked at.
"""

import base64
from typing import Any, Final

from transom.manifests import admission
from transom.manifests.conditions import IsGiven, ValuePlace
from transom.manifests.grants import LABELS, NAME, SYSTEM
from transom.manifests.templates import OWN, Conditional, choice
from transom.manifests.workloads import BEHIND_PROXY, COMPONENT, PORT, SECURE_PORT
from transom.proxy.validation import BUNDLE_KEY
from transom.windows.nodes import BOOTSTRAPPERS

METRICS_LABEL: Final = "transom.dev/metrics"
"""The label of a namespace whose pods may read the metrics."""
_TOKEN: Final = "bootstrap.kubernetes.io/token"  # noqa: S105  # the type of a Secret
_GROUP: Final = base64.b64encode(BOOTSTRAPPERS.encode()).decode()
_CLUSTERS: Final = f"'{SYSTEM}', 'kube-public'"
Validation = tuple[str, str]
"""An expression, and what is said where it is false."""
_SECRETS: Final[tuple[Validation, ...]] = (
    (
        f"request.namespace != '{SYSTEM}' || (request.operation == 'CREATE' && object.type == '{_TOKEN}')",
        f"Transom creates bootstrap tokens in {SYSTEM}, and does nothing else with Secrets there",
    ),
    (
        f"request.namespace != '{SYSTEM}' || request.operation != 'CREATE' || (has(object.data) && "
        f"'auth-extra-groups' in object.data && object.data['auth-extra-groups'] == '{_GROUP}')",
        f"a bootstrap token of Transom's is for group {BOOTSTRAPPERS} alone",
    ),
    (
        f"request.namespace == '{SYSTEM}' || "
        "(request.operation == 'DELETE' ? oldObject : object).type.matches('^(Opaque|transom[.]dev/.+)$')",
        "a Secret of Transom's is Opaque or of a type of its own: tokens of ServiceAccounts are nothing that it makes",
    ),
)
_KEPT: Final = (
    f"variables.now.all(key, key == '{BUNDLE_KEY}' || (key in variables.was && variables.was[key] == variables.now[key])) && "
    f"variables.was.all(key, key == '{BUNDLE_KEY}' || key in variables.now)"
)
_CONFIG_MAPS: Final[tuple[Validation, ...]] = (
    (
        f"!(request.namespace in [{_CLUSTERS}]) || (request.operation == 'UPDATE' && {_KEPT})",
        f"Transom keeps {BUNDLE_KEY} in ConfigMaps of {SYSTEM} and kube-public that ask for it, and changes nothing else there",
    ),
)


def policies() -> list[Any]:
    """Admission policies for the ServiceAccounts of Transom's namespace, and the NetworkPolicies of their pods: templates."""
    data = {name: f"has({one}.data) ? {one}.data : {{}}" for name, one in (("now", "object"), ("was", "oldObject"))}
    bound = [
        *_policy(f"{NAME}-secrets", "secrets", _SECRETS, {}),
        *_policy(f"{NAME}-configmaps", "configmaps", _CONFIG_MAPS, data),
    ]
    reached = [
        _ingress(NAME, COMPONENT, {}),
        Conditional(admission.SERVES, _ingress(admission.NAME, admission.COMPONENT, {"port": "https"})),
    ]
    return [
        *(Conditional(IsGiven(ValuePlace("admissionPolicies")), one) for one in bound),
        *(Conditional(IsGiven(ValuePlace("networkPolicy")), one) for one in reached),
    ]


def _policy(name: str, resource: str, validations: tuple[Validation, ...], variables: dict[str, str]) -> list[dict[str, Any]]:
    ours = ", ".join(f"'system:serviceaccount:{OWN}:{account}'" for account in (NAME, admission.NAME))
    metadata = {"name": name, "labels": LABELS}
    every = {
        "scope": "*",
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE", "UPDATE", "DELETE"],
        "resources": [resource],
    }
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [every]},
        "matchConditions": [{"name": "by-transom", "expression": f"request.userInfo.username in [{ours}]"}],
        "variables": [{"name": variable, "expression": text} for variable, text in variables.items()],
        "validations": [{"expression": text, "message": message, "reason": "Forbidden"} for text, message in validations],
    }
    if not variables:
        del spec["variables"]
    kind = {"apiVersion": "admissionregistration.k8s.io/v1"}
    return [
        {**kind, "kind": "ValidatingAdmissionPolicy", "metadata": metadata, "spec": spec},
        {
            **kind,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": metadata,
            "spec": {"policyName": name, "validationActions": ["Deny"]},
        },
    ]


def _ingress(name: str, component: dict[str, str], served: dict[str, str]) -> dict[str, Any]:
    """Metrics for namespaces that have the label; `served` for everybody, since an API server has no labels.

    The kubelet's probes come from the pod's own node, which no NetworkPolicy keeps out (Kubernetes, "Network Policies").
    """
    scraping = {
        "from": [{"namespaceSelector": {"matchLabels": {METRICS_LABEL: "true"}}}],
        "ports": list(choice(BEHIND_PROXY, *({"protocol": "TCP", "port": port} for port in (SECURE_PORT, PORT)))),
    }
    ports = [{"ports": [{"protocol": "TCP", **served}]}] if served else []
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": name, "namespace": OWN, "labels": component},
        "spec": {
            "podSelector": {"matchLabels": component},
            "policyTypes": ["Ingress"],
            "ingress": [*ports, scraping],
        },
    }
