"""Cluster API's objects by what is asked of them: which objects configure a cluster's machines, and of which kinds they are."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from transom.capi.bootstrap.injection import is_for_windows
from transom.capi.bootstrap.machine_kinds import (
    BOOTSTRAPS,
    CONTROL_PLANES,
    KUBEADM_CONTROL_PLANE,
    SPEC_PATHS,
    TALOS_CONTROL_PLANE,
    MachineFamily,
    MachineKinds,
    get_spec_path,
    without_template_suffix,
)
from transom.common.escaping import NAME
from transom.common.mappings import get_nested_value
from transom.proxy.objects import Cluster, MachineObject

_IGNORE_BOOTSTRAP: Final = frozenset(
    (
        *("AzureManagedMachinePool", "AzureASOManagedMachinePool", "GCPManagedMachinePool"),
        *("OCIManagedMachinePool", "OCIVirtualMachinePool", "ROSAMachinePool"),
    )
)
"""Pools whose cloud configures the nodes itself: their classes name a bootstrap template that nothing reads
(kubernetes-sigs/cluster-api-provider-azure, templates/cluster-template-aks-clusterclass.yaml)."""
_POOLS_WITHOUT_MACHINES: Final = ("AWSFargateProfile",)
"""Nodes of a cluster that no object of Cluster API's own makes; `spec.clusterName` names the cluster."""


class MachineTemplate(msgspec.Struct, frozen=True):
    """An object that configures machines of a cluster. `spec` is None if the object is not known, only its name.

    `is_guess`: no object says that it exists; its name is made of the cluster's.
    """

    family: MachineFamily
    api_version: str
    kind: str
    name: str
    namespace: str
    spec: dict[str, Any] | None = None
    control_plane: bool = False
    windows: bool = False
    is_guess: bool = False

    @property
    def content(self) -> dict[str, Any]:
        """Return the part of the object that has `files` and commands; empty if it is not known."""
        content = get_nested_value(self.spec, *get_spec_path(self.kind))
        return content if isinstance(content, dict) else {}


class ClassTemplate(msgspec.Struct, frozen=True):
    """A template that a ClusterClass refers to, and the class of workers that uses it; the control plane's has none."""

    template: MachineTemplate
    workers: str = ""
    of_pools: bool = False


