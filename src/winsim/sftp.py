"""SFTP version 3 as OpenSSH for Windows serves it, over a host's files.

Source: PowerShell/openssh-portable, sftp-server.c and contrib/win32/win32compat/misc.c: a plain rename fails where the new
name exists; `posix-rename@openssh.com` first removes a file of that name. What fails for another reason than a missing file
or access is SSH_FX_FAILURE, without a word. What a file is opened with: contrib/win32/win32compat/fileio.c,
`createFile_flags_setup`: who reads lets others read and write, who writes lets others write, who does both lets no one in.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Protocol, TypeVar

import asyncssh

from winsim.filesystem import (
    READ,
    WRITE,
    Entry,
    FileError,
    FileSystem,
    Handle,
    Node,
    SimulatedDirectory,
    SimulatedFile,
    list_entries,
    require_shared,
    split_path,
)
from winsim.sftp_limits import Limited, Limits

_Result = TypeVar("_Result")
_NOT_FOUND = (2, 3)
_DENIED = 5


class Requests(Protocol):
    """Where each request and what it carries is counted, and where it may fail."""

    def count_bytes(self, *, received: int = 0, sent: int = 0) -> None:
        """Count bytes of content."""

    async def request(self, kind: str, detail: str, act: Callable[[], Awaitable[_Result]]) -> _Result:
        """Carry a request out."""


class Sftp(Limited):
    """One SFTP session; files that are open at its end are closed."""

    def __init__(
        self,
        channel: "asyncssh.SSHServerChannel[bytes]",
        files: FileSystem,
        requests: Requests,
        home: str,
        limits: Limits,
    ) -> None:
        super().__init__(channel)
        self._files, self._requests, self._home, self.limits = files, requests, home, limits
        self._open: set[Handle] = set()

    def close_handles(self) -> None:
        """Close all open files, as the end of the server's process does."""
        for handle in self._open:
            handle.close()
        self._open.clear()

    async def _request(self, kind: str, path: bytes, act: Callable[[], _Result]) -> _Result:
        async def carry_out() -> _Result:
            try:
                return act()
            except FileError as error:
                if error.code in _NOT_FOUND:
                    raise asyncssh.SFTPNoSuchFile("No such file") from None
                if error.code == _DENIED:
                    raise asyncssh.SFTPPermissionDenied("Permission denied") from None
                raise asyncssh.SFTPFailure("Failure") from None

        return await self._requests.request(kind, path.decode(errors="replace"), carry_out)

    def _resolve_path(self, path: bytes) -> str:
        text = path.decode("utf-8", "replace").replace("/", "\\")
        if text[:1] == "\\" and text[2:3] == ":":
            return text[1:]
        return text if text[:1] == "\\" or text[1:2] == ":" else f"{self._home}\\{text}"

    def _get_node(self, path: bytes) -> Node:
        node = self._files.find(self._resolve_path(path))
        if node is None:
            raise FileError(2)
        return node

    def _get_entry(self, path: bytes) -> Entry:
        entry = self._files.find_entry(self._resolve_path(path))
        if entry is None:
            raise FileError(2)
        return entry

    async def open(self, path: bytes, pflags: int, attrs: asyncssh.SFTPAttrs) -> object:
        """Open a file; opening for writing fails while another handle reads it."""

        def open_handle() -> Handle:
            place = self._resolve_path(path)
            writes = WRITE if pflags & (asyncssh.FXF_WRITE | asyncssh.FXF_APPEND) else 0
            opened = writes | (READ if pflags & asyncssh.FXF_READ else 0)
            handle = self._files.open(
                place,
                opened=opened,
                share={READ: READ | WRITE, WRITE: WRITE}.get(opened, 0),
                create=bool(pflags & asyncssh.FXF_CREAT),
                truncate=bool(pflags & asyncssh.FXF_TRUNC),
                new=bool(pflags & asyncssh.FXF_EXCL),
            )
            self._open.add(handle)
            return handle

        return await self._request("open", path, open_handle)

    async def close(self, file_obj: object) -> None:
        """Close a file."""
        handle = _handle(file_obj)
        await self._request("close", _get_name(handle), handle.close)
        self._open.discard(handle)

    async def read(self, file_obj: object, offset: int, size: int) -> bytes:
        """Read a part of a file; return nothing at its end."""
        most = self.limits.compute_read_size(size)
        data = await self._request("read", _get_name(file_obj), lambda: _handle(file_obj).read(offset, most))
        self._requests.count_bytes(sent=len(data))
        return data

    async def write(self, file_obj: object, offset: int, data: bytes) -> int:
        """Write a part of a file."""

        def write_data() -> int:
            self.limits.require_writable(self.channel, len(data))
            _handle(file_obj).write(data, offset)
            self._requests.count_bytes(received=len(data))
            return len(data)

        return await self._request("write", _get_name(file_obj), write_data)

    async def stat(self, path: bytes) -> asyncssh.SFTPAttrs:
        """Return the attributes of a path; junctions are followed."""
        return await self._request("stat", path, lambda: _build_attributes(self._get_node(path)))

    async def lstat(self, path: bytes) -> asyncssh.SFTPAttrs:
        """Return the attributes of a path; junctions are not followed."""
        return await self._request("lstat", path, lambda: _build_attributes(self._get_entry(path)))

    async def fstat(self, file_obj: object) -> asyncssh.SFTPAttrs:
        """Return the attributes of an open file."""
        return await self._request("fstat", _get_name(file_obj), lambda: _build_attributes(_handle(file_obj).file))

    async def setstat(self, path: bytes, attrs: asyncssh.SFTPAttrs) -> None:
        """Set the modification time; Windows ignores modes and owners."""
        await self._request("setstat", path, lambda: _set_time(self._get_node(path), attrs))

    async def fsetstat(self, file_obj: object, attrs: asyncssh.SFTPAttrs) -> None:
        """Set the modification time; Windows ignores modes and owners."""
        # by another handle than the one that is open (sftp-server.c, process_fsetstat, without HAVE_FUTIMES)
        await self._request("fsetstat", _get_name(file_obj), lambda: _set_time(_handle(file_obj).file, attrs))

    async def mkdir(self, path: bytes, attrs: asyncssh.SFTPAttrs) -> None:
        """Create a directory."""
        await self._request("mkdir", path, lambda: self._files.make_directory(self._resolve_path(path)) and None)

    async def rmdir(self, path: bytes) -> None:
        """Remove an empty directory."""

        def remove_directory() -> None:
            entry = self._get_entry(path)
            if isinstance(entry, SimulatedFile):
                raise FileError(267)
            self._files.remove(entry)

        await self._request("rmdir", path, remove_directory)

    async def remove(self, path: bytes) -> None:
        """Remove a file that is not open."""

        def remove_file() -> None:
            self._files.remove(self._files.get_file(self._resolve_path(path)))

        await self._request("remove", path, remove_file)

    async def rename(self, oldpath: bytes, newpath: bytes) -> None:
        """Rename a file or a directory; fails if the new name exists."""
        await self._request(
            "rename", oldpath, lambda: self._files.rename(self._get_entry(oldpath), self._resolve_path(newpath))
        )

    async def posix_rename(self, oldpath: bytes, newpath: bytes) -> None:
        """Rename a file and replace an existing file with the new name that is not open."""

        def replace_file() -> None:
            self._files.rename(self._get_entry(oldpath), self._resolve_path(newpath), replace=True)

        await self._request("posix-rename", oldpath, replace_file)

    async def realpath(self, path: bytes) -> bytes:
        """Return the absolute path as Windows' server writes it: `/C:/…`."""
        full = "/C:/" + "/".join(split_path(self._resolve_path(path)))
        return await self._request("realpath", path, full.encode)

    async def scandir(self, path: bytes) -> AsyncIterator[asyncssh.SFTPName]:
        """Yield the entries of a directory."""

        def read_directory() -> list[asyncssh.SFTPName]:
            node = self._get_node(path)
            if isinstance(node, SimulatedFile):
                raise FileError(267)
            return [
                asyncssh.SFTPName(name.encode(), attrs=_build_attributes(entry))
                for name, entry in ((".", node), ("..", node), *((e.name, e) for e in list_entries(node)))
            ]

        for name in await self._request("readdir", path, read_directory):
            yield name


def _handle(file_obj: object) -> Handle:
    if not isinstance(file_obj, Handle):
        raise asyncssh.SFTPInvalidHandle("Invalid handle")
    return file_obj


def _set_time(node: Node, attrs: asyncssh.SFTPAttrs) -> None:
    """contrib/win32/win32compat/misc.c, `settimes`: GENERIC_WRITE, FILE_SHARE_WRITE."""
    if attrs.mtime is None:
        return
    if isinstance(node, SimulatedFile):
        require_shared(node, WRITE, WRITE)
    node.modified = attrs.mtime


def _get_name(file_obj: object) -> bytes:
    return _handle(file_obj).file.name.encode()


def _build_attributes(node: Entry) -> asyncssh.SFTPAttrs:
    kind = 0o100666 if isinstance(node, SimulatedFile) else 0o40777 if isinstance(node, SimulatedDirectory) else 0o120777
    return asyncssh.SFTPAttrs(
        size=len(node.data) if isinstance(node, SimulatedFile) else 0,
        permissions=kind,
        uid=0,
        gid=0,
        atime=node.modified,
        mtime=node.modified,
    )
