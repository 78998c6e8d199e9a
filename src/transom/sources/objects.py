"""Objects as Transom reads them, from wherever they come: plain values in, typed structs and findings out. Pure."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from transom.common.escaping import NAME, escape_key, escape_name
from transom.proxy.finding import Finding, Path, Place
from transom.proxy.objects import (
    ConfigMap,
    EgressProxy,
    EgressProxySpec,
    MachineObject,
    Meta,
    Proxy,
    ProxySpec,
    ProxyStatus,
    SecretObject,
    ServiceCIDR,
    SettingsObjects,
)
from transom.proxy.placeholders import ENCRYPTED, is_encrypted, iter_unresolved, without_ciphertext
from transom.sources import cluster_api, core_objects, infrastructure, workloads
from transom.sources.core_objects import get_value_at
from transom.sources.decoding import INVALID, INVISIBLE, NO_BREAK_SPACE, Decoder
from transom.sources.workloads import DEFAULT_NAMESPACE, NamespaceObject, PodHolder, ServiceObject
from transom.windows.nodes.windows_instance import WindowsInstance, WindowsInstanceSpec, is_address

Locate = Callable[[Path], tuple[int, int]]


class OutsideInstance(NamedTuple):
    """A WindowsInstance outside Transom's namespace, which no operator manages; `why` is a sentence for people."""

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
        self._makers: dict[tuple[str, str, str], str] = {}
        self._machine_objects: list[MachineObject] = []

    @property
    def empty(self) -> bool:
        """Whether no object, valid or invalid, was read."""
        return not self._read and not self._findings

    def add_finding(self, finding: Finding) -> None:
        """Note what the reader of files found."""
        self._findings.append(finding)

    def add(self, value: Any, file: str, locate: Locate, path: Path = ()) -> None:
        """Take one object, or a list of them, in plain values. Kinds that Transom does not read are left out without a word.

        It is at `path` of a document in `file`; `locate` gives the line of a path there. What is wrong becomes a finding.
        """
        if not isinstance(value, dict):
            self._findings.append(Place(file, "", locate).build_error(path, "not a Kubernetes object: it must be a mapping"))
            return
        if is_encrypted(value) and not self._is_known(value):
            # SOPS encrypts all fields, kind and name too, unless configured otherwise
            self._findings.append(Place(file, "", locate).build_error((*path, "sops"), ENCRYPTED))
            return
        api_version, kind = value.get("apiVersion"), value.get("kind")
        if not isinstance(api_version, str) or not isinstance(kind, str) or not api_version or not kind:
            field = "apiVersion" if not isinstance(api_version, str) or not api_version else "kind"
            place = Place(file, "", locate)
            self._findings.append(place.build_error((*path, field), f"not a Kubernetes object: `{field}` is missing"))
            return
        if kind.endswith("List") and isinstance(value.get("items"), list):
            for index, item in enumerate(value["items"]):
                # the items of a typed list may leave both out
                implied = {} if kind == "List" else {"apiVersion": api_version, "kind": kind.removesuffix("List")}
                self.add({**implied, **item} if isinstance(item, dict) else item, file, locate, (*path, "items", index))
            return
        self._read_object(value, api_version, kind, file, _locate_below(locate, path))

    def _read_object(self, value: dict[str, Any], api_version: str, kind: str, file: str, locate: Locate) -> None:
        group, _, version = api_version.rpartition("/")
        read = _KINDS.get((group, kind))
        if group == _CLUSTER_API or group.endswith(f".{_CLUSTER_API}"):
            self._record_machine_object(value, api_version, kind, file, locate)
        if read is None:
            self._record_maker(value, group, kind)
            self._report_unknown_kind(value, group, kind, file, locate)
            return
        namespaced = read[1]
        namespace = self._get_namespace(value) if namespaced else None
        name = _get_name(value)
        place = Place(file, f"{kind}/{namespace}/{name}" if namespaced else f"{kind}/{name}", locate)
        if group == "transom.dev" and version != "v1alpha1":
            self._findings.append(place.build_error(("apiVersion",), "must be transom.dev/v1alpha1"))
            return
        if _has_generated_name(value):
            if (group, kind) in workloads.KINDS:
                self._decode_object(value, read, place, namespace, strict=False)
            elif group:
                self._findings.append(
                    place.build_error(("metadata", "generateName"), "give it a name: it is referred to by name")
                )
            return
        if not isinstance(value.get("metadata"), dict) or not isinstance(value["metadata"].get("name"), str):
            self._findings.append(place.build_error(("metadata", "name"), "the name is missing"))
            return
        self._report_placeholders(value, group, kind, place)
        if not NAME.match(value["metadata"]["name"]):
            self._findings.append(
                place.build_error(("metadata", "name"), "must be a DNS-1123 name: lower-case letters, digits, `-` and `.`")
            )
        key = (group, kind, namespace, value["metadata"]["name"])
        if key in self._seen:
            first = self._seen[key]
            line = first.locate(())[0]
            self._findings.append(
                place.build_error(("metadata", "name"), f"duplicate object: {first.file}, line {line} has it too; keep one")
            )
            return
        self._seen[key] = place
        if namespaced and not _has_namespace(value) and (group, kind) not in workloads.KINDS:
            self._unplaced.append(place)
        if (group, kind) == ("transom.dev", "WindowsInstance") and namespace != self._namespace:
            message = (
                f"is not {self._namespace}: apply and the operator skip this host; move it there, or name its namespace with -n"
            )
            self._findings.append(place.build_warning(("metadata", "namespace"), message))
            spec = value.get("spec")
            address = spec.get("address") if isinstance(spec, dict) else ""
            known = address if isinstance(address, str) and is_address(address) else "no address"
            self._outside.append(OutsideInstance(f"{namespace}/{name}", known, f"its namespace {message}"))
            return
        self._decode_object(value, read, place, namespace, strict=group == "transom.dev")

    def _report_unknown_kind(self, value: dict[str, Any], group: str, kind: str, file: str, locate: Locate) -> None:
        """Report a kind that does not exist in Transom's API group, or is a kind of the core API group in another case."""
        if (group, kind) == _PAYLOAD:
            message = "is a payload, which -f does not read: move it to a directory of its own"
            self._findings.append(Place(file, kind, locate).build_error(("kind",), message))
            return
        # in other groups, Transom knows only some of the kinds
        similar_kind = _find_similar_kind(group, kind) if group in ("transom.dev", "") else None
        if group != "transom.dev" and similar_kind is None:
            return
        message = f"unknown kind in {group or value['apiVersion']}"
        if group == "transom.dev":
            message += "; the kinds are EgressProxy and WindowsInstance"
        if similar_kind is not None:
            message += f"; did you mean `{similar_kind}`?"
        place = Place(file, f"{kind if kind.isalnum() else '(unknown kind)'}/{_get_name(value)}", locate)
        self._findings.append(place.build_error(("kind",), message))

    def _decode_object(
        self, value: dict[str, Any], read: "_Kind", place: Place, namespace: str | None, *, strict: bool
    ) -> None:
        field, _, function = read
        decoder = Decoder(place, self._findings, strict=strict)
        if is_encrypted(value):
            if field not in _OF_ANYBODY or namespace == self._namespace:
                self._findings.append(place.build_error(("sops",), ENCRYPTED))
            if field not in _OF_ANYBODY:
                value = without_ciphertext(value)
        meta = _read_metadata(value["metadata"], decoder, namespace)
        self._read.setdefault(field, []).append(function(value, meta, place, decoder, self._findings))

    def _is_known(self, value: dict[str, Any]) -> bool:
        group_kind = _group_kind(value)
        return group_kind in _KINDS or group_kind in _MAKERS

    def _report_placeholders(self, value: dict[str, Any], group: str, kind: str, place: Place) -> None:
        """Note the values of settings and hosts that another tool should have replaced."""
        if (group, kind) not in _RESOLVED or is_encrypted(value):
            return
        meta = {key: value["metadata"].get(key) for key in ("name", "namespace", "labels")}
        for path, message in iter_unresolved({"metadata": meta, "spec": value.get("spec")}):
            shown = tuple(escape_key(part) if isinstance(part, str) else part for part in path)
            self._findings.append(place.build_error(shown, message))

    def _record_maker(self, value: dict[str, Any], group: str, kind: str) -> None:
        """Note an object that makes a Secret or a ConfigMap once it is in a cluster."""
        maker = _MAKERS.get((group, kind))
        if maker is None:
            return
        made, target = maker
        name = get_value_at(value, target) if target else None
        name = name if isinstance(name, str) and name else _get_name(value)
        namespace = "" if made == "ConfigMap" else self._get_namespace(value)
        label = f"{kind}/{namespace}/{_get_name(value)}" if namespace else f"{kind}/{_get_name(value)}"
        self._makers.setdefault((made, namespace, name), label)

    def _record_machine_object(self, value: dict[str, Any], api_version: str, kind: str, file: str, locate: Locate) -> None:
        """Note an object of Cluster API, whatever its kind is: what makes machines, and who asks for entries."""
        meta, spec = value.get("metadata"), value.get("spec")
        if not isinstance(meta, dict) or not isinstance(meta.get("name"), str) or is_encrypted(value):
            return
        namespace, name = self._get_namespace(value), _get_name(value)
        fields = {where: meta.get(where) for where in ("labels", "annotations")}
        inject = (where for where, texts in fields.items() if isinstance(texts, dict) and texts.get(_INJECT) == "true")
        own_labels = fields["labels"] if isinstance(fields["labels"], dict) else {}
        labels = {key: text for key, text in own_labels.items() if isinstance(text, str)}
        shown_kind = kind if kind.isalnum() else "(unknown kind)"
        place = Place(file, f"{shown_kind}/{namespace}/{name}", locate)
        content = spec if isinstance(spec, dict) else {}
        group, _, version = api_version.rpartition("/")
        machine_object = MachineObject(group, shown_kind, name, namespace, place, content, labels, version, next(inject, ""))
        self._machine_objects.append(machine_object)

    def format_label(self, value: Any) -> str:
        """Return an object's label in findings: `Kind/name` or `Kind/namespace/name`; empty if it has none."""
        kind = value.get("kind") if isinstance(value, dict) else None
        group = str(value.get("apiVersion", "")).rpartition("/")[0] if kind else ""
        if not isinstance(kind, str) or not kind.isalnum():
            return ""
        read = _KINDS.get((group, kind))
        return (
            f"{kind}/{self._get_namespace(value)}/{_get_name(value)}"
            if read is None or read[1]
            else f"{kind}/{_get_name(value)}"
        )

    def _get_namespace(self, value: dict[str, Any]) -> str:
        meta = value.get("metadata")
        namespace = meta.get("namespace") if isinstance(meta, dict) else None
        if namespace is None or namespace == "":
            return DEFAULT_NAMESPACE if _group_kind(value) in workloads.KINDS else self._namespace
        return escape_name(namespace)

    def build_objects(self) -> Objects:
        """All that was read."""
        secrets: list[SecretObject] = self._read.get("secrets", [])
        config_maps: list[ConfigMap] = self._read.get("config_maps", [])
        kubeadm = next((c for c in config_maps if _is_named(c, "kube-system", "kubeadm-config")), None)
        info = next((c for c in config_maps if _is_named(c, "kube-public", "cluster-info")), None)
        clusters = cluster_api.with_networking(self._read.get("clusters", ()), self._machine_objects, self._findings)
        return Objects(
            namespace=self._namespace,
            egress_proxies=tuple(self._read.get("egress_proxies", ())),
            proxy=self._get_cluster_object("proxies"),
            secrets={(s.metadata.namespace or "", s.metadata.name): s for s in secrets},
            config_maps={(c.metadata.namespace or "", c.metadata.name): c for c in config_maps},
            clusters=clusters,
            network=self._get_cluster_object("networks"),
            infrastructure=self._get_cluster_object("infrastructures"),
            service_cidrs=tuple(self._read.get("service_cidrs", ())),
            kubeadm_config=core_objects.read_kubeadm_config(kubeadm, self._findings) if kubeadm else None,
            cluster_info=core_objects.read_cluster_info(info, self._findings) if info else None,
            windows_instances=tuple(self._read.get("windows_instances", ())),
            outside=tuple(self._outside),
            workloads=tuple(self._read.get("workloads", ())),
            namespaces=tuple(self._read.get("namespaces", ())),
            services=tuple(self._read.get("services", ())),
            infrastructure_clusters={
                (
                    infrastructure_cluster.metadata.namespace or "",
                    infrastructure_cluster.kind,
                    infrastructure_cluster.metadata.name,
                ): infrastructure_cluster
                for infrastructure_cluster in self._read.get("infrastructure_clusters", ())
            },
            machine_addresses=cluster_api.group_machine_addresses(self._read.get("machines", ())),
            windows_clusters=frozenset(
                cluster_api.iter_windows_clusters(self._read.get("templates", ()), self._read.get("deployments", ()))
            ),
            unplaced=tuple(self._unplaced),
            findings=tuple(self._findings),
            makers=dict(self._makers),
            machine_objects=tuple(self._machine_objects),
        )

    def _get_cluster_object(self, field: str) -> Any:
        """Return the object named `cluster`, the only one that OpenShift reads."""
        cluster_object = None
        for item in self._read.get(field, ()):
            if item.metadata.name == "cluster":
                cluster_object = item
            else:
                self._findings.append(item.place.build_warning(("metadata", "name"), "only the one named `cluster` is read"))
        return cluster_object


