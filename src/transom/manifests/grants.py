"""What a ServiceAccount is granted: rules with their reasons, and the roles and bindings that they make."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from transom.manifests.conditions import AnyTest, HasAnyOf, IsSet, Test, ValuePlace
from transom.manifests.templates import OWN, Conditional, ExtendedMapping

NAME: Final = "transom"
LABELS: Final = {"app.kubernetes.io/name": "transom"}
RBAC: Final = "rbac.authorization.k8s.io/v1"
EVENTS_OF_CLUSTER: Final = "default"
"""The namespace of events about cluster-scoped objects."""
SYSTEM: Final = "kube-system"


class Rule(msgspec.Struct, frozen=True):
    """One rule of a role, and why Transom needs it: what docs/security.md says of it. `names` narrows it to some objects."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    why: str
    names: tuple[str, ...] = ()

    def to_manifest(self) -> dict[str, list[str]]:
        """Return the rule of a role."""
        made = {"apiGroups": [self.group], "resources": list(self.resources), "verbs": list(self.verbs)}
        return made | {"resourceNames": list(self.names)} if self.names else made


def build_rule(group: str, resources: str, verbs: str, why: str, *names: str) -> Rule:
    """Return a rule. Resources and verbs are separated by spaces."""
    return Rule(group, tuple(resources.split()), tuple(verbs.split()), why, names)


class Grants(msgspec.Struct, frozen=True):
    """What one controller needs, by where it needs it.

    `everywhere` is in the ClusterRole, `own` in Transom's namespace, `default` in the namespace of events about cluster-scoped
    objects, `system` in kube-system. `openshift` is by namespace, for those that there are on OpenShift alone:
    `transom manifests --openshift`.
    """

    everywhere: tuple[Rule, ...] = ()
    own: tuple[Rule, ...] = ()
    default: tuple[Rule, ...] = ()
    system: tuple[Rule, ...] = ()
    openshift: Mapping[str, tuple[Rule, ...]] = msgspec.field(default_factory=dict)

    def iter_namespaced_rules(self, namespace: str, *, openshift: bool) -> Iterator[tuple[str, tuple[Rule, ...]]]:
        """Yield the rules of roles by their namespace; `namespace` is Transom's own."""
        yield namespace, self.own
        yield EVENTS_OF_CLUSTER, self.default
        yield SYSTEM, self.system
        yield from self.openshift.items() if openshift else ()


Needed = tuple[Rule, "Test | None"]
"""A rule, and where it is needed; None is everywhere."""


def _iter_distinct_rules(needed: Iterable[Needed]) -> Iterator[tuple[dict[str, list[str]], Test | None]]:
    """Each rule once, in order: several controllers may need the same."""
    tests_by_rule: list[tuple[dict[str, list[str]], list[Test | None]]] = []
    for entry, test in needed:
        made = entry.to_manifest()
        tests = next((tests for item, tests in tests_by_rule if item == made), None)
        if tests is None:
            tests_by_rule.append((made, [test]))
        else:
            tests.append(test)
    for made, tests in tests_by_rule:
        yield made, combine_tests(tests)


def combine_tests(tests: Iterable[Test | None]) -> Test | None:
    """Return a test that is true if one of the tests is. None is always true."""
    distinct = list(dict.fromkeys(tests))
    some = [test for test in distinct if test is not None]
    if len(some) != len(distinct):
        return None
    lists = [test for test in some if isinstance(test, HasAnyOf)]
    if len(lists) == len(some):
        return HasAnyOf(lists[0].value, tuple(dict.fromkeys(name for test in lists for name in test.names)))
    return AnyTest(tuple(some))


def build_conditional(test: Test | None, node: Any) -> Any:
    """Return a node that exists only if a test is true."""
    return node if test is None else Conditional(test, node)


def get_account_name(workload: str) -> ValuePlace:
    """Return where the name of a workload's ServiceAccount is; `workload` is `operator` or `webhook`."""
    return ValuePlace(f"{workload}.serviceAccount.name")


