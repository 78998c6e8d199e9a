"""SSH keys that open hosts, or may, kept until no host needs them, so that a changed Secret locks no host.

For each Secret with a key there is one of Transom's own. Its `private-key.pem` is the key that was last seen to open a host.
`private-key.previous.pem` is the one before, as long as a host is opened by it. A key that a host is about to be moved to
stands behind them until it was seen.
"""

import asyncio
import base64
import hashlib
from collections.abc import Callable, Iterator, Mapping, Set
from typing import Any, Final

import structlog

from transom.controllers.runtime.controller import Leadership
from transom.controllers.runtime.informers import Informers
from transom.hosts.errors import KeyUnusable
from transom.hosts.ssh.ssh_client import compute_public_hash
from transom.kube.errors import Conflict, NotFound
from transom.kube.objects import UnstructuredObject
from transom.kube.resources import SECRETS
from transom.proxy.secret import Secret
from transom.sources.core_objects import decode_string
from transom.windows.nodes.windows_instance import KEY, PREVIOUS

_log: Final = structlog.get_logger("transom.keys")
OF: Final = "transom.dev/key-secret"
"""The annotation that says whose keys are kept: the name of the Secret that people write."""
_PREFIX: Final = "transom-kept-keys."


def build_secret_name(key_secret: str) -> str:
    """Return the name of Transom's Secret for a Secret with a key."""
    name = _PREFIX + key_secret
    return name if len(name) <= 253 else _PREFIX + hashlib.sha256(key_secret.encode()).hexdigest()


class KeptKeys:
    """What is in the store, and what this process has written since."""

    def __init__(self, informers: Informers) -> None:
        self._informers = informers
        self._written: dict[str, tuple[str | None, UnstructuredObject]] = {}
        self._writing = asyncio.Lock()
        self._unrecorded: set[str] = set()
        """Public hashes that this process keeps, and that no status was seen to name yet."""

    def list_keys(self, key_secret: str) -> tuple[Secret, ...]:
        """Return the kept keys, the newest first."""
        cached = self._read(build_secret_name(key_secret))
        return tuple(_iter_keys(cached.value)) if cached is not None else ()

    def find(self, key_secret: str, digest: str) -> Secret | None:
        """Return the kept key of this public hash: of that Secret, else of any other."""
        of_secret = next((key for key in self.list_keys(key_secret) if compute_public_hash(key) == digest), None)
        return of_secret or next(
            (key for name in self.list_secrets() for key in self.list_keys(name) if compute_public_hash(key) == digest), None
        )

    def list_secrets(self) -> list[str]:
        """Return the Secrets whose keys are kept."""
        cached = {
            item.metadata.name: item
            for item in self._informers.secrets.take_snapshot()
            if item.metadata.name.startswith(_PREFIX)
        }
        cached |= {name: written for name, (_, written) in self._written.items()}
        return sorted({of for item in cached.values() if (of := (item.metadata.annotations or {}).get(OF))})

    async def keep(self, key_secret: str, key: Secret, leadership: Leadership, *, was_used: bool = True) -> None:
        """Keep a key that has just opened a host (`was_used`), or that one is about to be moved to. Raises ApiError."""
        digest = compute_public_hash(key)
        self._unrecorded.add(digest)
        async with self._writing:
            kept = self.list_keys(key_secret)
            if digest in map(compute_public_hash, kept[:1] if was_used else kept):
                return
            others = tuple(item for item in kept if compute_public_hash(item) != digest)
            await self._write(key_secret, (key, *others) if was_used else (*others, key), leadership)
        _log.info("key kept", secret=key_secret, public=digest[:16])

    async def delete_unneeded_keys(self, key_secret: str, is_needed: Callable[[str], bool], leadership: Leadership) -> bool:
        """Keep of the keys only those whose public hash is needed, or may be in a moment; whether any went. Raises ApiError."""
        async with self._writing:
            kept = self.list_keys(key_secret)
            left = tuple(key for key in kept if (digest := compute_public_hash(key)) in self._unrecorded or is_needed(digest))
            if left == kept:
                return False
            await self._write(key_secret, left, leadership)
        _log.info("old keys deleted", secret=key_secret, left=len(left))
        return True

    def mark_keys_recorded(self, digests: Set[str]) -> None:
        """Record the keys that statuses name: from now on, these show whether a key is needed."""
        self._unrecorded -= digests

    def _read(self, name: str) -> UnstructuredObject | None:
        cached = self._informers.secrets.take_snapshot().find_named(name, self._informers.namespace)
        based, written = self._written.get(name, (None, None))
        if written is not None and based == (cached.metadata.resource_version if cached is not None else None):
            return written
        self._written.pop(name, None)
        return cached

    async def _write(self, key_secret: str, keys: tuple[Secret, ...], leadership: Leadership) -> None:
        name, namespace = build_secret_name(key_secret), self._informers.namespace
        cached_secret = self._informers.secrets.take_snapshot().find_named(name, namespace)
        cached = self._read(name)
        self._written.pop(name, None)
        if not keys:
            if cached is not None:
                await _delete_secret(cached, leadership)
            return
        data: dict[str, str | None] = {
            field: base64.b64encode(key.reveal().encode()).decode()
            for field, key in zip(_iter_field_names(), keys, strict=False)
        }
        if cached is None:
            metadata = {"name": name, "namespace": namespace, "annotations": {OF: key_secret}}
            value = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "transom.dev/kept-keys", "data": data}
            answer = await leadership.client.create(SECRETS, value, namespace)
        else:
            removed_fields = dict.fromkeys(set(cached.value.get("data") or {}) - set(data))
            # a concurrent write is not overwritten
            change = {"metadata": {"resourceVersion": cached.metadata.resource_version}, "data": data | removed_fields}
            answer = await leadership.client.patch(SECRETS, change, name, namespace)
        self._written[name] = (cached_secret.metadata.resource_version if cached_secret is not None else None, answer)


async def _delete_secret(cached: UnstructuredObject, leadership: Leadership) -> None:
    try:
        await leadership.client.delete(SECRETS, cached.metadata.name, cached.metadata.namespace, cached.metadata.uid)
    except (NotFound, Conflict):
        return


def _iter_field_names() -> Iterator[str]:
    """Iterate over the names under which keys are kept, the newest first."""
    yield KEY
    yield PREVIOUS
    number = 2
    while True:
        yield PREVIOUS.replace(".pem", f"-{number}.pem")
        number += 1


def _iter_keys(value: Mapping[str, Any]) -> Iterator[Secret]:
    data = value.get("data") or {}
    for field in _iter_field_names():
        if field not in data:
            return
        text = decode_string(data[field])
        if text is not None and _is_usable(key := Secret(text)):
            yield key


def _is_usable(key: Secret) -> bool:
    try:
        compute_public_hash(key)
    except KeyUnusable:
        return False
    return True
