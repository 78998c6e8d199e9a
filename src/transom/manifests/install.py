"""All the objects of an install, as templates, in the order in which they are needed; at the end, what Prometheus reads."""

import enum
import importlib.resources
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

import msgspec

from transom import __version__
from transom.manifests import admission, grants, openshift, policies, roles, workloads
from transom.manifests.conditions import AllTests, AnyTest, IsSet, NotTest, Test, ValuePlace
from transom.manifests.definitions import build_crds
from transom.manifests.grants import LABELS, NAME
from transom.manifests.templates import (
    OWN,
    RELEASE,
    Conditional,
    ExtendedMapping,
    ItemsPlaceholder,
    JoinedText,
    TextFile,
    resolve_template,
)
from transom.manifests.workloads import BEHIND_PROXY, COMMON_LABELS, COMPONENT
from transom.monitoring.alert import build_rules

_VERSION: Final = __version__.replace("+", "_")
"""As a label can contain it."""
_COMMON_ANNOTATIONS: Final = ValuePlace("commonAnnotations")


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


def iter_pieces(more_labels: Mapping[str, str] | None = None) -> Iterator[Piece]:
    """Yield everything that can be installed, with the standard labels and `more_labels`."""
    for piece in _build_pieces():
        yield Piece(piece.parts, tuple(add_common_metadata(obj, more_labels or {}) for obj in piece.objects))


def add_common_metadata(template: Any, more_labels: Mapping[str, str]) -> Any:
    """Return an object with the standard labels and `more_labels`, and with the labels and annotations of the values."""
    if isinstance(template, Conditional):
        return Conditional(template.test, add_common_metadata(template.then, more_labels))
    if isinstance(template, ItemsPlaceholder):
        return template
    metadata = template["metadata"]
    labels = {"app.kubernetes.io/instance": RELEASE, "app.kubernetes.io/version": _VERSION, **more_labels}
    named = _extend_mapping(metadata.get("labels", {}), labels, COMMON_LABELS)
    annotations = _extend_mapping(metadata.get("annotations", {}), {}, _COMMON_ANNOTATIONS)
    extended = annotations if annotations.fields else Conditional(build_any_test(annotations.values), annotations)
    others = {name: value for name, value in metadata.items() if name not in ("labels", "annotations")}
    return {**template, "metadata": {**others, "labels": named, "annotations": extended}}


def _extend_mapping(
    mapping: Mapping[str, Any] | ExtendedMapping, fields: Mapping[str, str], value: ValuePlace
) -> ExtendedMapping:
    if isinstance(mapping, ExtendedMapping):
        return ExtendedMapping({**mapping.fields, **fields}, (*mapping.values, value))
    return ExtendedMapping({**mapping, **fields}, (value,))


def build_any_test(values: tuple[ValuePlace, ...]) -> Test:
    """Return a test that is true if one of the values is set."""
    tests = tuple(IsSet(value) for value in values)
    return tests[0] if len(tests) == 1 else AnyTest(tests)


def _build_pieces() -> Iterator[Piece]:
    others = tuple(part for part in InstallPart if part is not InstallPart.CRDS)
    yield Piece(others, (workloads.build_namespace_template(),))
    yield Piece((InstallPart.CRDS,), _wrap_conditional(IsSet(ValuePlace("definitions")), build_crds()))
    yield Piece((InstallPart.RBAC,), _wrap_conditional(IsSet(ValuePlace("aggregatedRoles")), grants.build_aggregated_roles()))
    yield Piece(
        (InstallPart.RBAC,), (*roles.iter_role_templates(), *_wrap_conditional(openshift.NODES, openshift.build_node_manager()))
    )
    yield Piece(
        (InstallPart.RBAC, InstallPart.WEBHOOK), _wrap_conditional(admission.SERVES, admission.iter_admission_role_templates())
    )
    scraped = [(grants.get_account_name("operator"), None), (grants.get_account_name("webhook"), admission.SERVES)]
    yield Piece((InstallPart.RBAC,), _wrap_conditional(workloads.BEHIND_PROXY, grants.build_metrics_roles(scraped)))
    yield Piece((InstallPart.OPERATOR,), tuple(workloads.build_operator()))
    yield Piece((InstallPart.WEBHOOK,), _wrap_conditional(admission.SERVES, admission.build_admission_server()))
    yield Piece((InstallPart.POLICIES,), tuple(policies.build_policies()))
    monitored = (
        *build_monitors(),
        *build_alerts(),
        build_dashboard(),
        *_wrap_conditional(openshift.NODES, openshift.build_monitoring()),
    )
    yield Piece((InstallPart.MONITORING,), monitored)
    yield Piece((InstallPart.OPERATOR,), (ItemsPlaceholder(ValuePlace("extraObjects")),))


