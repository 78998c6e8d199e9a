r"""Drive C as OpenSSH for Windows shows it over SFTP: names in any case, and files that are open cannot be replaced.

Paths are ``C:/dir/file`` or ``/C:/dir/file``; what is relative starts in the user's home.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath

import asyncssh

from lab import wine
from lab.sshd.scanner import Scanner

HOME = "/C:/Users/Administrator"
_BATCH = (".cmd", ".bat")


class Drive:
    """The files of a prefix, with Windows' rules for sharing them."""

    def __init__(self, prefix: Path, scanner: Scanner) -> None:
        self._prefix = prefix
        self._root = prefix / "drive_c"
        self._scanner = scanner

    def resolve_name(self, path: bytes) -> str:
        """Return the full name of a path as SFTP's realpath does: ``/C:/Users/Administrator``.

        Raises:
           asyncssh.SFTPNoSuchFile: another drive, or a path that is not UTF-8.
        """
        try:
            text = path.decode().replace("\\", "/")
        except UnicodeDecodeError:
            raise asyncssh.SFTPNoSuchFile("The path is not UTF-8") from None
        if re.match(r"[A-Za-z]:", text):
            text = f"/{text}"
        if not text.startswith("/"):
            text = f"{HOME}/{text}"
        parts: list[str] = []
        for part in PurePosixPath(text).parts[1:]:
            if part == "..":
                parts = parts[:-1]
            elif part != ".":
                parts.append(part)
        if not parts:
            return "/"
        if parts[0].upper() != "C:":
            raise asyncssh.SFTPNoSuchFile("No such file or directory")
        return "/" + "/".join(["C:", *parts[1:]])

    def locate(self, path: bytes) -> Path:
        """Return the Linux path of a path, regardless of case; the last parts need not exist."""
        here = self._root
        for part in self.resolve_name(path).split("/")[2:]:
            direct = here / part
            if not direct.exists() and here.is_dir():
                direct = next((entry for entry in here.iterdir() if entry.name.lower() == part.lower()), direct)
            here = direct
        return here

    # ---- sharing -------------------------------------------------------------------------------------------------

    def require_closed(self, file: Path) -> None:
        """Refuse when a process of the machine has this file open, or runs it, or the scanner reads it.

        Wine's server holds the open files of all processes of a prefix. A batch file is left out: Windows' cmd opens it anew
        for each line and lets others write to it, Wine's keeps it open.

        Raises:
            asyncssh.SFTPFailure: as OpenSSH does for ERROR_SHARING_VIOLATION.
        """
        if file.suffix.lower() not in _BATCH and self._is_open(file):
            raise asyncssh.SFTPFailure("Failure")

    def require_renamable(self, path: Path) -> None:
        """Raise an error if a path cannot be renamed.

        A program can be renamed while it runs, a directory not while a file below it is open.

        Raises:
           asyncssh.SFTPFailure: as OpenSSH does for ERROR_SHARING_VIOLATION.
        """
        if path.is_dir():
            # not by name: in a chroot, /proc can show other names than those of this process
            opened, scanned = _identify_all(self._iter_descriptors()), _identify_all(self._scanner.list_descriptors())
            for entry in path.rglob("*"):
                item = _identify(entry)
                if item in scanned or (item in opened and entry.suffix.lower() not in _BATCH):
                    raise asyncssh.SFTPFailure("Failure")
            return
        with path.open("rb") as content:
            program = content.read(2) == b"MZ"
        if not program:
            self.require_closed(path)
        else:
            self.require_unread(path)

    def require_unread(self, file: Path) -> None:
        """Refuse what the scanner reads; who runs a program lets others rename it, and the scanner does not.

        Raises:
            asyncssh.SFTPFailure: as above.
        """
        if _identify(file) in _identify_all(self._scanner.list_descriptors()):
            raise asyncssh.SFTPFailure("Failure")

    def _is_open(self, file: Path) -> bool:
        return _identify(file) in _identify_all(self._iter_descriptors())

    def _iter_descriptors(self) -> Iterator[Path]:
        yield from self._scanner.list_descriptors()
        for pid in wine.list_processes(self._prefix):
            with suppress(OSError):
                yield from list(Path(f"/proc/{pid}/fd").iterdir())


def _identify(file: Path) -> tuple[int, int] | None:
    """Return the device and the inode of a file; None if it is gone."""
    try:
        attributes = file.stat()
    except OSError:
        return None
    return attributes.st_dev, attributes.st_ino


def _identify_all(files: Iterable[Path]) -> set[tuple[int, int]]:
    return {item for item in map(_identify, files) if item is not None}
