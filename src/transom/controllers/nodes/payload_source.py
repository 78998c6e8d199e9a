"""The payload that hosts get: read once, and what `payload.yaml` names by URL fetched through the proxy of the settings."""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import structlog

from transom.controllers.runtime.conditions import Condition
from transom.controllers.runtime.settings import CurrentSettings
from transom.downloads import DownloadError, HashError, Way, download
from transom.hosts.steps.payload_directory import PayloadDirectory, described, downloaded, to_fetch
from transom.kube.backoff import set_within
from transom.proxy.settings import Egress
from transom.windows.payload.payload import Payload

_log: Final = structlog.get_logger("transom.payload")
AGAIN: Final = 30.0
"""Seconds until files that could not be fetched are tried again."""
_LONGEST: Final = 3600.0
"""The same for a file of another hash, in the end: it is fetched whole to be seen to be wrong."""
_INVALID: Final = "PayloadInvalid"


class PayloadSource:
    """A payload's directory, and a cache for the files that are not in it: `downloads/<SHA-256>`.

    Nothing is read or fetched before the first host asks. `changed` is called when there is more to tell of it.
    """

    def __init__(self, path: Path, cache: Path, settings: CurrentSettings, changed: Callable[[], None]) -> None:
        self._path, self._cache, self._settings, self._changed = path, cache, settings, changed
        self._opening = asyncio.Lock()
        self._fetching: asyncio.Task[None] | None = None
        self._other_settings = asyncio.Event()
        self._problem: Condition | None = None
        self.payload: Payload | None = None
        """What `payload.yaml` says, once it was read."""
        self.directory: PayloadDirectory | None = None
        """All of it, once every file is there."""
        settings.subscribe(lambda _: self._other_settings.set())

    async def open(self) -> Condition | None:
        """See that `directory` is there; what is said of hosts as long as it is not. Raises PayloadError."""
        async with self._opening:
            if self.directory is not None:
                return None
            self.payload = await asyncio.to_thread(described, self._path)
            missing = to_fetch(self.payload, self._path, self._cache)
            if not missing:
                self.directory = await asyncio.to_thread(PayloadDirectory.open, self._path, self._cache)
                return None
            if self._fetching is None or self._fetching.done():
                self._fetching = asyncio.ensure_future(self._fetch())
            return self._problem or _incomplete(missing)

    async def _fetch(self) -> None:
        """Fetch what is missing, again and again, until nothing is."""
        assert self.payload is not None
        pause = AGAIN
        while missing := to_fetch(self.payload, self._path, self._cache):
            self._other_settings.clear()
            self._problem = await self._fetch_each(missing)
            self._changed()
            if self._problem is not None:
                pause = min(pause * 2, _LONGEST) if self._problem.reason == _INVALID else AGAIN
                if await set_within(self._other_settings, pause):
                    pause = AGAIN

    async def _fetch_each(self, missing: Mapping[str, str]) -> Condition | None:
        """The first problem, of wrong files before others; the files after it are fetched all the same."""
        problem: Condition | None = None
        way = Way(self._settings.own or Egress())
        async with way.session() as session:
            for url, sha256 in missing.items():
                _log.info("fetching a file of the payload", url=url)
                target = downloaded(self._cache, sha256)
                try:
                    await download(way, session, url, sha256, target)
                    _log.info("fetched a file of the payload", url=url, bytes=target.stat().st_size)
                except HashError as error:
                    _log.warning("a file of the payload is another one", error=str(error))
                    if problem is None or problem.reason != _INVALID:
                        problem = Condition("False", _INVALID, f"{error}; tried again with growing pauses, up to an hour")
                except (DownloadError, OSError) as error:
                    _log.warning("a file of the payload could not be fetched", error=str(error))
                    said = f"{error}; tried again every {AGAIN:.0f} s"
                    problem = problem or Condition("False", "PayloadIncomplete", said)
        return problem


def _incomplete(missing: Mapping[str, str]) -> Condition:
    first = next(iter(missing))
    more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
    return Condition("False", "PayloadIncomplete", f"files of the payload are being fetched: {first}{more}")
