"""The payload that hosts get: read once, and what `payload.yaml` names by URL fetched through the proxy of the settings."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
import structlog

from transom.common.regular_files import read_regular_file
from transom.controllers.runtime.conditions import Condition
from transom.controllers.runtime.current_settings import CurrentSettings
from transom.hosts.steps.payload_directory import (
    LOCK,
    PayloadDirectory,
    get_download_path,
    list_missing_downloads,
    read_resolved_payload,
)
from transom.http.downloads import DownloadError, HashError, Route, download
from transom.kube.backoff import wait_for_event
from transom.proxy.settings import Egress
from transom.sources.payload import FILE, parse_payload
from transom.sources.payload_build import download_payload
from transom.windows.payload.lock import Lock
from transom.windows.payload.payload import Payload

_log: Final = structlog.get_logger("transom.payload")
AGAIN: Final = 30.0
"""Seconds until files that could not be fetched are tried again."""
_LONGEST: Final = 3600.0
"""The same for a file of another hash, in the end: it is fetched whole to be seen to be wrong."""
_INVALID: Final = "PayloadInvalid"
_FETCHING: Final = "fetching a file of the payload"


class IncompletePayload(msgspec.Struct, frozen=True):
    """The content of `payload.yaml` while files of it are missing, and the condition of hosts until they exist."""

    payload: Payload
    condition: Condition


class PayloadSource:
    """A payload's directory, and a cache for files that are not in it: `downloads/<SHA-256>`.

    Nothing is read or fetched before the first host needs it. `changed` is called when there is something new to report.
    """

    def __init__(
        self, path: Path, cache: Path, settings: CurrentSettings, changed: Callable[[], None], *, builds: bool = False
    ) -> None:
        """Create the source. `builds`: the directory belongs to Transom, which completes it as `payload build` does if it has
        no lock.
        """
        self._path, self._cache, self._settings, self._changed, self._builds = path, cache, settings, changed, builds
        self._opening = asyncio.Lock()
        self._fetching: asyncio.Task[None] | None = None
        self._other_settings = asyncio.Event()
        self._problem: Condition | None = None
        self.payload: Payload | None = None
        """What `payload.yaml` says, once it was read."""
        self.directory: PayloadDirectory | None = None
        """The complete payload, once every file is fetched."""
        settings.subscribe(lambda _: self._other_settings.set())

    async def open(self) -> PayloadDirectory | IncompletePayload:
        """Return the directory of the payload once every file exists. Raises PayloadError."""
        async with self._opening:
            if self.directory is not None:
                return self.directory
            if self._builds and not (self._path / LOCK).exists():
                payload = self.payload = parse_payload(read_regular_file(self._path / FILE))
                self._start_work(partial(self._build, payload))
                return IncompletePayload(
                    payload, self._problem or _build_incomplete_condition([file.url for file in payload.files if file.url])
                )
            payload = self.payload = await asyncio.to_thread(read_resolved_payload, self._path)
            missing = list_missing_downloads(payload, self._path, self._cache)
            if not missing:
                self.directory = await asyncio.to_thread(PayloadDirectory.open, self._path, self._cache)
                return self.directory
            self._start_work(partial(self._fetch, payload))
            return IncompletePayload(payload, self._problem or _build_incomplete_condition(list(missing)))

    def _start_work(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if self._fetching is None or self._fetching.done():
            self._fetching = asyncio.ensure_future(work())

    async def _build(self, payload: Payload) -> None:
        """Complete the directory, again and again, until it is: what its publishers say of each file becomes its lock."""
        while True:
            self._other_settings.clear()
            way = Route(self._settings.own or Egress())
            try:
                lock = await download_payload(payload, self._path, Lock(), lambda url: _log.info(_FETCHING, url=url), way)
                part = self._path / f"{LOCK}.part"
                part.write_bytes(lock.to_json())
                part.rename(self._path / LOCK)
            except (DownloadError, OSError) as error:
                _log.warning("the payload could not be completed", error=str(error))
                self._problem = Condition("False", "PayloadIncomplete", f"{error}; Transom retries every {AGAIN:.0f} s")
                self._changed()
                await wait_for_event(self._other_settings, AGAIN)
            else:
                self._problem = None
                self._changed()
                return

    async def _fetch(self, payload: Payload) -> None:
        """Fetch what is missing, again and again, until nothing is."""
        pause = AGAIN
        while missing := list_missing_downloads(payload, self._path, self._cache):
            self._other_settings.clear()
            self._problem = await self._fetch_missing_files(missing)
            self._changed()
            if self._problem is not None:
                pause = min(pause * 2, _LONGEST) if self._problem.reason == _INVALID else AGAIN
                if await wait_for_event(self._other_settings, pause):
                    pause = AGAIN

    async def _fetch_missing_files(self, missing: Mapping[str, str]) -> Condition | None:
        """Fetch all missing files and return the first problem; wrong files come before others."""
        problem: Condition | None = None
        way = Route(self._settings.own or Egress())
        async with way.open_session() as session:
            for url, sha256 in missing.items():
                _log.info(_FETCHING, url=url)
                target = get_download_path(self._cache, sha256)
                try:
                    await download(way, session, url, sha256, target)
                    _log.info("fetched a file of the payload", url=url, bytes=target.stat().st_size)
                except HashError as error:
                    _log.warning("a file of the payload is another one", error=str(error))
                    if problem is None or problem.reason != _INVALID:
                        problem = Condition(
                            "False", _INVALID, f"{error}; Transom retries with increasing delays, up to an hour"
                        )
                except (DownloadError, OSError) as error:
                    _log.warning("a file of the payload could not be fetched", error=str(error))
                    message = f"{error}; Transom retries every {AGAIN:.0f} s"
                    problem = problem or Condition("False", "PayloadIncomplete", message)
        return problem


def _build_incomplete_condition(missing: Sequence[str]) -> Condition:
    first = missing[0]
    more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
    return Condition("False", "PayloadIncomplete", f"Transom is downloading files of the payload: {first}{more}")
