"""What people choose when they install Transom: one object, for `transom manifests --values`, the chart and its schema."""

from collections.abc import Mapping
from itertools import combinations
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from transom import __version__
from transom.manifests.roles import CONTROLLERS, GRANTS
from transom.manifests.roles import controllers as controllers_named

_NAME = r"[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*"
_PLACE = rf"([A-Za-z0-9.-]+|\[[0-9a-fA-F:]+\])(:[0-9]+)?(/{_NAME})*"
_VERSION = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}"
_HASH = r"sha256:[0-9a-f]{64}"
_PART, _REGISTRY, _TAG, _DIGEST = rf"^{_NAME}(/{_NAME})*$", f"^{_PLACE}$", f"^{_VERSION}$", f"^{_HASH}$"
REFERENCE = f"^{_PLACE}(:{_VERSION})?(@{_HASH})?$"
"""An image as the distribution project writes it (github.com/distribution/reference, reference.go), not so strict."""


def _or_empty(pattern: str) -> str:
    return f"^$|{pattern}"


Object = dict[str, Any]
Texts = dict[str, str]


class Image(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The image that the operator and the admission server run."""

    registry: Annotated[
        str, Meta(description="Registry, with a path where it has one: registry.example/team.", pattern=_or_empty(_REGISTRY))
    ] = ""
    name: Annotated[str, Meta(description="The repository in it.", pattern=_PART)] = "transom"
    tag: Annotated[str, Meta(description="The version.", pattern=_or_empty(_TAG))] = msgspec.field(
        default_factory=lambda: __version__
    )
    digest: Annotated[str, Meta(description="sha256:…; it decides where it is given.", pattern=_or_empty(_DIGEST))] = ""
    pull_policy: Annotated[
        Literal["", "Always", "IfNotPresent", "Never"],
        Meta(description="Empty: as the cluster decides, Always for `latest` and IfNotPresent else."),
    ] = ""


class Resources(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """What a container asks for, and has at most: quantities of Kubernetes."""

    requests: dict[str, str | int | float] = {}
    limits: dict[str, str | int | float] = {}


class Workload(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """How the pods of a Deployment run."""

    replicas: Annotated[int, Meta(description="One works, the others take over.", ge=0, le=100)] = 2
    resources: Resources = Resources()
    node_selector: Annotated[Texts, Meta(description="Labels of the nodes that pods may run on.")] = msgspec.field(
        default_factory=lambda: {"kubernetes.io/os": "linux"}
    )
    tolerations: Annotated[list[Object], Meta(description="As in a pod.")] = []
    priority_class_name: Annotated[str, Meta(description="Empty: none.")] = ""
    arguments: Annotated[
        list[Annotated[str, Meta(pattern="^--[a-z]")]],
        Meta(description="Further options, each with its value: --check-interval=1h."),
    ] = []
    environment: Annotated[list[Object], Meta(description="Further variables, as in a container: name, value.")] = []


class Payload(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """What hosts of lifecycle Node get: a directory with payload.yaml, at /payload in the operator's pods."""

    image: Annotated[
        str,
        Meta(description="An image that has it, mounted as a volume: Kubernetes 1.35.", pattern=_or_empty(REFERENCE)),
    ] = ""
    copied: Annotated[
        bool,
        Meta(description="Have an init container copy it out of the image, on older ones; it is made upon Transom's own."),
    ] = False
    kubeadm: Annotated[
        str,
        Meta(
            description="A version of Kubernetes, v1.36.3: each pod fetches kubeadm's shipped payload, through the proxy.",
            pattern=_or_empty(r"^v1\.[0-9]+\.[0-9]+$"),
        ),
    ] = ""
    cni: Annotated[Literal["calico", "flannel", "none"], Meta(description="Of `kubeadm`.")] = "calico"
    volume: Annotated[
        Object, Meta(description="A volume that has it, as in a pod: persistentVolumeClaim: {claimName: …}.")
    ] = {}


class AdmissionServer(Workload, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """How the admission server's pods run, and what holds for others' pods while none answers."""

    always: Annotated[bool, Meta(description="Also where the controller `pods` does not run.")] = False
    failure_policy: Annotated[
        Literal["Ignore", "Fail"],
        Meta(description="Whether pods start as they are, or do not start, while no replica answers."),
    ] = "Ignore"
    issuer: Annotated[
        Texts,
        Meta(description="An issuer of cert-manager, as in a Certificate: name, kind, group. Empty: certificates of its own."),
    ] = {}


class Metrics(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Who reads the metrics, and how."""

    proxy: Annotated[
        str, Meta(description="An image of kube-rbac-proxy, put before them: TLS and who may.", pattern=_or_empty(REFERENCE))
    ] = ""
    service_monitor: Annotated[
        bool, Meta(description="ServiceMonitors for the Prometheus operator, which has to be there.")
    ] = False
    alerts: Annotated[bool, Meta(description="A PrometheusRule with the alerts of docs/metrics.md for it.")] = False


class Values(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Everything that an install of Transom can be told. What is left out is as the default says."""

    image: Image = Image()
    image_pull_secrets: Annotated[
        list[Texts], Meta(description="Secrets of Transom's namespace for its registry, as in a pod: - name: …")
    ] = []
    controllers: Annotated[
        list[str],
        Meta(
            description="Which run, and so have rights: egress, windows, fleet, pods, or what these stand for.",
            min_length=1,
        ),
    ] = msgspec.field(default_factory=lambda: ["egress", "windows", "pods"])
    openshift: Annotated[bool, Meta(description="Also the roles in OpenShift's own namespaces, and the metrics of hosts.")] = (
        False
    )
    require_host_keys: Annotated[bool, Meta(description="The operator connects to no host whose key is not known.")] = False
    definitions: Annotated[
        bool, Meta(description="Also the definitions of EgressProxy and WindowsInstance. `helm uninstall` leaves them.")
    ] = True
    pod_security: Annotated[
        Literal["restricted", "baseline", "privileged", ""],
        Meta(
            description="The level that the labels of Transom's Namespace ask for; empty: none. The chart makes no Namespace."
        ),
    ] = "restricted"
    network_policy: Annotated[bool, Meta(description="NetworkPolicies: who reaches Transom's pods.")] = True
    admission_policies: Annotated[bool, Meta(description="ValidatingAdmissionPolicies that bind Transom: Kubernetes 1.30.")] = (
        True
    )
    payload: Payload = Payload()
    metrics: Metrics = Metrics()
    operator: Workload = msgspec.field(
        default_factory=lambda: Workload(
            resources=Resources({"cpu": "50m", "memory": "128Mi"}, {"memory": "384Mi"}),
        )
    )
    webhook: AdmissionServer = msgspec.field(
        default_factory=lambda: AdmissionServer(
            resources=Resources({"cpu": "50m", "memory": "64Mi"}, {"memory": "192Mi"}), priority_class_name="transom-webhook"
        )
    )

    def __post_init__(self) -> None:
        controllers_named(",".join(self.controllers))
        ways = [name for name in ("image", "volume", "kubeadm") if getattr(self.payload, name)]
        if len(ways) > 1:
            raise ValueError(f"`payload` has {' and '.join(ways)}: give one of them")
        if self.payload.copied and not self.payload.image:
            raise ValueError("`payload` is to be copied, and has no image: name it")


class ValuesInvalid(Exception):
    """Values that cannot be: the message names the field, with `$` for the whole."""


def read(given: Any) -> Values:
    """What somebody gave, as YAML has it, over the defaults: mappings are merged, and null takes a default away, as Helm does.

    Raises:
        ValuesInvalid: a field that there is not, or a value that it does not take.
    """
    try:
        return msgspec.convert(_over(plain(Values()), given), Values)
    except msgspec.ValidationError as error:
        raise ValuesInvalid(str(error)) from None


def plain(values: Values) -> dict[str, Any]:
    """Values as JSON data, every field there."""
    data: dict[str, Any] = msgspec.to_builtins(values)
    return data


def _over(default: Any, given: Any) -> Any:
    if not isinstance(default, Mapping) or not isinstance(given, Mapping):
        return given
    merged = {**default, **{name: _over(default.get(name), value) for name, value in given.items()}}
    return {name: value for name, value in merged.items() if value is not None}


def schema() -> dict[str, Any]:
    """The JSON Schema of the values. A chart that holds this one gives it `global`, which says nothing here."""
    _, definitions = msgspec.json.schema_components([Values], ref_template="#/$defs/{name}")
    root = definitions.pop("Values")
    ways: dict[str, dict[str, int]] = {"image": {"minLength": 1}, "volume": {"minProperties": 1}, "kubeadm": {"minLength": 1}}
    two = [{"properties": {a: ways[a], b: ways[b]}, "required": [a, b]} for a, b in combinations(ways, 2)]
    nothing = {"properties": {"image": {"maxLength": 0}, "copied": {"const": True}}, "required": ["image", "copied"]}
    definitions["Payload"]["not"] = {"anyOf": [*two, nothing]}
    root["properties"] = {**root["properties"], "global": {"type": "object"}}
    names = list(dict.fromkeys([*CONTROLLERS, *GRANTS]))
    root["properties"]["controllers"] = {**root["properties"]["controllers"], "items": {"enum": names}}
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return {**head, **root, "$defs": definitions}
