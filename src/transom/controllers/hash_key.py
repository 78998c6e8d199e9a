"""The key of hashes that stand in a status: credentials go into them, and without it nobody can try guesses against them."""

import base64
import binascii
import hashlib
import hmac
import secrets
from typing import Final

import structlog

from transom.controllers.term import Term
from transom.controllers.watched import Watched
from transom.kube.errors import Conflict
from transom.kube.resources import SECRETS

_log: Final = structlog.get_logger("transom.hash_key")
NAME: Final = "transom-hash-key"
_KEY: Final = "key"
_BYTES: Final = 32


class HashKey:
    """Secret `transom-hash-key` in Transom's namespace, made where it is missing and kept as long as it is there."""

    def __init__(self, watched: Watched) -> None:
        self._watched = watched
        self._known: bytes | None = None

    async def digest(self, text: str, term: Term) -> str | None:
        """HMAC-SHA-256 of a text in 32 hex digits; None where the Secret holds no key. Raises ApiError."""
        key = self._read() or await self._make(term)
        return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()[:_BYTES] if key else None

    def _read(self) -> bytes | None:
        held = self._watched.secrets.snapshot().get(NAME, self._watched.namespace)
        if held is None:
            return self._known
        try:
            self._known = base64.b64decode((held.value.get("data") or {}).get(_KEY) or "", validate=True) or None
        except binascii.Error:
            self._known = None
        if self._known is None:
            _log.warning("the Secret has no key: delete it, and a new one is made", secret=NAME, field=f"data.{_KEY}")
        return self._known

    async def _make(self, term: Term) -> bytes | None:
        if self._watched.secrets.snapshot().get(NAME, self._watched.namespace) is not None:
            return None
        key = secrets.token_bytes(_BYTES)
        value = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": NAME, "namespace": self._watched.namespace},
            "type": "transom.dev/hash-key",
            "immutable": True,
            "data": {_KEY: base64.b64encode(key).decode()},
        }
        try:
            await term.client.create(SECRETS, value, self._watched.namespace)
        except Conflict:
            # made by somebody else a moment ago: the store will have it, and the next pass reads it
            return self._known
        self._known = key
        return key
