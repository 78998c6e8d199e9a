"""The cached fields of kinds with thousands of objects: only those that a controller reads."""

import sys
from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

import msgspec

from transom.capi.bootstrap.injection import LABEL
from transom.common.timestamps import parse_timestamp
from transom.kube.api_versions import PREFERRED
from transom.kube.objects import NodeAddress, ObjectMeta, Projected
from transom.kube.resources import NODES as WHOLE_NODES
from transom.kube.resources import WINDOWS_INSTANCES as WHOLE_INSTANCES
from transom.kube.resources import Resource
from transom.kube.store import ObjectKey
from transom.windows.nodes.windows_instance import WindowsInstanceStatus, parse_ip_address

MANAGED_BY_WMCO: Final = "windowsmachineconfig.openshift.io/version"
ADOPT: Final = "transom.dev/adopt"
TAKE_OVER: Final = "transom.dev/adopt-services"
"""Of an adopted Node: the services of its host that become Transom's, with commas between."""
CORDONED: Final = "transom.dev/cordoned"
"""The annotation of a Node that Transom cordoned, and for what: only such a one is uncordoned."""
DRAIN: Final = "transom.dev/drain"
"""Since when the Node is being drained."""
DRAINED: Final = "transom.dev/drained"
"""Since when it has nothing to lose."""
PAYLOAD_VERSION: Final = "transom.dev/payload-version"
"""Which payload the Node's host has."""
FIRST: Final = "transom.dev/first-configuration"
"""Of a Node that Transom joined: `Cordoned` and `Pending` until everything of its payload has run once, then `Done`."""
_MAX_ADDRESSES: Final = 64
_MAX_NAME: Final = 253
"""Characters of a DNS name (Kubernetes, "Object Names and IDs")."""
UNINITIALIZED: Final = "node.cloudprovider.kubernetes.io/uninitialized"
"""The taint that a Node has until its cloud provider has looked at it (Kubernetes, "Well-Known Labels and Taints")."""
JOINED: Final = "transom.dev/instance"
"""The annotation of a Node that Transom joined: namespace and name of its WindowsInstance. Kubelets can write it, too."""
SOURCE: Final = "transom.dev/source"
"""The label of the instances that Transom made: what kind of object each comes from."""
ORIGIN: Final = "transom.dev/origin"
ORIGIN_UID: Final = "transom.dev/origin-uid"
ORIGIN_FIELDS: Final = "transom.dev/origin-fields"
"""The annotation that names the optional fields of `spec` that come from there: one that goes there goes here."""
HOST_NAME: Final = "transom.dev/host-name"
CONFIRM: Final = "transom.dev/confirm-removal"
UNINSTALL: Final = "transom.dev/uninstall"
"""The annotation of Transom's namespace with which nothing becomes an instance any more, and those that Transom made go."""


class NodeAnnotations(msgspec.Struct, frozen=True):
    """The annotations of a Node that say whose it is; others are not kept."""

    managed_by_wmco: str | None = msgspec.field(default=None, name=MANAGED_BY_WMCO)
    adopt: str | None = msgspec.field(default=None, name=ADOPT)
    take_over: str | None = msgspec.field(default=None, name=TAKE_OVER)
    cordoned: str | None = msgspec.field(default=None, name=CORDONED)
    drain: str | None = msgspec.field(default=None, name=DRAIN)
    drained: str | None = msgspec.field(default=None, name=DRAINED)
    payload_version: str | None = msgspec.field(default=None, name=PAYLOAD_VERSION)
    instance: str | None = msgspec.field(default=None, name=JOINED)
    first: str | None = msgspec.field(default=None, name=FIRST)


_NO_ANNOTATIONS: Final = NodeAnnotations()


class NodeMeta(Projected, frozen=True):
    """`metadata` of a Node."""

    name: str = ""
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    annotations: NodeAnnotations | None = None

    def __post_init__(self) -> None:
        if self.annotations == _NO_ANNOTATIONS:
            msgspec.structs.force_setattr(self, "annotations", None)


