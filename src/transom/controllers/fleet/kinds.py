"""What is kept of the objects that the fleet controller writes, and of the Apps that read them."""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from transom.capi.identity import ADOPT, ID_LABEL, MANAGED_BY, SECRETS_ANNOTATION, TRANSOM
from transom.kube.client import FIELD_MANAGER
from transom.kube.objects import ManagedFields, ObjectMeta, OwnerReference, Projected
from transom.kube.resources import Resource

_READ: Final = (SECRETS_ANNOTATION, ADOPT)
INJECT: Final = "transom.dev/inject"
SELECTOR: Final = f"{MANAGED_BY}={TRANSOM},{ID_LABEL}"


def ours(meta: ObjectMeta, identity: str) -> bool:
    """Whether the labels say that Transom keeps the object for that cluster."""
    labels = meta.labels or {}
    return labels.get(MANAGED_BY) == TRANSOM and labels.get(ID_LABEL) == identity


def handed_over(meta: ObjectMeta) -> bool:
    """Whether a person gave the object to Transom."""
    return (meta.annotations or {}).get(ADOPT) == "true"


def _meta_holds(meta: ObjectMeta, wanted: Mapping[str, Any]) -> bool:
    labels, annotations, owners = meta.labels or {}, meta.annotations or {}, meta.owner_references or []
    return (
        all(labels.get(key) == value for key, value in wanted["labels"].items())
        and all(annotations.get(key) == value for key, value in wanted.get("annotations", {}).items())
        and all(msgspec.convert(owner, OwnerReference) in owners for owner in wanted.get("ownerReferences", ()))
    )


class _ConfigMap(Projected, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    data: dict[str, str] | None = None


class OwnedConfigMap(msgspec.Struct, frozen=True):
    """A ConfigMap of ours: of each text its hash alone is kept, of the annotations those that are read."""

    metadata: ObjectMeta
    digests: dict[str, bytes]

    @classmethod
    def from_json(cls, data: bytes | msgspec.Raw) -> "OwnedConfigMap":
        """Decode a ConfigMap. Raises msgspec.ValidationError."""
        read = msgspec.json.decode(data, type=_ConfigMap)
        annotations = {key: value for key, value in (read.metadata.annotations or {}).items() if key in _READ}
        meta = msgspec.structs.replace(read.metadata, annotations=annotations)
        return cls(meta, {key: _digest(text) for key, text in (read.data or {}).items()})

    def holds(self, manifest: Mapping[str, Any]) -> bool:
        """Whether everything of the manifest is there; more may be."""
        wanted = manifest["data"].items()
        return _meta_holds(self.metadata, manifest["metadata"]) and all(
            self.digests.get(key) == _digest(text) for key, text in wanted
        )


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()[:16]


class HeldSecret(Projected, frozen=True):
    """A Secret, for the moment in which it is compared; `data` in base64. It is never kept."""

    metadata: ObjectMeta = ObjectMeta()
    data: dict[str, str] | None = None

    def __repr__(self) -> str:
        return f"HeldSecret({self.metadata.namespace}/{self.metadata.name})"

    def holds(self, manifest: Mapping[str, Any]) -> bool:
        """Whether everything of the manifest is there; more may be."""
        data = self.data or {}
        return _meta_holds(self.metadata, manifest["metadata"]) and all(
            data.get(key) == value for key, value in manifest["data"].items()
        )


class Reference(Projected, frozen=True):
    """A ConfigMap or Secret that an App names."""

    name: str = ""
    namespace: str = ""


class AppConfig(Projected, frozen=True):
    """`spec.config` of an App."""

    config_map: Reference | None = None
    secret: Reference | None = None


class AppSpec(Projected, frozen=True):
    """`spec` of an App."""

    config: AppConfig | None = None


class _ManagedMeta(ObjectMeta, frozen=True):
    managed_fields: list[ManagedFields] | None = None


class _App(Projected, frozen=True):
    metadata: _ManagedMeta = _ManagedMeta()
    spec: AppSpec | None = None


class HeldApp(msgspec.Struct, frozen=True):
    """An App of Giant Swarm's app platform: what values it reads, and which of these fields Transom put there."""

    metadata: ObjectMeta
    config: AppConfig
    applied: frozenset[str]
    """`configMap`, `secret`."""

    @classmethod
    def from_json(cls, data: bytes | msgspec.Raw) -> "HeldApp":
        """Decode an App. Raises msgspec.ValidationError."""
        read = msgspec.json.decode(data, type=_App)
        labels = {key: value for key, value in (read.metadata.labels or {}).items() if key in (ID_LABEL, INJECT)}
        meta = read.metadata
        kept = ObjectMeta(meta.name, meta.namespace, meta.uid, meta.resource_version, labels=labels)
        config = (read.spec.config if read.spec else None) or AppConfig()
        return cls(kept, config, frozenset(_applied(meta.managed_fields or ())))

    @property
    def asks(self) -> bool:
        """Whether it is to get references to the values."""
        return (self.metadata.labels or {}).get(INJECT) == "true"


def _applied(entries: list[ManagedFields] | tuple[()]) -> Iterator[str]:
    for entry in entries:
        if entry.manager == FIELD_MANAGER and entry.operation == "Apply":
            fields = (entry.fields or {}).get("f:spec", {}).get("f:config", {})
            yield from (name.removeprefix("f:") for name in fields if name != ".")


SECRETS: Final = Resource("", "v1", "Secret", "secrets", True, HeldSecret)
CONFIG_MAPS: Final = Resource("", "v1", "ConfigMap", "configmaps", True, OwnedConfigMap)
APPS: Final = Resource("application.giantswarm.io", "v1alpha1", "App", "apps", True, HeldApp)
