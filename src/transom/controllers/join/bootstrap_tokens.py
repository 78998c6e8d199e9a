"""Bootstrap tokens: one for each host that is to join, good for an hour, and for nothing but to ask for a certificate.

The token itself is a Secret of kube-system, where the API server looks for it. Its purpose is in a Secret of Transom's
namespace, so that Transom needs no right to read the Secrets of kube-system.
"""

import base64
import secrets
import string
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from transom.controllers.runtime.cached_objects import INSTANCES, CachedInstance
from transom.controllers.runtime.controller import Leadership
from transom.controllers.runtime.informers import Informers
from transom.kube.errors import Conflict, NotFound
from transom.kube.objects import UnstructuredObject
from transom.kube.resources import SECRETS
from transom.proxy.secret import Secret
from transom.windows.nodes.windows_instance import BOOTSTRAPPERS

LABEL: Final = "transom.dev/bootstrap-token"
"""The label of Transom's own Secret: the token's id."""
EXPIRATION: Final = "transom.dev/expiration"
LIFE: Final = timedelta(hours=1)
_LEAST: Final = timedelta(minutes=15)
"""A token with less left is not given to a host any more."""
_SYSTEM: Final = "kube-system"
_LETTERS: Final = string.ascii_lowercase + string.digits
_TIME: Final = "%Y-%m-%dT%H:%M:%SZ"


class Token(msgspec.Struct, frozen=True):
    """A bootstrap token of one instance; `text` is `id.secret`."""

    id: str
    text: Secret

    @property
    def username(self) -> str:
        """The user name of the token's holder (Kubernetes, "Authenticating with Bootstrap Tokens")."""
        return f"system:bootstrap:{self.id}"


class BootstrapTokens:
    """Makes them, finds them again after a restart, and forgets them."""

    def __init__(self, informers: Informers, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._informers = informers
        self._now = now

    async def ensure(self, instance: CachedInstance, leadership: Leadership) -> Token:
        """Return the token of an instance; create one if it has none that is valid long enough. Raises ApiError."""
        cached = self._find_token(instance)
        if (
            cached is not None
            and self._parse_expiration(cached) - self._now() > _LEAST
            and (token := _parse_token(cached)) is not None
        ):
            return token
        made = Token(_generate_random(6), Secret(""))
        made = msgspec.structs.replace(made, text=Secret(f"{made.id}.{_generate_random(16)}"))
        expiration = (self._now() + LIFE).strftime(_TIME)
        # a token that is not assigned to a host opens nothing, and one that the API server does not know joins no host
        await leadership.client.create(SECRETS, _build_system_secret(instance, made, expiration), _SYSTEM)
        await leadership.client.apply(
            SECRETS, _build_token_record(instance, made, expiration), _build_name(instance), self._informers.namespace
        )
        return made

    async def revoke(self, instance: CachedInstance, leadership: Leadership) -> None:
        """Delete what was created for an instance that has joined. The token expires automatically. Raises ApiError."""
        if (cached := self._find_token(instance)) is not None:
            try:
                await leadership.client.delete(SECRETS, _build_name(instance), self._informers.namespace, cached.metadata.uid)
            except (NotFound, Conflict):
                return

    def iter_token_holders(self) -> Iterator[tuple[str, str]]:
        """Iterate over valid tokens: the user name of the holder and the UID of its instance."""
        for cached in self._informers.secrets.take_snapshot():
            token_id = (cached.metadata.labels or {}).get(LABEL)
            if token_id and self._parse_expiration(cached) > self._now():
                for owner in cached.metadata.owner_references or ():
                    yield f"system:bootstrap:{token_id}", owner.uid

    def _find_token(self, instance: CachedInstance) -> UnstructuredObject | None:
        cached = self._informers.secrets.take_snapshot().find_named(_build_name(instance), self._informers.namespace)
        owners = cached.metadata.owner_references or () if cached is not None else ()
        return cached if any(owner.uid == instance.metadata.uid for owner in owners) else None

    @staticmethod
    def _parse_expiration(cached: UnstructuredObject) -> datetime:
        try:
            return datetime.strptime((cached.metadata.annotations or {}).get(EXPIRATION, ""), _TIME).replace(tzinfo=UTC)
        except ValueError:
            return datetime.min.replace(tzinfo=UTC)


def _build_name(instance: CachedInstance) -> str:
    return f"bootstrap-{instance.metadata.name}"[:253]


def _parse_token(cached: UnstructuredObject) -> Token | None:
    token_id = (cached.metadata.labels or {}).get(LABEL, "")
    encoded = (cached.value.get("data") or {}).get("token")
    if not token_id or not isinstance(encoded, str):
        return None
    return Token(token_id, Secret(base64.b64decode(encoded).decode()))


def _build_token_record(instance: CachedInstance, token: Token, expiration: str) -> dict[str, Any]:
    meta = instance.metadata
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": _build_name(instance),
            "namespace": meta.namespace,
            "labels": {LABEL: token.id},
            "annotations": {EXPIRATION: expiration},
            "ownerReferences": [
                {"apiVersion": INSTANCES.api_version, "kind": INSTANCES.kind, "name": meta.name, "uid": meta.uid}
            ],
        },
        "data": {"token": base64.b64encode(token.text.reveal().encode()).decode()},
    }


def _build_system_secret(instance: CachedInstance, token: Token, expiration: str) -> dict[str, Any]:
    """As kubeadm makes them (Kubernetes, "Bootstrap Token Secret Format")."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "bootstrap.kubernetes.io/token",
        "metadata": {"name": f"bootstrap-token-{token.id}", "namespace": _SYSTEM},
        "stringData": {
            "description": f"Transom: WindowsInstance {instance.metadata.namespace}/{instance.metadata.name}",
            "token-id": token.id,
            "token-secret": token.text.reveal().partition(".")[2],
            "expiration": expiration,
            "usage-bootstrap-authentication": "true",
            "auth-extra-groups": BOOTSTRAPPERS,
        },
    }


def _generate_random(length: int) -> str:
    return "".join(secrets.choice(_LETTERS) for _ in range(length))
