"""What `payload.yaml` names by URL, fetched into a payload's directory: checked by what its publisher says, and locked."""

import asyncio
import hashlib
import shutil
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

import aiohttp

from transom.downloads import DownloadError, Way, download, published
from transom.windows.payload import Payload, PayloadFile
from transom.windows.payload.lock import Lock, Locked

_DOWNLOADS: Final = "downloads"


async def build(payload: Payload, directory: Path, lock: Lock, tell: Callable[[str], None], way: Way | None = None) -> Lock:
    """Fetch what is missing to `directory/downloads/<SHA-256>`, and give the lock of all of it. Raises DownloadError, OSError.

    `way`: how to go out, None: as the environment says.

    Each file is compared with the checksum file of its publisher, whose word may not change: what the lock holds is what
    was built before. Of an archive only the files that hosts get are kept.
    """
    by_url: dict[str, list[PayloadFile]] = {}
    for file in payload.files:
        if file.url:
            by_url.setdefault(file.url, []).append(file)
    found: dict[str, Locked] = {}
    way = way or Way()
    async with way.session() as session:
        for url, files in by_url.items():
            wanted = _Wanted(url, files, lock.files.get(url), directory / _DOWNLOADS)
            found[url] = await wanted.fetch(way, session, tell)
    return Lock(files={url: one for url, one in found.items() if one.checksums or one.members})


class _Wanted:
    """What hosts get of one URL: its file, or files within it."""

    def __init__(self, url: str, files: list[PayloadFile], locked: Locked | None, downloads: Path) -> None:
        self._url, self._locked, self._downloads = url, locked, downloads
        self._given = {file.sha256 for file in files if file.sha256}
        self._checksums = next((file.checksums for file in files if file.checksums), "")
        self._members = [file.member for file in files if file.member]
        self._whole = any(not file.member for file in files)

    async def fetch(self, way: Way, session: aiohttp.ClientSession, tell: Callable[[str], None]) -> Locked:
        """See that it is there; what the lock has of it from now on."""
        sha256, said_by = await self._expected(way, session)
        if (kept := self._kept(sha256)) is not None:
            return kept
        target = self._downloads / sha256
        if not target.exists():
            tell(self._url)
            await download(way, session, self._url, sha256, target, said_by)
        members = await asyncio.to_thread(self._take_members, target)
        return Locked(sha256, self._checksums, members)

    async def _expected(self, way: Way, session: aiohttp.ClientSession) -> tuple[str, str]:
        """The hash that the URL's file has to have, and who says so."""
        if len(self._given) > 1:
            raise DownloadError(f"{self._url}: payload.yaml gives it two hashes")
        if self._given:
            return next(iter(self._given)), "payload.yaml"
        said, locked = await published(way, session, self._url, self._checksums), self._locked
        if locked is not None and locked.checksums == self._checksums and locked.sha256 != said:
            raise DownloadError(
                f"{self._url}: {self._checksums} says {said} now, and payload.lock {locked.sha256}: it was published anew. "
                "Find out why; without its lines in payload.lock the new one is taken"
            )
        return said, self._checksums

    def _kept(self, sha256: str) -> Locked | None:
        """What was taken out of an archive before, where that is all that is wanted of it."""
        locked = self._locked
        if locked is None or locked.sha256 != sha256 or self._whole:
            return None
        names = [locked.members.get(member) for member in self._members]
        return locked if all(name and (self._downloads / name).exists() for name in names) else None

    def _take_members(self, archive: Path) -> dict[str, str]:
        found = {name: self._take(archive, name) for name in self._members}
        if not self._whole:
            archive.unlink()
        return found

    def _take(self, archive: Path, name: str) -> str:
        part = archive.with_name(f"{archive.name}.member")
        try:
            with _opened(archive, self._url, name) as content, part.open("wb") as file:
                shutil.copyfileobj(content, file)
        except KeyError:
            raise DownloadError(f"{self._url}: it has no {name}") from None
        except (tarfile.TarError, zipfile.BadZipFile, EOFError, NotImplementedError) as error:
            raise DownloadError(f"{self._url}: it cannot be read as an archive: {error}") from None
        with part.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        part.rename(self._downloads / sha256)
        return sha256


@contextmanager
def _opened(archive: Path, url: str, name: str) -> Iterator[IO[bytes]]:
    """The content of a file of an archive. Raises KeyError where it has none of that name."""
    if url.endswith(".zip"):
        with zipfile.ZipFile(archive) as packed, packed.open(name) as content:
            yield content
        return
    with tarfile.open(archive, "r:gz") as tar:
        member = next((one for one in tar if one.isreg() and one.name.removeprefix("./") == name), None)
        if member is None or (found := tar.extractfile(member)) is None:
            raise KeyError(name)
        yield found
