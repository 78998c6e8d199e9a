"""SSH keys over time: rotation, keys that hosts still need, keys that may go.

`KeysController` cleans up after a changed key: it deletes unused kept keys, and Machines that no key opens.

A Machine whose host takes neither the key nor the one before it cannot be moved. Where a MachineSet owns it, it is deleted, and
the MachineSet makes another one with today's user data. The Machine API drains the node before that. One at a time for each
MachineSet, and only while everything else of it works.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, Final

import structlog

from transom.common.timestamps import parse_timestamp
from transom.controllers.instance_state.view import to_regarding
from transom.controllers.keys.key_rotation import KeyRotation, list_recorded_hashes
from transom.controllers.runtime.cached_objects import ORIGIN, ORIGIN_UID, SOURCE, CachedInstance
from transom.controllers.runtime.controller import Leadership, Result
from transom.controllers.runtime.informers import MACHINES, CachedApiMachine, Informers, watch_machines
from transom.controllers.runtime.options import HostTimings
from transom.controllers.userdata.controller import MACHINE_API, NAME, PRIVATE_KEY
from transom.hosts.errors import KeyUnusable
from transom.hosts.ssh.ssh_client import compute_public_hash, format_public_key
from transom.kube.errors import Conflict, NotFound
from transom.kube.queue import KeyQueue
from transom.kube.resources import SECRETS
from transom.kube.store import ObjectKey
from transom.proxy.secret import Secret
from transom.sources.core_objects import decode_string
from transom.windows.nodes.windows_instance import KEY

_log: Final = structlog.get_logger("transom.keys")
_REFUSED: Final = "KeyRefused"
_PAUSE: Final = 1.0
"""Seconds until hosts that became something else are looked at."""


class KeysController:
    """There is one key: only all hosts together show which keys are needed."""

    def __init__(self, informers: Informers, keys: KeyRotation, *, pace: HostTimings, now: Callable[[], datetime]) -> None:
        self._informers = informers
        self._kept = keys.kept
        self._machines = watch_machines(informers)
        self._pace = pace
        self._now = now
        self.queue: KeyQueue[ObjectKey] = KeyQueue()

    def subscribe(self) -> None:
        """Follow the stores, which have been filled."""
        self._informers.windows_instances.subscribe(self._on_instance_change)
        self._informers.secrets.subscribe(lambda _, __, ___: self._enqueue_cleanup())
        self._enqueue_cleanup()

    def _enqueue_cleanup(self, after: float = 0.0) -> None:
        self.queue.add(ObjectKey(self._informers.namespace, PRIVATE_KEY), after=after)

    def _on_instance_change(self, _: ObjectKey, before: CachedInstance | None, after: CachedInstance | None) -> None:
        # the first hosts of a new cluster leave nothing behind
        if (known := _get_relevant_fields(before)) is not None and known != _get_relevant_fields(after):
            # a new key comes to many hosts one after the other: they are not all looked through for each
            self._enqueue_cleanup(_PAUSE)

    async def reconcile(self, key: ObjectKey, leadership: Leadership) -> Result:
        """Delete unused keys, and replace Machines whose key cannot be rotated. Raises ApiError."""
        await self._delete_unused_keys(leadership)
        return Result(again=self._pace.unready if await self._replace_refusing_machines(leadership) else None)

    # --- kept keys

    async def _delete_unused_keys(self, leadership: Leadership) -> None:
        instances = list(self._informers.windows_instances.take_snapshot())
        hashes = {item for cached in instances for item in list_recorded_hashes(cached)}
        self._kept.mark_keys_recorded(hashes)
        for secret in self._kept.list_secrets():
            of_secret = self._informers.windows_instances.take_snapshot().list_by_index("secret", secret)
            today = self._read_current_key(secret)
            # a host that an older version connected to has nothing recorded, and may have any of them
            if of_secret and (today is None or any(_has_no_recorded_key(cached) for cached in of_secret)):
                continue
            needed = hashes | ({compute_public_hash(today)} if today is not None and of_secret else set())
            await self._kept.delete_unneeded_keys(secret, needed.__contains__, leadership)

    def _read_current_key(self, secret: str) -> Secret | None:
        """Return the key in a Secret; None if it has no usable one."""
        cached = self._informers.secrets.take_snapshot().find_named(secret, self._informers.namespace)
        text = decode_string((cached.value.get("data") or {}).get(KEY, "")) if cached is not None else None
        if text is None:
            return None
        try:
            compute_public_hash(key := Secret(text))
        except KeyUnusable:
            return None
        return key

    # --- Machines

    async def _replace_refusing_machines(self, leadership: Leadership) -> bool:
        """Delete one Machine of each MachineSet that has some to be replaced; whether any are left."""
        refused: dict[str, list[tuple[CachedInstance, CachedApiMachine]]] = {}
        for cached, machine, owner in self._iter_refused():
            refused.setdefault(f"{machine.metadata.namespace}/{owner}", []).append((cached, machine))
        for item in refused.values():
            await self._replace_machine(item, leadership)
        return bool(refused)

    def _iter_refused(self) -> Iterator[tuple[CachedInstance, CachedApiMachine, str]]:
        """Iterate over the instances whose host refuses the key, with their Machine and MachineSet."""
        for cached in self._informers.windows_instances.take_snapshot():
            meta = cached.metadata
            is_left_alone = meta.deletion_timestamp is not None or cached.spec_fields.get("paused")
            if cached.get_reason("Reachable") != _REFUSED or is_left_alone:
                continue
            annotations = meta.annotations or {}
            if (meta.labels or {}).get(SOURCE) != "Machine" or not cached.live.key_hash:
                continue
            for machine in self._machines.take_snapshot().list_by_index("origin", annotations.get(ORIGIN, "")):
                owner = _find_machine_set(machine)
                if owner is not None and machine.metadata.uid == annotations.get(ORIGIN_UID):
                    yield cached, machine, owner

    async def _replace_machine(self, candidates: list[tuple[CachedInstance, CachedApiMachine]], leadership: Leadership) -> None:
        owner = _find_machine_set(candidates[0][1])
        chosen = next(
            (
                (cached, machine)
                for cached, machine in candidates
                if self._is_refused_long_enough(cached) and _has_our_user_data(machine)
            ),
            None,
        )
        if chosen is None or owner is None:
            return
        cached, machine = chosen
        if not await self._are_others_ready(machine, owner, leadership) or not await self._is_user_data_current(
            cached, leadership
        ):
            return
        meta = machine.metadata
        try:
            await leadership.client.delete(MACHINES, meta.name, meta.namespace, meta.uid)
        except (NotFound, Conflict):
            return
        message = f"Machine {machine.origin} is deleted: its host accepts none of the keys. MachineSet {owner} replaces it"
        _log.warning("machine replaced", machine=machine.origin, machine_set=owner)
        leadership.recorder.record_warning(to_regarding(cached), "MachineReplaced", message)

    def _is_refused_long_enough(self, cached: CachedInstance) -> bool:
        """Return True if the host refused the keys long enough: an SSH server may refuse every key while it starts."""
        condition = cached.live.get_condition("Reachable")
        since = parse_timestamp(condition.last_transition_time)
        return since is not None and (self._now().astimezone(UTC) - since).total_seconds() >= self._pace.refused

    async def _are_others_ready(self, machine: CachedApiMachine, owner: str, leadership: Leadership) -> bool:
        """Return True if the MachineSet has all its Machines, none is being deleted, and the others are Ready nodes."""
        namespace = machine.metadata.namespace
        path = f"/apis/{MACHINES.group}/{MACHINES.version}/namespaces/{namespace}/machinesets/{owner}"
        try:
            wanted = (await leadership.client.get_json(path)).get("spec", {}).get("replicas", 1)
        except NotFound:
            return False
        machines_ = self._machines.take_snapshot()
        everyone = [
            machine for machine in machines_ if machine.metadata.namespace == namespace and _find_machine_set(machine) == owner
        ]
        nodes = {
            (cached.metadata.annotations or {}).get(ORIGIN_UID)
            for cached in self._informers.windows_instances.take_snapshot()
            if _is_ready(cached)
        }
        others = [item for item in everyone if item.metadata.uid != machine.metadata.uid]
        going = any(item.metadata.deletion_timestamp is not None for item in everyone)
        return len(everyone) == wanted and not going and all(other.metadata.uid in nodes for other in others)

    async def _is_user_data_current(self, cached: CachedInstance, leadership: Leadership) -> bool:
        """Return True if a Machine created now would accept the current key."""
        reference = cached.spec_fields.get("keySecret")
        name = reference.get("name") if isinstance(reference, dict) else None
        key = self._read_current_key(name or PRIVATE_KEY)
        if key is None or (name or PRIVATE_KEY) != PRIVATE_KEY:
            return False
        try:
            secret = await leadership.client.get(SECRETS, NAME, MACHINE_API)
        except NotFound:
            return False
        text = decode_string((secret.value.get("data") or {}).get("userData", ""))
        return text is not None and format_public_key(key) in text


def _get_relevant_fields(cached: CachedInstance | None) -> tuple[Any, ...] | None:
    """Return the fields of an instance that matter to keys; None if Transom never connected to it."""
    if cached is None or not (cached.live.key_hash or cached.live.last_checked):
        return None
    return cached.live.key_hash, cached.get_reason("Reachable") == _REFUSED, cached.spec_fields.get("keySecret")


def _has_no_recorded_key(cached: CachedInstance) -> bool:
    return not cached.live.key_hash and bool(cached.live.last_checked)


def _is_ready(cached: CachedInstance) -> bool:
    return cached.live.get_condition("NodeReady").status == "True"


def _find_machine_set(machine: CachedApiMachine) -> str | None:
    """Return the MachineSet that replaces this Machine when it is deleted."""
    owners = machine.metadata.owner_references or ()
    return next((owner.name for owner in owners if owner.kind == "MachineSet" and owner.controller), None)


def _has_our_user_data(machine: CachedApiMachine) -> bool:
    spec: Any = machine.spec if isinstance(machine.spec, dict) else {}
    value = (spec.get("providerSpec") or {}).get("value") or {}
    return isinstance(value, dict) and (value.get("userDataSecret") or {}).get("name") == NAME
