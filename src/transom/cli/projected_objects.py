"""Kinds of which a cluster has thousands, as `transom doctor` keeps them: what a check looks at, and no more."""

from typing import Any, ClassVar, Final, Self

import msgspec

from transom.diagnosis.observed_state import wrap_config_map_secrets
from transom.kube.objects import ObjectMeta, OwnerReference, Projected, UnstructuredObject
from transom.kube.resources import Resource
from transom.pods.decision import EXCLUDE_CONTAINERS, INJECT_PROXY, KYVERNO
from transom.pods.pod_types import MIRROR


class _Annotations(msgspec.Struct, frozen=True, omit_defaults=True):
    """Those by which the admission server decides."""

    mirror: str | None = msgspec.field(default=None, name=MIRROR)
    inject_proxy: str | None = msgspec.field(default=None, name=INJECT_PROXY)
    kyverno: str | None = msgspec.field(default=None, name=KYVERNO)
    exclude_containers: str | None = msgspec.field(default=None, name=EXCLUDE_CONTAINERS)


class _Meta(Projected, frozen=True):
    name: str = ""
    namespace: str | None = None
    labels: dict[str, str] | None = None
    annotations: _Annotations | None = None
    owner_references: list[OwnerReference] | None = None


class _Container(Projected, frozen=True):
    name: str = ""
    env: Any = None
    env_from: Any = None
    command: Any = None
    args: Any = None
    security_context: Any = None


class _PodSpec(Projected, frozen=True):
    node_name: str | None = None
    node_selector: dict[str, str] | None = None
    affinity: Any = None
    tolerations: Any = None
    os: Any = None
    host_network: bool | None = None
    priority_class_name: str | None = None
    runtime_class_name: str | None = None
    security_context: Any = None
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None


class _ContainerStatus(Projected, frozen=True):
    image: str = ""
    state: Any = None
    last_state: Any = None


class _Condition(Projected, frozen=True):
    type: str = ""
    status: str = ""
    reason: str | None = None
    message: str | None = None


class _PodStatus(Projected, frozen=True):
    phase: str | None = None
    conditions: list[_Condition] | None = None
    container_statuses: list[_ContainerStatus] | None = None
    init_container_statuses: list[_ContainerStatus] | None = None


class _Pod(Projected, frozen=True):
    metadata: _Meta = _Meta()
    spec: _PodSpec | None = None
    status: _PodStatus | None = None


class _Template(Projected, frozen=True):
    metadata: _Meta = _Meta()
    spec: _PodSpec | None = None


class _DaemonSetSpec(Projected, frozen=True):
    template: _Template | None = None


class _DaemonSet(Projected, frozen=True):
    metadata: _Meta = _Meta()
    spec: _DaemonSetSpec | None = None


class _NodeSpec(Projected, frozen=True):
    taints: Any = None
    unschedulable: bool | None = None


class _NodeInfo(Projected, frozen=True):
    kubelet_version: str = ""


class _NodeStatus(Projected, frozen=True):
    node_info: _NodeInfo | None = None


class _Node(Projected, frozen=True):
    metadata: _Meta = _Meta()
    spec: _NodeSpec | None = None
    status: _NodeStatus | None = None


class _NamespaceMeta(Projected, frozen=True):
    name: str = ""
    labels: dict[str, str] | None = None
    deletion_timestamp: str | None = None


class _Namespace(Projected, frozen=True):
    metadata: _NamespaceMeta = _NamespaceMeta()


class _ServiceSpec(Projected, frozen=True):
    type: str | None = None
    external_name: str | None = None


class _Service(Projected, frozen=True):
    metadata: _Meta = _Meta()
    spec: _ServiceSpec | None = None


class _ProjectedObject(UnstructuredObject, frozen=True):
    """An object of which `kept` is read."""

    kept: ClassVar[Any] = _Namespace

    @classmethod
    def from_json(cls, data: bytes | msgspec.Raw) -> Self:
        """Parse JSON. Raises msgspec.ValidationError."""
        value = msgspec.to_builtins(msgspec.json.decode(data, type=cls.kept))
        return cls(msgspec.convert(value.get("metadata") or {}, ObjectMeta), value)


class _ProjectedService(_ProjectedObject, frozen=True):
    kept = _Service


class _ProjectedPod(_ProjectedObject, frozen=True):
    kept = _Pod


class _ProjectedNode(_ProjectedObject, frozen=True):
    kept = _Node


class _ProjectedDaemonSet(_ProjectedObject, frozen=True):
    kept = _DaemonSet


class _ProjectedConfigMap(UnstructuredObject, frozen=True):
    """A ConfigMap without its data: of a value of 200 kB it is enough to know that it has no password."""

    @classmethod
    def from_json(cls, data: bytes | msgspec.Raw) -> Self:
        """Raise msgspec.ValidationError."""
        whole = UnstructuredObject.from_json(data)
        return cls(whole.metadata, wrap_config_map_secrets(whole.value))


PODS: Final = Resource("", "v1", "Pod", "pods", True, _ProjectedPod)
SERVICES: Final = Resource("", "v1", "Service", "services", True, _ProjectedService)
NODES: Final = Resource("", "v1", "Node", "nodes", False, _ProjectedNode)
NAMESPACES: Final = Resource("", "v1", "Namespace", "namespaces", False, _ProjectedObject)
CONFIG_MAPS: Final = Resource("", "v1", "ConfigMap", "configmaps", True, _ProjectedConfigMap)
DAEMON_SETS: Final = Resource("apps", "v1", "DaemonSet", "daemonsets", True, _ProjectedDaemonSet)
