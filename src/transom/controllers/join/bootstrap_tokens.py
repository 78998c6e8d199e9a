"""Bootstrap tokens: one for each host that is to join, good for an hour, and for nothing but to ask for a certificate.

The token itself is a Secret of kube-system, where the API server looks for it. Its purpose stands in a Secret of Transom's
namespace, so that Transom needs no right to read the Secrets of kube-system.
"""

import base64
import secrets
import string
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from transom.controllers.runtime.cached import INSTANCES, CachedInstance
from transom.controllers.runtime.controller import Leadership
from transom.controllers.runtime.informers import Informers
from transom.kube import Conflict, NotFound
from transom.kube.objects import Whole
from transom.kube.resources import SECRETS
from transom.proxy.secret import Secret
from transom.windows.nodes import BOOTSTRAPPERS

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
        """As whom the API server knows its holder (Kubernetes, "Authenticating with Bootstrap Tokens")."""
        return f"system:bootstrap:{self.id}"


class BootstrapTokens:
    """Makes them, finds them again after a restart, and forgets them."""

    def __init__(self, informers: Informers, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._informers = informers
        self._now = now

    async def ensure(self, instance: CachedInstance, leadership: Leadership) -> Token:
        """The token of an instance, made where it has none that lasts. Raises ApiError."""
        cached = self._token_of(instance)
        if cached is not None and self._expiration(cached) - self._now() > _LEAST and (token := _token(cached)) is not None:
            return token
        made = Token(_random(6), Secret(""))
        made = msgspec.structs.replace(made, text=Secret(f"{made.id}.{_random(16)}"))
        expiration = (self._now() + LIFE).strftime(_TIME)
        # a token that is not known to be for a host opens nothing, and one that the API server does not know joins nobody
        await leadership.client.create(SECRETS, _system_secret(instance, made, expiration), _SYSTEM)
        await leadership.client.server_side_apply(
            SECRETS, _record(instance, made, expiration), _name(instance), self._informers.namespace
        )
        return made

    async def forget(self, instance: CachedInstance, leadership: Leadership) -> None:
        """What was made for an instance is void: it has joined. The token ends by itself. Raises ApiError."""
        if (cached := self._token_of(instance)) is not None:
            try:
                await leadership.client.delete(SECRETS, _name(instance), self._informers.namespace, cached.metadata.uid)
            except (NotFound, Conflict):
                return

    def known(self) -> Iterator[tuple[str, str]]:
        """Of each token that has not run out: the user name of its holder, and the UID of the instance it was made for."""
        for cached in self._informers.secrets.snapshot():
            token_id = (cached.metadata.labels or {}).get(LABEL)
            if token_id and self._expiration(cached) > self._now():
                for owner in cached.metadata.owner_references or ():
                    yield f"system:bootstrap:{token_id}", owner.uid

    def _token_of(self, instance: CachedInstance) -> Whole | None:
        cached = self._informers.secrets.snapshot().named(_name(instance), self._informers.namespace)
        owners = cached.metadata.owner_references or () if cached is not None else ()
        return cached if any(owner.uid == instance.metadata.uid for owner in owners) else None

    @staticmethod
    def _expiration(cached: Whole) -> datetime:
        try:
            return datetime.strptime((cached.metadata.annotations or {}).get(EXPIRATION, ""), _TIME).replace(tzinfo=UTC)
        except ValueError:
            return datetime.min.replace(tzinfo=UTC)


def _name(instance: CachedInstance) -> str:
    return f"bootstrap-{instance.metadata.name}"[:253]


def _token(cached: Whole) -> Token | None:
    token_id = (cached.metadata.labels or {}).get(LABEL, "")
    encoded = (cached.value.get("data") or {}).get("token")
    if not token_id or not isinstance(encoded, str):
        return None
    return Token(token_id, Secret(base64.b64decode(encoded).decode()))


def _record(instance: CachedInstance, token: Token, expiration: str) -> dict[str, Any]:
    meta = instance.metadata
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": _name(instance),
            "namespace": meta.namespace,
            "labels": {LABEL: token.id},
            "annotations": {EXPIRATION: expiration},
            "ownerReferences": [
                {"apiVersion": INSTANCES.api_version, "kind": INSTANCES.kind, "name": meta.name, "uid": meta.uid}
            ],
        },
        "data": {"token": base64.b64encode(token.text.reveal().encode()).decode()},
    }


def _system_secret(instance: CachedInstance, token: Token, expiration: str) -> dict[str, Any]:
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


def _random(length: int) -> str:
    return "".join(secrets.choice(_LETTERS) for _ in range(length))