def _group_kind(value: dict[str, Any]) -> tuple[str, str]:
    return str(value.get("apiVersion", "")).rpartition("/")[0], str(value.get("kind"))


def _find_similar_kind(group: str, kind: str) -> str | None:
    """Return the kind that a mistyped one most likely is; in the core API group, only one in another case or in the plural."""
    from difflib import get_close_matches

    kinds = {name.casefold(): name for known_group, name in _KINDS if known_group == group}
    if group:
        close = get_close_matches(kind[:64].casefold(), kinds, 1)
        return kinds[close[0]] if close else None
    spelled = kind.casefold()
    return kinds.get(spelled) or kinds.get(spelled.removesuffix("s"))


def _has_namespace(value: dict[str, Any]) -> bool:
    meta = value.get("metadata")
    return isinstance(meta, dict) and bool(meta.get("namespace"))


def _is_named(config_map: ConfigMap, namespace: str, name: str) -> bool:
    return (config_map.metadata.namespace, config_map.metadata.name) == (namespace, name)


def _locate_below(locate: Locate, path: Path) -> Locate:
    return (lambda below: locate((*path, *below))) if path else locate


def _has_generated_name(value: dict[str, Any]) -> bool:
    """Return True if the API server generates the name, so that no reference is possible and names may repeat."""
    meta = value.get("metadata")
    return isinstance(meta, dict) and not meta.get("name") and isinstance(meta.get("generateName"), str)


