"""Which control planes and bootstrap configurations Transom knows, and which a cluster has.

A kind that is not in the tables is reported, and never treated as kubeadm's.
"""

import enum
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from transom.common.escaping import escape_name
from transom.common.mappings import get_at
from transom.proxy.objects import Cluster, MachineObject
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
        workers = [family for kind in self.bootstraps if (family := BOOTSTRAPS.get(_without_template(kind))) is not None]
        if control_plane is None and not workers and not self.bootstraps and not self.unmanaged:
            workers = list(_WORKERS.get(self.control_plane or "", ()))
        return tuple(dict.fromkeys(([control_plane] if control_plane else []) + workers))

    @property
    def unsupported(self) -> tuple[str, ...]:
        """Return the kinds for whose machines Transom has no entries."""
        control_plane = [self.control_plane] if self.control_plane and self.control_plane not in CONTROL_PLANES else []
        bootstraps = [kind for kind in self.bootstraps if not is_known_bootstrap(kind)]
        name = escape_name(self.missing_class)
        missing = [f"ClusterClass {name}, which is not known here"] if self.missing_class else []
        kinds = map(show_kind, (*control_plane, *bootstraps, *self.unmanaged))
        return tuple(dict.fromkeys((*kinds, *missing)))

    @property
    def is_guess(self) -> bool:
        """Return True if nothing says which workers the cluster has, and its control plane has no machines."""
        return self.control_plane in _WORKERS and not self.bootstraps and not self.unmanaged


_WORKERS: Final[Mapping[str, tuple[MachineFamily, ...]]] = {
    EKS_CONTROL_PLANE: (MachineFamily.EKS, MachineFamily.NODEADM),
    "KamajiControlPlane": (MachineFamily.KUBEADM,),
}
"""The possible kinds of workers for a control plane without machines, if no object names them."""


def show_kind(kind: str) -> str:
    """Return a kind as messages show it: another program wrote it, and v1beta1 accepts arbitrary strings."""
    return kind if kind.isascii() and kind.isalnum() and len(kind) <= _LONGEST_KIND else "(unknown kind)"


_LONGEST_KIND: Final = 63
"""Characters, in v1beta2 (kubernetes-sigs/cluster-api v1.11.4, api/core/v1beta2/common_types.go)."""


def is_known_bootstrap(kind: str) -> bool:
    """Return True for a bootstrap configuration, or its template, for which Transom has entries."""
    return _without_template(kind) in BOOTSTRAPS


def _without_template(kind: str) -> str:
    return kind.removesuffix("Template")


def needs_entries(egress: Egress) -> bool:
    """Return True if the machines of a cluster with these settings need entries in their configuration."""
    return "Nodes" in egress.consumers and bool(egress.http_proxy or egress.https_proxy or egress.trust)


