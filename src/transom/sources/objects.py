"""Objects as Transom reads them, from wherever they come: plain values in, typed structs and findings out. Pure."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from transom.proxy.finding import Finding, Path, Place
from transom.proxy.objects import (
    ConfigMap,
    EgressProxy,
    EgressProxySpec,
    Meta,
    Proxy,
    ProxySpec,
    ProxyStatus,
    SecretObject,
    ServiceCIDR,
    SettingsObjects,
)
from transom.shown import NAME, shown_key, shown_name
from transom.sources import cluster_api, core_objects, infrastructure, workloads
from transom.sources.decoding import INVALID, Decoder
from transom.sources.workloads import DEFAULT_NAMESPACE, NamespaceObject, PodHolder, ServiceObject
from transom.windows.nodes import WindowsInstance, WindowsInstanceSpec, is_address

Locate = Callable[[Path], tuple[int, int]]


class OutsideInstance(NamedTuple):
    """A WindowsInstance outside Transom's namespace, on which nobody works; `why` is a sentence for people."""

    name: str
    address: str
    why: str


class Objects(SettingsObjects, frozen=True):
    """Everything that was read, and what was wrong with the reading of it."""

    windows_instances: tuple[WindowsInstance, ...] = ()
    outside: tuple[OutsideInstance, ...] = ()
    windows_clusters: frozenset[tuple[str, str]] = frozenset()
    """Cluster API clusters with templates for Windows machines, by namespace and name."""
    workloads: tuple[PodHolder, ...] = ()
    namespaces: tuple[NamespaceObject, ...] = ()
    services: tuple[ServiceObject, ...] = ()
    unplaced: tuple[Place, ...] = ()
    """Objects of Transom's namespace that name none: `kubectl apply` would put them into the one of its context."""
    findings: tuple[Finding, ...] = ()


