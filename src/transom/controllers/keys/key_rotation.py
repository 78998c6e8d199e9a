"""Hosts moved from one SSH key to the next: one first, then a tenth, then all. Two hosts that refuse it stop the move."""

from collections.abc import Awaitable, Callable, Iterator

import msgspec

from transom.apply.target import Target
from transom.controllers.keys.stored_keys import KeptKeys
from transom.controllers.rollout.host_rollout import HostRollout
from transom.controllers.rollout.in_flight_hosts import InFlightHosts
from transom.controllers.rollout.kinds import make_key_rollouts
from transom.controllers.rollout.open_rollout import OpenRollout
from transom.controllers.rollout.resume_annotation import ResumeAnnotation
from transom.controllers.runtime.cached_objects import CachedInstance
from transom.controllers.runtime.conditions import Condition, ConditionAggregator
from transom.controllers.runtime.controller import Leadership
from transom.controllers.runtime.informers import Informers
from transom.hosts.errors import Held, HostError, KeyUnusable
from transom.hosts.passes import key_move
from transom.hosts.passes.base_pass import PassSettings
from transom.hosts.ssh.known_hosts import HostKeys
from transom.hosts.ssh.ssh_client import compute_public_hash
from transom.kube.errors import ApiError
from transom.kube.events import Regarding
from transom.proxy.objects import SettingsObjects
from transom.proxy.secret import Secret
from transom.rollout.state import MAX_FAILURES, HostResult
from transom.sources.core_objects import decode_string
from transom.windows.nodes.windows_instance import KEY, PREVIOUS

Record = Callable[[str], Awaitable[None]]
"""Writes the field, and how far the host's changes have come. Raises ApiError."""


def list_recorded_hashes(cached: CachedInstance) -> tuple[str, ...]:
    """Return the hashes of keys that may open a host, from its status: SHA-256 of their public lines.

    There are several while a host moves to a new key, or if that was interrupted: they are written before the host changes.
    """
    return tuple(cached.live.key_hash.split())


class KeySelection(msgspec.Struct, frozen=True):
    """The keys of a pass. `target` has the keys to connect with, `digest` is recorded once the host was read, `said` is
    reported.

     `former` are keys that may open a host without a record. `error`: connecting is useless.
    """

    target: Target
    digest: str | None = None
    other_keys: tuple[Secret, ...] = ()
    condition: Condition | None = None
    error: HostError | None = None
    used_previous_key: bool = False
    """Whether an earlier key has opened it: the move is next."""


