"""The objects that settings are made of, as values: projections of what an API server or a file holds.

Field names are those of the objects in snake case. Secrets' values are `Secret` from the moment they are decoded.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

from transom.proxy.finding import Path, Place
from transom.proxy.secret import Secret

Scope = Literal["Services", "Machine", "Both"]
Restart = Literal["Rolling", "OnNextBoot", "Manual"]
Consumer = Literal["Nodes", "Apps", "Pods", "StaticPods"]


class Base(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What all of them have in common: camel case outside, snake case inside."""


class Meta(Base, frozen=True):
    """The fields of `metadata` that this package reads. `namespace` is None for cluster-scoped objects."""

    name: str = ""
    namespace: str | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    uid: str | None = None
    creation_timestamp: str | None = None
    generation: int | None = None


class NameReference(Base, frozen=True):
    """`{name: …}`, an object in a namespace that the reader knows."""

    name: str = ""


class Requirement(Base, frozen=True):
    """One of `matchExpressions` (apimachinery, LabelSelectorRequirement)."""

    key: str = ""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"] = "In"
    values: tuple[str, ...] = ()


class LabelSelector(Base, frozen=True):
    """A LabelSelector of apimachinery: all of its labels and expressions have to hold; an empty one selects everything."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return True if an object with these labels is selected."""
        return all(labels.get(key) == value for key, value in self.match_labels.items()) and all(
            _is_requirement_met(requirement, labels) for requirement in self.match_expressions
        )


def build_selector_value(selector: LabelSelector) -> dict[str, Any]:
    """Build the plain values of a selector for an API server: with each operator, and nothing empty."""
    made: dict[str, Any] = {}
    if selector.match_labels:
        made["matchLabels"] = dict(selector.match_labels)
    if selector.match_expressions:
        made["matchExpressions"] = [
            {"key": match_expression.key, "operator": match_expression.operator}
            | ({"values": list(match_expression.values)} if match_expression.values else {})
            for match_expression in selector.match_expressions
        ]
    return made