class ObjectReader:
    """Takes objects one by one and gives them all as `Objects`."""

    def __init__(self, namespace: str = "transom-system") -> None:
        self._namespace = namespace
        self._findings: list[Finding] = []
        self._seen: dict[tuple[str, str, str | None, str], Place] = {}
        self._read: dict[str, list[Any]] = {}
        self._unplaced: list[Place] = []
        self._outside: list[OutsideInstance] = []

    @property
    def empty(self) -> bool:
        """Whether nothing that is read was there, right or wrong."""
        return not self._read and not self._findings

    def fault(self, finding: Finding) -> None:
        """Note what the reader of files found."""
        self._findings.append(finding)

    def add(self, value: Any, file: str, locate: Locate, path: Path = ()) -> None:
        """Take one object, or a list of them, in plain values. Kinds that Transom does not read are left out without a word.

        It is at `path` of a document in `file`; `locate` gives the line of a path there. What is wrong becomes a finding.
        """
        if not isinstance(value, dict):
            self._findings.append(Place(file, "", locate).error(path, "this is no Kubernetes object: it is not a mapping"))
            return
        api_version, kind = value.get("apiVersion"), value.get("kind")
        if not isinstance(api_version, str) or not isinstance(kind, str) or not api_version or not kind:
            field = "apiVersion" if not isinstance(api_version, str) or not api_version else "kind"
            place = Place(file, "", locate)
            self._findings.append(place.error((*path, field), f"this is no Kubernetes object: `{field}` is missing"))
            return
        if kind.endswith("List") and isinstance(value.get("items"), list):
            for index, item in enumerate(value["items"]):
                # the items of a typed list may leave both out
                implied = {} if kind == "List" else {"apiVersion": api_version, "kind": kind.removesuffix("List")}
                self.add({**implied, **item} if isinstance(item, dict) else item, file, locate, (*path, "items", index))
            return
        self._object(value, api_version, kind, file, _below(locate, path))

    def _object(self, value: dict[str, Any], api_version: str, kind: str, file: str, locate: Locate) -> None:
        group, _, version = api_version.rpartition("/")
        read = _KINDS.get((group, kind))
        if read is None:
            if group == "transom.dev":
                self._findings.append(
                    Place(file, f"{kind if kind.isalnum() else '(unknown kind)'}/{_name(value)}", locate).error(
                        ("kind",), f"there is no such kind in {group}; there are EgressProxy and WindowsInstance"
                    )
                )
            return
        namespaced = read[1]
        namespace = self._namespace_of(value) if namespaced else None
        name = _name(value)
        place = Place(file, f"{kind}/{namespace}/{name}" if namespaced else f"{kind}/{name}", locate)
        if group == "transom.dev" and version != "v1alpha1":
            self._findings.append(place.error(("apiVersion",), "must be transom.dev/v1alpha1"))
            return
        if _generated(value):
            if (group, kind) in workloads.KINDS:
                self._take(value, read, place, namespace, strict=False)
            elif group:
                self._findings.append(place.error(("metadata", "generateName"), "give it a name: it is referred to by name"))
            return
        if not isinstance(value.get("metadata"), dict) or not isinstance(value["metadata"].get("name"), str):
            self._findings.append(place.error(("metadata", "name"), "the name is missing"))
            return
        if not NAME.match(value["metadata"]["name"]):
            self._findings.append(
                place.error(("metadata", "name"), "must be a DNS-1123 name: lower-case letters, digits, `-` and `.`")
            )
        key = (group, kind, namespace, value["metadata"]["name"])
        if key in self._seen:
            first = self._seen[key]
            line = first.locate(())[0]
            self._findings.append(
                place.error(("metadata", "name"), f"the object stands twice: also in {first.file}, line {line}")
            )
            return
        self._seen[key] = place
        if namespaced and not _names_namespace(value) and (group, kind) not in workloads.KINDS:
            self._unplaced.append(place)
        if (group, kind) == ("transom.dev", "WindowsInstance") and namespace != self._namespace:
            message = f"is not {self._namespace}: neither the operator nor a command works on an instance there"
            self._findings.append(place.warning(("metadata", "namespace"), message))
            spec = value.get("spec")
            address = spec.get("address") if isinstance(spec, dict) else ""
            known = address if isinstance(address, str) and is_address(address) else "no address"
            self._outside.append(OutsideInstance(f"{namespace}/{name}", known, f"its namespace {message}"))
            return
        self._take(value, read, place, namespace, strict=group == "transom.dev")

    def _take(self, value: dict[str, Any], read: "_Kind", place: Place, namespace: str | None, *, strict: bool) -> None:
        field, _, function = read
        decoder = Decoder(place, self._findings, strict=strict)
        meta = _meta(value["metadata"], decoder, namespace)
        self._read.setdefault(field, []).append(function(value, meta, place, decoder, self._findings))

    def label(self, value: Any) -> str:
        """What an object is called in findings: `Kind/name` or `Kind/namespace/name`; empty for what is none."""
        kind = value.get("kind") if isinstance(value, dict) else None
        group = str(value.get("apiVersion", "")).rpartition("/")[0] if kind else ""
        if not isinstance(kind, str) or not kind.isalnum():
            return ""
        read = _KINDS.get((group, kind))
        return f"{kind}/{self._namespace_of(value)}/{_name(value)}" if read is None or read[1] else f"{kind}/{_name(value)}"

    def _namespace_of(self, value: dict[str, Any]) -> str:
        meta = value.get("metadata")
        namespace = meta.get("namespace") if isinstance(meta, dict) else None
        if namespace is None or namespace == "":
            return DEFAULT_NAMESPACE if _group_kind(value) in workloads.KINDS else self._namespace
        return shown_name(namespace)

    def objects(self) -> Objects:
        """All that was read."""
        secrets: list[SecretObject] = self._read.get("secrets", [])
        config_maps: list[ConfigMap] = self._read.get("config_maps", [])
        kubeadm = next((c for c in config_maps if _is(c, "kube-system", "kubeadm-config")), None)
        info = next((c for c in config_maps if _is(c, "kube-public", "cluster-info")), None)
        return Objects(
            namespace=self._namespace,
            egress_proxies=tuple(self._read.get("egress_proxies", ())),
            proxy=self._cluster("proxies"),
            secrets={(s.metadata.namespace or "", s.metadata.name): s for s in secrets},
            config_maps={(c.metadata.namespace or "", c.metadata.name): c for c in config_maps},
            clusters=tuple(self._read.get("clusters", ())),
            network=self._cluster("networks"),
            infrastructure=self._cluster("infrastructures"),
            service_cidrs=tuple(self._read.get("service_cidrs", ())),
            kubeadm_config=core_objects.kubeadm_config(kubeadm, self._findings) if kubeadm else None,
            cluster_info=core_objects.cluster_info(info, self._findings) if info else None,
            windows_instances=tuple(self._read.get("windows_instances", ())),
            outside=tuple(self._outside),
            workloads=tuple(self._read.get("workloads", ())),
            namespaces=tuple(self._read.get("namespaces", ())),
            services=tuple(self._read.get("services", ())),
            infrastructure_clusters={
                (one.metadata.namespace or "", one.kind, one.metadata.name): one
                for one in self._read.get("infrastructure_clusters", ())
            },
            machine_addresses=cluster_api.addresses_of(self._read.get("machines", ())),
            windows_clusters=frozenset(
                cluster_api.with_windows(self._read.get("templates", ()), self._read.get("deployments", ()))
            ),
            unplaced=tuple(self._unplaced),
            findings=tuple(self._findings),
        )

    def _cluster(self, field: str) -> Any:
        """The one named `cluster`: OpenShift reads no other."""
        found = None
        for item in self._read.get(field, ()):
            if item.metadata.name == "cluster":
                found = item
            else:
                self._findings.append(item.place.warning(("metadata", "name"), "only the one named `cluster` is read"))
        return found


