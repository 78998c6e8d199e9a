r"""`C:\Windows\Transom` on a host: what lies there, under which names, and how it is cleaned."""

import asyncio
import re
import secrets
from collections.abc import Awaitable, Iterable, Sequence

from transom.hosts.errors import DirectoryNotOurs, FileRefused, NotAdministrator
from transom.hosts.owner import Owner
from transom.hosts.scripts import Base
from transom.hosts.scripts.template import BASE, Script
from transom.hosts.ssh.transport import ATTEMPTS, BETWEEN_ATTEMPTS, Transport

SFTP_BASE = BASE.replace("\\", "/")
_STALE = 3600
"""Seconds after which another owner's left-over is nobody's."""
# g: gathered, p: a pass, t and v: a lock that was to be taken, or was taken away, f: what an earlier version left
_TEMPORARY = re.compile(r"[fgptv]-([0-9a-f]{8})-[0-9a-f]{1,32}(?:\.tmp)?")
_KEPT = re.compile(r"gather-[0-9a-f]{12}\.cmd(?:\.[0-9a-f]{1,32})?|generation(?:-[0-9a-f]{8})?|s-[0-9a-f]{64}(?:\.part)?")
_LOCK = re.compile("lock")


def remote(*names: str) -> str:
    """The SFTP path of something in the base directory."""
    return "/".join((SFTP_BASE, *names))


def local(*names: str) -> str:
    r"""Its path as Windows writes it."""
    return "\\".join((BASE, *names))


