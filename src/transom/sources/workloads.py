"""Pods and what makes pods, as manifests have them; and what a pod's fate depends on besides: its namespace, one Service."""

from typing import Any, Final

import msgspec

from transom.pods.namespace_services import EXTERNAL_NAME
from transom.pods.pod_types import Pod, PodMeta
from transom.proxy.finding import Finding, Place
from transom.proxy.objects import Base, Meta
from transom.sources.core_objects import get_value_at
from transom.sources.decoding import Decoder

DEFAULT_NAMESPACE: Final = "default"
"""Where a pod is that names no namespace, as with kubectl."""
_TEMPLATE: Final[dict[str, tuple[str, ...]]] = {"Pod": (), "CronJob": ("spec", "jobTemplate", "spec", "template")}
KINDS: Final = (
    ("", "Pod"),
    ("", "ReplicationController"),
    *(("apps", kind) for kind in ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")),
    *(("batch", kind) for kind in ("Job", "CronJob")),
)


class PodHolder(Base, frozen=True):
    """A pod, or an object with a template of pods; `pod` is either."""

    metadata: Meta
    place: Place
    kind: str
    pod: Pod


class NamespaceObject(Base, frozen=True):
    """A Namespace: its labels are all that is read."""

    metadata: Meta
    place: Place


class ServiceObject(Base, frozen=True):
    """A Service."""

    metadata: Meta
    place: Place
    cluster_ip: str | None = None
    external_name: str = ""
    """The foreign host that it leads to; empty for another type than ExternalName."""


def read_workload(value: dict[str, Any], meta: Meta, place: Place, decoder: Decoder, findings: list[Finding]) -> PodHolder:
    """Read a pod, or the template of a workload; an invalid template is a finding and an empty pod."""
    path = _get_template_path(value)
    template = get_value_at(value, path) if path else value
    try:
        pod = msgspec.convert(template if template is not None else {}, Pod)
    except msgspec.ValidationError as error:
        # msgspec's texts name types and paths, and no value
        findings.append(place.build_error(path or ("spec",), f"not a valid pod: {error}"))
        pod = Pod()
    if not pod.metadata.namespace:
        pod = msgspec.structs.replace(pod, metadata=_with_namespace(pod.metadata, meta.namespace))
    return PodHolder(meta, place, str(value["kind"]), pod)


def get_pod_template(value: dict[str, Any]) -> dict[str, Any]:
    """Return a pod, or the template of a workload, in plain values; empty where an object has none."""
    path = _get_template_path(value)
    template = get_value_at(value, path) if path else value
    return template if isinstance(template, dict) else {}


def _get_template_path(value: dict[str, Any]) -> tuple[str, ...]:
    return _TEMPLATE.get(str(value.get("kind")), ("spec", "template"))


def _with_namespace(metadata: PodMeta, namespace: str | None) -> PodMeta:
    return msgspec.structs.replace(metadata, namespace=namespace)


def read_namespace(
    value: dict[str, Any], meta: Meta, place: Place, decoder: Decoder, findings: list[Finding]
) -> NamespaceObject:
    """Read a Namespace."""
    return NamespaceObject(meta, place)


def read_service(value: dict[str, Any], meta: Meta, place: Place, decoder: Decoder, findings: list[Finding]) -> ServiceObject:
    """Read a Service. A headless one has no address."""
    address = get_value_at(value, ("spec", "clusterIP"))
    host = get_value_at(value, ("spec", "externalName")) if get_value_at(value, ("spec", "type")) == EXTERNAL_NAME else ""
    return ServiceObject(
        meta,
        place,
        address if isinstance(address, str) and address not in ("", "None") else None,
        host if isinstance(host, str) else "",
    )