def _group_kind(value: dict[str, Any]) -> tuple[str, str]:
    return str(value.get("apiVersion", "")).rpartition("/")[0], str(value.get("kind"))


def _names_namespace(value: dict[str, Any]) -> bool:
    meta = value.get("metadata")
    return isinstance(meta, dict) and bool(meta.get("namespace"))


def _is(config_map: ConfigMap, namespace: str, name: str) -> bool:
    return (config_map.metadata.namespace, config_map.metadata.name) == (namespace, name)


def _below(locate: Locate, path: Path) -> Locate:
    return (lambda below: locate((*path, *below))) if path else locate


def _generated(value: dict[str, Any]) -> bool:
    """Whether the API server makes its name, so that nothing here can refer to it, and the same text makes many."""
    meta = value.get("metadata")
    return isinstance(meta, dict) and not meta.get("name") and isinstance(meta.get("generateName"), str)


def _name(value: dict[str, Any]) -> str:
    """The name as it is shown; `web-*` for one that is made of `generateName: web-`."""
    meta = value.get("metadata")
    if _generated(value):
        return f"{shown_name(value['metadata']['generateName'] + 'x').removesuffix('x')}*"
    return shown_name(meta.get("name") if isinstance(meta, dict) else None)


def _meta(value: dict[str, Any], decoder: Decoder, namespace: str | None) -> Meta:
    if _generated({"metadata": value}):
        value = {**value, "name": _name({"metadata": value})}
    meta = {key: value.get(key) for key in ("name", "labels", "annotations", "uid", "creationTimestamp", "generation")}
    read: Meta = decoder.struct(meta, Meta, ("metadata",))
    return Meta(read.name, namespace, read.labels, read.annotations, read.uid, read.creation_timestamp, read.generation)


