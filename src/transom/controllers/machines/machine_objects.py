"""The machines of workload clusters, and what they are made from: what is kept of them, by kind.

The places are those of Cluster API's v1beta1 and of v1beta2.
"""

from collections.abc import Iterator
from datetime import UTC
from typing import Any, Final

import msgspec

from transom.capi.bootstrap.injection import is_injection_requested
from transom.common.timestamps import format_timestamp, parse_timestamp
from transom.kube.api_versions import PREFERRED
from transom.kube.client import FIELD_MANAGER
from transom.kube.objects import ObjectMeta, Projected
from transom.kube.resources import Resource
from transom.proxy.no_proxy import select_kubelet_addresses

CLUSTER_NAME: Final = "cluster.x-k8s.io/cluster-name"
DEPLOYMENT_NAME: Final = "cluster.x-k8s.io/deployment-name"
POOL_NAME: Final = "cluster.x-k8s.io/pool-name"
CONTROL_PLANE: Final = "cluster.x-k8s.io/control-plane"
ROLLOUT_MANAGER: Final = f"{FIELD_MANAGER}-rollout"
"""The field manager of `rollout.after`: it distinguishes the time of an edit from that of a rollout."""
_CORE: Final = "cluster.x-k8s.io"


class FieldWrite(Projected, frozen=True):
    """An entry of `metadata.managedFields`: who wrote, how and when, not what."""

    manager: str | None = None
    operation: str | None = None
    time: str | None = None


class FieldWriteMeta(ObjectMeta, frozen=True):
    """`metadata` with who wrote the object."""

    managed_fields: list[FieldWrite] | None = None

    @property
    def last_own_edit_time(self) -> str | None:
        """When Transom last edited the object's entries (RFC 3339); None if no entry is left in it."""
        return self._find_write_time(FIELD_MANAGER)

    @property
    def last_rollout_time(self) -> str | None:
        """When Transom last asked for a rollout of it."""
        return self._find_write_time(ROLLOUT_MANAGER)

    def _find_write_time(self, manager: str) -> str | None:
        times = [
            managed_field.time
            for managed_field in self.managed_fields or ()
            if managed_field.manager == manager and managed_field.operation == "Update"
        ]
        return max(filter(None, times), default=None)

    @property
    def cluster(self) -> str | None:
        """The Cluster that the object says it belongs to."""
        if name := (self.labels or {}).get(CLUSTER_NAME):
            return name
        owners = (
            owner_reference
            for owner_reference in self.owner_references or ()
            if owner_reference.kind == "Cluster" and owner_reference.api_version.startswith(f"{_CORE}/")
        )
        return next((owner.name for owner in owners), None)


class CachedTemplate(Projected, frozen=True):
    """A KubeadmConfigTemplate."""

    metadata: FieldWriteMeta = FieldWriteMeta()
    spec: Any = None

    @property
    def configuration(self) -> dict[str, Any] | None:
        """The KubeadmConfigSpec."""
        template = _to_mapping(_to_mapping(self.spec).get("template"))
        config_spec: dict[str, Any] | None = template.get("spec")
        return config_spec


class Strategy(Projected, frozen=True):
    """How machines are replaced: RollingUpdate, or OnDelete, which waits for a person."""

    type: str = ""


class RolloutStrategy(Projected, frozen=True):
    """`spec.rollout` in v1beta2."""

    after: str | None = None
    strategy: Strategy | None = None


class Initialization(Projected, frozen=True):
    """`status.initialization` of a control plane in v1beta2."""

    control_plane_initialized: bool | None = None


class ReplicaStatus(Projected, frozen=True):
    """`status` of a control plane or a MachineDeployment; `initialized` is v1beta1's."""

    replicas: int | None = None
    ready_replicas: int | None = None
    observed_generation: int | None = None
    initialized: bool | None = None
    initialization: Initialization | None = None


class ControlPlaneSpec(Projected, frozen=True):
    """`spec` of a KubeadmControlPlane; `rollout_after` is v1beta1's."""

    replicas: int | None = None
    rollout: RolloutStrategy | None = None
    rollout_after: str | None = None
    kubeadm_config_spec: Any = None