def build_account_values() -> dict[str, Any]:
    """Return the default values of the ServiceAccounts, which roles are resolved with."""
    names = {"operator": NAME, "webhook": f"{NAME}-webhook"}
    return {of: {"serviceAccount": {"create": True, "name": name, "annotations": {}}} for of, name in names.items()}


def iter_account_objects(
    name: str, workload: str, everywhere: Iterable[Needed], by_namespace: Mapping[str, Iterable[Needed]]
) -> Iterator[Any]:
    """Iterate over the ServiceAccount of a workload, and what it may do by roles `name`: everywhere and in named namespaces."""
    account = {
        "name": get_account_name(workload),
        "namespace": OWN,
        "labels": LABELS,
        "annotations": ExtendedMapping({}, (ValuePlace(f"{workload}.serviceAccount.annotations"),)),
    }
    created = IsSet(ValuePlace(f"{workload}.serviceAccount.create"))
    yield Conditional(created, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account})
    yield {
        "apiVersion": RBAC,
        "kind": "ClusterRole",
        "metadata": {"name": name, "labels": LABELS},
        "rules": [build_conditional(test, item) for item, test in _iter_distinct_rules(everywhere)],
    }
    yield _build_binding("ClusterRoleBinding", "ClusterRole", None, name, workload)
    for place, rules in ((place, list(_iter_distinct_rules(rules))) for place, rules in by_namespace.items()):
        if not rules:
            continue
        metadata = {"name": name, "namespace": place, "labels": LABELS}
        needed = combine_tests(test for _, test in rules)
        # one reason for all of them stands around the role
        inner = [item if test == needed else build_conditional(test, item) for item, test in rules]
        yield build_conditional(needed, {"apiVersion": RBAC, "kind": "Role", "metadata": metadata, "rules": inner})
        yield build_conditional(needed, _build_binding("RoleBinding", "Role", place, name, workload))


def build_aggregated_roles() -> list[dict[str, Any]]:
    """Return roles that extend `view`, `edit` and `admin` by Transom's kinds (Kubernetes, "Aggregated ClusterRoles").

    `edit` does not include EgressProxies, which decide for the whole cluster which proxy and CAs hosts and pods trust.
    """
    kinds = {
        "view": (["egressproxies", "windowsinstances"], ["get", "list", "watch"], ("view", "edit", "admin")),
        "edit": (["windowsinstances"], ["create", "update", "patch", "delete", "deletecollection"], ("edit", "admin")),
    }
    return [
        {
            "apiVersion": RBAC,
            "kind": "ClusterRole",
            "metadata": {
                "name": f"{NAME}-{name}",
                "labels": {**LABELS, **{f"rbac.authorization.k8s.io/aggregate-to-{role}": "true" for role in extended}},
            },
            "rules": [{"apiGroups": ["transom.dev"], "resources": resources, "verbs": verbs}],
        }
        for name, (resources, verbs, extended) in kinds.items()
    ]


def build_metrics_roles(accounts: Iterable[tuple[ValuePlace, Test | None]]) -> list[dict[str, Any]]:
    """Build the roles that kube-rbac-proxy needs as these ServiceAccounts, and `transom-metrics` for scrapers."""
    asks = [
        {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]},
        {"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]},
    ]
    proxy, reader = ({"name": f"{NAME}-{name}", "labels": LABELS} for name in ("metrics-proxy", "metrics"))
    read = [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
    bound = {
        "apiVersion": RBAC,
        "kind": "ClusterRoleBinding",
        "metadata": proxy,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": proxy["name"]},
        "subjects": [
            build_conditional(test, {"kind": "ServiceAccount", "name": account, "namespace": OWN}) for account, test in accounts
        ],
    }
    role = {"apiVersion": RBAC, "kind": "ClusterRole"}
    return [role | {"metadata": proxy, "rules": asks}, role | {"metadata": reader, "rules": read}, bound]


def _build_binding(kind: str, role: str, place: str | None, name: str, workload: str) -> dict[str, Any]:
    """Build the binding of ServiceAccount `name` to the role with that name."""
    return {
        "apiVersion": RBAC,
        "kind": kind,
        "metadata": {"name": name, "labels": LABELS} | ({"namespace": place} if place else {}),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": get_account_name(workload), "namespace": OWN}],
    }
