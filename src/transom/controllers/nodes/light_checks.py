"""Which nodes needed nothing when their hosts were last read, and how services and files of those looked then."""

import time
from typing import Any

import msgspec

from transom.hosts.passes import PassResult
from transom.hosts.passes.configure import Configured
from transom.hosts.passes.light_check import Watched
from transom.kube.store import ObjectKey

Inputs = tuple[Any, ...]
"""All that decides what a host should be, but what the host says itself. Compared, never looked into."""


class _Look(msgspec.Struct, frozen=True):
    """How a host looked while it was to be what `inputs` make it."""

    inputs: Inputs
    digest: bytes


class _Rest(msgspec.Struct, frozen=True):
    """A host that needs nothing since then (time.monotonic): `watched` is what is looked at, `look` how it looked before."""

    since: float
    watched: Watched
    look: _Look | None = None


class LightChecks:
    """A look counts once a pass that began after it has found nothing to do: whoever looks the same needs nothing, either."""

    def __init__(self, interval: float) -> None:
        self._interval = interval
        """Seconds for which a look may take the place of a pass."""
        self._rests: dict[ObjectKey, _Rest] = {}
        self._looks: dict[ObjectKey, _Look] = {}

    def watched(self, key: ObjectKey) -> Watched | None:
        """What is looked at on a host; None where it has to be read."""
        self._looks.pop(key, None)
        rest = self._rests.get(key)
        return rest.watched if rest is not None and time.monotonic() - rest.since < self._interval else None

    def is_unchanged(self, key: ObjectKey, inputs: Inputs, digest: bytes | None) -> bool:
        """Whether a host needs nothing that looks so now; else the next pass says what such a look is worth."""
        if digest is None:
            return False
        look = _Look(inputs, digest)
        if (rest := self._rests.get(key)) is not None and rest.look == look:
            return True
        self._looks[key] = look
        return False

    def passed(self, key: ObjectKey, found: PassResult) -> None:
        """A pass has ended."""
        look, rest = self._looks.pop(key, None), self._rests.pop(key, None)
        if found.error is not None or found.result != "unchanged" or found.waiting or found.before is None:
            return
        if isinstance(found, Configured) and (found.waits or found.reboot):
            return
        watched = Watched(tuple(one.name for one in found.before.services), tuple(found.before.files))
        self._rests[key] = _Rest(time.monotonic(), watched, look or (rest.look if rest is not None else None))

    def forget(self, key: ObjectKey) -> None:
        """The host is somebody else's, or is no node any more."""
        self._looks.pop(key, None)
        self._rests.pop(key, None)
