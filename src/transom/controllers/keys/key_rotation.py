"""Hosts moved from one SSH key to the next: one first, then a tenth, then all. Two hosts that refuse it stop the move."""

from collections.abc import Awaitable, Callable, Iterator

import msgspec

from transom.apply.target import Target
from transom.controllers.keys.stored_keys import KeptKeys
from transom.controllers.rollout.begun_hosts import BegunHosts
from transom.controllers.rollout.rollouts import OpenRollout, Turn
from transom.controllers.rollout.subjects import Resumption, keys_of
from transom.controllers.runtime.cached import CachedInstance
from transom.controllers.runtime.conditions import Condition, ConditionAggregator
from transom.controllers.runtime.controller import Leadership
from transom.controllers.runtime.informers import Informers
from transom.hosts.errors import Held, HostError, KeyUnusable
from transom.hosts.passes import PassSettings, key_move
from transom.hosts.ssh import public_hash
from transom.hosts.ssh.known_hosts import HostKeys
from transom.kube import ApiError
from transom.kube.events import Regarding
from transom.proxy.objects import SettingsObjects
from transom.proxy.secret import Secret
from transom.sources.core_objects import decoded_text
from transom.windows.nodes import KEY, PREVIOUS
from transom.windows.nodes.rollout import FAILURES, HostResult

Record = Callable[[str], Awaitable[None]]
"""Writes the field, and how far the host's changes have come. Raises ApiError."""


def recorded(cached: CachedInstance) -> tuple[str, ...]:
    """The hashes of the keys that may open a host, as its status has them: SHA-256 of their public lines.

    There is more than one where it is being moved, or its move was cut: that is written before the host is.
    """
    return tuple(cached.live.key_hash.split())


class Opened(msgspec.Struct, frozen=True):
    """How a pass goes on: `target` has the keys to connect with, `digest` is recorded once the host was read, `said` is told.

    `former` are keys that may open a host of which nothing is recorded. `error`: there is no use in connecting.
    """

    target: Target
    digest: str | None = None
    former: tuple[Secret, ...] = ()
    said: Condition | None = None
    error: HostError | None = None
    by_earlier: bool = False
    """Whether an earlier key has opened it: the move is next."""


