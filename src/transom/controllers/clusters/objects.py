"""The objects of workload clusters, written. Each is written once for each change, and objects of other owners are left alone.

ConfigMaps of ours are followed. Secrets may be read one by one alone. So a keyed hash says what is in them: it stands with
their uids in an annotation of the values' ConfigMap.
"""

import hashlib
import hmac
from collections.abc import Sequence
from typing import Any, Generic, Literal, TypeVar

import msgspec

from transom.capi.identity import SECRETS_ANNOTATION, ca_name, systemd_name, values_name, values_names
from transom.capi.objects import FleetObject
from transom.capi.windows_proxy import secret_name as windows_name
from transom.controllers.runtime.owned import CONFIG_MAPS, SECRETS, CachedSecret, OwnedConfigMap, handed_over, ours
from transom.kube import Conflict, NotFound
from transom.kube.client import Client
from transom.kube.resources import Resource
from transom.kube.store import ObjectKey, Store

H = TypeVar("H", CachedSecret, OwnedConfigMap)
Result = Literal["unchanged", "created", "applied", "deleted", "foreign"]


class Kept(msgspec.Struct, frozen=True):
    """What was done with one object; `foreign`: it is somebody else's, and nothing was done."""

    kind: str
    namespace: str
    name: str
    result: Result


class SecretState(msgspec.Struct, frozen=True):
    """A Secret of ours as it was last written."""

    uid: str
    hash: str


class _Written(msgspec.Struct, Generic[H], frozen=True):
    """An object as the server has it now; None where it is somebody else's."""

    object: H | None
    result: Result