class MachineIndex:
    """Cluster API's objects by what is asked of them: made once, each question then costs what its answer has."""

    def __init__(self, objects: Iterable[MachineObject]) -> None:
        self.objects = tuple(objects)
        self._by_name: dict[tuple[str, str, str], MachineObject] = {}
        self._labelled: dict[tuple[str, str], list[MachineObject]] = {}
        self._workers: dict[tuple[str, str], list[MachineObject]] = {}
        self._other_pools: dict[tuple[str, str], list[MachineObject]] = {}
        self._clusters_of_workers: set[str] = set()
        for item in self.objects:
            self._by_name.setdefault((item.namespace, item.kind, item.name), item)
            if label := item.labels.get(_CLUSTER_NAME):
                self._labelled.setdefault((item.namespace, label), []).append(item)
            if is_worker(item) or item.kind in _POOLS_WITHOUT_MACHINES:
                self._clusters_of_workers.add(str(get_nested_value(item.spec, "clusterName")))
                made = self._workers if is_worker(item) else self._other_pools
                made.setdefault((item.namespace, str(get_nested_value(item.spec, "clusterName"))), []).append(item)

    def find_object(self, namespace: str, kind: object, name: object) -> MachineObject | None:
        """Return the object of a kind and name, if it is known."""
        return self._by_name.get((namespace, str(kind), str(name)))

    def list_workers(self, cluster: Cluster) -> list[MachineObject]:
        """Return the MachineDeployments and MachinePools of a cluster, and its MachineSets and Machines without an owner.

        Machines of a control plane that the cluster names are its own.
        """
        workers = self._workers.get((cluster.metadata.namespace or "", cluster.metadata.name), [])
        return [item for item in workers if not (cluster.control_plane and is_control_plane_machine(item))]

    def list_pools_without_machines(self, cluster: Cluster) -> list[MachineObject]:
        """Return the objects that give a cluster nodes and that Cluster API's own kinds do not know."""
        return self._other_pools.get((cluster.metadata.namespace or "", cluster.metadata.name), [])

    def find_cluster_class(self, cluster: Cluster) -> MachineObject | None:
        """Return the ClusterClass of a cluster, if it is known."""
        namespace, name = self._get_class_reference(cluster)
        return self.find_object(namespace, "ClusterClass", name) if name else None

    def find_missing_class_name(self, cluster: Cluster) -> str:
        """Return the name of a cluster's ClusterClass if it is not known and nothing else says what the control plane is."""
        _, name = self._get_class_reference(cluster)
        return name if name and not cluster.control_plane and self.find_cluster_class(cluster) is None else ""

    def _get_class_reference(self, cluster: Cluster) -> tuple[str, str]:
        own_namespace = cluster.metadata.namespace or ""
        own = self.find_object(own_namespace, "Cluster", cluster.metadata.name)
        topology = get_nested_value(own.spec, "topology") if own is not None else None
        if topology is None:
            return own_namespace, ""
        # `class` and `classNamespace` in v1beta1, `classRef` in v1beta2
        name = get_nested_value(topology, "class") or get_nested_value(topology, "classRef", "name") or ""
        namespace = (
            get_nested_value(topology, "classNamespace") or get_nested_value(topology, "classRef", "namespace") or own_namespace
        )
        return str(namespace), str(name)

    def find_kubeadm_control_plane(self, cluster: Cluster) -> MachineObject | None:
        """Return the KubeadmControlPlane of a cluster, else the KubeadmControlPlaneTemplate of its class."""
        if cluster.control_plane:
            control_plane = self.find_object(
                cluster.metadata.namespace or "", cluster.control_plane, cluster.control_plane_name
            )
            return control_plane if cluster.control_plane == KUBEADM_CONTROL_PLANE else None
        own_class = self.find_cluster_class(cluster)
        part = get_nested_value(own_class.spec, "controlPlane") if own_class is not None else None
        reference = get_nested_value(part, "templateRef") or get_nested_value(part, "ref")
        if own_class is None or get_nested_value(reference, "kind") != f"{KUBEADM_CONTROL_PLANE}Template":
            return None
        return self.find_object(own_class.namespace, get_nested_value(reference, "kind"), get_nested_value(reference, "name"))

    def list_objects(self, cluster: Cluster) -> list[MachineObject]:
        """Return the objects of a cluster: those with its label, and those that its other objects and its class refer to."""
        namespace = cluster.metadata.namespace or ""
        objects = {item.place.object: item for item in self._labelled.get((namespace, cluster.metadata.name), ())}
        own = self.find_object(namespace, cluster.control_plane, cluster.control_plane_name)
        if own is not None:
            objects.setdefault(own.place.object, own)
        for kind, name in self._iter_references(cluster, own):
            if (item := self.find_object(namespace, kind, name)) is not None:
                objects.setdefault(item.place.object, item)
        own_class = self.find_cluster_class(cluster)
        for kind, name in _iter_class_references(own_class.spec) if own_class is not None else ():
            if own_class is not None and (item := self.find_object(own_class.namespace, kind, name)) is not None:
                objects.setdefault(item.place.object, item)
        return list(objects.values())

    def _iter_references(self, cluster: Cluster, control_plane: MachineObject | None) -> Iterator[tuple[str, str]]:
        parts = [get_machine_spec(item) for item in self.list_workers(cluster)]
        template = get_nested_value(control_plane.spec, "machineTemplate") if control_plane is not None else None
        # v1beta1 has no `spec` there; older RKE2ControlPlanes refer to it themselves
        parts += [template, get_nested_value(template, "spec"), control_plane.spec if control_plane is not None else None]
        for part in parts:
            if part is None:
                continue
            for field in (("bootstrap", "configRef"), ("infrastructureRef",), ("infrastructureTemplate",)):
                reference = get_nested_value(part, *field)
                yield str(get_nested_value(reference, "kind")), str(get_nested_value(reference, "name"))

    def find_machine_kinds(self, cluster: Cluster) -> MachineKinds:
        """Return the kinds of a cluster's control plane and workers, as far as the objects say; its class counts too."""
        control_plane = cluster.control_plane
        bootstraps: list[str] = []
        unmanaged: list[str] = []
        for item in self.list_workers(cluster):
            template = get_machine_spec(item)
            kind = get_nested_value(template, "bootstrap", "configRef", "kind")
            if isinstance(kind, str) and kind and not self.is_bootstrap_ignored(item):
                bootstraps.append(kind)
            else:
                # a managed pool, or bootstrap data of another tool
                infrastructure = get_nested_value(template, "infrastructureRef", "kind")
                unmanaged.append(infrastructure if isinstance(infrastructure, str) else item.kind)
        unmanaged += [item.kind for item in self.list_pools_without_machines(cluster)]
        own_class = self.find_cluster_class(cluster)
        if own_class is not None:
            control_plane = control_plane or find_control_plane_kind(own_class)
            bootstraps += list_bootstrap_kinds(own_class)
            unmanaged += list_unmanaged_kinds(own_class)
        missing = self.find_missing_class_name(cluster)
        return MachineKinds(control_plane, tuple(dict.fromkeys(bootstraps)), tuple(dict.fromkeys(unmanaged)), missing)

    def has_cluster_class(self, cluster: Cluster) -> bool:
        """Return True if a ClusterClass, known or not, makes the objects of a cluster."""
        return bool(self._get_class_reference(cluster)[1])

    def list_templates(self, cluster: Cluster) -> list[MachineTemplate]:
        """Return what configures the machines of a cluster without a class; guesses where no object says what does."""
        kinds, namespace = self.find_machine_kinds(cluster), cluster.metadata.namespace or ""
        workers = self.list_workers(cluster)
        templates = []
        has_own_machines = any(map(is_control_plane_machine, workers))
        control_plane = CONTROL_PLANES.get(kinds.control_plane or KUBEADM_CONTROL_PLANE)
        if control_plane is not None and not has_own_machines:
            kind, name = kinds.control_plane or KUBEADM_CONTROL_PLANE, cluster.control_plane_name or cluster.metadata.name
            templates.append(self._build_template(control_plane, kind, name, namespace, control_plane=True))
        for item in workers:
            reference = get_nested_value(get_machine_spec(item), "bootstrap", "configRef")
            kind, name = get_nested_value(reference, "kind"), get_nested_value(reference, "name")
            family = BOOTSTRAPS.get(without_template_suffix(kind)) if isinstance(kind, str) else None
            if family is None or self.is_bootstrap_ignored(item) or not isinstance(name, str) or not NAME.match(name):
                continue
            version = str(get_nested_value(reference, "apiVersion") or "")
            is_plane = is_control_plane_machine(item)
            templates.append(self._build_template(family, str(kind), name, namespace, version, control_plane=is_plane))
        # workers in another namespace are a mistake that the checks report, not a cluster without workers
        if not workers and not kinds.unmanaged and cluster.metadata.name not in self._clusters_of_workers:
            templates += _guess_worker_templates(cluster, kinds)
        return list({(item.kind, item.name): item for item in reversed(templates)}.values())[::-1]

    def _build_template(
        self,
        family: MachineFamily,
        kind: str,
        name: str,
        namespace: str,
        version: str = "",
        *,
        control_plane: bool = False,
    ) -> MachineTemplate:
        known = self.find_object(namespace, kind, name)
        group = _CONTROL_PLANE_GROUP if kind.removesuffix("Template") in CONTROL_PLANES else _BOOTSTRAP_GROUP
        api_version = version if version.startswith(f"{group}/") else f"{group}/{_VERSIONS.get(kind, 'v1beta2')}"
        spec = None
        if known is not None:
            api_version, spec = f"{known.group}/{known.version}", known.spec
        if family is MachineFamily.EKS:
            # v1beta1 has no files, and is not served (kubernetes-sigs/cluster-api-provider-aws v2.13.0, config/crd/bases)
            api_version = f"{_BOOTSTRAP_GROUP}/v1beta2"
        template = MachineTemplate(family, api_version, kind, name, namespace, spec, control_plane)
        windows = family is MachineFamily.KUBEADM and is_for_windows(template.content)
        return msgspec.structs.replace(template, windows=windows)

    def list_class_templates(self, own_class: MachineObject) -> list[ClassTemplate]:
        """Return the templates of a ClusterClass that take entries."""
        templates = []
        part = get_nested_value(own_class.spec, "controlPlane")
        reference = get_nested_value(part, "templateRef") or get_nested_value(part, "ref")
        family = CONTROL_PLANES.get(without_template_suffix(str(get_nested_value(reference, "kind"))))
        if family is not None and family is not MachineFamily.TALOS:
            templates.append(
                ClassTemplate(self._build_referenced_template(family, reference, own_class.namespace, control_plane=True))
            )
        for item, of_pools in _iter_worker_classes(own_class):
            reference = _get_class_bootstrap(item)
            worker_family = BOOTSTRAPS.get(without_template_suffix(str(get_nested_value(reference, "kind"))))
            if worker_family is None or worker_family is MachineFamily.TALOS or _is_bootstrap_ignored(item):
                continue
            template = self._build_referenced_template(worker_family, reference, own_class.namespace)
            templates.append(ClassTemplate(template, str(get_nested_value(item, "class")), of_pools))
        return templates

    def _build_referenced_template(
        self, family: MachineFamily, reference: Any, namespace: str, *, control_plane: bool = False
    ) -> MachineTemplate:
        texts = [str(get_nested_value(reference, field) or "") for field in ("kind", "name", "apiVersion")]
        template = self._build_template(family, texts[0], texts[1], namespace, texts[2], control_plane=control_plane)
        # a patch selects by the version of the reference, not by that of the object
        return msgspec.structs.replace(template, api_version=texts[2] or template.api_version)

    def is_bootstrap_ignored(self, pool: MachineObject) -> bool:
        """Return True for a pool that does not use its bootstrap configuration: one that its cloud configures.

        EKS uses it for some node groups:

        kubernetes-sigs/cluster-api-provider-aws v2.13.0, exp/controllers/awsmanagedmachinepool_controller.go: only
        `awsLaunchTemplate` makes a launch template with the user data.
        """
        reference = get_nested_value(get_machine_spec(pool), "infrastructureRef")
        if get_nested_value(reference, "kind") in _IGNORE_BOOTSTRAP:
            return True
        if get_nested_value(reference, "kind") != "AWSManagedMachinePool":
            return False
        group = self.find_object(pool.namespace, "AWSManagedMachinePool", get_nested_value(reference, "name"))
        return group is not None and get_nested_value(group.spec, "awsLaunchTemplate") is None


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
    part = get_nested_value(cluster_class.spec, "controlPlane")
    # `ref` in v1beta1, `templateRef` in v1beta2
    kind = get_nested_value(part, "templateRef", "kind") or get_nested_value(part, "ref", "kind")
    return without_template_suffix(kind) if isinstance(kind, str) else None


