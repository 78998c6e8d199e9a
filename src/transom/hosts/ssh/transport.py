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

from transom.common.escaping import escape_unprintable
from transom.hosts.errors import (
    ConnectionLost,
    FileBusy,
    FileRefused,
    ForcedCommand,
    HostError,
    SftpUnavailable,
)
from transom.hosts.scripts import host_scripts
from transom.hosts.ssh.incoming import REFUSAL
from transom.hosts.ssh.known_hosts import HostKeys
from transom.hosts.ssh.sftp import FORCED_REMEDY, SFTP_REMEDY, convert_sftp_error, explain_refused_channel, start_sftp
from transom.hosts.ssh.ssh_client import SPOKEN_LIMIT, Access, CommandSession, ProgressTimer, Timeouts, connect
from transom.windows.nodes.windows_instance import parse_ip_address

_T = TypeVar("_T")
# draft-ietf-secsh-filexfer-02, 3: every server takes reads and writes of this size
_BLOCK = 32768
_WINDOW = 32
"""Blocks that are asked for at one time: what a server that sends more than was asked for can send of it."""
_REASON = 200
"""Characters of a host's own words in an error."""
_NAMES = 2000
"""The maximum number of entries of a directory; Transom's have a few hundred."""
ATTEMPTS, BETWEEN_ATTEMPTS = 20, 0.4
"""How often something is tried that a virus scanner may be in the way of, and the seconds between."""
BUSY_SECONDS = float(host_scripts.SCAN_SECONDS)
_LONGEST_PAUSE = 3.0
"""For how long something is tried that the host refuses without a reason, and the most seconds between two attempts."""
_SFTP_ONLY = (b"This service allows sftp connections only",)
"""What OpenSSH says of a command where it is forced to be `internal-sftp` (openssh-portable, session.c)."""


class ScriptResult(msgspec.Struct, frozen=True):
    """How a script ended: whether its exit code was zero, and the lines of its standard output."""

    succeeded: bool
    lines: tuple[str, ...]


