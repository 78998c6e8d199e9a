"""What can lie where a file should: kinds of files that block or never end, and archives that unpack to too much."""

import gzip
import io
import os
import socket
import struct
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

NAME: Final = "kubelet.exe"
"""The member that the archives should have."""


def make_fifo(path: Path) -> None:
    """Make a FIFO that nobody writes to."""
    os.mkfifo(path)


def make_link_to_fifo(path: Path) -> None:
    """Make a symbolic link to a FIFO beside it."""
    target = path.with_name(f"{path.name}.fifo")
    os.mkfifo(target)
    path.symlink_to(target)


def make_socket(path: Path) -> None:
    """Make a socket that nobody listens on."""
    # the path of a socket has 108 bytes at most
    before = Path.cwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(before)


def make_endless(path: Path) -> None:
    """Make a symbolic link to a device that never ends."""
    path.symlink_to("/dev/zero")


def make_terminal(path: Path) -> None:
    """Make a symbolic link to a terminal's other end, which waits for somebody to type."""
    path.symlink_to("/dev/ptmx")


HOSTILE_FILES: Final[Mapping[str, Callable[[Path], None]]] = MappingProxyType(
    {
        "fifo": make_fifo,
        "link-to-fifo": make_link_to_fifo,
        "socket": make_socket,
        "endless-device": make_endless,
        "terminal": make_terminal,
    }
)
"""By name; each value makes one at a path."""


def build_tar(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    """Return a gzipped tar archive."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for entry, content in members:
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return out.getvalue()


_WANTED: Final = build_tar((tarfile.TarInfo(NAME), b"program"))


def build_bomb() -> bytes:
    """Return an archive of 5 MB whose file has 5 GiB."""
    entry = tarfile.TarInfo(NAME)
    entry.size = 5 << 30
    zeros = gzip.compress(bytes(1 << 24))
    return gzip.compress(entry.tobuf()) + zeros * (entry.size >> 24)


def build_bomb_before() -> bytes:
    """Return an archive in which a file of 1 GiB stands before the one that is wanted."""
    entry = tarfile.TarInfo("other")
    entry.size = 1 << 30
    zeros = gzip.compress(bytes(1 << 24))
    return gzip.compress(entry.tobuf()) + zeros * (entry.size >> 24) + _WANTED


def build_long_header() -> bytes:
    """Return an archive whose first name has 64 MiB."""
    header = tarfile.TarInfo("././@LongLink")
    header.type, header.size = tarfile.GNUTYPE_LONGNAME, 64 << 20
    return gzip.compress(header.tobuf(format=tarfile.GNU_FORMAT)) + gzip.compress(b"x" * header.size) + _WANTED * 2


def build_pax_header() -> bytes:
    """Return an archive that begins with a PAX header of 64 MiB."""
    header = tarfile.TarInfo("pax")
    header.type, header.size = tarfile.XHDTYPE, 64 << 20
    return gzip.compress(header.tobuf(format=tarfile.PAX_FORMAT)) + gzip.compress(b"7" * header.size)


def build_many_members() -> bytes:
    """Return an archive of 200,000 empty files before the one that is wanted."""
    empty = b"".join(tarfile.TarInfo(f"file-{number}").tobuf() for number in range(1_000))
    return gzip.compress(empty) * 200 + _WANTED


def build_link() -> bytes:
    """Return an archive in which the file is a link to one of this machine."""
    entry = tarfile.TarInfo(NAME)
    entry.type, entry.linkname = tarfile.SYMTYPE, "/etc/passwd"
    return build_tar((entry, b""))


def build_cut() -> bytes:
    """Return an archive that ends in the middle of its file."""
    whole = build_tar((tarfile.TarInfo(NAME), os.urandom(100_000)))
    return whole[: len(whole) // 2]


def build_zip_bomb() -> bytes:
    """Return a zip archive whose file has 2 GiB, and 2 MB in the archive."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive, archive.open(NAME, "w", force_zip64=True) as file:
        for _ in range(128):
            file.write(bytes(1 << 24))
    return out.getvalue()


def build_zip_of_many() -> bytes:
    """Return a zip archive with 120,000 entries for one file."""
    name = NAME.encode()
    local = struct.pack("<4s5H3I2H", b"PK\3\4", 20, 0, 0, 0, 0, 0, 0, 0, len(name), 0) + name
    entry = struct.pack("<4s6H3I5H2I", b"PK\1\2", 20, 20, 0, 0, 0, 0, 0, 0, 0, len(name), 0, 0, 0, 0, 0, 0) + name
    directory = entry * 120_000
    end = struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, len(directory), len(local), 0)
    return local + directory + end


HOSTILE_ARCHIVES: Final[Mapping[str, Callable[[], bytes]]] = MappingProxyType(
    {
        "bomb.tar.gz": build_bomb,
        "bomb-before.tar.gz": build_bomb_before,
        "long-header.tar.gz": build_long_header,
        "pax-header.tar.gz": build_pax_header,
        "many-members.tar.gz": build_many_members,
        "link.tar.gz": build_link,
        "cut.tar.gz": build_cut,
        "bomb.zip": build_zip_bomb,
        "many-members.zip": build_zip_of_many,
    }
)
"""By a file name; each value returns the archive. None has a file `NAME` that may be taken."""
