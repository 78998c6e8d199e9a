"""Logs the kinds that cannot be followed, once the failure has lasted: a restart of the API server is nothing to act on.

All reflectors of a client share one of these, so that an API server that does not answer makes one line, not one for each kind.
"""

import asyncio
from http import HTTPStatus
from typing import Final

import msgspec
import structlog

from transom.kube.errors import ApiError, StatusError
from transom.kube.refusals import parse_missing_right
from transom.kube.refused_writes import shorten

_log: Final = structlog.get_logger("transom.kube.reflector")
PATIENCE: Final = 30.0
"""Seconds that a kind may fail before it is logged."""
REPEAT: Final = 300.0
"""Seconds between two lines of one failure that lasts."""


class FailedRead(msgspec.Struct, frozen=True, order=True):
    """A kind that cannot be listed or watched, and the last reason."""

    kind: str
    why: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.why}"


class WatchFailures:
    """The kinds that fail now, and since when."""

    def __init__(self, patience: float = PATIENCE, repeat: float = REPEAT) -> None:
        self._patience, self._repeat = patience, repeat
        self._since: dict[str, float] = {}
        self._errors: dict[str, ApiError] = {}
        self._logged: dict[str, float] = {}
        """When a failure was last logged, by the kind that the server refuses; `""` is for a server that does not answer."""

    def note_failure(self, kind: str, error: ApiError, retry_seconds: float) -> None:
        """Note that a kind could not be listed or watched; the reflector tries again after `retry_seconds`."""
        now = asyncio.get_running_loop().time()
        lasted = now - self._since.setdefault(kind, now)
        self._errors[kind] = error
        refused = isinstance(error, StatusError) and error.code < HTTPStatus.INTERNAL_SERVER_ERROR
        key = kind if refused else ""
        if lasted < self._patience or now - self._logged.get(key, -self._repeat) < self._repeat:
            _log.debug("cannot follow", kinds=[kind], error=str(error), retry_seconds=round(retry_seconds, 1))
            return
        self._logged[key] = now
        kinds = [kind] if refused else sorted(item for item, since in self._since.items() if now - since >= self._patience)
        _log.warning("cannot follow", kinds=kinds, error=str(error), since_seconds=round(lasted))

    def list_lasting(self, seconds: float) -> tuple[FailedRead, ...]:
        """Return the kinds that the server has refused to list or watch for so long, in order.

        Without those that only lack a right (`kube.refusals`): and if no answer comes, the lease is not renewed either.
        """
        now = asyncio.get_running_loop().time()
        lasting = [(kind, self._errors[kind]) for kind, since in sorted(self._since.items()) if now - since >= seconds]
        return tuple(
            FailedRead(kind, shorten(str(error)))
            for kind, error in lasting
            if isinstance(error, StatusError) and parse_missing_right(str(error)) is None
        )

    def note_success(self, kind: str) -> None:
        """Note that a kind is followed. If its failure was logged, so is the end."""
        if self._since.pop(kind, None) is None:
            return
        del self._errors[kind]
        logged = self._logged.pop(kind, None) is not None
        if not self._since:
            logged = self._logged.pop("", None) is not None or logged
        if logged:
            _log.info("followed again", kind=kind)
