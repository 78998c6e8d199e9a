"""The three things that are asked of a host: put files, run a script, fetch files; SSH is the first way to do them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from typing import Protocol, TypeVar, cast

import asyncssh
import msgspec

from transom.hosts import script
from transom.hosts.connection import Access, Timeouts, connect
from transom.hosts.errors import ConnectionLost, FileRefused, HostError
from transom.hosts.known_hosts import HostKeys

_T = TypeVar("_T")
# draft-ietf-secsh-filexfer-02, 3: every server takes reads and writes of this size
_BLOCK = 32768
_OUTPUT_LIMIT = 65536
# a Windows server sends it when a file is in the way, has no room, or may not be touched (Win32-OpenSSH, sftp-server.c)
_FAILURE = "the host's SFTP server gives no reason; a full disk is a common one"


class Run(msgspec.Struct, frozen=True):
    """How a script ended: whether its exit code was zero, and the lines of its standard output."""

    succeeded: bool
    lines: tuple[str, ...]


class Found(msgspec.Struct, frozen=True):
    """What is at a path: its size in bytes, when it changed (seconds since 1970), whether it is a directory."""

    size: int
    modified: int
    directory: bool


class Transport(Protocol):
    r"""A way to one host. Paths of files are `C:/…`; those of scripts are `C:\…`.

    Every method raises ConnectionLost when the host is gone or makes no progress, and FileRefused as it says.
    """

    channels: int
    """How many channels were opened."""

    async def run(self, path: str) -> Run:
        """Run the script at `path` to its end."""
        ...

    async def create(self, path: str, data: bytes) -> None:
        """Write a file that is not there yet, and see that it holds `data`. Raises FileRefused."""
        ...

    async def read(self, path: str, size: int) -> bytes | None:
        """The first `size` bytes of a file, or all that it has; None where there is no such file. Raises FileRefused."""
        ...

    async def modified(self, path: str) -> int | None:
        """When a file or directory changed, in seconds of the host's clock; None where there is none. Raises FileRefused."""
        ...

    async def look(self, path: str) -> Found | None:
        """What is at a path; None where there is nothing. Raises FileRefused."""
        ...

    async def send(self, path: str, chunks: AsyncIterator[bytes], offset: int, modified: int) -> None:
        """Write a file from `offset` on, one chunk after the other, and give it its time. Raises FileRefused."""
        ...

    async def names(self, path: str) -> Sequence[str]:
        """The names in a directory, without `.` and `..`; none where it is missing. Raises FileRefused."""
        ...

    async def rename(self, old: str, new: str) -> None:
        """Give a file or directory another name; one that is taken is refused. Raises FileRefused."""
        ...

    async def make_directory(self, path: str) -> bool:
        """Whether the directory was made; False when it was there, or could not be made."""
        ...

    async def remove(self, path: str) -> None:
        """Remove a file; none is no error. Raises FileRefused."""
        ...

    async def remove_directory(self, path: str) -> bool:
        """Whether an empty directory was removed."""
        ...


class _File(Protocol):
    """An open file of asyncssh in binary mode, which its annotations do not tell from one in text mode."""

    async def read(self, size: int, offset: int) -> bytes: ...
    async def write(self, data: bytes, offset: int) -> int: ...
    async def setstat(self, attrs: asyncssh.SFTPAttrs) -> None: ...
    async def close(self) -> None: ...


