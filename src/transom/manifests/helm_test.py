"""The objects of `helm test`: a Pod that runs `transom check`, and what it may read. Only the chart has them.

The annotations are Helm's (helm.sh, "Chart Hooks" and "Chart Tests").
"""

from typing import Any, Final

from transom.manifests.conditions import AnyTest, IsSet, ValuePlace
from transom.manifests.grants import LABELS, NAME, RBAC, Rule, build_rule
from transom.manifests.templates import OWN, Conditional, ItemsPlaceholder
from transom.manifests.workloads import ENVIRONMENT, IMAGE

TEST: Final = f"{NAME}-test"
_HOOK: Final = {"helm.sh/hook": "test"}
_BEFORE: Final = {"helm.sh/hook-weight": "-1", "helm.sh/hook-delete-policy": "before-hook-creation,hook-succeeded"}
_KEPT: Final = {"helm.sh/hook-delete-policy": "before-hook-creation"}
"""Helm reads the log of the Pod after it has ended (`helm test --logs`), so that the Pod stays until the next test."""
RULES: Final[tuple[Rule, ...]] = (
    build_rule("transom.dev", "egressproxies windowsinstances", "list", "the settings and hosts"),
    build_rule("apps", "deployments", "list", "the Deployments of Transom and of other operators"),
    build_rule("coordination.k8s.io", "leases", "list", "whether an operator leads", NAME),
    build_rule("", "nodes", "list", "the Windows nodes"),
    build_rule("", "namespaces", "get", "whether the namespace exists", OWN),
    build_rule("apiextensions.k8s.io", "customresourcedefinitions", "list", "the version of Transom's CRDs"),
    build_rule("rbac.authorization.k8s.io", "clusterrolebindings", "list", "which ServiceAccount has the rights", NAME),
    build_rule("admissionregistration.k8s.io", "mutatingwebhookconfigurations", "list", "the webhook configuration", NAME),
    build_rule("authorization.k8s.io", "subjectaccessreviews", "create", "which rights the operator has"),
)


def build_helm_test() -> list[Any]:
    """Return the templates of the test."""
    metadata = {"name": TEST, "labels": LABELS, "annotations": {**_HOOK, **_BEFORE}}
    own = {**metadata, "namespace": OWN}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": TEST}
    subjects = [{"kind": "ServiceAccount", "name": TEST, "namespace": OWN}]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**own, "annotations": {**_HOOK, **_KEPT}},
        "spec": _build_pod_spec(),
    }
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": own},
        {"apiVersion": RBAC, "kind": "ClusterRole", "metadata": metadata, "rules": [item.to_manifest() for item in RULES]},
        {"apiVersion": RBAC, "kind": "ClusterRoleBinding", "metadata": metadata, "roleRef": role, "subjects": subjects},
        pod,
    ]


def _build_pod_spec() -> dict[str, Any]:
    pulled, shared, tolerations = (
        ValuePlace(path) for path in ("imagePullSecrets", "global.imagePullSecrets", "operator.tolerations")
    )
    secrets = [ItemsPlaceholder(pulled), ItemsPlaceholder(shared, named=True)]
    return {
        "serviceAccountName": TEST,
        "restartPolicy": "Never",
        "imagePullSecrets": Conditional(AnyTest((IsSet(pulled), IsSet(shared))), secrets),
        "nodeSelector": ValuePlace("operator.nodeSelector"),
        "tolerations": Conditional(IsSet(tolerations), tolerations),
        "securityContext": ValuePlace("operator.podSecurityContext"),
        "containers": [
            {
                "name": "check",
                "image": IMAGE,
                "imagePullPolicy": Conditional(IsSet(ValuePlace("image.pullPolicy")), ValuePlace("image.pullPolicy")),
                "command": ["transom"],
                "args": ["check", f"--namespace={OWN}"],
                "env": [{"name": variable, "value": value} for variable, value in ENVIRONMENT.items()],
                "resources": ValuePlace("operator.resources"),
                "securityContext": ValuePlace("operator.securityContext"),
                "terminationMessagePolicy": "FallbackToLogsOnError",
            }
        ],
    }
