"""The admission server of an install: what it may do, and what runs.

The registration is not among these objects: the replicas make it, and an apply would reset it. ClusterRole/transom-webhook owns
it, so that it goes with the install.
"""

from collections.abc import Iterator
from typing import Any, Final

from transom.manifests.roles import FOLLOW, LABELS, TELL, Rule, granted, rule
from transom.manifests.workloads import METRICS, PORT, pod, replicas
from transom.pods.registration import NAME as REGISTRATION

NAME: Final = "transom-webhook"
HTTPS_PORT: Final = 9443
_COMPONENT: Final = {**LABELS, "app.kubernetes.io/component": "webhook"}
_GRACE: Final = 30
_PRIORITY: Final = 1_000_000_000
"""The highest that is not the system's own."""


def admission_roles(place: str) -> Iterator[dict[str, Any]]:
    """ServiceAccount, roles and bindings of `transom webhook`."""
    placed = {place: list(_own())}
    placed.setdefault("default", []).append(rule("", ["services"], FOLLOW, ["kubernetes"]))
    yield from granted(NAME, place, list(_everywhere()), placed)


def _everywhere() -> Iterator[Rule]:
    yield rule("transom.dev", ["egressproxies"], FOLLOW)
    yield rule("config.openshift.io", ["proxies", "networks", "infrastructures"], FOLLOW)
    yield rule("networking.k8s.io", ["servicecidrs"], FOLLOW)
    # the networks of the cluster (kube-system, kube-public), OpenShift's trusted CA
    yield rule("", ["configmaps", "namespaces"], FOLLOW)
    yield rule("apiextensions.k8s.io", ["customresourcedefinitions"], ["get"], ["egressproxies.transom.dev"])
    # a Secret that is missing is told in the namespace of the pod
    yield TELL
    yield rule("admissionregistration.k8s.io", ["mutatingwebhookconfigurations"], ["create"])
    yield rule("admissionregistration.k8s.io", ["mutatingwebhookconfigurations"], ["get", *FOLLOW, "patch"], [REGISTRATION])
    yield rule("rbac.authorization.k8s.io", ["clusterroles"], ["get"], [NAME])


def _own() -> Iterator[Rule]:
    yield rule("", ["secrets"], [*FOLLOW, "create"])
    yield rule("", ["secrets"], ["get", "patch"], [NAME])
    yield rule("coordination.k8s.io", ["leases"], ["create"])
    yield rule("coordination.k8s.io", ["leases"], ["get", "update"], [NAME])


def admission(place: str, image: str) -> list[dict[str, Any]]:
    """PriorityClass, Deployment, Service and PodDisruptionBudget. Two replicas, both of which answer."""
    arguments = [
        "webhook",
        f"--namespace={place}",
        f"--bind-address=0.0.0.0:{HTTPS_PORT}",
        f"--metrics-bind-address=0.0.0.0:{PORT}",
    ]
    ports = {"https": HTTPS_PORT, "http": PORT}
    spec = pod(image, arguments, _COMPONENT, name=NAME, ports=ports, memory=("64Mi", "192Mi"), grace=_GRACE)
    priority = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": NAME, "labels": LABELS},
        "value": _PRIORITY,
        "description": "The admission server that gives pods the egress proxy.",
    }
    https = {"name": "https", "port": 443, "targetPort": "https", "protocol": "TCP"}
    return [priority, *replicas(NAME, place, _COMPONENT, {"priorityClassName": NAME, **spec}, [https, METRICS])]