def _spec(value: dict[str, Any], type_: Any, decoder: Decoder, field: str = "spec") -> Any:
    given = value.get(field)
    if given is None:
        return type_()
    read = decoder.struct(given, type_, (field,))
    return type_() if read is INVALID else read


def _unknown_fields(value: dict[str, Any], place: Place, findings: list[Finding]) -> None:
    for key in value:
        if key not in ("apiVersion", "kind", "metadata", "spec", "status"):
            message = "there is no such field; there are apiVersion, kind, metadata, spec"
            findings.append(place.error((shown_key(key),), message))


def _egress_proxy(value: dict[str, Any], meta: Meta, place: Place, decoder: Decoder, findings: list[Finding]) -> EgressProxy:
    _unknown_fields(value, place, findings)
    return EgressProxy(meta, place, _spec(value, EgressProxySpec, decoder))


def _windows_instance(
    value: dict[str, Any], meta: Meta, place: Place, decoder: Decoder, findings: list[Finding]
) -> WindowsInstance:
    _unknown_fields(value, place, findings)
    spec = value.get("spec")
    if isinstance(spec, dict) and isinstance(spec.get("keySecret"), str):
        # the short form: the Secret's name alone
        value = {**value, "spec": {**spec, "keySecret": {"name": spec["keySecret"]}}}
    return WindowsInstance(meta, place, _spec(value, WindowsInstanceSpec, decoder))


def _proxy(value: dict[str, Any], meta: Meta, place: Place, decoder: Decoder, findings: list[Finding]) -> Proxy:
    status = value.get("status")
    return Proxy(
        meta,
        place,
        _spec(value, ProxySpec, decoder),
        _spec(value, ProxyStatus, decoder, "status") if isinstance(status, dict) and status else None,
    )


def _service_cidr(value: dict[str, Any], meta: Meta, place: Place, decoder: Decoder, findings: list[Finding]) -> ServiceCIDR:
    cidrs = core_objects.texts(value, ("spec", "cidrs"), decoder)
    return ServiceCIDR(meta, place, cidrs)


_Read = Callable[[dict[str, Any], Meta, Place, Decoder, list[Finding]], Any]
_Kind = tuple[str, bool, _Read]
# group and kind -> the field of the collection, whether it is namespaced, and who reads it
_KINDS: Final[dict[tuple[str, str], _Kind]] = {
    ("transom.dev", "EgressProxy"): ("egress_proxies", False, _egress_proxy),
    ("transom.dev", "WindowsInstance"): ("windows_instances", True, _windows_instance),
    ("config.openshift.io", "Proxy"): ("proxies", False, _proxy),
    ("config.openshift.io", "Network"): ("networks", False, infrastructure.openshift_network),
    ("config.openshift.io", "Infrastructure"): ("infrastructures", False, infrastructure.openshift_infrastructure),
    ("", "Secret"): ("secrets", True, core_objects.secret),
    ("", "ConfigMap"): ("config_maps", True, core_objects.config_map),
    ("networking.k8s.io", "ServiceCIDR"): ("service_cidrs", False, _service_cidr),
    ("cluster.x-k8s.io", "Cluster"): ("clusters", True, cluster_api.cluster),
    **{
        (group, kind): ("infrastructure_clusters", True, infrastructure.cluster)
        for kind, (group, _) in infrastructure.KINDS.items()
    },
    ("cluster.x-k8s.io", "Machine"): ("machines", True, cluster_api.machine),
    ("cluster.x-k8s.io", "MachineDeployment"): ("deployments", True, cluster_api.deployment),
    ("bootstrap.cluster.x-k8s.io", "KubeadmConfigTemplate"): ("templates", True, cluster_api.template),
    ("", "Namespace"): ("namespaces", False, workloads.namespace),
    ("", "Service"): ("services", True, workloads.service),
    **dict.fromkeys(workloads.KINDS, ("workloads", True, workloads.workload)),
}