def build_objects(values: Mapping[str, Any], namespace: str, parts: Collection[InstallPart] = ()) -> list[dict[str, Any]]:
    """Build the objects of an install with these values (`values.to_json_data`) in a namespace: some parts, or all."""
    chosen = [obj for piece in iter_pieces() if not parts or set(piece.parts) & set(parts) for obj in piece.objects]
    made: list[dict[str, Any]] = resolve_template(chosen, values, namespace)
    return made


def _wrap_conditional(test: Test, templates: Any) -> tuple[Conditional, ...]:
    return tuple(Conditional(test, template) for template in templates)


_INTERVAL: Final = ValuePlace("metrics.interval")
_TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"  # noqa: S105  # Prometheus's own


def build_monitors() -> list[Any]:
    """Templates of the ServiceMonitors (Prometheus operator, Documentation/api.md).

    kube-rbac-proxy gets Prometheus's token. Its certificate is self-signed.
    """
    is_enabled = IsSet(ValuePlace("metrics.serviceMonitor"))
    return [
        Conditional(is_enabled, _build_service_monitor(NAME, COMPONENT)),
        Conditional(AllTests((is_enabled, admission.SERVES)), _build_service_monitor(admission.NAME, admission.COMPONENT)),
    ]


def build_alerts() -> list[Any]:
    """Template of the PrometheusRule."""
    spec = build_rules()
    for group in spec["groups"]:
        for item in group["rules"]:
            address = JoinedText((_RUNBOOKS, f"/{item['alert']}.html"))
            item["annotations"]["runbook_url"] = Conditional(IsSet(_RUNBOOKS), address)
    rule = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": _build_monitoring_metadata(NAME, COMPONENT),
        "spec": spec,
    }
    return [Conditional(IsSet(ValuePlace("metrics.alerts")), rule)]


DASHBOARD: Final = TextFile(
    "files/dashboard.json", (importlib.resources.files("transom.monitoring") / "dashboard.json").read_text("utf-8")
)


def build_dashboard() -> Any:
    """Return the template of the ConfigMap with the dashboard, which Grafana's sidecar finds by its labels.

    Grafana's chart selects the label `grafana_dashboard` (grafana-community/helm-charts, charts/grafana/values.yaml,
    `sidecar.dashboards.label`).
    """
    labels, annotations = ValuePlace("metrics.dashboardLabels"), ValuePlace("metrics.dashboardAnnotations")
    metadata = {
        "name": f"{NAME}-dashboard",
        "namespace": _NAMESPACE,
        "labels": ExtendedMapping(LABELS, (labels,)),
        "annotations": ExtendedMapping({}, (annotations,)),
    }
    made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"transom.json": DASHBOARD}}
    return Conditional(IsSet(ValuePlace("metrics.dashboard")), made)


_GIVEN: Final = IsSet(ValuePlace("metrics.namespace"))
_NAMESPACE: Final = JoinedText((Conditional(_GIVEN, _GIVEN.value), Conditional(NotTest(_GIVEN), OWN)))
_RUNBOOKS: Final = ValuePlace("metrics.runbookUrl")


def _build_monitoring_metadata(name: str, component: dict[str, str]) -> dict[str, Any]:
    labels, annotations = ValuePlace("metrics.labels"), ValuePlace("metrics.annotations")
    return {
        "name": name,
        "namespace": _NAMESPACE,
        "labels": ExtendedMapping(component, (labels,)),
        "annotations": ExtendedMapping({}, (annotations,)),
    }


def _build_service_monitor(name: str, component: dict[str, str]) -> dict[str, Any]:
    endpoint = {
        "port": "metrics",
        "path": "/metrics",
        "interval": Conditional(IsSet(_INTERVAL), _INTERVAL),
        "scheme": Conditional(BEHIND_PROXY, "https"),
        "bearerTokenFile": Conditional(BEHIND_PROXY, _TOKEN),
        "tlsConfig": Conditional(BEHIND_PROXY, {"insecureSkipVerify": True}),
    }
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "ServiceMonitor",
        "metadata": _build_monitoring_metadata(name, component),
        "spec": {
            "selector": {"matchLabels": component},
            "namespaceSelector": {"matchNames": [OWN]},
            "endpoints": [endpoint],
        },
    }
