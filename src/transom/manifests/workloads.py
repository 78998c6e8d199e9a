"""What runs: the Deployment of `transom run`, its Service for metrics, and its PodDisruptionBudget."""

from typing import Any, Final

from transom.manifests.conditions import Both, Either, IsGiven, No, ValuePlace
from transom.manifests.grants import LABELS, NAME
from transom.manifests.openshift import MONITORED, NODES
from transom.manifests.roles import CHOSEN
from transom.manifests.templates import OWN, Conditional, Joined, Listed, Merged, Spread, choice, resolved

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

`LOGNAME`: asyncssh asks for the local user at each connection, and connects to nobody where there is none. A pod may run as a
number that its image has no name for. Without the variable it reads /etc/passwd every time.
"""


BEHIND_PROXY: Final = IsGiven(ValuePlace("metrics.proxy"))


def namespace_template() -> Any:
    """Transom's own namespace, labelled for the level of Pod Security that was chosen, and for OpenShift's Prometheus."""
    level = ValuePlace("podSecurity")
    labels = {f"pod-security.kubernetes.io/{mode}": Conditional(IsGiven(level), level) for mode in ("enforce", "audit", "warn")}
    monitored = {name: Conditional(NODES, value) for name, value in MONITORED.items()}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OWN, "labels": {**LABELS, **labels, **monitored}}}


def namespace(name: str) -> dict[str, Any]:
    """The namespace as it is by default: nothing in it needs more than the restricted Pod Security Standard."""
    made: dict[str, Any] = resolved(namespace_template(), {"podSecurity": "restricted", "openshift": False}, name)
    return made


def operator() -> list[Any]:
    """Deployment, Service and PodDisruptionBudget, as templates. One replica works, another takes over within the lease."""
    arguments = [
        "run",
        f"--namespace={OWN}",
        Joined(("--controllers=", Listed(CHOSEN))),
        Conditional(IsGiven(ValuePlace("requireHostKeys")), "--require-host-keys"),
        f"--payload-cache={CACHE}",
        f"--bind-address=0.0.0.0:{PORT}",
    ]
    spec = pod("operator", arguments, COMPONENT, name=NAME, ports={"http": PORT}, grace=GRACE)
    spec["containers"][0]["volumeMounts"].append({"name": "cache", "mountPath": CACHE})
    spec["volumes"].append({"name": "cache", "emptyDir": {"sizeLimit": "4Gi"}})
    mount_payload(spec)
    return replicas("operator", NAME, COMPONENT, spec, metrics_ports())


def metrics_ports() -> list[Any]:
    """The port of a Service for the metrics, or of the kube-rbac-proxy that is put in front of them."""
    return list(choice(BEHIND_PROXY, _SECURE_METRICS, _METRICS))


def _metrics_proxy(security: dict[str, Any]) -> dict[str, Any]:
    """The container of kube-rbac-proxy.

    It asks the API server who scrapes (TokenReview) and whether they may (SubjectAccessReview of `get` on `/metrics`), and
    serves TLS with a certificate that it makes for itself (brancz/kube-rbac-proxy, README.md).
    """
    return {
        "name": "kube-rbac-proxy",
        "image": ValuePlace("metrics.proxy"),
        "args": [
            f"--secure-listen-address=0.0.0.0:{SECURE_PORT}",
            f"--upstream=http://127.0.0.1:{PORT}/",
            "--allow-paths=/metrics",
        ],
        "ports": [{"name": "metrics", "containerPort": SECURE_PORT, "protocol": "TCP"}],
        "resources": {"requests": {"cpu": "5m", "memory": "32Mi"}, "limits": {"memory": "64Mi"}},
        "securityContext": security,
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def replicas(of: str, name: str, labels: dict[str, str], spec: dict[str, Any], ports: list[Any]) -> list[Any]:
    """Pods of one `spec`, one of which is always there: Deployment, the Service with its `ports`, PodDisruptionBudget."""
    metadata = {"name": name, "namespace": OWN, "labels": labels}
    selector = {"matchLabels": labels}
    return [
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": metadata,
            "spec": {
                "replicas": ValuePlace(f"{of}.replicas"),
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


IMAGE: Final = Joined(
    (
        Conditional(IsGiven(ValuePlace("image.registry")), Joined((ValuePlace("image.registry"), "/"))),
        ValuePlace("image.name"),
        Conditional(IsGiven(ValuePlace("image.tag")), Joined((":", ValuePlace("image.tag")))),
        Conditional(IsGiven(ValuePlace("image.digest")), Joined(("@", ValuePlace("image.digest")))),
    )
)


def pod(
    of: str, arguments: list[Any], labels: dict[str, str], *, name: str, ports: dict[str, int], grace: int
) -> dict[str, Any]:
    """The pods of a Deployment whose `http` port has the probes, as a template; `of` is where their values are.

    `grace` is in seconds.
    """
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
    priority, pulled, tolerated = (
        ValuePlace(f"{of}.priorityClassName"),
        ValuePlace("imagePullSecrets"),
        ValuePlace(f"{of}.tolerations"),
    )
    environment = [{"name": variable, "value": value} for variable, value in ENVIRONMENT.items()]
    return {
        "priorityClassName": Conditional(IsGiven(priority), priority),
        "serviceAccountName": name,
        "imagePullSecrets": Conditional(IsGiven(pulled), pulled),
        "terminationGracePeriodSeconds": grace,
        "nodeSelector": ValuePlace(f"{of}.nodeSelector"),
        "tolerations": Conditional(IsGiven(tolerated), tolerated),
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "topologySpreadConstraints": [spread],
        "containers": [
            {
                "name": name,
                "image": IMAGE,
                "imagePullPolicy": Conditional(IsGiven(ValuePlace("image.pullPolicy")), ValuePlace("image.pullPolicy")),
                "command": ["transom"],
                "args": [*arguments, Conditional(BEHIND_PROXY, "--local-metrics"), Spread(ValuePlace(f"{of}.arguments"))],
                "env": [*environment, Spread(ValuePlace(f"{of}.environment"))],
                "ports": [{"name": port, "containerPort": number, "protocol": "TCP"} for port, number in ports.items()],
                "livenessProbe": _probe("/healthz", 20),
                "readinessProbe": _probe("/readyz", 5),
                "startupProbe": _probe("/healthz", 2) | {"failureThreshold": 30},
                "resources": ValuePlace(f"{of}.resources"),
                "securityContext": restricted,
                "terminationMessagePolicy": "FallbackToLogsOnError",
                "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108  # the pod's own
            },
            Conditional(BEHIND_PROXY, _metrics_proxy(restricted)),
        ],
        "volumes": [{"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}}],
    }


def _probe(path: str, period: int) -> dict[str, Any]:
    return {"httpGet": {"path": path, "port": "http"}, "periodSeconds": period, "timeoutSeconds": 5}


PAYLOAD_MOUNT: Final = "/payload"
"""Where `transom run` looks for a payload where nobody says another place."""
_IMAGE: Final = ValuePlace("payload.image")
_VOLUME: Final = ValuePlace("payload.volume")
_SHIPPED: Final = ValuePlace("payload.kubeadm")
_COPIED: Final = IsGiven(ValuePlace("payload.copied"))
"""An init container copies it, which every version can; the image is then made upon Transom's own, whose program does it."""


