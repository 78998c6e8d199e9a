"""The one place from which the status of an instance is written, whoever has something to say of it."""

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Final
from weakref import WeakValueDictionary

import structlog

from transom.controllers.hosts.first_contact import pin
from transom.controllers.hosts.reader import InstanceReader
from transom.controllers.instance import status
from transom.controllers.instance.applied_status import apply_status
from transom.controllers.instance.node_identities import without_record
from transom.controllers.instance.view import InstanceView
from transom.controllers.runtime.conditions import Conditions, Fields
from transom.controllers.runtime.hash_key import HashKey
from transom.controllers.runtime.informers import Informers
from transom.controllers.runtime.leadership import Leadership
from transom.controllers.runtime.settings import CurrentSettings
from transom.kube.errors import Conflict, NotFound
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

    async def keep_host_key(self, case: InstanceView, fingerprint: str, leadership: Leadership) -> None:
        """Record the fingerprint of a host's key. Raises as `pin` does."""
        async with self._writing.setdefault(case.cached.key, asyncio.Lock()):
            self._cases.remember(await pin(self._cases.current(case).cached, fingerprint, leadership, self._now))

    async def write(self, case: InstanceView, conditions: Conditions, fields: Fields, leadership: Leadership) -> None:
        """Write the status where it says something new. An instance that is gone by now needs none. Raises ApiError."""
        async with self._writing.setdefault(case.cached.key, asyncio.Lock()):
            await self._write_next(self._cases.current(case), conditions, fields, leadership)

    async def _write_next(self, case: InstanceView, conditions: Conditions, fields: Fields, leadership: Leadership) -> None:
        meta = case.cached.metadata
        there = self._informers.windows_instances.snapshot().named(meta.name, meta.namespace)
        if there is None or there.metadata.uid != meta.uid:
            # the server does not compare the uid where a status is written: another object of this name must not get it
            return
        if "NodeReady" not in conditions and not case.rests:
            conditions = conditions | {"NodeReady": status.node_ready(case.node, case.identity)}
        if await self._is_outdated(case, fields.get("settings") or case.cached.live.settings, leadership):
            conditions = status.outdated(case.cached.live, conditions)
        wanted = status.merged(case.cached.live, conditions, fields, meta.generation, self._now())
        if wanted == without_record(case.cached.live):
            return
        try:
            answer = await apply_status(case.cached, wanted, leadership)
        except (NotFound, Conflict) as error:
            _log.info("status not written: the object is gone", error=str(error))
            return
        self._cases.remember(answer)

    async def _is_outdated(self, case: InstanceView, judged: str | None, leadership: Leadership) -> bool:
        """Whether a host was judged by other settings than those that hold now."""
        holds = self._settings.of(case.instance) if case.instance is not None else None
        return bool(judged) and holds is not None and judged != await self._hash_key.digest(holds.as_judged, leadership)