class Directory:
    """The base directory as one owner uses it over one transport."""

    def __init__(self, transport: Transport, owner: Owner, *, alone: bool = True) -> None:
        self.transport, self.owner = transport, owner
        self._alone = alone
        """Whether no other process of this owner is at work on the host: what it left is then nobody's."""
        self._seen: set[str] = set()
        """The scripts that this pass has compared."""
        self.base: Base = "found"
        """`closed` once it is known that nobody but administrators can have put anything there."""

    async def prepare(self) -> None:
        """Make the directory if it is not there. A host that was worked on before needs no call. Raises HostError."""
        if await self.transport.make_directory(SFTP_BASE):
            self.base = "made"
        elif await self.transport.look(SFTP_BASE) is None:
            raise NotAdministrator(
                f"{BASE} cannot be made: the user must be an administrator of the host, and Windows has to lie in C:\\Windows"
            )

    async def has(self, script: Script) -> bool:
        """Whether the script is there as it should be; looked at once in a pass. Raises FileRefused for other content."""
        if script.name in self._seen:
            return True
        present = await self.transport.read(remote(script.name), len(script.content) + 1)
        if present is not None and present != script.content:
            raise FileRefused(
                f"{local(script.name)} was changed by somebody; remove it, and see who can write to {BASE}",
            )
        if present is not None:
            self._seen.add(script.name)
        return present is not None

    async def install(self, script: Script, suffix: str) -> None:
        """Put a script that is not there yet; it gets its name when it is complete. Raises FileRefused."""
        await self.transport.create(remote(f"{script.name}.{suffix}"), script.content)
        try:
            await self.rename(f"{script.name}.{suffix}", script.name)
        except FileRefused:
            # another pass was quicker; its script is the same, or `has` says so
            await self.transport.remove(remote(f"{script.name}.{suffix}"))
            if not await self.has(script):
                raise

    def new_name(self) -> str:
        """A name for the directory of one script: what a cut pass leaves under it is known as this owner's."""
        return f"p-{self.owner.tag}-{secrets.token_hex(4)}"

    async def put(self, name: str, files: Sequence[Script]) -> None:
        """A directory of files, all or none: they get its name when every one of them is complete. Raises FileRefused."""
        temporary = f"{name}.tmp"
        try:
            if not await self.transport.make_directory(remote(temporary)):
                raise FileRefused(f"{local(temporary)} cannot be made (is the disk full?)")
            await asyncio.gather(*(self.transport.create(remote(temporary, file.name), file.content) for file in files))
            await self.rename(temporary, name)
        except (FileRefused, asyncio.CancelledError):
            await self.remove(temporary)
            raise

    async def rename(self, old: str, new: str) -> None:
        """Give something its name, again and again for a while: a virus scanner may have it open. Raises FileRefused."""
        for _ in range(ATTEMPTS - 1):
            try:
                return await self.transport.rename(remote(old), remote(new))
            except FileRefused:
                if await self.transport.modified(remote(new)) is not None:
                    raise
                await asyncio.sleep(BETWEEN_ATTEMPTS)
        return await self.transport.rename(remote(old), remote(new))

    async def check_made(self) -> None:
        """After a directory that we made was closed: nobody may have put anything into it before. Raises DirectoryNotOurs."""
        # another owner's first pass at this very moment is no stranger
        known = (_TEMPORARY, _KEPT, _LOCK)
        names = await self.transport.names(SFTP_BASE)
        if not all(any(pattern.fullmatch(name) for pattern in known) for name in names):
            raise DirectoryNotOurs(f"{BASE} holds things that Transom did not put there; look who made it, and remove it")

    async def remove(self, directory: str, files: Sequence[str] = ()) -> bool:
        """Remove a temporary directory; `files` are those that should be all that is in it. Whether it is gone.

        It is tried for a while, since a virus scanner may read what was just written. What a process has open for longer
        stays, and its directory with it; the next pass finds them again.
        """
        if files and await self._remove(directory, files):
            return True
        for attempt in range(ATTEMPTS):
            await asyncio.sleep(BETWEEN_ATTEMPTS if attempt else 0)
            if await self._remove_all(directory):
                return True
        return False

    async def _remove_all(self, directory: str) -> bool:
        return await self._remove(directory, await self.transport.names(remote(directory)))

    async def _remove(self, directory: str, files: Sequence[str]) -> bool:
        paths = [remote(directory, name) for name in files]
        return (await self._remove_files(paths, self.transport.remove_directory(remote(directory))))[-1] is True

    async def _remove_files(self, paths: Iterable[str], *last: Awaitable[object]) -> list[object]:
        """Remove files, those that a process has open excepted, and then what comes last; all are asked for at once."""
        answers = await asyncio.gather(*map(self.transport.remove, paths), *last, return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException) and not isinstance(answer, FileRefused):
                raise answer
        return answers

    async def tidy(self, left: Sequence[str], reference: str) -> None:
        """Remove what cut passes left: our own at once, another's after an hour by the clock of `reference`, which is ours."""
        now: int | None = None
        for name in left:
            owned = _TEMPORARY.fullmatch(name)
            if not owned:
                continue
            if owned[1] != self.owner.tag or not self._alone:
                now = now if now is not None else await self.transport.modified(remote(reference))
                age = (now or 0) - (await self.transport.modified(remote(name)) or 0)
                if age < _STALE:
                    continue
            if name.startswith("p-") and await self.transport.modified(remote("lock", name)) is not None:
                continue
            await self._remove_all(name)

    async def dismantle(self) -> bool:
        """Remove everything of ours and the directory, unless somebody else is at work there. Whether it is gone."""
        if not self._alone:
            # the other process is about to run what lies there
            return False
        for attempt in range(ATTEMPTS):
            # the last act of a job may still be going on
            await asyncio.sleep(BETWEEN_ATTEMPTS if attempt else 0)
            names = await self.transport.names(SFTP_BASE)
            if any(not self._is_ours(name) for name in names):
                return False
            for name in filter(_TEMPORARY.fullmatch, names):
                await self._remove_all(name)
            await self._remove_files(remote(name) for name in names if _KEPT.fullmatch(name))
            if await self.transport.remove_directory(SFTP_BASE):
                return True
        return False

    async def restore(self, before: Sequence[str]) -> None:
        """Remove what has come to these names since; the whole directory where there were none."""
        if not before:
            await self.dismantle()
            return
        added = set(await self.transport.names(SFTP_BASE)) - set(before)
        for name in filter(_TEMPORARY.fullmatch, filter(self._is_ours, added)):
            await self.remove(name)
        await self._remove_files(remote(name) for name in added if _KEPT.fullmatch(name))

    def _is_ours(self, name: str) -> bool:
        owned = _TEMPORARY.fullmatch(name)
        return (self._alone and owned[1] == self.owner.tag) if owned else _KEPT.fullmatch(name) is not None