def _get_name(value: dict[str, Any]) -> str:
    """Return the name for messages; `web-*` for `generateName: web-`."""
    meta = value.get("metadata")
    if _has_generated_name(value):
        return f"{escape_name(value['metadata']['generateName'] + 'x').removesuffix('x')}*"
    return escape_name(meta.get("name") if isinstance(meta, dict) else None)


def _read_metadata(value: dict[str, Any], decoder: Decoder, namespace: str | None) -> Meta:
    if _has_generated_name({"metadata": value}):
        value = {**value, "name": _get_name({"metadata": value})}
    meta = {key: value.get(key) for key in ("name", "labels", "annotations", "uid", "creationTimestamp", "generation")}
    read: Meta = decoder.decode_struct(meta, Meta, ("metadata",))
    return Meta(read.name, namespace, read.labels, read.annotations, read.uid, read.creation_timestamp, read.generation)


def _read_spec(value: dict[str, Any], type_: Any, decoder: Decoder, field: str = "spec") -> Any:
    spec = value.get(field)
    if spec is None:
        return type_()
    read = decoder.decode_struct(spec, type_, (field,))
    return type_() if read is INVALID else read


def _report_unknown_fields(value: dict[str, Any], place: Place, findings: list[Finding]) -> None:
    for key in value:
        if key not in ("apiVersion", "kind", "metadata", "spec", "status"):
            message = "unknown field; the fields are apiVersion, kind, metadata, spec"
            if any(item in key for item in INVISIBLE):
                message = NO_BREAK_SPACE
            findings.append(place.build_error((escape_key(key),), message, at=(key,)))