class MachineIndex:
    """Cluster API's objects by what is asked of them: made once, each question then costs what its answer has."""

    def __init__(self, objects: Iterable[MachineObject]) -> None:
        self.objects = tuple(objects)
        self._by_name: dict[tuple[str, str, str], MachineObject] = {}
        self._labelled: dict[tuple[str, str], list[MachineObject]] = {}
        self._workers: dict[tuple[str, str], list[MachineObject]] = {}
        for item in self.objects:
            self._by_name.setdefault((item.namespace, item.kind, item.name), item)
            if label := item.labels.get(_CLUSTER_NAME):
                self._labelled.setdefault((item.namespace, label), []).append(item)
            if item.kind in ("MachineDeployment", "MachinePool"):
                self._workers.setdefault((item.namespace, str(get_at(item.spec, "clusterName"))), []).append(item)

    def find_named(self, namespace: str, kind: object, name: object) -> MachineObject | None:
        """Return the object of a kind and name, if it is known."""
        return self._by_name.get((namespace, str(kind), str(name)))

    def list_workers(self, cluster: Cluster) -> list[MachineObject]:
        """Return the MachineDeployments and MachinePools of a cluster."""
        return self._workers.get((cluster.metadata.namespace or "", cluster.metadata.name), [])

    def find_class(self, cluster: Cluster) -> MachineObject | None:
        """Return the ClusterClass of a cluster, if it is known."""
        namespace, name = self._get_class_place(cluster)
        return self.find_named(namespace, "ClusterClass", name) if name else None

    def find_missing_class(self, cluster: Cluster) -> str:
        """Return the name of a cluster's ClusterClass if it is not known and nothing else says what the control plane is."""
        _, name = self._get_class_place(cluster)
        return name if name and not cluster.control_plane and self.find_class(cluster) is None else ""

    def _get_class_place(self, cluster: Cluster) -> tuple[str, str]:
        own_namespace = cluster.metadata.namespace or ""
        own = self.find_named(own_namespace, "Cluster", cluster.metadata.name)
        topology = get_at(own.spec, "topology") if own is not None else None
        # `class` and `classNamespace` in v1beta1, `classRef` in v1beta2
        name = get_at(topology, "class") or get_at(topology, "classRef", "name") or ""
        namespace = get_at(topology, "classNamespace") or get_at(topology, "classRef", "namespace") or own_namespace
        return str(namespace), str(name)

    def find_kubeadm(self, cluster: Cluster) -> MachineObject | None:
        """Return the KubeadmControlPlane of a cluster, else the KubeadmControlPlaneTemplate of its class."""
        if cluster.control_plane:
            control_plane = self.find_named(cluster.metadata.namespace or "", cluster.control_plane, cluster.control_plane_name)
            return control_plane if cluster.control_plane == KUBEADM_CONTROL_PLANE else None
        own_class = self.find_class(cluster)
        part = get_at(own_class.spec, "controlPlane") if own_class is not None else None
        reference = get_at(part, "templateRef") or get_at(part, "ref")
        if own_class is None or get_at(reference, "kind") != f"{KUBEADM_CONTROL_PLANE}Template":
            return None
        return self.find_named(own_class.namespace, get_at(reference, "kind"), get_at(reference, "name"))

    def list_objects(self, cluster: Cluster) -> list[MachineObject]:
        """Return the objects of a cluster: those with its label, and those that its other objects and its class refer to."""
        namespace = cluster.metadata.namespace or ""
        objects = {item.place.object: item for item in self._labelled.get((namespace, cluster.metadata.name), ())}
        own = self.find_named(namespace, cluster.control_plane, cluster.control_plane_name)
        if own is not None:
            objects.setdefault(own.place.object, own)
        for kind, name in self._iter_references(cluster, own):
            if (item := self.find_named(namespace, kind, name)) is not None:
                objects.setdefault(item.place.object, item)
        own_class = self.find_class(cluster)
        for kind, name in _iter_class_references(own_class.spec) if own_class is not None else ():
            if own_class is not None and (item := self.find_named(own_class.namespace, kind, name)) is not None:
                objects.setdefault(item.place.object, item)
        return list(objects.values())

    def _iter_references(self, cluster: Cluster, control_plane: MachineObject | None) -> Iterator[tuple[str, str]]:
        parts = [get_at(item.spec, "template", "spec") for item in self.list_workers(cluster)]
        template = get_at(control_plane.spec, "machineTemplate") if control_plane is not None else None
        # v1beta1 has no `spec` there; older RKE2ControlPlanes refer to it themselves
        parts += [template, get_at(template, "spec"), control_plane.spec if control_plane is not None else None]
        for part in parts:
            for field in (("bootstrap", "configRef"), ("infrastructureRef",), ("infrastructureTemplate",)):
                reference = get_at(part, *field)
                yield str(get_at(reference, "kind")), str(get_at(reference, "name"))

    def find_kinds(self, cluster: Cluster) -> MachineKinds:
        """Return the kinds of a cluster's control plane and workers, as far as the objects say; its class counts too."""
        control_plane = cluster.control_plane
        bootstraps: list[str] = []
        unmanaged: list[str] = []
        for item in self.list_workers(cluster):
            template = get_at(item.spec, "template", "spec")
            kind = get_at(template, "bootstrap", "configRef", "kind")
            if isinstance(kind, str) and kind and not self.is_bootstrap_ignored(item):
                bootstraps.append(kind)
            else:
                # a managed pool, or bootstrap data of another tool
                infrastructure = get_at(template, "infrastructureRef", "kind")
                unmanaged.append(infrastructure if isinstance(infrastructure, str) else item.kind)
        own_class = self.find_class(cluster)
        if own_class is not None:
            control_plane = control_plane or find_control_plane_kind(own_class)
            bootstraps += list_bootstrap_kinds(own_class)
        missing = self.find_missing_class(cluster)
        return MachineKinds(control_plane, tuple(dict.fromkeys(bootstraps)), tuple(dict.fromkeys(unmanaged)), missing)

    def is_bootstrap_ignored(self, pool: MachineObject) -> bool:
        """Return True for a managed node group of EKS that does not use its bootstrap configuration.

        kubernetes-sigs/cluster-api-provider-aws v2.13.0, exp/controllers/awsmanagedmachinepool_controller.go: only
        `awsLaunchTemplate` makes a launch template with the user data.
        """
        reference = get_at(pool.spec, "template", "spec", "infrastructureRef")
        if get_at(reference, "kind") != "AWSManagedMachinePool":
            return False
        group = self.find_named(pool.namespace, "AWSManagedMachinePool", get_at(reference, "name"))
        return group is not None and get_at(group.spec, "awsLaunchTemplate") is None


_CLUSTER_NAME: Final = "cluster.x-k8s.io/cluster-name"
_CLASS_PARTS: Final = frozenset(
    (
        *("controlPlane", "workers", "machineDeployments", "machinePools"),
        *("template", "bootstrap", "infrastructure", "machineInfrastructure"),
    )
)
"""Fields of a ClusterClass on the way to its references, in v1beta1 and v1beta2."""


def _iter_class_references(value: Any) -> Iterator[tuple[str, str]]:
    """Yield kind and name of every template that a ClusterClass refers to."""
    if isinstance(value, list):
        for item in value:
            yield from _iter_class_references(item)
    if isinstance(value, dict):
        for key, below in value.items():
            if key in ("ref", "templateRef") and isinstance(below, dict):
                yield str(below.get("kind")), str(below.get("name"))
            elif key in _CLASS_PARTS:
                yield from _iter_class_references(below)


def find_control_plane_kind(cluster_class: MachineObject) -> str | None:
    """Return the kind of the control planes that a ClusterClass makes."""
    part = get_at(cluster_class.spec, "controlPlane")
    # `ref` in v1beta1, `templateRef` in v1beta2
    kind = get_at(part, "templateRef", "kind") or get_at(part, "ref", "kind")
    return _without_template(kind) if isinstance(kind, str) else None


def list_bootstrap_kinds(cluster_class: MachineObject) -> list[str]:
    """Return the kinds of the bootstrap templates of a ClusterClass."""
    kinds = []
    for field in ("machineDeployments", "machinePools"):
        listed = get_at(cluster_class.spec, "workers", field)
        for item in listed if isinstance(listed, list) else ():
            part = get_at(item, "template", "bootstrap") or get_at(item, "bootstrap")
            kind = get_at(part, "templateRef", "kind") or get_at(part, "ref", "kind")
            if isinstance(kind, str):
                kinds.append(kind)
    return kinds
