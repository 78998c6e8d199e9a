"""What `payload.yaml` names by URL, fetched into a payload's directory: checked by what its publisher says, and locked."""

import asyncio
import gzip
import hashlib
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Final

import aiohttp

from transom.common.archives import ArchiveTooLarge, copy_bounded, open_member
from transom.common.regular_files import open_regular_file
from transom.http.downloads import DownloadError, Route, download, fetch_checksum
from transom.windows.payload.lock import Lock, LockedFile
from transom.windows.payload.payload import Payload, PayloadFile

_UNREADABLE: Final = (
    tarfile.TarError,
    gzip.BadGzipFile,
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    NotImplementedError,
    ArchiveTooLarge,
)
"""The exceptions that archive readers raise for malformed archives."""
_DOWNLOADS: Final = "downloads"


async def download_payload(
    payload: Payload, directory: Path, lock: Lock, print_progress: Callable[[str], None], route: Route | None = None
) -> Lock:
    """Fetch what is missing to `directory/downloads/<SHA-256>`, and give the lock of all of it. Raises DownloadError, OSError.

    `route`: how to go out, None: as the environment says.

    Each file is compared with the checksum file of its publisher, whose word may not change: what the lock holds is what
    was built before. Of an archive only the files that hosts get are kept.
    """
    by_url: dict[str, list[PayloadFile]] = {}
    for file in payload.files:
        if file.url:
            by_url.setdefault(file.url, []).append(file)
    locked: dict[str, LockedFile] = {}
    route = route or Route()
    async with route.open_session() as session:
        for url, files in by_url.items():
            wanted = _DownloadTask(url, files, lock.files.get(url), directory / _DOWNLOADS)
            locked[url] = await wanted.fetch(route, session, print_progress)
    return Lock(files={url: item for url, item in locked.items() if item.checksums or item.members})


class _DownloadTask:
    """What hosts get of one URL: its file, or files within it."""

    def __init__(self, url: str, files: list[PayloadFile], locked: LockedFile | None, downloads: Path) -> None:
        self._url, self._locked, self._downloads = url, locked, downloads
        self._given = {file.sha256 for file in files if file.sha256}
        self._checksums = next((file.checksums for file in files if file.checksums), "")
        self._members = [file.member for file in files if file.member]
        self._whole = any(not file.member for file in files)

    async def fetch(self, route: Route, session: aiohttp.ClientSession, print_progress: Callable[[str], None]) -> LockedFile:
        """Ensure that it exists, and return its new entry of the lock."""
        sha256, said_by = await self._fetch_expected_hash(route, session)
        if (kept := self._find_extracted(sha256)) is not None:
            return kept
        target = self._downloads / sha256
        if not target.exists():
            print_progress(self._url)
            await download(route, session, self._url, sha256, target, said_by)
        members = await asyncio.to_thread(self._extract_members, target)
        return LockedFile(sha256, self._checksums, members)

    async def _fetch_expected_hash(self, route: Route, session: aiohttp.ClientSession) -> tuple[str, str]:
        """Return the expected hash of the URL's file, and its source."""
        if len(self._given) > 1:
            raise DownloadError(f"{self._url}: payload.yaml gives it two hashes")
        if self._given:
            return next(iter(self._given)), "payload.yaml"
        published_hash, locked = await fetch_checksum(route, session, self._url, self._checksums), self._locked
        if locked is not None and locked.checksums == self._checksums and locked.sha256 != published_hash:
            raise DownloadError(
                f"{self._url}: {self._checksums} has {published_hash} now, payload.lock has {locked.sha256}: the "
                f"file was republished. "
                "Find out why; to accept the new file, remove its lines from payload.lock"
            )
        return published_hash, self._checksums

    def _find_extracted(self, sha256: str) -> LockedFile | None:
        """Return the file that was extracted from an archive earlier, if nothing else of it is needed."""
        locked = self._locked
        if locked is None or locked.sha256 != sha256 or self._whole:
            return None
        names = [locked.members.get(member) for member in self._members]
        return locked if all(name and (self._downloads / name).exists() for name in names) else None

    def _extract_members(self, archive: Path) -> dict[str, str]:
        members = {name: self._extract_member(archive, name) for name in self._members}
        if not self._whole:
            archive.unlink()
        return members

    def _extract_member(self, archive: Path, name: str) -> str:
        part = archive.with_name(f"{archive.name}.member")
        try:
            with (
                open_member(archive, name, is_zip=self._url.endswith(".zip")) as content,
                part.open("wb") as file,
            ):
                copy_bounded(content, file)
        except KeyError:
            raise DownloadError(f"{self._url}: it has no {name}") from None
        except (
            tarfile.TarError,
            gzip.BadGzipFile,
            zipfile.BadZipFile,
            zlib.error,
            EOFError,
            NotImplementedError,
            ArchiveTooLarge,
        ) as error:
            part.unlink(missing_ok=True)
            raise DownloadError(f"{self._url}: it cannot be read as an archive: {error}") from None
        with open_regular_file(part) as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        part.rename(self._downloads / sha256)
        return sha256
