"""What runs: the Deployment of `transom run`, its Service for metrics, and its PodDisruptionBudget."""

from typing import Any, Final

from transom.manifests.conditions import AllTests, AnyTest, IsSet, NotTest, ValuePlace
from transom.manifests.grants import LABELS, NAME, get_account_name
from transom.manifests.openshift import MONITORED, NODES
from transom.manifests.roles import CHOSEN
from transom.manifests.templates import (
    OWN,
    Conditional,
    ExtendedMapping,
    ItemsPlaceholder,
    JoinedText,
    ListText,
    MergedMapping,
    build_choice,
    resolve_template,
)

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
"""One arena: of many threads that each did a little, memory would stay scattered over as many. The memory of a list is freed.

Below a megabyte memory is kept: asyncio takes 256 kB for each read from a socket, which else is mapped and unmapped every time,
for a sixth of all CPU. mallopt(3).

`LOGNAME`: asyncssh looks up the local user at each connection, and fails without one. A pod can run as a number for
which its image has no name. Without the variable it reads /etc/passwd every time.
"""


BEHIND_PROXY: Final = IsSet(ValuePlace("metrics.proxy"))


def build_namespace_template() -> Any:
    """Transom's own namespace, labelled for the level of Pod Security that was chosen, and for OpenShift's Prometheus."""
    level = ValuePlace("podSecurity")
    labels = {f"pod-security.kubernetes.io/{mode}": Conditional(IsSet(level), level) for mode in ("enforce", "audit", "warn")}
    monitored = {name: Conditional(NODES, value) for name, value in MONITORED.items()}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OWN, "labels": {**LABELS, **labels, **monitored}}}


def build_namespace(name: str) -> dict[str, Any]:
    """Return the default namespace: nothing in it needs more than the restricted Pod Security Standard."""
    made: dict[str, Any] = resolve_template(build_namespace_template(), {"podSecurity": "restricted", "openshift": False}, name)
    return made


def build_operator() -> list[Any]:
    """Deployment, Service and PodDisruptionBudget, as templates. One replica works, another takes over within the lease."""
    arguments = [
        "run",
        f"--namespace={OWN}",
        JoinedText(("--controllers=", ListText(CHOSEN))),
        Conditional(IsSet(ValuePlace("requireHostKeys")), "--require-host-keys"),
        f"--payload-cache={CACHE}",
        f"--bind-address=0.0.0.0:{PORT}",
    ]
    spec = build_pod("operator", arguments, COMPONENT, name=NAME, ports={"http": PORT}, grace=GRACE, upstream=PORT)
    spec["containers"][0]["volumeMounts"].append({"name": "cache", "mountPath": CACHE})
    spec["volumes"].append({"name": "cache", "emptyDir": {"sizeLimit": "4Gi"}})
    mount_payload(spec)
    return build_deployment_objects("operator", NAME, COMPONENT, spec, build_metrics_ports())


def build_metrics_ports() -> list[Any]:
    """Build the Service port of the metrics, or of the kube-rbac-proxy in front of them."""
    return list(build_choice(BEHIND_PROXY, _SECURE_METRICS, _METRICS))