class NodeCondition(Projected, frozen=True):
    """A condition of a Node. `last_heartbeat_time` changes without anything else: who compares Nodes leaves it out."""

    type: str = ""
    status: str = "Unknown"
    reason: str | None = None
    last_heartbeat_time: datetime | None = None
    last_transition_time: datetime | None = None


class NodeSystem(Projected, frozen=True):
    """The part of `status.nodeInfo` of a Node that says what runs there."""

    operating_system: str | None = None
    kubelet_version: str | None = None
    container_runtime_version: str | None = None

    def __post_init__(self) -> None:
        _intern_fields(self, self.__struct_fields__)


class NodeState(Projected, frozen=True):
    """`status` of a Node. Of its conditions, Ready alone is kept; of its addresses, as many as a Node can have use for."""

    addresses: list[NodeAddress] | None = None
    conditions: list[NodeCondition] | None = None
    node_info: NodeSystem | None = None

    def __post_init__(self) -> None:
        if self.conditions:
            kept = [condition for condition in self.conditions if condition.type == "Ready"]
            msgspec.structs.force_setattr(self, "conditions", kept)
            for condition in kept:
                _intern_fields(condition, ("type", "status", "reason"))
        if self.addresses:
            # a kubelet writes these: a Node that were refused for them would count as one that is not there
            kept_addresses = [item for item in self.addresses if len(item.address or "") <= _MAX_NAME][:_MAX_ADDRESSES]
            msgspec.structs.force_setattr(self, "addresses", kept_addresses)
            for kept_address in kept_addresses:
                _intern_fields(kept_address, ("type",))


def _intern_fields(part: msgspec.Struct, fields: Iterable[str]) -> None:
    """Intern strings: the same few are in five thousand Nodes or a thousand instances."""
    for field in fields:
        if text := getattr(part, field):
            msgspec.structs.force_setattr(part, field, sys.intern(text))


class NodeTaint(Projected, frozen=True):
    """A taint of a Node."""

    key: str = ""


class NodeSpec(Projected, frozen=True):
    """`spec` of a Node. Of its taints, the cloud provider's alone is kept."""

    unschedulable: bool | None = None
    taints: list[NodeTaint] | None = None

    def __post_init__(self) -> None:
        if self.taints:
            kept = [taint for taint in self.taints if taint.key == UNINITIALIZED]
            msgspec.structs.force_setattr(self, "taints", kept or None)


