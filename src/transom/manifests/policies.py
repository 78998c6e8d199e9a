"""What bounds Transom from outside: admission policies for its own ServiceAccounts, and who may reach its pods.

RBAC cannot say of which type a Secret may be, nor which key of a ConfigMap or field of a HelmRelease may change. A
ValidatingAdmissionPolicy can (Kubernetes 1.30 and later). It binds Transom alone: what others do is not looked at.
"""

import base64
from collections.abc import Mapping
from typing import Any, Final

from transom.capi.bootstrap.injection import LABEL as INJECT
from transom.capi.values.cluster_identity import ADOPT, MANAGED_BY, TRANSOM
from transom.manifests import admission
from transom.manifests.conditions import IsSet, ValuePlace
from transom.manifests.grants import LABELS, NAME, SYSTEM, get_account_name
from transom.manifests.templates import OWN, Conditional, JoinedText, build_choice
from transom.manifests.workloads import BEHIND_PROXY, COMPONENT, PORT, SECURE_PORT
from transom.proxy.validation import BUNDLE_KEY
from transom.windows.nodes.windows_instance import BOOTSTRAPPERS

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
        f"a bootstrap token of Transom is only for group {BOOTSTRAPPERS}",
    ),
    (
        f"request.namespace == '{SYSTEM}' || "
        "(request.operation == 'DELETE' ? oldObject : object).type.matches('^(Opaque|transom[.]dev/.+)$')",
        "a Secret of Transom is Opaque or has a type of Transom: Transom creates no tokens of ServiceAccounts",
    ),
)
_CHANGES_NOTHING_ELSE: Final = (
    f"variables.now.all(key, key == '{BUNDLE_KEY}' || (key in variables.was && variables.was[key] == variables.now[key])) && "
    f"variables.was.all(key, key == '{BUNDLE_KEY}' || key in variables.now) && "
    "(has(object.binaryData) ? object.binaryData : {}) == (has(oldObject.binaryData) ? oldObject.binaryData : {})"
)
_IS_OURS: Final = (
    f"(has(variables.before.labels) && '{MANAGED_BY}' in variables.before.labels && "
    f"variables.before.labels['{MANAGED_BY}'] == '{TRANSOM}') || "
    f"(request.operation == 'UPDATE' && has(oldObject.metadata.annotations) && '{ADOPT}' in oldObject.metadata.annotations && "
    f"oldObject.metadata.annotations['{ADOPT}'] == 'true')"
)
"""An object of Transom's, or one that a person gives to Transom; of a change what counts is the object before it."""
_KEEPS_MARKS: Final = " && ".join(
    f"dyn(has(object.metadata.{field}) ? object.metadata.{field} : {empty}) == "
    f"dyn(has(oldObject.metadata.{field}) ? oldObject.metadata.{field} : {empty})"
    for field, empty in (("labels", "{}"), ("annotations", "{}"), ("finalizers", "[]"), ("ownerReferences", "[]"))
)
_CONFIG_MAPS: Final[tuple[Validation, ...]] = (
    (
        f"!(request.namespace in [{_CLUSTERS}]) || (request.operation == 'UPDATE' && {_CHANGES_NOTHING_ELSE})",
        f"Transom maintains only {BUNDLE_KEY} in ConfigMaps of {SYSTEM} and kube-public that request it",
    ),
    (
        f"request.namespace in ['{OWN}', {_CLUSTERS}] || variables.isOurs || "
        f"(request.operation == 'UPDATE' && {_CHANGES_NOTHING_ELSE} && {_KEEPS_MARKS})",
        f"of a ConfigMap without the label {MANAGED_BY}: {TRANSOM}, Transom changes {BUNDLE_KEY} alone",
    ),
)
_IS_VALUES: Final = "matches('^.+-(cluster|egress)-values$')"
"""The names of the objects with a cluster's values (`capi.values.cluster_identity.build_values_name`)."""
_ASKS: Final = (
    f"has(object.metadata.labels) && '{INJECT}' in object.metadata.labels && object.metadata.labels['{INJECT}'] == 'true'"
)


def _build_unchanged_check(now: str, was: str, *except_for: str) -> str:
    """Return the expression that is true where two mappings differ in these keys at most."""
    excepted = f"key in {list(except_for)}"
    return (
        f"{now}.all(key, {excepted} || (key in {was} && {was}[key] == {now}[key])) && "
        f"{was}.all(key, {excepted} || key in {now})"
    )


def _get_field(mapping: str, field: str, empty: str) -> str:
    """Return the expression of a field's value; of `empty` where the field is absent or null."""
    return f"'{field}' in {mapping} && {mapping}['{field}'] != null ? dyn({mapping}['{field}']) : dyn({empty})"