class ObjectsWriter:
    """Writes the objects of one cluster at a time. It remembers what it wrote until the store has caught up."""

    def __init__(self, config_maps: Store[OwnedConfigMap]) -> None:
        self._config_maps = config_maps
        self._secrets: dict[ObjectKey, SecretState] = {}
        self._written: dict[ObjectKey, tuple[str | None, OwnedConfigMap | None]] = {}
        """By name: the version in the store that was decided upon, and what was made of it (None: deleted)."""

    def forget(self) -> None:
        """Somebody else may have written in the meantime: what is known is what the server says."""
        self._secrets.clear()
        self._written.clear()

    def noticed(self, name: ObjectKey, identity: str, after: OwnedConfigMap | None) -> bool:
        """Take note of a change in the store, of an object of a cluster's; whether it is news."""
        before = self._written.get(name)
        if after is not None and before is not None and before[1] is not None:
            return before[1].metadata.resource_version != after.metadata.resource_version
        if after is None:
            self._written.pop(name, None)
            # somebody takes objects away: the Secrets may be gone, too
            for secret in secret_names(identity):
                self._secrets.pop(ObjectKey(name.namespace, secret), None)
            return before is None or before[1] is not None
        return True

    async def keep(
        self, client: Client, key: bytes, place: ObjectKey, desired: Sequence[FleetObject], *, verify: bool
    ) -> list[Kept]:
        """Bring the objects of a cluster (namespace and id) to what is desired.

        `verify` reads each Secret, where else the hash is believed. Raises ApiError.
        """
        namespace, identity = place.namespace or "", place.name
        anchors = values_names(identity)
        for name in anchors:
            self._learn(namespace, self._config_map(ObjectKey(namespace, name)))
        anchor = next((one for one in reversed(desired) if one.kind == "ConfigMap" and one.name in anchors), None)
        done: list[Kept] = []
        states: dict[str, SecretState] = {}
        for wanted in desired:
            if wanted is anchor:
                continue
            if wanted.kind == "Secret":
                result, state = await self._keep_secret(client, key, identity, wanted, verify=verify)
                done.append(Kept(wanted.kind, namespace, wanted.name, result))
                if state is not None:
                    states[wanted.name] = state
            else:
                result = await self._keep_config_map(client, identity, wanted.manifest())
                done.append(Kept(wanted.kind, namespace, wanted.name, result))
        names = {(wanted.kind, wanted.name) for wanted in desired}
        for name in secret_names(identity):
            known = (namespace, name) in self._secrets
            # of our own names the ConfigMap tells: they are not asked for where nobody chose them
            asked = known or (verify and name != values_name(identity, own=True))
            if (
                ("Secret", name) not in names
                and asked
                and await self._delete_secret(client, identity, ObjectKey(namespace, name))
            ):
                done.append(Kept("Secret", namespace, name, "deleted"))
        # the anchor last: it says what Secrets there are
        for name in (ca_name(identity), *anchors):
            if ("ConfigMap", name) not in names and await self._delete_config_map(client, identity, ObjectKey(namespace, name)):
                done.append(Kept("ConfigMap", namespace, name, "deleted"))
        if anchor is not None:
            manifest = anchor.manifest({SECRETS_ANNOTATION: msgspec.json.encode(states, order="sorted").decode()})
            done.append(Kept("ConfigMap", namespace, anchor.name, await self._keep_config_map(client, identity, manifest)))
        return done

    # --- Secrets

    def _learn(self, namespace: str, anchor: OwnedConfigMap | None) -> None:
        text = (anchor.metadata.annotations or {}).get(SECRETS_ANNOTATION) if anchor else None
        try:
            noted = msgspec.json.decode(text or "{}", type=dict[str, SecretState])
        except msgspec.DecodeError:
            # a person wrote into it: what is there is found by asking
            return
        for name, state in noted.items():
            self._secrets.setdefault(ObjectKey(namespace, name), state)

    async def _keep_secret(
        self, client: Client, key: bytes, identity: str, wanted: FleetObject, *, verify: bool
    ) -> tuple[Result, SecretState | None]:
        name: ObjectKey = ObjectKey(wanted.namespace, wanted.name)
        manifest = wanted.manifest()
        digest = keyed_hash(key, manifest)
        state = self._secrets.get(name)
        if state is not None and state.hash == digest and not verify:
            return "unchanged", state
        made = None if verify else await _try_write(client, SECRETS, manifest, state.uid if state else None)
        if made is None:
            self._secrets.pop(name, None)
            made = await _read_and_write(client, SECRETS, identity, manifest)
        if made.object is None:
            return made.result, None
        self._secrets[name] = state = SecretState(made.object.metadata.uid or "", digest)
        return made.result, state

    async def _delete_secret(self, client: Client, identity: str, name: ObjectKey) -> bool:
        found = await _get(client, SECRETS, name)
        mine = found is not None and ours(found.metadata, identity)
        if found is not None and mine:
            await _delete(client, SECRETS, name, found.metadata.uid)
        self._secrets.pop(name, None)
        return mine

    # --- ConfigMaps

    def _config_map(self, name: ObjectKey) -> OwnedConfigMap | None:
        cached = self._config_maps.snapshot().get(name)
        written = self._written.get(name)
        if written is None:
            return cached
        if written[0] == _version(cached):
            return written[1]
        del self._written[name]
        return cached

    async def _keep_config_map(self, client: Client, identity: str, manifest: dict[str, Any]) -> Result:
        meta = manifest["metadata"]
        name: ObjectKey = ObjectKey(meta["namespace"], meta["name"])
        cached = self._config_map(name)
        if cached is not None and cached.holds(manifest):
            return "unchanged"
        version = _version(self._config_maps.snapshot().get(name))
        made = await _try_write(client, CONFIG_MAPS, manifest, cached.metadata.uid if cached else None)
        if made is None:
            made = await _read_and_write(client, CONFIG_MAPS, identity, manifest)
        if made.object is not None:
            self._written[name] = (version, made.object)
        return made.result

    async def _delete_config_map(self, client: Client, identity: str, name: ObjectKey) -> bool:
        cached = self._config_map(name)
        if cached is None or not ours(cached.metadata, identity):
            return False
        version = _version(self._config_maps.snapshot().get(name))
        await _delete(client, CONFIG_MAPS, name, cached.metadata.uid)
        self._written[name] = (version, None)
        return True


