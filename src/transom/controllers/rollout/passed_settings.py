"""The settings that last came to every host of a cluster, for hosts that join while newer ones are on their way.

They hold credentials: each cluster's are in a Secret in Transom's namespace.
"""

import base64
import binascii
import hashlib
from typing import Final

import msgspec
import structlog

from transom.apply.kept_settings import KeptSettings, decoded, encoded
from transom.apply.roll_out import change_of
from transom.capi.identity import MANAGED_BY, TRANSOM
from transom.controllers.runtime.controller import Leadership
from transom.controllers.runtime.informers import Informers
from transom.controllers.runtime.settings import Cluster
from transom.kube import ApiError
from transom.kube.resources import SECRETS
from transom.proxy.settings import Egress

_log: Final = structlog.get_logger("transom.rollout")
NAME: Final = "transom-passed-settings"
_FIELD: Final = "settings.json"


class PassedSettings:
    """What is in the store, and what this process has written since."""

    def __init__(self, informers: Informers) -> None:
        self._informers = informers
        self._known: dict[Cluster, Egress] = {}

    def of(self, cluster: Cluster) -> Egress | None:
        """The settings that last passed; None where none are known, or another version has kept them."""
        if cluster not in self._known:
            cached = self._informers.secrets.snapshot().named(name_of(cluster), self._informers.namespace)
            text = (cached.value.get("data") or {}).get(_FIELD, "") if cached is not None else ""
            try:
                found = decoded(base64.b64decode(text, validate=True)) if text else []
            except (binascii.Error, msgspec.DecodeError, ValueError) as error:
                _log.warning("settings that passed cannot be read", secret=name_of(cluster), error=type(error).__name__)
                return None
            if not found:
                return None
            self._known[cluster] = found[0].egress()
        return self._known[cluster]

    async def keep(self, cluster: Cluster, egress: Egress, leadership: Leadership) -> None:
        """Keep settings that have come to every host. That they cannot be kept is no trouble of any host."""
        before = self.of(cluster)
        if (before is None and not egress.configured) or (before is not None and change_of(before) == change_of(egress)):
            return
        self._known[cluster] = egress
        name, namespace = name_of(cluster), self._informers.namespace
        value = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": namespace, "labels": {MANAGED_BY: TRANSOM}},
            "type": "transom.dev/passed-settings",
            "data": {_FIELD: base64.b64encode(encoded([KeptSettings.of(egress)])).decode()},
        }
        try:
            await leadership.client.server_side_apply(SECRETS, value, name, namespace)
        except ApiError as error:
            _log.warning("settings that passed are not kept", secret=name, error=str(error))


def name_of(cluster: Cluster) -> str:
    """The Secret of a cluster's."""
    return NAME if cluster is None else f"{NAME}-{hashlib.sha256('/'.join(cluster).encode()).hexdigest()[:16]}"
