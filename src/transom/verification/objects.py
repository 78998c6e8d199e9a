"""The objects of a verification: a namespace of its own, a web server on each Windows node, one on a Linux node, Services.

Everything is in the namespace, so that it goes with it. The namespace asks for Pod Security `restricted`: what is made here is
taken wherever pods are. Which image a pod runs is data, with the place that it was taken from.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

LABEL: Final = "transom.dev/verify"
"""On each namespace of a verification: by it those are found that were left."""
SEEN: Final = "transom.dev/verify-seen"
"""Annotation of the namespace: counts up while a verification runs in it."""
APP: Final = "transom.dev/verify-app"
WEB, LINUX, BALANCED, NODE_PORT, HOST, STORE = "web", "linux", "web-public", "web-node", "host", "store"
REBOOT: Final = "reboot"
"""The pod that reboots its node."""
SCRATCH, POD_INFO = r"C:\verify\scratch", r"C:\verify\pod"
"""Where a Windows pod has an empty directory, and its own name as a file (`name`)."""
USER: Final = "ContainerUser"
_LOCAL_SERVICE, _SYSTEM = r"NT AUTHORITY\Local service", r"NT AUTHORITY\SYSTEM"
"""Users of HostProcess containers. On Windows Server, the local service has no right to restart the machine."""
PORT: Final = 8080
SERVICE_PORT: Final = 80
AGNHOST: Final = "/agnhost"
"""The program, also on Windows (kubernetes/kubernetes test/images/agnhost/Dockerfile_windows)."""
_NOBODY: Final = 65534
AGNHOST_IMAGE: Final = "registry.k8s.io/e2e-test-images/agnhost:2.52"
"""One reference for every system: a list of images.

kubernetes/kubernetes test/utils/image/manifest.go (`configs[Agnhost]`); Apache License 2.0. Its Windows variants lie on
Microsoft's Nano Server image (mcr.microsoft.com/windows/nanoserver), under the terms of that base image.
"""
SOURCE: Final = "kubernetes/kubernetes test/images/agnhost/BASEIMAGE"


class ImageVariant(msgspec.Struct, frozen=True):
    """Which of the list's images a build of Windows takes."""

    build: int
    windows: str
    base: str
    """The tag of the base image that the variant lies on."""
    source: str


_STABLE: Final = "microsoft/hcsshim osversion, compatLTSCReleases: a later host runs images from ltsc2022 on"
VARIANTS: Final = (
    ImageVariant(17763, "Windows Server 2019", "1809", SOURCE),
    ImageVariant(20348, "Windows Server 2022", "ltsc2022", SOURCE),
    ImageVariant(26100, "Windows Server 2025", "ltsc2022", _STABLE),
)


def find_image_variant(version: str) -> ImageVariant | None:
    """Return the variant for a node's kernel version (`10.0.20348.2485`); None if the list has none for its build."""
    parts = version.split(".")
    build = int(parts[2]) if len(parts) > 2 and parts[2].isdecimal() and len(parts[2]) < 8 else 0
    return next((variant for variant in VARIANTS if variant.build == build), None)


def to_mirror(reference: str, mirror: str) -> str:
    """Return the reference at another registry: `mirror` replaces its host, as a mirror of that registry has it."""
    return f"{mirror.rstrip('/')}/{reference.partition('/')[2]}"


class Node(msgspec.Struct, frozen=True):
    """A node, as the verification takes it. `version` is that of its kernel."""

    name: str
    os: str
    ready: bool
    version: str = ""
    schedulable: bool = True
    address: str = ""
    """By which other nodes reach it."""
    boot_id: str = ""
    """Another one after each boot."""


class VerificationRequest(msgspec.Struct, frozen=True):
    """What is made, and what for. `egress` is a URL for the proxy, `direct` one that NO_PROXY has; empty: not asked."""

    namespace: str
    windows_image: str
    linux_image: str
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)
    """On the namespace, besides the verification's own: by which the webhook gives its pods the proxy."""
    load_balancer: bool = False
    egress: str = ""
    direct: str = ""
    node_port: bool = False
    host_process: bool = False
    reboot: str = ""
    """The name of the Windows node to reboot."""

    @property
    def privileged(self) -> bool:
        """Whether HostProcess containers are made."""
        return self.host_process or bool(self.reboot)