async def compare(client: Client, place: ObjectKey, desired: Sequence[FleetObject]) -> list[Kept]:
    """What `keep` would do with each object of a cluster; nothing is written. Raises ApiError."""
    done: list[Kept] = []
    namespace, identity = place.namespace or "", place.name
    for wanted in desired:
        found = await _get(client, _resource(wanted.kind), ObjectKey(wanted.namespace, wanted.name))
        result: Result = "created"
        if found is not None:
            result = "unchanged" if found.holds(wanted.manifest()) else "applied"
            result = result if _allowed(found, identity) else "foreign"
        done.append(Kept(wanted.kind, wanted.namespace, wanted.name, result))
    names = {(wanted.kind, wanted.name) for wanted in desired}
    possible = [("Secret", one) for one in secret_names(identity)]
    possible += [("ConfigMap", one) for one in (ca_name(identity), *values_names(identity))]
    for kind, one in possible:
        if (kind, one) not in names:
            left = await _get(client, _resource(kind), ObjectKey(namespace, one))
            if left is not None and ours(left.metadata, identity):
                done.append(Kept(kind, namespace, one, "deleted"))
    return done


def _resource(kind: str) -> Resource[Any]:
    return SECRETS if kind == "Secret" else CONFIG_MAPS


def secret_names(identity: str) -> tuple[str, ...]:
    """All Secrets that a cluster of ours can have."""
    return systemd_name(identity), windows_name(identity), *values_names(identity)


def keyed_hash(key: bytes, manifest: dict[str, Any]) -> str:
    """What tells two contents of a Secret apart, and says nothing of them to whoever has not the key."""
    return hmac.new(key, msgspec.json.encode(manifest, order="deterministic"), hashlib.sha256).hexdigest()[:32]


def _version(cached: OwnedConfigMap | None) -> str | None:
    return cached.metadata.resource_version if cached else None


def _allowed(found: CachedSecret | OwnedConfigMap, identity: str) -> bool:
    return ours(found.metadata, identity) or handed_over(found.metadata)


async def _try_write(client: Client, resource: Resource[H], manifest: dict[str, Any], uid: str | None) -> _Written[H] | None:
    """Create, or with a uid apply; None where the server says that it is not as was thought."""
    try:
        if uid is None:
            return _Written(await client.create(resource, manifest, manifest["metadata"]["namespace"]), "created")
        return _Written(await _apply(client, resource, manifest, uid), "applied")
    except Conflict:
        return None


async def _read_and_write(client: Client, resource: Resource[H], identity: str, manifest: dict[str, Any]) -> _Written[H]:
    """Read first, and then do what is right. Raises Conflict where it changes under our hands."""
    meta = manifest["metadata"]
    found = await _get(client, resource, ObjectKey(meta["namespace"], meta["name"]))
    if found is None:
        return _Written(await client.create(resource, manifest, meta["namespace"]), "created")
    if not _allowed(found, identity):
        return _Written(None, "foreign")
    if found.holds(manifest):
        return _Written(found, "unchanged")
    return _Written(await _apply(client, resource, manifest, found.metadata.uid), "applied")


async def _apply(client: Client, resource: Resource[H], manifest: dict[str, Any], uid: str | None) -> H:
    meta = manifest["metadata"]
    value = {**manifest, "metadata": {**meta, "uid": uid}}
    return await client.server_side_apply(resource, value, meta["name"], meta["namespace"])


async def _get(client: Client, resource: Resource[H], name: ObjectKey) -> H | None:
    try:
        return await client.get(resource, name.name, name.namespace)
    except NotFound:
        return None


async def _delete(client: Client, resource: Resource[Any], name: ObjectKey, uid: str | None) -> None:
    try:
        await client.delete(resource, name.name, name.namespace, uid)
    except (NotFound, Conflict):
        # gone, or another one by now
        return
