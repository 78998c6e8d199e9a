"""Which nodes needed nothing when their hosts were last read, and how services and files of those looked then."""

import time
from typing import Any

import msgspec

from transom.hosts.passes.base_pass import PassResult
from transom.hosts.passes.configure import ConfigureResult
from transom.hosts.passes.light_check import WatchedItems
from transom.kube.store import ObjectKey

Inputs = tuple[Any, ...]
"""All that decides what a host should be, but what the host says itself. Compared, never looked into."""


class _HostObservation(msgspec.Struct, frozen=True):
    """The observed state of a host for these `inputs`."""

    inputs: Inputs
    digest: bytes


class _UnchangedHost(msgspec.Struct, frozen=True):
    """A host that needs nothing since then (time.monotonic): `watched` is what is looked at, `look` how it looked before."""

    since: float
    watched: WatchedItems
    look: _HostObservation | None = None


class LightChecks:
    """Remembers light checks: a digest counts once a pass that began after it had nothing to do."""

    def __init__(self, interval: float) -> None:
        self._interval = interval
        """Seconds for which a look may take the place of a pass."""
        self._rests: dict[ObjectKey, _UnchangedHost] = {}
        self._looks: dict[ObjectKey, _HostObservation] = {}

    def get_watched_items(self, key: ObjectKey) -> WatchedItems | None:
        """Return what a light check reads on a host; None if a full pass is required."""
        self._looks.pop(key, None)
        rest = self._rests.get(key)
        return rest.watched if rest is not None and time.monotonic() - rest.since < self._interval else None

    def is_unchanged(self, key: ObjectKey, inputs: Inputs, digest: bytes | None) -> bool:
        """Return True if a host with this digest needs nothing; otherwise the next pass decides."""
        if digest is None:
            return False
        look = _HostObservation(inputs, digest)
        if (rest := self._rests.get(key)) is not None and rest.look == look:
            return True
        self._looks[key] = look
        return False

    def record_pass(self, key: ObjectKey, result: PassResult) -> None:
        """Record the end of a pass."""
        look, rest = self._looks.pop(key, None), self._rests.pop(key, None)
        if result.error is not None or result.result != "unchanged" or result.waiting or result.before is None:
            return
        if isinstance(result, ConfigureResult) and (result.waits or result.reboot):
            return
        watched = WatchedItems(tuple(service.name for service in result.before.services), tuple(result.before.files))
        self._rests[key] = _UnchangedHost(time.monotonic(), watched, look or (rest.look if rest is not None else None))

    def forget(self, key: ObjectKey) -> None:
        """Forget a host that has another owner or is not a node any more."""
        self._looks.pop(key, None)
        self._rests.pop(key, None)