def _read_egress_proxy(
    value: dict[str, Any], meta: Meta, place: Place, decoder: Decoder, findings: list[Finding]
) -> EgressProxy:
    _report_unknown_fields(value, place, findings)
    return EgressProxy(meta, place, _read_spec(value, EgressProxySpec, decoder))


def _read_windows_instance(
    value: dict[str, Any], meta: Meta, place: Place, decoder: Decoder, findings: list[Finding]
) -> WindowsInstance:
    _report_unknown_fields(value, place, findings)
    spec = value.get("spec")
    if isinstance(spec, dict) and isinstance(spec.get("keySecret"), str):
        # the short form: the Secret's name alone
        value = {**value, "spec": {**spec, "keySecret": {"name": spec["keySecret"]}}}
    return WindowsInstance(meta, place, _read_spec(value, WindowsInstanceSpec, decoder))


def _read_proxy(value: dict[str, Any], meta: Meta, place: Place, decoder: Decoder, findings: list[Finding]) -> Proxy:
    status = value.get("status")
    return Proxy(
        meta,
        place,
        _read_spec(value, ProxySpec, decoder),
        _read_spec(value, ProxyStatus, decoder, "status") if isinstance(status, dict) and status else None,
    )


def _read_service_cidr(
    value: dict[str, Any], meta: Meta, place: Place, decoder: Decoder, findings: list[Finding]
) -> ServiceCIDR:
    cidrs = core_objects.read_strings(value, ("spec", "cidrs"), decoder)
    return ServiceCIDR(meta, place, cidrs)


