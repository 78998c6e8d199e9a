"""Writes that an API server refuses for another reason than a missing right, as a state: since when, and until one succeeds.

The cause is a quota, an admission webhook or policy of others, a namespace that is being deleted, or a full etcd: the server
answers reads, and the state that Transom knows does not get into the cluster.
"""

import re
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Final

import msgspec

from transom.common.escaping import escape_unprintable
from transom.kube.errors import StatusError
from transom.kube.refusals import normalize_request

_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_EXPECTED: Final = frozenset(
    (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, HTTPStatus.GONE, HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.UNAUTHORIZED)
)
"""Answers that each writer handles: no such object, another version, later."""
_MOST: Final = 64
"""Kinds of requests that are remembered."""
_FORGOTTEN: Final = 400.0
"""Seconds after which a refusal that was not repeated says nothing any more: longer than a key waits (`kube.queue.BACKOFF`)."""
_OF_ETCD: Final = "etcdserver: "
"""How etcd's own errors begin, such as a full database (go.etcd.io/etcd/api v3.6.8, v3rpc/rpctypes/error.go)."""
_LENGTH: Final = 300
"""Characters of a server's message."""
_PATH: Final = re.compile(
    r"/apis?/(?:(?P<group>[^/]+\.[^/]+|apps|batch|policy|autoscaling|extensions)/)?v[^/]*"
    r"(?:/namespaces/(?P<namespace>[^/]+)(?=/.))?/(?P<plural>[^/]+)(?:/[^/]+)?(?P<subresource>/[^/]+)?$"
)


class RefusedWrite(msgspec.Struct, frozen=True, order=True):
    """A kind of write, and the server's last reason to refuse it. `namespace` is empty for cluster-scoped kinds."""

    namespace: str
    resource: str
    verb: str
    why: str

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}" + (f" in {self.namespace}" if self.namespace else "") + f": {self.why}"


class _Refusal(msgspec.Struct):
    first: float
    last: float
    write: RefusedWrite


class RefusedWrites:
    """The writes of one process that are refused. A success of the same kind of request ends it, whatever the object."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._refusals: dict[tuple[str, str], _Refusal] = {}

    def note_refusal(self, method: str, path: str, error: StatusError) -> None:
        """Note a write that was refused; what its writer expects, such as a conflict, is none."""
        if method not in _VERBS or error.code in _EXPECTED:
            return
        key, now = normalize_request(method, path), self._clock()
        write = _parse_refused_write(method, path, str(error))
        refusal = self._refusals.get(key)
        if refusal is not None and now - refusal.last < _FORGOTTEN:
            refusal.last, refusal.write = now, write
        elif refusal is not None or len(self._refusals) < _MOST:
            self._refusals[key] = _Refusal(now, now, write)

    def note_success(self, method: str, path: str) -> None:
        """Note that a request succeeded."""
        if not self._refusals:
            return
        self._refusals.pop(normalize_request(method, path), None)
        if method == "PUT":
            # etcd takes writes again. Others may not reach it: an apply that changes nothing, a review of a right
            for key in [key for key, refusal in self._refusals.items() if _OF_ETCD in refusal.write.why]:
                del self._refusals[key]

    def forget_all(self) -> None:
        """Forget the refusals: another process works, and this one does not repeat them."""
        self._refusals.clear()

    def list_lasting(self, seconds: float) -> tuple[RefusedWrite, ...]:
        """Return the writes that were refused again and again for so long, in order."""
        now = self._clock()
        for key in [key for key, refusal in self._refusals.items() if now - refusal.last >= _FORGOTTEN]:
            del self._refusals[key]
        # a single refusal is no state: the object of the request may be the reason
        return tuple(sorted(item.write for item in self._refusals.values() if item.last - item.first >= seconds))


def shorten(message: str) -> str:
    """Return a server's message in one line, without control characters, and not longer than a status should have it."""
    why = escape_unprintable(" ".join(message.split()))
    return why if len(why) <= _LENGTH else f"{why[: _LENGTH - 1]}…"


def _parse_refused_write(method: str, path: str, message: str) -> RefusedWrite:
    match = _PATH.match(path)
    why = shorten(message)
    if match is None:
        return RefusedWrite("", path, _VERBS[method], why)
    group = match["group"]
    resource = f"{match['plural']}{'.' + group if group else ''}{match['subresource'] or ''}"
    return RefusedWrite(match["namespace"] or "", resource, _VERBS[method], why)
