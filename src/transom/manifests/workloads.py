"""What runs: the Deployment of `transom run`, its Service for metrics, and its PodDisruptionBudget."""

from collections.abc import Mapping
from typing import Any, Final

from transom.manifests.roles import LABELS, NAME

PORT: Final = 8080
_METRICS: Final = {"name": "metrics", "port": PORT, "targetPort": "http", "protocol": "TCP"}
SECURE_PORT: Final = 8443
_SECURE_METRICS: Final = {"name": "metrics", "port": SECURE_PORT, "targetPort": "metrics", "protocol": "TCP"}
COMPONENT: Final = {**LABELS, "app.kubernetes.io/component": "operator"}
GRACE: Final = 60
"""Seconds from SIGTERM to SIGKILL."""
CACHE: Final = "/var/cache/transom"
"""Where files of the payload lie that were fetched; nothing else of the file system can be written."""
ENVIRONMENT: Final = {
    "LOGNAME": "transom",
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": "1048576",
    "MALLOC_TRIM_THRESHOLD_": "1048576",
}
"""One arena: of many threads that each did a little, memory would stay scattered over as many. What a list took is given back.

Below a megabyte memory is kept: asyncio takes 256 kB for each read from a socket, which else is mapped and unmapped every time,
for a sixth of all CPU. mallopt(3).

`LOGNAME`: asyncssh asks for the local user at each connection, and connects to nobody where there is none: a pod may run as a
number that its image has no name for. Without the variable it reads /etc/passwd every time.
"""


def namespace(name: str, labels: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Transom's own namespace, in which nothing runs that needs more than the restricted Pod Security Standard allows.

    `labels` are further ones.
    """
    levels = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "audit", "warn")}
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": {**LABELS, **levels, **(labels or {})}},
    }


def operator(
    place: str, image: str, controllers: str, metrics_proxy: str | None = None, *, require_host_keys: bool = False
) -> list[dict[str, Any]]:
    """Deployment, Service and PodDisruptionBudget. Two replicas: one works, the other takes over within the lease.

    `metrics_proxy` is the image of kube-rbac-proxy, where the metrics are to be behind it.
    """
    arguments, ports = _arguments(place, controllers, require_host_keys=require_host_keys), {"http": PORT}
    spec = pod(image, arguments, COMPONENT, name=NAME, ports=ports, memory=("128Mi", "384Mi"), grace=GRACE)
    spec["containers"][0]["volumeMounts"].append({"name": "cache", "mountPath": CACHE})
    spec["volumes"].append({"name": "cache", "emptyDir": {"sizeLimit": "4Gi"}})
    return replicas(NAME, place, COMPONENT, spec, [metrics_of(spec, metrics_proxy)])


def metrics_of(spec: dict[str, Any], proxy: str | None) -> dict[str, Any]:
    """The port of a Service for the metrics of these pods; with the image of kube-rbac-proxy that is put in front of them.

    It asks the API server who scrapes (TokenReview) and whether they may (SubjectAccessReview of `get` on `/metrics`), and
    serves TLS with a certificate that it makes for itself (brancz/kube-rbac-proxy, README.md).
    """
    if proxy is None:
        return _METRICS
    transom = spec["containers"][0]
    transom["args"].append("--local-metrics")
    spec["containers"].append(
        {
            "name": "kube-rbac-proxy",
            "image": proxy,
            "args": [
                f"--secure-listen-address=0.0.0.0:{SECURE_PORT}",
                f"--upstream=http://127.0.0.1:{PORT}/",
                "--allow-paths=/metrics",
            ],
            "ports": [{"name": "metrics", "containerPort": SECURE_PORT, "protocol": "TCP"}],
            "resources": {"requests": {"cpu": "5m", "memory": "32Mi"}, "limits": {"memory": "64Mi"}},
            "securityContext": transom["securityContext"],
            "terminationMessagePolicy": "FallbackToLogsOnError",
        }
    )
    return _SECURE_METRICS


def replicas(
    name: str, place: str, labels: dict[str, str], spec: dict[str, Any], ports: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Two pods of one `spec`, one of which is always there: Deployment, the Service with its `ports`, PodDisruptionBudget."""
    metadata = {"name": name, "namespace": place, "labels": labels}
    selector = {"matchLabels": labels}
    return [
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": metadata,
            "spec": {
                "replicas": 2,
                "selector": selector,
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
                "template": {"metadata": {"labels": labels}, "spec": spec},
            },
        },
        {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"selector": labels, "ports": ports}},
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": metadata,
            "spec": {"maxUnavailable": 1, "selector": selector, "unhealthyPodEvictionPolicy": "AlwaysAllow"},
        },
    ]


def _arguments(place: str, controllers: str, *, require_host_keys: bool) -> list[str]:
    return [
        "run",
        f"--namespace={place}",
        f"--controllers={controllers}",
        *(["--require-host-keys"] if require_host_keys else []),
        f"--payload-cache={CACHE}",
        f"--bind-address=0.0.0.0:{PORT}",
    ]


def pod(
    image: str,
    arguments: list[str],
    labels: dict[str, str],
    *,
    name: str,
    ports: dict[str, int],
    memory: tuple[str, str],
    grace: int,
) -> dict[str, Any]:
    """The pods of a Deployment whose `http` port has the probes. `memory` is asked for, and at most had; `grace` in seconds."""
    # no runAsUser: OpenShift gives each namespace users of its own, elsewhere the image names one that is not root
    restricted = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "privileged": False,
        "readOnlyRootFilesystem": True,
    }
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": labels},
    }
    return {
        "serviceAccountName": name,
        "terminationGracePeriodSeconds": grace,
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "topologySpreadConstraints": [spread],
        "containers": [
            {
                "name": name,
                "image": image,
                "command": ["transom"],
                "args": arguments,
                "env": [{"name": variable, "value": value} for variable, value in ENVIRONMENT.items()],
                "ports": [{"name": port, "containerPort": number, "protocol": "TCP"} for port, number in ports.items()],
                "livenessProbe": _probe("/healthz", 20),
                "readinessProbe": _probe("/readyz", 5),
                "startupProbe": _probe("/healthz", 2) | {"failureThreshold": 30},
                "resources": {"requests": {"cpu": "50m", "memory": memory[0]}, "limits": {"memory": memory[1]}},
                "securityContext": restricted,
                "terminationMessagePolicy": "FallbackToLogsOnError",
                "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108  # the pod's own
            }
        ],
        "volumes": [{"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}}],
    }


def _probe(path: str, period: int) -> dict[str, Any]:
    return {"httpGet": {"path": path, "port": "http"}, "periodSeconds": period, "timeoutSeconds": 5}