def build_namespace(wanted: VerificationRequest) -> dict[str, Any]:
    """Build the namespace."""
    level = "privileged" if wanted.privileged else "restricted"
    levels = {f"pod-security.kubernetes.io/{mode}": level for mode in ("enforce", "warn")}
    labels = {**wanted.labels, **levels, LABEL: "cluster"}
    metadata = {"name": wanted.namespace, "labels": labels, "annotations": {SEEN: "0"}}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def iter_objects(wanted: VerificationRequest, nodes: tuple[Node, ...], namespace: str) -> Iterator[dict[str, Any]]:
    """Services and pods, in the order in which they are made. `namespace` is their namespace.

    A pod names its node: the kubelet of each is asked, whatever the scheduler would say of it. A node that is not Ready gets
    none.
    """
    yield _build_service(WEB, namespace, "ClusterIP")
    yield _build_service(LINUX, namespace, "ClusterIP")
    if wanted.load_balancer:
        yield _build_service(BALANCED, namespace, "LoadBalancer", WEB)
    if wanted.node_port:
        yield _build_service(NODE_PORT, namespace, "NodePort", WEB)
    for number, node in enumerate(node for node in nodes if node.os == "windows" and node.ready):
        yield _build_pod(wanted, namespace, f"{WEB}-{number}", node, wanted.windows_image)
        if wanted.host_process:
            yield _build_host_pod(namespace, f"{HOST}-{number}", node, wanted.windows_image)
        if node.name == wanted.reboot:
            yield _build_host_pod(namespace, REBOOT, node, wanted.windows_image, app=REBOOT, user=_SYSTEM)
        yield _build_volume_pod(wanted, namespace, f"{STORE}-{number}", node)
    linux = select_linux_node(nodes)
    if linux is not None:
        yield _build_pod(wanted, namespace, LINUX, linux, wanted.linux_image)


def select_linux_node(nodes: tuple[Node, ...]) -> Node | None:
    """Return the Linux node of the other end: a Ready one, preferably one that accepts pods."""
    ready = [node for node in nodes if node.os == "linux" and node.ready]
    return next((item for item in ready if item.schedulable), ready[0] if ready else None)


def _build_service(name: str, namespace: str, kind: str, app: str = "") -> dict[str, Any]:
    ports = [{"name": "http", "port": SERVICE_PORT, "targetPort": PORT, "protocol": "TCP"}]
    metadata = {"name": name, "namespace": namespace, "labels": {LABEL: "cluster"}}
    spec = {"type": kind, "selector": {APP: app or name}, "ports": ports}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


def _build_pod(wanted: VerificationRequest, namespace: str, name: str, node: Node, image: str) -> dict[str, Any]:
    app = LINUX if node.os == "linux" else WEB
    container = {
        "name": "web",
        "image": image,
        "command": [AGNHOST, "netexec", f"--http-port={PORT}"],
        "ports": [{"containerPort": PORT, "protocol": "TCP"}],
        "readinessProbe": {"httpGet": {"path": "/healthz", "port": PORT}, "periodSeconds": 2},
        # a node with a LimitRange or a quota takes no pod without
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"cpu": "500m", "memory": "256Mi"}},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}} if app == LINUX else {},
    }
    spec = {
        "nodeName": node.name,
        "os": {"name": node.os},
        "nodeSelector": {"kubernetes.io/os": node.os},
        "tolerations": [{"operator": "Exists"}],
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 1,
        "securityContext": _build_security_context(node.os),
        "containers": [container],
    }
    metadata = {"name": name, "namespace": namespace, "labels": {LABEL: "cluster", APP: app}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _build_volume_pod(wanted: VerificationRequest, namespace: str, name: str, node: Node) -> dict[str, Any]:
    """Return a pod with volumes: one of its own, because a web server that waits for a volume would hide everything else."""
    made = _build_pod(wanted, namespace, name, node, wanted.windows_image)
    made["metadata"]["labels"][APP] = STORE
    (container,) = made["spec"]["containers"]
    container["volumeMounts"] = [{"name": "scratch", "mountPath": SCRATCH}, {"name": "pod", "mountPath": POD_INFO}]
    item = {"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}
    made["spec"]["volumes"] = [{"name": "scratch", "emptyDir": {}}, {"name": "pod", "downwardAPI": {"items": [item]}}]
    return made


def _build_host_pod(
    namespace: str, name: str, node: Node, image: str, *, app: str = HOST, user: str = _LOCAL_SERVICE
) -> dict[str, Any]:
    """Return a pod that runs on the Windows host itself, as kube-proxy and Calico's agent do.

    Kubernetes: "Create a Windows HostProcess Pod".
    """
    container = {
        "name": "host",
        "image": image,
        "command": ["cmd.exe", "/c", "ping -t localhost > NUL"],
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"cpu": "500m", "memory": "256Mi"}},
    }
    spec = {
        "nodeName": node.name,
        "os": {"name": "windows"},
        "nodeSelector": {"kubernetes.io/os": "windows"},
        "tolerations": [{"operator": "Exists"}],
        "automountServiceAccountToken": False,
        "hostNetwork": True,
        "terminationGracePeriodSeconds": 1,
        "securityContext": {"windowsOptions": {"hostProcess": True, "runAsUserName": user}},
        "containers": [container],
    }
    metadata = {"name": name, "namespace": namespace, "labels": {LABEL: "cluster", APP: app}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _build_security_context(os: str) -> dict[str, Any]:
    """Build what Pod Security `restricted` requires of a pod of that system (kubernetes.io, "Pod Security Standards").

    The Windows image's own user is ContainerAdministrator (test/images/busybox/Dockerfile_windows), the Linux image's root.
    """
    if os == "windows":
        return {"runAsNonRoot": True, "windowsOptions": {"runAsUserName": USER}}
    return {"runAsNonRoot": True, "runAsUser": _NOBODY, "seccompProfile": {"type": "RuntimeDefault"}}