def list_bootstrap_kinds(cluster_class: MachineObject) -> list[str]:
    """Return the kinds of the bootstrap templates of a ClusterClass that its machines use."""
    items = (item for item, _ in _iter_worker_classes(cluster_class) if not _is_bootstrap_ignored(item))
    return [kind for item in items if isinstance(kind := get_nested_value(_get_class_bootstrap(item), "kind"), str)]


def list_unmanaged_kinds(cluster_class: MachineObject) -> list[str]:
    """Return the kinds of the pools of a ClusterClass whose cloud configures the nodes."""
    items = (item for item, _ in _iter_worker_classes(cluster_class) if _is_bootstrap_ignored(item))
    return [without_template_suffix(str(get_nested_value(_get_class_infrastructure(item), "kind"))) for item in items]


def _iter_worker_classes(cluster_class: MachineObject) -> Iterator[tuple[Any, bool]]:
    """Yield each class of MachineDeployments and of MachinePools (True)."""
    for field in ("machineDeployments", "machinePools"):
        listed = get_nested_value(cluster_class.spec, "workers", field)
        for item in listed if isinstance(listed, list) else ():
            yield item, field == "machinePools"


def _get_class_bootstrap(item: Any) -> Any:
    # below `template` with `ref` in v1beta1; `templateRef` in v1beta2
    part = get_nested_value(item, "template", "bootstrap") or get_nested_value(item, "bootstrap")
    return get_nested_value(part, "templateRef") or get_nested_value(part, "ref")


