"""The objects of workload clusters, written. Each is written once for each change, and objects of other owners are left alone.

Transom watches its ConfigMaps, but reads Secrets one by one. So a keyed hash describes their content: it is stored with
their uids in an annotation of the values' ConfigMap.
"""

import hashlib
import hmac
from collections.abc import Sequence
from typing import Any, Generic, Literal, TypeVar

import msgspec

from transom.capi.bootstrap.windows_proxy import build_secret_name as windows_name
from transom.capi.values.cluster_identity import (
    SECRETS_ANNOTATION,
    build_ca_name,
    build_systemd_name,
    build_systemd_names,
    build_values_name,
    list_values_names,
)
from transom.capi.values.cluster_objects import FleetObject
from transom.controllers.runtime.owned_objects import (
    CONFIG_MAPS,
    SECRETS,
    CachedSecret,
    OwnedConfigMap,
    has_owner_labels,
    is_handed_over,
)
from transom.kube.client import Client
from transom.kube.errors import Conflict, NotFound
from transom.kube.resources import Resource
from transom.kube.store import ObjectKey, Store

H = TypeVar("H", CachedSecret, OwnedConfigMap)
Result = Literal["unchanged", "created", "applied", "deleted", "foreign"]


class ObjectResult(msgspec.Struct, frozen=True):
    """The result for one object. `foreign`: the object has another owner and was not changed."""

    kind: str
    namespace: str
    name: str
    result: Result


class SecretState(msgspec.Struct, frozen=True):
    """The last written version of one of Transom's Secrets."""

    uid: str
    hash: str


class _WrittenObject(msgspec.Struct, Generic[H], frozen=True):
    """An object as the server has it now; None if it has another owner."""

    object: H | None
    result: Result


