"""The objects that injected pods refer to, as they stand in a namespace."""

import base64
from collections.abc import Mapping
from typing import Any, Final

from transom.pods.environment import BUNDLE_KEY, CONFIG_MAP, LEDGER, SECRET, secret_data
from transom.proxy.settings import Egress

MANAGED: Final = {"app.kubernetes.io/managed-by": "transom"}
"""The labels of all of them: an object without is somebody else's."""


def secret(namespace: str, egress: Egress) -> dict[str, Any]:
    """Secret `transom-egress` with the URLs, the credentials in them."""
    return _opaque(SECRET, namespace, {name: url.reveal().encode() for name, url in secret_data(egress).items()})


def ledger(namespace: str, noted: Mapping[str, bytes]) -> dict[str, Any]:
    """Secret `transom-pods`: what is noted of each namespace that has the Secret above; `namespace` is Transom's."""
    return _opaque(LEDGER, namespace, noted)


def config_map(namespace: str, text: str) -> dict[str, Any]:
    """ConfigMap `transom-egress-ca`; `text` is the system's CAs and the bundle, as PEM."""
    return {**_head("ConfigMap", CONFIG_MAP, namespace), "data": {BUNDLE_KEY: text}}


def _opaque(name: str, namespace: str, data: Mapping[str, bytes]) -> dict[str, Any]:
    encoded = {field: base64.b64encode(value).decode() for field, value in data.items()}
    return {**_head("Secret", name, namespace), "type": "Opaque", "data": encoded}


def _head(kind: str, name: str, namespace: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": namespace, "labels": MANAGED}}