def _get_class_infrastructure(item: Any) -> Any:
    part = get_nested_value(item, "template", "infrastructure") or get_nested_value(item, "infrastructure")
    return get_nested_value(part, "templateRef") or get_nested_value(part, "ref")


def _is_bootstrap_ignored(item: Any) -> bool:
    return without_template_suffix(str(get_nested_value(_get_class_infrastructure(item), "kind"))) in _IGNORE_BOOTSTRAP


def build_machine_template(item: MachineObject) -> MachineTemplate | None:
    """Return an object as what configures machines; None for one without lists of files and commands."""
    if item.kind not in SPEC_PATHS:
        return None
    own = without_template_suffix(item.kind)
    family = BOOTSTRAPS.get(own) or CONTROL_PLANES.get(own)
    if family is None:
        return None
    version = f"{item.group}/{item.version}"
    is_plane = own in CONTROL_PLANES
    template = MachineTemplate(family, version, item.kind, item.name, item.namespace, item.spec, is_plane)
    windows = family is MachineFamily.KUBEADM and is_for_windows(template.content)
    return msgspec.structs.replace(template, windows=windows)


def is_worker(item: MachineObject) -> bool:
    """Return True for an object that makes machines, and for a Machine or MachineSet that no other object made."""
    if item.kind in ("MachineDeployment", "MachinePool"):
        return True
    if item.kind == "Machine" and "bootstrap" not in item.spec:
        # read from a server for its addresses alone
        return False
    return item.kind in ("MachineSet", "Machine") and not any(label in item.labels for label in _MADE_BY)