class KeyRotation:
    """Which keys open which host; every controller that connects to hosts asks the same one."""

    def __init__(
        self,
        informers: Informers,
        reports: ConditionAggregator,
        resume_annotation: ResumeAnnotation,
        in_flight_hosts: InFlightHosts,
    ) -> None:
        self._informers = informers
        self.rollouts = make_key_rollouts(
            informers, reports, resume_annotation, in_flight_hosts, _hash_public_key, self._find_newest_key, _is_opened
        )
        self.kept = KeptKeys(informers)

    def find_previous_keys(
        self, cached: CachedInstance, key_secret: str, key: Secret, objects: SettingsObjects
    ) -> tuple[Secret, ...]:
        """Keys that may open a host whose recorded key is not the one of its Secret."""
        try:
            digest = compute_public_hash(key)
            hashes = list_recorded_hashes(cached)
            if hashes == (digest,):
                return ()
            secret = objects.find_secret(objects.namespace, key_secret)
            kept_names = secret.data.get(PREVIOUS) if secret is not None else None
            kept_keys = [self.kept.find(key_secret, hashe) for hashe in hashes] if hashes else self.kept.list_keys(key_secret)
            return tuple(
                {
                    compute_public_hash(item): item for item in (*kept_keys, kept_names) if item is not None and item != key
                }.values()
            )
        except KeyUnusable:
            # said of the host when it is connected to
            return ()

    async def select_keys(
        self,
        cached: CachedInstance,
        target: Target,
        host_keys: HostKeys,
        settings: PassSettings,
        host_rollout: HostRollout,
        record: Record,
        leadership: Leadership,
    ) -> KeySelection:
        """Before a pass: move the host to the key of its Secret, where it is opened by an earlier one and it is its turn.

        A move may be cut anywhere, and the Secret may have changed by then: a key that opens the host is kept, and its status
        names it. Raises ApiError.
        """
        if target.key is None:
            return KeySelection(target)
        try:
            digest = compute_public_hash(target.key)
        except KeyUnusable:
            return KeySelection(target)
        alone = msgspec.structs.replace(target, previous=())
        name = target.instance.name
        hashes = list_recorded_hashes(cached)
        if hashes in ((), (digest,)):
            if hashes and (known := self.rollouts.find(target)) is not None and known.has_no_result(name):
                known.record_result(name, "conforming")
            # what is not known to be a host of ours is read before it is written
            return KeySelection(alone, digest, () if hashes else target.previous)
        rollout = await host_rollout.open_rollout(self.rollouts, target, leadership)
        owed = name in rollout.unresolved
        if not host_rollout.try_admit(rollout, cached.key):
            return KeySelection(target, condition=_build_halted_condition(target, rollout))
        result: HostResult | None = "untouched"
        try:
            if digest not in hashes:
                try:
                    await self.kept.keep(target.instance.spec.key_secret.name, target.key, leadership, was_used=False)
                except ApiError as error:
                    return KeySelection(
                        target, condition=Condition("False", "KeyNotKept", f"the host was not moved to the new key: {error}")
                    )
                await record(" ".join((*hashes, digest)))
            else:
                await host_rollout.record_in_flight(rollout, leadership)
            result = None
            settings.permit()
            await key_move.rotate_ssh_key(alone.access, target.previous, host_keys, settings)
            result = "passed"
            return KeySelection(alone, digest)
        except (*key_move.AGAINST_THE_KEY, key_move.KeyNotFound) as error:
            owed, result = False, "failed" if isinstance(error, key_move.AGAINST_THE_KEY) else "untouched"
            return KeySelection(target, condition=Condition("False", type(error).__name__, str(error)))
        except HostError as error:
            # the result of an earlier attempt is unknown
            result = "untouched" if not owed or (isinstance(error, Held) and rollout.can_keep_turn(name)) else "failed"
            return KeySelection(target, error=error)
        finally:
            # an interrupted move must be resumed
            if result == "untouched" and owed:
                rollout.queue.finish_read(name)
            elif result is not None:
                rollout.record_result(name, result)

    async def record_key(
        self, keys: KeySelection, cached: CachedInstance, regarding: Regarding, leadership: Leadership
    ) -> str | None:
        """Return the hash to record for a host that was read with the key of its Secret, and keep that key."""
        key, digest = keys.target.key, keys.digest
        if key is None or digest is None:
            return None
        before = cached.live.key_hash
        secret = keys.target.instance.spec.key_secret.name
        if not keys.used_previous_key and (before != digest or not self.kept.list_keys(secret)):
            try:
                await self.kept.keep(secret, key, leadership)
            except ApiError as error:
                leadership.recorder.record_warning(
                    regarding, "KeyNotKept", f"the key of Secret {secret} could not be kept: {error}"
                )
                return None
        if before not in ("", digest):
            leadership.recorder.record_normal(regarding, "KeyMoved", f"the host is opened by the key of Secret {secret}")
        return digest

    def _find_newest_key(self, target: Target) -> str | None:
        secret = self._informers.secrets.take_snapshot().find_named(
            target.instance.spec.key_secret.name, self._informers.namespace
        )
        text = decode_string((secret.value.get("data") or {}).get(KEY, "")) if secret is not None else None
        try:
            return compute_public_hash(Secret(text)) if text is not None else None
        except KeyUnusable:
            return None


def iter_previous_keys(selection: KeySelection) -> Iterator[KeySelection]:
    """Iterate over selections with each previous key, for a host without a record that refuses the key of its Secret."""
    for former in selection.other_keys:
        yield KeySelection(
            msgspec.structs.replace(selection.target, key=former), compute_public_hash(former), used_previous_key=True
        )


def _hash_public_key(target: Target) -> str:
    if target.key is None:
        raise KeyUnusable(f"no key of Secret {target.instance.spec.key_secret.name} opens {target.instance.name}")
    return compute_public_hash(target.key)


def _is_opened(cached: CachedInstance, digest: str) -> bool:
    return cached.live.key_hash == digest


def _build_halted_condition(target: Target, rollout: OpenRollout) -> Condition | None:
    if rollout.queue.get_halt_reason(target.instance.name) is None:
        return None
    secret, failed = target.instance.spec.key_secret.name, ", ".join(rollout.state.halted_by)
    message = (
        f"not moved to the key of Secret {secret}: the rotation stopped after {MAX_FAILURES} failures ({failed}). "
        "The previous key still opens the host; change the Secret to continue"
    )
    return Condition("False", "RolloutHalted", message)
