"""From objects in plain values to what is known of a cluster, or of a directory. Pure."""

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

import msgspec

from transom.diagnosis import Observed, Value
from transom.diagnosis.fields import mapping, meta, name_of, namespace_of
from transom.pods.environment import PodEgress
from transom.proxy.secret import Secret
from transom.sources.api_server import pod_egress
from transom.sources.core_objects import decoded_text
from transom.sources.examination import Examined, examine
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
    "DaemonSet": "apps",
    "Deployment": "apps",
    "Lease": "coordination.k8s.io",
    "MutatingWebhookConfiguration": "admissionregistration.k8s.io",
}
"""The kinds that are looked at: others have kinds of the same names."""
_USERINFO = re.compile(r"\b[a-z][a-z0-9+.-]{0,20}://[^\s/@:]{1,256}:[^\s/@]{1,256}@", re.IGNORECASE)
_NAMESPACELESS = frozenset(("EgressProxy", "Proxy", "Namespace", "Node", "MutatingWebhookConfiguration"))
_TRANSOMS = frozenset(("WindowsInstance", "Secret", "ConfigMap"))
"""Kinds of which one that names no namespace is in Transom's, as for `transom apply -f`."""


def of_values(values: Iterable[Value], source: str, namespace: str, now: datetime) -> Observed:
    """What a directory of manifests says; of each kind everything is known that is there."""
    found: dict[str, list[Value]] = {kind: [] for kind in GROUPS}
    for value in values:
        kind = str(value.get("kind") or "")
        group = str(value.get("apiVersion") or "").rpartition("/")[0]
        if GROUPS.get(kind) == group and isinstance(value.get("metadata"), Mapping):
            found[kind].append(_placed(value, kind, namespace))
    return Observed(source, namespace, now, sealed({kind: tuple(listed) for kind, listed in found.items()}), live=False)


def with_settings(observed: Observed, objects: Objects, server: str | None) -> Observed:
    """With what the settings say, and what is wrong with them. `server` is the API server's URL."""
    examined = examine(objects, observed.now, server)
    return msgspec.structs.replace(
        observed, settings=examined.settings, findings=examined.findings, pod_egress=_pod_egress(objects, examined)
    )


def _pod_egress(objects: Objects, examined: Examined) -> PodEgress | None:
    return pod_egress(objects, examined, None) if examined.settings.own is not None else None


def _placed(value: Value, kind: str, namespace: str) -> Value:
    if kind in _NAMESPACELESS or namespace_of(value):
        return value
    return {**value, "metadata": {**meta(value), "namespace": namespace if kind in _TRANSOMS else "default"}}


def sealed(objects: Mapping[str, tuple[Value, ...]]) -> dict[str, tuple[Value, ...]]:
    """Objects by kind, with what is secret in Secrets and ConfigMaps as `Secret`."""
    seals = {"Secret": sealed_secret, "ConfigMap": sealed_config_map}
    return {kind: tuple(map(seals[kind], listed)) if kind in seals else listed for kind, listed in objects.items()}


def sealed_config_map(config_map: Value) -> Value:
    """A ConfigMap: its keys, and as `Secret` those texts that have a URL with a password. Nothing else is looked at."""
    head = {"name": name_of(config_map), "namespace": namespace_of(config_map)}
    texts = {
        key: Secret(text) if isinstance(text, str) and _USERINFO.search(text) else text if isinstance(text, Secret) else ""
        for key, text in mapping(config_map, "data").items()
    }
    return {"kind": "ConfigMap", "metadata": head, "data": texts}


def sealed_secret(secret: Value) -> Value:
    """A Secret with its texts as `Secret`, and nothing else of it that may hold one."""
    head = {"name": name_of(secret), "namespace": namespace_of(secret)}
    plain = {key: Secret(text) for key, text in mapping(secret, "stringData").items() if isinstance(text, str)}
    encoded = {key: decoded_text(text) for key, text in mapping(secret, "data").items() if isinstance(text, str)}
    texts = {key: Secret(text) for key, text in encoded.items() if text is not None}
    return {"kind": "Secret", "metadata": head, "data": {**texts, **plain}}
