"""What a changed SSH key leaves to be done: kept keys that nobody needs any more, and Machines that no key opens.

A Machine whose host takes neither the key nor the one before it cannot be moved. Where a MachineSet owns it, it is deleted, so
that the MachineSet makes another one with today's user data; the Machine API drains the node before that. One at a time for
each MachineSet, and only while everything else of it works.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

import structlog

from transom.controllers.controller import Outcome, Surroundings
from transom.controllers.kept import HeldInstance
from transom.controllers.term import Term
from transom.controllers.windows.case import regarding_of
from transom.controllers.windows.key_rotation import KEY_HASH
from transom.controllers.windows.machines import MACHINES, HeldMachine, machines
from transom.controllers.windows.marks import ORIGIN, ORIGIN_UID, SOURCE
from transom.controllers.windows.user_data import MACHINE_API, NAME, PRIVATE_KEY
from transom.hosts.errors import KeyUnusable
from transom.hosts.private_key import public_hash, public_line
from transom.kube.errors import Conflict, NotFound
from transom.kube.queue import KeyQueue
from transom.kube.resources import SECRETS
from transom.kube.store import Name
from transom.proxy.secret import Secret
from transom.sources.core_objects import decoded_text
from transom.windows.instance import KEY

_log: Final = structlog.get_logger("transom.keys")
_REFUSED: Final = "KeyRefused"


class KeysController:
    """There is one key: which keys are needed can only be told of all hosts."""

    def __init__(self, on: Surroundings) -> None:
        self._watched = on.watched
        self._kept = on.keys.kept
        self._machines = machines(on.watched)
        self._pace = on.options.pace
        self._now = on.now
        self.queue: KeyQueue[Name] = KeyQueue()

    def begin(self) -> None:
        """Follow the stores, which have been filled."""
        self._watched.windows_instances.subscribe(self._instance_changed)
        self._watched.secrets.subscribe(lambda _, __, ___: self._ask())
        self._ask()

    def _ask(self) -> None:
        self.queue.add((self._watched.namespace, PRIVATE_KEY))

    def _instance_changed(self, _: Name, before: HeldInstance | None, after: HeldInstance | None) -> None:
        # the first hosts of a new cluster leave nothing behind
        if (known := _concern(before)) is not None and known != _concern(after):
            self._ask()

    async def reconcile(self, key: Name, term: Term) -> Outcome:
        """Let go of what is not needed, and replace what cannot be moved. Raises ApiError."""
        await self._tidy(term)
        return Outcome(again=self._pace.unready if await self._replace(term) else None)

    # --- kept keys

    async def _tidy(self, term: Term) -> None:
        instances = list(self._watched.windows_instances.snapshot())
        recorded = {str(held.live.get(KEY_HASH)) for held in instances}
        for secret in self._kept.secrets():
            of_secret = self._watched.windows_instances.snapshot().by("secret", secret)
            today = self._today(secret)
            # a host that an older version connected to has nothing recorded, and may have any of them
            if of_secret and (today is None or any(_unrecorded(held) for held in of_secret)):
                continue
            needed = recorded | ({public_hash(today)} if today is not None and of_secret else set())
            await self._kept.let_go(secret, needed.__contains__, term)

    def _today(self, secret: str) -> Secret | None:
        """The key in a Secret; None where it has none that can be used."""
        held = self._watched.secrets.snapshot().get(secret, self._watched.namespace)
        text = decoded_text((held.value.get("data") or {}).get(KEY, "")) if held is not None else None
        if text is None:
            return None
        try:
            public_hash(found := Secret(text))
        except KeyUnusable:
            return None
        return found

    # --- Machines

    async def _replace(self, term: Term) -> bool:
        """Delete one Machine of each MachineSet that has some to be replaced; whether any are left."""
        refused: dict[str, list[tuple[HeldInstance, HeldMachine]]] = {}
        for held, machine, owner in self._refused():
            refused.setdefault(f"{machine.metadata.namespace}/{owner}", []).append((held, machine))
        for found in refused.values():
            await self._replace_one(found, term)
        return bool(refused)

    def _refused(self) -> Iterator[tuple[HeldInstance, HeldMachine, str]]:
        """The instances whose host refuses the key, with the Machine and the MachineSet that it belongs to."""
        for held in self._watched.windows_instances.snapshot():
            meta = held.metadata
            if held.reason("Reachable") != _REFUSED or meta.deletion_timestamp is not None or held.fields.get("paused"):
                continue
            annotations = meta.annotations or {}
            if (meta.labels or {}).get(SOURCE) != "Machine" or not held.live.get(KEY_HASH):
                continue
            for machine in self._machines.snapshot().by("origin", annotations.get(ORIGIN, "")):
                owner = _machine_set(machine)
                if owner is not None and machine.metadata.uid == annotations.get(ORIGIN_UID):
                    yield held, machine, owner

    async def _replace_one(self, found: list[tuple[HeldInstance, HeldMachine]], term: Term) -> None:
        owner = _machine_set(found[0][1])
        chosen = next(((held, machine) for held, machine in found if self._lasted(held) and _has_our_user_data(machine)), None)
        if chosen is None or owner is None:
            return
        held, machine = chosen
        if not await self._others_work(machine, owner, term) or not await self._user_data_is_new(held, term):
            return
        meta = machine.metadata
        try:
            await term.client.delete(MACHINES, meta.name, meta.namespace, meta.uid)
        except (NotFound, Conflict):
            return
        message = f"Machine {machine.origin} is deleted: its host takes none of the keys. MachineSet {owner} makes another one"
        _log.warning("machine replaced", machine=machine.origin, machine_set=owner)
        term.recorder.warning(regarding_of(held), "MachineReplaced", message)

    def _lasted(self, held: HeldInstance) -> bool:
        """Whether the host has refused the keys long enough: an SSH server that just starts may refuse everybody."""
        condition: dict[str, Any] = next(one for one in held.live["conditions"] if one.get("type") == "Reachable")
        since = datetime.fromisoformat(condition["lastTransitionTime"])
        return (self._now().astimezone(UTC) - since).total_seconds() >= self._pace.refused

    async def _others_work(self, machine: HeldMachine, owner: str, term: Term) -> bool:
        """Whether the MachineSet has all its Machines, none of them is going, and the others are Ready nodes."""
        namespace = machine.metadata.namespace
        path = f"/apis/{MACHINES.group}/{MACHINES.version}/namespaces/{namespace}/machinesets/{owner}"
        try:
            wanted = (await term.client.get_json(path)).get("spec", {}).get("replicas", 1)
        except NotFound:
            return False
        machines_ = self._machines.snapshot()
        everyone = [one for one in machines_ if one.metadata.namespace == namespace and _machine_set(one) == owner]
        nodes = {
            (held.metadata.annotations or {}).get(ORIGIN_UID)
            for held in self._watched.windows_instances.snapshot()
            if _ready(held)
        }
        others = [one for one in everyone if one.metadata.uid != machine.metadata.uid]
        going = any(one.metadata.deletion_timestamp is not None for one in everyone)
        return len(everyone) == wanted and not going and all(one.metadata.uid in nodes for one in others)

    async def _user_data_is_new(self, held: HeldInstance, term: Term) -> bool:
        """Whether a Machine that is made now would be opened by today's key."""
        reference = held.fields.get("keySecret")
        name = reference.get("name") if isinstance(reference, dict) else None
        key = self._today(name or PRIVATE_KEY)
        if key is None or (name or PRIVATE_KEY) != PRIVATE_KEY:
            return False
        try:
            secret = await term.client.get(SECRETS, NAME, MACHINE_API)
        except NotFound:
            return False
        text = decoded_text((secret.value.get("data") or {}).get("userData", ""))
        return text is not None and public_line(key) in text


def _concern(held: HeldInstance | None) -> tuple[Any, ...] | None:
    """What of an instance matters to keys; None where it was never connected to."""
    if held is None or not (held.live.get(KEY_HASH) or held.live.get("lastChecked")):
        return None
    return held.live.get(KEY_HASH), held.reason("Reachable") == _REFUSED, held.fields.get("keySecret")


def _unrecorded(held: HeldInstance) -> bool:
    return not held.live.get(KEY_HASH) and bool(held.live.get("lastChecked"))


def _ready(held: HeldInstance) -> bool:
    conditions = held.live.get("conditions") or ()
    return any(one.get("type") == "NodeReady" and one.get("status") == "True" for one in conditions)


def _machine_set(machine: HeldMachine) -> str | None:
    """The MachineSet that makes another Machine when this one goes."""
    owners = machine.metadata.owner_references or ()
    return next((one.name for one in owners if one.kind == "MachineSet" and one.controller), None)


def _has_our_user_data(machine: HeldMachine) -> bool:
    spec: Any = machine.spec if isinstance(machine.spec, dict) else {}
    value = (spec.get("providerSpec") or {}).get("value") or {}
    return isinstance(value, dict) and (value.get("userDataSecret") or {}).get("name") == NAME