class FileStatus(msgspec.Struct, frozen=True):
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

    async def run(self, path: str) -> ScriptResult:
        """Run the script at `path` to its end."""
        ...

    async def run_at_prompt(self, line: str) -> bytes:
        """Return the output of a command prompt that reads this line from standard input; without a script file."""
        ...

    async def create(self, path: str, data: bytes) -> None:
        """Write a new file, and verify that it holds `data`. Raises FileRefused."""
        ...

    async def read(self, path: str, size: int) -> bytes | None:
        """Read the first `size` bytes of a file, or all if it is smaller; None if it does not exist. Raises FileRefused."""
        ...

    async def digest(self, path: str, size: int) -> str | None:
        """Return the SHA-256 of what `read` returns, in hex, without all of it in memory. Raises FileRefused."""
        ...

    async def read_modified(self, path: str) -> int | None:
        """When a file or directory changed, in seconds of the host's clock; None if it does not exist. Raises FileRefused."""
        ...

    async def read_status(self, path: str) -> FileStatus | None:
        """Return the status of the file or directory at a path; None if it does not exist. Raises FileRefused."""
        ...

    async def send(self, path: str, chunks: AsyncIterator[bytes], offset: int, modified: int) -> None:
        """Write a file from `offset` on, one chunk after the other, and then give it its time. Raises FileRefused."""
        ...

    async def list_names(self, path: str) -> Sequence[str]:
        """List the names in a directory, without `.` and `..`; none if it is missing. Raises FileRefused."""
        ...

    async def rename(self, old: str, new: str) -> None:
        """Give a file or directory another name; one that is taken is refused. Raises FileRefused."""
        ...

    async def make_directory(self, path: str) -> bool:
        """Create a directory; return False if it existed, or could not be created."""
        ...

    async def remove(self, path: str) -> None:
        """Remove a file; a missing one is not an error. Raises FileRefused."""
        ...

    async def remove_directory(self, path: str) -> bool:
        """Remove an empty directory; return True if it was removed."""
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
        self.silence = ProgressTimer(timeouts.progress, connection.abort)
        self._sftp: asyncssh.SFTPClient | None = None
        self.channels = 0
        peer = connection.get_extra_info("peername")
        self.reached = (parse_ip_address(str(peer[0])) if peer else None) or ""
        self.server = escape_unprintable(str(connection.get_extra_info("server_version") or ""))

    async def run(self, path: str) -> ScriptResult:
        """As Transport says. Ends the connection when nothing comes for as long as a channel may be silent."""
        session = await self._run_session(path, b"")
        text = b"".join(session.output).decode("ascii", "replace")
        return ScriptResult(session.status == 0, tuple(line.strip() for line in text.splitlines() if line.strip()))

    async def run_at_prompt(self, line: str) -> bytes:
        """As Transport says. Ends the connection when nothing comes for as long as a channel may be silent."""
        session = await self._run_session(host_scripts.PROMPT, f"{line}\r\n".encode("ascii"))
        return b"".join(session.output)

    async def _run_session(self, path: str, typed: bytes) -> CommandSession:
        session = CommandSession()
        self.channels += 1
        channel, _ = await self._await_request(
            self._connection.create_session(lambda: session, host_scripts.build_command(path), encoding=None, request_pty=False)
        )
        if typed:
            # a command that has ended reads nothing; what it came to is seen below
            with suppress(BrokenPipeError):
                channel.write(typed)
        channel.write_eof()
        self.silence.start_wait(session)
        try:
            while not session.ended.is_set():
                self.silence.start_wait(session)
                session.progress.clear()
                await session.progress.wait()
                if session.spoken > SPOKEN_LIMIT:
                    self._connection.abort()
                    await session.ended.wait()
        finally:
            self.silence.end_wait(session)
        if session.spoken > SPOKEN_LIMIT:
            raise ConnectionLost(f"a script said more than {SPOKEN_LIMIT:,} bytes")
        if session.status is None:
            raise self._build_connection_error("the connection ended while a script was running")
        if any(line in b"".join(session.output)[:_REASON] for line in _SFTP_ONLY):
            raise ForcedCommand(f"the SSH server of the host runs SFTP alone for this user. {FORCED_REMEDY}")
        return session

    async def create(self, path: str, data: bytes) -> None:
        """As Transport says."""
        sftp = await self._open_sftp()
        flags = asyncssh.FXF_READ | asyncssh.FXF_WRITE | asyncssh.FXF_CREAT | asyncssh.FXF_EXCL
        file = cast(_File, await self._await_file_request(sftp.open(path, flags, encoding=None, block_size=0), path))
        for start in range(0, max(len(data), 1), _BLOCK * _WINDOW):
            blocks = range(start, min(start + _BLOCK * _WINDOW, max(len(data), 1)), _BLOCK)
            # requests of one channel are answered in order, so the reads see what was written, and all come in one round trip
            writes = (file.write(data[at : at + _BLOCK], at) for at in blocks)
            reads = (file.read(_BLOCK, at) for at in blocks)
            last = (file.close(),) if blocks.stop >= len(data) else ()
            answers: list[Any] = await self._await_file_request(asyncio.gather(*writes, *reads, *last), path)
            if b"".join(answers[len(blocks) : 2 * len(blocks)]) != data[start : start + _BLOCK * _WINDOW]:
                raise FileRefused(f"{path} does not hold what was written to it")

    async def read(self, path: str, size: int) -> bytes | None:
        """As Transport says."""
        arrived = bytearray()
        return bytes(arrived) if await self._read_chunks(path, size, arrived.extend) else None

    async def digest(self, path: str, size: int) -> str | None:
        """As Transport says."""
        hashed = hashlib.sha256()
        return hashed.hexdigest() if await self._read_chunks(path, size, hashed.update) else None

    async def _read_chunks(self, path: str, size: int, take: Callable[[bytes], object]) -> bool:
        """Hand what is read to `take`, in its order; whether there is such a file."""
        sftp = await self._open_sftp()
        try:
            opened = await self._await_request(sftp.open(path, asyncssh.FXF_READ, encoding=None, block_size=0))
        except (asyncssh.SFTPNoSuchFile, asyncssh.SFTPNoSuchPath):
            return False
        except asyncssh.SFTPError as error:
            raise convert_sftp_error(error, path) from None
        file = cast(_File, opened)
        for start in range(0, size, _BLOCK * _WINDOW):
            sizes = [min(_BLOCK, size - at) for at in range(start, min(start + _BLOCK * _WINDOW, size), _BLOCK)]
            reads = (file.read(item, start + _BLOCK * n) for n, item in enumerate(sizes))
            last = (file.close(),) if start + sum(sizes) == size else ()
            answers: list[Any] = await self._await_file_request(asyncio.gather(*reads, *last), path)
            blocks, closed = answers[: len(sizes)], answers[len(sizes) :]
            if any(len(block) > item for block, item in zip(blocks, sizes, strict=True)):
                self._connection.abort()
                raise FileRefused(f"{path}: the host sends more than it was asked for")
            take(b"".join(blocks))
            if not closed and len(blocks[-1]) < sizes[-1]:
                await self._await_file_request(file.close(), path)
                break
        return True

    async def read_modified(self, path: str) -> int | None:
        """As Transport says."""
        status = await self.read_status(path)
        return status.modified if status else None

    async def send(self, path: str, chunks: AsyncIterator[bytes], offset: int, modified: int) -> None:
        """As Transport says."""
        sftp = await self._open_sftp()
        flags = asyncssh.FXF_WRITE | asyncssh.FXF_CREAT | (0 if offset else asyncssh.FXF_TRUNC)
        opening = partial(sftp.open, path, flags, encoding=None, block_size=0)
        file = cast(_File, await retry_refused(lambda: self._await_file_request(opening(), path), bool(offset)))
        block = max(_BLOCK, sftp.limits.max_write_len)
        try:
            async for chunk in chunks:
                writes = (file.write(chunk[at : at + block], offset + at) for at in range(0, len(chunk), block))
                await self._await_file_request(asyncio.gather(*writes), path)
                offset += len(chunk)
        except Exception:
            # not if the pass is cancelled: its connection ends, which closes the file, and no answer is awaited
            await self._await_file_request(file.close(), path)
            raise
        await self._await_file_request(file.close(), path)
        # NTFS sets the time when the handle closes that wrote, whatever was set before ([MS-FSA] 2.1.4.17), and sftp-server
        # opens the file anew to set it, which it cannot while another program reads (Win32-OpenSSH, misc.c, `settimes`)
        times = asyncssh.SFTPAttrs(atime=modified, mtime=modified)
        await retry_refused(lambda: self._await_file_request(sftp.setstat(path, times), path))

    async def read_status(self, path: str) -> FileStatus | None:
        """As Transport says."""
        sftp = await self._open_sftp()
        try:
            attributes = await self._await_request(sftp.stat(path))
            directory = attributes.type == asyncssh.FILEXFER_TYPE_DIRECTORY
            return FileStatus(attributes.size or 0, attributes.mtime or 0, directory)
        except (asyncssh.SFTPNoSuchFile, asyncssh.SFTPNoSuchPath):
            return None
        except asyncssh.SFTPError as error:
            raise convert_sftp_error(error, path) from None

    async def list_names(self, path: str) -> Sequence[str]:
        """As Transport says."""
        sftp = await self._open_sftp()
        filenames: list[str] = []
        entries = sftp.scandir(path)
        try:
            while (entry := await self._await_request(anext(entries, None))) is not None:
                # a path that is text is answered with names that are
                filenames.append(cast(str, entry.filename))
                if len(filenames) > _NAMES:
                    self._connection.abort()
                    raise FileRefused(f"{path} holds more than {_NAMES:,} files; remove what is not Transom's")
        except (asyncssh.SFTPNoSuchFile, asyncssh.SFTPNoSuchPath):
            return ()
        except asyncssh.SFTPError as error:
            raise convert_sftp_error(error, path) from None
        return [name for name in filenames if name not in (".", "..")]

    async def rename(self, old: str, new: str) -> None:
        """As Transport says."""
        sftp = await self._open_sftp()
        await self._await_file_request(sftp.rename(old, new), new)

    async def make_directory(self, path: str) -> bool:
        """As Transport says."""
        sftp = await self._open_sftp()
        return await self._try_request(sftp.mkdir(path))

    async def remove(self, path: str) -> None:
        """As Transport says."""
        sftp = await self._open_sftp()
        try:
            await self._await_request(sftp.remove(path))
        except (asyncssh.SFTPNoSuchFile, asyncssh.SFTPNoSuchPath):
            return
        except asyncssh.SFTPError as error:
            raise convert_sftp_error(error, path) from None

    async def remove_directory(self, path: str) -> bool:
        """As Transport says."""
        sftp = await self._open_sftp()
        return await self._try_request(sftp.rmdir(path))

    async def _open_sftp(self) -> asyncssh.SFTPClient:
        if self._sftp is None:
            self.channels += 1
            accepted = asyncio.Event()
            try:
                self._sftp = await self._await_request(start_sftp(self._connection, accepted.set))
            except asyncssh.SFTPError:
                raise self._build_connection_error("the host's SFTP server does not speak SFTP") from None
            except ConnectionLost:
                if not (self.silence.told and accepted.is_set()):
                    raise
                raise SftpUnavailable(
                    f"the host made no progress for {self._timeouts.progress:g} s (--channel-timeout) after its SSH server "
                    f"started SFTP. {SFTP_REMEDY}"
                ) from None
        return self._sftp

    async def _await_file_request(self, request: Awaitable[_T], path: str) -> _T:
        try:
            return await self._await_request(request)
        except asyncssh.SFTPError as error:
            raise convert_sftp_error(error, path) from None

    async def _try_request(self, request: Awaitable[None]) -> bool:
        try:
            await self._await_request(request)
        except asyncssh.SFTPError:
            return False
        return True

    async def _await_request(self, request: Awaitable[_T]) -> _T:
        """Await the answer to a request, within the time that a channel may make no progress."""
        this = object()
        self.silence.start_wait(this)
        try:
            return await request
        except (asyncssh.SFTPConnectionLost, asyncssh.SFTPNoConnection, asyncssh.DisconnectError, OSError):
            raise self._build_connection_error("the connection ended in the middle of a pass") from None
        except (PacketDecodeError, UnicodeError):
            # asyncssh lets through what it cannot read in an answer
            self._connection.abort()
            raise ConnectionLost("the host does not answer with SSH") from None
        except asyncssh.ChannelOpenError as error:
            # asyncssh refuses a channel before it counts a connection that has just ended as closed
            await asyncio.sleep(0)
            if self.silence.told or self._connection.is_closed():
                raise self._build_connection_error("the connection ended in the middle of a pass") from None
            raise explain_refused_channel(error) from None
        finally:
            self.silence.end_wait(this)

    def _build_connection_error(self, why: str) -> HostError:
        """Return what became of a connection; where this side ended it, the reason for that."""
        why = self._connection.get_extra_info(REFUSAL) or why
        silence = f"the host made no progress for {self._timeouts.progress:g} s (limit: `--channel-timeout`)"
        return ConnectionLost(silence if self.silence.told else why)