_RELEASES: Final[tuple[Validation, ...]] = (
    (
        f"request.operation == 'UPDATE' && {_KEEPS_MARKS} && "
        f"{_build_unchanged_check('variables.now', 'variables.was', 'valuesFrom')}",
        "of a HelmRelease, Transom changes spec.valuesFrom alone",
    ),
    (
        "variables.values.all(one, one in variables.valuesBefore || "
        f"(variables.asks && 'name' in one && one.name.{_IS_VALUES})) && "
        f"variables.valuesBefore.all(one, one in variables.values || ('name' in one && one.name.{_IS_VALUES}))",
        f"Transom adds a cluster's values to HelmReleases with the label {INJECT}: true, and removes nothing else",
    ),
)
_RELEASE_VARIABLES: Final = {
    "now": "has(object.spec) ? dyn(object.spec) : dyn({})",
    "was": "has(oldObject.spec) ? dyn(oldObject.spec) : dyn({})",
    "values": _get_field("variables.now", "valuesFrom", "[]"),
    "valuesBefore": _get_field("variables.was", "valuesFrom", "[]"),
    "asks": _ASKS,
}
_APPS: Final[tuple[Validation, ...]] = (
    (
        f"request.operation == 'UPDATE' && {_KEEPS_MARKS} && "
        f"{_build_unchanged_check('variables.now', 'variables.was', 'config')} && "
        f"{_build_unchanged_check('variables.config', 'variables.configBefore', 'configMap', 'secret')}",
        "of an App, Transom changes spec.config.configMap and spec.config.secret alone",
    ),
    (
        "['configMap', 'secret'].all(key, (key in variables.config ? (key in variables.configBefore && "
        "variables.config[key] == variables.configBefore[key]) || (variables.asks && "
        f"variables.config[key].name.{_IS_VALUES} && variables.config[key].namespace == request.namespace) : "
        "!(key in variables.configBefore) || variables.configBefore[key] == null || "
        f"variables.configBefore[key].name.{_IS_VALUES}))",
        f"Transom names a cluster's values in Apps with the label {INJECT}: true, and removes nothing else",
    ),
)
_APP_VARIABLES: Final = {
    "now": _RELEASE_VARIABLES["now"],
    "was": _RELEASE_VARIABLES["was"],
    "config": _get_field("variables.now", "config", "{}"),
    "configBefore": _get_field("variables.was", "config", "{}"),
    "asks": _ASKS,
}


def build_policies() -> list[Any]:
    """Admission policies for the ServiceAccounts of Transom's namespace, and the NetworkPolicies of their pods: templates."""
    data = {name: f"has({item}.data) ? {item}.data : {{}}" for name, item in (("now", "object"), ("was", "oldObject"))}
    data |= {"before": "request.operation == 'CREATE' ? object.metadata : oldObject.metadata", "isOurs": _IS_OURS}
    bound = [
        *_build_policy(f"{NAME}-secrets", "", "secrets", _SECRETS, {}),
        *_build_policy(f"{NAME}-configmaps", "", "configmaps", _CONFIG_MAPS, data),
        *_build_policy(f"{NAME}-helmreleases", "helm.toolkit.fluxcd.io", "helmreleases", _RELEASES, _RELEASE_VARIABLES),
        *_build_policy(f"{NAME}-apps", "application.giantswarm.io", "apps", _APPS, _APP_VARIABLES),
    ]
    reached = [
        _build_ingress_policy(NAME, COMPONENT, PORT, {}),
        Conditional(
            admission.SERVES,
            _build_ingress_policy(admission.NAME, admission.COMPONENT, admission.METRICS_PORT, {"port": "https"}),
        ),
    ]
    return [
        *(Conditional(IsSet(ValuePlace("admissionPolicies")), item) for item in bound),
        *(Conditional(IsSet(ValuePlace("networkPolicy")), item) for item in reached),
    ]


def _build_policy(
    name: str, group: str, resource: str, validations: tuple[Validation, ...], variables: Mapping[str, str]
) -> list[dict[str, Any]]:
    operator, webhook = (get_account_name(of) for of in ("operator", "webhook"))
    prefix = f"'system:serviceaccount:{OWN}:"
    ours = JoinedText(("request.userInfo.username in [", prefix, operator, "', ", prefix, webhook, "']"))
    metadata = {"name": name, "labels": LABELS}
    every = {
        "scope": "*",
        "apiGroups": [group],
        "apiVersions": ["*"],
        "operations": ["CREATE", "UPDATE", "DELETE"],
        "resources": [resource],
    }
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [every]},
        "matchConditions": [{"name": "by-transom", "expression": ours}],
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


def _build_ingress_policy(
    name: str, component: dict[str, str], metrics: int | ValuePlace, served: dict[str, str]
) -> dict[str, Any]:
    """Port `metrics` for namespaces that have the label; `served` for everybody, since an API server has no labels.

    The kubelet's probes come from the pod's own node, which no NetworkPolicy keeps out (Kubernetes, "Network Policies").
    """
    scraping = {
        "from": [{"namespaceSelector": {"matchLabels": {METRICS_LABEL: "true"}}}],
        "ports": list(build_choice(BEHIND_PROXY, *({"protocol": "TCP", "port": port} for port in (SECURE_PORT, metrics)))),
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