class SshTransport:
    """`Transport` over one SSH connection: one SFTP channel for all files, and one channel for each script."""

    def __init__(self, connection: asyncssh.SSHClientConnection, timeouts: Timeouts) -> None:
        self._connection, self._timeouts = connection, timeouts
        self._sftp: asyncssh.SFTPClient | None = None
        self.channels = 0

    async def run(self, path: str) -> Run:
        """As Transport says. Ends the connection when nothing comes for as long as a channel may be silent."""
        session = _Session()
        self.channels += 1
        channel, _ = await self._limited(
            self._connection.create_session(lambda: session, script.command(path), encoding=None, request_pty=False)
        )
        channel.write_eof()
        while not session.ended.is_set():
            session.progress.clear()
            try:
                async with asyncio.timeout(self._timeouts.progress):
                    await session.progress.wait()
            except TimeoutError:
                self._connection.abort()
                raise self._silent() from None
        if session.status is None:
            raise ConnectionLost("the connection ended while a script was running")
        text = b"".join(session.output).decode("ascii", "replace")
        return Run(session.status == 0, tuple(line.strip() for line in text.splitlines() if line.strip()))

    async def create(self, path: str, data: bytes) -> None:
        """As Transport says."""
        sftp = await self._files()
        flags = asyncssh.FXF_READ | asyncssh.FXF_WRITE | asyncssh.FXF_CREAT | asyncssh.FXF_EXCL
        file = cast(_File, await self._asked(sftp.open(path, flags, encoding=None, block_size=0), path))
        blocks = range(0, max(len(data), 1), _BLOCK)
        # requests of one channel are answered in order, so the reads see what was written
        writes = asyncio.gather(*(file.write(data[start : start + _BLOCK], start) for start in blocks))
        reads = asyncio.gather(*(file.read(_BLOCK, start) for start in blocks))
        _, held, _ = await self._asked(asyncio.gather(writes, reads, file.close()), path)
        if b"".join(held) != data:
            raise FileRefused(f"{path} does not hold what was written to it")

    async def read(self, path: str, size: int) -> bytes | None:
        """As Transport says."""
        sftp = await self._files()
        try:
            opened = await self._limited(sftp.open(path, asyncssh.FXF_READ, encoding=None, block_size=0))
        except (asyncssh.SFTPNoSuchFile, asyncssh.SFTPNoSuchPath):
            return None
        except asyncssh.SFTPError as error:
            raise _refused(error, path) from None
        file = cast(_File, opened)
        reads = asyncio.gather(*(file.read(min(_BLOCK, size - start), start) for start in range(0, size, _BLOCK)))
        blocks, _ = await self._asked(asyncio.gather(reads, file.close()), path)
        return b"".join(blocks)

    async def modified(self, path: str) -> int | None:
        """As Transport says."""
        found = await self.look(path)
        return found.modified if found else None

    async def send(self, path: str, chunks: AsyncIterator[bytes], offset: int, modified: int) -> None:
        """As Transport says."""
        sftp = await self._files()
        flags = asyncssh.FXF_WRITE | asyncssh.FXF_CREAT | (0 if offset else asyncssh.FXF_TRUNC)
        file = cast(_File, await self._asked(sftp.open(path, flags, encoding=None), path))
        try:
            async for chunk in chunks:
                await self._asked(file.write(chunk, offset), path)
                offset += len(chunk)
            await self._asked(file.setstat(asyncssh.SFTPAttrs(atime=modified, mtime=modified)), path)
        except FileRefused:
            await self._asked(file.close(), path)
            raise
        await self._asked(file.close(), path)

    async def look(self, path: str) -> Found | None:
        """As Transport says."""
        sftp = await self._files()
        try:
            attributes = await self._limited(sftp.stat(path))
            directory = attributes.type == asyncssh.FILEXFER_TYPE_DIRECTORY
            return Found(attributes.size or 0, attributes.mtime or 0, directory)
        except (asyncssh.SFTPNoSuchFile, asyncssh.SFTPNoSuchPath):
            return None
        except asyncssh.SFTPError as error:
            raise _refused(error, path) from None

    async def names(self, path: str) -> Sequence[str]:
        """As Transport says."""
        sftp = await self._files()
        try:
            found = await self._limited(sftp.listdir(path))
        except (asyncssh.SFTPNoSuchFile, asyncssh.SFTPNoSuchPath):
            return ()
        except asyncssh.SFTPError as error:
            raise _refused(error, path) from None
        return [name for name in found if name not in (".", "..")]

    async def rename(self, old: str, new: str) -> None:
        """As Transport says."""
        sftp = await self._files()
        await self._asked(sftp.rename(old, new), new)

    async def make_directory(self, path: str) -> bool:
        """As Transport says."""
        sftp = await self._files()
        return await self._done(sftp.mkdir(path))

    async def remove(self, path: str) -> None:
        """As Transport says."""
        sftp = await self._files()
        try:
            await self._limited(sftp.remove(path))
        except (asyncssh.SFTPNoSuchFile, asyncssh.SFTPNoSuchPath):
            return
        except asyncssh.SFTPError as error:
            raise _refused(error, path) from None

    async def remove_directory(self, path: str) -> bool:
        """As Transport says."""
        sftp = await self._files()
        return await self._done(sftp.rmdir(path))

    async def _files(self) -> asyncssh.SFTPClient:
        if self._sftp is None:
            self.channels += 1
            self._sftp = await self._limited(self._connection.start_sftp_client())
        return self._sftp

    async def _asked(self, request: Awaitable[_T], path: str) -> _T:
        try:
            return await self._limited(request)
        except asyncssh.SFTPError as error:
            raise _refused(error, path) from None

    async def _done(self, request: Awaitable[None]) -> bool:
        try:
            await self._limited(request)
        except asyncssh.SFTPError:
            return False
        return True

    async def _limited(self, request: Awaitable[_T]) -> _T:
        """The answer to a request, which must come within the time that a channel may make no progress."""
        try:
            async with asyncio.timeout(self._timeouts.progress):
                return await request
        except TimeoutError:
            self._connection.abort()
            raise self._silent() from None
        except (asyncssh.SFTPConnectionLost, asyncssh.SFTPNoConnection, asyncssh.DisconnectError, OSError):
            raise ConnectionLost("the connection ended in the middle of a pass") from None
        except asyncssh.ChannelOpenError as error:
            raise ConnectionLost(f"the host opened no further channel ({error.reason})") from None

    def _silent(self) -> HostError:
        return ConnectionLost(f"the host made no progress for {self._timeouts.progress:g} s")


