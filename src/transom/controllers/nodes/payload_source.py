"""The payload that hosts get: read once, and what `payload.yaml` names by URL fetched through the proxy of the settings."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import structlog

from transom.controllers.runtime.conditions import Condition
from transom.controllers.runtime.settings import CurrentSettings
from transom.downloads import DownloadError, HashError, Way, download
from transom.hosts.steps.payload_directory import LOCK, PayloadDirectory, described, downloaded, to_fetch
from transom.kube.backoff import set_within
from transom.proxy.settings import Egress
from transom.sources.payload import FILE, read_payload
from transom.sources.payload_build import build
from transom.windows.payload import Payload
from transom.windows.payload.lock import Lock

_log: Final = structlog.get_logger("transom.payload")
AGAIN: Final = 30.0
"""Seconds until files that could not be fetched are tried again."""
_LONGEST: Final = 3600.0
"""The same for a file of another hash, in the end: it is fetched whole to be seen to be wrong."""
_INVALID: Final = "PayloadInvalid"
_FETCHING: Final = "fetching a file of the payload"


class PayloadSource:
    """A payload's directory, and a cache for the files that are not in it: `downloads/<SHA-256>`.

    Nothing is read or fetched before the first host asks. `changed` is called when there is more to tell of it.
    """

    def __init__(
        self, path: Path, cache: Path, settings: CurrentSettings, changed: Callable[[], None], *, builds: bool = False
    ) -> None:
        """`builds`: the directory is ours, and is completed as `payload build` does where it has no lock yet."""
        self._path, self._cache, self._settings, self._changed, self._builds = path, cache, settings, changed, builds
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
            if self._builds and not (self._path / LOCK).exists():
                self.payload = read_payload((self._path / FILE).read_bytes())
                self._begin(self._build)
                return self._problem or _incomplete([file.url for file in self.payload.files if file.url])
            self.payload = await asyncio.to_thread(described, self._path)
            missing = to_fetch(self.payload, self._path, self._cache)
            if not missing:
                self.directory = await asyncio.to_thread(PayloadDirectory.open, self._path, self._cache)
                return None
            self._begin(self._fetch)
            return self._problem or _incomplete(list(missing))

    def _begin(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if self._fetching is None or self._fetching.done():
            self._fetching = asyncio.ensure_future(work())

    async def _build(self) -> None:
        """Complete the directory, again and again, until it is: what its publishers say of each file becomes its lock."""
        assert self.payload is not None
        while True:
            self._other_settings.clear()
            way = Way(self._settings.own or Egress())
            try:
                lock = await build(self.payload, self._path, Lock(), lambda url: _log.info(_FETCHING, url=url), way)
                part = self._path / f"{LOCK}.part"
                part.write_bytes(lock.text())
                part.rename(self._path / LOCK)
            except (DownloadError, OSError) as error:
                _log.warning("the payload could not be completed", error=str(error))
                self._problem = Condition("False", "PayloadIncomplete", f"{error}; tried again every {AGAIN:.0f} s")
                self._changed()
                await set_within(self._other_settings, AGAIN)
            else:
                self._problem = None
                self._changed()
                return

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
                _log.info(_FETCHING, url=url)
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


def _incomplete(missing: Sequence[str]) -> Condition:
    first = missing[0]
    more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
    return Condition("False", "PayloadIncomplete", f"files of the payload are being fetched: {first}{more}")
