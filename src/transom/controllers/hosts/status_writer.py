"""The only writer of the status of an instance, for all controllers."""

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Final
from weakref import WeakValueDictionary

import structlog

from transom.controllers.hosts.instance_reader import InstanceReader
from transom.controllers.instance_state import status
from transom.controllers.instance_state.instance_writes import apply_status
from transom.controllers.instance_state.node_identities import without_record
from transom.controllers.instance_state.view import InstanceView
from transom.controllers.runtime.cached_objects import INSTANCES, CachedInstance
from transom.controllers.runtime.conditions import Conditions, Fields
from transom.controllers.runtime.controller import Leadership
from transom.controllers.runtime.current_settings import CurrentSettings
from transom.controllers.runtime.hash_key import HashKey
from transom.controllers.runtime.informers import Informers
from transom.hosts.errors import HostKeyChanged, HostKeyNotRecorded
from transom.kube.errors import ApiError, Conflict, NotFound
from transom.kube.store import ObjectKey

_log: Final = structlog.get_logger("transom.hosts")


class StatusWriter:
    """One write of a status at a time: each says all of it, and knows nothing of one that is on its way."""

    def __init__(
        self,
        informers: Informers,
        settings: CurrentSettings,
        cases: InstanceReader,
        hash_key: HashKey,
        now: Callable[[], datetime],
    ) -> None:
        self._informers, self._settings, self._cases = informers, settings, cases
        self._hash_key, self._now = hash_key, now
        self._writing: WeakValueDictionary[ObjectKey, asyncio.Lock] = WeakValueDictionary()

    async def keep_host_key(self, view: InstanceView, fingerprint: str, leadership: Leadership) -> None:
        """Record the fingerprint of a host's key. Raises as `pin` does."""
        async with self._writing.setdefault(view.cached.key, asyncio.Lock()):
            self._cases.remember_written(
                await record_host_key(self._cases.refresh(view).cached, fingerprint, leadership, self._now)
            )

    async def write(self, view: InstanceView, conditions: Conditions, fields: Fields, leadership: Leadership) -> None:
        """Write the status where it says something new. An instance that is gone by now needs none. Raises ApiError."""
        async with self._writing.setdefault(view.cached.key, asyncio.Lock()):
            await self._write_if_changed(self._cases.refresh(view), conditions, fields, leadership)

    async def _write_if_changed(
        self, view: InstanceView, conditions: Conditions, fields: Fields, leadership: Leadership
    ) -> None:
        meta = view.cached.metadata
        cached_now = self._informers.windows_instances.take_snapshot().find_named(meta.name, meta.namespace)
        if cached_now is None or cached_now.metadata.uid != meta.uid:
            # the server does not compare the uid where a status is written: another object of this name must not get it
            return
        if "NodeReady" not in conditions and not view.needs_no_write:
            conditions = conditions | {"NodeReady": status.build_node_ready_condition(view.node, view.identity)}
        if not view.cached.spec_fields.get("paused"):
            conditions = status.build_resumed_conditions(view.cached.live) | conditions
        if await self._is_outdated(view, fields.get("settings") or view.cached.live.settings, leadership):
            conditions = status.mark_outdated(view.cached.live, conditions)
        wanted = status.merge_status(view.cached.live, conditions, fields, meta.generation, self._now())
        if wanted == without_record(view.cached.live):
            return
        try:
            answer = await apply_status(view.cached, wanted, leadership)
        except (NotFound, Conflict) as error:
            _log.info("status not written: the object is gone", error=str(error))
            return
        self._cases.remember_written(answer)

    async def _is_outdated(self, view: InstanceView, settings_hash: str | None, leadership: Leadership) -> bool:
        """Return True if a host was judged by settings that are not effective any more."""
        holds = self._settings.for_instance(view.instance) if view.instance is not None else None
        return (
            bool(settings_hash)
            and holds is not None
            and settings_hash != await self._hash_key.compute_hash(holds.evaluation_key, leadership)
        )


_TRIES: Final = 4
"""Another client may change the instance meanwhile; if that happens repeatedly, the next pass retries."""


async def record_host_key(
    cached: CachedInstance, fingerprint: str, leadership: Leadership, now: Callable[[], datetime]
) -> CachedInstance:
    """Record the key that a host shows when it is first met, before anything is sent to it.

    Gives the instance as the server has it then: who takes over after a crash finds the key there, and takes no other. It is
    written only to the known version: another key that was recorded meanwhile stays. Raises HostKeyChanged,
    HostKeyNotRecorded, and LeaseLost.
    """
    try:
        for _ in range(_TRIES):
            try:
                return await _write(cached, fingerprint, leadership, now())
            except Conflict:
                cached = await _read_latest(cached, leadership)
            recorded = cached.live.host_key_fingerprint
            if recorded == fingerprint:
                return cached
            if recorded:
                raise HostKeyChanged(
                    f"the host shows the key {fingerprint}, and {recorded} was recorded meanwhile: nothing was sent to it"
                )
    except ApiError as error:
        raise HostKeyNotRecorded(f"the host's key could not be recorded, and nothing was sent to it: {error}") from error
    raise HostKeyNotRecorded(
        "the host's key could not be recorded, and nothing was sent to it: the instance changes all the time"
    )


async def _write(cached: CachedInstance, fingerprint: str, leadership: Leadership, now: datetime) -> CachedInstance:
    # of what else is new in the object nothing was done yet
    wanted = status.merge_status(cached.live, {}, {"host_key_fingerprint": fingerprint}, cached.live.observed_generation, now)
    return await apply_status(cached, wanted, leadership, at_version=True)


async def _read_latest(cached: CachedInstance, leadership: Leadership) -> CachedInstance:
    """Return the current instance, by a list, since the operator may not get instances."""
    meta = cached.metadata
    instances = await leadership.client.list_objects(INSTANCES, meta.namespace, fields=f"metadata.name={meta.name}")
    for item in instances.items:
        if item.metadata.uid == meta.uid:
            return item
    raise HostKeyNotRecorded("the WindowsInstance is gone: nothing was sent to the host")
