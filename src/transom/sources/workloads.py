"""Pods and what makes pods, as manifests have them; and what a pod's fate depends on besides: its namespace, one Service."""

from typing import Any, Final

import msgspec

from transom.pods import Pod, PodMeta
from transom.proxy.finding import Finding, Place
from transom.proxy.objects import Base, Meta
from transom.sources.core_objects import at
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


def workload(value: dict[str, Any], meta: Meta, place: Place, decoder: Decoder, findings: list[Finding]) -> PodHolder:
    """A pod, or the template of a workload; a template that does not fit is a finding and an empty pod."""
    path = _TEMPLATE.get(str(value["kind"]), ("spec", "template"))
    given = at(value, path) if path else value
    try:
        pod = msgspec.convert(given if given is not None else {}, Pod)
    except msgspec.ValidationError as error:
        # msgspec's texts name types and paths, and no value
        findings.append(place.error(path or ("spec",), f"this is no pod: {error}"))
        pod = Pod()
    if not pod.metadata.namespace:
        pod = msgspec.structs.replace(pod, metadata=_in(pod.metadata, meta.namespace))
    return PodHolder(meta, place, str(value["kind"]), pod)


def _in(metadata: PodMeta, namespace: str | None) -> PodMeta:
    return msgspec.structs.replace(metadata, namespace=namespace)


def namespace(value: dict[str, Any], meta: Meta, place: Place, decoder: Decoder, findings: list[Finding]) -> NamespaceObject:
    """A Namespace."""
    return NamespaceObject(meta, place)


def service(value: dict[str, Any], meta: Meta, place: Place, decoder: Decoder, findings: list[Finding]) -> ServiceObject:
    """A Service. A headless one has no address."""
    address = at(value, ("spec", "clusterIP"))
    return ServiceObject(meta, place, address if isinstance(address, str) and address not in ("", "None") else None)
