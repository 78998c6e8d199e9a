"""What is brought into a workload cluster: the settings for the cluster itself, their credentials and their CA. Pure."""

import base64
from typing import Any, Final

import msgspec

from transom.capi.values.cluster_identity import MANAGED_BY, TRANSOM
from transom.kube.resources import CONFIG_MAPS, EGRESS_PROXIES, SECRETS, Resource
from transom.proxy.layers import ALL_CONSUMERS, BASE, WITH_CREDENTIALS
from transom.proxy.objects import build_selector_value
from transom.proxy.secret import Secret
from transom.proxy.settings import Egress, WindowsSettings
from transom.proxy.trust import format_pem
from transom.proxy.url import URL, parse
from transom.proxy.validation import BUNDLE_KEY
from transom.sources.core_objects import get_value_at

CREDENTIALS: Final = "transom-propagated-credentials"
CA: Final = "transom-propagated-ca"
FROM: Final = "transom.dev/propagated-from"
"""The annotation of each of them: namespace and name of the Cluster, as the management cluster knows it."""

Placed = tuple[Resource[Any], dict[str, Any]]


def build_objects(egress: Egress, namespace: str, cluster: tuple[str, str]) -> list[Placed]:
    """Build the objects in the order in which they are written: credentials, CA, settings.

    `namespace` is Transom's in the workload cluster. A Secret contains the credentials; only if the two proxies have different
    ones, the settings contain them, as in the management cluster's own.
    """
    http, https = (parse(url.reveal()) if url else None for url in (egress.http_proxy, egress.https_proxy))
    users = {_get_userinfo(url) for url in (http, https) if url is not None}
    shared = users.pop() if len(users) == 1 else None
    made: list[Placed] = []
    spec: dict[str, Any] = {}
    if shared is not None:
        data = {key: base64.b64encode(value.encode("utf-8", "surrogateescape")).decode() for key, value in shared}
        made.append((SECRETS, _build_object(SECRETS, CREDENTIALS, cluster, namespace) | {"data": data}))
        spec["credentialsSecret"] = {"name": CREDENTIALS}
    if egress.trust:
        made.append(
            (CONFIG_MAPS, _build_object(CONFIG_MAPS, CA, cluster, namespace) | {"data": {BUNDLE_KEY: format_pem(egress.trust)}})
        )
        spec["trustedCA"] = {"name": CA}
    for field, url, whole in (("httpProxy", http, egress.http_proxy), ("httpsProxy", https, egress.https_proxy)):
        if url is not None and whole is not None:
            spec[field] = _without_userinfo(url) if shared is not None else whole.reveal()
    if egress.no_proxy:
        spec["noProxy"] = egress.no_proxy
    if egress.consumers != (WITH_CREDENTIALS if egress.holds_credentials else ALL_CONSUMERS):
        spec["consumers"] = list(egress.consumers)
    if egress.propagated_selector is not None:
        spec["pods"] = {"namespaceSelector": build_selector_value(egress.propagated_selector)}
    if egress.windows != WindowsSettings():
        spec["windows"] = msgspec.to_builtins(egress.windows)
    made.append((EGRESS_PROXIES, _build_object(EGRESS_PROXIES, BASE, cluster) | {"spec": spec}))
    return made


def has_objects_to_propagate(egress: Egress) -> bool:
    """Return True if a cluster gets anything: also if a layer disables the proxy, but not with a base without settings."""
    return egress.propagate and (egress.configured or egress.direct)


def is_proxy_withheld(egress: Egress, live_proxy: dict[str, Any] | None) -> bool:
    """Return True if pods of a cluster get no proxy because no namespace may read the credentials.

    `live_proxy` is its EgressProxy.
    """
    if not egress.holds_credentials or "Pods" not in egress.consumers:
        return False
    return get_value_at(live_proxy, ("spec", "pods", "namespaceSelector")) is None


def list_propagated_objects(namespace: str) -> list[tuple[Resource[Any], str, str | None]]:
    """Everything that may have been brought there, in the order in which it goes: nothing is left without what it names."""
    return [(EGRESS_PROXIES, BASE, None), (CONFIG_MAPS, CA, namespace), (SECRETS, CREDENTIALS, namespace)]


def is_propagated(live: dict[str, Any]) -> bool:
    """Return True if a Transom of a management cluster created an object, or a person handed it over to it."""
    metadata = live.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    brought = (metadata.get("labels") or {}).get(MANAGED_BY) == TRANSOM and FROM in annotations
    return brought or annotations.get("transom.dev/adopt") == "true"


def _get_userinfo(url: URL) -> tuple[tuple[str, str], ...] | None:
    if url.username is None:
        return None
    return ("username", url.username.reveal()), ("password", (url.password or Secret("")).reveal())


def _without_userinfo(url: URL) -> str:
    host = f"[{url.host}]" if ":" in url.host else url.host
    return f"{url.scheme}://{host}{':' + url.port if url.port else ''}{url.rest}"


def _build_object(resource: Resource[Any], name: str, cluster: tuple[str, str], namespace: str | None = None) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "name": name,
        "labels": {MANAGED_BY: TRANSOM},
        "annotations": {FROM: "/".join(cluster)},
    }
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
