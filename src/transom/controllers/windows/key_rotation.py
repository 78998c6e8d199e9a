"""Hosts moved from one SSH key to the next: one first, then a tenth of them, then all; two that refuse it stop that."""

from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from transom.controllers.conditions import Verdict
from transom.controllers.kept import HeldInstance
from transom.controllers.term import Term
from transom.controllers.watched import Watched
from transom.controllers.windows.hosts import Target
from transom.controllers.windows.kept_keys import KeptKeys
from transom.hosts import key_move
from transom.hosts.errors import AuthenticationRefused, HostError, KeyUnusable
from transom.hosts.known_hosts import HostKeys
from transom.hosts.passes import PassResult, Settings
from transom.hosts.private_key import public_hash
from transom.kube.errors import ApiError
from transom.kube.events import Regarding
from transom.kube.store import Name
from transom.proxy.objects import SettingsObjects
from transom.proxy.secret import Secret
from transom.windows.instance import PREVIOUS
from transom.windows.rollout import FAILURES, Rollout
from transom.windows.rollout import Verdict as Result

KEY_HASH: Final = "keyHash"
"""The field of a status that says which key opens the host: SHA-256 of its public line."""
Ask = Callable[[Name], None]


class Opened(msgspec.Struct, frozen=True):
    """How a pass goes on: with which keys, which hash is recorded when it has read the host, what is said of the key.

    `former` are keys that may open a host of which nothing is recorded. `error`: there is no use in connecting.
    """

    target: Target
    digest: str | None = None
    former: tuple[Secret, ...] = ()
    said: Verdict | None = None
    error: HostError | None = None
    by_earlier: bool = False
    """Whether an earlier key has opened it: the move is next."""


class _Turns:
    """One key on its way to the hosts of a Secret."""

    def __init__(self, digest: str, hosts: int) -> None:
        self.digest = digest
        self.rollout = Rollout(hosts)
        self.waiting: dict[Name, Ask] = {}
        self.asked: set[Name] = set()

    def ask_next(self) -> None:
        stage, slots = self.rollout.stage, self.rollout.slots
        # who waits when it is halted is told so, once
        chosen = list(self.waiting)[: None if stage in ("all", "halted") else int(slots)]
        for key in chosen:
            ask = self.waiting.pop(key)
            if stage != "halted":
                self.asked.add(key)
            ask(key)


class KeyRotation:
    """Which keys open which host; every controller that connects to hosts asks the same one."""

    def __init__(self, watched: Watched) -> None:
        self._watched = watched
        self._turns: dict[str, _Turns] = {}
        self.kept = KeptKeys(watched)

    def earlier(self, held: HeldInstance, key_secret: str, key: Secret, objects: SettingsObjects) -> tuple[Secret, ...]:
        """Keys that may open a host whose recorded key is not the one of its Secret."""
        try:
            digest = public_hash(key)
            recorded = held.live.get(KEY_HASH)
            if recorded == digest:
                return ()
            secret = objects.secret(objects.namespace, key_secret)
            given = secret.data.get(PREVIOUS) if secret is not None else None
            found = (self.kept.find(key_secret, recorded),) if recorded else self.kept.of(key_secret)
            return tuple({public_hash(one): one for one in (*found, given) if one is not None and one != key}.values())
        except KeyUnusable:
            # said of the host when it is connected to
            return ()

    async def open(self, held: HeldInstance, target: Target, host_keys: HostKeys, settings: Settings, ask: Ask) -> Opened:
        """Before a pass: move the host to the key of its Secret, where it is opened by an earlier one and it is its turn."""
        if target.key is None:
            return Opened(target)
        try:
            digest = public_hash(target.key)
        except KeyUnusable:
            return Opened(target)
        alone = msgspec.structs.replace(target, previous=())
        if (recorded := held.live.get(KEY_HASH)) in (None, digest):
            # what is not known to be a host of ours is read before it is written
            return Opened(alone, digest, () if recorded else target.previous)
        name = target.instance.name
        key = held.key
        turns = self._turns_of(target.instance.spec.key_secret.name, digest)
        if not turns.rollout.admits(name):
            if turns.rollout.stage == "halted":
                return Opened(target, said=_halted(target, turns.rollout))
            turns.waiting[key] = ask
            return Opened(target)
        turns.rollout = turns.rollout.begin(name)
        result: Result = "left"
        try:
            await key_move.move(alone.access, target.previous, host_keys, settings)
            result = "passed"
            return Opened(alone, digest)
        except (*key_move.AGAINST_THE_KEY, key_move.KeyNotFound) as error:
            result = "failed" if isinstance(error, key_move.AGAINST_THE_KEY) else "left"
            return Opened(target, said=Verdict("False", type(error).__name__, str(error)))
        except HostError as error:
            return Opened(target, error=error)
        finally:
            turns.rollout = turns.rollout.come_out(name, result)
            turns.ask_next()

    def done(self, key: Name) -> None:
        """The key was worked on, and be it that its host is gone: the turn that it had goes to the next one."""
        for turns in self._turns.values():
            if key in turns.asked:
                turns.asked.discard(key)
                turns.ask_next()

    async def note(self, opened: Opened, held: HeldInstance, regarding: Regarding, term: Term) -> str | None:
        """The hash to record of a host that was read with the key of its Secret, which is kept from now on."""
        key, digest = opened.target.key, opened.digest
        if key is None or digest is None:
            return None
        before = held.live.get(KEY_HASH)
        secret = opened.target.instance.spec.key_secret.name
        if not opened.by_earlier and (before != digest or not self.kept.of(secret)):
            try:
                await self.kept.keep(secret, key, term)
            except ApiError as error:
                term.recorder.warning(regarding, "KeyNotKept", f"the key of Secret {secret} could not be kept: {error}")
                return None
        if before not in (None, digest):
            term.recorder.normal(regarding, "KeyMoved", f"the host is opened by the key of Secret {secret}")
        return digest

    def _turns_of(self, key_secret: str, digest: str) -> _Turns:
        turns = self._turns.get(key_secret)
        if turns is None or turns.digest != digest:
            hosts = len(self._watched.windows_instances.snapshot().by("secret", key_secret))
            turns = self._turns[key_secret] = _Turns(digest, hosts)
        return turns


async def tried(opened: Opened, work: Callable[[Target], Awaitable[PassResult]]) -> tuple[Opened, PassResult]:
    """A pass; where nothing is recorded of the host, and it refuses the key, with each earlier one until one opens it."""
    found = PassResult(error=opened.error) if opened.error is not None else await work(opened.target)
    for former in opened.former:
        if not isinstance(found.error, AuthenticationRefused):
            break
        opened = Opened(msgspec.structs.replace(opened.target, key=former), public_hash(former), by_earlier=True)
        found = await work(opened.target)
    return opened, found


def _halted(target: Target, rollout: Rollout) -> Verdict:
    failed = ", ".join(rollout.failed)
    message = (
        f"not moved to the key of Secret {target.instance.spec.key_secret.name}: that stopped after {FAILURES} failures "
        f"({failed}). The key before it still opens the host; change the Secret to go on"
    )
    return Verdict("False", "RolloutHalted", message)
