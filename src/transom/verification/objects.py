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
"""Annotation of the namespace: counts up as long as somebody works in it."""
APP: Final = "transom.dev/verify-app"
WEB, LINUX, BALANCED = "web", "linux", "web-public"
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


class Variant(msgspec.Struct, frozen=True):
    """Which of the list's images a build of Windows takes."""

    build: int
    windows: str
    base: str
    """The tag of the base image that the variant lies on."""
    source: str


_STABLE: Final = "microsoft/hcsshim osversion, compatLTSCReleases: a later host runs images from ltsc2022 on"
VARIANTS: Final = (
    Variant(17763, "Windows Server 2019", "1809", SOURCE),
    Variant(20348, "Windows Server 2022", "ltsc2022", SOURCE),
    Variant(26100, "Windows Server 2025", "ltsc2022", _STABLE),
)


def variant_of(version: str) -> Variant | None:
    """The variant for a node's kernel version (`10.0.20348.2485`); None where the list has none for its build."""
    parts = version.split(".")
    build = int(parts[2]) if len(parts) > 2 and parts[2].isdecimal() and len(parts[2]) < 8 else 0
    return next((one for one in VARIANTS if one.build == build), None)


def mirrored(reference: str, mirror: str) -> str:
    """The reference at another registry: `mirror` takes the place of its host, as a mirror of that registry has it."""
    return f"{mirror.rstrip('/')}/{reference.partition('/')[2]}"


class Node(msgspec.Struct, frozen=True):
    """A node, as the verification takes it. `version` is that of its kernel."""

    name: str
    os: str
    ready: bool
    version: str = ""
    schedulable: bool = True


class Wanted(msgspec.Struct, frozen=True):
    """What is made, and what for. `egress` is a URL for the proxy, `direct` one that NO_PROXY has; empty: not asked."""

    namespace: str
    windows_image: str
    linux_image: str
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)
    """On the namespace, besides the verification's own: by which the webhook gives its pods the proxy."""
    load_balancer: bool = False
    egress: str = ""
    direct: str = ""


def namespace(wanted: Wanted) -> dict[str, Any]:
    """The namespace, as it is created."""
    levels = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}
    labels = {**wanted.labels, **levels, LABEL: "cluster"}
    metadata = {"name": wanted.namespace, "labels": labels, "annotations": {SEEN: "0"}}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def objects(wanted: Wanted, nodes: tuple[Node, ...], place: str) -> Iterator[dict[str, Any]]:
    """Services and pods, in the order in which they are made. `place` is their namespace.

    A pod names its node: the kubelet of each is asked, whatever the scheduler would say of it. A node that is not Ready gets
    none.
    """
    yield _service(WEB, place, "ClusterIP")
    yield _service(LINUX, place, "ClusterIP")
    if wanted.load_balancer:
        yield _service(BALANCED, place, "LoadBalancer", WEB)
    for number, node in enumerate(one for one in nodes if one.os == "windows" and one.ready):
        yield _pod(wanted, place, f"{WEB}-{number}", node, wanted.windows_image)
    linux = linux_node(nodes)
    if linux is not None:
        yield _pod(wanted, place, LINUX, linux, wanted.linux_image)


def linux_node(nodes: tuple[Node, ...]) -> Node | None:
    """The Linux node that the other end is on: a Ready one, rather one that takes pods."""
    ready = [one for one in nodes if one.os == "linux" and one.ready]
    return next((one for one in ready if one.schedulable), ready[0] if ready else None)


def _service(name: str, place: str, kind: str, app: str = "") -> dict[str, Any]:
    ports = [{"name": "http", "port": SERVICE_PORT, "targetPort": PORT, "protocol": "TCP"}]
    metadata = {"name": name, "namespace": place, "labels": {LABEL: "cluster"}}
    spec = {"type": kind, "selector": {APP: app or name}, "ports": ports}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


def _pod(wanted: Wanted, place: str, name: str, node: Node, image: str) -> dict[str, Any]:
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
        "securityContext": _security(node.os),
        "containers": [container],
    }
    metadata = {"name": name, "namespace": place, "labels": {LABEL: "cluster", APP: app}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _security(os: str) -> dict[str, Any]:
    """What Pod Security `restricted` asks of a pod of that system (kubernetes.io, "Pod Security Standards").

    The Windows image's own user is ContainerAdministrator (test/images/busybox/Dockerfile_windows), the Linux image's root.
    """
    if os == "windows":
        return {"runAsNonRoot": True, "windowsOptions": {"runAsUserName": "ContainerUser"}}
    return {"runAsNonRoot": True, "runAsUser": _NOBODY, "seccompProfile": {"type": "RuntimeDefault"}}