class ObjectsWriter:
    """Writes the objects of one cluster at a time. It remembers what it wrote until the store has caught up."""

    def __init__(self, config_maps: Store[OwnedConfigMap]) -> None:
        self._config_maps = config_maps
        self._secrets: dict[ObjectKey, SecretState] = {}
        self._written: dict[ObjectKey, tuple[str | None, OwnedConfigMap | None]] = {}
        """By name: the version in the store at the decision, and the written object (None: deleted)."""

    def forget_written(self) -> None:
        """Forget what was written: another writer may have changed it, so the server is asked again."""
        self._secrets.clear()
        self._written.clear()

    def observe_change(self, name: ObjectKey, cluster_id: str, after: OwnedConfigMap | None) -> bool:
        """Record a change in the store to an object of a cluster. Return True if it is new."""
        before = self._written.get(name)
        if after is not None and before is not None and before[1] is not None:
            return before[1].metadata.resource_version != after.metadata.resource_version
        if after is None:
            self._written.pop(name, None)
            # objects are being deleted: the Secrets may be gone, too
            for secret in list_secret_names(cluster_id):
                self._secrets.pop(ObjectKey(name.namespace, secret), None)
            return before is None or before[1] is not None
        return True

    async def reconcile_objects(
        self, client: Client, key: bytes, cluster_key: ObjectKey, desired: Sequence[FleetObject], *, verify: bool
    ) -> list[ObjectResult]:
        """Bring the objects of a cluster (namespace and id) to what is desired.

        `verify` reads each Secret, where else the hash is believed. Raises ApiError.
        """
        namespace, identity = cluster_key.namespace or "", cluster_key.name
        anchors = list_values_names(identity)
        for name in anchors:
            self._read_secret_states(namespace, self._get_config_map(ObjectKey(namespace, name)))
        anchor = next((item for item in reversed(desired) if item.kind == "ConfigMap" and item.name in anchors), None)
        done: list[ObjectResult] = []
        states: dict[str, SecretState] = {}
        for wanted in desired:
            if wanted is anchor:
                continue
            if wanted.kind == "Secret":
                result, state = await self._reconcile_secret(client, key, identity, wanted, verify=verify)
                done.append(ObjectResult(wanted.kind, namespace, wanted.name, result))
                if state is not None:
                    states[wanted.name] = state
            else:
                result = await self._reconcile_config_map(client, identity, wanted.to_manifest())
                done.append(ObjectResult(wanted.kind, namespace, wanted.name, result))
        names = {(wanted.kind, wanted.name) for wanted in desired}
        for name in list_secret_names(identity):
            known = (namespace, name) in self._secrets
            # the ConfigMap records names that a user chose: without one, they are not queried
            reads_server = known or (
                verify and name not in (build_values_name(identity, own_name=True), build_systemd_name(identity, own_name=True))
            )
            if (
                ("Secret", name) not in names
                and reads_server
                and await self._delete_secret(client, identity, ObjectKey(namespace, name))
            ):
                done.append(ObjectResult("Secret", namespace, name, "deleted"))
        # the anchor last: it says what Secrets there are
        for name in (build_ca_name(identity), *anchors):
            if ("ConfigMap", name) not in names and await self._delete_config_map(client, identity, ObjectKey(namespace, name)):
                done.append(ObjectResult("ConfigMap", namespace, name, "deleted"))
        if anchor is not None:
            manifest = anchor.to_manifest({SECRETS_ANNOTATION: msgspec.json.encode(states, order="sorted").decode()})
            done.append(
                ObjectResult("ConfigMap", namespace, anchor.name, await self._reconcile_config_map(client, identity, manifest))
            )
        return done

    # --- Secrets

    def has_secret(self, name: ObjectKey, cluster_id: str) -> bool:
        """Return True if a Secret of the cluster is known to be ours."""
        for anchor in list_values_names(cluster_id):
            self._read_secret_states(name.namespace or "", self._get_config_map(ObjectKey(name.namespace, anchor)))
        return name in self._secrets

    def _read_secret_states(self, namespace: str, anchor: OwnedConfigMap | None) -> None:
        text = (anchor.metadata.annotations or {}).get(SECRETS_ANNOTATION) if anchor else None
        try:
            noted = msgspec.json.decode(text or "{}", type=dict[str, SecretState])
        except msgspec.DecodeError:
            # a person wrote into it: what is there is found by asking
            return
        for name, state in noted.items():
            self._secrets.setdefault(ObjectKey(namespace, name), state)

    async def _reconcile_secret(
        self, client: Client, key: bytes, cluster_id: str, wanted: FleetObject, *, verify: bool
    ) -> tuple[Result, SecretState | None]:
        name: ObjectKey = ObjectKey(wanted.namespace, wanted.name)
        manifest = wanted.to_manifest()
        digest = compute_keyed_hash(key, manifest)
        state = self._secrets.get(name)
        if state is not None and state.hash == digest and not verify:
            return "unchanged", state
        made = None if verify else await _try_write(client, SECRETS, manifest, state.uid if state else None)
        if made is None:
            self._secrets.pop(name, None)
            made = await _read_and_write(client, SECRETS, cluster_id, manifest)
        if made.object is None:
            return made.result, None
        self._secrets[name] = state = SecretState(made.object.metadata.uid or "", digest)
        return made.result, state

    async def _delete_secret(self, client: Client, cluster_id: str, name: ObjectKey) -> bool:
        secret = await _get(client, SECRETS, name)
        mine = secret is not None and has_owner_labels(secret.metadata, cluster_id)
        if secret is not None and mine:
            await _delete(client, SECRETS, name, secret.metadata.uid)
        self._secrets.pop(name, None)
        return mine

    # --- ConfigMaps

    def _get_config_map(self, name: ObjectKey) -> OwnedConfigMap | None:
        cached = self._config_maps.take_snapshot().get(name)
        written = self._written.get(name)
        if written is None:
            return cached
        if written[0] == _get_version(cached):
            return written[1]
        del self._written[name]
        return cached

    async def _reconcile_config_map(self, client: Client, cluster_id: str, manifest: dict[str, Any]) -> Result:
        meta = manifest["metadata"]
        name: ObjectKey = ObjectKey(meta["namespace"], meta["name"])
        cached = self._get_config_map(name)
        if cached is not None and cached.contains_manifest(manifest):
            return "unchanged"
        version = _get_version(self._config_maps.take_snapshot().get(name))
        made = await _try_write(client, CONFIG_MAPS, manifest, cached.metadata.uid if cached else None)
        if made is None:
            made = await _read_and_write(client, CONFIG_MAPS, cluster_id, manifest)
        if made.object is not None:
            self._written[name] = (version, made.object)
        return made.result

    async def _delete_config_map(self, client: Client, cluster_id: str, name: ObjectKey) -> bool:
        cached = self._get_config_map(name)
        if cached is None or not has_owner_labels(cached.metadata, cluster_id):
            return False
        version = _get_version(self._config_maps.take_snapshot().get(name))
        await _delete(client, CONFIG_MAPS, name, cached.metadata.uid)
        self._written[name] = (version, None)
        return True