class HostNode(Projected, frozen=True):
    """A Node, as far as it concerns the host that it is."""

    metadata: NodeMeta = NodeMeta()
    spec: NodeSpec | None = None
    status: NodeState | None = None

    @property
    def ready(self) -> NodeCondition | None:
        """Its condition Ready."""
        conditions = (self.status.conditions if self.status else None) or ()
        return next((condition for condition in conditions if condition.type == "Ready"), None)

    @property
    def is_ready(self) -> bool:
        """Whether its condition Ready is True."""
        return self.ready is not None and self.ready.status == "True"

    @property
    def addresses(self) -> tuple[str, ...]:
        """Names and IPs, in lower case."""
        listed = (self.status.addresses if self.status else None) or ()
        return tuple(item.address.casefold() for item in listed if item.address)

    @property
    def ips(self) -> frozenset[str]:
        """Its IP addresses, each in one spelling."""
        return frozenset(ip_address for text in self.addresses if (ip_address := parse_ip_address(text)) is not None)

    @property
    def system(self) -> str:
        """What its kubelet says that it runs on: `windows`, `linux`; empty where it has not."""
        info = self.status.node_info if self.status else None
        return (info.operating_system if info else None) or ""

    @property
    def claimed_by(self) -> str:
        """The instance whose Node it says that it is, as `namespace/name`; empty where it does not."""
        return (self.metadata.annotations.instance if self.metadata.annotations else None) or ""

    @property
    def cordoned(self) -> bool:
        """Whether no pods come to it."""
        return self.spec is not None and self.spec.unschedulable is True

    @property
    def uninitialized(self) -> bool:
        """Whether its cloud provider has not looked at it yet: no pods come to it."""
        return self.spec is not None and bool(self.spec.taints)

    @property
    def first_configuration(self) -> str | None:
        """How far its first configuration has come, where Transom joined it: `Cordoned`, `Pending`, `Done`."""
        return self.metadata.annotations.first if self.metadata.annotations else None

    @property
    def cordoned_for(self) -> str | None:
        """For what Transom cordoned it; None where it did not."""
        return self.metadata.annotations.cordoned if self.metadata.annotations else None

    @property
    def draining_since(self) -> datetime | None:
        """When its drain started; None if it is not drained, or that is unknown."""
        return parse_timestamp(self.metadata.annotations.drain if self.metadata.annotations else None)

    @property
    def drained(self) -> bool:
        """Whether a drain has ended, and the Node was not uncordoned."""
        return self.metadata.annotations is not None and self.metadata.annotations.drained is not None

    @property
    def payload_version(self) -> str | None:
        """Which payload its host has, as the last pass that ended well has noted."""
        return self.metadata.annotations.payload_version if self.metadata.annotations else None

    @property
    def windows(self) -> bool:
        """Whether its kubelet has said that it runs on Windows."""
        info = self.status.node_info if self.status else None
        return info is not None and info.operating_system == "windows"

    @property
    def kubelet_version(self) -> str:
        """As `v1.36.3`; empty where its kubelet has not reported."""
        info = self.status.node_info if self.status else None
        return (info.kubelet_version if info else None) or ""

    @property
    def runtime(self) -> str:
        """As `containerd://2.3.4`; empty where its kubelet has not reported."""
        info = self.status.node_info if self.status else None
        return (info.container_runtime_version if info else None) or ""

    @property
    def is_adopted(self) -> bool:
        """Whether another operator joined the node and a person assigned it to Transom."""
        cached = self.metadata.annotations
        return cached is not None and cached.managed_by_wmco is not None and cached.adopt == "true"

    @property
    def services_to_take_over(self) -> tuple[str, ...]:
        """The services of an adopted Node's host that become Transom's; none where it keeps proxy and trust alone."""
        named = (self.metadata.annotations.take_over if self.is_adopted and self.metadata.annotations else None) or ""
        return tuple(name for part in named.split(",") if (name := part.strip()))

    @property
    def is_managed_by_other(self) -> bool:
        """Whether another operator manages it and no person assigned it to Transom."""
        cached = self.metadata.annotations
        return cached is not None and cached.managed_by_wmco is not None and cached.adopt != "true"


_NO_STATUS: Final = WindowsInstanceStatus()
_TEXTS: Final = ("type", "status", "reason", "message", "last_transition_time")