class KeyRotation:
    """Which keys open which host; every controller that connects to hosts asks the same one."""

    def __init__(self, informers: Informers, reports: ConditionAggregator, resumed: Resumption, begun: BegunHosts) -> None:
        self._informers = informers
        self.rollouts = keys_of(informers, reports, resumed, begun, _digest, self._newest, _is_opened)
        self.kept = KeptKeys(informers)

    def earlier(self, cached: CachedInstance, key_secret: str, key: Secret, objects: SettingsObjects) -> tuple[Secret, ...]:
        """Keys that may open a host whose recorded key is not the one of its Secret."""
        try:
            digest = public_hash(key)
            hashes = recorded(cached)
            if hashes == (digest,):
                return ()
            secret = objects.secret(objects.namespace, key_secret)
            given = secret.data.get(PREVIOUS) if secret is not None else None
            found = [self.kept.find(key_secret, one) for one in hashes] if hashes else self.kept.of(key_secret)
            return tuple({public_hash(one): one for one in (*found, given) if one is not None and one != key}.values())
        except KeyUnusable:
            # said of the host when it is connected to
            return ()

    async def open(
        self,
        cached: CachedInstance,
        target: Target,
        host_keys: HostKeys,
        settings: PassSettings,
        turn: Turn,
        record: Record,
        leadership: Leadership,
    ) -> Opened:
        """Before a pass: move the host to the key of its Secret, where it is opened by an earlier one and it is its turn.

        A move may be cut anywhere, and the Secret may have changed by then: a key that opens the host is kept, and its status
        names it. Raises ApiError.
        """
        if target.key is None:
            return Opened(target)
        try:
            digest = public_hash(target.key)
        except KeyUnusable:
            return Opened(target)
        alone = msgspec.structs.replace(target, previous=())
        name = target.instance.name
        hashes = recorded(cached)
        if hashes in ((), (digest,)):
            if hashes and (known := self.rollouts.known(target)) is not None and known.owes(name):
                known.come_out(name, "right")
            # what is not known to be a host of ours is read before it is written
            return Opened(alone, digest, () if hashes else target.previous)
        rollout = await self.rollouts.meet(target, turn.digest)
        owed = name in rollout.changed
        if not rollout.admit(name, turn.ask):
            return Opened(target, said=_halted(target, rollout))
        result: HostResult | None = "left"
        try:
            if digest not in hashes:
                try:
                    await self.kept.keep(target.instance.spec.key_secret.name, target.key, leadership, seen=False)
                except ApiError as error:
                    return Opened(target, said=Condition("False", "KeyNotKept", f"not moved to the new key: {error}"))
                await record(" ".join((*hashes, digest)))
            elif rollout.early:
                await turn.note()
            result = None
            settings.permit()
            await key_move.move(alone.access, target.previous, host_keys, settings)
            result = "passed"
            return Opened(alone, digest)
        except (*key_move.AGAINST_THE_KEY, key_move.KeyNotFound) as error:
            owed, result = False, "failed" if isinstance(error, key_move.AGAINST_THE_KEY) else "left"
            return Opened(target, said=Condition("False", type(error).__name__, str(error)))
        except HostError as error:
            # of one that was begun before nobody knows what became of it
            result = "left" if not owed or (isinstance(error, Held) and rollout.waits_for(name)) else "failed"
            return Opened(target, error=error)
        finally:
            # a move that was called off is to be gone on with
            if result == "left" and owed:
                rollout.read(name)
            elif result is not None:
                rollout.come_out(name, result)

    async def note(self, opened: Opened, cached: CachedInstance, regarding: Regarding, leadership: Leadership) -> str | None:
        """The hash to record of a host that was read with the key of its Secret, which is kept from now on."""
        key, digest = opened.target.key, opened.digest
        if key is None or digest is None:
            return None
        before = cached.live.key_hash
        secret = opened.target.instance.spec.key_secret.name
        if not opened.by_earlier and (before != digest or not self.kept.of(secret)):
            try:
                await self.kept.keep(secret, key, leadership)
            except ApiError as error:
                leadership.recorder.warning(regarding, "KeyNotKept", f"the key of Secret {secret} could not be kept: {error}")
                return None
        if before not in ("", digest):
            leadership.recorder.normal(regarding, "KeyMoved", f"the host is opened by the key of Secret {secret}")
        return digest

    def _newest(self, target: Target) -> str | None:
        secret = self._informers.secrets.snapshot().named(target.instance.spec.key_secret.name, self._informers.namespace)
        text = decoded_text((secret.value.get("data") or {}).get(KEY, "")) if secret is not None else None
        try:
            return public_hash(Secret(text)) if text is not None else None
        except KeyUnusable:
            return None


def by_former_keys(opened: Opened) -> Iterator[Opened]:
    """How a pass goes on with each earlier key, where nothing is recorded of the host, and it refuses the one of its Secret."""
    for former in opened.former:
        yield Opened(msgspec.structs.replace(opened.target, key=former), public_hash(former), by_earlier=True)


def _digest(target: Target) -> str:
    assert target.key is not None  # without one no host is connected to
    return public_hash(target.key)


def _is_opened(cached: CachedInstance, digest: str) -> bool:
    return cached.live.key_hash == digest


def _halted(target: Target, rollout: OpenRollout) -> Condition | None:
    if rollout.refusal(target.instance.name) is None:
        return None
    secret, failed = target.instance.spec.key_secret.name, ", ".join(rollout.rollout.stopped_by)
    message = (
        f"not moved to the key of Secret {secret}: that stopped after {FAILURES} failures ({failed}). The key before it still "
        "opens the host; change the Secret to go on"
    )
    return Condition("False", "RolloutHalted", message)
