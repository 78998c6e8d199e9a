"""What an API server refuses for lack of a right, as a state: since when, and until it is granted."""

import re
import time
from collections.abc import Callable
from typing import Final

import msgspec

_REFUSAL: Final = re.compile(
    r'cannot (?P<verb>[a-z]+) resource "(?P<resource>[^"]{1,253})" in API group "(?P<group>[^"]{0,253})"'
    r'(?: in the namespace "(?P<namespace>[^"]{1,253})")?'
)
"""The words of RBAC and other authorizers (k8s.io/apiserver v0.36, endpoints/handlers/responsewriters/errors.go,
forbiddenMessage). A refusal by a quota, an admission webhook or a namespace that is being deleted has others."""
_NAME: Final = re.compile(r'[a-z0-9.-]{1,253} "([^"]{1,253})" is forbidden')
_MOST: Final = 256
"""Rights that are remembered: there are fewer kinds, verbs and namespaces that Transom asks for one after the other."""
_FORGOTTEN: Final = 900.0
"""Seconds after which a refusal that was not repeated says nothing any more."""


class MissingRight(msgspec.Struct, frozen=True, order=True):
    """A verb on a kind, in a namespace or (empty) everywhere, as `kubectl auth can-i` takes it."""

    namespace: str
    group: str
    resource: str
    verb: str

    def __str__(self) -> str:
        resource, slash, subresource = self.resource.partition("/")
        kind = f"{resource}.{self.group}{slash}{subresource}" if self.group else self.resource
        return f"{self.verb} {kind}" + (f" in {self.namespace}" if self.namespace else "")


class _Refusal(msgspec.Struct):
    first: float
    last: float
    name: str = ""
    """Of the object that was last asked for: some rights are for objects of one name."""
    requests: int = 1
    """That were refused, without those of a caller that works without the right."""


class Refusals:
    """The rights that requests of one process lack."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._refusals: dict[MissingRight, _Refusal] = {}
        self._rights: dict[tuple[str, str], set[MissingRight]] = {}
        """By method and path without a name: which rights the server missed at such requests."""

    def __contains__(self, right: MissingRight) -> bool:
        return right in self._refusals

    def note_refusal(self, method: str, path: str, message: str) -> MissingRight | None:
        """Note a 403 and its message; return the right that it names, None if it is about something else."""
        right = parse_missing_right(message)
        if right is None:
            return None
        now = self._clock()
        refusal = self._refusals.get(right)
        match = _NAME.match(message)
        name = match[1] if match is not None else ""
        if refusal is not None and now - refusal.last < _FORGOTTEN:
            refusal.last, refusal.name = now, name
            refusal.requests += 1
        elif len(self._refusals) < _MOST:
            self._refusals[right] = _Refusal(now, now, name)
        if right in self._refusals:
            self._rights.setdefault(normalize_request(method, path), set()).add(right)
        return right

    def note_success(self, method: str, path: str) -> None:
        """Note that a request was admitted: its right exists, if it was missing before."""
        if self._rights:
            for right in self._rights.pop(normalize_request(method, path), ()):
                self._refusals.pop(right, None)

    def get_last_refused_name(self, right: MissingRight) -> str:
        """Return the name of the object that was refused last; empty for a list, or if none is known."""
        refusal = self._refusals.get(right)
        return refusal.name if refusal is not None else ""

    def forget_granted_right(self, right: MissingRight) -> None:
        """Forget a right that was granted again."""
        self._refusals.pop(right, None)

    def forget_refused_request(self, message: str) -> None:
        """Forget a refused request: who asked works without the right, which others may need."""
        right = parse_missing_right(message)
        if right is None or (refusal := self._refusals.get(right)) is None:
            return
        refusal.requests -= 1
        if refusal.requests <= 0:
            del self._refusals[right]

    def list_lasting(self, seconds: float) -> tuple[MissingRight, ...]:
        """Return the rights that have been missing for so long, in order."""
        now = self._clock()
        for right in [right for right, refusal in self._refusals.items() if now - refusal.last >= _FORGOTTEN]:
            del self._refusals[right]
            for rights in self._rights.values():
                rights.discard(right)
        return tuple(sorted(right for right, refusal in self._refusals.items() if now - refusal.first >= seconds))


def parse_missing_right(message: str) -> MissingRight | None:
    """Return the right that a 403 with this message names, None if it is about something else."""
    match = _REFUSAL.search(message)
    if match is None:
        return None
    return MissingRight(match["namespace"] or "", match["group"], match["resource"], match["verb"])


def normalize_request(method: str, path: str) -> tuple[str, str]:
    """Return what requests have in common that need the same right: names of objects are left out."""
    parts = path.split("/")
    # /api/v1/… or /apis/GROUP/VERSION/…, then namespaces/NAME where the object is in one
    start = 3 if parts[1:2] == ["api"] else 4
    if parts[start : start + 1] == ["namespaces"] and len(parts) > start + 2:
        start += 2
    named = len(parts) > start + 1
    kept = [*parts[: start + 1], *parts[start + 2 :]]
    return f"{method} {'one' if named else 'all'}", "/".join(kept)