class CachedInstance(Projected, frozen=True):
    """A WindowsInstance without what the server notes of its fields (`managedFields`), which is most of it.

    `spec` is unchanged: a later reader has findings for its errors.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: Any = None
    status: WindowsInstanceStatus | None = None

    def __post_init__(self) -> None:
        for condition in self.live.conditions:
            _intern_fields(condition, _TEXTS)

    @property
    def value(self) -> dict[str, Any]:
        """The object in plain values."""
        metadata = msgspec.to_builtins(self.metadata)
        return {"apiVersion": INSTANCES.api_version, "kind": INSTANCES.kind, "metadata": metadata, "spec": self.spec}

    @property
    def key(self) -> ObjectKey:
        """Namespace and name."""
        return ObjectKey(self.metadata.namespace, self.metadata.name)

    @property
    def spec_fields(self) -> dict[str, Any]:
        """`spec`, empty where it is none."""
        return self.spec if isinstance(self.spec, dict) else {}

    @property
    def live(self) -> WindowsInstanceStatus:
        """`status`, empty if it is missing."""
        return self.status if self.status is not None else _NO_STATUS

    def get_reason(self, condition: str) -> str | None:
        """Return the reason of a condition; None if the condition does not exist."""
        return self.live.get_condition(condition).reason or None

    def get_message(self, condition: str) -> str:
        """Return the message of a condition; empty if the condition does not exist."""
        return self.live.get_condition(condition).message


class ClusterAnnotations(msgspec.Struct, frozen=True):
    """The annotations of a Cluster that Transom reads."""

    paused: str | None = msgspec.field(default=None, name="cluster.x-k8s.io/paused")
    inject: str | None = msgspec.field(default=None, name=LABEL)


class ClusterMeta(Projected, frozen=True):
    """`metadata` of a Cluster."""

    name: str = ""
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: ClusterAnnotations | None = None


class Topology(Projected, frozen=True):
    """`spec.topology` of a Cluster: only its existence is read."""


class ClusterPart(Projected, frozen=True):
    """`spec.infrastructureRef` or `spec.controlPlaneRef` of a Cluster."""

    kind: str = ""
    name: str = ""


class ClusterSpec(Projected, frozen=True):
    """`spec` of a Cluster. What the settings' reader examines is as it came."""

    cluster_network: Any = None
    control_plane_endpoint: Any = None
    infrastructure_ref: ClusterPart | None = None
    control_plane_ref: ClusterPart | None = None
    paused: bool | None = None
    topology: Topology | None = None


class CachedCluster(Projected, frozen=True):
    """A Cluster of Cluster API (v1beta1 or v1beta2: the same places in both), without what the server and others note in it."""

    api_version: str = ""
    metadata: ClusterMeta = ClusterMeta()
    spec: ClusterSpec | None = None

    @property
    def value(self) -> dict[str, Any]:
        """The object in plain values, as the settings' reader takes it."""
        meta, spec = self.metadata, self.spec or ClusterSpec()
        metadata = {
            "name": meta.name,
            "namespace": meta.namespace,
            "labels": meta.labels or {},
            "uid": meta.uid,
            "creationTimestamp": meta.creation_timestamp,
        }
        read: dict[str, Any] = {"clusterNetwork": spec.cluster_network, "controlPlaneEndpoint": spec.control_plane_endpoint}
        references = {"infrastructureRef": spec.infrastructure_ref, "controlPlaneRef": spec.control_plane_ref}
        read |= {
            key: {"kind": reference.kind, "name": reference.name}
            for key, reference in references.items()
            if reference is not None
        }
        return {"apiVersion": self.api_version, "kind": CLUSTERS.kind, "metadata": metadata, "spec": read}

    @property
    def deleting(self) -> bool:
        """Whether it is being deleted."""
        return self.metadata.deletion_timestamp is not None

    @property
    def paused(self) -> bool:
        """Whether Cluster API leaves it alone for now, by its spec or by annotation."""
        noted = self.metadata.annotations is not None and self.metadata.annotations.paused is not None
        return noted or (self.spec is not None and self.spec.paused is True)

    @property
    def requests_entries(self) -> bool:
        """Whether it requests Transom's entries in its machines, for templates that no person labels."""
        noted = self.metadata.annotations is not None and self.metadata.annotations.inject == "true"
        return noted or (self.metadata.labels or {}).get(LABEL) == "true"

    @property
    def from_class(self) -> bool:
        """Whether a ClusterClass makes its control plane and its machines."""
        return self.spec is not None and self.spec.topology is not None


CLUSTERS: Final = Resource("cluster.x-k8s.io", PREFERRED, "Cluster", "clusters", True, CachedCluster)
NODES: Final = Resource(WHOLE_NODES.group, "v1", WHOLE_NODES.kind, WHOLE_NODES.plural, False, HostNode)
INSTANCES: Final = Resource(
    WHOLE_INSTANCES.group, WHOLE_INSTANCES.version, WHOLE_INSTANCES.kind, WHOLE_INSTANCES.plural, True, CachedInstance
)
