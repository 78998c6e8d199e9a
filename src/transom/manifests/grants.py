"""What a ServiceAccount is granted: rules with their reasons, and the roles and bindings that they make."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from transom.manifests.conditions import AnyOf, Either, Test
from transom.manifests.templates import OWN, Conditional

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

    def manifest(self) -> dict[str, list[str]]:
        """As it stands in a role."""
        made = {"apiGroups": [self.group], "resources": list(self.resources), "verbs": list(self.verbs)}
        return made | {"resourceNames": list(self.names)} if self.names else made


def rule(group: str, resources: str, verbs: str, why: str, *names: str) -> Rule:
    """A rule; resources and verbs are separated by blanks."""
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

    def placed(self, namespace: str, *, openshift: bool) -> Iterator[tuple[str, tuple[Rule, ...]]]:
        """The rules of roles by their namespace; `namespace` is Transom's own."""
        yield namespace, self.own
        yield EVENTS_OF_CLUSTER, self.default
        yield SYSTEM, self.system
        yield from self.openshift.items() if openshift else ()


Needed = tuple[Rule, "Test | None"]
"""A rule, and where it is needed; None is everywhere."""


def _distinct(needed: Iterable[Needed]) -> Iterator[tuple[dict[str, list[str]], Test | None]]:
    """Each rule once, in order: several controllers may need the same."""
    found: list[tuple[dict[str, list[str]], list[Test | None]]] = []
    for one, test in needed:
        made = one.manifest()
        tests = next((tests for known, tests in found if known == made), None)
        if tests is None:
            found.append((made, [test]))
        else:
            tests.append(test)
    for made, tests in found:
        yield made, either(tests)


def either(tests: Iterable[Test | None]) -> Test | None:
    """Whether one of them holds, where None always does."""
    distinct = list(dict.fromkeys(tests))
    some = [test for test in distinct if test is not None]
    if len(some) != len(distinct):
        return None
    lists = [test for test in some if isinstance(test, AnyOf)]
    if len(lists) == len(some):
        return AnyOf(lists[0].value, tuple(dict.fromkeys(name for test in lists for name in test.names)))
    return Either(tuple(some))


def where(test: Test | None, node: Any) -> Any:
    """A node that is there where a test holds."""
    return node if test is None else Conditional(test, node)


def granted(name: str, everywhere: Iterable[Needed], placed: Mapping[str, Iterable[Needed]]) -> Iterator[Any]:
    """ServiceAccount `name`, and what it may do: everywhere, and in the namespaces that are named."""
    account = {"name": name, "namespace": OWN, "labels": LABELS}
    yield {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account}
    yield {
        "apiVersion": RBAC,
        "kind": "ClusterRole",
        "metadata": {"name": name, "labels": LABELS},
        "rules": [where(test, one) for one, test in _distinct(everywhere)],
    }
    yield _binding("ClusterRoleBinding", "ClusterRole", None, name)
    for place, rules in ((place, list(_distinct(rules))) for place, rules in placed.items()):
        if not rules:
            continue
        metadata = {"name": name, "namespace": place, "labels": LABELS}
        needed = either(test for _, test in rules)
        # one reason for all of them stands around the role
        inner = [one if test == needed else where(test, one) for one, test in rules]
        yield where(needed, {"apiVersion": RBAC, "kind": "Role", "metadata": metadata, "rules": inner})
        yield where(needed, _binding("RoleBinding", "Role", place, name))


def metrics_roles(accounts: Iterable[tuple[str, Test | None]]) -> list[dict[str, Any]]:
    """What kube-rbac-proxy asks as these ServiceAccounts, and ClusterRole `transom-metrics` for those who scrape."""
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
        "subjects": [where(test, {"kind": "ServiceAccount", "name": account, "namespace": OWN}) for account, test in accounts],
    }
    role = {"apiVersion": RBAC, "kind": "ClusterRole"}
    return [role | {"metadata": proxy, "rules": asks}, role | {"metadata": reader, "rules": read}, bound]


def _binding(kind: str, role: str, place: str | None, name: str) -> dict[str, Any]:
    """The ServiceAccount `name`, bound to the role of that name."""
    return {
        "apiVersion": RBAC,
        "kind": kind,
        "metadata": {"name": name, "labels": LABELS} | ({"namespace": place} if place else {}),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": OWN}],
    }
