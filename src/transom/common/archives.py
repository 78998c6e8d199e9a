"""Read one file of an untrusted tar or zip archive, with bounds on the bytes that are read and kept in memory."""

import gzip
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, Final

from transom.common.regular_files import open_regular_file

MAX_MEMBER: Final = 1 << 30
"""Bytes of a file that is taken out of an archive; the largest that a payload has are container images of 300 MB."""
MAX_UNPACKED: Final = 4 << 30
"""Bytes of a tar archive, unpacked, that are looked through for a file."""
MAX_MEMBERS: Final = 50_000
MAX_IMAGE: Final = 16 << 30
"""Bytes of a layer or a tarball of a container image, unpacked, that are looked through."""
MAX_IMAGE_MEMBERS: Final = 1_000_000
_MAX_AT_ONCE: Final = 8 << 20
"""Bytes of a single read: of a header with long names, or of the directory of a zip archive."""
_CHUNK: Final = 1 << 20
_LONGEST_NAME: Final = 4096
_SEALED: Final = 1
"""Bit 0 of the flags of a file in a zip archive (APPNOTE.TXT, 4.4.4)."""
_GZIP: Final = b"\x1f\x8b"


class ArchiveTooLarge(ValueError):
    """An archive of which more would have to be read than its limits permit; the message says which limit."""


class BoundedReader:
    """A file, of which `most` bytes are read at most, and no more than 8 MiB at once."""

    def __init__(self, file: IO[bytes] | gzip.GzipFile, limit: int) -> None:
        self._file, self._most = file, limit

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes. Raises ArchiveTooLarge."""
        # zipfile asks for all the rest, -1, where it looks for the end of the directory
        data = self._file.read(min(size, _MAX_AT_ONCE + 1) if size >= 0 else _MAX_AT_ONCE + 1)
        if len(data) > _MAX_AT_ONCE:
            raise ArchiveTooLarge(f"it has a header of more than {_MAX_AT_ONCE:,} bytes")
        self._check(self._file.tell())
        return data

    def seek(self, offset: int, whence: int = 0) -> int:
        """Go to a place in the file. Raises ArchiveTooLarge."""
        if whence == 0:
            self._check(offset)
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        """Return the place in the file."""
        return self._file.tell()

    def seekable(self) -> bool:
        """Return True: zip archives are read from their end."""
        return True

    def _check(self, position: int) -> None:
        if position > self._most:
            raise ArchiveTooLarge(f"it has more than {self._most:,} bytes")


@contextmanager
def open_member(archive: Path, name: str, *, is_zip: bool) -> Iterator[IO[bytes]]:
    """Open a regular file of a zip or a gzipped tar archive to read it; `copy_bounded` reads it.

    Raises KeyError where it has none of that name, ArchiveTooLarge, OSError, and what `tarfile` and `zipfile` raise.
    """
    with open_regular_file(archive) as file:
        if is_zip:
            bounded: Any = BoundedReader(file, MAX_UNPACKED)
            with zipfile.ZipFile(bounded) as packed:
                if len(packed.infolist()) > MAX_MEMBERS:
                    raise ArchiveTooLarge(f"it has more than {MAX_MEMBERS:,} files")
                entry = packed.getinfo(name)
                if entry.flag_bits & _SEALED:
                    raise zipfile.BadZipFile(f"{name} needs a password")
                # an archive can make LZMA use gigabytes of memory, and each format has its own errors
                if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    raise zipfile.BadZipFile(f"{name} is packed by another method than deflate")
                with packed.open(entry) as content:
                    yield content
            return
        with open_tar(file, MAX_UNPACKED) as tar:
            yield _find_member(tar, name)


@contextmanager
def open_tar(file: IO[bytes], limit: int = MAX_IMAGE) -> Iterator[tarfile.TarFile]:
    """Open a tar archive, gzipped or not, of at most so many bytes; `iterate_members` lists its files.

    Raises ArchiveTooLarge, OSError, and what `tarfile` and `zlib` raise.
    """
    is_gzipped = file.read(len(_GZIP)) == _GZIP
    file.seek(0)
    with ExitStack() as stack:
        plain = stack.enter_context(gzip.GzipFile(fileobj=file)) if is_gzipped else file
        bounded: Any = BoundedReader(plain, limit)
        yield stack.enter_context(tarfile.open(fileobj=bounded, mode="r:"))


def iterate_members(tar: tarfile.TarFile, limit: int = MAX_IMAGE_MEMBERS) -> Iterator[tarfile.TarInfo]:
    """Yield the members of an archive, none of which is kept in memory. Raises ArchiveTooLarge."""
    count = 0
    while (member := tar.next()) is not None:
        # tarfile keeps every member that it has read
        tar.members.clear()  # type: ignore[attr-defined]
        count += 1
        if count > limit:
            raise ArchiveTooLarge(f"it has more than {limit:,} files")
        if len(member.name) > _LONGEST_NAME:
            raise ArchiveTooLarge(f"the name of a file has more than {_LONGEST_NAME:,} characters")
        yield member


def _find_member(tar: tarfile.TarFile, name: str) -> IO[bytes]:
    for member in iterate_members(tar, MAX_MEMBERS):
        # a link is no file: what it names may lie outside
        if member.isreg() and member.name.removeprefix("./") == name and (content := tar.extractfile(member)) is not None:
            return content
    raise KeyError(name)


def copy_bounded(content: IO[bytes], target: IO[bytes]) -> None:
    """Copy a file of an archive. Raises ArchiveTooLarge where it has more than `MAX_MEMBER` bytes, whatever its header says."""
    copied = 0
    while chunk := content.read(_CHUNK):
        copied += len(chunk)
        if copied > MAX_MEMBER:
            raise ArchiveTooLarge(f"a file in it has more than {MAX_MEMBER:,} bytes")
        target.write(chunk)


def read_bounded(content: IO[bytes], limit: int = MAX_MEMBER) -> bytes:
    """Return the bytes of a file of an archive. Raises ArchiveTooLarge where it has more than `limit`."""
    data = content.read(limit + 1)
    if len(data) > limit:
        raise ArchiveTooLarge(f"a file in it has more than {limit:,} bytes")
    return data