def _build_metrics_proxy(security: ValuePlace, upstream: int | ValuePlace) -> dict[str, Any]:
    """Build the container of kube-rbac-proxy.

    It authenticates scrapers at the API server (TokenReview) and checks their access (SubjectAccessReview of `get` on
    `/metrics`), and serves TLS with a self-made certificate (brancz/kube-rbac-proxy, README.md).
    """
    return {
        "name": "kube-rbac-proxy",
        "image": ValuePlace("metrics.proxy"),
        "args": [
            f"--secure-listen-address=0.0.0.0:{SECURE_PORT}",
            JoinedText(("--upstream=http://127.0.0.1:", upstream if isinstance(upstream, ValuePlace) else str(upstream), "/")),
            "--allow-paths=/metrics",
        ],
        "ports": [{"name": "metrics", "containerPort": SECURE_PORT, "protocol": "TCP"}],
        "resources": {"requests": {"cpu": "5m", "memory": "32Mi"}, "limits": {"memory": "64Mi"}},
        "securityContext": security,
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def build_deployment_objects(
    workload: str, name: str, labels: dict[str, str], spec: dict[str, Any], ports: list[Any]
) -> list[Any]:
    """Pods of one `spec`, one of which is always there: Deployment, the Service with its `ports`, PodDisruptionBudget."""
    metadata = {"name": name, "namespace": OWN, "labels": labels}
    annotations = ValuePlace(f"{workload}.annotations")
    selector = {"matchLabels": labels}
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata,
        "spec": {"maxUnavailable": 1, "selector": selector, "unhealthyPodEvictionPolicy": "AlwaysAllow"},
    }
    return [
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {**metadata, "annotations": ExtendedMapping({}, (annotations,))},
            "spec": {
                "replicas": ValuePlace(f"{workload}.replicas"),
                "selector": selector,
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
                "template": {"metadata": _build_pod_metadata(workload, labels), "spec": spec},
            },
        },
        {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"selector": labels, "ports": ports}},
        Conditional(IsSet(ValuePlace(f"{workload}.podDisruptionBudget")), budget),
    ]


def _build_pod_metadata(workload: str, labels: dict[str, str]) -> dict[str, Any]:
    annotations = ValuePlace(f"{workload}.podAnnotations")
    return {
        "labels": ExtendedMapping(labels, (ValuePlace(f"{workload}.podLabels"), COMMON_LABELS)),
        "annotations": Conditional(IsSet(annotations), ExtendedMapping({}, (annotations,))),
    }


COMMON_LABELS: Final = ValuePlace("commonLabels")
_REGISTRY: Final = ValuePlace("image.registry")
_SHARED_REGISTRY: Final = ValuePlace("global.imageRegistry")
IMAGE: Final = JoinedText(
    (
        Conditional(IsSet(_REGISTRY), JoinedText((_REGISTRY, "/"))),
        Conditional(AllTests((NotTest(IsSet(_REGISTRY)), IsSet(_SHARED_REGISTRY))), JoinedText((_SHARED_REGISTRY, "/"))),
        ValuePlace("image.name"),
        Conditional(IsSet(ValuePlace("image.tag")), JoinedText((":", ValuePlace("image.tag")))),
        Conditional(IsSet(ValuePlace("image.digest")), JoinedText(("@", ValuePlace("image.digest")))),
    )
)


