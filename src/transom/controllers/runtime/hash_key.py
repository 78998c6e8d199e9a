"""The keys of hashes that others can read: these include credentials, and without the key, guesses cannot be tested.

Each is a Secret in Transom's namespace, created if it is missing and cached while it exists.
"""

import asyncio
import base64
import binascii
import hmac
import secrets
from collections.abc import Mapping
from typing import Any, Final

import structlog

from transom.capi.values.cluster_identity import MANAGED_BY, TRANSOM
from transom.controllers.runtime.controller import Leadership
from transom.controllers.runtime.informers import Informers
from transom.kube.client import Client
from transom.kube.errors import Conflict, NotFound
from transom.kube.objects import UnstructuredObject
from transom.kube.resources import SECRETS

_log: Final = structlog.get_logger("transom.hash_key")
HOSTS: Final = "transom-hash-key"
"""For hashes in the status of instances."""
FLEET: Final = "transom-fleet-key"
"""For what is noted of the Secrets of workload clusters."""
_FIELD: Final = "key"
_BYTES: Final = 32


class HashKey:
    """The key in Secret `transom-hash-key`, as the store has it."""

    def __init__(self, informers: Informers) -> None:
        self._informers = informers
        self._known: bytes | None = None
        self._making = asyncio.Lock()

    async def compute_hash(self, text: str, leadership: Leadership) -> str | None:
        """Return the HMAC-SHA-256 of a string in 32 hex digits; None if the Secret has no key. Raises ApiError."""
        cached = self._informers.secrets.take_snapshot().find_named(HOSTS, self._informers.namespace)
        key = await self._create_key(leadership) if cached is None else self._read(cached)
        return hmac.digest(key, text.encode(), "sha256").hex()[:_BYTES] if key else None

    def _read(self, cached: UnstructuredObject) -> bytes | None:
        self._known = _decode_key(cached.value)
        if self._known is None:
            _log.warning("the Secret has no key: delete it, and a new one is made", secret=HOSTS, field=f"data.{_FIELD}")
        return self._known

    async def _create_key(self, leadership: Leadership) -> bytes | None:
        """Return the key that this or another process just created, which the store does not have yet."""
        async with self._making:
            if self._known is None:
                namespace = self._informers.namespace
                self._known = await _create_key(leadership.client, HOSTS, namespace)
                if self._known is None:
                    secrets = (await leadership.client.list_objects(SECRETS, namespace, fields=f"metadata.name={HOSTS}")).items
                    self._known = next((_decode_key(item.value) for item in secrets), None)
        return self._known


async def read_fleet_key(client: Client, namespace: str) -> bytes:
    """Return the key in Secret `transom-fleet-key`. Raises ApiError; NotFound without the namespace.

    Any value works: with a damaged key the hashes differ, and the Secrets are compared once more.
    """
    for _ in range(2):
        try:
            cached = await client.get(SECRETS, FLEET, namespace)
        except NotFound:
            if (made := await _create_key(client, FLEET, namespace)) is not None:
                return made
        else:
            return _decode_key(cached.value) or repr(cached.value.get("data")).encode()
    raise Conflict(409, "Conflict", f"Secret {namespace}/{FLEET} comes and goes")


def _decode_key(secret: Mapping[str, Any]) -> bytes | None:
    try:
        return base64.b64decode((secret.get("data") or {}).get(_FIELD) or "", validate=True) or None
    except binascii.Error:
        return None


async def _create_key(client: Client, name: str, namespace: str) -> bytes | None:
    """Create a key. Return None if another process created one first. Raises ApiError."""
    key = secrets.token_bytes(_BYTES)
    value = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace, "labels": {MANAGED_BY: TRANSOM}},
        "type": "transom.dev/hash-key",
        "immutable": True,
        "data": {_FIELD: base64.b64encode(key).decode()},
    }
    try:
        await client.create(SECRETS, value, namespace)
    except Conflict:
        return None
    return key
