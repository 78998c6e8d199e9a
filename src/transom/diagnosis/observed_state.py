"""From objects in plain values to what is known of a cluster, or of a directory. Pure."""

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Final

import msgspec

from transom.diagnosis.fields import get_mapping, get_metadata, get_name, get_namespace
from transom.diagnosis.snapshot import ClusterSnapshot, Value
from transom.pods.environment import PodEgress
from transom.proxy.layers import build_egress_proxy_layer, build_proxy_layer
from transom.proxy.secret import Secret
from transom.proxy.trust import Certificate, parse_bundle
from transom.proxy.validation import BUNDLE_KEY
from transom.sources.api_server import compute_pod_egress
from transom.sources.core_objects import decode_string
from transom.sources.examination import Examined, check_machines, examine_objects
from transom.sources.objects import Objects

GROUPS: Final = {
    "EgressProxy": "transom.dev",
    "WindowsInstance": "transom.dev",
    "Proxy": "config.openshift.io",
    "Cluster": "cluster.x-k8s.io",
    "Secret": "",
    "ConfigMap": "",
    "Namespace": "",
    "Node": "",
    "Pod": "",
    "Service": "",
    "DaemonSet": "apps",
    "Installation": "operator.tigera.io",
    "Deployment": "apps",
    "Lease": "coordination.k8s.io",
    "MutatingWebhookConfiguration": "admissionregistration.k8s.io",
    "ClusterRoleBinding": "rbac.authorization.k8s.io",
    "SubjectAccessReview": "authorization.k8s.io",
}
"""The kinds that are looked at: others have kinds of the same names."""
_USERINFO = re.compile(r"\b[a-z][a-z0-9+.-]{0,20}://[^\s/@:]{1,256}:[^\s/@]{1,256}@", re.IGNORECASE)
_NAMESPACELESS = frozenset(
    (
        *("EgressProxy", "Proxy", "Installation", "Namespace", "Node", "MutatingWebhookConfiguration"),
        *("ClusterRoleBinding", "SubjectAccessReview"),
    )
)
_TRANSOMS = frozenset(("WindowsInstance", "Secret", "ConfigMap"))
"""Kinds of which one that names no namespace is in Transom's, as for `transom apply -f`."""


def observe_values(values: Iterable[Value], source: str, namespace: str, now: datetime) -> ClusterSnapshot:
    """Return the observed state of manifests, which are complete for each of their kinds."""
    values_by_kind: dict[str, list[Value]] = {kind: [] for kind in GROUPS}
    for value in values:
        kind = str(value.get("kind") or "")
        group = str(value.get("apiVersion") or "").rpartition("/")[0]
        if GROUPS.get(kind) == group and isinstance(value.get("metadata"), Mapping):
            values_by_kind[kind].append(_add_namespace(value, kind, namespace))
    return ClusterSnapshot(
        source, namespace, now, wrap_secret_values({kind: tuple(listed) for kind, listed in values_by_kind.items()}), live=False
    )


def with_settings(observed: ClusterSnapshot, objects: Objects, server: str | None) -> ClusterSnapshot:
    """With what the settings say, and what is wrong with them. `server` is the API server's URL."""
    examined = examine_objects(objects, observed.now, server)
    return msgspec.structs.replace(
        observed,
        settings=examined.settings,
        bundles=dict(_iter_bundles(objects)),
        findings=examined.findings,
        pod_egress=_build_pod_egress(objects, examined),
        machine_findings=check_machines(objects, examined.settings),
    )


def _iter_bundles(objects: Objects) -> Iterator[tuple[str, tuple[Certificate, ...]]]:
    """Yield the certificates that each object of the settings names."""
    sources = [build_egress_proxy_layer(egress_proxy, objects.namespace) for egress_proxy in objects.egress_proxies]
    for layer in [*([build_proxy_layer(objects.proxy)] if objects.proxy is not None else []), *sources]:
        named = objects.find_config_map(*layer.trusted_ca) if layer.trusted_ca else None
        if named is not None:
            yield layer.source.place.object, parse_bundle(named.data.get(BUNDLE_KEY, "")).certificates


def _build_pod_egress(objects: Objects, examined: Examined) -> PodEgress | None:
    return compute_pod_egress(objects, examined, None) if examined.settings.own is not None else None


def _add_namespace(value: Value, kind: str, namespace: str) -> Value:
    if kind in _NAMESPACELESS or get_namespace(value):
        return value
    return {**value, "metadata": {**get_metadata(value), "namespace": namespace if kind in _TRANSOMS else "default"}}


def wrap_secret_values(objects: Mapping[str, tuple[Value, ...]]) -> dict[str, tuple[Value, ...]]:
    """Objects by kind, with what is secret in Secrets and ConfigMaps as `Secret`."""
    seals = {"Secret": wrap_secret_data, "ConfigMap": wrap_config_map_secrets}
    return {kind: tuple(map(seals[kind], listed)) if kind in seals else listed for kind, listed in objects.items()}


def wrap_config_map_secrets(config_map: Value) -> Value:
    """Return a ConfigMap with values that have a URL with a password as `Secret`; nothing else is checked."""
    head = {"name": get_name(config_map), "namespace": get_namespace(config_map)}
    texts = {
        key: Secret(text) if isinstance(text, str) and _USERINFO.search(text) else text if isinstance(text, Secret) else ""
        for key, text in get_mapping(config_map, "data").items()
    }
    return {"kind": "ConfigMap", "metadata": head, "data": texts}


def wrap_secret_data(secret: Value) -> Value:
    """Return a Secret with its values as `Secret`, and without other fields that may hold one."""
    head = {"name": get_name(secret), "namespace": get_namespace(secret)}
    plain = {key: Secret(text) for key, text in get_mapping(secret, "stringData").items() if isinstance(text, str)}
    encoded = {key: decode_string(text) for key, text in get_mapping(secret, "data").items() if isinstance(text, str)}
    texts = {key: Secret(text) for key, text in encoded.items() if text is not None}
    return {"kind": "Secret", "metadata": head, "data": {**texts, **plain}}
