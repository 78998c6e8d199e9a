"""What Transom may do: a ServiceAccount, and for each controller the verbs that it uses and no others."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

NAME: Final = "transom"
CONTROLLERS: Final = ("egress", "windows")
LABELS: Final = {"app.kubernetes.io/name": "transom"}
_RBAC: Final = "rbac.authorization.k8s.io/v1"
_FOLLOW: Final = ["list", "watch"]
_CLUSTER_EVENTS: Final = "default"
"""The namespace of events about cluster-scoped objects."""

Rule = dict[str, list[str]]


def rule(group: str, resources: list[str], verbs: list[str], names: list[str] | None = None) -> Rule:
    """One rule of a role; `names` narrows it to some objects."""
    made = {"apiGroups": [group], "resources": resources, "verbs": verbs}
    return made | {"resourceNames": names} if names else made


def roles(namespace: str, controllers: Iterable[str]) -> Iterator[dict[str, Any]]:
    """ServiceAccount, roles and bindings of `transom run` in a namespace."""
    chosen = frozenset(controllers)
    yield {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": NAME, "namespace": namespace, "labels": LABELS},
    }
    yield {
        "apiVersion": _RBAC,
        "kind": "ClusterRole",
        "metadata": {"name": NAME, "labels": LABELS},
        "rules": list(_cluster_rules(namespace, chosen)),
    }
    yield _binding("ClusterRoleBinding", "ClusterRole", namespace, None)
    for place, rules in ((namespace, list(_own_rules(chosen))), (_CLUSTER_EVENTS, list(_default_rules(chosen)))):
        if rules and (place != _CLUSTER_EVENTS or namespace != _CLUSTER_EVENTS):
            metadata = {"name": NAME, "namespace": place, "labels": LABELS}
            yield {"apiVersion": _RBAC, "kind": "Role", "metadata": metadata, "rules": rules}
            yield _binding("RoleBinding", "Role", namespace, place)


def _cluster_rules(namespace: str, chosen: frozenset[str]) -> Iterator[Rule]:
    yield rule("transom.dev", ["egressproxies"], _FOLLOW)
    yield rule("config.openshift.io", ["proxies", "networks", "infrastructures"], _FOLLOW)
    yield rule("networking.k8s.io", ["servicecidrs"], _FOLLOW)
    yield rule("cluster.x-k8s.io", ["clusters"], _FOLLOW)
    # the networks of the cluster (kube-system, kube-public), OpenShift's trusted CA, ConfigMaps that ask for the bundle
    yield rule("", ["configmaps"], [*_FOLLOW, "patch"] if "egress" in chosen else _FOLLOW)
    yield rule("", ["nodes"], _FOLLOW)
    yield rule("", ["namespaces"], ["get"], [namespace])
    # an EgressProxy that went with its definition is an accident, one that was deleted is a wish
    yield rule("apiextensions.k8s.io", ["customresourcedefinitions"], ["get"], ["egressproxies.transom.dev"])
    if "egress" in chosen:
        yield rule("transom.dev", ["egressproxies/status"], ["patch"])


def _own_rules(chosen: frozenset[str]) -> Iterator[Rule]:
    yield rule("transom.dev", ["windowsinstances"], _FOLLOW)
    yield rule("", ["secrets"], _FOLLOW)
    yield rule("coordination.k8s.io", ["leases"], ["create"])
    yield rule("coordination.k8s.io", ["leases"], ["get", "update"], [NAME])
    if "windows" in chosen:
        yield rule("transom.dev", ["windowsinstances/status"], ["patch"])
    if chosen:
        yield rule("", ["events"], ["create", "patch"])


def _default_rules(chosen: frozenset[str]) -> Iterator[Rule]:
    if "egress" in chosen:
        yield rule("", ["events"], ["create", "patch"])


def _binding(kind: str, role: str, namespace: str, place: str | None) -> dict[str, Any]:
    return {
        "apiVersion": _RBAC,
        "kind": kind,
        "metadata": {"name": NAME, "labels": LABELS} | ({"namespace": place} if place else {}),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": NAME},
        "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": namespace}],
    }
