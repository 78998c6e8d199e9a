"""The key that a host shows when it is first met, in the status of its instance before anything is sent to the host.

Who takes over after a crash finds it there, and takes no other key.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Final

from transom.controllers.instance import status
from transom.controllers.instance.applied_status import apply_status
from transom.controllers.runtime.cached import INSTANCES, CachedInstance
from transom.controllers.runtime.leadership import Leadership
from transom.hosts.errors import HostKeyChanged, HostKeyNotRecorded
from transom.kube.errors import ApiError, Conflict

_TRIES: Final = 4
"""Somebody may annotate the instance meanwhile; who does so again and again is waited for until the next pass."""


async def pin(cached: CachedInstance, fingerprint: str, leadership: Leadership, now: Callable[[], datetime]) -> CachedInstance:
    """Record a host's key, and give the instance as the server has it then.

    It is written upon the version that is known alone: another key that was recorded meanwhile stays. Raises HostKeyChanged,
    HostKeyNotRecorded, and LeaseLost.
    """
    try:
        for _ in range(_TRIES):
            try:
                return await _write(cached, fingerprint, leadership, now())
            except Conflict:
                cached = await _latest(cached, leadership)
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
    wanted = status.merged(cached.live, {}, {"host_key_fingerprint": fingerprint}, cached.live.observed_generation, now)
    return await apply_status(cached, wanted, leadership, at_version=True)


async def _latest(cached: CachedInstance, leadership: Leadership) -> CachedInstance:
    """The instance as it is now: instances may be listed, not got."""
    meta = cached.metadata
    found = await leadership.client.list_objects(INSTANCES, meta.namespace, fields=f"metadata.name={meta.name}")
    for one in found.items:
        if one.metadata.uid == meta.uid:
            return one
    raise HostKeyNotRecorded("the WindowsInstance is gone: nothing was sent to the host")