def mount_payload(spec: dict[str, Any]) -> None:
    """Give the first container of a pod's template the payload, where the values have one.

    An image has `payload.yaml` and its files at its root, as `transom payload build --image` makes it. It is mounted as a
    volume, which Kubernetes 1.35 does where nobody has changed its feature gates (KEP-4639; `ImageVolume` in
    pkg/features/kube_features.go of v1.36.3), with containerd 2.1 or CRI-O 1.31.
    The shipped one for kubeadm is fetched by each pod from its publishers, through the proxy of the settings.
    """
    container = spec["containers"][0]
    container["args"] += [
        Conditional(IsGiven(_SHIPPED), Joined(("--payload-kubeadm=", _SHIPPED))),
        Conditional(IsGiven(_SHIPPED), Joined(("--payload-cni=", ValuePlace("payload.cni")))),
    ]
    mounted = {"name": "payload", "mountPath": PAYLOAD_MOUNT, "readOnly": True}
    container["volumeMounts"].append(Conditional(Either((IsGiven(_IMAGE), IsGiven(_VOLUME))), mounted))
    spec["volumes"] += [
        Conditional(
            Both((IsGiven(_IMAGE), No(_COPIED))),
            {"name": "payload", "image": {"reference": _IMAGE, "pullPolicy": "IfNotPresent"}},
        ),
        Conditional(_COPIED, {"name": "payload", "emptyDir": {"sizeLimit": "4Gi"}}),
        Conditional(IsGiven(_VOLUME), Merged({"name": "payload"}, _VOLUME)),
    ]
    copying = {
        "name": "payload",
        "image": _IMAGE,
        "command": ["transom"],
        "args": ["payload", "copy", "/", PAYLOAD_MOUNT],
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}},
        "securityContext": container["securityContext"],
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [{"name": "payload", "mountPath": PAYLOAD_MOUNT}],
    }
    spec["initContainers"] = Conditional(_COPIED, [copying])
