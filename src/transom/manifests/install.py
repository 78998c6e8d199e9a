"""All the objects of an install, as templates, in the order in which they are needed; at the end, what Prometheus reads."""

import enum
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import msgspec

from transom.manifests import admission, grants, openshift, policies, roles, workloads
from transom.manifests.conditions import Both, IsGiven, Test, ValuePlace
from transom.manifests.definitions import definitions
from transom.manifests.grants import NAME
from transom.manifests.templates import OWN, Conditional, resolved
from transom.manifests.workloads import BEHIND_PROXY, COMPONENT
from transom.monitoring.alert import rules


class InstallPart(enum.StrEnum):
    """A part, as `--part` names it."""

    CRDS = "crds"
    RBAC = "rbac"
    OPERATOR = "operator"
    WEBHOOK = "webhook"
    POLICIES = "policies"
    MONITORING = "monitoring"


class Piece(msgspec.Struct, frozen=True):
    """Templates of objects that are applied together, and the parts that they belong to."""

    parts: tuple[InstallPart, ...]
    objects: tuple[Any, ...]


def pieces() -> Iterator[Piece]:
    """Everything that can be installed."""
    others = tuple(part for part in InstallPart if part is not InstallPart.CRDS)
    yield Piece(others, (workloads.namespace_template(),))
    yield Piece((InstallPart.CRDS,), _where(IsGiven(ValuePlace("definitions")), definitions()))
    yield Piece((InstallPart.RBAC,), (*roles.role_templates(), *_where(openshift.NODES, openshift.node_manager())))
    yield Piece((InstallPart.RBAC, InstallPart.WEBHOOK), _where(admission.SERVES, admission.admission_role_templates()))
    scraped = [(grants.NAME, None), (admission.NAME, admission.SERVES)]
    yield Piece((InstallPart.RBAC,), _where(workloads.BEHIND_PROXY, grants.metrics_roles(scraped)))
    yield Piece((InstallPart.OPERATOR,), tuple(workloads.operator()))
    yield Piece((InstallPart.WEBHOOK,), _where(admission.SERVES, admission.admission()))
    yield Piece((InstallPart.POLICIES,), tuple(policies.policies()))
    yield Piece((InstallPart.MONITORING,), (*monitors(), *alerts(), *_where(openshift.NODES, openshift.monitoring())))


def objects(values: Mapping[str, Any], namespace: str, parts: Collection[InstallPart] = ()) -> list[dict[str, Any]]:
    """The objects of an install with these values (`values.plain`) in a namespace: of some parts, or all."""
    chosen = [one for piece in pieces() if not parts or set(piece.parts) & set(parts) for one in piece.objects]
    made: list[dict[str, Any]] = resolved(chosen, values, namespace)
    return made


def _where(test: Test, templates: Any) -> tuple[Conditional, ...]:
    return tuple(Conditional(test, one) for one in templates)


_TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"  # noqa: S105  # Prometheus's own


def monitors() -> list[Any]:
    """Templates of the ServiceMonitors (Prometheus operator, Documentation/api.md).

    kube-rbac-proxy is shown Prometheus's token; nobody has signed its certificate.
    """
    asked = IsGiven(ValuePlace("metrics.serviceMonitor"))
    return [
        Conditional(asked, _monitor(NAME, COMPONENT)),
        Conditional(Both((asked, admission.SERVES)), _monitor(admission.NAME, admission.COMPONENT)),
    ]


def alerts() -> list[Any]:
    """Template of the PrometheusRule."""
    rule = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": NAME, "namespace": OWN, "labels": COMPONENT},
        "spec": rules(),
    }
    return [Conditional(IsGiven(ValuePlace("metrics.alerts")), rule)]


def _monitor(name: str, component: dict[str, str]) -> dict[str, Any]:
    endpoint = {
        "port": "metrics",
        "path": "/metrics",
        "scheme": Conditional(BEHIND_PROXY, "https"),
        "bearerTokenFile": Conditional(BEHIND_PROXY, _TOKEN),
        "tlsConfig": Conditional(BEHIND_PROXY, {"insecureSkipVerify": True}),
    }
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "ServiceMonitor",
        "metadata": {"name": name, "namespace": OWN, "labels": component},
        "spec": {"selector": {"matchLabels": component}, "endpoints": [endpoint]},
    }
