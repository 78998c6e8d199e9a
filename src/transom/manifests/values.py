"""The values of an installation: one object, for `transom manifests --values`, the chart and its schema."""

import re
from collections.abc import Mapping
from itertools import combinations
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from transom import __version__
from transom.manifests.roles import CONTROLLERS, GRANTS
from transom.manifests.roles import parse_controllers as controllers_named

_NAME = r"[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*"
_PLACE = rf"([A-Za-z0-9.-]+|\[[0-9a-fA-F:]+\])(:[0-9]+)?(/{_NAME})*"
_VERSION = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}"
_HASH = r"sha256:[0-9a-f]{64}"
_PART, _REGISTRY, _TAG, _DIGEST = rf"^{_NAME}(/{_NAME})*$", f"^{_PLACE}$", f"^{_VERSION}$", f"^{_HASH}$"
REFERENCE = f"^{_PLACE}(:{_VERSION})?(@{_HASH})?$"
"""An image as the distribution project writes it (github.com/distribution/reference, reference.go), not so strict."""


def _allow_empty(pattern: str) -> str:
    return f"^$|{pattern}"


_ACCOUNT: Final = r"^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$"
RESERVED: Final = (
    "app.kubernetes.io/name",
    "app.kubernetes.io/component",
    "app.kubernetes.io/instance",
    "app.kubernetes.io/managed-by",
    "app.kubernetes.io/version",
    "helm.sh/chart",
)
"""The labels that Transom sets itself. Selectors contain the first two."""
LABELS: Final = ("commonLabels", "operator.podLabels", "webhook.podLabels", "metrics.labels", "metrics.dashboardLabels")
"""The values that are labels."""
Object = dict[str, Any]
Texts = dict[str, str]


def _build_probe(path: str, period: int) -> Object:
    return {"httpGet": {"path": path, "port": "http"}, "periodSeconds": period, "timeoutSeconds": 5}


