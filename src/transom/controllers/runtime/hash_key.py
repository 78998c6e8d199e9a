"""The keys of hashes that stand where others read them: credentials go into these, and without the key nobody can try guesses.

Each is a Secret in Transom's namespace, made where it is missing and kept as long as it is there.
"""

import asyncio
import base64
import binascii
import hmac
import secrets
from collections.abc import Mapping
from typing import Any, Final

import structlog

from transom.capi.identity import MANAGED_BY, TRANSOM
from transom.controllers.runtime.controller import Leadership
from transom.controllers.runtime.informers import Informers
from transom.kube import Conflict, NotFound
from transom.kube.client import Client
from transom.kube.objects import Whole
from transom.kube.resources import SECRETS

_log: Final = structlog.get_logger("transom.hash_key")
HOSTS: Final = "transom-hash-key"
"""For what stands in the status of instances."""
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

    async def digest(self, text: str, leadership: Leadership) -> str | None:
        """HMAC-SHA-256 of a text in 32 hex digits; None where the Secret holds no key. Raises ApiError."""
        cached = self._informers.secrets.snapshot().named(HOSTS, self._informers.namespace)
        key = await self._made(leadership) if cached is None else self._read(cached)
        return hmac.digest(key, text.encode(), "sha256").hex()[:_BYTES] if key else None

    def _read(self, cached: Whole) -> bytes | None:
        self._known = _key(cached.value)
        if self._known is None:
            _log.warning("the Secret has no key: delete it, and a new one is made", secret=HOSTS, field=f"data.{_FIELD}")
        return self._known

    async def _made(self, leadership: Leadership) -> bytes | None:
        """The key that was made a moment ago, or now, by whomever: the store does not have it yet."""
        async with self._making:
            if self._known is None:
                namespace = self._informers.namespace
                self._known = await _make(leadership.client, HOSTS, namespace)
                if self._known is None:
                    found = (await leadership.client.list_objects(SECRETS, namespace, fields=f"metadata.name={HOSTS}")).items
                    self._known = next((_key(one.value) for one in found), None)
        return self._known


async def fleet_key(client: Client, namespace: str) -> bytes:
    """The key in Secret `transom-fleet-key`. Raises ApiError; NotFound without the namespace.

    Any text will do: a hash with a damaged key is another hash, and the Secrets are compared once more.
    """
    for _ in range(2):
        try:
            cached = await client.get(SECRETS, FLEET, namespace)
        except NotFound:
            if (made := await _make(client, FLEET, namespace)) is not None:
                return made
        else:
            return _key(cached.value) or repr(cached.value.get("data")).encode()
    raise Conflict(409, "Conflict", f"Secret {namespace}/{FLEET} comes and goes")


def _key(secret: Mapping[str, Any]) -> bytes | None:
    try:
        return base64.b64decode((secret.get("data") or {}).get(_FIELD) or "", validate=True) or None
    except binascii.Error:
        return None


async def _make(client: Client, name: str, namespace: str) -> bytes | None:
    """A new key; None where somebody else has made one. Raises ApiError."""
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
