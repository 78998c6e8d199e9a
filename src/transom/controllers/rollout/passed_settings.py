"""The settings that last came to every host of a cluster, for hosts that join while newer ones are on their way.

They hold credentials: each cluster's are in a Secret in Transom's namespace.
"""

import base64
import binascii
import hashlib
from typing import Final

import msgspec
import structlog

from transom.apply.settings_serialization import KeptSettings, decode, encode
from transom.capi.values.cluster_identity import MANAGED_BY, TRANSOM
from transom.controllers.runtime.controller import Leadership
from transom.controllers.runtime.current_settings import Cluster
from transom.controllers.runtime.informers import Informers
from transom.kube.errors import ApiError
from transom.kube.resources import SECRETS
from transom.proxy.settings import Egress
from transom.rollout.fingerprint import compute_settings_key

_log: Final = structlog.get_logger("transom.rollout")
NAME: Final = "transom-passed-settings"
_FIELD: Final = "settings.json"


class PassedSettings:
    """What is in the store, and what this process has written since."""

    def __init__(self, informers: Informers) -> None:
        self._informers = informers
        self._known: dict[Cluster, Egress] = {}

    def read(self, cluster: Cluster) -> Egress | None:
        """Return the settings of the last completed rollout; None if there are none, or another version stored them."""
        if cluster not in self._known:
            cached = self._informers.secrets.take_snapshot().find_named(build_secret_name(cluster), self._informers.namespace)
            text = (cached.value.get("data") or {}).get(_FIELD, "") if cached is not None else ""
            try:
                stored = decode(base64.b64decode(text, validate=True)) if text else []
            except (binascii.Error, msgspec.DecodeError, ValueError) as error:
                _log.warning(
                    "settings that passed cannot be read", secret=build_secret_name(cluster), error=type(error).__name__
                )
                return None
            if not stored:
                return None
            self._known[cluster] = stored[0].to_egress()
        return self._known[cluster]

    async def store_settings(self, cluster: Cluster, egress: Egress, leadership: Leadership) -> None:
        """Store settings that every host has. A failure to store them is not a problem of any host."""
        before = self.read(cluster)
        if (before is None and not egress.configured) or (
            before is not None and compute_settings_key(before) == compute_settings_key(egress)
        ):
            return
        self._known[cluster] = egress
        name, namespace = build_secret_name(cluster), self._informers.namespace
        value = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": namespace, "labels": {MANAGED_BY: TRANSOM}},
            "type": "transom.dev/passed-settings",
            "data": {_FIELD: base64.b64encode(encode([KeptSettings.from_egress(egress)])).decode()},
        }
        try:
            await leadership.client.apply(SECRETS, value, name, namespace)
        except ApiError as error:
            _log.warning("settings that passed are not kept", secret=name, error=str(error))


def build_secret_name(cluster: Cluster) -> str:
    """Return the name of a cluster's Secret."""
    return NAME if cluster is None else f"{NAME}-{hashlib.sha256('/'.join(cluster).encode()).hexdigest()[:16]}"
