"""Kubernetes objects as Transom keeps them: structs that declare only what is read.

What is not declared is skipped while the JSON is decoded, which costs neither time nor memory. Go writes an empty list or map
as `null`, so every field may be None.
"""

import hashlib
from typing import Any, ClassVar, Protocol, TypeVar

import msgspec


class Projected(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What all of them have in common: camel case outside, snake case inside."""


class OwnerReference(Projected, frozen=True):
    """Who an object belongs to (metav1.OwnerReference)."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class ObjectMeta(Projected, frozen=True):
    """The fields of `metadata` (metav1.ObjectMeta) that Transom reads."""

    name: str = ""
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    generation: int | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    finalizers: list[str] | None = None
    owner_references: list[OwnerReference] | None = None


class ObjectIdentity(Protocol):
    """What every `metadata` has."""

    @property
    def name(self) -> str:
        """Unique in its namespace."""
        ...

    @property
    def namespace(self) -> str | None:
        """None where the kind has none."""
        ...

    @property
    def uid(self) -> str | None:
        """Of this object alone, also over a deletion."""
        ...

    @property
    def resource_version(self) -> str | None:
        """Of this state of it."""
        ...


class StoredObject(Protocol):
    """What a store holds: anything with metadata."""

    @property
    def metadata(self) -> ObjectIdentity:
        """Name, namespace and version."""
        ...


class Metadata(Projected, frozen=True):
    """An object of which only the metadata matters."""

    metadata: ObjectMeta = ObjectMeta()


class UnstructuredObject(msgspec.Struct, frozen=True):
    """An object that is kept unchanged and must not be modified.

    There are few objects of such kinds, and `transom.sources` reads them.
    """

    metadata: ObjectMeta
    value: dict[str, Any]

    @classmethod
    def from_json(cls, data: bytes | msgspec.Raw) -> "UnstructuredObject":
        """Decode an object. Raises msgspec.ValidationError if its metadata is invalid."""
        value = msgspec.json.decode(data, type=dict[str, Any])
        return cls(msgspec.convert(value.get("metadata") or {}, ObjectMeta), value)


class ManagedFields(Projected, frozen=True):
    """One entry of `metadata.managedFields`."""

    manager: str | None = None
    operation: str | None = None
    fields: dict[str, dict[str, Any]] | None = msgspec.field(default=None, name="fieldsV1")


class ManagedMeta(ObjectMeta, frozen=True):
    """Metadata with who wrote which field."""

    managed_fields: list[ManagedFields] | None = None


class _ManagedConfigMap(Projected, frozen=True):
    metadata: ManagedMeta = ManagedMeta()
    data: dict[str, str] | None = None


class BundleConfigMap(msgspec.Struct, frozen=True):
    """A ConfigMap that may hold the trust bundle: of 200 kB of data only its hash is kept, and no annotation."""

    metadata: ObjectMeta
    sha256: str | None
    """Of the value at `ca-bundle.crt`, in lower-case hex; None if the key is missing."""
    ours: bool
    """Whether the key was applied by Transom."""

    KEY: ClassVar[str] = "ca-bundle.crt"
    MANAGER: ClassVar[str] = "transom"

    @classmethod
    def from_json(cls, data: bytes | msgspec.Raw) -> "BundleConfigMap":
        """Decode a ConfigMap. Raises msgspec.ValidationError."""
        read = msgspec.json.decode(data, type=_ManagedConfigMap)
        text = (read.data or {}).get(cls.KEY)
        mine = [
            managed_field.fields or {}
            for managed_field in read.metadata.managed_fields or ()
            if managed_field.manager == cls.MANAGER
        ]
        meta = {field: getattr(read.metadata, field) for field in ObjectMeta.__struct_fields__ if field != "annotations"}
        digest = hashlib.sha256(text.encode()).hexdigest() if text is not None else None
        return cls(ObjectMeta(**meta), digest, any(f"f:{cls.KEY}" in fields.get("f:data", {}) for fields in mine))


class NodeAddress(Projected, frozen=True):
    """`status.addresses[]` of a Node: type is InternalIP, ExternalIP, Hostname, InternalDNS or ExternalDNS."""

    type: str | None = None
    address: str | None = None


class LeaseSpec(Projected, frozen=True):
    """`spec` of a Lease (coordination.k8s.io/v1). Times are RFC 3339 with microseconds."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class LeaseObject(Projected, frozen=True):
    """A Lease."""

    metadata: ObjectMeta = ObjectMeta()
    spec: LeaseSpec | None = None


class NamespaceMeta(Projected, frozen=True):
    """`metadata` of a Namespace."""

    name: str = ""
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None


class Namespace(Projected, frozen=True):
    """A Namespace, of which there can be thousands: name and labels."""

    metadata: NamespaceMeta = NamespaceMeta()

    @property
    def labels(self) -> dict[str, str]:
        """Its labels."""
        return self.metadata.labels or {}


T = TypeVar("T", bound=StoredObject)