def build_pod(
    workload: str,
    arguments: list[Any],
    labels: dict[str, str],
    *,
    name: str,
    ports: dict[str, int | ValuePlace],
    grace: int,
    upstream: int | ValuePlace,
) -> dict[str, Any]:
    """Build the pod template of a Deployment with probes on its `http` port; `workload` is the path of its values.

    `grace` is in seconds.
    """
    restricted = ValuePlace(f"{workload}.securityContext")
    affinity, constraints, initial = (
        ValuePlace(f"{workload}.{field}") for field in ("affinity", "topologySpreadConstraints", "extraInitContainers")
    )
    shared = ValuePlace("global.imagePullSecrets")
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": labels},
    }
    priority, pulled, tolerated = (
        ValuePlace(f"{workload}.priorityClassName"),
        ValuePlace("imagePullSecrets"),
        ValuePlace(f"{workload}.tolerations"),
    )
    environment = [{"name": variable, "value": value} for variable, value in ENVIRONMENT.items()]
    return {
        "priorityClassName": Conditional(IsSet(priority), priority),
        "serviceAccountName": get_account_name(workload),
        "imagePullSecrets": Conditional(
            AnyTest((IsSet(pulled), IsSet(shared))), [ItemsPlaceholder(pulled), ItemsPlaceholder(shared, named=True)]
        ),
        "terminationGracePeriodSeconds": grace,
        "nodeSelector": ValuePlace(f"{workload}.nodeSelector"),
        "tolerations": Conditional(IsSet(tolerated), tolerated),
        "affinity": Conditional(IsSet(affinity), affinity),
        "securityContext": ValuePlace(f"{workload}.podSecurityContext"),
        "topologySpreadConstraints": [Conditional(NotTest(IsSet(constraints)), spread), ItemsPlaceholder(constraints)],
        "initContainers": Conditional(IsSet(initial), [ItemsPlaceholder(initial)]),
        "containers": [
            {
                "name": name,
                "image": IMAGE,
                "imagePullPolicy": Conditional(IsSet(ValuePlace("image.pullPolicy")), ValuePlace("image.pullPolicy")),
                "command": ["transom"],
                "args": [
                    *arguments,
                    Conditional(BEHIND_PROXY, "--local-metrics"),
                    ItemsPlaceholder(ValuePlace(f"{workload}.arguments")),
                ],
                "env": [*environment, ItemsPlaceholder(ValuePlace(f"{workload}.environment"))],
                "ports": [{"name": port, "containerPort": number, "protocol": "TCP"} for port, number in ports.items()],
                "livenessProbe": ValuePlace(f"{workload}.livenessProbe"),
                "readinessProbe": ValuePlace(f"{workload}.readinessProbe"),
                "startupProbe": ValuePlace(f"{workload}.startupProbe"),
                "resources": ValuePlace(f"{workload}.resources"),
                "securityContext": restricted,
                "terminationMessagePolicy": "FallbackToLogsOnError",
                "volumeMounts": [
                    {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108  # the pod's own
                    ItemsPlaceholder(ValuePlace(f"{workload}.extraVolumeMounts")),
                ],
            },
            Conditional(BEHIND_PROXY, _build_metrics_proxy(restricted, upstream)),
            ItemsPlaceholder(ValuePlace(f"{workload}.extraContainers")),
        ],
        "volumes": [
            {"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}},
            ItemsPlaceholder(ValuePlace(f"{workload}.extraVolumes")),
        ],
    }


PAYLOAD_MOUNT: Final = "/payload"
"""The default directory of the payload of `transom run`."""
_IMAGE: Final = ValuePlace("payload.image")
_VOLUME: Final = ValuePlace("payload.volume")
_SHIPPED: Final = ValuePlace("payload.kubeadm")
_COPIED: Final = IsSet(ValuePlace("payload.copied"))
"""An init container copies it, which every version can; its image is based on Transom's own, whose program copies it."""


def mount_payload(spec: dict[str, Any]) -> None:
    """Give the first container of a pod's template the payload, where the values have one.

    An image has `payload.yaml` and its files at its root, as `transom payload build --image` makes it. It is mounted as a
    volume, which Kubernetes 1.35 does with its default feature gates (KEP-4639; `ImageVolume` in
    pkg/features/kube_features.go of v1.36.3), with containerd 2.1 or CRI-O 1.31.
    The shipped one for kubeadm is fetched by each pod from its publishers, through the proxy of the settings.
    """
    container = spec["containers"][0]
    container["args"] += [
        Conditional(IsSet(_SHIPPED), JoinedText(("--payload-kubeadm=", _SHIPPED))),
        Conditional(IsSet(_SHIPPED), JoinedText(("--payload-cni=", ValuePlace("payload.cni")))),
    ]
    mounted = {"name": "payload", "mountPath": PAYLOAD_MOUNT, "readOnly": True}
    container["volumeMounts"].append(Conditional(AnyTest((IsSet(_IMAGE), IsSet(_VOLUME))), mounted))
    spec["volumes"] += [
        Conditional(
            AllTests((IsSet(_IMAGE), NotTest(_COPIED))),
            {"name": "payload", "image": {"reference": _IMAGE, "pullPolicy": "IfNotPresent"}},
        ),
        Conditional(_COPIED, {"name": "payload", "emptyDir": {"sizeLimit": "4Gi"}}),
        Conditional(IsSet(_VOLUME), MergedMapping({"name": "payload"}, _VOLUME)),
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
    extra = ValuePlace("operator.extraInitContainers")
    spec["initContainers"] = Conditional(
        AnyTest((_COPIED, IsSet(extra))), [Conditional(_COPIED, copying), ItemsPlaceholder(extra)]
    )
