"""What the Prometheus operator reads: a ServiceMonitor for each Deployment, and the alerts (its Documentation/api.md)."""

from typing import Any

from transom.manifests import admission
from transom.manifests.grants import NAME
from transom.manifests.templates import OWN, Both, Given, Value, When
from transom.manifests.workloads import BEHIND_PROXY, COMPONENT
from transom.monitoring.alert import rules

_TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"  # noqa: S105  # Prometheus's own


def monitors() -> list[Any]:
    """Templates of the ServiceMonitors. kube-rbac-proxy is shown Prometheus's token; nobody has signed its certificate."""
    asked = Given(Value("metrics.serviceMonitor"))
    return [
        When(asked, _monitor(NAME, COMPONENT)),
        When(Both((asked, admission.SERVES)), _monitor(admission.NAME, admission.COMPONENT)),
    ]


def alerts() -> list[Any]:
    """Template of the PrometheusRule."""
    rule = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": NAME, "namespace": OWN, "labels": COMPONENT},
        "spec": rules(),
    }
    return [When(Given(Value("metrics.alerts")), rule)]


def _monitor(name: str, component: dict[str, str]) -> dict[str, Any]:
    endpoint = {
        "port": "metrics",
        "path": "/metrics",
        "scheme": When(BEHIND_PROXY, "https"),
        "bearerTokenFile": When(BEHIND_PROXY, _TOKEN),
        "tlsConfig": When(BEHIND_PROXY, {"insecureSkipVerify": True}),
    }
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "ServiceMonitor",
        "metadata": {"name": name, "namespace": OWN, "labels": component},
        "spec": {"selector": {"matchLabels": component}, "endpoints": [endpoint]},
    }
