"""The three things that are asked of a host: put files, run a script, fetch files; SSH is the first way to do them."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, Protocol, TypeVar, cast

import asyncssh
import msgspec
from asyncssh.packet import PacketDecodeError

from transom.hosts import scripts
from transom.hosts.errors import ConnectionLost, FileRefused, HostError
from transom.hosts.ssh import SPOKEN_LIMIT, Access, CommandSession, Silence, Timeouts, connect
from transom.hosts.ssh.known_hosts import HostKeys
from transom.shown import shown
from transom.windows.nodes import address

_T = TypeVar("_T")
# draft-ietf-secsh-filexfer-02, 3: every server takes reads and writes of this size
_BLOCK = 32768
_WINDOW = 32
"""Blocks that are asked for at one time: what a server that sends more than was asked for can send of it."""
_PACKET = 256 * 1024
"""Bytes of an answer to one SFTP request; OpenSSH's client takes no more (sftp-common.h, SFTP_MAX_MSG_LENGTH)."""
_NAMES = 2000
"""Entries of a directory; one of ours holds some hundred."""
ATTEMPTS, BETWEEN_ATTEMPTS = 20, 0.4
"""How often something is tried that a virus scanner may be in the way of, and the seconds between."""
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
    reached: str
    """The IP address that the connection goes to, whatever name it was asked for by."""
    server: str
    """The version that its SSH server gives itself; printable."""

    async def run(self, path: str) -> Run:
        """Run the script at `path` to its end."""
        ...

    async def at_prompt(self, line: str) -> bytes:
        """What a command prompt prints that reads this line from its standard input: nothing of ours is run on the host."""
        ...

    async def create(self, path: str, data: bytes) -> None:
        """Write a file that is not there yet, and see that it holds `data`. Raises FileRefused."""
        ...

    async def read(self, path: str, size: int) -> bytes | None:
        """The first `size` bytes of a file, or all that it has; None where there is no such file. Raises FileRefused."""
        ...

    async def digest(self, path: str, size: int) -> str | None:
        """The SHA-256 of what `read` gives, in hex, with no more than a part of it in memory. Raises FileRefused."""
        ...

    async def modified(self, path: str) -> int | None:
        """When a file or directory changed, in seconds of the host's clock; None where there is none. Raises FileRefused."""
        ...

    async def look(self, path: str) -> Found | None:
        """What is at a path; None where there is nothing. Raises FileRefused."""
        ...

    async def send(self, path: str, chunks: AsyncIterator[bytes], offset: int, modified: int) -> None:
        """Write a file from `offset` on, one chunk after the other, and then give it its time. Raises FileRefused."""
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
        self.silence = Silence(timeouts.progress, connection.abort)
        self._sftp: asyncssh.SFTPClient | None = None
        self.channels = 0
        peer = connection.get_extra_info("peername")
        self.reached = (address(str(peer[0])) if peer else None) or ""
        self.server = shown(str(connection.get_extra_info("server_version") or ""))

    async def run(self, path: str) -> Run:
        """As Transport says. Ends the connection when nothing comes for as long as a channel may be silent."""
        session = await self._carried_out(path, b"")
        text = b"".join(session.output).decode("ascii", "replace")
        return Run(session.status == 0, tuple(line.strip() for line in text.splitlines() if line.strip()))

    async def at_prompt(self, line: str) -> bytes:
        """As Transport says. Ends the connection when nothing comes for as long as a channel may be silent."""
        session = await self._carried_out(scripts.PROMPT, f"{line}\r\n".encode("ascii"))
        return b"".join(session.output)

    async def _carried_out(self, path: str, typed: bytes) -> CommandSession:
        session = CommandSession()
        self.channels += 1
        channel, _ = await self._limited(
            self._connection.create_session(lambda: session, scripts.command(path), encoding=None, request_pty=False)
        )
        if typed:
            # a command that has ended reads nothing; what it came to is seen below
            with suppress(BrokenPipeError):
                channel.write(typed)
        channel.write_eof()
        self.silence.begin(session)
        try:
            while not session.ended.is_set():
                self.silence.begin(session)
                session.progress.clear()
                await session.progress.wait()
                if session.spoken > SPOKEN_LIMIT:
                    self._connection.abort()
                    await session.ended.wait()
        finally:
            self.silence.end(session)
        if session.spoken > SPOKEN_LIMIT:
            raise ConnectionLost(f"a script said more than {SPOKEN_LIMIT:,} bytes")
        if session.status is None:
            raise self._lost("the connection ended while a script was running")
        return session

    async def create(self, path: str, data: bytes) -> None:
        """As Transport says."""
        sftp = await self._files()
        flags = asyncssh.FXF_READ | asyncssh.FXF_WRITE | asyncssh.FXF_CREAT | asyncssh.FXF_EXCL
        file = cast(_File, await self._asked(sftp.open(path, flags, encoding=None, block_size=0), path))
        for start in range(0, max(len(data), 1), _BLOCK * _WINDOW):
            blocks = range(start, min(start + _BLOCK * _WINDOW, max(len(data), 1)), _BLOCK)
            # requests of one channel are answered in order, so the reads see what was written, and all come in one round trip
            writes = (file.write(data[at : at + _BLOCK], at) for at in blocks)
            reads = (file.read(_BLOCK, at) for at in blocks)
            last = (file.close(),) if blocks.stop >= len(data) else ()
            answers: list[Any] = await self._asked(asyncio.gather(*writes, *reads, *last), path)
            if b"".join(answers[len(blocks) : 2 * len(blocks)]) != data[start : start + _BLOCK * _WINDOW]:
                raise FileRefused(f"{path} does not hold what was written to it")

    async def read(self, path: str, size: int) -> bytes | None:
        """As Transport says."""
        arrived = bytearray()
        return bytes(arrived) if await self._read(path, size, arrived.extend) else None

    async def digest(self, path: str, size: int) -> str | None:
        """As Transport says."""
        hashed = hashlib.sha256()
        return hashed.hexdigest() if await self._read(path, size, hashed.update) else None

    async def _read(self, path: str, size: int, take: Callable[[bytes], object]) -> bool:
        """Hand what is read to `take`, in its order; whether there is such a file."""
        sftp = await self._files()
        try:
            opened = await self._limited(sftp.open(path, asyncssh.FXF_READ, encoding=None, block_size=0))
        except (asyncssh.SFTPNoSuchFile, asyncssh.SFTPNoSuchPath):
            return False
        except asyncssh.SFTPError as error:
            raise _refused(error, path) from None
        file = cast(_File, opened)
        for start in range(0, size, _BLOCK * _WINDOW):
            sizes = [min(_BLOCK, size - at) for at in range(start, min(start + _BLOCK * _WINDOW, size), _BLOCK)]
            reads = (file.read(asked, start + _BLOCK * n) for n, asked in enumerate(sizes))
            last = (file.close(),) if start + sum(sizes) == size else ()
            answers: list[Any] = await self._asked(asyncio.gather(*reads, *last), path)
            blocks, closed = answers[: len(sizes)], answers[len(sizes) :]
            if any(len(block) > asked for block, asked in zip(blocks, sizes, strict=True)):
                self._connection.abort()
                raise FileRefused(f"{path}: the host sends more than it was asked for")
            take(b"".join(blocks))
            if not closed and len(blocks[-1]) < sizes[-1]:
                await self._asked(file.close(), path)
                break
        return True

    async def modified(self, path: str) -> int | None:
        """As Transport says."""
        found = await self.look(path)
        return found.modified if found else None

    async def send(self, path: str, chunks: AsyncIterator[bytes], offset: int, modified: int) -> None:
        """As Transport says."""
        sftp = await self._files()
        flags = asyncssh.FXF_WRITE | asyncssh.FXF_CREAT | (0 if offset else asyncssh.FXF_TRUNC)
        opening = partial(sftp.open, path, flags, encoding=None, block_size=0)
        file = cast(_File, await persistently(lambda: self._asked(opening(), path), bool(offset)))
        block = max(_BLOCK, sftp.limits.max_write_len)
        try:
            async for chunk in chunks:
                writes = (file.write(chunk[at : at + block], offset + at) for at in range(0, len(chunk), block))
                await self._asked(asyncio.gather(*writes), path)
                offset += len(chunk)
        finally:
            await self._asked(file.close(), path)
        # NTFS sets the time when the handle closes that wrote, whatever was set before ([MS-FSA] 2.1.4.17), and sftp-server
        # opens the file anew to set it, which it cannot while somebody reads (Win32-OpenSSH, misc.c, `settimes`)
        times = asyncssh.SFTPAttrs(atime=modified, mtime=modified)
        await persistently(lambda: self._asked(sftp.setstat(path, times), path))

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
        found: list[str] = []
        entries = sftp.scandir(path)
        try:
            while (entry := await self._limited(anext(entries, None))) is not None:
                # a path that is text is answered with names that are
                found.append(cast(str, entry.filename))
                if len(found) > _NAMES:
                    self._connection.abort()
                    raise FileRefused(f"{path} holds more than {_NAMES:,} files; remove what is not Transom's")
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
            try:
                self._sftp = await self._limited(self._connection.start_sftp_client())
            except asyncssh.SFTPError:
                raise ConnectionLost("the host's SFTP server does not speak SFTP") from None
            _bound(self._sftp)
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
        this = object()
        self.silence.begin(this)
        try:
            return await request
        except (asyncssh.SFTPConnectionLost, asyncssh.SFTPNoConnection, asyncssh.DisconnectError, OSError):
            raise self._lost("the connection ended in the middle of a pass") from None
        except (PacketDecodeError, UnicodeError):
            # asyncssh lets through what it cannot read in an answer
            self._connection.abort()
            raise ConnectionLost("the host sends what is no SSH") from None
        except asyncssh.ChannelOpenError as error:
            raise self._lost(f"the host opened no further channel ({error.reason})") from None
        finally:
            self.silence.end(this)

    def _lost(self, why: str) -> HostError:
        """What is said of a connection that ended: where this side ended it, since nothing came any more, that."""
        return ConnectionLost(f"the host made no progress for {self._timeouts.progress:g} s" if self.silence.told else why)