async def compare_objects(client: Client, cluster_key: ObjectKey, desired: Sequence[FleetObject]) -> list[ObjectResult]:
    """Return what `keep` would do with each object of a cluster, without writing. Raises ApiError."""
    done: list[ObjectResult] = []
    namespace, identity = cluster_key.namespace or "", cluster_key.name
    for wanted in desired:
        live_object = await _get(client, _get_resource(wanted.kind), ObjectKey(wanted.namespace, wanted.name))
        result: Result = "created"
        if live_object is not None:
            result = "unchanged" if live_object.contains_manifest(wanted.to_manifest()) else "applied"
            result = result if _can_write(live_object, identity) else "foreign"
        done.append(ObjectResult(wanted.kind, wanted.namespace, wanted.name, result))
    names = {(wanted.kind, wanted.name) for wanted in desired}
    possible = [("Secret", secret_name) for secret_name in list_secret_names(identity)]
    possible += [("ConfigMap", item) for item in (build_ca_name(identity), *list_values_names(identity))]
    for kind, entry in possible:
        if (kind, entry) not in names:
            left = await _get(client, _get_resource(kind), ObjectKey(namespace, entry))
            if left is not None and has_owner_labels(left.metadata, identity):
                done.append(ObjectResult(kind, namespace, entry, "deleted"))
    return done


def _get_resource(kind: str) -> Resource[Any]:
    return SECRETS if kind == "Secret" else CONFIG_MAPS


def list_secret_names(cluster_id: str) -> tuple[str, ...]:
    """Return the names of all Secrets that Transom can write for a cluster."""
    return *build_systemd_names(cluster_id), windows_name(cluster_id), *list_values_names(cluster_id)


def compute_keyed_hash(key: bytes, manifest: dict[str, Any]) -> str:
    """Return a hash that differs between two contents of a Secret and reveals nothing without the key."""
    return hmac.new(key, msgspec.json.encode(manifest, order="deterministic"), hashlib.sha256).hexdigest()[:32]


def _get_version(cached: OwnedConfigMap | None) -> str | None:
    return cached.metadata.resource_version if cached else None


def _can_write(live_object: CachedSecret | OwnedConfigMap, cluster_id: str) -> bool:
    return has_owner_labels(live_object.metadata, cluster_id) or is_handed_over(live_object.metadata)


async def _try_write(
    client: Client, resource: Resource[H], manifest: dict[str, Any], uid: str | None
) -> _WrittenObject[H] | None:
    """Create, or with a uid apply; None where the server says that it is not as was thought."""
    try:
        if uid is None:
            return _WrittenObject(await client.create(resource, manifest, manifest["metadata"]["namespace"]), "created")
        return _WrittenObject(await _apply(client, resource, manifest, uid), "applied")
    except Conflict:
        return None


async def _read_and_write(
    client: Client, resource: Resource[H], cluster_id: str, manifest: dict[str, Any]
) -> _WrittenObject[H]:
    """Read first, and then do what is right. Raises Conflict where it changes under our hands."""
    meta = manifest["metadata"]
    live_object = await _get(client, resource, ObjectKey(meta["namespace"], meta["name"]))
    if live_object is None:
        return _WrittenObject(await client.create(resource, manifest, meta["namespace"]), "created")
    if not _can_write(live_object, cluster_id):
        return _WrittenObject(None, "foreign")
    if live_object.contains_manifest(manifest):
        return _WrittenObject(live_object, "unchanged")
    return _WrittenObject(await _apply(client, resource, manifest, live_object.metadata.uid), "applied")


async def _apply(client: Client, resource: Resource[H], manifest: dict[str, Any], uid: str | None) -> H:
    meta = manifest["metadata"]
    value = {**manifest, "metadata": {**meta, "uid": uid}}
    return await client.apply(resource, value, meta["name"], meta["namespace"])


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
