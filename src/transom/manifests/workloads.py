"""What runs: the Deployment of `transom run`, its Service for metrics, and its PodDisruptionBudget."""

from typing import Any, Final

from transom.manifests.roles import LABELS, NAME

PORT: Final = 8080
METRICS: Final = {"name": "metrics", "port": PORT, "targetPort": "http", "protocol": "TCP"}
"""The port of a Service for the metrics."""
_COMPONENT: Final = {**LABELS, "app.kubernetes.io/component": "operator"}
GRACE: Final = 60
"""Seconds from SIGTERM to SIGKILL."""
CACHE: Final = "/var/cache/transom"
"""Where files of the payload lie that were fetched; nothing else of the file system can be written."""
ENVIRONMENT: Final = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": "1048576",
    "MALLOC_TRIM_THRESHOLD_": "1048576",
}
"""One arena: of many threads that each did a little, memory would stay scattered over as many. What a list took is given back.

Below a megabyte memory is kept: asyncio takes 256 kB for each read from a socket, which else is mapped and unmapped every time,
for a sixth of all CPU. mallopt(3).
"""


def namespace(name: str) -> dict[str, Any]:
    """Transom's own namespace, in which nothing runs that needs more than the restricted Pod Security Standard allows."""
    levels = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "audit", "warn")}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {**LABELS, **levels}}}


def operator(place: str, image: str, controllers: str | None) -> list[dict[str, Any]]:
    """Deployment, Service and PodDisruptionBudget. Two replicas: one works, the other takes over within the lease."""
    arguments, ports = _arguments(place, controllers), {"http": PORT}
    spec = pod(image, arguments, _COMPONENT, name=NAME, ports=ports, memory=("128Mi", "384Mi"), grace=GRACE)
    spec["containers"][0]["volumeMounts"].append({"name": "cache", "mountPath": CACHE})
    spec["volumes"].append({"name": "cache", "emptyDir": {"sizeLimit": "4Gi"}})
    return replicas(NAME, place, _COMPONENT, spec, [METRICS])


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


def _arguments(place: str, controllers: str | None) -> list[str]:
    chosen = [f"--controllers={controllers}"] if controllers else []
    return ["run", f"--namespace={place}", *chosen, f"--payload-cache={CACHE}", f"--bind-address=0.0.0.0:{PORT}"]


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
