"""Logs the kinds that cannot be followed, once the failure has lasted: a restart of the API server is nothing to act on.

All reflectors of a client share one of these, so that an API server that does not answer makes one line, not one for each kind.
"""

import asyncio
from http import HTTPStatus
from typing import Final

import structlog

from transom.kube.errors import ApiError, StatusError

_log: Final = structlog.get_logger("transom.kube.reflector")
PATIENCE: Final = 30.0
"""Seconds that a kind may fail before it is logged."""
REPEAT: Final = 300.0
"""Seconds between two lines of one failure that lasts."""


class WatchFailures:
    """The kinds that fail now, and since when."""

    def __init__(self, patience: float = PATIENCE, repeat: float = REPEAT) -> None:
        self._patience, self._repeat = patience, repeat
        self._since: dict[str, float] = {}
        self._logged: dict[str, float] = {}
        """When a failure was last logged, by the kind that the server refuses; `""` is for a server that does not answer."""

    def note_failure(self, kind: str, error: ApiError, retry_seconds: float) -> None:
        """Note that a kind could not be listed or watched; the reflector tries again after `retry_seconds`."""
        now = asyncio.get_running_loop().time()
        lasted = now - self._since.setdefault(kind, now)
        refused = isinstance(error, StatusError) and error.code < HTTPStatus.INTERNAL_SERVER_ERROR
        key = kind if refused else ""
        if lasted < self._patience or now - self._logged.get(key, -self._repeat) < self._repeat:
            _log.debug("cannot follow", kinds=[kind], error=str(error), retry_seconds=round(retry_seconds, 1))
            return
        self._logged[key] = now
        kinds = [kind] if refused else sorted(item for item, since in self._since.items() if now - since >= self._patience)
        _log.warning("cannot follow", kinds=kinds, error=str(error), since_seconds=round(lasted))

    def note_success(self, kind: str) -> None:
        """Note that a kind is followed. If its failure was logged, so is the end."""
        if self._since.pop(kind, None) is None:
            return
        logged = self._logged.pop(kind, None) is not None
        if not self._since:
            logged = self._logged.pop("", None) is not None or logged
        if logged:
            _log.info("followed again", kind=kind)