@asynccontextmanager
async def ssh(access: Access, host_keys: HostKeys, timeouts: Timeouts) -> AsyncIterator[SshTransport]:
    """A transport over a connection of its own. Raises HostError."""
    async with connect(access, host_keys, timeouts) as connection:
        yield SshTransport(connection, timeouts)


class _Session(asyncssh.SSHClientSession[bytes]):
    """Collects what a script prints, and its exit code; what it says on standard error is progress alone."""

    def __init__(self) -> None:
        self.output: list[bytes] = []
        self.status: int | None = None
        self.progress = asyncio.Event()
        self.ended = asyncio.Event()
        self._size = 0

    def data_received(self, data: bytes, datatype: asyncssh.DataType) -> None:
        if datatype is None and self._size < _OUTPUT_LIMIT:
            self.output.append(data)
            self._size += len(data)
        self.progress.set()

    def exit_status_received(self, status: int) -> None:
        self.status = status

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set()
        self.progress.set()


def _refused(error: asyncssh.SFTPError, path: str) -> HostError:
    match error:
        case asyncssh.SFTPConnectionLost() | asyncssh.SFTPNoConnection():
            return ConnectionLost("the connection ended in the middle of a pass")
        case asyncssh.SFTPNoSpaceOnFilesystem() | asyncssh.SFTPQuotaExceeded():
            return FileRefused(f"{path}: the disk of the host is full")
        case asyncssh.SFTPPermissionDenied() | asyncssh.SFTPWriteProtect():
            return FileRefused(f"{path}: the user may not do this; it must be an administrator of the host")
        case asyncssh.SFTPNoSuchFile() | asyncssh.SFTPNoSuchPath():
            return FileRefused(f"{path}: there is no such file or directory")
        case _:
            return FileRefused(f"{path}: {_FAILURE}")
