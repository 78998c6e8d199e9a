"""What is kept of the kinds that read a cluster's values: Giant Swarm's App, and Flux's HelmRelease."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from transom.capi.values.cluster_identity import ID_LABEL
from transom.kube.api_versions import PREFERRED
from transom.kube.client import FIELD_MANAGER
from transom.kube.objects import ManagedMeta, ObjectMeta, Projected
from transom.kube.resources import Resource

INJECT: Final = "transom.dev/inject"
Place = tuple[str, str]
"""Namespace and name of a ConfigMap or Secret."""


class ValuesReader(msgspec.Struct, frozen=True):
    """An App or a HelmRelease."""

    metadata: ObjectMeta
    fields: Mapping[str, Any]
    """By name the fields that say what it reads as the cluster's values, without empty ones."""
    reads: frozenset[Place]
    """All ConfigMaps and Secrets that it names anywhere."""
    applied: frozenset[str]
    """Which of the fields Transom put there."""

    @property
    def requests_references(self) -> bool:
        """Whether it is to get references to the values."""
        return (self.metadata.labels or {}).get(INJECT) == "true"


class _Reference(Projected, frozen=True):
    name: str = ""
    namespace: str = ""


class _Config(Projected, frozen=True):
    config_map: _Reference | None = None
    secret: _Reference | None = None


class _AppSpec(Projected, frozen=True):
    config: _Config | None = None
    user_config: _Config | None = None
    extra_configs: list[_Reference] | None = None


class _App(Projected, frozen=True):
    metadata: ManagedMeta = ManagedMeta()
    spec: _AppSpec | None = None


class CachedApp(ValuesReader, frozen=True):
    """An App; its fields are `configMap` and `secret` of `spec.config`."""

    @classmethod
    def from_json(cls, data: bytes | msgspec.Raw) -> "CachedApp":
        """Decode an App. Raises msgspec.ValidationError."""
        read = msgspec.json.decode(data, type=_App)
        spec = read.spec or _AppSpec()
        config, own = spec.config or _Config(), spec.user_config or _Config()
        named = (config.config_map, config.secret, own.config_map, own.secret, *(spec.extra_configs or ()))
        fields = {"configMap": config.config_map, "secret": config.secret}
        return cls(
            _keep_metadata(read.metadata),
            {name: msgspec.to_builtins(value) for name, value in fields.items() if value is not None},
            frozenset((item.namespace, item.name) for item in named if item is not None),
            frozenset(_iter_applied_fields(read.metadata, "f:spec", "f:config")),
        )


class _ReleaseSpec(Projected, frozen=True):
    values_from: list[dict[str, Any]] | None = None


class _Release(Projected, frozen=True):
    metadata: ManagedMeta = ManagedMeta()
    spec: _ReleaseSpec | None = None


class CachedRelease(ValuesReader, frozen=True):
    """A HelmRelease; its one field is `spec.valuesFrom`, whose objects are in its own namespace."""

    @classmethod
    def from_json(cls, data: bytes | msgspec.Raw) -> "CachedRelease":
        """Decode a HelmRelease. Raises msgspec.ValidationError."""
        read = msgspec.json.decode(data, type=_Release)
        listed = (read.spec.values_from if read.spec else None) or []
        namespace = read.metadata.namespace or ""
        return cls(
            _keep_metadata(read.metadata),
            {"valuesFrom": listed} if listed else {},
            frozenset((namespace, str(item.get("name"))) for item in listed),
            frozenset(_iter_applied_fields(read.metadata, "f:spec")),
        )


def _keep_metadata(meta: ManagedMeta) -> ObjectMeta:
    labels = {key: value for key, value in (meta.labels or {}).items() if key in (ID_LABEL, INJECT)}
    return ObjectMeta(meta.name, meta.namespace, meta.uid, meta.resource_version, labels=labels)


def _iter_applied_fields(meta: ManagedMeta, *path: str) -> Iterator[str]:
    for entry in meta.managed_fields or ():
        if entry.manager == FIELD_MANAGER and entry.operation == "Apply":
            fields: Any = entry.fields
            for step in path:
                fields = fields.get(step) if isinstance(fields, dict) else None
            if isinstance(fields, dict):
                yield from (name.removeprefix("f:") for name in fields if name != ".")


APPS: Final = Resource("application.giantswarm.io", "v1alpha1", "App", "apps", True, CachedApp)
RELEASES: Final = Resource("helm.toolkit.fluxcd.io", PREFERRED, "HelmRelease", "helmreleases", True, CachedRelease)