class CachedControlPlane(Projected, frozen=True):
    """A KubeadmControlPlane."""

    metadata: FieldWriteMeta = FieldWriteMeta()
    spec: ControlPlaneSpec = ControlPlaneSpec()
    status: ReplicaStatus | None = None

    @property
    def configuration(self) -> dict[str, Any] | None:
        """The KubeadmConfigSpec."""
        config_spec: dict[str, Any] | None = self.spec.kubeadm_config_spec
        return config_spec

    @property
    def rollout_after(self) -> str | None:
        """When its machines were last asked to be replaced."""
        return _normalize_timestamp((self.spec.rollout.after if self.spec.rollout else None) or self.spec.rollout_after)

    @property
    def initialized(self) -> bool:
        """Whether there is a control plane to roll."""
        status = self.status or ReplicaStatus()
        return bool(status.initialized or (status.initialization and status.initialization.control_plane_initialized))


class SecretSource(Projected, frozen=True):
    """`contentFrom.secret` of a file."""

    name: str = ""


class FileSource(Projected, frozen=True):
    """`contentFrom` of a file."""

    secret: SecretSource | None = None


class ConfigFile(Projected, frozen=True):
    """A file of a KubeadmConfig: where its content comes from."""

    content_from: FileSource | None = None


class ConfigSpec(Projected, frozen=True):
    """`spec` of a KubeadmConfig."""

    files: list[ConfigFile] | None = None


class CachedConfig(Projected, frozen=True):
    """A KubeadmConfig, of one machine: which Secrets it names."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ConfigSpec | None = None

    @property
    def secrets(self) -> Iterator[str]:
        """The Secrets that its files come from."""
        for file in (self.spec.files if self.spec else None) or ():
            if file.content_from is not None and file.content_from.secret is not None:
                yield file.content_from.secret.name

    @property
    def requests_entries(self) -> bool:
        """Whether it lets Transom edit it."""
        return is_injection_requested({"labels": self.metadata.labels, "annotations": self.metadata.annotations})


class ConfigReference(Projected, frozen=True):
    """`bootstrap.configRef`."""

    kind: str = ""
    name: str = ""


class Bootstrap(Projected, frozen=True):
    """`bootstrap` of a machine's template."""

    config_ref: ConfigReference | None = None


class MachineSpec(Projected, frozen=True):
    """`spec` of a machine's template."""

    bootstrap: Bootstrap | None = None
    infrastructure_ref: ConfigReference | None = None

    @property
    def kind(self) -> str:
        """The kind of the bootstrap configuration, else that of the infrastructure."""
        reference = (self.bootstrap.config_ref if self.bootstrap else None) or self.infrastructure_ref
        return reference.kind if reference else ""


class MachineTemplate(Projected, frozen=True):
    """`spec.template` of a MachineDeployment."""

    spec: MachineSpec | None = None


class DeploymentSpec(Projected, frozen=True):
    """`spec` of a MachineDeployment; `rollout_after` and `strategy` are v1beta1's."""

    cluster_name: str = ""
    replicas: int | None = None
    rollout: RolloutStrategy | None = None
    rollout_after: str | None = None
    strategy: Strategy | None = None
    template: MachineTemplate | None = None

    @property
    def kind(self) -> str:
        """What the machines are made from."""
        return self.template.spec.kind if self.template and self.template.spec else ""


class CachedDeployment(Projected, frozen=True):
    """A MachineDeployment."""

    metadata: FieldWriteMeta = FieldWriteMeta()
    spec: DeploymentSpec = DeploymentSpec()
    status: ReplicaStatus | None = None

    @property
    def rollout_after(self) -> str | None:
        """When its machines were last asked to be replaced."""
        return _normalize_timestamp((self.spec.rollout.after if self.spec.rollout else None) or self.spec.rollout_after)

    @property
    def uses_on_delete_strategy(self) -> bool:
        """Whether its machines are replaced by hand alone."""
        strategy = (self.spec.rollout.strategy if self.spec.rollout else None) or self.spec.strategy
        return strategy is not None and strategy.type == "OnDelete"

    @property
    def kind(self) -> str:
        """What its machines are made from."""
        return self.spec.kind

    @property
    def template(self) -> str | None:
        """The KubeadmConfigTemplate that its machines are made from."""
        spec = self.spec.template.spec if self.spec.template else None
        reference = spec.bootstrap.config_ref if spec and spec.bootstrap else None
        return reference.name if reference and reference.kind == "KubeadmConfigTemplate" else None