async def persistently(request: Callable[[], Awaitable[_T]], again: bool = True) -> _T:
    """What a request brings, which is made again and again for 8 s while it is refused. Raises FileRefused, ConnectionLost."""
    for _ in range(ATTEMPTS - 1 if again else 0):
        try:
            return await request()
        except FileRefused:
            await asyncio.sleep(BETWEEN_ATTEMPTS)
    return await request()


@asynccontextmanager
async def ssh(access: Access, host_keys: HostKeys, timeouts: Timeouts) -> AsyncIterator[SshTransport]:
    """A transport over a connection of its own. Raises HostError."""
    async with connect(access, host_keys, timeouts) as connection:
        transport = SshTransport(connection, timeouts)
        try:
            yield transport
        finally:
            transport.silence.stop()


def _bound(sftp: asyncssh.SFTPClient) -> None:
    """Have the client refuse an answer that is larger than any that it asks for: asyncssh takes 4 MiB."""
    reader = sftp._handler._reader  # nothing public sets it
    if reader is None:
        raise ConnectionLost("the connection ended in the middle of a pass")
    whole = reader.readexactly

    async def readexactly(n: int) -> bytes:
        if n > _PACKET:
            raise asyncssh.SFTPBadMessage("an answer of more than 256 kB")
        return await whole(n)

    reader.readexactly = readexactly  # type: ignore[method-assign]


def _refused(error: asyncssh.SFTPError, path: str) -> HostError:
    match error:
        case asyncssh.SFTPConnectionLost() | asyncssh.SFTPNoConnection():
            return ConnectionLost("the connection ended in the middle of a pass")
        case asyncssh.SFTPBadMessage():
            return FileRefused(f"{path}: what the host's SFTP server sends is no answer, or more than was asked for")
        case asyncssh.SFTPNoSpaceOnFilesystem() | asyncssh.SFTPQuotaExceeded():
            return FileRefused(f"{path}: the disk of the host is full")
        case asyncssh.SFTPPermissionDenied() | asyncssh.SFTPWriteProtect():
            return FileRefused(f"{path}: the user may not do this; it must be an administrator of the host")
        case asyncssh.SFTPNoSuchFile() | asyncssh.SFTPNoSuchPath():
            return FileRefused(f"{path}: there is no such file or directory")
        case _:
            return FileRefused(f"{path}: {_FAILURE}")