def is_control_plane_machine(item: MachineObject) -> bool:
    """Return True for a Machine of a control plane."""
    return item.kind == "Machine" and _CONTROL_PLANE_LABEL in item.labels


def get_machine_spec(item: MachineObject) -> Any:
    """Return the spec of the Machines that a worker makes, or that it is."""
    return item.spec if item.kind == "Machine" else get_nested_value(item.spec, "template", "spec")


_CONTROL_PLANE_GROUP: Final = "controlplane.cluster.x-k8s.io"
_BOOTSTRAP_GROUP: Final = "bootstrap.cluster.x-k8s.io"
_VERSIONS: Final = {TALOS_CONTROL_PLANE: "v1alpha3", "TalosConfigTemplate": "v1beta1", "TalosConfig": "v1beta1"}
"""Of kinds whose newest version is not v1beta2."""
_CONTROL_PLANE_LABEL: Final = "cluster.x-k8s.io/control-plane"
_MADE_BY: Final = tuple(
    f"cluster.x-k8s.io/{name}" for name in ("deployment-name", "set-name", "pool-name", "control-plane-name")
)
"""Labels of Machines and MachineSets with an owner (kubernetes-sigs/cluster-api v1.11.4, api/core/v1beta2/machine_types.go)."""


def _guess_worker_templates(cluster: Cluster, kinds: MachineKinds) -> Iterator[MachineTemplate]:
    """Yield the templates that workers of a cluster can have, if no object names any."""
    name, namespace = cluster.metadata.name, cluster.metadata.namespace or ""
    for family in kinds.families:
        own = _GUESSES[family]
        group = f"{_BOOTSTRAP_GROUP}/{_VERSIONS.get(own, 'v1beta2')}"
        yield MachineTemplate(family, group, own, f"{name}-linux", namespace, is_guess=True)
        if family is MachineFamily.KUBEADM:
            yield MachineTemplate(family, group, own, f"{name}-windows", namespace, windows=True, is_guess=True)


_GUESSES: Final = {
    MachineFamily.KUBEADM: "KubeadmConfigTemplate",
    MachineFamily.RKE2: "RKE2ConfigTemplate",
    MachineFamily.TALOS: "TalosConfigTemplate",
    MachineFamily.EKS: "EKSConfigTemplate",
    MachineFamily.NODEADM: "NodeadmConfigTemplate",
}
