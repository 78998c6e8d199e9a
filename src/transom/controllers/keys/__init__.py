"""SSH keys over time: rotation, keys that hosts still need, keys that may go.

`KeysController` does what a changed key leaves to be done: kept keys that nobody needs go, and Machines that no key opens.

A Machine whose host takes neither the key nor the one before it cannot be moved. Where a MachineSet owns it, it is deleted, and
the MachineSet makes another one with today's user data. The Machine API drains the node before that. One at a time for each
MachineSet, and only while everything else of it works.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, Final

import structlog

from transom.controllers.instance.view import regarding_of
from transom.controllers.keys.key_rotation import KeyRotation, recorded
from transom.controllers.runtime.cached import ORIGIN, ORIGIN_UID, SOURCE, CachedInstance
from transom.controllers.runtime.conditions import moment
from transom.controllers.runtime.controller import Leadership, Result
from transom.controllers.runtime.informers import MACHINES, CachedApiMachine, Informers, machines
from transom.controllers.runtime.options import Pace
from transom.controllers.userdata import MACHINE_API, NAME, PRIVATE_KEY
from transom.hosts.errors import KeyUnusable
from transom.hosts.ssh import public_hash, public_line
from transom.kube import Conflict, NotFound
from transom.kube.queue import KeyQueue
from transom.kube.resources import SECRETS
from transom.kube.store import ObjectKey
from transom.proxy.secret import Secret
from transom.sources.core_objects import decoded_text
from transom.windows.nodes import KEY

_log: Final = structlog.get_logger("transom.keys")
_REFUSED: Final = "KeyRefused"
_PAUSE: Final = 1.0
"""Seconds until hosts that became something else are looked at."""


class KeysController:
    """There is one key: which keys are needed can only be told of all hosts."""

    def __init__(self, informers: Informers, keys: KeyRotation, *, pace: Pace, now: Callable[[], datetime]) -> None:
        self._informers = informers
        self._kept = keys.kept
        self._machines = machines(informers)
        self._pace = pace
        self._now = now
        self.queue: KeyQueue[ObjectKey] = KeyQueue()

    def begin(self) -> None:
        """Follow the stores, which have been filled."""
        self._informers.windows_instances.subscribe(self._instance_changed)
        self._informers.secrets.subscribe(lambda _, __, ___: self._ask())
        self._ask()

    def _ask(self, after: float = 0.0) -> None:
        self.queue.add(ObjectKey(self._informers.namespace, PRIVATE_KEY), after=after)

    def _instance_changed(self, _: ObjectKey, before: CachedInstance | None, after: CachedInstance | None) -> None:
        # the first hosts of a new cluster leave nothing behind
        if (known := _concern(before)) is not None and known != _concern(after):
            # a new key comes to many hosts one after the other: they are not all looked through for each
            self._ask(_PAUSE)

    async def reconcile(self, key: ObjectKey, leadership: Leadership) -> Result:
        """Let go of what is not needed, and replace what cannot be moved. Raises ApiError."""
        await self._tidy(leadership)
        return Result(again=self._pace.unready if await self._replace(leadership) else None)

    # --- kept keys

    async def _tidy(self, leadership: Leadership) -> None:
        instances = list(self._informers.windows_instances.snapshot())
        hashes = {one for cached in instances for one in recorded(cached)}
        self._kept.recorded(hashes)
        for secret in self._kept.secrets():
            of_secret = self._informers.windows_instances.snapshot().by("secret", secret)
            today = self._today(secret)
            # a host that an older version connected to has nothing recorded, and may have any of them
            if of_secret and (today is None or any(_unrecorded(cached) for cached in of_secret)):
                continue
            needed = hashes | ({public_hash(today)} if today is not None and of_secret else set())
            await self._kept.let_go(secret, needed.__contains__, leadership)

    def _today(self, secret: str) -> Secret | None:
        """The key in a Secret; None where it has none that can be used."""
        cached = self._informers.secrets.snapshot().named(secret, self._informers.namespace)
        text = decoded_text((cached.value.get("data") or {}).get(KEY, "")) if cached is not None else None
        if text is None:
            return None
        try:
            public_hash(found := Secret(text))
        except KeyUnusable:
            return None
        return found

    # --- Machines

    async def _replace(self, leadership: Leadership) -> bool:
        """Delete one Machine of each MachineSet that has some to be replaced; whether any are left."""
        refused: dict[str, list[tuple[CachedInstance, CachedApiMachine]]] = {}
        for cached, machine, owner in self._refused():
            refused.setdefault(f"{machine.metadata.namespace}/{owner}", []).append((cached, machine))
        for found in refused.values():
            await self._replace_one(found, leadership)
        return bool(refused)

    def _refused(self) -> Iterator[tuple[CachedInstance, CachedApiMachine, str]]:
        """The instances whose host refuses the key, with the Machine and the MachineSet that it belongs to."""
        for cached in self._informers.windows_instances.snapshot():
            meta = cached.metadata
            if cached.reason("Reachable") != _REFUSED or meta.deletion_timestamp is not None or cached.fields.get("paused"):
                continue
            annotations = meta.annotations or {}
            if (meta.labels or {}).get(SOURCE) != "Machine" or not cached.live.key_hash:
                continue
            for machine in self._machines.snapshot().by("origin", annotations.get(ORIGIN, "")):
                owner = _machine_set(machine)
                if owner is not None and machine.metadata.uid == annotations.get(ORIGIN_UID):
                    yield cached, machine, owner

    async def _replace_one(self, found: list[tuple[CachedInstance, CachedApiMachine]], leadership: Leadership) -> None:
        owner = _machine_set(found[0][1])
        chosen = next(
            ((cached, machine) for cached, machine in found if self._lasted(cached) and _has_our_user_data(machine)), None
        )
        if chosen is None or owner is None:
            return
        cached, machine = chosen
        if not await self._others_work(machine, owner, leadership) or not await self._user_data_is_new(cached, leadership):
            return
        meta = machine.metadata
        try:
            await leadership.client.delete(MACHINES, meta.name, meta.namespace, meta.uid)
        except (NotFound, Conflict):
            return
        message = f"Machine {machine.origin} is deleted: its host takes none of the keys. MachineSet {owner} makes another one"
        _log.warning("machine replaced", machine=machine.origin, machine_set=owner)
        leadership.recorder.warning(regarding_of(cached), "MachineReplaced", message)

    def _lasted(self, cached: CachedInstance) -> bool:
        """Whether the host has refused the keys long enough: an SSH server that just starts may refuse everybody."""
        condition = cached.live.condition("Reachable")
        since = moment(condition.last_transition_time)
        return since is not None and (self._now().astimezone(UTC) - since).total_seconds() >= self._pace.refused

    async def _others_work(self, machine: CachedApiMachine, owner: str, leadership: Leadership) -> bool:
        """Whether the MachineSet has all its Machines, none of them is going, and the others are Ready nodes."""
        namespace = machine.metadata.namespace
        path = f"/apis/{MACHINES.group}/{MACHINES.version}/namespaces/{namespace}/machinesets/{owner}"
        try:
            wanted = (await leadership.client.get_json(path)).get("spec", {}).get("replicas", 1)
        except NotFound:
            return False
        machines_ = self._machines.snapshot()
        everyone = [one for one in machines_ if one.metadata.namespace == namespace and _machine_set(one) == owner]
        nodes = {
            (cached.metadata.annotations or {}).get(ORIGIN_UID)
            for cached in self._informers.windows_instances.snapshot()
            if _ready(cached)
        }
        others = [one for one in everyone if one.metadata.uid != machine.metadata.uid]
        going = any(one.metadata.deletion_timestamp is not None for one in everyone)
        return len(everyone) == wanted and not going and all(one.metadata.uid in nodes for one in others)

    async def _user_data_is_new(self, cached: CachedInstance, leadership: Leadership) -> bool:
        """Whether a Machine that is made now would be opened by today's key."""
        reference = cached.fields.get("keySecret")
        name = reference.get("name") if isinstance(reference, dict) else None
        key = self._today(name or PRIVATE_KEY)
        if key is None or (name or PRIVATE_KEY) != PRIVATE_KEY:
            return False
        try:
            secret = await leadership.client.get(SECRETS, NAME, MACHINE_API)
        except NotFound:
            return False
        text = decoded_text((secret.value.get("data") or {}).get("userData", ""))
        return text is not None and public_line(key) in text


def _concern(cached: CachedInstance | None) -> tuple[Any, ...] | None:
    """What of an instance matters to keys; None where it was never connected to."""
    if cached is None or not (cached.live.key_hash or cached.live.last_checked):
        return None
    return cached.live.key_hash, cached.reason("Reachable") == _REFUSED, cached.fields.get("keySecret")


def _unrecorded(cached: CachedInstance) -> bool:
    return not cached.live.key_hash and bool(cached.live.last_checked)


def _ready(cached: CachedInstance) -> bool:
    return cached.live.condition("NodeReady").status == "True"


def _machine_set(machine: CachedApiMachine) -> str | None:
    """The MachineSet that makes another Machine when this one goes."""
    owners = machine.metadata.owner_references or ()
    return next((one.name for one in owners if one.kind == "MachineSet" and one.controller), None)


def _has_our_user_data(machine: CachedApiMachine) -> bool:
    spec: Any = machine.spec if isinstance(machine.spec, dict) else {}
    value = (spec.get("providerSpec") or {}).get("value") or {}
    return isinstance(value, dict) and (value.get("userDataSecret") or {}).get("name") == NAME
