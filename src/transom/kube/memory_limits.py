"""The memory that the objects of one kind may take: others write them, and the process has a limit.

Every kind that `transom run` and `transom webhook` follow has an entry in `BOUNDS`. The figures
leave room for ten times what an object of that kind usually has, and for clusters of 5,000 nodes.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec

from transom.kube.resources import Resource

_KIB: Final = 1 << 10
_MIB: Final = 1 << 20
_VALUE: Final = 64
"""Bytes of a value in addition to its text: the header of a Python object and the places that refer to it."""


class MemoryLimit(msgspec.Struct, frozen=True):
    """The memory, in bytes as `estimate_memory_size` counts them, of one object and of all objects of a store."""

    object: int
    store: int

    @property
    def too_large_message(self) -> str:
        """Why an object is not kept that is larger than one may be."""
        return f"too large: Transom keeps at most {self.object // _KIB:,} KiB of an object of this kind"

    @property
    def no_room_message(self) -> str:
        """Why an object is not kept for which the others leave no room."""
        return f"no room: Transom keeps at most {self.store // _MIB:,} MiB of all objects of this kind"


_FEW: Final = MemoryLimit(2 * _MIB, 24 * _MIB)
"""Kinds that administrators alone write, and of which there are few: the API server takes no object of more than 2 MiB."""
_SMALL: Final = MemoryLimit(32 * _KIB, 24 * _MIB)
_TEMPLATE: Final = MemoryLimit(_MIB, 64 * _MIB)
"""Bootstrap configuration of machines, with whole files in it."""
_MACHINE: Final = MemoryLimit(512 * _KIB, 32 * _MIB)
_CORE: Final = "cluster.x-k8s.io"
_CONTROL_PLANE: Final = "controlplane.cluster.x-k8s.io"
_INFRASTRUCTURE: Final = "infrastructure.cluster.x-k8s.io"
_ANYWHERE: Final[Mapping[tuple[str, str, str], MemoryLimit]] = {
    ("", "ConfigMap", "BundleConfigMap"): _SMALL,
    ("", "ConfigMap", "OwnedConfigMap"): _SMALL,
    ("", "ConfigMap", "UnstructuredObject"): _FEW,
    ("", "Namespace", "Metadata"): MemoryLimit(512 * _KIB, _MIB),
    ("", "Namespace", "Namespace"): _SMALL,
    ("", "Node", "HostNode"): _SMALL,
    ("", "Pod", "_LabelledPod"): MemoryLimit(4 * _KIB, 24 * _MIB),
    ("", "Secret", "UnstructuredObject"): MemoryLimit(2 * _MIB, 48 * _MIB),
    ("", "Service", "NamedService"): MemoryLimit(2 * _KIB, 16 * _MIB),
    ("", "Service", "_ServiceObject"): MemoryLimit(512 * _KIB, _MIB),
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration", "UnstructuredObject"): _FEW,
    ("application.giantswarm.io", "App", "CachedApp"): _SMALL,
    ("bootstrap.cluster.x-k8s.io", "KubeadmConfig", "CachedConfig"): _MACHINE,
    ("bootstrap.cluster.x-k8s.io", "KubeadmConfigTemplate", "CachedTemplate"): _TEMPLATE,
    ("certificates.k8s.io", "CertificateSigningRequest", "CachedRequest"): MemoryLimit(48 * _KIB, 16 * _MIB),
    (_CORE, "Cluster", "CachedCluster"): MemoryLimit(64 * _KIB, 32 * _MIB),
    (_CORE, "Machine", "CachedApiMachine"): _MACHINE,
    (_CORE, "Machine", "CachedMachine"): _SMALL,
    (_CORE, "MachineDeployment", "CachedDeployment"): _MACHINE,
    (_CORE, "MachinePool", "CachedPool"): _MACHINE,
    (_CONTROL_PLANE, "KubeadmControlPlane", "CachedControlPlane"): _TEMPLATE,
    (_CONTROL_PLANE, "KubeadmControlPlane", "CachedKubeadm"): _MACHINE,
    ("helm.toolkit.fluxcd.io", "HelmRelease", "CachedRelease"): _SMALL,
    ("machine.openshift.io", "Machine", "CachedApiMachine"): _MACHINE,
    ("networking.k8s.io", "ServiceCIDR", "UnstructuredObject"): _FEW,
    ("transom.dev", "EgressProxy", "UnstructuredObject"): _FEW,
    ("transom.dev", "WindowsInstance", "CachedInstance"): MemoryLimit(256 * _KIB, 48 * _MIB),
}
_OPENSHIFT: Final[Mapping[tuple[str, str, str], MemoryLimit]] = {
    ("config.openshift.io", "Image", "UnstructuredObject"): _FEW,
    ("config.openshift.io", "ImageDigestMirrorSet", "UnstructuredObject"): _FEW,
    ("config.openshift.io", "ImageTagMirrorSet", "UnstructuredObject"): _FEW,
    ("config.openshift.io", "Infrastructure", "UnstructuredObject"): _FEW,
    ("config.openshift.io", "Network", "UnstructuredObject"): _FEW,
    ("config.openshift.io", "Proxy", "UnstructuredObject"): _FEW,
    ("machine.openshift.io", "MachineSet", "Metadata"): _MACHINE,
    ("machineconfiguration.openshift.io", "ControllerConfig", "UnstructuredObject"): MemoryLimit(4 * _MIB, 24 * _MIB),
    ("operator.openshift.io", "Network", "UnstructuredObject"): _FEW,
}
_CLUSTER_API: Final[Mapping[tuple[str, str, str], MemoryLimit]] = {
    (group, kind, "CachedInfrastructure"): _MACHINE
    for group, kinds in (
        (_CONTROL_PLANE, ("AWSManagedControlPlane", "ROSAControlPlane")),
        (
            _INFRASTRUCTURE,
            (
                "AWSCluster",
                "AzureCluster",
                "AzureManagedControlPlane",
                "GCPCluster",
                "GCPManagedCluster",
                "OpenStackCluster",
            ),
        ),
    )
    for kind in kinds
}
BOUNDS: Final[Mapping[tuple[str, str, str], MemoryLimit]] = MappingProxyType({**_ANYWHERE, **_OPENSHIFT, **_CLUSTER_API})
"""By group, kind and the type that an object is read into."""


def get_memory_limit(resource: Resource[Any]) -> MemoryLimit:
    """Return the bound of a kind that is followed. Raises KeyError for one that has no entry."""
    return BOUNDS[resource.group, resource.kind, resource.type.__name__]


def estimate_memory_size(value: Any) -> int:
    """Return about how many bytes a decoded object keeps: its texts, and 64 bytes for each of its values."""
    size, waiting = 0, [value]
    while waiting:
        part = waiting.pop()
        size += _VALUE
        if isinstance(part, str):
            # one emoji makes four bytes of each character of a text (PEP 393)
            size += len(part) if part.isascii() else part.__sizeof__()
        elif isinstance(part, bytes):
            size += len(part)
        elif isinstance(part, dict):
            waiting.extend(part.keys())
            waiting.extend(part.values())
        elif isinstance(part, list | tuple | set | frozenset):
            waiting.extend(part)
        elif isinstance(part, msgspec.Struct):
            waiting.extend(getattr(part, field) for field in part.__struct_fields__)
    return size