class Image(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The image that the operator and the admission server run."""

    registry: Annotated[
        str,
        Meta(description="Registry, with an optional path, such as registry.example/team.", pattern=_allow_empty(_REGISTRY)),
    ] = ""
    name: Annotated[str, Meta(description="Repository in the registry.", pattern=_PART)] = "transom"
    tag: Annotated[str, Meta(description="Tag.", pattern=_allow_empty(_TAG))] = msgspec.field(
        default_factory=lambda: __version__
    )
    digest: Annotated[
        str, Meta(description="Digest (sha256:…), which takes precedence over the tag.", pattern=_allow_empty(_DIGEST))
    ] = ""
    pull_policy: Annotated[
        Literal["", "Always", "IfNotPresent", "Never"],
        Meta(description="If empty, the cluster decides: Always for `latest`, IfNotPresent otherwise."),
    ] = ""


class GlobalValues(msgspec.Struct, frozen=True, rename="camel"):
    """The values that a parent chart shares with all its charts. Transom reads these two and ignores those of other charts."""

    image_registry: Annotated[
        str, Meta(description="Registry of the image if `image.registry` is empty.", pattern=_allow_empty(_REGISTRY))
    ] = ""
    image_pull_secrets: Annotated[
        list[str | Texts], Meta(description="Secrets for the registry, in addition to `imagePullSecrets`: names, or - name: …")
    ] = []


class Resources(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """What a container asks for, and has at most: quantities of Kubernetes."""

    requests: Annotated[dict[str, str | int | float], Meta(description="Resource requests.")] = {}
    limits: Annotated[dict[str, str | int | float], Meta(description="Resource limits.")] = {}


class ServiceAccount(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The ServiceAccount of the pods."""

    create: Annotated[bool, Meta(description="Create the ServiceAccount. If false, it must exist.")] = True
    name: Annotated[str, Meta(description="Name of the ServiceAccount.", pattern=_ACCOUNT)] = "transom"
    annotations: Annotated[Texts, Meta(description="Annotations of the ServiceAccount.")] = {}


class Workload(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """How the pods of a Deployment run."""

    replicas: Annotated[
        int, Meta(description="Number of replicas. One is active, and another takes over if it fails.", ge=0, le=100)
    ] = 2
    annotations: Annotated[Texts, Meta(description="Annotations of the Deployment.")] = {}
    pod_annotations: Annotated[Texts, Meta(description="Annotations of the pods.")] = {}
    pod_labels: Annotated[Texts, Meta(description="Additional labels of the pods.")] = {}
    service_account: ServiceAccount = ServiceAccount()
    pod_disruption_budget: Annotated[
        bool, Meta(description="Create a PodDisruptionBudget that permits one unavailable pod.")
    ] = True
    resources: Resources = Resources()
    node_selector: Annotated[Texts, Meta(description="Node selector.")] = msgspec.field(
        default_factory=lambda: {"kubernetes.io/os": "linux"}
    )
    tolerations: Annotated[list[Object], Meta(description="Tolerations.")] = []
    affinity: Annotated[Object, Meta(description="Affinity.")] = {}
    topology_spread_constraints: Annotated[
        list[Object], Meta(description="Topology spread constraints. If empty, the pods prefer different nodes.")
    ] = []
    priority_class_name: Annotated[str, Meta(description="PriorityClass.")] = ""
    pod_security_context: Annotated[Object, Meta(description="Pod security context.")] = msgspec.field(
        default_factory=lambda: {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    )
    security_context: Annotated[Object, Meta(description="Container security context.")] = msgspec.field(
        # no runAsUser: OpenShift gives each namespace its own users, and elsewhere the image names one that is not root
        default_factory=lambda: {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "privileged": False,
            "readOnlyRootFilesystem": True,
        }
    )
    liveness_probe: Annotated[Object, Meta(description="Liveness probe.")] = msgspec.field(
        default_factory=lambda: _build_probe("/healthz", 20)
    )
    readiness_probe: Annotated[Object, Meta(description="Readiness probe.")] = msgspec.field(
        default_factory=lambda: _build_probe("/readyz", 5)
    )
    startup_probe: Annotated[Object, Meta(description="Startup probe.")] = msgspec.field(
        default_factory=lambda: _build_probe("/healthz", 2) | {"failureThreshold": 30}
    )
    extra_volumes: Annotated[list[Object], Meta(description="Additional volumes.")] = []
    extra_volume_mounts: Annotated[list[Object], Meta(description="Additional volume mounts of Transom's container.")] = []
    extra_containers: Annotated[list[Object], Meta(description="Additional containers.")] = []
    extra_init_containers: Annotated[list[Object], Meta(description="Additional init containers.")] = []
    arguments: Annotated[
        list[Annotated[str, Meta(pattern="^--[a-z]")]],
        Meta(description="Additional options of the command, such as --log-level=debug."),
    ] = []
    environment: Annotated[list[Object], Meta(description="Additional environment variables (name, value).")] = []


class Payload(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """What hosts of lifecycle Node get: a directory with payload.yaml, at /payload in the operator's pods."""

    image: Annotated[
        str,
        Meta(
            description="An image with the payload, mounted as a volume. Requires Kubernetes 1.35.",
            pattern=_allow_empty(REFERENCE),
        ),
    ] = ""
    copied: Annotated[
        bool,
        Meta(
            description="Copy the payload from the image with an init container, for Kubernetes before 1.35."
            " The image must be based on Transom's."
        ),
    ] = False
    kubeadm: Annotated[
        str,
        Meta(
            description="A Kubernetes version, such as v1.36.3. Each pod downloads kubeadm's payload through the proxy.",
            pattern=_allow_empty(r"^v1\.[0-9]+\.[0-9]+$"),
        ),
    ] = ""
    cni: Annotated[Literal["calico", "flannel", "none"], Meta(description="The network plugin of the `kubeadm` payload.")] = (
        "calico"
    )
    volume: Annotated[
        Object, Meta(description="A volume with the payload, as in a pod: persistentVolumeClaim: {claimName: …}.")
    ] = {}


class AdmissionServer(Workload, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """How the admission server's pods run, and the failure policy."""

    replicas: Annotated[int, Meta(description="Number of replicas, all of which serve requests.", ge=0, le=100)] = 2
    always: Annotated[bool, Meta(description="Run the admission server even if the controller `pods` does not run.")] = False
    failure_policy: Annotated[
        Literal["Ignore", "Fail"],
        Meta(description="Whether pods start without the settings (Ignore) or do not start (Fail) while no replica answers."),
    ] = "Ignore"
    timeout_seconds: Annotated[
        int, Meta(description="How long the API server waits for an answer, in seconds.", ge=1, le=30)
    ] = 5
    port: Annotated[
        int,
        Meta(
            description="The port of the pods. Private GKE clusters permit only 443 and 10250 from the API server.",
            ge=1024,
            le=65535,
        ),
    ] = 9443
    metrics_port: Annotated[int, Meta(description="Port of metrics and probes.", ge=1024, le=65535)] = 8080
    host_network: Annotated[
        bool,
        Meta(
            description="Run the pods in the network of their node, for an API server that cannot reach pods, such as EKS with"
            " another network plugin. Requires `podSecurity` to be privileged or empty."
        ),
    ] = False
    issuer: Annotated[
        Texts,
        Meta(description="A cert-manager issuer (name, kind, group) for the certificate. If empty, Transom issues it."),
    ] = {}


class Metrics(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Who reads the metrics, and how."""

    proxy: Annotated[
        str,
        Meta(
            description="An image of kube-rbac-proxy, which adds TLS and authorization to the metrics.",
            pattern=_allow_empty(REFERENCE),
        ),
    ] = ""
    service_monitor: Annotated[bool, Meta(description="Create ServiceMonitors. Requires the Prometheus operator.")] = False
    alerts: Annotated[
        bool, Meta(description="Create a PrometheusRule with the alerts of docs/metrics.md. Requires the Prometheus operator.")
    ] = False
    labels: Annotated[
        Texts,
        Meta(
            description="Labels of the ServiceMonitors and the PrometheusRule. kube-prometheus-stack selects"
            " `release: NAME` with the name of its release.",
        ),
    ] = {}
    annotations: Annotated[Texts, Meta(description="Annotations of the ServiceMonitors and the PrometheusRule.")] = {}
    namespace: Annotated[
        str,
        Meta(
            description="The namespace of the ServiceMonitors, the PrometheusRule and the dashboard. If empty, Transom's.",
            pattern=_allow_empty(_ACCOUNT),
        ),
    ] = ""
    interval: Annotated[
        str,
        Meta(description="Scrape interval, such as 30s. If empty, Prometheus decides.", pattern=r"^([0-9]+(ms|[smh]))*$"),
    ] = ""
    runbook_url: Annotated[
        str,
        Meta(
            description="The address of the runbooks, such as https://docs.example/transom/runbooks, for the annotation"
            " `runbook_url` of the alerts. If empty, none.",
            pattern=r"^$|^https?://[^\s\"]+[^\s\"/]$",
        ),
    ] = ""
    dashboard: Annotated[bool, Meta(description="Create a ConfigMap with the Grafana dashboard, for Grafana's sidecar.")] = (
        False
    )
    dashboard_labels: Annotated[Texts, Meta(description="Labels of that ConfigMap, which the sidecar selects.")] = (
        msgspec.field(default_factory=lambda: {"grafana_dashboard": "1"})
    )
    dashboard_annotations: Annotated[Texts, Meta(description="Annotations of that ConfigMap, such as the folder.")] = {}


class Values(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """All values of an installation of Transom. Omitted values have their defaults."""

    shared: GlobalValues = msgspec.field(name="global", default=GlobalValues())
    enabled: Annotated[
        bool, Meta(description="For the `condition` of a parent chart, which installs Transom only if true.")
    ] = True
    image: Image = Image()
    image_pull_secrets: Annotated[
        list[Texts], Meta(description="Secrets for the registry, in Transom's namespace, as in a pod: - name: …")
    ] = []
    controllers: Annotated[
        list[str],
        Meta(
            description="Controllers to run and grant rights to: egress, windows, fleet, pods, or their members.",
            min_length=1,
        ),
    ] = msgspec.field(default_factory=lambda: ["egress", "windows", "pods"])
    openshift: Annotated[bool, Meta(description="Create roles in OpenShift's namespaces, and expose host metrics.")] = False
    require_host_keys: Annotated[bool, Meta(description="Refuse to connect to hosts whose key is unknown.")] = False
    definitions: Annotated[
        bool, Meta(description="Create the CRDs EgressProxy and WindowsInstance. `helm uninstall` keeps them.")
    ] = True
    pod_security: Annotated[
        Literal["restricted", "baseline", "privileged", ""],
        Meta(description="The Pod Security level of Transom's Namespace. If empty, none. The chart creates no Namespace."),
    ] = "restricted"
    network_policy: Annotated[bool, Meta(description="Create NetworkPolicies that restrict access to Transom's pods.")] = True
    admission_policies: Annotated[
        bool, Meta(description="Create ValidatingAdmissionPolicies that restrict Transom. Requires Kubernetes 1.30.")
    ] = True
    aggregated_roles: Annotated[bool, Meta(description="Add Transom's kinds to the ClusterRoles view, edit and admin.")] = True
    common_labels: Annotated[Texts, Meta(description="Additional labels of all objects and pods.")] = {}
    common_annotations: Annotated[Texts, Meta(description="Annotations of all objects.")] = {}
    extra_objects: Annotated[list[Object], Meta(description="Additional objects to create, as manifests.")] = []
    payload: Payload = Payload()
    metrics: Metrics = Metrics()
    operator: Workload = msgspec.field(
        default_factory=lambda: Workload(
            resources=Resources({"cpu": "50m", "memory": "128Mi"}, {"memory": "384Mi"}),
        )
    )
    webhook: AdmissionServer = msgspec.field(
        default_factory=lambda: AdmissionServer(
            resources=Resources({"cpu": "50m", "memory": "64Mi"}, {"memory": "192Mi"}),
            priority_class_name="transom-webhook",
            service_account=ServiceAccount(name="transom-webhook"),
        )
    )

    def __post_init__(self) -> None:
        controllers_named(",".join(self.controllers))
        ways = [name for name in ("image", "volume", "kubeadm") if getattr(self.payload, name)]
        if len(ways) > 1:
            raise ValueError(f"`payload` has {' and '.join(ways)}: give one of them")
        if self.payload.copied and not self.payload.image:
            raise ValueError("`payload.copied` requires `payload.image`: set it")
        if not self.enabled:
            raise ValueError("`enabled` is for the `condition` of a parent chart: it must be true here")
        if self.webhook.host_network and self.pod_security not in ("privileged", ""):
            raise ValueError("`webhook.hostNetwork` requires `podSecurity` to be privileged or empty: set it")
        if self.webhook.port == self.webhook.metrics_port:
            raise ValueError("`webhook.port` and `webhook.metricsPort` must differ")
        if self.operator.service_account.name == self.webhook.service_account.name:
            raise ValueError("`operator.serviceAccount.name` and `webhook.serviceAccount.name` must differ")
        for place in LABELS:
            labels: Any = self
            for name in place.split("."):
                labels = getattr(labels, re.sub("[A-Z]", lambda item: f"_{item[0].lower()}", name))
            if reserved := sorted(set(labels) & set(RESERVED)):
                raise ValueError(f"`{place}`: Transom sets label {reserved[0]} itself: remove it")


class ValuesInvalid(Exception):
    """Values that cannot be: the message names the field, with `$` for the whole."""


def read_values(overrides: Any) -> Values:
    """Return the given YAML data merged over the defaults. As in Helm, null removes a default.

    Raises:
        ValuesInvalid: a field that there is not, or a value that it does not take.
    """
    try:
        return msgspec.convert(_merge_over(to_json_data(Values()), overrides), Values)
    except msgspec.ValidationError as error:
        raise ValuesInvalid(str(error)) from None


def to_json_data(values: Values) -> dict[str, Any]:
    """Values as JSON data, every field there."""
    data: dict[str, Any] = msgspec.to_builtins(values)
    return data


def _merge_over(default: Any, overrides: Any) -> Any:
    if not isinstance(default, Mapping) or not isinstance(overrides, Mapping):
        return overrides
    merged = {**default, **{name: _merge_over(default.get(name), value) for name, value in overrides.items()}}
    return {name: value for name, value in merged.items() if value is not None}


def build_values_schema() -> dict[str, Any]:
    """Build the JSON Schema of the values. It allows `global`, which parent charts add and which has no effect."""
    _, definitions = msgspec.json.schema_components([Values], ref_template="#/$defs/{name}")
    root = definitions.pop("Values")
    ways: dict[str, dict[str, int]] = {"image": {"minLength": 1}, "volume": {"minProperties": 1}, "kubeadm": {"minLength": 1}}
    two = [{"properties": {a: ways[a], b: ways[b]}, "required": [a, b]} for a, b in combinations(ways, 2)]
    nothing = {"properties": {"image": {"maxLength": 0}, "copied": {"const": True}}, "required": ["image", "copied"]}
    definitions["Payload"]["not"] = {"anyOf": [*two, nothing]}
    definitions["GlobalValues"]["description"] = GlobalValues.__doc__
    names = list(dict.fromkeys([*CONTROLLERS, *GRANTS]))
    root["properties"]["controllers"] = {**root["properties"]["controllers"], "items": {"enum": names}}
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return {**head, **root, "$defs": definitions}
