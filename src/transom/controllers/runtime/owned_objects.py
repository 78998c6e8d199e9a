"""What is kept of the objects that the fleet controller writes."""

import hashlib
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from transom.capi.values.cluster_identity import ADOPT, ID_LABEL, MANAGED_BY, SECRETS_ANNOTATION, TRANSOM
from transom.kube.objects import ObjectMeta, OwnerReference, Projected
from transom.kube.resources import Resource

_READ: Final = (SECRETS_ANNOTATION, ADOPT)
SELECTOR: Final = f"{MANAGED_BY}={TRANSOM},{ID_LABEL}"


def has_owner_labels(meta: ObjectMeta, identity: str) -> bool:
    """Return True if the labels name Transom and that cluster as owner."""
    labels = meta.labels or {}
    return labels.get(MANAGED_BY) == TRANSOM and labels.get(ID_LABEL) == identity


def is_handed_over(meta: ObjectMeta) -> bool:
    """Return True if a person handed the object over to Transom."""
    return (meta.annotations or {}).get(ADOPT) == "true"


def _has_metadata(meta: ObjectMeta, wanted: Mapping[str, Any]) -> bool:
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
    """A ConfigMap from Transom: of each string, only the hash is kept, of the annotations those that are read."""

    metadata: ObjectMeta
    digests: dict[str, bytes]

    @classmethod
    def from_json(cls, data: bytes | msgspec.Raw) -> "OwnedConfigMap":
        """Decode a ConfigMap. Raises msgspec.ValidationError."""
        read = msgspec.json.decode(data, type=_ConfigMap)
        annotations = {key: value for key, value in (read.metadata.annotations or {}).items() if key in _READ}
        meta = msgspec.structs.replace(read.metadata, annotations=annotations)
        return cls(meta, {key: _digest(text) for key, text in (read.data or {}).items()})

    def contains_manifest(self, manifest: Mapping[str, Any]) -> bool:
        """Return True if the object has everything in the manifest; it may have more."""
        wanted = manifest["data"].items()
        return _has_metadata(self.metadata, manifest["metadata"]) and all(
            self.digests.get(key) == _digest(text) for key, text in wanted
        )


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()[:16]


class CachedSecret(Projected, frozen=True):
    """A Secret, for the moment in which it is compared; `data` in base64. It is never kept."""

    metadata: ObjectMeta = ObjectMeta()
    data: dict[str, str] | None = None

    def __repr__(self) -> str:
        return f"CachedSecret({self.metadata.namespace}/{self.metadata.name})"

    def contains_manifest(self, manifest: Mapping[str, Any]) -> bool:
        """Return True if the object has everything in the manifest; it may have more."""
        data = self.data or {}
        return _has_metadata(self.metadata, manifest["metadata"]) and all(
            data.get(key) == value for key, value in manifest["data"].items()
        )


SECRETS: Final = Resource("", "v1", "Secret", "secrets", True, CachedSecret)
CONFIG_MAPS: Final = Resource("", "v1", "ConfigMap", "configmaps", True, OwnedConfigMap)