_CLUSTER_API: Final = "cluster.x-k8s.io"
_INJECT: Final = "transom.dev/inject"
_PAYLOAD: Final = ("transom.dev", "Payload")
_RESOLVED: Final = frozenset(
    (("transom.dev", "EgressProxy"), ("transom.dev", "WindowsInstance"), ("config.openshift.io", "Proxy"))
)
"""Kinds whose every value has to be what is meant; the values of Secrets and ConfigMaps are looked at where they are used."""
_OF_ANYBODY: Final = frozenset(("secrets", "config_maps", "workloads", "services", "namespaces"))
"""Kinds that other programs use, too: Transom ignores encrypted ones of other programs."""
# bitnami-labs/sealed-secrets; external-secrets.io, "ExternalSecret"; developer.hashicorp.com, "Vault Secrets Operator, API";
# developer.1password.com, "Kubernetes Operator"; cert-manager.io, "trust-manager, API"
_MAKERS: Final[dict[tuple[str, str], tuple[str, Path]]] = {
    ("bitnami.com", "SealedSecret"): ("Secret", ("spec", "template", "metadata", "name")),
    ("external-secrets.io", "ExternalSecret"): ("Secret", ("spec", "target", "name")),
    ("secrets.hashicorp.com", "VaultStaticSecret"): ("Secret", ("spec", "destination", "name")),
    ("secrets.hashicorp.com", "VaultDynamicSecret"): ("Secret", ("spec", "destination", "name")),
    ("onepassword.com", "OnePasswordItem"): ("Secret", ()),
    ("trust.cert-manager.io", "Bundle"): ("ConfigMap", ()),
}
"""Kinds that make a Secret or a ConfigMap in a cluster: which of them, and the field with its name, else it has theirs."""
_Read = Callable[[dict[str, Any], Meta, Place, Decoder, list[Finding]], Any]
_Kind = tuple[str, bool, _Read]
# group and kind -> the field of the collection, whether it is namespaced, and who reads it
_KINDS: Final[dict[tuple[str, str], _Kind]] = {
    ("transom.dev", "EgressProxy"): ("egress_proxies", False, _read_egress_proxy),
    ("transom.dev", "WindowsInstance"): ("windows_instances", True, _read_windows_instance),
    ("config.openshift.io", "Proxy"): ("proxies", False, _read_proxy),
    ("config.openshift.io", "Network"): ("networks", False, infrastructure.read_openshift_network),
    ("config.openshift.io", "Infrastructure"): ("infrastructures", False, infrastructure.read_openshift_infrastructure),
    ("", "Secret"): ("secrets", True, core_objects.read_secret),
    ("", "ConfigMap"): ("config_maps", True, core_objects.read_config_map),
    ("networking.k8s.io", "ServiceCIDR"): ("service_cidrs", False, _read_service_cidr),
    ("cluster.x-k8s.io", "Cluster"): ("clusters", True, cluster_api.read_cluster),
    **{
        (group, kind): ("infrastructure_clusters", True, infrastructure.read_infrastructure_cluster)
        for kind, (group, _) in infrastructure.KINDS.items()
    },
    ("cluster.x-k8s.io", "Machine"): ("machines", True, cluster_api.read_machine),
    ("cluster.x-k8s.io", "MachineDeployment"): ("deployments", True, cluster_api.read_machine_deployment),
    ("bootstrap.cluster.x-k8s.io", "KubeadmConfigTemplate"): ("templates", True, cluster_api.read_kubeadm_template),
    ("", "Namespace"): ("namespaces", False, workloads.read_namespace),
    ("", "Service"): ("services", True, workloads.read_service),
    **dict.fromkeys(workloads.KINDS, ("workloads", True, workloads.read_workload)),
}