def _is_requirement_met(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value is not None and value in requirement.values
        case "NotIn":
            return value is None or value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None


class Platform(Base, frozen=True):
    """Where a cluster runs: what decides which addresses of the platform bypass the proxy."""

    type: str = ""
    region: str = ""
    cloud: str = ""
    arm_endpoint: str = ""


class Networks(Base, frozen=True):
    """The networks of a cluster; None or empty means unknown. CIDRs are kept verbatim."""

    dns_domain: str | None = None
    machine_network: tuple[str, ...] = ()
    service_network: tuple[str, ...] = ()
    pod_network: tuple[str, ...] = ()
    internal_api_host: str | None = msgspec.field(default=None, name="internalAPIHost")
    platform: Platform | None = None


class WindowsSettings(Base, frozen=True):
    """How Windows hosts get the settings."""

    environment_scope: Annotated[
        Scope,
        msgspec.Meta(
            description="Where Transom sets the variables: in the environment of each service, of the machine (effective after"
            " a reboot), or both."
        ),
    ] = "Services"
    services: tuple[str, ...] = ("containerd", "kubelet", "cloud-node-manager")
    restart: Annotated[
        Restart,
        msgspec.Meta(
            description="When Transom restarts services whose settings changed. Manual waits for `transom restart`,"
            " or for annotation transom.dev/restart on the instance."
        ),
    ] = "Rolling"
    win_http: Annotated[
        bool,
        msgspec.Meta(
            description="Whether Transom also sets WinHTTP's proxy, which Windows Update, Defender and revocation checks use."
        ),
    ] = msgspec.field(default=False, name="winHTTP")
    power_shell: Annotated[
        bool,
        msgspec.Meta(
            description="Whether Transom also sets the proxy of Windows PowerShell 5.1, without credentials, in the profile of"
            " all users."
        ),
    ] = False


class LinuxSettings(Base, frozen=True):
    """How Linux machines get the settings. `services` get a drop-in besides those that a template names."""

    environment_scope: Literal["Services", "Both"] = "Services"
    services: tuple[str, ...] = ()


class PodsSettings(Base, frozen=True):
    """Which namespaces' pods get the settings, and what of NO_PROXY; None is the webhook's default."""

    namespace_selector: LabelSelector | None = None
    ipv6_networks: Literal["Omit", "Keep"] | None = None
    service_names: Literal["Omit", "Add"] | None = None


class ValuesSettings(Base, frozen=True):
    """How the values objects of workload clusters, and the Secret of the drop-in, are called."""

    names: Literal["Own"] | None = None
    drop_in_name: Literal["Own"] | None = None


class PropagatedPods(Base, frozen=True):
    """Which namespaces' pods of workload clusters get the settings."""

    namespace_selector: LabelSelector | None = None


class PropagatedSettings(Base, frozen=True):
    """What workload clusters get as their own settings of these names."""

    pods: PropagatedPods | None = None


class AppReference(Base, frozen=True):
    """An object that reads the values objects."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""


class EgressProxySpec(Base, frozen=True):
    """`EgressProxy.spec`; None is not set. The URLs may hold userinfo, so they are secrets."""

    http_proxy: Secret | None = None
    https_proxy: Secret | None = None
    no_proxy: str | None = None
    credentials_secret: NameReference | None = None
    trusted_ca: NameReference | None = msgspec.field(default=None, name="trustedCA")
    readiness_endpoints: tuple[Secret, ...] | None = None
    readiness_policy: Literal["Gate", "Report"] | None = None
    windows: WindowsSettings | None = None
    linux: LinuxSettings | None = None
    consumers: tuple[Consumer, ...] | None = None
    pods: PodsSettings | None = None
    propagated: PropagatedSettings | None = None
    mode: Literal["Direct"] | None = None
    values: ValuesSettings | None = None
    networks: Networks | None = None
    cluster_selector: LabelSelector | None = None
    priority: int = 0
    rollout: Literal["Manual", "Automatic"] | None = None
    propagate: bool | None = None
    apps: tuple[AppReference, ...] = ()


class EgressProxy(Base, frozen=True):
    """`EgressProxy.transom.dev/v1alpha1`."""

    metadata: Meta
    place: Place
    spec: EgressProxySpec = EgressProxySpec()


class ProxySpec(Base, frozen=True):
    """`Proxy.config.openshift.io`, spec."""

    http_proxy: Secret | None = None
    https_proxy: Secret | None = None
    no_proxy: str | None = None
    readiness_endpoints: tuple[Secret, ...] | None = None
    trusted_ca: NameReference | None = msgspec.field(default=None, name="trustedCA")


class ProxyStatus(Base, frozen=True):
    """`Proxy.config.openshift.io`, status: written by the cluster's operator after it found the spec valid."""

    http_proxy: Secret | None = None
    https_proxy: Secret | None = None
    no_proxy: str | None = None


class Proxy(Base, frozen=True):
    """OpenShift's cluster-wide proxy. `status` is None where the object has none."""

    metadata: Meta
    place: Place
    spec: ProxySpec = ProxySpec()
    status: ProxyStatus | None = None


class SecretObject(Base, frozen=True):
    """A Kubernetes Secret. A value that is not text is None; `faulty` are keys of which a finding speaks already.

    `unresolved` are keys whose value is a placeholder of another tool, each with what to do; `encrypted`: SOPS has it.
    """

    metadata: Meta
    place: Place
    data: dict[str, Secret | None] = {}
    faulty: frozenset[str] = frozenset()
    unresolved: dict[str, str] = {}
    encrypted: bool = False


class ConfigMap(Base, frozen=True):
    """A Kubernetes ConfigMap; of `binaryData` the keys alone are here. `encrypted`: SOPS has it."""

    metadata: Meta
    place: Place
    data: dict[str, str] = {}
    binary: frozenset[str] = frozenset()
    encrypted: bool = False


class Cluster(Base, frozen=True):
    """A Cluster API `Cluster`: its networks and its endpoint, as far as known. `paused` is from `spec.paused`."""

    metadata: Meta
    place: Place
    api_version: str = ""
    services: tuple[str, ...] = ()
    pods: tuple[str, ...] = ()
    service_domain: str | None = None
    endpoint_host: str | None = None
    endpoint_port: int | None = None
    infrastructure: str | None = None
    """The kind of its infrastructure object, such as AWSCluster."""
    infrastructure_name: str | None = None
    control_plane: str | None = None
    """The kind of its control plane, such as KubeadmControlPlane."""
    control_plane_name: str | None = None
    overrides: dict[str, tuple[Place, Path]] = {}
    """Where its control plane sets `services`, `pods` or `service_domain`, which it does not take from the Cluster then."""

    @property
    def endpoint(self) -> str:
        """Return the API server's host:port; empty if it is unknown."""
        host = f"[{self.endpoint_host}]" if self.endpoint_host and ":" in self.endpoint_host else self.endpoint_host
        return f"{host}:{self.endpoint_port}" if host and self.endpoint_port else ""


class MachineObject(Base, frozen=True):
    """An object of Cluster API that says how machines are made, in plain values: they can hold secrets."""

    group: str
    kind: str
    name: str
    namespace: str
    place: Place
    spec: dict[str, Any]
    labels: dict[str, str] = {}
    version: str = ""
    inject: str = ""
    """Where it has `transom.dev/inject: "true"`: `labels` or `annotations`; empty: nowhere."""

    def __repr__(self) -> str:
        return f"MachineObject({self.place.object})"


class InfrastructureCluster(Base, frozen=True):
    """The object of a Cluster, in its namespace, that says where it runs and its machines' networks.

    It is the infrastructure's, or that of a managed control plane.
    """

    metadata: Meta
    place: Place
    kind: str = ""
    region: str = ""
    cloud: str = ""
    networks: tuple[str, ...] = ()


class OpenShiftNetwork(Base, frozen=True):
    """`Network.config.openshift.io/cluster`: status where it is set, else spec."""

    metadata: Meta
    place: Place
    cluster_network: tuple[str, ...] = ()
    service_network: tuple[str, ...] = ()


class Infrastructure(Base, frozen=True):
    """`Infrastructure.config.openshift.io/cluster`."""

    metadata: Meta
    place: Place
    api_server_internal_uri: str | None = None
    machine_networks: tuple[str, ...] = ()
    platform: Platform | None = None


class ServiceCIDR(Base, frozen=True):
    """`ServiceCIDR.networking.k8s.io`."""

    metadata: Meta
    place: Place
    cidrs: tuple[str, ...] = ()


class KubeadmConfig(Base, frozen=True):
    """`kube-system/kubeadm-config`, key ClusterConfiguration. Subnets as written: dual-stack ones are joined by commas."""

    place: Place
    pod_subnet: str | None = None
    service_subnet: str | None = None
    dns_domain: str | None = None


class ClusterInfo(Base, frozen=True):
    """`kube-public/cluster-info`: the server of its kubeconfig, None where it could not be read."""

    place: Place
    server: str | None = None


class SettingsObjects(Base, frozen=True):
    """Everything that the settings of all clusters are computed from."""

    namespace: str = "transom-system"
    """Transom's own: where the Secrets and ConfigMaps that an EgressProxy names are."""
    egress_proxies: tuple[EgressProxy, ...] = ()
    proxy: Proxy | None = None
    secrets: dict[tuple[str, str], SecretObject] = {}
    config_maps: dict[tuple[str, str], ConfigMap] = {}
    clusters: tuple[Cluster, ...] = ()
    infrastructure_clusters: dict[tuple[str, str, str], InfrastructureCluster] = {}
    """By namespace, kind and name."""
    network: OpenShiftNetwork | None = None
    infrastructure: Infrastructure | None = None
    service_cidrs: tuple[ServiceCIDR, ...] = ()
    kubeadm_config: KubeadmConfig | None = None
    cluster_info: ClusterInfo | None = None
    makers: dict[tuple[str, str, str], str] = {}
    """What makes a Secret or a ConfigMap in a cluster, such as `SealedSecret/a/b`, by kind, namespace and name of that."""
    machine_addresses: dict[tuple[str, str], tuple[str, ...]] = {}
    """The IP addresses of Cluster API's Machines, by namespace and name of their Cluster, where they were asked for."""
    machine_objects: tuple[MachineObject, ...] = ()
    """Cluster API's objects that were requested."""

    def find_infrastructure(self, cluster: Cluster) -> InfrastructureCluster | None:
        """Return the object with the location of a Cluster: its infrastructure, otherwise its control plane; or None."""
        references = (cluster.infrastructure, cluster.infrastructure_name), (cluster.control_plane, cluster.control_plane_name)
        keys = [(cluster.metadata.namespace or "", kind or "", name or "") for kind, name in references]
        return next((self.infrastructure_clusters[key] for key in keys if key in self.infrastructure_clusters), None)

    def find_secret(self, namespace: str, name: str) -> SecretObject | None:
        """Return the Secret with that name, or None."""
        return self.secrets.get((namespace, name))

    def describe_maker(self, kind: str, namespace: str, name: str) -> str:
        """Return the end of a sentence about a Secret or a ConfigMap that is not here and that a cluster would make."""
        maker = self.makers.get((kind, namespace, name)) or self.makers.get((kind, "", name))
        if maker is None:
            return ""
        return (
            f"; {maker} makes it, in a cluster alone: read it from there with --context, or add it to the files, "
            f"`kubectl get {kind.lower()} {name} -n {namespace} -o yaml | transom apply -f FILES -f -`"
        )

    def find_config_map(self, namespace: str, name: str) -> ConfigMap | None:
        """Return the ConfigMap with that name, or None."""
        return self.config_maps.get((namespace, name))