async def retry_refused(
    request: Callable[[], Awaitable[_T]],
    should_retry: bool = True,
    *,
    is_final: Callable[[], Awaitable[bool]] | None = None,
) -> _T:
    """Return the result of a request, retried for 8 s while it is refused. Raises FileRefused, ConnectionLost."""
    loop = asyncio.get_running_loop()
    begin, attempt, pause = loop.time(), 1, BETWEEN_ATTEMPTS
    while True:
        try:
            return await request()
        except FileRefused as error:
            longest = BUSY_SECONDS if isinstance(error, FileBusy) else ATTEMPTS * BETWEEN_ATTEMPTS
            is_over = attempt >= ATTEMPTS and loop.time() - begin + pause > longest
            if not should_retry or is_over or (is_final is not None and await is_final()):
                raise
        await asyncio.sleep(pause)
        attempt += 1
        if attempt > ATTEMPTS:
            pause = min(pause * 1.5, _LONGEST_PAUSE)


@asynccontextmanager
async def open_ssh(access: Access, host_keys: HostKeys, timeouts: Timeouts) -> AsyncIterator[SshTransport]:
    """Open a transport over a separate connection. Raises HostError."""
    async with connect(access, host_keys, timeouts) as connection:
        transport = SshTransport(connection, timeouts)
        try:
            yield transport
        finally:
            transport.silence.stop()