class CachedPoolConfig(Projected, frozen=True):
    """A KubeadmConfig of a MachinePool, whole: it can be edited."""

    metadata: FieldWriteMeta = FieldWriteMeta()
    spec: Any = None

    @property
    def configuration(self) -> dict[str, Any] | None:
        """The KubeadmConfigSpec."""
        config_spec: dict[str, Any] | None = self.spec
        return config_spec


class NodeReference(Projected, frozen=True):
    """One of `status.nodeRefs`: only its existence is read."""


class PoolStatus(ReplicaStatus, frozen=True):
    """`status` of a MachinePool."""

    node_refs: list[NodeReference] | None = None


class CachedPool(Projected, frozen=True):
    """A MachinePool: its machines are made by the infrastructure's own means, from the one KubeadmConfig of the pool."""

    metadata: ObjectMeta = ObjectMeta()
    spec: DeploymentSpec = DeploymentSpec()
    status: PoolStatus | None = None

    @property
    def has_nodes(self) -> bool:
        """Whether a machine of it has joined."""
        return self.status is not None and bool(self.status.node_refs or self.status.ready_replicas)

    @property
    def kind(self) -> str:
        """What its machines are made from."""
        return self.spec.kind

    @property
    def config(self) -> str | None:
        """The KubeadmConfig that its machines boot with."""
        spec = self.spec.template.spec if self.spec.template else None
        reference = spec.bootstrap.config_ref if spec and spec.bootstrap else None
        return reference.name if reference and reference.kind == "KubeadmConfig" else None


class MachineLabels(msgspec.Struct, frozen=True):
    """The labels of a Machine that say what it is part of."""

    cluster: str | None = msgspec.field(default=None, name=CLUSTER_NAME)
    deployment: str | None = msgspec.field(default=None, name=DEPLOYMENT_NAME)
    pool: str | None = msgspec.field(default=None, name=POOL_NAME)
    control_plane: str | None = msgspec.field(default=None, name=CONTROL_PLANE)


class MachineMeta(Projected, frozen=True):
    """`metadata` of a Machine."""

    name: str = ""
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    creation_timestamp: str | None = None
    labels: MachineLabels | None = None


class MachineAddress(Projected, frozen=True):
    """One of `status.addresses`."""

    type: str = ""
    address: str = ""


class MachineStatus(Projected, frozen=True):
    """`status` of a Machine."""

    addresses: list[MachineAddress] | None = None


class CachedMachine(Projected, frozen=True):
    """A Machine: what it belongs to, how old it is, and where it can be reached."""

    metadata: MachineMeta = MachineMeta()
    status: MachineStatus | None = None

    @property
    def kubelet_addresses(self) -> tuple[str, ...]:
        """The addresses that the API server calls its kubelet by."""
        addresses = (self.status.addresses if self.status else None) or ()
        return select_kubelet_addresses((address.type, address.address) for address in addresses)

    @property
    def labels(self) -> MachineLabels:
        """What it is part of."""
        return self.metadata.labels or MachineLabels()


TEMPLATES: Final = Resource(
    "bootstrap.cluster.x-k8s.io", PREFERRED, "KubeadmConfigTemplate", "kubeadmconfigtemplates", True, CachedTemplate
)
CONFIGS: Final = Resource("bootstrap.cluster.x-k8s.io", PREFERRED, "KubeadmConfig", "kubeadmconfigs", True, CachedConfig)
CONTROL_PLANES: Final = Resource(
    "controlplane.cluster.x-k8s.io", PREFERRED, "KubeadmControlPlane", "kubeadmcontrolplanes", True, CachedControlPlane
)
DEPLOYMENTS: Final = Resource(_CORE, PREFERRED, "MachineDeployment", "machinedeployments", True, CachedDeployment)
POOLS: Final = Resource(_CORE, PREFERRED, "MachinePool", "machinepools", True, CachedPool)
MACHINES: Final = Resource(_CORE, PREFERRED, "Machine", "machines", True, CachedMachine)


def build_index_value(namespace: str | None, name: str) -> str:
    """Return the value of an index by namespace and name."""
    return f"{namespace or ''}/{name}"


def _normalize_timestamp(time: str | None) -> str | None:
    """Return a time in the server's format, so that strings can be compared; None if it is not a time."""
    parsed = parse_timestamp(time)
    return format_timestamp(parsed.astimezone(UTC)) if parsed else None


def _to_mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
