"""SFTP version 3 as OpenSSH for Windows serves it.

Source: PowerShell/openssh-portable, sftp-server.c and contrib/win32/win32compat/misc.c: a plain rename makes a hard link and
removes the old name, so it fails where the new name exists; ``posix-rename@openssh.com`` first removes a file of the new
name, then renames. A time is set by a handle of its own, for writing, which lets others write and not read (`settimes`).
NTFS sets the time of a file when a handle closes that has written, whatever was set meanwhile: [MS-FSA] 2.1.4.17.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

import asyncssh

from lab.sshd.drive import Drive
from lab.sshd.scanner import Scanner
from winsim.sftp_limits import Limited

_Result = TypeVar("_Result")


class Requests(Protocol):
    """Where each request is counted and may fail."""

    async def request(self, kind: str, detail: str, act: Callable[[], Awaitable[_Result]]) -> _Result:
        """Carry a request out."""


class Files(Limited):
    """One SFTP session."""

    def __init__(self, channel: asyncssh.SSHServerChannel[bytes], drive: Drive, scanner: Scanner, requests: Requests) -> None:
        super().__init__(channel)
        self._drive, self._scanner = drive, scanner
        self._requests = requests
        self._places: dict[object, Path] = {}
        """Where the files are that are open for writing."""
        self._written: set[object] = set()

    def map_path(self, path: bytes) -> bytes:
        """Return the Linux path of a path, for asyncssh's own file operations."""
        return os.fsencode(self._drive.locate(path))

    async def _request(self, kind: str, path: bytes, act: Callable[[], _Result]) -> _Result:
        async def carry_out() -> _Result:
            return act()

        return await self._requests.request(kind, path.decode(errors="replace"), carry_out)

    async def open(self, path: bytes, pflags: int, attrs: asyncssh.SFTPAttrs) -> object:
        """Open a file; opening for writing fails if the file is open elsewhere."""

        def open_file() -> object:
            file = self._drive.locate(path)
            if pflags & asyncssh.FXF_WRITE:
                self._drive.require_closed(file)
            opened = asyncssh.SFTPServer.open(self, path, pflags, asyncssh.SFTPAttrs())
            if pflags & asyncssh.FXF_WRITE:
                self._places[opened] = file
            if pflags & asyncssh.FXF_TRUNC:
                self._written.add(opened)
            return opened

        return await self._request("open", path, open_file)

    async def close(self, file_obj: object) -> None:
        """Close a file; where it was written, it gets its time now."""

        def close_file() -> None:
            asyncssh.SFTPServer.close(self, file_obj)
            place = self._places.pop(file_obj, None)
            if place is not None and file_obj in self._written:
                os.utime(place)
                self._scanner.look(place)
            self._written.discard(file_obj)

        await self._request("close", b"", close_file)

    async def read(self, file_obj: object, offset: int, size: int) -> bytes:
        """Read from a file."""
        most = self.limits.compute_read_size(size)
        return await self._request("read", b"", lambda: _cast_result(asyncssh.SFTPServer.read(self, file_obj, offset, most)))

    async def write(self, file_obj: object, offset: int, data: bytes) -> int:
        """Write to a file."""

        def write_data() -> int:
            self.limits.require_writable(self.channel, len(data))
            self._written.add(file_obj)
            return _cast_result(asyncssh.SFTPServer.write(self, file_obj, offset, data))  # type: ignore[no-any-return]

        return await self._request("write", b"", write_data)

    async def lstat(self, path: bytes) -> os.stat_result:
        """Return the attributes of a name; links are not followed."""
        return await self._request("lstat", path, lambda: os.lstat(self._drive.locate(path)))

    async def stat(self, path: bytes) -> os.stat_result:
        """Attributes of a file."""
        return await self._request("stat", path, lambda: self._drive.locate(path).stat())

    async def fstat(self, file_obj: object) -> Any:
        """Return the attributes of an open file."""
        return await self._request("fstat", b"", lambda: asyncssh.SFTPServer.fstat(self, file_obj))

    async def setstat(self, path: bytes, attrs: asyncssh.SFTPAttrs) -> None:
        """Set the times of a file that is not open; Windows ignores owners and permissions."""

        def set_times() -> None:
            self._drive.require_closed(self._drive.locate(path))
            asyncssh.SFTPServer.setstat(self, path, _select_times(attrs))

        await self._request("setstat", path, set_times)

    async def fsetstat(self, file_obj: object, attrs: asyncssh.SFTPAttrs) -> None:
        """Set the times of an open file."""
        await self._request("fsetstat", b"", lambda: asyncssh.SFTPServer.fsetstat(self, file_obj, _select_times(attrs)))

    async def scandir(self, path: bytes) -> AsyncIterator[asyncssh.SFTPName]:
        """List a directory."""
        names = await self._request("opendir", path, lambda: sorted(self._drive.locate(path).iterdir()))
        for name in names:
            attributes = asyncssh.SFTPAttrs.from_local(name.lstat())
            yield asyncssh.SFTPName(os.fsencode(name.name), attrs=attributes)

    async def remove(self, path: bytes) -> None:
        """Remove a file that is not open."""

        def remove_file() -> None:
            file = self._drive.locate(path)
            self._drive.require_closed(file)
            self._drive.require_unread(file)
            file.unlink()

        await self._request("remove", path, remove_file)

    async def mkdir(self, path: bytes, attrs: asyncssh.SFTPAttrs) -> None:
        """Make a directory."""
        await self._request("mkdir", path, lambda: self._drive.locate(path).mkdir())

    async def rmdir(self, path: bytes) -> None:
        """Remove an empty directory."""
        await self._request("rmdir", path, lambda: self._drive.locate(path).rmdir())

    async def realpath(self, path: bytes) -> bytes:
        """Return the full name of a path."""
        return await self._request("realpath", path, lambda: self._drive.resolve_name(path).encode())

    async def rename(self, oldpath: bytes, newpath: bytes) -> None:
        """Rename where the new name does not exist."""

        def rename_path() -> None:
            old, new = self._drive.locate(oldpath), self._drive.locate(newpath)
            _require_absent(new)
            if not old.is_file():
                self._drive.require_renamable(old)
                old.rename(new)
                return
            # Windows' makes the link first, and takes it away again: a scanner in Wine would read it meanwhile
            self._drive.require_closed(old)
            self._drive.require_unread(old)
            new.hardlink_to(old)
            old.unlink()

        await self._request("rename", oldpath, rename_path)

    async def posix_rename(self, oldpath: bytes, newpath: bytes) -> None:
        """Rename; an existing file with the new name that is not open is replaced."""

        def replace_path() -> None:
            old, new = self._drive.locate(oldpath), self._drive.locate(newpath)
            if new.is_file() and old.is_file():
                self._drive.require_closed(new)
            elif new.exists() and any(new.iterdir() if new.is_dir() else [new]):
                raise asyncssh.SFTPFailure("Failure")
            self._drive.require_renamable(old)
            old.rename(new)

        await self._request("posix-rename", oldpath, replace_path)


def _cast_result(result: Any) -> Any:
    return result


def _require_absent(file: Path) -> None:
    if file.exists():
        raise asyncssh.SFTPFailure("Failure")


def _select_times(attrs: asyncssh.SFTPAttrs) -> asyncssh.SFTPAttrs:
    return asyncssh.SFTPAttrs(size=attrs.size, atime=attrs.atime, mtime=attrs.mtime)
