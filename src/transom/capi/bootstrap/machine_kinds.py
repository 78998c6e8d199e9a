"""Which control planes and bootstrap configurations Transom knows, and which a cluster has.

A kind that is not in the tables is reported, and never treated as kubeadm's.
"""

import enum
from collections.abc import Mapping
from typing import Final

import msgspec

from transom.proxy.settings import Egress


class MachineFamily(enum.StrEnum):
    """A bootstrap provider, by whose lists of files and commands machines are configured."""

    KUBEADM = "kubeadm"
    RKE2 = "RKE2"
    TALOS = "Talos"
    EKS = "EKS, Amazon Linux 2"
    NODEADM = "EKS, Amazon Linux 2023"


KUBEADM_CONTROL_PLANE: Final = "KubeadmControlPlane"
RKE2_CONTROL_PLANE: Final = "RKE2ControlPlane"
TALOS_CONTROL_PLANE: Final = "TalosControlPlane"
EKS_CONTROL_PLANE: Final = "AWSManagedControlPlane"
CONTROL_PLANES: Final[Mapping[str, MachineFamily | None]] = {
    KUBEADM_CONTROL_PLANE: MachineFamily.KUBEADM,
    RKE2_CONTROL_PLANE: MachineFamily.RKE2,
    TALOS_CONTROL_PLANE: MachineFamily.TALOS,
    # no machines of the cluster, so that its workers alone count: kubernetes-sigs/cluster-api-provider-aws v2.13.0,
    # controlplane/eks; kamaji.clastix.io, "Control Plane Provider"
    EKS_CONTROL_PLANE: None,
    "KamajiControlPlane": None,
}
"""Control planes, each with the family of its machines; None for one that has no machines."""
BOOTSTRAPS: Final[Mapping[str, MachineFamily]] = {
    "KubeadmConfig": MachineFamily.KUBEADM,
    "RKE2Config": MachineFamily.RKE2,
    "TalosConfig": MachineFamily.TALOS,
    # kubernetes-sigs/cluster-api-provider-aws v2.13.0, bootstrap/eks/api/v1beta2
    "EKSConfig": MachineFamily.EKS,
    "NodeadmConfig": MachineFamily.NODEADM,
}
"""Bootstrap configurations, without the `Template` at the end of a kind."""
EDITED: Final = frozenset(
    (
        ("bootstrap.cluster.x-k8s.io", "KubeadmConfigTemplate"),
        ("bootstrap.cluster.x-k8s.io", "KubeadmConfig"),
        ("controlplane.cluster.x-k8s.io", KUBEADM_CONTROL_PLANE),
    )
)
"""Group and kind of what Transom edits where `transom.dev/inject` permits it."""


SPEC_PATHS: Final[Mapping[str, tuple[str, ...]]] = {
    "KubeadmConfigTemplate": ("template", "spec"),
    "KubeadmConfig": (),
    KUBEADM_CONTROL_PLANE: ("kubeadmConfigSpec",),
    "KubeadmControlPlaneTemplate": ("template", "spec", "kubeadmConfigSpec"),
    "RKE2ConfigTemplate": ("template", "spec"),
    "RKE2Config": (),
    RKE2_CONTROL_PLANE: (),
    "RKE2ControlPlaneTemplate": ("template", "spec"),
    "EKSConfigTemplate": ("template", "spec"),
    "EKSConfig": (),
    "NodeadmConfigTemplate": ("template", "spec"),
    "NodeadmConfig": (),
}
"""Where objects have `files` and lists of commands, below `spec`."""
_TALOS_PATHS: Final[Mapping[str, tuple[str, ...]]] = {
    "TalosConfigTemplate": ("template", "spec"),
    "TalosConfig": (),
    TALOS_CONTROL_PLANE: ("controlPlaneConfig", "controlplane"),
}


def get_spec_path(kind: str) -> tuple[str, ...]:
    """Return where an object of a known kind has what entries are added to, below `spec`."""
    return _TALOS_PATHS[kind] if kind in _TALOS_PATHS else SPEC_PATHS[kind]


class MachineKinds(msgspec.Struct, frozen=True):
    """The kinds that make the machines of a cluster. `unmanaged` are pools whose nodes get no bootstrap configuration.

    `missing_class` is the ClusterClass that decides the kinds, and is not known.
    """

    control_plane: str | None = None
    bootstraps: tuple[str, ...] = ()
    unmanaged: tuple[str, ...] = ()
    missing_class: str = ""

    @property
    def families(self) -> tuple[MachineFamily, ...]:
        """Return the families whose entries the cluster's machines take, each once."""
        control_plane = None if self.missing_class else CONTROL_PLANES.get(self.control_plane or KUBEADM_CONTROL_PLANE)
        workers = [family for kind in self.bootstraps if (family := BOOTSTRAPS.get(without_template_suffix(kind))) is not None]
        if control_plane is None and not workers and not self.bootstraps and not self.unmanaged:
            workers = list(WORKERS.get(self.control_plane or "", ()))
        return tuple(dict.fromkeys(([control_plane] if control_plane else []) + workers))

    @property
    def unsupported(self) -> tuple[str, ...]:
        """Return the kinds for whose machines Transom has no entries."""
        control_plane = [self.control_plane] if self.control_plane and self.control_plane not in CONTROL_PLANES else []
        bootstraps = [kind for kind in self.bootstraps if not is_known_bootstrap(kind)]
        return tuple(dict.fromkeys(map(sanitize_kind, (*control_plane, *bootstraps, *self.unmanaged))))

    @property
    def is_guess(self) -> bool:
        """Return True if nothing says which workers the cluster has, and its control plane has no machines."""
        return self.control_plane in WORKERS and not self.bootstraps and not self.unmanaged


WORKERS: Final[Mapping[str, tuple[MachineFamily, ...]]] = {
    EKS_CONTROL_PLANE: (MachineFamily.EKS, MachineFamily.NODEADM),
    "KamajiControlPlane": (MachineFamily.KUBEADM,),
}
"""The possible kinds of workers for a control plane without machines, if no object names them."""


def sanitize_kind(kind: str) -> str:
    """Return a kind as messages show it: another program wrote it, and v1beta1 accepts arbitrary strings."""
    return kind if kind.isascii() and kind.isalnum() and len(kind) <= _LONGEST_KIND else "(unknown kind)"


_LONGEST_KIND: Final = 63
"""Characters, in v1beta2 (kubernetes-sigs/cluster-api v1.11.4, api/core/v1beta2/common_types.go)."""


def is_known_bootstrap(kind: str) -> bool:
    """Return True for a bootstrap configuration, or its template, for which Transom has entries."""
    return without_template_suffix(kind) in BOOTSTRAPS


def without_template_suffix(kind: str) -> str:
    """Return the kind of the objects that a template makes."""
    return kind.removesuffix("Template")


def needs_entries(egress: Egress) -> bool:
    """Return True if the machines of a cluster with these settings need entries in their configuration."""
    return "Nodes" in egress.consumers and bool(egress.http_proxy or egress.https_proxy or egress.trust)
