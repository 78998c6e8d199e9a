"""The key of the hashes by which Secrets elsewhere are known: a Secret in Transom's namespace, made once."""

import base64
import binascii
import secrets
from typing import Final

import msgspec

from transom.capi.identity import MANAGED_BY, TRANSOM
from transom.controllers.fleet.kinds import SECRETS
from transom.kube.client import Client
from transom.kube.errors import Conflict, NotFound

NAME: Final = "transom-fleet-key"
_FIELD: Final = "key"
_BYTES: Final = 32


async def fleet_key(client: Client, namespace: str) -> bytes:
    """The key, made where it is not there. Raises ApiError; NotFound without the namespace."""
    for _ in range(2):
        try:
            held = await client.get(SECRETS, NAME, namespace)
        except NotFound:
            made = base64.b64encode(secrets.token_bytes(_BYTES)).decode()
            metadata = {"name": NAME, "namespace": namespace, "labels": {MANAGED_BY: TRANSOM}}
            value = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {_FIELD: made}}
            try:
                await client.create(SECRETS, value, namespace)
            except Conflict:
                continue
            return base64.b64decode(made)
        return _decoded(held.data or {})
    raise Conflict(409, "Conflict", f"Secret {namespace}/{NAME} comes and goes")


def _decoded(data: dict[str, str]) -> bytes:
    """Any text will do: a hash with a damaged key is another hash, and the Secrets are compared once more."""
    text = data.get(_FIELD, "")
    try:
        return binascii.a2b_base64(text) or msgspec.json.encode(text)
    except ValueError:
        return msgspec.json.encode(text)
